# bench: loops in the kernel, through /proc/framewright.
#
# Each line "bench ORDER BATCH LOOPS" that is written there runs a loop; the next read of the file has a line of
# NAME=VALUE pairs, which become results.
if [ ! -w /proc/framewright ]; then
    echo "bench: this kernel has no /proc/framewright; nothing is measured"
else
    for order in 0 2 3 9; do
        for batch in 1 32 256; do
            [ "$order" = 9 ] && [ "$batch" = 256 ] && continue
            loops=$((bench_loops / batch))
            echo "bench $order $batch $loops" >/proc/framewright || echo "failed bench $order $batch $loops"
            grep '^order=' /proc/framewright | tr ' ' '\n' | while IFS== read -r name value; do
                case $value in
                *[!0-9.]* | '') ;;
                *) echo "result bench_o${order}_b${batch}_$name $value $name" ;;
                esac
            done
        done
    done
fi
