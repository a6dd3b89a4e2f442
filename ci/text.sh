#!/usr/bin/env bash
# Measures the code of boot, alloc and free in a kernel, and holds it against ci/text.txt.
#
# Why: a small kernel compiles the mechanisms and features that it uses (docs/decisions/0028-what-a-kernel-compiles.md), and a
# branch that the compiler cannot remove any more shows nowhere else. crates/framewright-nopanic is built for x86_64-unknown-none
# at opt-level s with the machine of src/kernel.rs, once for each variant, and linked with the three calls as the only roots. A
# second link has alloc and free alone: that is what stays where a kernel discards its boot code.
#
# Fails if a number is more than `tolerance` percent above its baseline, or has none, or has one that is not measured any more;
# if a variant is not smaller than the one before it, so that its constants remove nothing (`kit` is `minimal` through the kit
# for kernels, and larger); if core::panicking is reachable; or
# if the self-test, one planted violation of each kind, goes unnoticed. Skipped, loudly, where the target is not installed.
set -euo pipefail
cd "$(dirname "$0")/.."

. ci/baseline.bash

tolerance=1% unit=bytes
baseline=ci/text.txt
target=x86_64-unknown-none
crate=crates/framewright-nopanic
# In the order of size, each a feature of the crate.
variants=(all default small minimal kit)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# unpruned SIZES: variants that are not smaller than the one before them.
unpruned() {
    awk '$1 != "kit" && $2 == "three" { if (before != "" && $3 >= last) print $1 ": not smaller than " before; before = $1; last = $3 }' "$1"
}

printf 'a three 1000\na pair 500\nb three 900\n' >"$work/good"
[ -z "$(wrong "$work/good" "$work/good")$(unpruned "$work/good")" ] || fail "self-test: equal sizes differ"
while read -r check change; do
    sed "$change" "$work/good" >"$work/bad"
    if [ "$check" = wrong ]; then found=$(wrong "$work/good" "$work/bad"); else found=$(unpruned "$work/bad"); fi
    [ "$(grep -c . <<<"$found")" -eq 1 ] || fail "self-test: $check does not find '$change'"
done <<'END'
wrong s/1000/1011/
wrong /pair/d
wrong $s/$/\nc pair 1/
unpruned s/900/1000/
END

if [ ! -d "$(rustc --print target-libdir --target $target)" ]; then
    echo "SKIPPED: sizes of code on $target, whose standard core is not installed"
    exit 0
fi
find_linker
nm=$(command -v nm || command -v llvm-nm) || fail "neither nm nor llvm-nm was found (package binutils)"

# bytes ARCHIVE WHAT CALL...: links the calls, and prints the bytes of all functions.
bytes() {
    local archive=$1 linked=$work/$2
    shift 2
    local roots=("${@/#/framewright_text_}")
    "${linker[@]}" --gc-sections --unresolved-symbols=ignore-all -e "${roots[0]}" "${roots[@]/#/--undefined=}" -o "$linked" "$archive"
    if "$nm" "$linked" | grep -E '4core9panicking|framewright_panic_is_reachable'; then
        fail "the symbols above are reachable"
    fi
    # Sizes in hexadecimal; not every awk reads them.
    "$nm" --print-size "$linked" | sed -En 's/^[0-9a-f]+ ([0-9a-f]+) [tTwW] .*/0x\1/p' | {
        sum=0
        while read -r size; do sum=$((sum + size)); done
        echo "$sum"
    }
}

directory=$(cargo metadata --locked --no-deps --format-version 1 | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
for variant in "${variants[@]}"; do
    cargo rustc --quiet --locked --package framewright-nopanic --lib --crate-type staticlib --target $target \
        --config 'profile.kernel.opt-level="s"' --profile kernel \
        --features "text-$variant"
    archive=$directory/$target/kernel/libframewright_nopanic.a
    echo "$variant three $(bytes "$archive" three boot alloc free)" >>"$work/sizes"
    echo "$variant pair $(bytes "$archive" pair alloc free)" >>"$work/sizes"
done

echo "bytes of code at opt-level s (aimed at: 49152 for the default preset, 24576 for the least):"
echo "  variant   boot+alloc+free  baseline   alloc+free  baseline"
awk '
    /^#/ || NF == 0 { next }
    FNR == NR { wanted[$1 $2] = $3; next }
    { size[$1 $2] = $3; if (!($1 in seen)) { order[++count] = $1; seen[$1] = 1 } }
    END {
        for (i = 1; i <= count; i++) {
            name = order[i]
            printf "  %-9s %15d %9d %12d %9d\n", name, size[name "three"], wanted[name "three"], size[name "pair"], wanted[name "pair"]
        }
        for (name in size) if (size[name] < wanted[name] * 0.99) print "  NOTE: " name " is smaller than the baseline; write it into ci/text.txt"
    }' "$baseline" "$work/sizes"
found=$(wrong "$baseline" "$work/sizes")
[ -z "$found" ] || fail "$found"
found=$(unpruned "$work/sizes")
[ -z "$found" ] || fail "$found"
