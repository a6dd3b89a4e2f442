#!/usr/bin/env bash
# Checks that the API documentation builds, and shows no type that a program cannot name.
#
# Why: a reader follows its links. Fails on any warning of rustdoc: a broken or private link, bad HTML, a bare URL.
# Libraries only: the program `framewright` would be written over the core, which has the same name. Without the program that
# builds C, which has no library.
# A type that the API returns, but does not export, is shown by its name and leads nowhere. The compiler finds those; fails if a
# crate of `named` does not have it look, or if the self-test, three such types, goes unnoticed.
set -euo pipefail
cd "$(dirname "$0")/.."

lint=unnameable_types
named=(crates/framewright/src/lib.rs crates/framewright-rt/src/lib.rs)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/planted.rs" <<END
#![deny($lint)]
mod inner {
    pub struct Returned;
    pub struct Associated;
    pub trait Required {}
}
pub fn call() -> inner::Returned { inner::Returned }
pub trait Part: inner::Required {}
pub struct Items;
impl Iterator for Items {
    type Item = inner::Associated;
    fn next(&mut self) -> Option<inner::Associated> { None }
}
END
if rustc --edition 2024 --crate-type lib --emit metadata -o "$work/planted" "$work/planted.rs" 2>"$work/found" ||
    [ "$(grep -c 'is reachable but cannot be named' "$work/found")" -ne 3 ]; then
    echo "docs: the self-test found: $(cat "$work/found")" >&2
    exit 1
fi
for file in "${named[@]}"; do
    if ! grep -qx "#!\[deny($lint)\]" "$file"; then
        echo "docs: $file does not deny $lint" >&2
        exit 1
    fi
done

RUSTDOCFLAGS="${RUSTDOCFLAGS:-} -D warnings" cargo doc --no-deps --workspace --exclude framewright-peers --lib --locked
