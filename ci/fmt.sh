#!/usr/bin/env bash
# Checks that every crate is formatted as rustfmt.toml says, those of workspaces of their own in examples/ included.
#
# Why: a diff then shows only what was meant. Fails if `cargo fmt` would change a file.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt --all --check -- --color=never
for manifest in examples/*/Cargo.toml; do
    cargo fmt --manifest-path "$manifest" --check -- --color=never
done
