#!/usr/bin/env bash
# Runs the tests with the command that README.md gives.
#
# Why: what README.md tells a newcomer to type is what is checked, so the two cannot part. Fails if a test fails, or if
# README.md has not exactly one line, in a fenced block, that begins with `cargo test`.
#
# The adapters of crates/framewright-capi are tested where jemalloc and mimalloc are installed, and skipped loudly
# elsewhere. Where CI is set, the user is root and there is apt-get, the packages are installed first.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t commands < <(awk '/^```/ { fenced = !fenced; next } fenced && /^cargo test/' README.md)
if [ "${#commands[@]}" -ne 1 ]; then
    echo "test: README.md gives ${#commands[@]} test commands, wanted one" >&2
    exit 1
fi
packages=(libjemalloc-dev libmimalloc-dev)
may_install() { [ -n "${CI:-}" ] && [ "$(id -u)" -eq 0 ] && command -v apt-get; }
fetch() {
    timeout 60 apt-get update &&
        DEBIAN_FRONTEND=noninteractive timeout 120 apt-get install --yes --no-install-recommends "${packages[@]}"
}
if { may_install && ! dpkg -s "${packages[@]}"; } >/dev/null 2>&1; then
    fetch >/dev/null 2>&1 || echo "test: the packages ${packages[*]} cannot be installed"
fi
# A comment behind the command is for the reader.
command=${commands[0]%%#*}
echo "\$ $command"
bash -c "$command"
