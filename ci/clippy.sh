#!/usr/bin/env bash
# Checks that compiler and clippy have nothing to say about any target of any crate.
#
# Why: the limits of the house style (lengths, arguments, documentation, unsafe with a reason) are lints; see
# [workspace.lints] in Cargo.toml and clippy.toml. Fails on any warning, and if Cargo.lock is out of date. The one crate that
# is built from C is checked where there are a C compiler and make, and skipped loudly elsewhere.
set -euo pipefail
cd "$(dirname "$0")/.."

peers=framewright-peers

# One build of all crates: their dependencies have the same features then, and are built once.
crates=(--workspace)
if ! command -v "${CC:-cc}" >/dev/null || ! command -v make >/dev/null; then
    crates+=(--exclude "$peers")
    echo "SKIPPED: clippy for $peers, whose allocators need a C compiler and make"
fi
cargo clippy "${crates[@]}" --all-targets --locked -- -D warnings
