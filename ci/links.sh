#!/usr/bin/env bash
# Checks that what the documents point at exists.
#
# Why: a guide whose file names have rotted misleads worse than none. Looks at README.md, CONTRIBUTING.md, SECURITY.md, everything under
# docs/ and the README.md of crates and examples, outside fenced blocks:
#   [text](path#heading)      the file or folder exists, seen from the document; so does the heading, in a Markdown file
#   `dir/file.rs`             so does the file, seen from the document, from the root, or as the end of a file's path;
#   `file.rs`                 likewise for .sh, .toml, .md and .awk, and for folders written with a final slash
#   `file.rs::name`           and the file (one of that name) defines a function, type, constant, module, macro, field or
#   `file.rs::Type::name`     variant of the last name, and mentions the names before it
#   [text]: path              as the first
#   [text](URL)               likewise for the URL of a file of this repository, which a page outside it must use
#
# Fails if one does not, if a document in docs/ is missing from docs/README.md, or if the self-test, a document with one
# broken reference of each kind among sound ones, is not found exactly.
set -euo pipefail
cd "$(dirname "$0")/.."

# The files of this repository, on the web. HEAD stands for the branch that the host shows.
web=$(sed -n 's/^repository = "\(.*\)"/\1/p' Cargo.toml)/blob/HEAD/

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# references DOCUMENT: its references outside fenced blocks, as lines "link TARGET" and "code TEXT".
references() {
    awk '
        /^ *(```|~~~)/ { fenced = !fenced; next }
        fenced { next }
        {
            line = $0
            while (match(line, /`[^`]+`/)) {
                print "code " substr(line, RSTART + 1, RLENGTH - 2)
                # A span is no place for links, but a link may have a span for its text.
                line = substr(line, 1, RSTART - 1) "_" substr(line, RSTART + RLENGTH)
            }
            if (match(line, /^ *\[[^]]+\]: +[^ ]+/)) {
                text = substr(line, RSTART, RLENGTH)
                sub(/.*\]: +/, "", text)
                print "link " text
            }
            while (match(line, /\]\([^)]*\)/)) {
                text = substr(line, RSTART + 2, RLENGTH - 3)
                sub(/ +".*"$/, "", text)
                print "link " text
                line = substr(line, RSTART + RLENGTH)
            }
        }' "$1"
}

# headings DOCUMENT: the anchors of its headings.
headings() {
    awk '
        /^ *(```|~~~)/ { fenced = !fenced }
        !fenced && /^#+ / {
            sub(/^#+ +/, "")
            text = tolower($0)
            gsub(/[^a-z0-9_ -]/, "", text)
            gsub(/ /, "-", text)
            print text
        }' "$1"
}

# defines FILE NAME...: whether the Rust file defines the last name and mentions the others.
defines() {
    local file=$1 last=${*: -1} name
    for name in "${@:2}"; do
        grep -qw -- "$name" "$file" || return 1
    done
    grep -Eq "(fn|struct|enum|trait|type|const|static|mod|union|macro_rules!) +$last\b|^ *(pub(\([a-z]+\))? )?((word|record|fixed)(\(.*\))? )?$last *(:|,|\(|\{|=|\$)" "$file"
}

# broken_code DOCUMENT TEXT: says so if a code span names a file, or a name in a file, that does not exist.
broken_code() {
    local document=$1 text=$2 path names=() candidate files=()
    [[ $text =~ ^[A-Za-z0-9_./-]+\.(rs|sh|toml|md|awk)(::[A-Za-z0-9_:]+)?(\(\))?$ || $text =~ ^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*/$ ]] ||
        return 0
    path=${text%%::*}
    path=${path%/}
    for candidate in "$(dirname "$document")/$path" "$root/$path"; do
        [ ! -e "$candidate" ] || files+=("$candidate")
    done
    if [ "${#files[@]}" -eq 0 ]; then
        mapfile -t files < <(awk -v end="/$path" 'substr($0, length($0) - length(end) + 1) == end' "$work/tree")
    fi
    if [ "${#files[@]}" -eq 0 ]; then
        echo "${document#"$root"/}: \`$text\`: no such file"
        return 0
    fi
    [[ $text == *::* ]] || return 0
    text=${text%"()"}
    IFS=: read -ra names <<<"$(sed 's/^[^:]*:://; s/::/:/g' <<<"$text")"
    for candidate in "${files[@]}"; do
        ! defines "$candidate" "${names[@]}" || return 0
    done
    echo "${document#"$root"/}: \`$2\`: not in $(basename "$path")"
}

# broken_link DOCUMENT TARGET: says so if a relative link leads nowhere.
broken_link() {
    local document=$1 target=$2 path anchor=''
    path=${target%%#*}
    [[ $target != *#* ]] || anchor=${target#*#}
    if [[ $path == "$web"* ]]; then
        path=$root/${path#"$web"}
    elif [[ $target =~ ^([a-z]+:|//) ]]; then
        return 0
    elif [ -z "$path" ]; then
        path=$document
    elif [[ $path == /* ]]; then
        echo "${document#"$root"/}: ($target): not relative"
        return 0
    else
        path=$(dirname "$document")/$path
    fi
    if [ ! -e "$path" ]; then
        echo "${document#"$root"/}: ($target): no such file"
    elif [ -n "$anchor" ] && [[ $path == *.md ]] && ! headings "$path" | grep -Fqx -- "$anchor"; then
        echo "${document#"$root"/}: ($target): no such heading"
    fi
}

# broken ROOT: every reference in the documents of ROOT that leads nowhere.
broken() {
    local root=$1 document kind text
    find "$root" \( -name .git -o -name target \) -prune -o -print >"$work/tree"
    for document in "$root"/README.md "$root"/{CONTRIBUTING,SECURITY}.md $(find "$root/docs" "$root"/{crates,examples}/*/README.md -name '*.md' 2>/dev/null | sort); do
        [ -f "$document" ] || continue
        while read -r kind text; do
            "broken_$kind" "$document" "$text"
        done < <(references "$document")
        case ${document#"$root"/} in
        docs/README.md) ;;
        docs/*)
            references "$root/docs/README.md" | grep -Fx "link ${document#"$root"/docs/}" >/dev/null ||
                echo "${document#"$root"/}: missing from docs/README.md"
            ;;
        esac
    done
}

mkdir -p "$work/planted/docs" "$work/planted/crates/a/src/deep"
cat >"$work/planted/crates/a/src/zone.rs" <<'END'
pub struct Zone {
    free: u32,
}
impl Zone {
    fn refill(&self) {}
}
END
cp "$work/planted/crates/a/src/zone.rs" "$work/planted/crates/a/src/deep/part.rs"
cat >"$work/planted/docs/README.md" <<'END'
# The map, of `docs/`
[guide](guide.md#a-heading-of-its-own) [root](../README.md) [here](#the-map-of-docs) [web](https://docs.rs/x)
`zone.rs` `src/zone.rs` `crates/a/src/zone.rs` `deep/part.rs::refill` `zone.rs::Zone::refill()` `zone.rs::Zone::free` `crates/a/`
`cargo run zone.rs` `buddy.c` `a.b::c` [`span`](guide.md)
```
[fenced](nowhere.md) `nowhere.rs`
```
[label]: guide.md
END
cat >"$work/planted/docs/guide.md" <<'END'
## A heading, of its own
[1](gone.md) [2](README.md#gone) `gone.rs` `deep/zone.rs` `zone.rs::gone` `zone.rs::Gone::refill` [3](/README.md) `src/gone/`
[4]: gone/
END
printf '[5](%s) [6](%s)\n' "${web}docs/guide.md#a-heading-of-its-own" "${web}docs/gone.md" >>"$work/planted/docs/guide.md"
touch "$work/planted/docs/orphan.md" "$work/planted/README.md" "$work/planted/SECURITY.md"
expected='docs/guide.md: `gone.rs`: no such file
docs/guide.md: `deep/zone.rs`: no such file
docs/guide.md: `zone.rs::gone`: not in zone.rs
docs/guide.md: `zone.rs::Gone::refill`: not in zone.rs
docs/guide.md: `src/gone/`: no such file
docs/guide.md: (gone.md): no such file
docs/guide.md: (README.md#gone): no such heading
docs/guide.md: (/README.md): not relative
docs/guide.md: (gone/): no such file
docs/guide.md: ('"${web}"'docs/gone.md): no such file
docs/orphan.md: missing from docs/README.md'
found=$(broken "$work/planted")
if [ "$found" != "$expected" ]; then
    printf 'links: the self-test wanted:\n%s\nand got:\n%s\n' "$expected" "$found" >&2
    exit 1
fi

found=$(broken .)
if [ -n "$found" ]; then
    printf 'links: these references lead nowhere:\n%s\n' "$found" >&2
    exit 1
fi
echo "links: every reference of README.md, CONTRIBUTING.md and docs/ leads somewhere"
