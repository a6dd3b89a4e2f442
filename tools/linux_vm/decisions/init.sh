#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# Is /init inside of the emulated machine: loads the module under four settings of the marks, then lets programs eat
# memory until the OOM killer runs. The log goes to the disk as a tar.
#
# The kernel hands its unknown parameters over as variables: seed, failures, successes, ooms, nodes.
set -eu
export PATH=/bin
/bin/busybox mkdir -p /proc /sys /dev /results
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
exec </dev/console >/dev/console 2>&1
/bin/busybox --install -s /bin

# The module's next cases: each time one part of four.
part=0
decisions() {
    from() { echo $(($1 * part / 4)); }
    to() { echo $(($1 * (part + 1) / 4)); }
    insmod /modules/decisions.ko seed=$((seed * 4 + part)) first=$(($(from "$failures") + $(from "$successes") + 1)) \
        failures=$(($(to "$failures") - $(from "$failures"))) \
        successes=$(($(to "$successes") - $(from "$successes")))
    rmmod decisions
    part=$((part + 1))
    echo "guest: part $part at $(cut -d' ' -f1 /proc/uptime) s"
}

# oom NUMBER KIND [NODE]
oom() {
    number=$1
    shift
    echo "decision $number begins oom $*" >/dev/kmsg
    eat "$@" || true
    # The last lines come from the kernel's thread that takes the memory away.
    sleep 1
    echo "decision $number ends failed" >/dev/kmsg
}

run() {
    vm=/proc/sys/vm
    # Its defaults.
    decisions
    echo 4096 >$vm/min_free_kbytes
    decisions
    echo "16 4 1" >$vm/lowmem_reserve_ratio
    echo 8192 >$vm/min_free_kbytes
    decisions
    echo "256 256 32" >$vm/lowmem_reserve_ratio
    echo 0 >$vm/watermark_boost_factor
    echo 100 >$vm/watermark_scale_factor
    decisions

    echo 2097152 >/proc/sys/fs/pipe-max-size
    number=$((failures + successes)) at=0
    while [ $at -lt "$ooms" ]; do
        number=$((number + 1)) at=$((at + 1))
        case $((at % 8)) in
        1) oom $number anon ;;
        2) oom $number shared ;;
        3) oom $number tables ;;
        4) oom $number locked ;;
        5) oom $number forked ;;
        6) oom $number pipes2 ;;
        7) oom $number pipes3 ;;
        0) if [ "$nodes" -gt 1 ]; then oom $number anon 1; else oom $number anon; fi ;;
        esac
    done
}

while read -r module; do insmod "/modules/$module"; done </modules/order
echo 1 >/proc/sys/kernel/sysrq
# Processes that the OOM killer may end instead of this one.
for _ in 1 2 3; do
    sleep 1000000 &
    echo 900 >"/proc/$!/oom_score_adj"
done
( run ) || echo "guest: failed"
dmesg >/results/dmesg
cat /proc/zoneinfo >/results/zoneinfo
tar -cf /dev/vda -C /results .
sync
echo "guest: ended"
poweroff -f
