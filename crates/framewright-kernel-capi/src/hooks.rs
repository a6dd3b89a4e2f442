//! Functions of the kernel that are seldom called: pointers in a structure, any of which may be NULL.
//!
//! Without a function the allocator does without what it is for: no waiting, no reclaim, no moving. A request or a
//! mechanism that cannot do without is refused (`FW_E_HOOK`), so nothing is silently left undone.
#![allow(non_camel_case_types, reason = "names of the C interface")]

use core::ffi::c_int;
use core::mem::offset_of;

use framewright::machine::{Need, Waiter};
use framewright::units::{NodeId, Order, Pfn};
use framewright_ffi::boundary::Versioned;

/// The task of a node that reclaims memory: it sleeps as this, and calls `fw_kernel_balance` when it wakes.
pub const FW_WAITER_KSWAPD: u32 = 0;
/// The task of a node that compacts memory: it sleeps as this, and calls `fw_kernel_compact` when it wakes.
pub const FW_WAITER_KCOMPACTD: u32 = 1;
/// Requests that wait for free memory of a node. The allocator sleeps as these.
pub const FW_WAITER_ALLOCATION: u32 = 2;

/// What reclaim is asked for.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fw_need {
    /// Number of frames wanted. More is welcome if it needs no extra work; less counts as progress.
    pub frames: u64,
    /// Node that the request prefers.
    pub node: u32,
    /// Order of the request; 0 if frames anywhere suffice.
    pub order: u32,
    /// Flags of the request.
    pub flags: u32,
    /// Rounds already made by this request, or by this run of background reclaim.
    pub attempt: u32,
    /// Exponent of the search: look at 1 / 2^`priority` of what could be freed. It begins at 12 and falls.
    pub priority: u32,
    /// 1 to free only memory that need not be written out.
    pub gentle: u32,
}

impl fw_need {
    pub(crate) fn of(need: &Need) -> fw_need {
        fw_need {
            frames: need.frames,
            node: need.node.0.into(),
            order: need.order.0.into(),
            flags: need.gfp.0,
            attempt: need.attempt,
            priority: need.priority,
            gentle: need.gentle.into(),
        }
    }
}

/// Functions of the kernel. Set `size`, and leave NULL what the kernel has not.
///
/// No function but `reclaim` and `migrate` may call the allocator. Blocks are named by their first frame.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct fw_kernel_hooks {
    /// Size of this structure in bytes, as the kernel knows it: `sizeof(fw_kernel_hooks)`.
    pub size: usize,
    /// Fills a block of 2^`order` frames with zeros, for FW_ZERO. Without it such requests are refused.
    ///
    /// Context: that of the request.
    pub zero: Option<unsafe extern "C" fn(frame: u64, order: u32)>,
    /// Fills a freed block with a pattern, for the mechanism `hardened`, which needs this and `is_poisoned`.
    ///
    /// Context: that of the free.
    pub poison: Option<unsafe extern "C" fn(frame: u64, order: u32)>,
    /// Returns 1 if each frame of a block holds only that pattern, or only zeros; else 0.
    pub is_poisoned: Option<unsafe extern "C" fn(frame: u64, order: u32) -> c_int>,
    /// Returns nanoseconds since any start. Waits of requests need it.
    ///
    /// Context: any but an NMI.
    pub now: Option<unsafe extern "C" fn() -> u64>,
    /// Sleeps as `waiter` of `node`, until `wake` for both or until `deadline` on the clock of `now`.
    ///
    /// May return early. Context: a task, not pinned, interrupts as the caller of the allocator has them.
    pub sleep: Option<unsafe extern "C" fn(waiter: u32, node: u32, deadline: u64)>,
    /// Wakes the tasks that sleep as `waiter` of `node`.
    ///
    /// Context: any but an NMI, pinned or not; no lock of the allocator is held.
    pub wake: Option<unsafe extern "C" fn(waiter: u32, node: u32)>,
    /// Frees memory through the allocator's own calls; returns the number of frames.
    ///
    /// Its own requests have FW_MEMALLOC, or are FW_NOWAIT. Context: a task, not pinned, no lock held.
    pub reclaim: Option<unsafe extern "C" fn(need: *const fw_need) -> u64>,
    /// Moves an allocated, movable block from `from` to `to` and frees `from`; returns 0.
    ///
    /// If the block cannot move now it returns -1, and `to` belongs to the allocator again. Context: as of `reclaim`.
    pub migrate: Option<unsafe extern "C" fn(from: u64, to: u64, order: u32) -> c_int>,
}

// SAFETY: `repr(C)`, begins with its size, and has a number and nullable pointers alone. The caller's promise at
// `fw_kernel_boot` says that these are functions.
#[allow(unsafe_code, reason = "a promise about the structure's bytes")]
unsafe impl Versioned for fw_kernel_hooks {
    const FIRST_VERSION: usize = offset_of!(fw_kernel_hooks, migrate) + size_of::<usize>();
}

/// A pointer of [`fw_kernel_hooks`] as Rust calls it. Each is a function of the kernel, or there is none.
#[allow(unsafe_code, reason = "functions of the kernel are called, by its promise at boot")]
impl fw_kernel_hooks {
    /// No function.
    pub(crate) const NONE: fw_kernel_hooks = fw_kernel_hooks {
        size: size_of::<fw_kernel_hooks>(),
        zero: None,
        poison: None,
        is_poisoned: None,
        now: None,
        sleep: None,
        wake: None,
        reclaim: None,
        migrate: None,
    };

    /// Returns whether the mechanism `hardened` has its functions.
    pub(crate) const fn may_harden(&self) -> bool {
        self.poison.is_some() && self.is_poisoned.is_some()
    }

    pub(crate) fn zero(&self, pfn: Pfn, order: Order) {
        if let Some(zero) = self.zero {
            // SAFETY: the kernel's function, called in the context that its documentation names; so are all below.
            unsafe { zero(pfn.0, order.0.into()) };
        }
    }

    pub(crate) fn poison(&self, pfn: Pfn, order: Order) {
        if let Some(poison) = self.poison {
            // SAFETY: as above.
            unsafe { poison(pfn.0, order.0.into()) };
        }
    }

    pub(crate) fn is_poisoned(&self, pfn: Pfn, order: Order) -> bool {
        // SAFETY: as above.
        self.is_poisoned.is_none_or(|is_poisoned| unsafe { is_poisoned(pfn.0, order.0.into()) } != 0)
    }

    pub(crate) fn now(&self) -> u64 {
        // SAFETY: as above.
        self.now.map_or(0, |now| unsafe { now() })
    }

    pub(crate) fn sleep(&self, waiter: Waiter, deadline: u64) {
        if let Some(sleep) = self.sleep {
            let (kind, node) = numbers_of(waiter);
            // SAFETY: as above.
            unsafe { sleep(kind, node, deadline) };
        }
    }

    pub(crate) fn wake(&self, waiter: Waiter) {
        if let Some(wake) = self.wake {
            let (kind, node) = numbers_of(waiter);
            // SAFETY: as above.
            unsafe { wake(kind, node) };
        }
    }

    pub(crate) fn reclaim(&self, need: &Need) -> u64 {
        let need = fw_need::of(need);
        // SAFETY: as above; the need outlives the call.
        self.reclaim.map_or(0, |reclaim| unsafe { reclaim(&raw const need) })
    }

    pub(crate) fn migrate(&self, from: Pfn, to: Pfn, order: Order) -> bool {
        // SAFETY: as above.
        self.migrate.is_some_and(|migrate| unsafe { migrate(from.0, to.0, order.0.into()) } == 0)
    }
}

fn numbers_of(waiter: Waiter) -> (u32, u32) {
    let (kind, NodeId(node)) = match waiter {
        Waiter::Kswapd(node) => (FW_WAITER_KSWAPD, node),
        Waiter::Kcompactd(node) => (FW_WAITER_KCOMPACTD, node),
        Waiter::Allocation(node) => (FW_WAITER_ALLOCATION, node),
    };
    (kind, node.into())
}
