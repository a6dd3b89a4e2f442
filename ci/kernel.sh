#!/usr/bin/env bash
# Boots examples/kernel, a kernel for several CPUs that allocates its pages by Framewright, and examples/ckernel, a small one in
# C, and checks what they say.
#
# Why: that the allocator can be embedded is a claim until a kernel with preemption, interrupts and NMIs runs on it. Each run is a
# stress with tagged pages that ends with every CPU at rest and every invariant checked (examples/kernel/README.md).
#
# Fails if the kernel has a lint or its Cargo.lock is out of date; if a run finds a wrong page or a violated invariant, hangs, or
# counted nothing where it should count; if a planted mistake is not found: interrupts that share the CPU of the thread that they
# interrupt, and pins that leave preemption on; or if the self-test, a planted output for each of these, is judged wrong. A
# heavy fence that reaches nobody is reported and not judged: emulation finds it now and then. What finds it for certain
# are the models and `framewright stress --plant no-heavy-fence`. No run is judged by its time.
#
# The kernel in C is built for x86-64 where there is a C compiler (cc), and runs for a second: it must count something of
# everything, check every invariant, and find the block that it plants: one that is freed while it is held.
#
# Architectures: x86-64 on the bare target and on the host's, and AArch64 on both bare targets. Targets whose core library is not
# installed are skipped, loudly.
#
# Needs QEMU for each architecture, and takes less than two minutes with it. Where it is missing the kernel is built and the runs
# are skipped, loudly. Where CI is set, the user is root and there is apt-get, the package is installed first.
set -euo pipefail
cd "$(dirname "$0")/.."

manifest=examples/kernel/Cargo.toml
# A plant may need luck: the number of short runs it gets.
tries=8

fail() {
    echo "kernel: $*" >&2
    exit 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# verdict LOG STATUS: "sound", "wrong", or "nothing: " and why, for a run's output and exit status.
verdict() {
    local log=$1 status=$2 name
    if grep -q '^kernel: wrong \|^validate: .*\(violated\|expected\)' "$log"; then
        [ "$status" -eq 1 ] && echo wrong || echo "nothing: a mistake, but exit status $status"
        return
    fi
    for name in operations interrupts interrupt-allocations nmis nmi-allocations pages-checked migrations; do
        grep -Eq "^counts: .* $name=[1-9]" "$log" || { echo "nothing: no $name counted"; return; }
    done
    if [ "$status" -eq 0 ] && grep -q '^validate: every invariant holds' "$log" && grep -q '^counts: .* wrong-pages=0$' "$log"; then
        echo sound
    else
        echo "nothing: exit status $status"
    fi
}

# c_verdict LOG STATUS: likewise, for the kernel in C.
c_verdict() {
    local log=$1 status=$2 name
    if grep -q '^kernel: wrong: ' "$log"; then
        [ "$status" -eq 1 ] && echo wrong || echo "nothing: a mistake, but exit status $status"
        return
    fi
    for name in task interrupts nmis ticks pages-checked; do
        grep -Eq "^counts:.* $name=[1-9]" "$log" || { echo "nothing: no $name counted"; return; }
    done
    if [ "$status" -eq 0 ] && grep -q '^validate: every invariant holds' "$log" && grep -q '^counts: .* bad-frees=0$' "$log"; then
        echo sound
    else
        echo "nothing: exit status $status"
    fi
}

# planted STATUS WANTED LINE...: has `judge` judge a planted output.
judge=verdict
planted() {
    local status=$1 wanted=$2
    printf '%s\n' "${@:3}" >"$work/planted"
    [[ $($judge "$work/planted" "$status") == "$wanted"* ]] ||
        fail "self-test: wanted $wanted and got $($judge "$work/planted" "$status") for: ${*:3}"
}
counts='counts: cpus=2 operations=5 interrupts=4 interrupt-allocations=3 nmis=2 nmi-allocations=1 failed=0 pages-checked=9 migrations=1'
holds='validate: every invariant holds: 9 frames'
planted 0 sound "$holds" "$counts wrong-pages=0"
planted 1 wrong "kernel: wrong page: frame 0x1" "$counts wrong-pages=1"
planted 1 wrong "validate: invariant P2 is violated: expected 24, found 0" "$counts wrong-pages=0"
planted 1 wrong "validate: 7 frames are allocated, 8 expected" "$counts wrong-pages=0"
planted 0 nothing "kernel: wrong page: frame 0x1" "$counts wrong-pages=1"
planted 0 nothing "$holds"
planted 0 nothing "$counts wrong-pages=0"
planted 0 nothing "$holds" "${counts/nmis=2/nmis=0} wrong-pages=0"
planted 2 nothing "$holds" "$counts wrong-pages=0"

judge=c_verdict
counts='counts: task=5 interrupts=4 nmis=3 ticks=2 pages-checked=1'
planted 0 sound "$holds" "$counts bad-frees=0"
planted 1 wrong "kernel: wrong: a page has another's tag"
planted 0 nothing "kernel: wrong: a page has another's tag"
planted 0 nothing "$holds"
planted 0 nothing "$counts bad-frees=0"
planted 0 nothing "$holds" "$counts bad-frees=1"
planted 0 nothing "$holds" "${counts/nmis=3/nmis=0} bad-frees=0"
planted 2 nothing "$holds" "$counts bad-frees=0"

host=$(rustc -vV | sed -n 's/^host: //p')

# find_targets TARGET...: sets `targets` to those that can be built: bare ones with a core library, and the host's.
find_targets() {
    local target
    targets=()
    for target in "$@"; do
        if [ "$target" = "$host" ]; then
            targets+=("$target")
        elif [[ $target != *-none* ]]; then
            continue
        elif [ -d "$(rustc --print target-libdir --target "$target")" ]; then
            targets+=("$target")
        else
            echo "SKIPPED: kernel on $target, whose standard core is not installed (rustup target add $target)"
        fi
    done
}

# has_qemu ARCH PACKAGE: whether the machine can be emulated; in CI the package is installed first.
has_qemu() {
    local qemu=qemu-system-$1 package=$2
    if ! command -v "$qemu" >/dev/null && [ -n "${CI:-}" ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$package"; } \
            >"$work/apt" 2>&1 || echo "kernel: the package $package cannot be installed: $(tail -n 1 "$work/apt")"
    fi
    if ! command -v "$qemu" >/dev/null; then
        echo "SKIPPED: kernel runs on $1, without $qemu (Debian: package $package)"
        return 1
    fi
}

find_targets x86_64-unknown-none x86_64-unknown-linux-gnu
x86=("${targets[@]}")
find_targets aarch64-unknown-none-softfloat aarch64-unknown-none
arm=("${targets[@]}")
all=("${x86[@]}" "${arm[@]}")
if [ "${#all[@]}" -eq 0 ]; then
    echo "SKIPPED: kernel, which this machine has no core library for"
    exit
fi
# One command for all targets: their crates are built side by side.
cargo clippy --quiet --locked --release --manifest-path "$manifest" "${all[@]/#/--target=}" -- -D warnings
cargo build --quiet --locked --release --manifest-path "$manifest" "${all[@]/#/--target=}"
echo "kernel: builds for ${all[*]}"

# run OPTION...: runs the kernel, prints its counts, and sets `found` to the verdict.
run() {
    local status=0
    examples/kernel/run "$@" >"$work/log" 2>&1 || status=$?
    found=$(verdict "$work/log" "$status")
    echo "kernel $*: $found"
    grep -E '^(counts|kernel: wrong|litmus)|^validate: .*(violated|expected)' "$work/log" | sed 's/^/    /' || true
}

# sound OPTION...: fails unless a run is sound.
sound() {
    run "$@"
    [ "$found" = sound ] || fail "the run's output was:
$(cat "$work/log")"
}

# plants TARGET: fails unless the planted mistakes are found.
plants() {
    local plant try
    for plant in shared-interrupt-cpu pin-keeps-preemption; do
        for ((try = 1; try <= tries; try++)); do
            run --target "$1" --plant "$plant" --seconds 3
            case $found in
            wrong) break ;;
            # Two owners of one list may also leave it without an end.
            nothing*) grep -q 'the machine hung' "$work/log" || fail "$(cat "$work/log")" ;;
            esac
        done
        [ "$found" = wrong ] || fail "the planted mistake $plant was not found in $tries runs"
    done
    run --target "$1" --plant fence-reaches-nobody --seconds 2
    echo "kernel: the planted mistakes were found; that of the fence is for the models and the simulator"
}

# c_kernel TARGET: builds the kernel in C, and runs it where there is QEMU; fails unless the planted mistake alone is found.
c_kernel() {
    local option status
    examples/ckernel/run --target "$1" --size >/dev/null
    echo "ckernel: builds for $1"
    command -v qemu-system-x86_64 >/dev/null || return 0
    for option in "" --plant; do
        status=0
        examples/ckernel/run --target "$1" ${option:+"$option"} >"$work/log" 2>&1 || status=$?
        found=$(c_verdict "$work/log" "$status")
        echo "ckernel --target $1${option:+ $option}: $found"
        sed -n '/^counts\|^kernel: wrong/s/^/    /p' "$work/log"
        [ "$found$option" = sound ] || [ "$found$option" = wrong--plant ] || fail "the run's output was:
$(cat "$work/log")"
    done
}

if [ "${#x86[@]}" -gt 0 ] && has_qemu x86_64 qemu-system-x86; then
    first=${x86[0]} last=${x86[-1]}
    sound --target "$first" --cpus 2 --memory 1G --seconds 6
    sound --target "$last" --cpus 4 --memory 1G --seconds 5
    sound --target "$last" --cpus 2 --memory 6G --seconds 5
    sound --target "$first" --cpus 4 --memory 6G --seconds 5
    plants "$first"
fi
if [ "${#arm[@]}" -gt 0 ] && has_qemu aarch64 qemu-system-arm; then
    sound --target "${arm[0]}" --cpus 2 --memory 1G --seconds 8
    sound --target "${arm[-1]}" --cpus 4 --memory 6G --seconds 8
    plants "${arm[0]}"
fi
if command -v "${CC:-cc}" >/dev/null; then
    for target in "${x86[@]}"; do
        c_kernel "$target"
    done
else
    echo "SKIPPED: the kernel in C, without a C compiler (cc)"
fi
