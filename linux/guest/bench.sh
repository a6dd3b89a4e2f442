# Loops in the kernel, through /proc/framewright: bench, page_bench02, page_bench03 and micro ($bench_kind).
#
# Each line "bench ORDER BATCH LOOPS [CPUS]" that is written there runs a loop; the next read of the file has a line of
# NAME=VALUE pairs, which become results.

# loop NAME ORDER BATCH [CPUS]: $bench_loops allocations, at least 8 loops.
loop() {
    loops=$((bench_loops / $3))
    [ "$loops" -ge 8 ] || loops=8
    if ! echo "bench $2 $3 $loops ${4:-1}" >/proc/framewright; then
        echo "failed bench $2 $3 $loops ${4:-1}: $(head -n 1 /proc/framewright)"
        return
    fi
    grep '=' /proc/framewright | tr ' ' '\n' | while IFS== read -r name value; do
        case $name in
        *ns) echo "result $1_$name $value ns" ;;
        *cycles) echo "result $1_$name $value cycles" ;;
        esac
    done
}

bench() {
    for order in 0 2 3 9; do
        for batch in 1 32 256; do
            [ "$order" = 9 ] && [ "$batch" = 256 ] || loop "bench_o${order}_b$batch" "$order" "$batch"
        done
    done
}

# A block and its free, of each order that the published program has.
page_bench02() {
    for order in 0 1 2 3 4 5 6 7 8 9; do
        loop "page_bench02_o$order" "$order" 1
    done
}

# A page and its free, on 1, 2, 4, ... and all CPUs at once.
page_bench03() {
    cpus=$(grep -c '^processor' /proc/cpuinfo)
    at_once=1
    while [ "$at_once" -lt "$cpus" ]; do
        loop "page_bench03_c$at_once" 0 1 "$at_once"
        at_once=$((at_once * 2))
    done
    loop "page_bench03_c$cpus" 0 1 "$cpus"
}

# Batches of pages, as mmtests' pagealloc: allocation, free and total of each are its 45 rows.
micro() {
    batch=1
    while [ "$batch" -le 16384 ]; do
        loop "micro_b$batch" 0 "$batch"
        batch=$((batch * 2))
    done
}

# What is no command must be refused, and be harmless.
refused() {
    for bad in "" "bench" "bench 0 1" "bench 99 1 1" "bench 0 0 1" "bench 0 65537 1" "bench 0 1 0" "bench 0 1 1 0" \
        "bench 0 1 1 99" "bench -1 1 1" "bench 0 1 1 1 1" "bench x 1 1" "bench 0 1 1x" "validate now" "drains"; do
        if echo "$bad" >/proc/framewright 2>/dev/null; then
            echo "failed: /proc/framewright took \"$bad\""
        elif ! head -n 1 /proc/framewright | grep -q '^refused: '; then
            echo "failed: /proc/framewright does not say why it refused \"$bad\""
        fi
    done
}

if [ ! -w /proc/framewright ]; then
    echo "bench: this kernel has no /proc/framewright; nothing is measured"
else
    refused
    $bench_kind
fi
