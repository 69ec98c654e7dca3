#!/usr/bin/env bash
# Instructions of a hit and of a miss of the engine (callgrind), and whether they are above what has been reached. They
# are what a run with twice the requests takes more in the function that asks. A look is a hit of the cache whose
# entries lie apart, with a guard for each: 168.3 to 170.4 in ten runs, since each cache draws its hash.
#
# `scripts/instructions.sh policies [NAME ..]`: those of a look by each policy of the table, or by these. What a policy
# is told later is told by one thread within the count.
#
# `scripts/instructions.sh requests`: those of GET, SET, HSET, EXEC of 3 SETs, MGET of 10 and LEASE GET of cached keys
# by a session, alone and 16 in a batch. It builds the server in release mode first, which takes minutes.
#
# `scripts/instructions.sh watched`: those of GET while hits are counted by transactions, and while they are recorded.
set -euo pipefail
cd "$(dirname "$0")/.."

HIT_MAX=${HIT_MAX:-48}
MISS_MAX=${MISS_MAX:-720}
LOOK_MAX=${LOOK_MAX:-173}
GET_MAX=${GET_MAX:-1850}
SET_MAX=${SET_MAX:-6550}
HSET_MAX=${HSET_MAX:-9900}
EXEC_MAX=${EXEC_MAX:-31000}
MGET_MAX=${MGET_MAX:-15400}
LEASE_MAX=${LEASE_MAX:-4000}

if ! command -v valgrind >/dev/null || [ "$(uname -m)" != x86_64 ]; then
	echo 'instructions: NOT COUNTED: there is no valgrind, or this is no x86-64'
	exit 0
fi
target=${CARGO_TARGET_DIR:-target}/release
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# The instructions of the functions `$1` and all that they call, in the program and arguments that follow.
count() {
	valgrind --tool=callgrind --callgrind-out-file="$folder/out" --collect-atstart=no --toggle-collect="$1" "${@:2}" \
		>"$folder/log" 2>&1 || { cat "$folder/log"; return 1; }
	awk '/^summary:|^totals:/ {print $2; exit}' "$folder/out"
}

# Sets `per` to the instructions of the functions `$1` for one request, by the program and arguments that follow and
# how many requests.
measure() {
	local one two
	one=$(count "$1" "${@:2}" 50000)
	two=$(count "$1" "${@:2}" 100000)
	per=$(awk -v a="$one" -v b="$two" 'BEGIN {printf "%.1f", (b - a) / 50000}')
}

status=0
# `$1` of the functions `$2` takes at most `$3`, by the program and arguments that follow, and `$per` in fact.
check() {
	measure "$2" "${@:4}"
	echo "instructions of a $1: $per (at most $3)"
	awk -v per="$per" -v most="$3" 'BEGIN {exit !(per > 0 && per <= most)}' || status=1
}

if [ "${1:-}" = watched ]; then
	cargo build --release --locked -q -p forebay-bench --bin requests
	for name in get get-metered get-traced; do
		measure 'requests::counted*' "$target/requests" "$name" 16
		echo "instructions of a $name, 16 in a batch: $per"
	done
	exit 0
elif [ "${1:-}" = requests ]; then
	cargo build --release --locked -q -p forebay-bench --bin requests
	for kind in get:"$GET_MAX" set:"$SET_MAX" hset:"$HSET_MAX" exec:"$EXEC_MAX" mget:"$MGET_MAX" lease:"$LEASE_MAX"; do
		IFS=: read -r name most <<<"$kind"
		check "$name, 16 in a batch" 'requests::counted*' "$most" "$target/requests" "$name" 16
		check "$name alone" 'requests::counted*' $((most + 600 + most / 20)) "$target/requests" "$name" 1
	done
else
	cargo build --release --locked -q -p forebay-cache --example instructions
	if [ "${1:-}" = policies ]; then
		for name in "${@:2}" $([ $# -gt 1 ] || "$target/examples/instructions" policies); do
			measure 'instructions::looks*' "$target/examples/instructions" "look:$name"
			echo "instructions of a look by $name: $per"
		done
		exit 0
	fi
	for kind in hit:hits:$HIT_MAX miss:misses:$MISS_MAX look:looks:$LOOK_MAX; do
		IFS=: read -r name function most <<<"$kind"
		check "$name" "instructions::$function*" "$most" "$target/examples/instructions" "$name"
	done
fi
[ $status = 0 ] || echo 'instructions: above what has been reached: see crates/cache/src/engine/mod.rs'
exit $status
