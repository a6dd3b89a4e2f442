//! The workloads: what the guest runs, and for how long at most.
//!
//! The idea: a workload is a few lines of shell, which the guest's init script runs. Programs of linux/guest/ do the
//! work and print the results. A workload that needs a disk makes a file system on the empty one.
//!
//! Cost: see each workload. Rejected: a scripting language in the guest; busybox is there anyway.

use std::time::Duration;

/// What is run in the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Workload {
    /// Boots: time to the first program, and free memory
    Boot,
    /// Page faults a second, for 1 to all CPUs
    #[value(name = "page_fault1")]
    PageFault1,
    /// Reclaim, fork, huge pages and tmpfs at once, with every page checked
    Stress,
    /// One process takes all memory and is killed
    Oom,
    /// Writes, reads and removes a file in memory
    Tmpfs,
    /// Loops in the kernel, through /proc/framewright
    Bench,
    /// Memory on the node that a program asks for, counted and moved; needs --nodes 2
    Numa,
    /// CPUs that go and come beside stress; memory that is to go
    Hotplug,
    /// Ranges of contiguous memory where movable pages lie, beside stress; a page of 1 GiB with --memory 4G
    Contig,
    /// Frames that fail, in use and free, and are mended
    Poison,
    /// Huge pages and tables that are split, bulk requests, and swap
    Split,
    /// Struct pages that are initialised late, then all memory taken; needs --memory 2G
    Deferred,
}

/// How long and how often workloads run.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Lengths {
    /// Seconds of a workload in the guest [default: 60 for stress, 20 for hotplug, contig and split, 5 for
    /// page_fault1 and tmpfs]
    #[arg(long, value_name = "S")]
    pub seconds: Option<u32>,
    /// Allocations of a loop of bench
    #[arg(long, default_value_t = 262_144, value_name = "N")]
    pub bench_loops: u64,
    /// Seconds of the host after which a guest is killed [default: 120, and 20 times the workload's seconds]
    #[arg(long, value_name = "S")]
    pub limit: Option<u64>,
}

/// How long the boot took, and what it left.
const BOOT: &str = "\
    read -r up idle </proc/uptime; echo result boot_seconds $up s\n\
    for name in MemTotal MemFree Slab PageTables; do\n\
        awk -v name=$name '$1 == name \":\" { print \"result boot_\" name, $2, \"KiB\" }' /proc/meminfo\n\
    done\n";

/// Makes a file system on the disk. Options keep the file system's own use of memory out of the results.
const DISK: &str = "mke2fs -q $disk >/dev/null 2>&1; mount -t ext4 $disk /data || echo failed disk";

/// Every node's struct pages are initialised late by a thread, which says so; memory is small otherwise.
const DEFERRED: &str = "\
    late=$(dmesg | grep -c 'node [0-9]* deferred pages initialised')\n\
    nodes=$(ls -d /sys/devices/system/node/node[0-9]* | wc -l)\n\
    echo result deferred_nodes $late nodes\n\
    [ $late = $nodes ] || echo failed deferred: $late of $nodes nodes have late struct pages, see --memory\n";

/// Runs a program, which may be killed before it says that it failed.
fn program(name: &str, arguments: &str) -> String {
    format!("/programs/{name} {arguments} || echo failed {name} ended with status $?")
}

impl Workload {
    /// The lines of shell that the guest runs.
    pub fn command(self, lengths: Lengths) -> String {
        let seconds = self.seconds(lengths);
        // Stress checks each word while the other program disturbs it.
        let beside = |name: &str| {
            let other = program(name, &seconds.to_string());
            format!("{DISK}\n/programs/stress {seconds} /data &\n{other}\nwait\numount /data")
        };
        match self {
            Workload::Boot => BOOT.to_owned(),
            Workload::PageFault1 => format!("/programs/page_fault {seconds}"),
            Workload::Stress => format!("{DISK}\n/programs/stress {seconds} /data\numount /data"),
            Workload::Oom => "/programs/oom".to_owned(),
            Workload::Tmpfs => format!("/programs/tmpfs /ram/file {seconds}"),
            Workload::Bench => format!("bench_loops={}\n. /bench.sh", lengths.bench_loops),
            Workload::Numa => program("numa", ""),
            Workload::Hotplug => beside("hotplug"),
            Workload::Contig => beside("contig") + "\n" + &program("contig", "after"),
            Workload::Poison => program("poison", "3"),
            Workload::Split => {
                "mkswap $disk >/dev/null || echo failed disk\n".to_owned()
                    + &program("split", &format!("{seconds} $disk"))
            }
            Workload::Deferred => BOOT.to_owned() + DEFERRED + &program("oom", ""),
        }
    }

    /// Texts that a sound run may have in lines that look bad.
    pub fn allowed(self) -> &'static [&'static str] {
        match self {
            // The process that is to be killed is refused its last page with a report.
            Workload::Oom | Workload::Deferred => &["page allocation failure"],
            _ => &[],
        }
    }

    /// Parameters of the kernel.
    pub fn parameters(self) -> &'static [&'static str] {
        match self {
            Workload::Contig => &["cma=64M"],
            _ => &[],
        }
    }

    /// When the guest is killed.
    pub fn limit(self, lengths: Lengths) -> Duration {
        let seconds = u64::from(self.seconds(lengths));
        Duration::from_secs(lengths.limit.unwrap_or(120 + 20 * seconds))
    }

    /// How long the workload runs in the guest.
    fn seconds(self, lengths: Lengths) -> u32 {
        match self {
            Workload::Stress => lengths.seconds.unwrap_or(60),
            Workload::Hotplug | Workload::Contig | Workload::Split => lengths.seconds.unwrap_or(20),
            Workload::PageFault1 | Workload::Tmpfs => lengths.seconds.unwrap_or(5),
            Workload::Boot | Workload::Oom | Workload::Bench => 0,
            Workload::Numa | Workload::Poison | Workload::Deferred => 10,
        }
    }
}
