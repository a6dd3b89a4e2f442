//! What `/proc` shows of the allocator, and the check of everything.
#![allow(unsafe_code, reason = "texts go to buffers of C")]

use core::fmt::{self, Write};

use framewright::report::Source;
use framewright::units::{CpuId, NodeId, ZoneIdx, ZoneKind};

use crate::kernel::pages;
use crate::text::Buffer;

unsafe extern "C" {
    /// Writes a piece of a file of `/proc`.
    fn fw_linux_print(file: *mut core::ffi::c_void, text: *const u8, length: usize);
}

/// A file of `/proc` that is being read.
struct File(*mut core::ffi::c_void);

impl Write for File {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // SAFETY: Linux has passed the file; the text has that length.
        unsafe { fw_linux_print(self.0, text.as_ptr(), text.len()) };
        Ok(())
    }
}

/// Writes the version of this code.
///
/// # Safety
/// `size` bytes can be written at `text`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_linux_version(text: *mut u8, size: usize) {
    // SAFETY: the caller's promise.
    unsafe { Buffer::new(text, size) }.put(format_args!("{}", env!("CARGO_PKG_VERSION")));
}

/// Writes mechanisms, zones and lists to a file of `/proc`.
///
/// # Safety
/// `file` is what Linux's `fw_linux_print` takes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_linux_show(file: *mut core::ffi::c_void) {
    let mut out = File(file);
    let _ = show(&mut out);
}

fn show(out: &mut impl Write) -> fmt::Result {
    let Some(pages) = pages() else { return writeln!(out, "off") };
    writeln!(out, "mechanisms {}", pages.mechanisms())?;
    let totals = pages.totals();
    writeln!(
        out,
        "frames present {} managed {} free {} allocated {} cached {}",
        totals.present, totals.managed, totals.free, totals.allocated, totals.cached
    )?;
    let counters = pages.counters();
    writeln!(
        out,
        "events failed {} bad_frees {} extfrag {} extfrag_whole {} repairs {}",
        counters.failed, counters.bad_frees, counters.extfrag_fragmenting, counters.extfrag_whole, counters.repairs
    )?;
    let cpus = pages.cpus() / 3;
    for (node, kind) in (0..pages.nodes()).flat_map(|node| ZoneKind::ALL.into_iter().map(move |kind| (node, kind))) {
        let zone = ZoneIdx::of(NodeId(node as u8), kind);
        let Some(memory) = pages.zone_memory(zone).filter(|memory| memory.present != 0) else { continue };
        writeln!(
            out,
            "zone {node} {kind} free {} free_cma {} managed {} depot {} owned {}",
            memory.free,
            memory.free_cma,
            memory.managed,
            pages.depot_frames(zone),
            pages.owned_frames(zone)
        )?;
        for cpu in 0..cpus {
            let lists = |set: usize| pages.pcp(zone, CpuId((set * cpus + cpu) as u16));
            let [Some(task), Some(softirq), Some(interrupt)] = [0, 1, 2].map(lists) else { continue };
            writeln!(
                out,
                "  cpu {cpu} task {} softirq {} interrupt {} high {} batch {}",
                task.count, softirq.count, interrupt.count, task.high, task.batch
            )?;
        }
    }
    Ok(())
}

/// Checks every invariant, and writes the first violated one to `why`; returns whether all hold.
///
/// Context: no CPU is in a call.
///
/// # Safety
/// `size` bytes can be written at `why`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_linux_validate(why: *mut u8, size: usize) -> bool {
    // SAFETY: the caller's promise.
    let mut why = unsafe { Buffer::new(why, size) };
    match pages().map(|pages| pages.validate()) {
        None => {
            why.put(format_args!("off"));
            true
        }
        Some(Ok(counts)) => {
            why.put(format_args!("free {} allocated {} pcp {}", counts.free, counts.allocated, counts.pcp));
            true
        }
        Some(Err(violation)) => {
            why.put(format_args!("{violation}"));
            false
        }
    }
}

/// A CPU's lists of a zone, its three contexts together.
#[repr(C)]
pub struct FwLinuxLists {
    /// Frames.
    count: u32,
    high: u32,
    batch: u32,
}

/// Returns the lists of a CPU in a zone.
#[unsafe(no_mangle)]
pub extern "C" fn fw_linux_lists(zone: u32, cpu: u32) -> FwLinuxLists {
    let mut sum = FwLinuxLists { count: 0, high: 0, batch: 0 };
    let Some(pages) = pages() else { return sum };
    let cpus = pages.cpus() / 3;
    for set in 0..3 {
        if let Some(lists) = pages.pcp(ZoneIdx(zone as u16), CpuId((set * cpus + cpu as usize) as u16)) {
            sum.count = sum.count.saturating_add(lists.count as u32);
            (sum.high, sum.batch) = (lists.high as u32, lists.batch as u32);
        }
    }
    sum
}

/// NUMA counters of a zone, in Linux's order: hit, miss, foreign, interleave, local, other.
#[unsafe(no_mangle)]
pub extern "C" fn fw_linux_numa(zone: u32, counters: &mut [u64; 6]) {
    if let Some(snapshot) = pages().and_then(|pages| pages.zone(ZoneIdx(zone as u16))) {
        let numa = snapshot.numa;
        *counters = [numa.hit, numa.miss, numa.foreign, numa.interleave, numa.local, numa.other];
    }
}
