#!/usr/bin/env bash
# Instructions of a hit and of a miss of the engine (callgrind), and whether they are above what has been reached. They
# are what a run with twice the requests takes more in the function that asks. A look is a hit of the cache whose
# entries lie apart, with a guard for each: 168.3 to 170.4 in ten runs, since each cache draws its hash.
set -euo pipefail
cd "$(dirname "$0")/.."

HIT_MAX=${HIT_MAX:-48}
MISS_MAX=${MISS_MAX:-720}
LOOK_MAX=${LOOK_MAX:-173}

if ! command -v valgrind >/dev/null || [ "$(uname -m)" != x86_64 ]; then
	echo 'instructions: NOT COUNTED: there is no valgrind, or this is no x86-64'
	exit 0
fi
cargo build --release --locked -q -p forebay-cache --example instructions
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# The instructions of the function `$2` and all that it calls, for `$3` requests of the kind `$1`.
count() {
	valgrind --tool=callgrind --callgrind-out-file="$folder/out" --collect-atstart=no \
		--toggle-collect="instructions::$2*" "${CARGO_TARGET_DIR:-target}/release/examples/instructions" "$1" "$3" \
		>"$folder/log" 2>&1 || { cat "$folder/log"; return 1; }
	awk '/^summary:|^totals:/ {print $2; exit}' "$folder/out"
}

status=0
for kind in hit:hits:$HIT_MAX miss:misses:$MISS_MAX look:looks:$LOOK_MAX; do
	IFS=: read -r name function most <<<"$kind"
	one=$(count "$name" "$function" 50000)
	two=$(count "$name" "$function" 100000)
	per=$(awk -v a="$one" -v b="$two" 'BEGIN {printf "%.1f", (b - a) / 50000}')
	echo "instructions of a $name: $per (at most $most)"
	awk -v per="$per" -v most="$most" 'BEGIN {exit !(per > 0 && per <= most)}' || status=1
done
[ $status = 0 ] || echo 'instructions: above what has been reached: see crates/cache/src/engine/mod.rs'
exit $status
