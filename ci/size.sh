#!/usr/bin/env bash
# Checks the budgets: no source file over 500 lines, no more than 8 MB in data/.
#
# Why: a file that one can read at a sitting stays understood, and a clone stays quick. Fails if a .rs file under
# crates/*/src or examples/*/src is longer, tests included, or if the files of data/ add up to more; and if the self-test,
# files and a folder just over the limit, goes unnoticed.
set -euo pipefail
cd "$(dirname "$0")/.."

max_lines=500
max_bytes=8000000

# oversized ROOT: what under ROOT is over a budget.
oversized() {
    find "$1"/crates/*/src "$1"/examples/*/src -name '*.rs' -exec awk -v max="$max_lines" '
        END { if (NR > max) print FILENAME ": " NR " lines, more than " max }' {} \;
    if [ -d "$1/data" ]; then
        find "$1/data" -type f -exec cat {} + | wc -c | awk -v max="$max_bytes" '
            $1 > max { print "data/: " $1 " bytes, more than " max }'
    fi
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/crates/a/src" "$work/examples/b/src" "$work/data"
seq "$max_lines" >"$work/crates/a/src/fits.rs"
seq "$((max_lines + 1))" >"$work/crates/a/src/long.rs"
seq "$((max_lines + 1))" >"$work/examples/b/src/longer.rs"
head -c "$((max_bytes + 1))" /dev/zero >"$work/data/large"
found=$(oversized "$work")
if [ "$(wc -l <<<"$found")" -ne 3 ] || [[ $found != *long.rs*longer.rs*data/* ]]; then
    echo "size: the self-test found: $found" >&2
    exit 1
fi

found=$(oversized .)
if [ -n "$found" ]; then
    echo "size: $found" >&2
    exit 1
fi
echo "size: every source file has at most $max_lines lines, data/ at most $max_bytes bytes"
