#!/bin/busybox sh
# Runs inside of the emulated machine: first as /init of the initramfs, then, from the disk, as the machine's only
# service, and as the workload.
#
# The kernel hands its unknown parameters over as variables: config (madvhugepage or default), seed, memory (MiB).
# Results are small files in RAM, which go to the second disk as a tar at the end. No event is recorded one by one:
# histograms in the kernel count them, so that counting takes no memory while it goes on.
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
    cp -a /bin /sbin /lib /lib64 /init /new
    mkdir -p /new/proc /new/sys /new/dev /new/results /new/data
    for at in proc sys dev; do mount -o move "/$at" "/new/$at"; done
    exec switch_root /new /init machine
}

# snapshot NAME: the allocator's files, the events counted so far, and how often each process of fio has read.
snapshot() {
    mkdir "/results/$1"
    for file in uptime vmstat meminfo zoneinfo buddyinfo pagetypeinfo slabinfo; do
        cat "/proc/$file" >"/results/$1/$file"
    done
    cat "$event/hist" >"/results/$1/extfrag"
    for pid in $(pidof fio); do grep -H syscr "/proc/$pid/io"; done >"/results/$1/reads"
    echo "guest: $1 at $(cut -d' ' -f1 /proc/uptime) s"
}

# Memory, the watermarks' boosts and the number of events, every two seconds.
sample() {
    while sleep 2; do
        cat /proc/uptime /proc/meminfo
        grep -E '^Node|boost|pages free' /proc/zoneinfo
        grep -m 1 Hits "$event/hist"
    done >/results/samples
}

# fio's job for writing or reading the files: four processes, a folder each, all files of 64 KiB open at once.
job() {
    cat <<END
[$1]
numjobs=4
directory=/data
filename_format=\$jobnum/file.\$filenum
nrfiles=$((memory * 3 / 2 * 1024 / 64 / 4))
filesize=64k
blocksize=4k
ioengine=sync
direct=0
invalidate=0
randseed=$seed
END
}

workload() {
    mount -t tracefs trace /sys/kernel/tracing
    event=/sys/kernel/tracing/events/kmem/mm_page_alloc_extfrag
    # A histogram has at most three keys.
    echo hist:keys=alloc_migratetype,fallback_migratetype,fallback_order >"$event/trigger"
    echo hist:keys=alloc_migratetype,alloc_order,change_ownership >>"$event/trigger"
    ulimit -n 1000000
    mkdir /data/0 /data/1 /data/2 /data/3
    uname -r >/results/kernel
    fio --version >/results/fio
    cat /sys/kernel/mm/transparent_hugepage/enabled /sys/kernel/mm/transparent_hugepage/defrag >/results/thp
    { job writer; printf 'rw=write\nfallocate=none\ncreate_on_open=1\n'; } >/results/write.fio
    { job reader; printf 'rw=randread\nfile_service_type=random:16\ntime_based\nruntime=36000\n'; } >/results/read.fio

    snapshot boot
    sample &
    sampler=$!
    began=$(date +%s)
    fio --eta=never --output-format=json --output=/results/write.json /results/write.fio
    took=$(($(date +%s) - began))
    sync
    snapshot written

    fio --eta=never --output-format=json --output=/results/read.json /results/read.fio &
    reader=$!
    sleep "$took"
    snapshot warm

    advice=
    [ "$config" = default ] || advice=madvise
    faults $((memory * 3 / 4)) $advice >/results/faults &
    faults=$!
    until grep -q done /results/faults; do
        kill -0 $faults
        sleep 1
    done
    snapshot faulted
    kill -INT $reader
    kill $faults $sampler
    wait $reader || true
    snapshot ended
}

case ${1:-} in
workload) workload ;;
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
