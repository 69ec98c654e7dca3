#!/usr/bin/env bash
# Checks the dependencies by deny.toml: licences, bans, sources, and known vulnerabilities. It fails without cargo-deny,
# unless DENY=if-there: then that is said. To build cargo-deny takes longer than all else that `make setup` does, so
# that leaves it out. Without a network it is said that vulnerabilities were not looked up, and nothing fails.
set -euo pipefail
cd "$(dirname "$0")/.."

# A network that swallows packets must not hold a build up.
fetch_seconds=60

skipped() { printf '\nSKIPPED, NOT CHECKED: %s\n\n' "$*" >&2; }

if ! cargo deny --version >/dev/null 2>&1; then
    skipped 'dependencies by deny.toml: there is no cargo-deny (cargo install --locked cargo-deny)'
    [ "${DENY:-always}" = if-there ]
    exit
fi
cargo deny --locked check licenses bans sources
if timeout "$fetch_seconds" cargo deny --locked fetch db >/dev/null 2>&1; then
    cargo deny --locked check --disable-fetch advisories
else
    skipped 'dependencies for known vulnerabilities: the database of advisories can not be fetched'
fi
