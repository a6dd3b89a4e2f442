#!/usr/bin/env bash
# Proves the arithmetic of packed words, buddies and ranges for every value (tools/lemmas/lemmas.py).
#
# Why: a field that overflows into its neighbour for one value of 2^64 is found by no test that tries some.
#
# Needs Z3 for Python, and is skipped loudly without. Where CI is set, the user is root and there is apt-get, the package is
# installed first. Fails if a lemma does not hold, if a lemma that is false on purpose is not refuted, or if the core no
# longer has a line that a lemma is about. The last is planted: in a copy, a buddy is found by addition.
set -euo pipefail
cd "$(dirname "$0")/.."

has_z3() { python3 -c 'import z3' 2>/dev/null; }
may_install() { [ -n "${CI:-}" ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; }
if ! has_z3 && may_install; then
    { timeout 60 apt-get update && DEBIAN_FRONTEND=noninteractive timeout 120 apt-get install --yes --no-install-recommends python3-z3; } \
        >/dev/null 2>&1 || echo "lemmas: the package python3-z3 cannot be installed"
fi
if ! has_z3; then
    echo "SKIPPED: lemmas about packed words, which need Z3 for Python (pip install z3-solver, or apt-get install python3-z3)"
    exit 0
fi
tools/lemmas/lemmas.py

planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
mkdir -p "$planted/crates/framewright" "$planted/tools"
cp -r crates/framewright/src "$planted/crates/framewright/"
cp -r tools/lemmas "$planted/tools/"
sed -i 's/Frame(self.0 ^ order.frames() as u32)/Frame(self.0 + order.frames() as u32)/' "$planted/crates/framewright/src/types/units.rs"
if found=$("$planted/tools/lemmas/lemmas.py" 2>&1); then
    printf 'lemmas: a buddy that is found by addition was not noticed:\n%s\n' "$found" >&2
    exit 1
fi
