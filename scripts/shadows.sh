#!/usr/bin/env bash
# What shadows cost a server: its processor time for each request, user and system, all threads, without shadows, with
# four of them (one policy at four sizes), and with a sample. Runs are interleaved; medians, and p99 by redis-benchmark.
#
# `scripts/shadows.sh [RUNS]` builds nothing: it takes the release binary, and needs redis-benchmark.
set -euo pipefail
cd "$(dirname "$0")/.."

RUNS=${1:-7}
KEYS=${KEYS:-100000}
REQUESTS=${REQUESTS:-400000}
PORT=${PORT:-7711}
forebay=${FOREBAY:-${CARGO_TARGET_DIR:-target}/release/forebay}
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$folder"' EXIT

# Ticks of the server's processor time so far.
ticks() {
	awk '{print $14 + $15}' "/proc/$server/stat"
}

# One run of `$1` with the arguments that follow: microseconds of a request, and p99 in ms, for each load.
run() {
	local name=$1 load before after p99
	shift
	"$forebay" serve --listen "127.0.0.1:$PORT" --http off --store memory --memory 64MiB --policy s3-fifo --threads 1 \
		--log-level error "$@" >"$folder/banner" 2>&1 &
	server=$!
	until redis-cli -p "$PORT" PING >/dev/null 2>&1; do sleep 0.1; done
	redis-benchmark -p "$PORT" -t set -r "$KEYS" -n $((2 * KEYS)) -d 300 -P 32 -q >/dev/null
	for load in 'get 1' 'get 16' 'set 1'; do
		read -r command pipeline <<<"$load"
		before=$(ticks)
		p99=$(redis-benchmark -p "$PORT" -t "$command" -r "$KEYS" -n "$REQUESTS" -d 300 -P "$pipeline" --csv |
			awk -F, 'END {gsub(/"/, "", $7); print $7}')
		after=$(ticks)
		echo "$name|$command $pipeline|$(((after - before) * 10000000 / REQUESTS))|$p99" >>"$folder/figures"
	done
	kill "$server"
	wait "$server" || true
	server=
}

for _ in $(seq "$RUNS"); do
	run none
	run four --shadow s3-fifo --shadow-memory 16MiB
	run sample --shadow s3-fifo --shadow-memory 16MiB --shadow-sample 16
done
echo "load, shadows: ns of processor time a request (median, range), median p99 in ms; $RUNS runs of $REQUESTS"
for load in 'get 1' 'get 16' 'set 1'; do
	for name in none four sample; do
		of=$(grep "^$name|$load|" "$folder/figures")
		middle() { cut -d'|' -f"$1" <<<"$of" | sort -n | sed -n "$(((RUNS + 1) / 2))p"; }
		range=$(cut -d'|' -f3 <<<"$of" | sort -n | sed -n '1p;$p' | paste -sd' ' | sed 's/ / to /')
		echo "$load, $name: $(middle 3) ($range), p99 $(middle 4)"
	done
done
