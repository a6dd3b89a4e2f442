//! One variant's work, from boot to the last counted region.

use framewright::mechanisms::Hardened;
use framewright::report::Source;
use framewright::{Allocator, Config, Layout, Machine, Mechanisms, NodeId, PfnRange, Region, ZoneIdx};
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use framewright_kernel::{Framewright, bytes};
use framewright_rt::Storage;

use crate::instructions::counted::{self, BATCHES, Bulk, ByHandle, ByLocal, Pages, Wrapped};
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use crate::instructions::kernel::{GsKernel, Keeping, Keeps, KeepsNone, KernelMachine, NODES};
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use crate::instructions::steps::Counting;

/// Ways to call the allocator: plain calls, calls through `Allocator::local`, and 64 pages in one call. Each also with
/// memory above a hole. Plain calls with `hardened=poison`, on a machine that has no memory to fill. And plain calls
/// with the mechanisms of Linux 6.1.
pub const VARIANTS: [&str; 10] =
    ["plain", "wrapped", "local", "handle", "bulk", "plain-above", "local-above", "bulk-above", "hardened", "linux"];
/// The ways of a kernel: a constant request, one that only the caller knows, through `Allocator::local`, and in bulk.
/// And a constant request with the mechanisms of Linux 6.1.
pub const KERNEL_VARIANTS: [&str; 8] = [
    "kernel",
    "kernel-above",
    "kernel-wrapped",
    "kernel-local",
    "kernel-handle",
    "kernel-bulk",
    "kernel-kit",
    "kernel-linux",
];
/// The allocator of a kernel with the kit.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
static PAGES: Framewright<GsKernel> = Framewright::new();
/// Frames of the allocator: 1 GiB, where zone Normal begins.
const FIRST: u64 = 0x10_0000;
const FRAMES: u64 = 1 << 18;
/// And where the hole below them begins, above some memory: that of a PC.
const HOLE: (u64, u64) = (0x1000, 0xc_0000);

/// Boots an allocator, has it do the work, and prints what `tell` and its statistics say afterwards.
///
/// # Errors
/// A variant that does not exist; a machine that the allocator does not boot on.
pub fn work<M: Machine>(
    (variant, batches): (&str, usize),
    machine: M,
    cpus: &[NodeId],
    tell: impl FnOnce(&M) -> String,
) -> Result<(), String> {
    let regions = [Region::usable(HOLE.0, HOLE.1, 0), Region::usable(FIRST, FIRST + FRAMES, 0)];
    let map = if variant.ends_with("-above") { &regions[..] } else { &regions[1..] };
    let mechanisms = match variant {
        "hardened" => Mechanisms { hardened: Hardened::Poison, ..Mechanisms::DEFAULT },
        "linux" | "kernel-linux" => Mechanisms::LINUX_6_1,
        _ => Mechanisms::DEFAULT,
    };
    let config = Config { mechanisms, ..Config::new(map, cpus) };
    let layout = Layout::of(&config).map_err(|error| error.to_string())?;
    let mut storage = Storage::new(&layout);
    let allocator = Allocator::boot(machine, &config, storage.parts()).map_err(|error| error.to_string())?;
    call((variant, batches), &allocator, tell)
}

/// Does the work on an allocator that is booted.
#[allow(clippy::print_stdout, reason = "numbers of its own, for the program that counts it")]
fn call<M: Machine>(
    (variant, batches): (&str, usize),
    allocator: &Allocator<'_, M>,
    tell: impl FnOnce(&M) -> String,
) -> Result<(), String> {
    let way = variant.strip_suffix("-above").unwrap_or(variant);
    match way.strip_prefix("kernel-").unwrap_or(way) {
        "local" => counted::all(&ByLocal(allocator.local().ok_or("there is no CPU")?), batches),
        "handle" => {
            let cpu = allocator.local().ok_or("there is no CPU")?.cpu();
            counted::all(&ByHandle(allocator.cpu_handle(cpu).ok_or("there is no CPU")?), batches);
        }
        "bulk" => counted::all(&Bulk(allocator), batches),
        "wrapped" => counted::all(&Wrapped::new(allocator), batches),
        "plain" | "hardened" | "linux" | "kernel" | "kit" => counted::all(&Pages(allocator), batches),
        _ => return Err(format!("{variant}: there is no such variant")),
    }
    let zones = (0..4).filter_map(|kind| allocator.zone(ZoneIdx(kind)));
    let hits: u64 = zones.map(|zone| zone.numa.hit).sum();
    println!("fingerprint {variant}: {}, {hits} allocations counted", tell(allocator.machine()));
    Ok(())
}

/// Does a variant's work on a kernel's machine: once in the life of a process.
///
/// It is compiled in this crate, so that all programs count the same code. Callers with handles have a machine that
/// keeps nothing for them.
///
/// # Errors
/// A machine other than x86-64 Linux, or one that the allocator does not boot on.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub fn kernel_work(variant: &str, batches: usize) -> Result<(), String> {
    let mode = || "mode Kernel, asymmetric fence true".to_owned();
    match variant {
        "kernel-kit" => {
            let map = [Region::usable(FIRST, FIRST + FRAMES, 0)];
            let config = Config::new(&map, &NODES[..1]);
            let bytes = bytes::<GsKernel>(&config).map_err(|error| error.to_string())?;
            let kernel = GsKernel::take().ok_or("%gs cannot be set")?;
            let pages = PAGES.boot(kernel, &config, PfnRange::new(0, 0), Vec::leak(vec![0; bytes]));
            call((variant, batches), pages.map_err(|error| error.to_string())?, |_| mode())
        }
        "kernel-handle" => work((variant, batches), kernel::<KeepsNone>()?, &NODES, |_| mode()),
        _ => work((variant, batches), kernel::<Keeps>()?, &NODES, |_| mode()),
    }
}

/// Does this work on a kernel's machine that counts steps, and prints the counts.
///
/// The steps with the kit are those of the machine that is written by hand: both make the core's calls.
///
/// # Errors
/// Those of [`kernel_work`].
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub fn kernel_steps(variant: &str) -> Result<(), String> {
    fn steps<K: Keeping>(variant: &str) -> Result<(), String> {
        work((variant, BATCHES), Counting::new(kernel::<K>()?), &NODES, |machine| format!("steps{machine}"))
    }
    if variant == "kernel-handle" { steps::<KeepsNone>(variant) } else { steps::<Keeps>(variant) }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn kernel<K>() -> Result<KernelMachine<K>, String> {
    KernelMachine::take().ok_or("%gs cannot be set".to_owned())
}

/// Does nothing: another machine has no `%gs`.
///
/// # Errors
/// Always.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
pub fn kernel_work(_: &str, _: usize) -> Result<(), String> {
    Err("a kernel's machine is counted on x86-64 Linux".to_owned())
}

/// Does nothing either.
///
/// # Errors
/// Always.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
pub fn kernel_steps(variant: &str) -> Result<(), String> {
    kernel_work(variant, BATCHES)
}
