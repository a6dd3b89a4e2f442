//! A guest that runs on memory of an arena, reports what it frees, and has a balloon.
//!
//! The guest here is code of this program: a kernel's allocator by the kit, whose descriptors lie in the guest's own
//! memory. Where a virtual machine has queues between guest and host, this has a closure. The last column is what the
//! host's kernel says of the guest's memory (`mincore`).
//!
//! ```sh
//! cargo run --release -p framewright-vm-memory --example guest
//! ```

use std::error::Error;
use std::io::{self, Write};
use std::sync::Arc;

use framewright::report::BuddyInfo;
use framewright::request::GFP_KERNEL;
use framewright::{Config, NodeId, Order, Pfn, PfnRange, Region, Request};
use framewright_kernel::{Contexts, Framewright, Kernel, Pages};
use framewright_rt::Arena;
use framewright_vm_memory::{Balloon, BalloonDevice, GuestMemoryArena, GuestRange, from_ranges, report_free};
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryRegion, MemoryRegionAddress};

const PAGE: u64 = 4096;

/// The guest's kernel: one CPU, one thread, no interrupts.
struct Guest;

// SAFETY: the guest is the program's main thread alone.
unsafe impl Kernel for Guest {
    const CONTEXTS: Contexts = Contexts::Tasks;
    fn pin(&self) {}
    fn unpin(&self) {}
    fn irq_save(&self) -> usize {
        0
    }
    fn irq_restore(&self, _: usize) {}
    fn cpu(&self) -> usize {
        0
    }
}

static PAGES: Framewright<Guest> = Framewright::new();

/// Boots the guest's allocator over all its memory, with the descriptors inside.
fn boot(memory: &'static GuestMemoryArena) -> Result<&'static Pages<Guest>, Box<dyn Error>> {
    let map: Vec<Region> = memory
        .iter()
        .map(|region| Region::usable(region.start_addr().0 / PAGE, (region.last_addr().0 + 1) / PAGE, 0))
        .collect();
    // The highest region is one block, so it is contiguous for the host too.
    let last = memory.iter().last().ok_or("a guest has memory")?;
    let (first, end) = (last.start_addr().0 / PAGE, (last.last_addr().0 + 1) / PAGE);
    let host = last.get_host_address(MemoryRegionAddress(0))?;
    let bytes_of = |own: PfnRange| {
        let (at, len) = ((own.start.0 - first) * PAGE, own.frames() * PAGE);
        // SAFETY: the frames are in the region, which is never dropped, and reserved: no other code uses them.
        unsafe { std::slice::from_raw_parts_mut(host.add(at as usize), len as usize) }
    };
    Ok(PAGES.boot_within(&Guest, &Config::new(&map, &[NodeId(0)]), PfnRange::new(first, end), bytes_of)?)
}

/// Returns how much of the guest's memory the host has, in KiB.
fn resident(memory: &GuestMemoryArena) -> u64 {
    let pages = memory.iter().map(|region| {
        let mut flags = vec![0_u8; (region.len() / PAGE) as usize];
        let start = region.get_host_address(MemoryRegionAddress(0)).expect("a region has addresses");
        // SAFETY: the range is mapped, and there is a flag for each of its pages.
        let code = unsafe { libc::mincore(start.cast(), region.len() as usize, flags.as_mut_ptr()) };
        assert_eq!(code, 0, "mincore");
        flags.iter().filter(|&&flag| flag & 1 != 0).count() as u64
    });
    (pages.sum::<u64>() * PAGE) >> 10
}

fn show(out: &mut dyn Write, what: &str, memory: &GuestMemoryArena) -> io::Result<()> {
    writeln!(out, "{what:<40} {:>8} KiB resident", resident(memory))
}

/// Runs the guest, and says at each step how much memory it takes.
pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let arena = Arc::new(Arena::builder().size(256 << 20).build()?);
    let ranges = [GuestRange::new(GuestAddress(0), 96 << 20), GuestRange::new(GuestAddress(4 << 30), 32 << 20)];
    // For good: the guest's allocator is static and lies in it.
    let memory: &'static GuestMemoryArena = Box::leak(Box::new(from_ranges(&arena, &ranges)?));
    let regions: Vec<String> = memory.iter().map(|region| format!("{} MiB", region.len() >> 20)).collect();
    writeln!(out, "regions: {}", regions.join(", "))?;
    show(out, "the guest has not started", memory)?;

    let guest = boot(memory)?;
    let mut device = BalloonDevice::new(memory.clone());
    show(out, "its allocator has booted", memory)?;

    let mut pages: Vec<Pfn> = Vec::new();
    while pages.len() < 64 << 8 {
        let pfn = guest.alloc(&Request::page(GFP_KERNEL))?;
        memory.write_obj(pfn.0, GuestAddress(pfn.0 * PAGE))?;
        pages.push(pfn);
    }
    show(out, "it wrote to 64 MiB", memory)?;

    let kept = pages.split_off(48 << 8);
    for pfn in pages.drain(..) {
        guest.free(pfn, Order(0))?;
    }
    show(out, "it freed 48 MiB", memory)?;

    let mut balloon = Balloon::new();
    let inflated = balloon.inflate(guest, 80 << 8, |start, bytes| device.inflate(start, bytes).map(|_| ()))?;
    show(out, &format!("its balloon has {} MiB", device.inflated() >> 20), memory)?;
    let told = report_free(guest, Order(9), |start, bytes| device.report(start, bytes).map(|_| ()))?;
    show(out, &format!("it reported {} blocks, {} MiB", told.blocks, told.bytes >> 20), memory)?;
    let deflated = balloon.deflate(guest, inflated, |start, bytes| device.deflate(start, bytes))?;
    show(out, &format!("its balloon gave {} MiB back", (deflated * PAGE) >> 20), memory)?;

    for &pfn in &kept {
        assert_eq!(memory.read_obj::<u64>(GuestAddress(pfn.0 * PAGE))?, pfn.0, "a page of the guest was lost");
    }
    writeln!(out, "{} pages that the guest kept are as it wrote them", kept.len())?;
    write!(out, "guest\n{}host\n{}", BuddyInfo(guest), arena.buddyinfo())?;
    guest.validate().map_err(|violation| violation.to_string())?;
    arena.validate().map_err(|violation| violation.to_string())?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    run(&mut io::stdout().lock())
}
