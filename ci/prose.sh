#!/usr/bin/env bash
# Checks the comments and documents for what is hard to read and easy to find.
#
# Why: a reader in a hurry, or whose first language is not English, must understand a sentence at the first reading. These habits
# stand in the way, and a pattern finds them:
#   who     a sentence that opens with "Who" or "Whoever" and asks nothing: name the subject ("A caller that ...")
#   same    a doc comment that is one sentence and begins with "The same": say what differs
#   module  a doc comment that says only "See the module's description": say what the item is
#   words   "anew" (again), "so many" (n), "by the hand of" (by)
#   long    a comment line of more than 120 columns, which rustfmt leaves as it is
# Looks at the comments of crates/*/src, ci/*/src and examples/*/src, and outside code at README.md, CONTRIBUTING.md, docs/ and the
# README.md of examples, whose lines may be long.
#
# Fails if a crate or document has more findings than ci/prose.allowed allows it (none, if it is not listed there), if that file
# lists something that does not exist, or if the self-test, planted findings among sound lines, is not found exactly.
#
# Usage: ci/prose.sh [CRATE OR DOCUMENT, as listed...]: with one, prints its findings even if they are allowed
set -euo pipefail
cd "$(dirname "$0")/.."
# A column is a character: the continuation bytes of UTF-8 are taken off before a line is measured.
export LC_ALL=C

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Paragraphs are joined by \001, so that a sentence is found across lines and its line is known.
cat >"$work/prose.awk" <<'AWK'
function say(line, rule, text) {
    gsub(/\001/, " ", text)
    print file ":" line ": " rule ": " substr(text, 1, 100)
}

# The line in which position `at` of the paragraph lies.
function line_of(at,    before) {
    before = substr(paragraph, 1, at)
    return first + gsub(/\001/, "", before)
}

# Whether the sentence that begins here is a question.
function asks(text) {
    return match(text, /[.?!|]([\001 )*_]|$)/) && substr(text, RSTART, 1) == "?"
}

# Finds every match of a pattern in the paragraph.
function each(pattern, rule,    from, rest, at) {
    from = 1
    while (match(rest = substr(paragraph, from), pattern)) {
        at = from + RSTART - 1
        from = at + RLENGTH
        if (rule != "who" || !asks(substr(paragraph, at + 1))) say(line_of(at + 1), rule, substr(paragraph, at + 1))
    }
}

function end_paragraph() {
    if (paragraph == "") return
    gsub(/`[^`\001]*`/, "`", paragraph)
    paragraphs++
    if (paragraphs == 1) only = paragraph
    # Matches begin with the character before.
    paragraph = " " paragraph
    each("[^A-Za-z0-9_`]Who(ever)?[ \001][a-z]", "who")
    each("[^A-Za-z0-9_`]([Aa]new[^a-z]|[Ss]o[ \001]many[^a-z]|[Bb]y[ \001]the[ \001]hand[ \001]of)", "words")
    paragraph = ""
}

function end_block() {
    end_paragraph()
    if (kind == "///" && paragraphs == 1) {
        if (only ~ /^The same([^A-Za-z].*)?$/ && only !~ /[.!?][\001 ]+[A-Z`\[]/) say(first_of_block, "same", only)
        if (only ~ /^See the module's description\.?$/) say(first_of_block, "module", only)
    }
    kind = ""
    paragraphs = 0
    only = ""
    fenced = 0
}

# One line of text, of a comment or a document.
function add(text) {
    if (text ~ /^ *(```|~~~)/) { fenced = !fenced; end_paragraph(); paragraphs++; return }
    if (fenced) return
    # A heading is no sentence.
    if (text ~ /^ *$/ || text ~ /^ *#/) { end_paragraph(); return }
    # An item of a list or a row of a table is a paragraph.
    if (text ~ /^ *([-*|]|[0-9]+\.) ?/) end_paragraph()
    if (paragraph == "") { first = FNR; paragraph = text } else paragraph = paragraph "\001" text
}

FNR == 1 {
    end_block()
    file = FILENAME
    sub(/^\.\//, "", file)
    is_document = file ~ /\.md$/
}

is_document { add($0); next }

/^[ \t]*\/\// {
    columns = $0
    gsub(/[\200-\277]/, "", columns)
    if (length(columns) > 120) say(FNR, "long", length(columns) " columns")
    match($0, /\/\/[\/!]?/)
    now = substr($0, RSTART, RLENGTH)
    if (now != kind) { end_block(); kind = now; first_of_block = FNR }
    text = substr($0, RSTART + RLENGTH)
    sub(/^ /, "", text)
    add(text)
    next
}

{ end_block() }
END { end_block() }
AWK

# findings UNIT: the findings of a crate's sources or of one document.
findings() {
    if [ -d "$1" ]; then
        find "$1/src" -name '*.rs' -print0 | sort -z | xargs -0 awk -f "$work/prose.awk"
    else
        awk -f "$work/prose.awk" "$1"
    fi
}

# check ALLOWED UNIT...: prints the findings of each unit that has too many, and then the sum; fails if there is such a unit.
check() {
    local allowed=$1 unit limit number sum=0 failed=0
    while read -r limit unit; do
        if [ ! -e "$unit" ]; then
            echo "prose: $allowed lists $unit, which does not exist"
            failed=1
        fi
    done <"$allowed"
    for unit in "${@:2}"; do
        findings "$unit" >"$work/found"
        number=$(wc -l <"$work/found")
        limit=$(awk -v unit="$unit" '$2 == unit { print $1 }' "$allowed")
        if [ "$number" -gt "${limit:-0}" ]; then
            cat "$work/found"
            echo "prose: $unit has $number findings, ${limit:-0} are allowed"
            failed=1
        elif [ "$number" -lt "${limit:-0}" ]; then
            echo "prose: lower the number of $unit in $allowed from $limit to $number"
        fi
        sum=$((sum + number))
    done
    echo "prose: $sum findings in $(($# - 1)) crates and documents"
    return "$failed"
}

mkdir -p "$work/planted/crate/src/deep"
cat >"$work/planted/crate/src/lib.rs" <<'END'
//! Who asks here? A caller that waits. Whoever waits
//! gives up. Is it clear who waits?
//!
//! `Who knows` is code. A line
//! begins anew, not renewed.
//! ```
//! // Who cares, anew.
//! ```
//! | Who | waits |
fn who() {} // Who trails, is not looked at.

/// The same.
fn a() {}
/// The same for
/// several blocks.
fn b() {}
/// The same for several blocks. Stops at the first failure.
fn c() {}
/// The same order.
///
/// But more.
fn d() {}
/// See the module's description.
struct E;
/// See the module's description for the rest.
struct F;
// So
// many, and so many more; by the hand of whom. No one knows whom. Who can tell.
END
printf '    // %s\n    // %s\n    // %s\nlet x = "%s"; //\n' "$(printf '%0113d' 0)" "$(printf '%0114d' 0)" "$(printf '%0112dé' 0)" \
    "$(printf '%0130d' 0)" >"$work/planted/crate/src/deep/long.rs"
cat >"$work/planted/guide.md" <<'END'
# Who holds what
Who holds it may free it. Nobody else: what is held (Whoever holds
it) stays.
- Who is first, is served.
- Who is second?
| a | Who pays |
    
"Who" is a word. The same. See the module's description.
END
expected='crate/src/deep/long.rs:2: long: 121 columns
crate/src/lib.rs:1: who: Whoever waits gives up. Is it clear who waits?
crate/src/lib.rs:5: words: anew, not renewed.
crate/src/lib.rs:12: same: The same.
crate/src/lib.rs:14: same: The same for several blocks.
crate/src/lib.rs:23: module: See the module'"'"'s description.
crate/src/lib.rs:28: who: Who can tell.
crate/src/lib.rs:27: words: So many, and so many more; by the hand of whom. No one knows whom. Who can tell.
crate/src/lib.rs:28: words: so many more; by the hand of whom. No one knows whom. Who can tell.
crate/src/lib.rs:28: words: by the hand of whom. No one knows whom. Who can tell.
prose: crate has 10 findings, 9 are allowed
guide.md:2: who: Who holds it may free it. Nobody else: what is held (Whoever holds it) stays.
guide.md:2: who: Whoever holds it) stays.
guide.md:4: who: Who is first, is served.
guide.md:6: who: Who pays |
prose: guide.md has 4 findings, 0 are allowed
prose: 14 findings in 2 crates and documents'
printf '9 crate\n' >"$work/planted/allowed"
found=$(cd "$work/planted" && check allowed crate guide.md || true)
if [ "$found" != "$expected" ]; then
    printf 'prose: the self-test found (>) other than it wanted (<):\n' >&2
    diff <(echo "$expected") <(echo "$found") >&2 || true
    exit 1
fi
printf '10 crate\n5 guide.md\n' >"$work/planted/allowed"
if ! found=$(cd "$work/planted" && check allowed crate guide.md) || [[ $found != *"guide.md in allowed from 5 to 4"* ]]; then
    printf 'prose: the self-test was refused what is allowed:\n%s\n' "$found" >&2
    exit 1
fi

if [ $# -gt 0 ]; then
    for unit in "$@"; do
        findings "$unit"
    done
    exit
fi
units=()
for unit in crates/*/src ci/*/src examples/*/src; do
    units+=("${unit%/src}")
done
mapfile -t -O "${#units[@]}" units < <(printf '%s\n' README.md CONTRIBUTING.md examples/*/README.md; find docs -name '*.md' | sort)
check ci/prose.allowed "${units[@]}"
