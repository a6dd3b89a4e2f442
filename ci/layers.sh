#!/usr/bin/env bash
# Checks that every file of a crate uses only what stands below it.
#
# Why: the files are in call order. A crate's lib.rs lists its modules, and a folder's mod.rs those of the folder, from what is
# called first to what is called last. A reader who goes downwards never meets a name that is explained further up, and no two
# files know each other.
#
# How: ci/layers, a program that parses the crates. Its main.rs names the rules: tree, import, circle, call, name.
# docs/life-of-a-page.md names functions in the order of their calls, and the rungs of the slow path; the program checks them too.
#
# Fails if: the document is wrong; a crate of the list below has more findings of a rule than it may have there (none, if it stands without a number); or the
# self-test fails, in which the program must find exactly the marked lines of the crates in ci/layers/planted.
#
# Usage: ci/layers.sh [-v] [--report] [DIRECTORY OF A lib.rs...]; with a directory, every rule is checked and nothing is allowed.
set -euo pipefail
cd "$(dirname "$0")/.."

# Crate, and the findings that are left to mend: lower a number when there are fewer, and leave a crate without one when it is clean.
crates=(
    crates/framewright/src
    crates/framewright-kernel/src
    crates/framewright-ostd/src
    crates/framewright-rt/src
    crates/framewright-ffi/src
    crates/framewright-capi/src
    crates/framewright-vm-memory/src
    crates/framewright-kernel-capi/src
    crates/framewright-sim/src
    crates/framewright-trace/src
    crates/framewright-ops/src
    crates/framewright-lab/src
    crates/framewright-bench/src
    crates/framewright-table/src
    crates/framewright-peers/src
    linux/glue/src
    linux/port/src
    ci/layers/src
    tools/mutants/src
)

options=() sources=()
for argument in "$@"; do
    case $argument in
    -*) options+=("$argument") ;;
    *) sources+=("$argument") ;;
    esac
done
[ "${#sources[@]}" -gt 0 ] || sources=("${crates[@]}")
layers() {
    cargo run --quiet --locked --package layers -- "$@"
}
layers --document docs/life-of-a-page.md crates/framewright/src
layers ${options[@]+"${options[@]}"} "${sources[@]}"
