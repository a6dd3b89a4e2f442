#!/usr/bin/env bash
# Runs the tests with the command that README.md gives.
#
# Why: what README.md tells a newcomer to type is what is checked, so the two cannot part. Fails if a test fails, or if
# README.md has not exactly one line, in a fenced block, that begins with `cargo test`.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t commands < <(awk '/^```/ { fenced = !fenced; next } fenced && /^cargo test/' README.md)
if [ "${#commands[@]}" -ne 1 ]; then
    echo "test: README.md gives ${#commands[@]} test commands, wanted one" >&2
    exit 1
fi
# A comment behind the command is for the reader.
command=${commands[0]%%#*}
echo "\$ $command"
bash -c "$command"
