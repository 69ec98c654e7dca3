#!/usr/bin/env bash
# Holds the builds to their budgets, each from an empty target folder:
#
#   make run     at most 4 minutes on two idle cores: 480 seconds of processor time
#   released     the binary of `make dist` has at most 40 MB
#   cache        the library forebay-cache is at most 12 crates with all that it needs, as Cargo.lock has them
#
#   scripts/budgets.sh        all
#   scripts/budgets.sh run    one of them: run, released, cache
#
# Processor time is judged, because it is nearly the same on a busy machine.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$HOME/.cargo/bin:$PATH"

run_cpu_seconds_max=480
released_bytes_max=40000000
cache_crates_max=12

what="${1:-all}"
case "$what" in
all | run | released | cache) ;;
*) echo "budgets: usage: scripts/budgets.sh [run|released|cache]" >&2 && exit 2 ;;
esac
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
failed=0

judge() { # name, value, limit, unit
    local verdict=ok
    [ "$2" -le "$3" ] || { verdict='TOO MUCH' failed=1; }
    printf 'budgets: %-26s %9d %s, at most %d: %s\n' "$1" "$2" "$4" "$3" "$verdict"
}

if [ "$what" = all ] || [ "$what" = cache ]; then
    crates="$(cargo tree --locked -e normal -p forebay-cache --prefix none | sed 's/ (.*//' | sort -u | wc -l)"
    judge 'crates of forebay-cache' "$crates" "$cache_crates_max" crates
fi
if [ "$what" = all ] || [ "$what" = run ]; then
    TIMEFORMAT='%0R %0U %0S'
    # Downloads are no part of the budget.
    cargo fetch --locked
    times="$( { time CARGO_TARGET_DIR="$folder/run" cargo build -q --profile demo --locked -p forebay-cli \
        --no-default-features --features demo >&2; } 2>&1 | tail -n 1)"
    read -r wall user system <<<"$times"
    echo "budgets: make run builds in $wall s on this machine, with $(nproc) cores"
    judge 'make run, processor time' "$((user + system))" "$run_cpu_seconds_max" seconds
fi
if [ "$what" = all ] || [ "$what" = released ]; then
    CARGO_TARGET_DIR="$folder/released" cargo build -q --profile dist --locked -p forebay-cli
    scripts/strip.sh "$folder/released/dist/forebay"
    judge 'the released binary' "$(stat -c %s "$folder/released/dist/forebay")" "$released_bytes_max" bytes
fi
exit "$failed"
