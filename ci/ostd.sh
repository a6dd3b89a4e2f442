#!/usr/bin/env bash
# Compiles crates/framewright-ostd against the real OSTD, and boots the kernel of examples/ostd with it.
#
# Why: the crate's macro names items of OSTD that no crate of the workspace depends on, and its tests have a copy of their
# shape. Fails if the kernel does not compile against the OSTD of its Cargo.lock, or that file is out of date; if a run finds a wrong
# page, a refused free or a violated invariant, or counts nothing; or if the self-test fails: a macro that misses a method must not compile,
# and planted outputs must be judged wrong.
#
# OSTD uses features of the compiler that are not stable, so RUSTC_BOOTSTRAP is set for this build alone, which has a target folder of
# its own. Half a minute of compiling when nothing is built, on two idle cores, and a few seconds of a run. Skipped, loudly, where the
# target's core library or OSTD cannot be had; the run without QEMU.
set -euo pipefail
cd "$(dirname "$0")/.."

manifest=examples/ostd/Cargo.toml
target=x86_64-unknown-none

fail() {
    echo "ostd: $*" >&2
    exit 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# is_sound LOG STATUS: whether a run ended well and did what it should.
is_sound() {
    [ "$2" -eq 0 ] && grep -q '^validate: every invariant holds' "$1" && grep -qx 'refused frees: 0' "$1" &&
        grep -Eq '^counts: .* allocations=[1-9].* interrupt-allocations=[1-9].* pages-checked=[1-9].* wrong-pages=0$' "$1" &&
        ! grep -q '^framewright: ' "$1"
}

# planted STATUS LINE...: judges a planted output.
planted() {
    printf '%s\n' 'validate: every invariant holds: 9 frames, 8 free' 'refused frees: 0' "${@:2}" >"$work/planted"
    is_sound "$work/planted" "$1"
}
counts='counts: cpus=2 allocations=7 failed=0 interrupt-allocations=5 pages-checked=6 wrong-pages=0'
planted 0 "$counts" || fail "self-test: a sound run is judged wrong"
planted 1 "$counts" && fail "self-test: a failed run is judged sound"
planted 0 "${counts/pages=0/pages=1}" && fail "self-test: a wrong page is judged sound"
planted 0 "${counts/interrupt-allocations=5/interrupt-allocations=0}" && fail "self-test: a run without interrupts is judged sound"
planted 0 "$counts" 'framewright: frames 0x1..0x2 are not freed: frame 0x1 is free already' && fail "self-test: a refused free is judged sound"

if [ ! -d "$(rustc --print target-libdir --target $target)" ]; then
    echo "SKIPPED: OSTD, for whose target the core library is not installed (rustup target add $target)"
    exit
fi
if ! cargo fetch --quiet --locked --manifest-path $manifest --target $target 2>"$work/fetch"; then
    ! grep -q 'lock file .* needs to be updated' "$work/fetch" || fail "$(cat "$work/fetch")"
    echo "SKIPPED: OSTD, which cannot be had: $(tail -n 1 "$work/fetch")"
    exit
fi
export RUSTC_BOOTSTRAP=1
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS
cargo clippy --quiet --locked --release --manifest-path $manifest --target $target -- -D warnings
echo "ostd: the macro compiles against ostd $(sed -n '/^name = "ostd"$/{n;s/version = "\(.*\)"/\1/p}' examples/ostd/Cargo.lock)"

# A name that OSTD has not.
mkdir "$work/planted.d"
cp -r examples/ostd/{Cargo.toml,Cargo.lock,build.rs,kernel.ld,src} "$work/planted.d"
sed -i "s|\"../../crates/|\"$PWD/crates/|" "$work/planted.d/Cargo.toml"
sed -i 's|::ostd::mm::io_util|::ostd::mm::no_such|' "$work/planted.d/src/main.rs"
folder=$(cargo metadata --locked --no-deps --format-version 1 --manifest-path $manifest | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
if cargo check --quiet --locked --release --manifest-path "$work/planted.d/Cargo.toml" --target $target --target-dir "$folder" 2>"$work/log"; then
    fail "self-test: a name that OSTD has not was compiled"
fi
grep -q 'no_such' "$work/log" || fail "self-test: $(cat "$work/log")"

if ! command -v qemu-system-x86_64 >/dev/null; then
    cargo build --quiet --locked --release --manifest-path $manifest --target $target
    echo "SKIPPED: OSTD's run, without qemu-system-x86_64 (Debian: package qemu-system-x86)"
    exit
fi
for cpus in 1 2; do
    status=0
    examples/ostd/run --cpus $cpus >"$work/log" 2>&1 || status=$?
    # The console ends its lines as a terminal wants them.
    sed -i 's/\r$//' "$work/log"
    is_sound "$work/log" "$status" || fail "exit status $status; the run's output was:
$(cat "$work/log")"
    echo "ostd: $(grep '^counts: ' "$work/log")"
done
