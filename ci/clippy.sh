#!/usr/bin/env bash
# Checks that compiler and clippy have nothing to say about any target of any crate.
#
# Why: the limits of the house style (lengths, arguments, documentation, unsafe with a reason) are lints; see
# [workspace.lints] in Cargo.toml and clippy.toml. Fails on any warning, and if Cargo.lock is out of date. The one crate that
# is built from C is checked where there are a C compiler and make, and skipped loudly elsewhere.
set -euo pipefail
cd "$(dirname "$0")/.."

peers=framewright-peers

cargo clippy --workspace --exclude "$peers" --all-targets --locked -- -D warnings

if command -v "${CC:-cc}" >/dev/null && command -v make >/dev/null; then
    cargo clippy --package "$peers" --all-targets --locked -- -D warnings
else
    echo "SKIPPED: clippy for $peers, whose allocators need a C compiler and make"
fi
