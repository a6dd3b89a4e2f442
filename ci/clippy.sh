#!/usr/bin/env bash
# Checks that compiler and clippy have nothing to say about any target of any crate.
#
# Why: the limits of the house style (lengths, arguments, documentation, unsafe with a reason) are lints; see
# [workspace.lints] in Cargo.toml and clippy.toml. Fails on any warning, and if Cargo.lock is out of date.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo clippy --workspace --all-targets --locked -- -D warnings
