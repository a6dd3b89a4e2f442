//! Single pageblocks and free blocks, for Linux's compaction, its isolation and its contiguous ranges; CPUs.
#![allow(unsafe_code, reason = "the functions are called from C by name")]

use framewright::FrameState;
use framewright::units::{CpuId, MigrateType, Order, Pfn};
use framewright_kernel::Pages;

use crate::kernel::{Linux, pages};

/// Result: the frame is not the first of a free block.
pub const FW_LINUX_NOT_FREE: u32 = u32::MAX;

/// Returns the order of the free block that begins at a frame; [`FW_LINUX_NOT_FREE`] if none does.
#[unsafe(no_mangle)]
pub extern "C" fn fw_linux_free_order(pfn: u64) -> u32 {
    match pages().map(|pages| pages.state_of(Pfn(pfn))) {
        Some(FrameState::Free(head, order)) if head == Pfn(pfn) => order.0.into(),
        _ => FW_LINUX_NOT_FREE,
    }
}

/// Allocates a block if it is free as it stands; false if it is not.
#[unsafe(no_mangle)]
pub extern "C" fn fw_linux_take(pfn: u64, order: u32) -> bool {
    pages().is_some_and(|pages| pages.take_free(Pfn(pfn), Order(order as u8)))
}

/// Keeps a pageblock's free blocks from all requests; false if that cannot be.
#[unsafe(no_mangle)]
pub extern "C" fn fw_linux_isolate(pfn: u64) -> bool {
    pages().is_some_and(|pages| pages.isolate(Pfn(pfn)))
}

/// Ends one `fw_linux_isolate`.
#[unsafe(no_mangle)]
pub extern "C" fn fw_linux_unisolate(pfn: u64) {
    if let Some(pages) = pages() {
        pages.unisolate(Pfn(pfn));
    }
}

/// Sets a pageblock's type; false if the frame is not memory, or the type not one of these.
#[unsafe(no_mangle)]
pub extern "C" fn fw_linux_set_type(pfn: u64, migratetype: u32) -> bool {
    let migratetype = MigrateType::from_index(migratetype as usize);
    pages().zip(migratetype).is_some_and(|(pages, mt)| pages.set_pageblock_type(Pfn(pfn), mt).is_ok())
}

/// Returns the records of a CPU: one for each of its contexts.
fn records(pages: &Pages<Linux>, cpu: u32) -> impl Iterator<Item = CpuId> {
    let cpus = pages.cpus() / 3;
    (0..3).filter_map(move |set| u16::try_from(set * cpus + cpu as usize).ok()).map(CpuId)
}

/// Calls `call` with each record of a CPU.
fn each_record(cpu: u32, call: impl Fn(&Pages<Linux>, CpuId)) {
    let Some(pages) = pages() else { return };
    records(pages, cpu).for_each(|record| call(pages, record));
}

/// Frees what a CPU that runs no more has on its lists, and folds its counts.
#[unsafe(no_mangle)]
pub extern "C" fn fw_linux_cpu_dead(cpu: u32) {
    each_record(cpu, |pages, record| {
        pages.offline_cpu(record);
    });
}

/// Notes that a CPU runs again.
#[unsafe(no_mangle)]
pub extern "C" fn fw_linux_cpu_online(cpu: u32) {
    each_record(cpu, |pages, record| pages.online_cpu(record));
}

/// Frees what is on a CPU's lists to the zones.
#[unsafe(no_mangle)]
pub extern "C" fn fw_linux_drain_cpu(cpu: u32) {
    each_record(cpu, |pages, record| {
        pages.drain_cpu(record);
    });
}

/// Whether `fw_linux_refresh` has or will have something to do for a CPU.
#[unsafe(no_mangle)]
pub extern "C" fn fw_linux_needs_refresh(cpu: u32) -> bool {
    pages().is_some_and(|pages| records(pages, cpu).any(|record| pages.needs_refresh(record)))
}

/// Folds what a CPU has counted, if anything; called about each second.
#[unsafe(no_mangle)]
pub extern "C" fn fw_linux_refresh(cpu: u32) {
    each_record(cpu, |pages, record| {
        if pages.needs_refresh(record) {
            pages.refresh_statistics(record);
        }
    });
}
