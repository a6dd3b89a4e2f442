//! The kernel as the kit sees it: functions of C that the linker binds, and the one allocator.
//!
//! Which functions there must be follows from the features that the library is built with:
//!
//! | feature | callers | a call holds off | hooks besides `fw_hook_irq_save`, `fw_hook_irq_restore`, `fw_hook_cpu` |
//! |---|---|---|---|
//! | none of these | tasks and interrupts | interrupts | |
//! | `tasks` | tasks alone | preemption | `fw_hook_pin`, `fw_hook_unpin` |
//! | `interrupts` | tasks; interrupts that do not nest | preemption | these two, `fw_hook_context` |
//! | `softirqs` | tasks; soft interrupts; hard interrupts | preemption | these two, `fw_hook_context` |
//!
//! | feature | a full fence | hooks besides |
//! |---|---|---|
//! | none of these | in each allocation | |
//! | `one-cpu` | never: the machine has one CPU | |
//! | `fence-interrupts` | on all other CPUs, in a drain | `fw_hook_fence_others`, `fw_hook_interrupts_on` |
//!
//! Interrupts off is the default: it is right in every kernel that can turn interrupts off, also in one that has no
//! preemption counter yet, and it needs the fewest hooks.
//!
//! Rejected: a choice at boot. The kit's contexts are constants, so that each call has the code of one choice only.
#![allow(unsafe_code, reason = "functions of the kernel are called, by the contract of `framewright_kernel::Kernel`")]

use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int};
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use framewright::machine::{Busy, Need, Reclaimed, Waiter};
use framewright::units::{Order, Pfn};
use framewright::{Features, Mechanisms};
use framewright_ffi::error::Code;
use framewright_ffi::numbers::{
    FW_E_BOOTED, FW_E_CPUS, FW_E_DESCRIPTORS, FW_E_MANY_RESERVED, FW_E_NO_PLACE, FW_E_NOT_BOOTED, FW_E_OTHER,
    FW_E_OVERFLOW, FW_E_UNRESERVED,
};
#[cfg(any(feature = "interrupts", feature = "softirqs"))]
use framewright_kernel::Context;
#[cfg(any(feature = "one-cpu", feature = "fence-interrupts"))]
use framewright_kernel::Fences;
use framewright_kernel::{Contexts, Error, Framewright, Kernel, Pages};

use crate::hooks::fw_kernel_hooks;

/// A task, also while it holds interrupts off.
pub const FW_CONTEXT_TASK: u32 = 0;
/// A soft interrupt: it interrupts tasks only.
pub const FW_CONTEXT_SOFTIRQ: u32 = 1;
/// An interrupt that hit a task or a soft interrupt.
pub const FW_CONTEXT_INTERRUPT: u32 = 2;
/// Any other: an NMI, an interrupt of an interrupt, code that does not know its CPU yet.
pub const FW_CONTEXT_OTHER: u32 = 3;

// Which of them are called depends on the features.
#[allow(dead_code)]
unsafe extern "C" {
    /// Returns the number of the running CPU, below the number of CPUs in the options.
    ///
    /// No other CPU has that number. Called pinned; or not, and then for a hint.
    pub fn fw_hook_cpu() -> usize;

    /// Turns interrupts of this CPU off, and returns what `fw_hook_irq_restore` needs. Nests.
    ///
    /// Called in every context, an NMI included.
    pub fn fw_hook_irq_save() -> usize;

    /// Restores the state before the `fw_hook_irq_save` that returned `saved`.
    pub fn fw_hook_irq_restore(saved: usize);

    /// Turns preemption off. Nests. Needed with the features `tasks`, `interrupts` and `softirqs`.
    ///
    /// From here to `fw_hook_unpin` the caller stays on its CPU, and no other task runs there.
    pub fn fw_hook_pin();

    /// Ends one `fw_hook_pin`; may reschedule at the last one.
    pub fn fw_hook_unpin();

    /// Returns `FW_CONTEXT_TASK` or another FW_CONTEXT_ constant. Needed with `interrupts` and `softirqs`.
    ///
    /// Each context that may have interrupted one of its kind is FW_CONTEXT_OTHER. Called pinned or not.
    pub fn fw_hook_context() -> u32;

    /// Makes every other CPU pass a full fence; returns when all have passed one. Needed with `fence-interrupts`.
    ///
    /// Context: pinned, interrupts as the allocator's caller has them. Several CPUs may be here at once, so a CPU that
    /// waits must still answer the others: interrupts stay on.
    pub fn fw_hook_fence_others();

    /// Returns 1 if interrupts of this CPU are on, else 0. Needed with `fence-interrupts`.
    pub fn fw_hook_interrupts_on() -> c_int;

    /// Tells where the library met a bug of its own; should not return.
    ///
    /// @param file    Text of `length` bytes, without NUL.
    ///
    /// A release build has no such place, and does not need this function.
    pub fn fw_hook_panic(file: *const c_char, length: usize, line: u32);
}

#[cfg(any(
    all(feature = "tasks", feature = "interrupts"),
    all(feature = "tasks", feature = "softirqs"),
    all(feature = "interrupts", feature = "softirqs"),
))]
compile_error!("choose one of the features tasks, interrupts and softirqs, or none of them");
#[cfg(all(feature = "one-cpu", feature = "fence-interrupts"))]
compile_error!("choose one of the features one-cpu and fence-interrupts, or none of them");
#[cfg(all(feature = "fence-interrupts", not(any(feature = "tasks", feature = "interrupts", feature = "softirqs"))))]
compile_error!("calls that hold interrupts off cannot wait for another CPU: fence-interrupts needs other contexts");

/// The kernel that the library is linked into.
pub struct CKernel {
    /// Written by the one caller of [`boot`] that has claimed it, before there is an allocator that reads them.
    hooks: UnsafeCell<fw_kernel_hooks>,
    starts_zeroed: AtomicBool,
}

// SAFETY: what is not atomic is written before it is shared.
unsafe impl Sync for CKernel {}

static KERNEL: CKernel =
    CKernel { hooks: UnsafeCell::new(fw_kernel_hooks::NONE), starts_zeroed: AtomicBool::new(false) };
static PAGES: Framewright<CKernel> = Framewright::new();

/// Whether a call of [`boot`] writes, or has written, what the allocator reads.
static CLAIMED: AtomicU8 = AtomicU8::new(0);

/// Returns the number of an error of the kit.
pub(crate) fn code_of(error: Error) -> c_int {
    match error {
        Error::Boot(error) => error.code(),
        Error::TooShort { .. } => FW_E_DESCRIPTORS,
        Error::Unreserved(_) | Error::BadPlace(_) => FW_E_UNRESERVED,
        Error::TooLarge => FW_E_OVERFLOW,
        Error::NoPlace { .. } => FW_E_NO_PLACE,
        Error::ManyReserved { .. } => FW_E_MANY_RESERVED,
        Error::OneCpu(_) => FW_E_CPUS,
        Error::Twice => FW_E_BOOTED,
        _ => FW_E_OTHER,
    }
}

/// Boots the allocator by `call`; `hooks` are its hooks from then on.
pub(crate) fn boot(
    hooks: fw_kernel_hooks,
    starts_zeroed: bool,
    call: impl FnOnce(&'static Framewright<CKernel>, &'static CKernel) -> Result<(), Error>,
) -> Result<(), c_int> {
    // ORDER: Acquire. Sees what an attempt that failed left; partner: the Release below.
    if CLAIMED.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return Err(FW_E_BOOTED);
    }
    // SAFETY: this call alone has the claim, and there is no allocator that reads.
    unsafe { *KERNEL.hooks.get() = hooks };
    KERNEL.starts_zeroed.store(starts_zeroed, Ordering::Relaxed);
    call(&PAGES, &KERNEL).map_err(|error| {
        CLAIMED.store(0, Ordering::Release);
        code_of(error)
    })
}

/// Returns the allocator, once it is booted. For Rust code of the same kernel.
#[inline(always)]
pub fn pages() -> Option<&'static Pages<CKernel>> {
    PAGES.get()
}

/// Returns the allocator, for a call.
///
/// # Errors
/// It is not booted.
#[inline(always)]
pub(crate) fn booted() -> Result<&'static Pages<CKernel>, c_int> {
    pages().ok_or(FW_E_NOT_BOOTED)
}

/// Returns the kernel's hooks. Context: after boot.
pub(crate) fn hooks() -> &'static fw_kernel_hooks {
    KERNEL.hooks()
}

impl CKernel {
    fn hooks(&self) -> &fw_kernel_hooks {
        // SAFETY: written before there was an allocator, and never again.
        unsafe { &*self.hooks.get() }
    }
}

// SAFETY: the kernel's author promises it, by linking the library with functions that do what the header says.
unsafe impl Kernel for CKernel {
    const CONTEXTS: Contexts = if cfg!(feature = "tasks") {
        Contexts::Tasks
    } else if cfg!(feature = "interrupts") {
        Contexts::Interrupts
    } else if cfg!(feature = "softirqs") {
        Contexts::Softirqs
    } else {
        Contexts::InterruptsOff
    };

    #[cfg(feature = "one-cpu")]
    const FENCES: Fences<Self> = Fences::OneCpu;
    #[cfg(feature = "fence-interrupts")]
    const FENCES: Fences<Self> = Fences::Interrupts {
        // SAFETY: the kernel's function, called in the context that its documentation names; so are all below.
        fence_others: |_| unsafe { fw_hook_fence_others() },
        // SAFETY: as above.
        interrupts_on: |_| unsafe { fw_hook_interrupts_on() != 0 },
    };

    const MECHANISMS: Option<Mechanisms> = if cfg!(feature = "minimal") { Some(Mechanisms::MINIMAL) } else { None };
    // A kernel without the hook for zeroes is refused where the request is read (`request.rs`).
    const FEATURES: Features =
        if cfg!(feature = "minimal") { Features { zero: true, ..Features::NONE } } else { Features::ALL };

    #[inline(always)]
    fn pin(&self) {
        #[cfg(any(feature = "tasks", feature = "interrupts", feature = "softirqs"))]
        // SAFETY: as above.
        unsafe {
            fw_hook_pin();
        }
    }

    #[inline(always)]
    fn unpin(&self) {
        #[cfg(any(feature = "tasks", feature = "interrupts", feature = "softirqs"))]
        // SAFETY: as above.
        unsafe {
            fw_hook_unpin();
        }
    }

    #[inline(always)]
    fn irq_save(&self) -> usize {
        // SAFETY: as above.
        unsafe { fw_hook_irq_save() }
    }

    #[inline(always)]
    fn irq_restore(&self, saved: usize) {
        // SAFETY: as above.
        unsafe { fw_hook_irq_restore(saved) }
    }

    #[inline(always)]
    fn cpu(&self) -> usize {
        // SAFETY: as above.
        unsafe { fw_hook_cpu() }
    }

    #[cfg(any(feature = "interrupts", feature = "softirqs"))]
    #[inline(always)]
    fn context(&self) -> Context {
        // SAFETY: as above.
        match unsafe { fw_hook_context() } {
            FW_CONTEXT_TASK => Context::Task,
            FW_CONTEXT_SOFTIRQ => Context::Softirq,
            FW_CONTEXT_INTERRUPT => Context::Interrupt,
            _ => Context::Other,
        }
    }

    fn now(&self) -> u64 {
        self.hooks().now()
    }

    fn sleep_until(&self, waiter: Waiter, deadline: u64) {
        self.hooks().sleep(waiter, deadline);
    }

    fn wake(&self, waiter: Waiter) {
        self.hooks().wake(waiter);
    }

    fn zero(&self, pfn: Pfn, order: Order) {
        self.hooks().zero(pfn, order);
    }

    fn poison(&self, pfn: Pfn, order: Order) {
        self.hooks().poison(pfn, order);
    }

    fn is_poisoned(&self, pfn: Pfn, order: Order) -> bool {
        self.hooks().is_poisoned(pfn, order)
    }

    fn starts_zeroed(&self) -> bool {
        self.starts_zeroed.load(Ordering::Relaxed)
    }

    fn reclaim(&self, need: &Need) -> Reclaimed {
        Reclaimed { frames: self.hooks().reclaim(need) }
    }

    fn migrates(&self) -> bool {
        self.hooks().migrate.is_some()
    }

    fn migrate(&self, from: Pfn, to: Pfn, order: Order) -> Result<(), Busy> {
        if self.hooks().migrate(from, to, order) { Ok(()) } else { Err(Busy) }
    }
}
