#!/usr/bin/env bash
# Checks that every file of the core imports only what stands below it.
#
# Why: the files are in call order. lib.rs lists its modules from the first that an allocation visits to the last, so whoever
# reads downwards never meets a name that is explained further up, and no two modules know each other.
#
# How: in every file under crates/framewright/src but lib.rs, each path that starts with `crate::`, or with as many
# `super::` as lead to the crate's root, must go on with the file's own module or with one that lib.rs declares after it.
# Comments do not count, and neither do test modules: what follows a `#[cfg(test)]` in column 0 that stands before an
# inline module. A module that lib.rs declares under `#[cfg(test)]` may use everything.
#
# Fails if: a path leads upwards; imports everything; names something that lib.rs does not declare as a module (a
# re-export, say: import it from where it is defined); lib.rs declares a module twice or none; a file belongs to no
# module; or the self-test, one planted violation of each kind among lines that are allowed, is not found exactly.
#
# Usage: ci/layers.sh [DIRECTORY OF A lib.rs]
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# upward SOURCE: what breaks the rule in the crate whose lib.rs lies in SOURCE, one line each.
upward() {
    find "$1" -name '*.rs' ! -path "$1/lib.rs" | sort >"$work/files"
    xargs awk -v source="$1" -f "$work/upward.awk" "$1/lib.rs" <"$work/files"
}

cat >"$work/upward.awk" <<'AWK'
# Whether a name may follow the crate's root in the current file.
function judge(name) {
    if (name == "self" || name == own) return
    if (name == "*") say("imports everything")
    else if (!(name in rank)) say("crate::" name " is no module of lib.rs")
    else if (only_tests[name]) say("uses " name ", which exists in tests only")
    else if (rank[name] < rank[own]) say("uses " name ", which lib.rs declares above " own)
}

function say(what) {
    if (!((file, what) in said)) print file ": " what
    said[file, what] = 1
}

# Judges the names that follow the root: one, or those at the first level of a group in braces.
function follow(text,    depth, name) {
    if (text !~ /^\{/) {
        match(text, /^([A-Za-z0-9_]+|\*)/)
        judge(substr(text, 1, RLENGTH))
        return
    }
    depth = 0
    while (text != "") {
        if (match(text, /^[{,]/)) {
            if (substr(text, 1, 1) == "{") depth++
            text = substr(text, 2)
            if (depth == 1 && match(text, /^([A-Za-z0-9_]+|\*)/)) judge(substr(text, 1, RLENGTH))
        } else if (text ~ /^\}/) {
            if (--depth == 0) return
            text = substr(text, 2)
        } else {
            text = substr(text, 2)
        }
    }
}

# Looks through the code of one file, all of it in `code`.
function finish(    path, levels, text, start, supers) {
    if (file == "" || only_tests[own]) return
    if (!(own in rank)) {
        say("belongs to no module that lib.rs declares")
        return
    }
    # Block comments, then blanks that do not part words.
    while ((start = index(code, "/*")) > 0) {
        text = substr(code, start)
        code = substr(code, 1, start - 1) " " (index(text, "*/") ? substr(text, index(text, "*/") + 2) : "")
    }
    gsub(/[ \t]+/, " ", code)
    gsub(/ ?:: ?/, "::", code)
    gsub(/ ?\{ ?/, "{", code)
    gsub(/ ?, ?/, ",", code)
    text = code
    while (match(text, /(^|[^A-Za-z0-9_:])(crate|super(::super)*)::/)) {
        path = substr(text, RSTART, RLENGTH)
        text = substr(text, RSTART + RLENGTH)
        supers = gsub(/super/, "&", path)
        if (supers == 0 || supers >= root_is) follow(text)
    }
}

FNR == 1 {
    finish()
    code = ""
    tests = pending = 0
    file = ""
    if (FILENAME != source "/lib.rs") {
        file = own = substr(FILENAME, length(source) + 2)
        sub(/\.rs$/, "", own)
        sub(/\/mod$/, "", own)
        # How many `super` lead from this file to the root, and the module that lib.rs knows it under.
        root_is = split(own, parts, "/")
        own = parts[1]
    }
}

file == "" {
    if (/^#\[cfg\(.*test.*\)\]/) pending = 1
    else if (/^(pub(\([a-z]+\))? )?mod [a-z0-9_]+;/) {
        name = $0
        sub(/.*mod /, "", name)
        sub(/;.*/, "", name)
        if (name in rank) print "lib.rs: declares " name " twice"
        rank[name] = ++modules
        only_tests[name] = pending
        pending = 0
    } else if (!/^(#|\/\/|$)/) pending = 0
    next
}

tests { next }
/^#\[cfg\(((all|any)\()?(test|[^)]*[ ,(]test)[,) ]/ { pending = 1; next }
pending && /^(pub(\([a-z]+\))? )?mod [a-z0-9_]+ *\{/ { tests = 1; next }
!/^#/ { pending = 0 }
{
    sub(/\/\/.*/, "")
    code = code " " $0
}

END {
    finish()
    if (modules == 0) print "lib.rs: declares no module"
}
AWK

# plant FILE LINES: a file of the self-test.
plant() {
    mkdir -p "$(dirname "$work/planted/$1")"
    printf '%s\n' "${@:2}" >"$work/planted/$1"
}
plant lib.rs '//! mod fake;' 'pub mod top;' '/// Words.' 'mod middle;' 'pub(crate) mod bottom;' '#[cfg(test)]' 'mod double;'
plant top.rs 'use crate::{bottom::{self, A}, middle::{B, top}};' 'use super::middle;' 'use crate::top::X;'
plant middle.rs '// use crate::top;' '/* crate::top::a(); */' 'fn f() { crate::bottom::g() }' '#[cfg(test)]' \
    'mod tests {' '    use super::*;' '    use crate::top;' '}'
plant middle/part.rs 'use super::Helper;' 'use super::super::bottom;' 'use super::super::top; // planted'
plant bottom.rs '#[cfg(test)]' 'use crate::bottom::*;' 'use crate::{' '    bottom::A,' '    middle::{B, C}, // planted' '};' \
    'use super::top::Z; // planted' 'use crate::*; // planted' 'use crate::Reexported; // planted' \
    'fn f() { $crate::double::g() } // planted'
plant double.rs 'use crate::top::X;'
plant orphan.rs 'fn f() {} // planted'
expected='bottom.rs: uses middle, which lib.rs declares above bottom
bottom.rs: uses top, which lib.rs declares above bottom
bottom.rs: imports everything
bottom.rs: crate::Reexported is no module of lib.rs
bottom.rs: uses double, which exists in tests only
middle/part.rs: uses top, which lib.rs declares above middle
orphan.rs: belongs to no module that lib.rs declares'
found=$(upward "$work/planted")
if [ "$found" != "$expected" ]; then
    printf 'layers: the self-test wanted:\n%s\nand got:\n%s\n' "$expected" "$found" >&2
    exit 1
fi

source=${1:-crates/framewright/src}
found=$(upward "${source%/}")
if [ -n "$found" ]; then
    printf 'layers: in %s\n%s\n' "$source" "$found" >&2
    exit 1
fi
echo "layers: $(find "$source" -name '*.rs' | wc -l) files of $source import only downwards"
