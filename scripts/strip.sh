#!/usr/bin/env bash
# Moves the symbols of a program into a file beside it, where a debugger finds them:
#
#   scripts/strip.sh target/dist/forebay
set -euo pipefail
program="$1"
# A program that was stripped before has no symbols to keep.
readelf --sections --wide "$program" | grep -q ' \.symtab ' || exit 0
objcopy --only-keep-debug "$program" "$program.debug"
strip "$program"
objcopy --remove-section=.gnu_debuglink --add-gnu-debuglink="$program.debug" "$program"
