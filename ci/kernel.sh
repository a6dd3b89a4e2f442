#!/usr/bin/env bash
# Boots examples/kernel, a kernel for several CPUs that allocates its pages by Framewright, and checks what it says.
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
# Needs QEMU, and takes about a minute with it. Where it is missing the kernel is built and the runs are skipped, loudly. Where CI is
# set, the user is root and there is apt-get, the package is installed first. Runs on the bare target and on the host's;
# without the bare target's core library, on the host's alone.
set -euo pipefail
cd "$(dirname "$0")/.."

manifest=examples/kernel/Cargo.toml
bare=x86_64-unknown-none
hosted=x86_64-unknown-linux-gnu
package=qemu-system-x86
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

# planted STATUS WANTED LINE...: judges a planted output.
planted() {
    local status=$1 wanted=$2
    printf '%s\n' "${@:3}" >"$work/planted"
    [[ $(verdict "$work/planted" "$status") == "$wanted"* ]] ||
        fail "self-test: wanted $wanted and got $(verdict "$work/planted" "$status") for: ${*:3}"
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

targets=() host=$(rustc -vV | sed -n 's/^host: //p')
if [ -d "$(rustc --print target-libdir --target $bare)" ]; then
    targets+=("$bare")
else
    echo "SKIPPED: kernel on $bare, whose standard core is not installed (rustup target add $bare)"
fi
[ "$host" != "$hosted" ] || targets+=("$hosted")
if [ "${#targets[@]}" -eq 0 ]; then
    echo "SKIPPED: kernel, which this machine has no core library for"
    exit
fi
for target in "${targets[@]}"; do
    cargo clippy --quiet --locked --release --manifest-path "$manifest" --target "$target" -- -D warnings
done

if ! command -v qemu-system-x86_64 >/dev/null && [ -n "${CI:-}" ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$package"; } \
        >"$work/apt" 2>&1 || echo "kernel: the package $package cannot be installed: $(tail -n 1 "$work/apt")"
fi
if ! command -v qemu-system-x86_64 >/dev/null; then
    for target in "${targets[@]}"; do
        cargo build --quiet --locked --release --manifest-path "$manifest" --target "$target"
        echo "kernel: builds for $target"
    done
    echo "SKIPPED: kernel runs, without qemu-system-x86_64 (Debian: package $package)"
    exit
fi

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

first=${targets[0]} last=${targets[-1]}
sound --target "$first" --cpus 2 --memory 1G --seconds 10
sound --target "$last" --cpus 4 --memory 1G --seconds 8
sound --target "$last" --cpus 2 --memory 6G --seconds 8
sound --target "$first" --cpus 4 --memory 6G --seconds 8

for plant in shared-interrupt-cpu pin-keeps-preemption; do
    for ((try = 1; try <= tries; try++)); do
        run --target "$first" --plant "$plant" --seconds 4
        case $found in
        wrong) break ;;
        # Two owners of one list may also leave it without an end.
        nothing*) grep -q 'the machine hung' "$work/log" || fail "$(cat "$work/log")" ;;
        esac
    done
    [ "$found" = wrong ] || fail "the planted mistake $plant was not found in $tries runs"
done
run --target "$first" --plant fence-reaches-nobody --seconds 5
echo "kernel: the planted mistakes were found; that of the fence is for the models and the simulator"
