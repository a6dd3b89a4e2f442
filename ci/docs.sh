#!/usr/bin/env bash
# Checks that the API documentation builds.
#
# Why: a reader follows its links. Fails on any warning of rustdoc: a broken or private link, bad HTML, a bare URL.
# Libraries only: the program `framewright` would be written over the core, which has the same name. Without the program that
# builds C, which has no library.
set -euo pipefail
cd "$(dirname "$0")/.."

RUSTDOCFLAGS="${RUSTDOCFLAGS:-} -D warnings" cargo doc --no-deps --workspace --exclude framewright-peers --lib --locked
