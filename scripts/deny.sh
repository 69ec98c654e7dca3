#!/usr/bin/env bash
# Checks the dependencies by deny.toml: licences, bans, sources, and known vulnerabilities. What can't be checked here
# is said, and fails nothing: without cargo-deny all of it, without a network the vulnerabilities.
set -euo pipefail
cd "$(dirname "$0")/.."

# A network that swallows packets must not hold a build up.
fetch_seconds=60

skipped() { printf '\nSKIPPED, NOT CHECKED: %s\n\n' "$*" >&2; }

if ! cargo deny --version >/dev/null 2>&1; then
    skipped 'dependencies by deny.toml: there is no cargo-deny (cargo install --locked cargo-deny)'
    exit 0
fi
cargo deny --locked check licenses bans sources
if timeout "$fetch_seconds" cargo deny --locked fetch db >/dev/null 2>&1; then
    cargo deny --locked check --disable-fetch advisories
else
    skipped 'dependencies for known vulnerabilities: the database of advisories can not be fetched'
fi
