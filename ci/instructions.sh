#!/usr/bin/env bash
# Counts the instructions of an allocation and of a free, and holds them against ci/instructions.txt.
#
# Why: instructions do not depend on the machine's clock or load, so unlike a time they can be checked. They are printed, with
# what is aimed at (30 each) and what Linux takes (442 and 259). The numbers are those of the release profile and of order 0,
# GFP_KERNEL, 64 pages at a time, statistics on, preset default; examples/instructions.rs of framewright-bench says how it counts.
# Variants kernel are of a machine as a kernel is, whose CPU words are in %gs: no thread-local, no lease of a CPU.
#
# Counted twice: by single steps of the processor, which is the path that programs go, and by callgrind, which is
# independent of our own counting. Fails if a number is more than `tolerance` above its baseline, or has none, or has one that is
# not counted any more; if memory above a hole (variants -above) takes more than `above` instructions more than other memory; if the two
# ways differ by more than `agreement`; if they do not take the same path (mode of CPUs, asymmetric fence, allocations that the
# allocator counted, steps of the core); or if the self-test, one planted violation of each kind, goes unnoticed. Where there is no
# valgrind, or another architecture than x86-64, the parts that need it are skipped, loudly.
set -euo pipefail
cd "$(dirname "$0")/.."

. ci/baseline.bash

tolerance=2 unit=instructions agreement=0.5 above=3
baseline=ci/instructions.txt
aimed_at=30
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# apart A B: numbers that the two files do not agree on.
apart() {
    awk -v agreement="$agreement" '
        FNR == NR { first[$1 " " $2] = $3; next }
        { name = $1 " " $2; if (!(name in first)) { print name ": counted once"; next } }
        $3 > first[name] + agreement || $3 < first[name] - agreement {
            print name ": " first[name] " by single steps, " $3 " by callgrind"
        }
        { delete first[name] }
        END { for (name in first) print name ": counted once" }' "$1" "$2"
}

# higher COUNTS: numbers of memory above a hole that are too far from those of other memory.
higher() {
    awk -v above="$above" '
        { count[$1 " " $2] = $3 }
        END {
            for (name in count) {
                other = name
                if (sub(/-above /, " ", other) && count[name] > count[other] + above)
                    print name ": " count[name] " instructions, without a hole " count[other]
            }
        }' "$1"
}

# Self-test: each line of `changes` is found, and what is unchanged is not.
printf 'a alloc 30.00\na free 40.00\n' >"$work/good"
[ -z "$(wrong "$work/good" "$work/good")$(apart "$work/good" "$work/good")" ] || fail "self-test: equal counts differ"
while read -r check change; do
    sed "$change" "$work/good" >"$work/bad"
    [ "$("$check" "$work/good" "$work/bad" | wc -l)" -eq 1 ] || fail "self-test: $check does not find '$change'"
done <<'END'
wrong s/30.00/32.01/
wrong s/^a.free.*//
wrong $s/$/\nb free 1/
apart s/40.00/40.51/
apart s/40.00/39.49/
apart $d
apart $s/$/\nb free 1/
END

printf 'a alloc 30.00\na-above alloc 33.01\nb free 9.00\nb-above free 12.00\n' >"$work/high"
[ "$(higher "$work/high")" = "a-above alloc: 33.01 instructions, without a hole 30.00" ] || fail "self-test: higher finds '$(higher "$work/high")'"

host=$(rustc -vV | sed -n 's/^host: //p')
case $host in
x86_64-*-linux-*) ;;
*)
    echo "SKIPPED: instruction counts on $host: the baseline is of x86_64 Linux"
    exit 0
    ;;
esac

# With the laboratory selected too, dependencies have the features that ci/reproduce.sh built them with.
cargo build --quiet --locked --release --package framewright-lab --package framewright-bench --example instructions
directory=$(cargo metadata --locked --no-deps --format-version 1 | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
program=$directory/release/examples/instructions
mapfile -t variants < <(awk '!/^#/ && NF { print $1 }' "$baseline" | uniq)

"$program" step >"$work/step" || fail "the program cannot be single-stepped"
sed -n 's/^count //p' "$work/step" >"$work/stepped"
grep '^fingerprint' "$work/step" >"$work/path"
for variant in "${variants[@]}"; do
    "$program" steps "$variant" >>"$work/path"
done
cat "$work/path"

echo "instructions a page (aimed at: $aimed_at for alloc and for free; Linux: 442 and 259, in bulk 69 and 259):"
awk -v aim="$aimed_at" '
    FNR == NR { wanted[$1 " " $2] = $3; next }
    { printf "  %-14s %-7s %7.2f  baseline %7.2f%s\n", $1, $2, $3, wanted[$1 " " $2], ($2 != "repeat" && $3 > aim) ? "  above what is aimed at" : "" }
    $3 < wanted[$1 " " $2] - 0.5 { print "  NOTE: fewer than the baseline; write it into ci/instructions.txt" }' "$baseline" "$work/stepped"
found=$(wrong "$baseline" "$work/stepped")
[ -z "$found" ] || fail "$found"
found=$(higher "$work/stepped")
[ -z "$found" ] || fail "$found"

if ! command -v valgrind >/dev/null; then
    echo "SKIPPED: instruction counts by callgrind, which is not installed (package valgrind); counted by single steps only"
    exit 0
fi
pages=512 # 8 batches of 64.
for variant in "${variants[@]}"; do
    for what in alloc free repeat; do
        valgrind --tool=callgrind --callgrind-out-file="$work/callgrind" --toggle-collect="*counted_$what*" \
            "$program" run "$variant" >"$work/run" 2>"$work/log" || fail "callgrind: $(cat "$work/log")"
        sed -n 's/.*Collected *: *//p' "$work/log" | awk -v name="$variant $what" -v pages="$pages" '
            { printf "%s %.2f\n", name, $1 / pages }' >>"$work/emulated"
        if [ "$what" != repeat ] && [[ $variant != *bulk* ]]; then
            callgrind_annotate --threshold=100 --show-percs=no "$work/callgrind" 2>/dev/null |
                awk -v name="$variant $what" -v pages="$pages" -v loop="counted_$what" '
                    $1 ~ /^[0-9,]+$/ && index($0, loop) { gsub(",", "", $1); sum += $1 }
                    END { printf "%s %.2f\n", name, sum / pages }' >>"$work/loops"
        fi
    done
    cat "$work/run" >>"$work/emulated-path"
done
for variant in "${variants[@]}"; do
    valgrind --tool=none "$program" steps "$variant" >>"$work/emulated-path" 2>"$work/log" || fail "$(cat "$work/log")"
done
if ! diff "$work/path" "$work/emulated-path"; then
    fail "under valgrind another path is taken (< here, > there)"
fi
found=$(apart "$work/stepped" "$work/emulated")
[ -z "$found" ] || fail "the two ways to count differ:
$found"
echo "of these, the loop around the calls:"
awk '
    FNR == NR { total[$1 " " $2] = $3; next }
    { printf "  %-14s %-7s %7.2f  the call alone %6.2f\n", $1, $2, $3, total[$1 " " $2] - $3 }' "$work/emulated" "$work/loops"
echo "instructions: callgrind counts the same, within $agreement, on the same path"
