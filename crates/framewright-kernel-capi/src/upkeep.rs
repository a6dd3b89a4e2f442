//! Work besides requests: drains, background reclaim and compaction, the tick of each second, CPUs that come and go.
//!
//! The allocator has no threads. A kernel runs two tasks for each node, or calls `fw_kernel_balance` and
//! `fw_kernel_compact` when it is idle. A kernel without reclaim and without movable blocks needs neither.
#![allow(unsafe_code, reason = "functions that C programs call have the names that the linker sees")]

use core::ffi::{c_int, c_uint};

use framewright::units::CpuId;
use framewright_ffi::error::{count, status};
use framewright_ffi::numbers::FW_E_NO_SUCH_CPU;
use framewright_kernel::{Contexts, Kernel, Pages};

use crate::kernel::{CKernel, booted};
use crate::request::node_of;

/// Calls `call` for each set of lists of a CPU; returns the sum.
fn each_set(cpu: c_uint, call: impl Fn(&Pages<CKernel>, CpuId) -> u64) -> Result<u64, c_int> {
    const CONTEXTS: Contexts = CKernel::CONTEXTS;
    let pages = booted()?;
    let cpus = pages.cpus().checked_div(CONTEXTS.sets()).unwrap_or(0);
    let cpu = usize::try_from(cpu).ok().filter(|&cpu| cpu < cpus).ok_or(FW_E_NO_SUCH_CPU)?;
    let records = (0..CONTEXTS.sets()).map(|set| cpu.saturating_add(set.saturating_mul(cpus)) as u16);
    Ok(records.map(|record| call(pages, CpuId(record))).fold(0, u64::saturating_add))
}

/// Gives all frames that CPUs keep for their next requests back to the zones.
///
/// @return The number of frames; FW_E_NOT_BOOTED.
///
/// Context: a task. In an interrupt lists of other contexts stay as they are.
#[unsafe(no_mangle)]
pub extern "C" fn fw_kernel_drain() -> i64 {
    count(booted().map(|pages| pages.drain_all()))
}

/// Gives the frames that one CPU keeps back to the zones.
///
/// @return The number of frames; FW_E_NO_SUCH_CPU, FW_E_NOT_BOOTED.
///
/// Context: as of `fw_kernel_drain`; any CPU may do it for another.
#[unsafe(no_mangle)]
pub extern "C" fn fw_kernel_drain_cpu(cpu: c_uint) -> i64 {
    count(each_set(cpu, |pages, cpu| pages.drain_cpu(cpu)))
}

/// Takes a CPU offline: drains its lists and folds its counters.
///
/// @return The number of frames drained; FW_E_NO_SUCH_CPU, FW_E_NOT_BOOTED.
///
/// Context: a task of another CPU, while that one runs no more.
#[unsafe(no_mangle)]
pub extern "C" fn fw_kernel_cpu_offline(cpu: c_uint) -> i64 {
    count(each_set(cpu, |pages, cpu| pages.offline_cpu(cpu)))
}

/// Tells that a CPU that was taken offline runs again.
///
/// @return 0; FW_E_NO_SUCH_CPU, FW_E_NOT_BOOTED.
///
/// Context: any.
#[unsafe(no_mangle)]
pub extern "C" fn fw_kernel_cpu_online(cpu: c_uint) -> c_int {
    let online = each_set(cpu, |pages, cpu| {
        pages.online_cpu(cpu);
        0
    });
    status(online.map(|_| ()))
}

/// Folds what a CPU has counted, and frees what its lists have long kept of other nodes.
///
/// @return The number of frames freed; FW_E_NO_SUCH_CPU, FW_E_NOT_BOOTED.
///
/// Context: a task, about once a second for each CPU; any CPU may do it for another.
#[unsafe(no_mangle)]
pub extern "C" fn fw_kernel_refresh(cpu: c_uint) -> i64 {
    count(each_set(cpu, |pages, cpu| pages.refresh_statistics(cpu).drained))
}

/// Reclaims memory of a node, by the hook `reclaim`, until there is enough: one run of kswapd.
///
/// @return The number of frames freed; FW_E_NODE, FW_E_NOT_BOOTED.
///
/// Context: a task, not pinned: that which sleeps as FW_WAITER_KSWAPD of the node, each time it wakes, or any other.
#[unsafe(no_mangle)]
pub extern "C" fn fw_kernel_balance(node: c_uint) -> i64 {
    count(booted().and_then(|pages| Ok(pages.balance(node_of(node)?).frames)))
}

/// Compacts memory of a node, by the hook `migrate`, until there are large blocks: one run of kcompactd.
///
/// @return The number of ranges that became free; FW_E_NODE, FW_E_NOT_BOOTED.
///
/// Context: a task, not pinned: that which sleeps as FW_WAITER_KCOMPACTD of the node, each time it wakes, or any other.
#[unsafe(no_mangle)]
pub extern "C" fn fw_kernel_compact(node: c_uint) -> i64 {
    count(booted().and_then(|pages| Ok(pages.compact(node_of(node)?).ranges)))
}

/// Puts one section of memory on the free lists that boot left out (`sections` of the options).
///
/// @return 1; 0 if none is left; FW_E_NODE, FW_E_NOT_BOOTED.
///
/// Context: as of `fw_kernel_alloc`; takes a zone lock once.
#[unsafe(no_mangle)]
pub extern "C" fn fw_kernel_init_section(node: c_uint) -> c_int {
    let init = || Ok(booted()?.init_section(node_of(node)?));
    match init() {
        Ok(is_done) => is_done.into(),
        Err(code) => code,
    }
}
