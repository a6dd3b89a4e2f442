#!/usr/bin/env bash
# Checks that every file of a crate uses only what stands below it.
#
# Why: the files are in call order. A crate's lib.rs lists its modules, and a folder's mod.rs those of the folder, from what is
# called first to what is called last. A reader who goes downwards never meets a name that is explained further up, and no two
# files know each other.
#
# How: ci/layers, a program that parses the crates. Its main.rs names the rules: tree, import, circle, call, name.
#
# Fails if: a crate of the list below has more findings of a rule than it may have there (none, if it stands without a number); or the
# self-test fails, in which the program must find exactly the marked lines of the crates in ci/layers/planted.
#
# Usage: ci/layers.sh [-v] [--report] [DIRECTORY OF A lib.rs...]; with a directory, every rule is checked and nothing is allowed.
set -euo pipefail
cd "$(dirname "$0")/.."

# Crate, and the findings that are left to mend: lower a number when there are fewer, and leave a crate without one when it is clean.
crates=(
    crates/framewright/src:tree,import=56,circle=2,call=23,name=8
    crates/framewright-rt/src:tree,import=98,circle=2,call=82,name=5
    crates/framewright-sim/src:tree,import=214,circle=6,call=311,name=21
    crates/framewright-trace/src:tree,import=254,circle=3,call=285,name=11
    crates/framewright-ops/src:tree,import=8,circle=1,call=26,name=1
    crates/framewright-lab/src:tree,import=552,circle=13,call=320,name=110
    crates/framewright-bench/src:tree,import=102,circle=4,call=22,name=5
    ci/layers/src
)

options=() sources=()
for argument in "$@"; do
    case $argument in
    -*) options+=("$argument") ;;
    *) sources+=("$argument") ;;
    esac
done
[ "${#sources[@]}" -gt 0 ] || sources=("${crates[@]}")
cargo run --quiet --locked --package layers -- ${options[@]+"${options[@]}"} "${sources[@]}"
