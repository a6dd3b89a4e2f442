#!/usr/bin/env bash
# Checks that every crate that is meant to be published makes a whole package.
#
# Why: a crate that builds in the clone may lack a file where it is installed from a registry, and nobody here would see it.
# Meant to be published are the crates of crates/ that do not say `publish = false`. Each is packed as `cargo publish` would
# pack it and unpacked again. Fails if
#   - cargo refuses to pack it;
#   - its manifest lacks a field that a registry shows or demands, or has more than five keywords;
#   - it lacks README.md or a licence, or README.md has a relative link, which leads nowhere on a registry's page;
#   - a source includes a file that is not in the package, or knows the folder that it was built in;
#   - the packages do not compile with each other, away from the workspace;
#   - README.md does not name the oldest Rust of Cargo.toml, or the packages do not compile with it;
#   - cargo-semver-checks finds the API broken since the last release without a version that says so;
#   - the self-test, planted packages with one fault of each kind, is not found line by line.
#
# The last but two and the last but one are skipped, loudly, where the toolchain, the program or a release is missing.
# What it costs: packing a second, compiling half a minute with what ci/clippy.sh left. `cargo publish --workspace --dry-run`
# compiles every dependency of each package again, for minutes, and finds no more.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}

fail() {
    echo "package: $*" >&2
    exit 1
}

# lacking PACKAGE: what its manifest and its folder lack.
lacking() {
    local field file
    for field in description readme license repository rust-version; do
        grep -q "^$field = " "$1/Cargo.toml" || echo "no $field"
    done
    grep -qFx '[package.metadata.docs.rs]' "$1/Cargo.toml" || echo "nothing for docs.rs"
    # Cargo writes a list over several lines, one entry each.
    awk '
        /^(keywords|categories) = \[/ { list = $1 }
        list && /^ +"/ { count[list]++ }
        /^\]/ { list = "" }
        END {
            if (!count["keywords"]) print "no keywords"
            if (count["keywords"] > 5) print "more than five keywords"
            if (!count["categories"]) print "no categories"
        }' "$1/Cargo.toml"
    for file in README.md LICENSE-APACHE LICENSE-MIT; do
        [ -f "$1/$file" ] || echo "no $file"
    done
    [ ! -f "$1/README.md" ] || awk '
        /^(```|~~~)/ { fenced = !fenced }
        !fenced && (/\]\([^)#:]*\)/ || /^ *\[[^]]+\]: +[^:]*$/) { print "README.md:" FNR ": a relative link" }' "$1/README.md"
}

# leaving PACKAGE: what its sources read that is not in it.
leaving() {
    local file line wanted
    { grep -Erno --include='*.rs' '(include(_str|_bytes)?!\(|#\[path = )"[^"]+"' "$1" || true; } |
        while IFS=: read -r file line wanted; do
            wanted=${wanted#*\"}
            wanted=$(realpath -m "$(dirname "$file")/${wanted%\"}")
            [[ $wanted == "$(realpath "$1")"/* && -f $wanted ]] || echo "${file#"$1/"}:$line: a file that is not in the package"
        done
    { grep -rn --include='*.rs' --exclude=build.rs 'env!("CARGO_MANIFEST_DIR")' "$1" || true; } |
        while IFS=: read -r file line _; do
            echo "${file#"$1/"}:$line: the folder that it was built in"
        done
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/whole/src/part" "$work/faulty/src" "$work/whole/data"
touch "$work/whole/LICENSE-APACHE" "$work/whole/LICENSE-MIT" "$work/whole/data/a.toml" "$work/outside.toml"
printf '%s = ""\n' description readme license repository rust-version >"$work/whole/Cargo.toml"
printf 'keywords = [\n    "a",\n]\ncategories = [\n    "b",\n]\n[package.metadata.docs.rs]\n' >>"$work/whole/Cargo.toml"
printf '[a](https://docs.rs) [b](#c) [d]\n```\n[e](f)\n```\n[d]: https://docs.rs\n' >"$work/whole/README.md"
echo 'const A: &str = include_str!("../../data/a.toml");' >"$work/whole/src/part/lib.rs"
printf '%s = ""\n' readme license repository rust-version >"$work/faulty/Cargo.toml"
printf 'keywords = [\n%s]\n' "$(printf '    "%s",\n' a b c d e f)"$'\n' >>"$work/faulty/Cargo.toml"
printf '[a](docs/a.md)\n[b]: ../a.md\n' >"$work/faulty/README.md"
cp "$work/whole/LICENSE-MIT" "$work/faulty"
printf '%s\n' 'const A: &str = include_str!("../../outside.toml");' 'const B: &[u8] = include_bytes!("gone");' '#[path = "gone.rs"]' \
    'const C: &str = env!("CARGO_MANIFEST_DIR");' >"$work/faulty/src/lib.rs"
expected='no description
nothing for docs.rs
more than five keywords
no categories
no LICENSE-APACHE
README.md:1: a relative link
README.md:2: a relative link
src/lib.rs:1: a file that is not in the package
src/lib.rs:2: a file that is not in the package
src/lib.rs:3: a file that is not in the package
src/lib.rs:4: the folder that it was built in'
found=$(lacking "$work/whole" && leaving "$work/whole" && lacking "$work/faulty" && leaving "$work/faulty")
[ "$found" = "$expected" ] || fail "the self-test wanted:
$expected
and got:
$found"

unpublished=() crates=()
for manifest in crates/*/Cargo.toml ci/*/Cargo.toml; do
    name=$(sed -n 's/^name = "\(.*\)"/\1/p' "$manifest" | head -n 1)
    if grep -qx 'publish = false' "$manifest"; then
        unpublished+=(--exclude "$name")
    else
        crates+=("$name")
    fi
done

# Whatever a build needs is fetched here, so that cargo may pack without asking the registry.
cargo metadata --locked --format-version 1 --filter-platform "$(rustc -vV | sed -n 's/^host: //p')" >/dev/null
rm -rf "$target/package" "$target/packages"
cargo package --quiet --workspace "${unpublished[@]}" --no-verify --offline --locked --allow-dirty --target-dir "$target"
mkdir -p "$target/packages"
for package in "$target"/package/*.crate; do
    # With the time of now: by that of the package, which is always the same, cargo would take an older build for this one.
    tar -xmf "$package" -C "$target/packages"
done

found=$(for name in "${crates[@]}"; do
    package=$(find "$target/packages" -maxdepth 1 -name "$name-[0-9]*")
    if [ -d "$package" ]; then
        { lacking "$package"; leaving "$package"; } | sed "s/^/$name: /"
    else
        echo "$name: cargo made no package"
    fi
done)
[ -z "$found" ] || fail "these packages are not whole:
$found"

# A workspace of the packages alone, with the dependencies and profiles of this one, so that what was compiled serves it.
{
    printf '[workspace]\nresolver = "3"\nmembers = ["*"]\n\n[patch.crates-io]\n'
    for name in "${crates[@]}"; do
        echo "$name = { path = \"$(basename "$target/packages/$name"-[0-9]*)\" }"
    done
    sed -n '/^\[profile/,$p' Cargo.toml
} >"$target/packages/Cargo.toml"
cp Cargo.lock "$target/packages"
check=(check --quiet --offline --workspace --manifest-path "$target/packages/Cargo.toml")
cargo "${check[@]}" --lib --bins --examples --target-dir "$target"
echo "package: ${#crates[@]} crates make whole packages, which compile: ${crates[*]}"

oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
grep -q "toolchain, $oldest or later" README.md || fail "README.md does not name Rust $oldest, the oldest of Cargo.toml"
if rustup toolchain list 2>/dev/null | grep -Eq "^$oldest(\.0)?-"; then
    cargo "+$oldest" "${check[@]}" --target-dir "$target/oldest"
    echo "package: they compile with Rust $oldest, the oldest"
else
    echo "SKIPPED: packages with Rust $oldest, which is not installed (rustup toolchain install $oldest --profile minimal)"
fi

release=$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null || true)
if ! cargo semver-checks --version >/dev/null 2>&1; then
    echo "SKIPPED: changes of the API, for which cargo-semver-checks is not installed (cargo install cargo-semver-checks --locked)"
elif [ -z "$release" ]; then
    echo "SKIPPED: changes of the API, because there is no release (a tag v...) to compare with"
else
    cargo semver-checks --workspace "${unpublished[@]}" --baseline-rev "$release"
fi
