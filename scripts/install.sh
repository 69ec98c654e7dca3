#!/usr/bin/env bash
# Puts forebay's files where a machine looks for them, or takes them away:
#
#   scripts/install.sh install|uninstall    PREFIX=/usr/local SYSCONFDIR=/etc DESTDIR= BINARY=target/dist/forebay
#
# Settings that are there stay as they are. `uninstall` leaves them, the data and the user.
set -euo pipefail
cd "$(dirname "$0")/.."

what="${1:-}"
prefix="${PREFIX:-/usr/local}" etc="${SYSCONFDIR:-/etc}" to="${DESTDIR:-}" binary="${BINARY:-target/dist/forebay}"
settings="$etc/forebay/forebay.toml"

fail() { printf '%s: %s\n' "${what:-install}" "$*" >&2; exit 1; }

# What becomes of a file: its mode, where it comes from, where it goes.
files() {
    echo "755 $binary $prefix/bin/forebay"
    echo "644 packaging/forebay.service $prefix/lib/systemd/system/forebay.service"
    echo "644 packaging/forebay.sysusers $prefix/lib/sysusers.d/forebay.conf"
    echo "644 bash $prefix/share/bash-completion/completions/forebay"
    echo "644 zsh $prefix/share/zsh/site-functions/_forebay"
    echo "644 fish $prefix/share/fish/vendor_completions.d/forebay.fish"
    echo "644 packaging/forebay.toml $prefix/share/forebay/forebay.toml"
    echo "644 packaging/prometheus/forebay.rules.yml $prefix/share/forebay/forebay.rules.yml"
    echo "644 packaging/grafana/forebay.json $prefix/share/forebay/forebay.json"
    local document
    for document in README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT docs/install.md docs/operations.md; do
        echo "644 $document $prefix/share/doc/forebay/${document##*/}"
    done
}

install_one() {
    local mode="$1" from="$2" at="$to$3"
    case "$from" in
    bash | zsh | fish)
        "$binary" completions "$from" | install -D -m "$mode" /dev/stdin "$at" ;;
    *.service)
        sed -e "s|/usr/bin/forebay|$prefix/bin/forebay|" -e "s|/usr/share|$prefix/share|" \
            -e "s|/etc/forebay/forebay.toml|$settings|" "$from" | install -D -m "$mode" /dev/stdin "$at" ;;
    *)
        install -D -m "$mode" "$from" "$at" ;;
    esac
}

case "$what" in
install)
    [ -x "$binary" ] || fail "there is no $binary; make it first, not as root: make dist"
    files | while read -r mode from at; do install_one "$mode" "$from" "$at"; done
    "$binary" man "$to$prefix/share/man/man1" > /dev/null
    [ -e "$to$settings" ] || install -D -m 644 packaging/forebay.toml "$to$settings"
    echo "installed $to$prefix/bin/forebay; settings: $to$settings"
    if [ -z "$to" ] && [ -d /run/systemd/system ]; then
        echo "as a service: systemd-sysusers && systemctl daemon-reload && systemctl enable --now forebay"
    fi ;;
uninstall)
    files | while read -r _ _ at; do rm -f "$to$at"; done
    rm -f "$to$prefix/share/man/man1/forebay.1" "$to$prefix"/share/man/man1/forebay-*.1
    for folder in share/forebay share/doc/forebay; do
        if [ -d "$to$prefix/$folder" ]; then rmdir --ignore-fail-on-non-empty "$to$prefix/$folder"; fi
    done
    echo "removed; left are $to$etc/forebay, $to/var/lib/forebay and the user forebay" ;;
*)
    fail "say install or uninstall" ;;
esac
