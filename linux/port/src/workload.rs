//! The workloads: what the guest runs, and for how long at most.
//!
//! The idea: a workload is a few lines of shell, which the guest's init script runs. Programs of linux/guest/ do the
//! work and print the results. A workload that needs a disk makes a file system on the empty one.
//!
//! Cost: see each workload. Rejected: a scripting language in the guest; busybox is there anyway.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::build::Arch;
use crate::guest::Contents;
use crate::machine::Machine;
use crate::tools::{self, Step};

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
    /// Loops in the kernel, through /proc/framewright: orders and batches
    Bench,
    /// Such loops: a block and its free, of each order
    #[value(name = "page_bench02")]
    PageBench02,
    /// Such loops: a page and its free, on 1 to all CPUs at once
    #[value(name = "page_bench03")]
    PageBench03,
    /// Such loops: batches of 1 to 16384 pages, as mmtests' pagealloc
    Micro,
    /// Memory on the node that a program asks for, counted and moved (x86_64)
    Numa,
    /// CPUs that go and come beside stress; memory that is to go
    Hotplug,
    /// Ranges of contiguous memory where movable pages lie, beside stress; a page of 1 GiB with --memory 4G
    Contig,
    /// Frames that fail, in use and free, and are mended
    Poison,
    /// Huge pages and tables that are split, bulk requests, and swap
    Split,
    /// Struct pages that are initialised late, then all memory taken
    Deferred,
    /// Small files fill memory while a program asks for huge pages: events of fragmentation (x86_64)
    Thpfioscale,
}

/// The configurations of thpfioscale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Advice {
    /// With `MADV_HUGEPAGE`: Linux reclaims and compacts for huge pages
    Madvhugepage,
    /// Without
    Default,
}

/// How long and how often workloads run.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Lengths {
    /// Seconds of a workload in the guest [default: 60 for stress, 20 for hotplug, contig and split, 5 for
    /// page_fault1 and tmpfs]
    #[arg(long, value_name = "S")]
    pub seconds: Option<u32>,
    /// Allocations of a loop of bench, page_bench02, page_bench03 and micro
    #[arg(long, default_value_t = 262_144, value_name = "N")]
    pub bench_loops: u64,
    /// Whether the program of thpfioscale asks for huge pages with madvise
    #[arg(long, value_enum, default_value_t = Advice::Madvhugepage, value_name = "CONFIG")]
    pub config: Advice,
    /// Seconds of the host after which a guest is killed [default: 120, or 600 for loops in the kernel, and 20 times the
    /// workload's seconds; 3600 for thpfioscale]
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

/// The lines of shell that run one kind of loops of bench.sh.
fn loops(kind: &str, lengths: Lengths) -> String {
    format!("bench_kind={kind}\nbench_loops={}\n. /bench.sh", lengths.bench_loops)
}

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
    /// Gives a machine the memory and the nodes that the workload wants, where the user has not said otherwise.
    ///
    /// # Errors
    ///
    /// The architecture or the host cannot run the workload.
    pub fn fit(self, arch: Arch, machine: &mut Machine) -> Result<()> {
        if self == Workload::Thpfioscale {
            if arch == Arch::Um {
                bail!("thpfioscale needs --arch x86_64: User-Mode Linux has no huge pages");
            }
            tools::check(&[Step::Files])?;
            machine.memory.get_or_insert_with(|| "1G".to_owned());
            let quarter = machine.mebibytes()? / 4;
            machine.low_memory.get_or_insert_with(|| format!("{quarter}M"));
        }
        if self == Workload::Numa {
            if arch == Arch::Um {
                bail!("numa needs --arch x86_64: User-Mode Linux has one node");
            }
            machine.nodes.get_or_insert(2);
        }
        if self == Workload::Deferred {
            machine.memory.get_or_insert_with(|| "2G".to_owned());
        }
        Ok(())
    }

    /// What the guest has and runs.
    ///
    /// # Errors
    ///
    /// The machine's memory is no size.
    pub fn contents(self, lengths: Lengths, machine: &Machine) -> Result<Contents> {
        let seconds = self.seconds(lengths);
        let memory = machine.mebibytes()?;
        let host_programs: &[&str] = if self == Workload::Thpfioscale { &["fio", "mkfs.xfs"] } else { &[] };
        // Stress checks each word while the other program disturbs it.
        let beside = |name: &str| {
            let other = program(name, &seconds.to_string());
            format!("{DISK}\n/programs/stress {seconds} /data &\n{other}\nwait\numount /data")
        };
        let command = match self {
            Workload::Boot => BOOT.to_owned(),
            Workload::PageFault1 => format!("/programs/page_fault {seconds}"),
            Workload::Stress => format!("{DISK}\n/programs/stress {seconds} /data\numount /data"),
            Workload::Oom => "/programs/oom".to_owned(),
            Workload::Tmpfs => format!("/programs/tmpfs /ram/file {seconds}"),
            Workload::Bench => loops("bench", lengths),
            Workload::PageBench02 => loops("page_bench02", lengths),
            Workload::PageBench03 => loops("page_bench03", lengths),
            Workload::Micro => loops("micro", lengths),
            Workload::Numa => program("numa", ""),
            Workload::Hotplug => beside("hotplug"),
            Workload::Contig => beside("contig") + "\n" + &program("contig", "after"),
            Workload::Poison => program("poison", "3"),
            Workload::Split => {
                "mkswap $disk >/dev/null || echo failed disk\n".to_owned()
                    + &program("split", &format!("{seconds} $disk"))
            }
            Workload::Deferred => BOOT.to_owned() + DEFERRED + &program("oom", ""),
            Workload::Thpfioscale => {
                let config = if lengths.config == Advice::Default { "default" } else { "madvhugepage" };
                format!("config={config} seed=1 memory={memory}\n. /thpfioscale.sh")
            }
        };
        Ok(Contents { command: Some(command), host_programs: host_programs.iter().map(PathBuf::from).collect() })
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
        let least = match self {
            Workload::Thpfioscale => 3600,
            _ if self.is_loops() => 600,
            _ => 120,
        };
        Duration::from_secs(lengths.limit.unwrap_or(least + 20 * seconds))
    }

    /// Whether a number of allocations, and no time, says how long it runs.
    fn is_loops(self) -> bool {
        matches!(self, Workload::Bench | Workload::PageBench02 | Workload::PageBench03 | Workload::Micro)
    }

    /// How long the workload runs in the guest.
    fn seconds(self, lengths: Lengths) -> u32 {
        match self {
            Workload::Stress => lengths.seconds.unwrap_or(60),
            Workload::Hotplug | Workload::Contig | Workload::Split => lengths.seconds.unwrap_or(20),
            Workload::PageFault1 | Workload::Tmpfs => lengths.seconds.unwrap_or(5),
            Workload::Numa | Workload::Poison | Workload::Deferred => 10,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Accel;

    #[test]
    fn a_workload_of_nodes_gets_two() {
        let machine =
            Machine { cpus: 4, memory: None, low_memory: None, nodes: None, accel: Accel::Tcg, icount: false };
        let fitted = |workload: Workload, arch, nodes| {
            let mut machine = Machine { nodes, ..machine.clone() };
            workload.fit(arch, &mut machine).ok().map(|()| machine.nodes)
        };
        assert_eq!(fitted(Workload::Numa, Arch::X86_64, None), Some(Some(2)));
        assert_eq!(fitted(Workload::Numa, Arch::X86_64, Some(3)), Some(Some(3)));
        assert_eq!(fitted(Workload::Boot, Arch::X86_64, None), Some(None));
        assert_eq!(fitted(Workload::Numa, Arch::Um, None), None, "User-Mode Linux has one node");
    }
}
