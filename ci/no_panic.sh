#!/usr/bin/env bash
# Checks that no public operation of the core can panic, nor a call of the C interface of kernels, by linking.
#
# Why: the core runs where a panic stops the machine, so every failure has to be a value. Reading the code for it does
# not scale; the symbol table of an optimised, linked object decides it.
#
# How: crates/framewright-nopanic calls every operation from functions named framewright_call_*. It is built as a
# freestanding static library (profile `kernel` of Cargo.toml), then linked with --gc-sections and only those functions
# as roots, so that code of the precompiled standard core which nothing calls is gone. Then the symbols are read.
#
# The C interface of kernels is built and linked alike, with every function of its header as a root.
#
# Fails if: a symbol of core::panicking or the panic handler is left; the linked object needs a symbol other than the
# memory functions of C and a kernel's hooks; a call was lost on the way (nothing would have been proved); a pub fn of the core
# is called by no framewright_call_*; or, as positive control, the build with one planted indexing operation does *not*
# show core::panicking.
#
# Target: the host, and x86_64-unknown-none as well where its standard core is installed.
set -euo pipefail
cd "$(dirname "$0")/.."

. ci/baseline.bash

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

host=$(rustc -vV | sed -n 's/^host: //p')
bare=x86_64-unknown-none
crate=crates/framewright-nopanic
header=crates/framewright-kernel-capi/include/framewright_kernel.h
panicking='4core9panicking|rust_begin_unwind|framewright_panic_is_reachable|fw_hook_panic'
memory='memcpy|memmove|memset|memcmp|bcmp|strlen'

# The linker and the symbol reader, both from the toolchain or from binutils.
find_linker
nm=$(command -v nm || command -v llvm-nm) || fail "neither nm nor llvm-nm was found (package binutils)"

# build TARGET FEATURE OUT [PACKAGE ROOTS]: builds, links with the functions that begin with ROOTS as roots, and writes the
# symbols of the result to OUT. By default the calls of the core.
build() {
    local target=$1 feature=$2 out=$3 package=${4:-framewright-nopanic} prefix=${5:-framewright_call_} directory archive roots
    cargo rustc --quiet --locked --package "$package" --lib --crate-type staticlib --target "$target" \
        --profile kernel --features "$feature"
    directory=$(cargo metadata --locked --no-deps --format-version 1 |
        sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
    archive=$directory/$target/kernel/lib${package//-/_}.a
    # Objects of the standard library without symbols make nm grumble on its error stream.
    "$nm" --defined-only "$archive" 2>/dev/null | awk -v prefix="^$prefix" '$3 ~ prefix { print $3 }' | sort -u >"$work/roots"
    [ -s "$work/roots" ] || fail "$archive defines no $prefix*"
    mapfile -t roots <"$work/roots"
    "${linker[@]}" --gc-sections --unresolved-symbols=ignore-all -e "${roots[0]}" "${roots[@]/#/--undefined=}" \
        -o "$work/linked" "$archive"
    "$nm" "$work/linked" | awk '{ print $NF, $(NF - 1) }' | sort -u >"$out"
}

# expected_calls CONTROL: the functions that `call!` makes; with the planted one if CONTROL is 1.
expected_calls() {
    awk -v control="$1" '
        /^#\[cfg\(feature = "control"\)\]/ { planted = 1 }
        /^call! \{/ { inside = 1 }
        /^}/ { planted = inside = 0 }
        inside && /^    fn [a-z0-9_]+\(/ {
            if (planted && control != 1) next
            sub(/^    fn /, ""); sub(/\(.*/, "")
            print "framewright_call_" $0
        }' "$crate"/src/{,layer_,kit_}calls.rs | sort -u
}

# uncalled SOURCE CALLS...: every pub fn under SOURCE (inline test modules aside) whose name no `.name` or `::name` in CALLS uses.
# By name only: `Order::index` counts as called when `ZoneIdx::index` is. The linker cannot tell them apart earlier.
uncalled() {
    find "$1" -name '*.rs' | sort | while read -r file; do
        awk -v file="$file" '
            pending && /^(pub(\([a-z]+\))? )?mod [a-z0-9_]+ *\{/ { exit }
            !/^#/ { pending = 0 }
            /^#\[cfg\((all\()?test[,)]/ { pending = 1 }
            /^ *pub (const )?(unsafe )?fn / {
                sub(/^ *pub (const )?(unsafe )?fn /, ""); sub(/[^A-Za-z0-9_].*/, "")
                print file, $0
            }' "$file"
    done | while read -r file name; do
        grep -Eqs "[.:]$name([^A-Za-z0-9_]|\$)" "${@:2}" || echo "$file: $name"
    done
}

# Self-test of `uncalled`: one function called, two not, one of them below a test module that is a file.
mkdir "$work/src"
printf '%s\n' 'impl A {' '    pub const fn called(self) {}' '    pub fn forgotten(self) {}' '    pub(crate) fn inner(self) {}' '}' \
    '#[cfg(test)]' 'mod double;' 'pub fn below() {}' '#[cfg(test)]' 'mod tests {' '    pub fn aside() {}' '}' >"$work/src/a.rs"
echo 'a.called();' >"$work/calls.rs"
[ "$(uncalled "$work/src" "$work/calls.rs")" = "$work/src/a.rs: forgotten
$work/src/a.rs: below" ] || fail "self-test: coverage is not seen"

echo "linked with ${linker[0]##*/}, symbols read with ${nm##*/}"
missing=$(uncalled crates/framewright/src "$crate"/src/{,layer_}calls.rs; uncalled crates/framewright-kernel/src "$crate/src/kit_calls.rs")
[ -z "$missing" ] || fail "public functions of the core or the kit that $crate/src/calls.rs, layer_calls.rs and kit_calls.rs do not call:
$missing"

targets=("$host")
case $host in
*-linux-*) ;;
*)
    echo "SKIPPED: no_panic on $host, whose objects are not ELF"
    targets=()
    ;;
esac
if [ -d "$(rustc --print target-libdir --target $bare)" ]; then
    targets+=("$bare")
else
    echo "SKIPPED: no_panic on $bare, whose standard core is not installed; checked on the host only"
fi

for target in "${targets[@]}"; do
    build "$target" control "$work/control"
    expected_calls 1 | while read -r call; do
        grep -q "^$call T" "$work/control" || fail "$target: $call was lost in the control's link"
    done
    grep -Eq '4core9panicking' "$work/control" || fail "$target: the planted indexing operation was not found"
    grep -Eq '^framewright_panic_is_reachable U' "$work/control" || fail "$target: the control reaches no panic handler"

    build "$target" freestanding "$work/symbols"
    expected_calls 0 | while read -r call; do
        grep -q "^$call T" "$work/symbols" || fail "$target: $call was lost in the link"
    done
    if grep -E "$panicking" "$work/symbols"; then
        fail "$target: the symbols above are reachable from the core's operations"
    fi
    if awk '$2 == "U" { print $1 }' "$work/symbols" | grep -Evx "$memory"; then
        fail "$target: the core needs the symbols above from outside"
    fi
    echo "$target: $(expected_calls 0 | wc -l) calls linked, $(wc -l <"$work/symbols") symbols, none of core::panicking;" \
        "the control shows $(grep -Ec "$panicking" "$work/control")"

    for features in panic-handler panic-handler,softirqs,fence-interrupts; do
        build "$target" "$features" "$work/symbols" framewright-kernel-capi fw_
        sed -nE 's/^(int|int64_t|uint32_t|const char \*) ?(fw_[a-z_]+)\(.*/\2/p' "$header" | while read -r call; do
            grep -q "^$call T" "$work/symbols" || fail "$target: $call of the header was lost in the link"
        done
        if grep -E "$panicking" "$work/symbols"; then
            fail "$target: the symbols above are reachable from the C interface of kernels ($features)"
        fi
        if awk '$2 == "U" { print $1 }' "$work/symbols" | grep -Evx "$memory|fw_hook_[a-z_]+"; then
            fail "$target: the C interface of kernels needs the symbols above from outside ($features)"
        fi
        echo "$target: $(wc -l <"$work/roots") functions of C linked ($features), no symbol of core::panicking"
    done
done
