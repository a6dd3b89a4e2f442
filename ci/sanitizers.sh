#!/usr/bin/env bash
# Runs the runtime under the compiler's sanitizers, under Miri and under valgrind.
#
# Why: each sees what no test of ours can. The programs are those of tools/sanitizers, whose headers say what they do.
#
#   thread     ThreadSanitizer: pages come to their next owner with all that the last one wrote (payloads)
#   address    AddressSanitizer: the allocator touches no page that is nobody's, arenas of every kind (freed, kinds), and the unit
#              tests of the runtime. With the feature `asan`, an owner's access to a page after its free is reported
#   realtime   RealtimeSanitizer: calls that may not wait ask the C library for nothing (realtime)
#   miri       the unsafe code of the C boundary and of the kit for kernels, with the core on its words
#   valgrind   memcheck: arenas of every kind start, and there is no error (kinds)
#
# Fails if one of them reports something, or if one does not report the fault planted for it: a swap without an order, a write after a
# free, a read after a free, a vector made in a function that may not wait, a byte that nothing initialised. The first three need a nightly compiler,
# Miri its component too; whatever is missing is skipped, loudly.
#
# Usage: ci/sanitizers.sh [NAME...]; OPERATIONS=1000000000 runs payloads for an hour
set -euo pipefail
cd "$(dirname "$0")/.."

operations=${OPERATIONS:-10000000}

fail() {
    echo "sanitizers: $*" >&2
    exit 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

host=$(rustc -vV | sed -n 's/^host: //p')
target=$(cargo metadata --locked --no-deps --format-version 1 | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
# Each sanitizer compiles its crates for itself; the macros are compiled once. The standard library stays as it is.
folder=$target/sanitizers
programs=$folder/$host/release

# has_nightly NAME: whether there is a nightly compiler.
has_nightly() {
    cargo +nightly --version >"$work/nightly" 2>&1 && return
    echo "SKIPPED: $1, which needs a nightly compiler (rustup toolchain install nightly)"
    return 1
}

# build SANITIZER FLAGS COMMAND...: cargo's command with the flags.
build() {
    local flags="-Zsanitizer=$1 -Cunsafe-allow-abi-mismatch=sanitizer $2"
    RUSTFLAGS=$flags cargo +nightly "${@:3}" --quiet --locked --target "$host" --target-dir "$folder"
}

# clean COMMAND...: fails unless it ends well.
clean() {
    "$@" >"$work/log" 2>&1 || fail "$* ended with $?:
$(head -c 10000 "$work/log")"
}

# reports TEXT COMMAND...: the self-test, fails unless the command ends ill and its log has the text.
reports() {
    if "${@:2}" >"$work/log" 2>&1; then
        fail "self-test: nothing is reported by ${*:2}"
    fi
    grep -q "$1" "$work/log" || fail "self-test: ${*:2} does not report '$1': $(head -c 4000 "$work/log")"
}

thread() {
    has_nightly ThreadSanitizer || return 0
    build thread '--cfg framewright_tsan' build --release -p sanitizers --bin payloads
    export TSAN_OPTIONS=halt_on_error=1
    reports 'ThreadSanitizer: data race' "$programs/payloads" 100000 relaxed
    reports 'ThreadSanitizer: data race' "$programs/payloads" late
    clean "$programs/payloads" "$operations"
    cat "$work/log"
}

address() {
    has_nightly AddressSanitizer || return 0
    # Blocks that tests forget on purpose are no leaks, and a request for too much is refused by a type, not by the sanitizer.
    export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1
    build address '' build --release -p sanitizers --bin freed --bin kinds --features asan
    reports 'AddressSanitizer: use-after-poison' "$programs/freed" read
    reports 'AddressSanitizer: use-after-poison' "$programs/freed" write
    clean "$programs/freed"
    clean "$programs/kinds"
    # Not optimised: compiling would take longer than running.
    build address '' test -p framewright-rt --lib --config 'profile.test.opt-level=0' --config 'profile.dev.debug=false' \
        --config 'profile.dev.package."*".opt-level=0' >"$work/log" 2>&1 || fail "$(tail -n 60 "$work/log")"
    grep '^test result' "$work/log"
}

realtime() {
    has_nightly RealtimeSanitizer || return 0
    build realtime '--cfg framewright_rtsan' build --release -p sanitizers --bin realtime
    reports 'Intercepted call to real-time unsafe function `malloc`' "$programs/realtime" planted
    clean "$programs/realtime"
    cat "$work/log"
}

miri() {
    has_nightly Miri || return 0
    if ! cargo +nightly miri --version >"$work/log" 2>&1; then
        echo "SKIPPED: Miri, whose component is not installed (rustup component add miri rust-src --toolchain nightly)"
        return 0
    fi
    # Kernels of the tests live as long as the process.
    export MIRIFLAGS=-Zmiri-ignore-leaks
    reports 'uninitialized' cargo +nightly miri run --quiet --locked --target-dir "$folder" -p sanitizers --bin kinds planted
    # Generated maps are for other tests: Miri takes seconds for each.
    clean timeout 600 cargo +nightly miri test --quiet --locked --target-dir "$folder" -p framewright-ffi --lib
    clean timeout 600 cargo +nightly miri test --quiet --locked --target-dir "$folder" -p framewright-kernel --test kit -- tags:: descriptors_lie
    grep '^test result' "$work/log"
}

memcheck() {
    valgrind --quiet --error-exitcode=9 "$@"
}

arenas_under_valgrind() {
    if ! command -v valgrind >/dev/null; then
        echo "SKIPPED: arenas under valgrind, which is not installed (package valgrind)"
        return 0
    fi
    # With the laboratory selected too, dependencies are those that ci/reproduce.sh built.
    cargo build --quiet --locked --release -p framewright-lab -p sanitizers --bin kinds
    reports 'uninitialised' memcheck "$target/release/kinds" planted
    clean memcheck "$target/release/kinds"
    cat "$work/log"
}

names=(thread address realtime miri valgrind)
[ $# -eq 0 ] || names=("$@")
for name in "${names[@]}"; do
    began=$SECONDS
    case $name in
    thread | address | realtime | miri) "$name" ;;
    valgrind) arenas_under_valgrind ;;
    *) fail "there is no $name" ;;
    esac
    echo "sanitizers: $name after $((SECONDS - began)) s"
done
