//! The command line that boots a kernel: a process for User-Mode Linux, QEMU for x86-64.
//!
//! The idea: a guest has memory, CPUs, one disk that starts empty, and one console on standard input and output. Both
//! architectures get the same archive and the same parameters.
//!
//! QEMU translates instructions (TCG), so a boot needs no rights and takes a second or two. Three settings make boots
//! reliable on a busy host:
//!
//! - The kernel has ACPI's timer (x86_64.config). Otherwise it compares the local APIC's timer with the periodic
//!   interrupt, which comes late on a busy host, and gives up with "APIC timer disabled due to verification failure".
//! - `no_timer_check`, because the kernel panics with "IO-APIC + timer doesn't work" if ten ticks come late.
//! - `nohz=off`, because a late first tick makes the kernel stay in its first mode.
//!
//! Cost: none. With `--icount` QEMU counts instructions, and the guest's clock shows their number as nanoseconds: times
//! are then the same in each run, and compare instructions instead of speed.
//!
//! Rejected: KVM by default. It is faster where it exists, but nested or emulated KVM fails in ways that look like
//! faults of the kernel. `--accel kvm` asks for it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::build::Arch;
use crate::tools::{self, Step};

/// How QEMU runs a guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Accel {
    /// QEMU translates them.
    Tcg,
    /// The processor runs them.
    Kvm,
}

/// A virtual machine.
#[derive(Clone, Debug, clap::Args)]
pub struct Machine {
    /// Number of CPUs (x86_64)
    #[arg(long, default_value_t = 4, value_name = "N")]
    pub cpus: u32,
    /// Memory: a number with M or G [default: 512M; 1G for thpfioscale, 2G for deferred]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// Memory below 4 GiB; the rest lies above, so that there is a zone Normal [default: all; a quarter for
    /// thpfioscale] (x86_64)
    #[arg(long, value_name = "SIZE")]
    pub low_memory: Option<String>,
    /// Number of NUMA nodes, which share memory and CPUs evenly [default: 1, and 2 for numa] (x86_64)
    #[arg(long, value_name = "N")]
    pub nodes: Option<u32>,
    /// How QEMU runs instructions (x86_64)
    #[arg(long, value_enum, default_value_t = Accel::Tcg)]
    pub accel: Accel,
    /// Let the guest's clock count instructions, one a nanosecond; one CPU (x86_64)
    #[arg(long)]
    pub icount: bool,
}

impl Machine {
    /// Memory in MiB.
    ///
    /// # Errors
    ///
    /// The size is no number with M or G.
    pub fn mebibytes(&self) -> Result<u64> {
        self.memory.as_deref().map_or(Ok(512), mebibytes)
    }

    /// The name of the guest's disk.
    pub fn disk_name(arch: Arch) -> &'static str {
        match arch {
            Arch::Um => "/dev/ubda",
            Arch::X86_64 => "/dev/vda",
        }
    }

    /// Makes an empty disk of three times the memory; it takes space only where it is written.
    ///
    /// # Errors
    ///
    /// The file cannot be made.
    pub fn disk(&self, path: &Path) -> Result<()> {
        let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
        file.set_len((self.mebibytes()? * 3) << 20).with_context(|| format!("cannot size {}", path.display()))
    }

    /// The command that boots `kernel` with an archive, a disk and further parameters.
    ///
    /// # Errors
    ///
    /// A program is missing, or the options contradict each other.
    pub fn command(&self, arch: Arch, kernel: &Path, archive: &Path, disk: &Path, more: &[String]) -> Result<Command> {
        let memory = self.mebibytes()?;
        let mut parameters = vec!["panic=-1".to_owned(), format!("disk={}", Machine::disk_name(arch))];
        match arch {
            Arch::Um => {
                tools::check(&[Step::Um])?;
                if self.icount || self.low_memory.is_some() || self.accel == Accel::Kvm || self.nodes.is_some() {
                    bail!("--icount, --low-memory, --nodes and --accel kvm need --arch x86_64");
                }
                // Without random addresses every boot has the same memory: its first page follows the program's heap.
                let mut command = Command::new("setarch");
                command.arg("-R").arg(kernel).arg(format!("mem={memory}M"));
                command.arg(format!("initrd={}", archive.display())).arg(format!("ubd0={}", disk.display()));
                command.args(["con=null", "con0=fd:0,fd:1"]).args(parameters).args(more);
                Ok(command)
            }
            Arch::X86_64 => {
                tools::check(&[Step::Qemu])?;
                parameters
                    .extend(["console=ttyS0", "no_timer_check", "nohz=off", "mitigations=off"].map(str::to_owned));
                // No device needs bounce buffers, which would take 64 MiB of the memory below 4 GiB.
                parameters.extend(self.low_memory.iter().map(|_| "swiotlb=noforce".to_owned()));
                parameters.extend_from_slice(more);
                let mut command = self.qemu(memory)?;
                command.arg("-kernel").arg(kernel).arg("-initrd").arg(archive);
                command.arg("-drive").arg(drive(disk)).arg("-append").arg(parameters.join(" "));
                Ok(command)
            }
        }
    }

    /// QEMU with the machine's CPUs and memory, and a console.
    fn qemu(&self, memory: u64) -> Result<Command> {
        let cpus = if self.icount { 1 } else { self.cpus };
        let mut command = Command::new("qemu-system-x86_64");
        command.args(["-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio"]);
        command.arg("-m").arg(format!("{memory}M")).arg("-smp").arg(format!("{cpus},sockets={cpus}"));
        if let Some(low) = &self.low_memory {
            command.arg("-machine").arg(format!("pc,max-ram-below-4g={}M", mebibytes(low)?));
        }
        command.args(self.numa(memory, cpus)?);
        match self.accel {
            Accel::Tcg => command.args(["-accel", "tcg", "-cpu", "max"]),
            Accel::Kvm => command.args(["-accel", "kvm", "-cpu", "host"]),
        };
        match (self.icount, self.accel) {
            (false, _) => {}
            (true, Accel::Tcg) => drop(command.args(["-icount", "shift=0,sleep=off"])),
            (true, Accel::Kvm) => bail!("--icount needs --accel tcg"),
        }
        Ok(command)
    }

    /// QEMU's options of the nodes; none for one node, which Linux has anyway.
    ///
    /// The last node has the memory that is left. A node without CPUs is possible.
    fn numa(&self, memory: u64, cpus: u32) -> Result<Vec<String>> {
        let nodes = self.nodes.unwrap_or(1);
        let share = memory.checked_div(nodes.into()).unwrap_or_default();
        if share < 64 {
            bail!("--nodes {nodes}: each of at least one node needs 64M of the {memory}M");
        }
        let options = |node: u32| {
            let size = if node + 1 == nodes { memory - share * u64::from(node) } else { share };
            let first = |node: u32| (cpus * node).div_ceil(nodes);
            let cpus = (first(node)..first(node + 1)).map(|cpu| format!(",cpus={cpu}")).collect::<String>();
            let memory = ["-object".to_owned(), format!("memory-backend-ram,id=node{node},size={size}M")];
            let node = ["-numa".to_owned(), format!("node,nodeid={node},memdev=node{node}{cpus}")];
            memory.into_iter().chain(node)
        };
        Ok(if nodes == 1 { Vec::new() } else { (0..nodes).flat_map(options).collect() })
    }
}

/// Reads a size in MiB.
fn mebibytes(size: &str) -> Result<u64> {
    let number = match (size.strip_suffix(['M', 'm']), size.strip_suffix(['G', 'g'])) {
        (Some(number), _) => number.parse().ok(),
        (None, Some(number)) => number.parse::<u64>().ok().and_then(|number| number.checked_mul(1024)),
        (None, None) => None,
    };
    match number {
        Some(number) if number >= 64 => Ok(number),
        _ => bail!("memory of {size:?}: a number with M or G is needed, such as 512M, of at least 64M"),
    }
}

/// QEMU's description of a disk, in which a comma is doubled.
fn drive(disk: &Path) -> String {
    let path = PathBuf::from(disk).display().to_string().replace(',', ",,");
    format!("file={path},format=raw,if=virtio,cache=unsafe")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_share_memory_and_cpus() {
        let machine =
            Machine { cpus: 4, memory: None, low_memory: None, nodes: None, accel: Accel::Tcg, icount: false };
        let nodes = |nodes, memory, cpus| Machine { nodes: Some(nodes), ..machine.clone() }.numa(memory, cpus).ok();
        assert_eq!(nodes(1, 512, 4), Some(vec![]));
        let three = nodes(3, 500, 4).expect("three nodes").join(" ");
        let wanted = "-object memory-backend-ram,id=node0,size=166M -numa node,nodeid=0,memdev=node0,cpus=0,cpus=1 \
            -object memory-backend-ram,id=node1,size=166M -numa node,nodeid=1,memdev=node1,cpus=2 \
            -object memory-backend-ram,id=node2,size=168M -numa node,nodeid=2,memdev=node2,cpus=3";
        assert_eq!(three, wanted);
        assert!(nodes(2, 512, 1).is_some_and(|options| options.join(" ").ends_with("memdev=node1")));
        assert_eq!([nodes(0, 512, 4), nodes(9, 512, 4)], [None, None]);
    }

    #[test]
    fn memory_has_a_unit() {
        for (text, wanted) in [("512M", Some(512)), ("2G", Some(2048)), ("512", None), ("1M", None), ("xG", None)] {
            assert_eq!(mebibytes(text).ok(), wanted, "{text}");
        }
    }

    #[test]
    fn a_comma_in_a_path_is_doubled() {
        assert_eq!(drive(Path::new("a,b")), "file=a,,b,format=raw,if=virtio,cache=unsafe");
    }
}
