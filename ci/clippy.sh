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

# Published crates write files, and print text, in one place each (clippy.toml, SECURITY.md); their tests and examples may do as they like.
bound=(-D clippy::disallowed_methods -D clippy::print_stdout -D clippy::print_stderr)
mapfile -t published < <(grep -Lx 'publish = false' crates/*/Cargo.toml | xargs awk -F'"' '/^name = / && !seen[FILENAME]++ { print "--package=" $2 }')
cargo clippy "${published[@]}" --lib --bins --locked -- "${bound[@]}"

# The same lints find each planted call.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '[package]\nname = "planted"\nedition = "2024"\n[lib]\npath = "planted.rs"\n[workspace]\n' >"$work/Cargo.toml"
cp ci/planted.rs "$work"
found=$(CLIPPY_CONF_DIR=$PWD cargo clippy --manifest-path "$work/Cargo.toml" --offline -- "${bound[@]}" 2>&1 || true)
missed=$(sed -n 's/.*path = "\(std::[^"]*\)".*/\1/p' clippy.toml | while read -r path; do
    grep -q "use of a disallowed method \`$path\`" <<<"$found" || echo "$path"
done)
for macro in println eprintln; do grep -q "use of \`$macro!\`" <<<"$found" || missed+=" $macro!"; done
[ -z "$missed" ] || { echo "clippy.sh: the lint does not find what ci/planted.rs does with:" $missed >&2; exit 1; }
