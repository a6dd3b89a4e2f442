#!/bin/busybox sh
# Runs inside of the emulated machine: first as /init of the initramfs, then, from the disk, as the machine's only
# service, and as the workload of workload.sh.
#
# The kernel hands its unknown parameters over as variables: config (madvhugepage or default), seed, memory (MiB).
# Results are small files in RAM, which go to the second disk as a tar at the end.
set -eu
export PATH=/bin:/usr/bin:/sbin

# What is found after boot: modules, a new file system on the first disk, and everything copied there. switch_root then
# frees the initramfs, so the machine has its memory to itself.
boot() {
    /bin/busybox mkdir -p /proc /sys /dev /new
    /bin/busybox mount -t proc proc /proc
    /bin/busybox mount -t sysfs sys /sys
    /bin/busybox mount -t devtmpfs dev /dev
    exec </dev/console >/dev/console 2>&1
    /bin/busybox --install -s /bin
    while read -r module; do insmod "/modules/$module"; done </modules/order
    mkfs.xfs -q -f /dev/vda
    mount /dev/vda /new
    cp -a /bin /sbin /lib /lib64 /init /workload.sh /new
    mkdir -p /new/proc /new/sys /new/dev /new/results /new/data
    for at in proc sys dev; do mount -o move "/$at" "/new/$at"; done
    exec switch_root /new /init machine
}

. /workload.sh

case ${1:-} in
workload)
    mount -t tracefs trace /sys/kernel/tracing
    workload
    ;;
machine)
    mount -t tmpfs results /results
    # In a process of its own: however it ends, what there is gets handed over, and the machine ends.
    /init workload || echo "guest: failed"
    dmesg >/results/dmesg
    tar -cf /dev/vdb -C /results .
    sync
    poweroff -f
    ;;
*) boot ;;
esac
