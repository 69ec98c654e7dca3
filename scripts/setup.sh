#!/usr/bin/env bash
# Installs what is missing, and nothing else; a second run does nothing. On Debian and its kin; elsewhere it says what
# to install.
#
#   scripts/setup.sh run    what building needs: a C compiler, curl, Rust
#   scripts/setup.sh test   that, and what the tests run or compare with: redis-server, redis-cli, PostgreSQL, Python
#   scripts/setup.sh bench  that of run, and what benchmarks compare with: redis-server, memcached, PostgreSQL, and
#                           libCacheSim's package for Python, under target/peers
set -euo pipefail
cd "$(dirname "$0")/.."

what="${1:-test}"
rust_needed="$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)"
export PATH="$HOME/.cargo/bin:$PATH"

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# Installs the packages that are not there.
packages() {
    local missing=()
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    [ "$(id -u)" = 0 ] || have sudo || fail "there is no sudo here; as root, please: apt-get install ${missing[*]}"
    say "installing ${missing[*]}"
    as_root apt-get update -q
    # No service is started for what tests start themselves: redis-server would take the port that forebay wants.
    local policy=/usr/sbin/policy-rc.d own_policy=no
    if [ ! -e "$policy" ]; then
        # Also when this is interrupted: with it, the machine would start no service of any package.
        trap "as_root rm -f $policy" EXIT
        own_policy=yes
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
        as_root chmod +x "$policy"
    fi
    local install=(apt-get install -y -q --no-install-recommends)
    as_root env DEBIAN_FRONTEND=noninteractive "${install[@]}" "${missing[@]}" || fail "could not install ${missing[*]}"
    if [ "$own_policy" = yes ]; then
        as_root rm -f "$policy"
        trap - EXIT
    fi
}

# Whether version $1 is at least $2.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

rust_version() { cargo --version 2>/dev/null | awk '{print $2}'; }

rust_is_new_enough() {
    have cargo && have rustc && at_least "$(rust_version)" "$rust_needed"
}

# The second place is where the script fetches everything else from: it is there where the first is not let through.
rustup_script() {
    local url
    for url in https://sh.rustup.rs https://static.rust-lang.org/rustup/rustup-init.sh; do
        curl --proto '=https' --tlsv1.2 -sSfL "$url" && return 0
    done
    fail "rustup could not be fetched; without a way to it, install Rust $rust_needed or newer and run this again"
}

install_rust() {
    if rust_is_new_enough; then
        return 0
    fi
    if have rustup; then
        say "updating Rust $(rust_version) to the present stable"
        rustup toolchain install stable --profile minimal --component rustfmt,clippy
        rustup default stable
    else
        say "installing Rust for $(id -un) with rustup, under ~/.cargo and ~/.rustup"
        # --no-modify-path: the Makefile knows where it is, the user's shell files are left alone.
        rustup_script |
            sh -s -- -y --profile minimal --component rustfmt,clippy --default-toolchain stable --no-modify-path
    fi
    rust_is_new_enough || fail "Rust $rust_needed or newer is needed, and $(rust_version) is what there is"
}

if have apt-get; then
    # The allocator and the trace reader build C; binutils and the headers come with gcc and libc6-dev.
    packages gcc libc6-dev make ca-certificates curl
else
    for tool in cc make curl; do have "$tool" || fail "please install $tool"; done
fi
install_rust
if [ "$what" = bench ]; then
    if have apt-get; then
        # taskset comes with util-linux.
        packages redis-server memcached postgresql procps util-linux python3 python3-venv g++ libtbb-dev
    else
        for tool in redis-server memcached pg_ctl pgrep taskset python3; do
            have "$tool" || fail "please install $tool"
        done
    fi
    peer=target/peers/libcachesim
    if ! "$peer/bin/python" -c 'import libcachesim' >/dev/null 2>&1; then
        say "installing libcachesim into $peer"
        python3 -m venv "$peer"
        "$peer/bin/pip" install --quiet 'libcachesim==0.3.5' ||
            say "libcachesim could not be installed: target/dist/sim needs --alone then"
    fi
fi
if [ "$what" = test ]; then
    if have apt-get; then
        packages redis-server redis-tools postgresql pgbouncer procps python3 python3-venv
    else
        for tool in redis-server redis-cli pg_ctl pgrep python3; do have "$tool" || fail "please install $tool"; done
    fi
    # A Rust that came with the distribution may lack them.
    cargo fmt --version >/dev/null 2>&1 || fail "please install rustfmt (rustup component add rustfmt)"
    cargo clippy --version >/dev/null 2>&1 || fail "please install clippy (rustup component add clippy)"
fi
