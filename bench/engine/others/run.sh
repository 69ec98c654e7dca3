#!/usr/bin/env bash
# Caffeine (Java) and otter (Go) beside the engine. Their programs and ours take turns, so that what else the machine
# does hits all of them. It needs a JDK, Maven and Go, and `target/dist/engine` (`make bench-engine`).
#
# ROUNDS=3 THREADS='1 2' REQUESTS=1048576 ENGINE=../../../target/dist/engine
set -euo pipefail
cd "$(dirname "$0")"
rounds=${ROUNDS:-3} threads=${THREADS:-1 2} requests=${REQUESTS:-1048576} engine=${ENGINE:-../../../target/dist/engine}
caffeine=com.github.ben-manes.caffeine:caffeine:3.2.3

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mvn -q dependency:copy -Dartifact=$caffeine -DoutputDirectory="$folder"
javac -cp "$folder/*" -d "$folder" Caffeine.java
(cd otter && go build -o "$folder/otter" .)

load() { cut -d' ' -f1-3 /proc/loadavg; }

echo "$(nproc) processors, load average before: $(load); medians of $rounds rounds in turn, Mops over all threads."
for round in $(seq "$rounds"); do
	for mode in hit get-or-insert; do
		for n in $threads; do
			"$engine" --no-memory --runs 1 --modes $mode --threads "$n" --requests "$requests" \
				--only forebay,forebay-cache,moka 2>&1 >"$folder/table" | sed "s/^.*, $n threads/$mode, $n threads/"
			java -cp "$folder/*:$folder" Caffeine $mode "$n" 1 "$requests"
			"$folder/otter" $mode "$n" 1 "$requests"
		done
	done
done | tee /dev/stderr | awk -F'[ ,:]+' '
	{ row = $1 ", " $2 " threads: " $6; if (!(row in count)) order[++rows] = row
	  rate[row, ++count[row]] = $7; hits[row] += $9 }
	END {
		for (at = 1; at <= rows; at++) {
			row = order[at]; n = count[row]
			for (i = 1; i <= n; i++) for (j = i + 1; j <= n; j++) if (rate[row, j] + 0 < rate[row, i] + 0) {
				less = rate[row, j]; rate[row, j] = rate[row, i]; rate[row, i] = less
			}
			printf "%s %s (%s to %s), hit %.1f %%\n", row, rate[row, int((n + 1) / 2)], rate[row, 1], rate[row, n],
				100 * hits[row] / n
		}
	}'
echo "load average after: $(load)"
