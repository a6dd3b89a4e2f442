# The workload thpfioscale: functions for the machine of thpfioscale.py, and for a guest of the port to Linux.
#
# Why: files of 64 KiB fill memory and are read at random, while a program asks for huge pages. The caller sets config
# (madvhugepage or default), seed and memory (MiB), has an empty XFS or the like at /data, a tmpfs at /results
# and tracefs, and calls workload. Results are small files in /results.
#
# No event is recorded one by one: histograms in the kernel count them, so that counting takes no memory meanwhile.

# snapshot NAME: the allocator's files, the events counted so far, and how often each process of fio has read.
snapshot() {
    mkdir "/results/$1"
    for file in uptime vmstat meminfo zoneinfo buddyinfo pagetypeinfo slabinfo; do
        cat "/proc/$file" >"/results/$1/$file"
    done
    cat "$event/hist" >"/results/$1/extfrag"
    # A small kernel does not count them.
    for pid in $(pidof fio); do
        [ ! -e "/proc/$pid/io" ] || grep -H syscr "/proc/$pid/io"
    done >"/results/$1/reads"
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
