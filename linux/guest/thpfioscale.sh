# thpfioscale: fills memory with small files that are read at random, and asks for huge pages meanwhile.
#
# Why: this is how the documents measure fragmentation. The work itself is in /workload.sh. The guest moves to an XFS on
# its disk first, so that the archive it came from gives its memory back. The caller sets config, seed and memory.

# Copies all programs to the disk, and starts init from there.
move_to_disk() {
    mkfs.xfs -q -f "$disk" && mkdir /new && mount -t xfs "$disk" /new || { echo "failed disk"; return; }
    cp -a /bin /programs /lib /lib64 /*.sh /init /command /new
    mkdir -p /new/proc /new/sys /new/dev /new/ram /new/data /new/results
    for at in proc sys dev ram; do mount -o move "/$at" "/new/$at"; done
    exec switch_root /new /init again
}

# count FILE KEY: a counter of vmstat.
count() { awk -v key="$2" '$1 == key { print $2 }' "/results/$1/vmstat"; }

# since NAME: how far a counter went from boot until the faults had ended.
since() { echo "result thp_$1 $(($(count faulted "$1") - $(count boot "$1"))) events"; }

# events SNAPSHOT: all events of the first histogram up to then; those that fragment; and of these those for an
# unmovable, a movable and a reclaimable request (types 0, 1 and 2).
events() {
    awk '/fallback_order/ {
        # A block smaller than a pageblock (order 9) leaves the rest of its pageblock to others.
        gsub(/[{},:]/, " ")
        for (i = 1; i < NF; i++) {
            if ($i == "fallback_order") order = $(i + 1)
            if ($i == "alloc_migratetype") type = $(i + 1)
            if ($i == "hitcount") n = $(i + 1)
        }
        all += n
        if (order < 9) { small += n; of[type] += n }
    } END { print all + 0, small + 0, of[0] + 0, of[1] + 0, of[2] + 0 }' "/results/$1/extfrag"
}

report() {
    { events boot; events written; events faulted; } | awk '{ for (i = 1; i <= NF; i++) at[NR, i] = $i } END {
        print "result thp_extfrag", at[3, 1] - at[1, 1], "events"
        print "result thp_fragmenting", at[3, 2] - at[1, 2], "events"
        print "result thp_fragmenting_writing", at[2, 2] - at[1, 2], "events"
        print "result thp_fragmenting_unmovable", at[3, 3] - at[1, 3], "events"
        print "result thp_fragmenting_movable", at[3, 4] - at[1, 4], "events"
        print "result thp_fragmenting_reclaimable", at[3, 5] - at[1, 5], "events"
    }'
    awk '{ n[$1]++; us[$1] += $2 } END {
        steps = n["huge"] + n["base"]
        print "result thp_huge", n["huge"] + 0, "steps"
        print "result thp_base", n["base"] + 0, "steps"
        if (steps) print "result thp_huge_percent", 100 * n["huge"] / steps, "%"
        for (kind in n) if (kind == "huge" || kind == "base") print "result thp_" kind "_fault", us[kind] / n[kind], "us"
    }' /results/faults
    for name in thp_fault_alloc thp_fault_fallback compact_stall compact_success compact_fail pgmigrate_success \
        pgsteal_kswapd pgsteal_direct; do
        since $name
    done
    awk 'FNR == 1 { at[FILENAME] = $1 } END {
        print "result thp_writing", at["/results/written/uptime"] - at["/results/boot/uptime"], "s"
        print "result thp_faulting", at["/results/faulted/uptime"] - at["/results/warm/uptime"], "s"
    }' /results/boot/uptime /results/written/uptime /results/warm/uptime /results/faulted/uptime
    awk '/^Number of blocks/ { counts = 1 }
        counts && /^Node [0-9]+, zone/ { unmovable += $5; reclaimable += $7 }
        END { print "result thp_pageblocks_unmovable", unmovable + 0, "pageblocks"
              print "result thp_pageblocks_reclaimable", reclaimable + 0, "pageblocks" }' /results/faulted/pagetypeinfo
}

if [ "${1:-}" != again ]; then
    move_to_disk
else
    mount -t tmpfs results /results
    thp=/sys/kernel/mm/transparent_hugepage
    echo always >$thp/enabled
    echo madvise >$thp/defrag
    . /workload.sh
    # In a process of its own, which ends where a command fails.
    (set -eu; workload)
    [ $? = 0 ] && report || { echo "failed workload"; killall fio faults; }
fi
