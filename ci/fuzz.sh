#!/usr/bin/env bash
# Replays the corpus of each fuzz target, and fuzzes each for some seconds.
#
# Why: every reader of foreign bytes, and every list of calls, has inputs that nobody thinks of. The corpora (fuzz/corpus) are small
# inputs that together reach what was ever reached; replaying them finds what broke, and the seconds after that look a little further.
#
# Built by the stable compiler: its pass for coverage needs no option of a nightly one, and no `cargo fuzz`. Without AddressSanitizer,
# because the readers are safe code, and three times as many inputs find more. Assertions and checks of overflow are on.
#
# Fails if a target panics, hangs for 10 s or takes more than 1 GiB for an input, which it then prints in base64; if a target has no corpus,
# a corpus no target, or a target runs fewer inputs than its corpus has; or if the self-test fails: the target `planted` has a panic that is
# found by coverage alone. Skipped, loudly, without a C++ compiler, which builds libFuzzer, or without its crates.
#
# Usage: ci/fuzz.sh [TARGET...]; FUZZ_SECONDS=3600 fuzzes longer, and FUZZ_KEEP=DIR keeps the inputs that reach more in DIR/TARGET
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${FUZZ_SECONDS:-20}
manifest=fuzz/Cargo.toml

fail() {
    echo "fuzz: $*" >&2
    exit 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mapfile -t targets < <(find fuzz/fuzz_targets -name '*.rs' ! -name planted.rs -printf '%f\n' | sed 's/\.rs$//' | sort)
if ! diff <(printf '%s\n' "${targets[@]}") <(find fuzz/corpus -mindepth 1 -maxdepth 1 -printf '%f\n' | sort); then
    fail "targets and corpora differ (< targets, > fuzz/corpus)"
fi
[ $# -eq 0 ] || targets=("$@")

if ! command -v "${CXX:-c++}" >/dev/null; then
    echo "SKIPPED: fuzzing, whose engine a C++ compiler builds (Debian: package g++)"
    exit
fi
host=$(rustc -vV | sed -n 's/^host: //p')
if ! cargo fetch --quiet --locked --manifest-path $manifest --target "$host" 2>"$work/fetch"; then
    ! grep -q 'lock file .* needs to be updated' "$work/fetch" || fail "$(cat "$work/fetch")"
    echo "SKIPPED: fuzzing, whose crates cannot be had: $(tail -n 1 "$work/fetch")"
    exit
fi

# Of the crates for the target alone, and not of build scripts and macros.
coverage=(-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing)
folder=$(cargo metadata --locked --no-deps --format-version 1 | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')/fuzz
RUSTFLAGS="${coverage[*]}" cargo build --quiet --locked --release --bins --manifest-path $manifest --target "$host" --target-dir "$folder"
programs=$folder/$host/release
echo "fuzz: built after $SECONDS s"

# Targets leave nothing of theirs elsewhere.
mkdir "$work/tmp"
export TMPDIR=$work/tmp

if "$programs/planted" -runs=2000000 -seed=1 -artifact_prefix="$work/" >"$work/log" 2>&1; then
    fail "self-test: the planted panic is not found"
fi
grep -q "panicked at.*planted.rs" "$work/log" || fail "self-test: $(tail -n 5 "$work/log")"

# one TARGET: replays its corpus and fuzzes it; prints a line.
one() {
    local target=$1 files runs new=$work/new/$1
    [ -z "${FUZZ_KEEP:-}" ] || new=$FUZZ_KEEP/$1
    mkdir -p "$new" "$work/found-$target"
    files=$(find "fuzz/corpus/$target" -type f | wc -l)
    if ! "$programs/$target" -max_total_time="$seconds" -max_len=1024 -len_control=0 -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 \
        -artifact_prefix="$work/found-$target/" "$new" "fuzz/corpus/$target" >"$work/log-$target" 2>&1; then
        echo "fuzz: $target failed:"
        grep -v '^#\|^[ \t]*NEW' "$work/log-$target" | tail -n 30
        for input in "$work/found-$target"/*; do echo "the input, in base64:"; base64 "$input"; done
        return 1
    fi
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/log-$target")
    if [ "$files" -eq 0 ] || [ "${runs:-0}" -lt "$files" ]; then
        echo "fuzz: $target ran ${runs:-no} inputs, and its corpus has $files"
        return 1
    fi
    printf 'fuzz: %-14s %4d inputs replayed, %9d run\n' "$target" "$files" "$runs"
}
export -f one
export programs work seconds

printf '%s\n' "${targets[@]}" | xargs -P 2 -I{} bash -c 'one {}' || fail "see above"
echo "fuzz: ${#targets[@]} targets, $seconds s each, two at a time: $SECONDS s"
