//! The words of the running CPU, as a kernel on x86-64 reaches them: through `%gs`, by one instruction.
//!
//! The base of `%gs` is the area of the running CPU, so an instruction that names `%gs` reads or writes that CPU's word
//! even if the code has just moved to another CPU. Linux keeps its preemption counter and its CPU number in this way.
//!
//! | word | instruction here | in Linux |
//! |---|---|---|
//! | preemption counter | `inc`; `dec` and `jz` to the scheduler | `preempt_disable`, `preempt_enable` |
//! | CPU number, node number | `mov` | `raw_smp_processor_id`, `numa_node_id` |
//! | counter of interrupt disables | `inc`, `dec` | `pushf`, `cli`; `popf` or `sti` |
//!
//! As in Linux, the highest bit of the preemption counter is set while nobody wants the CPU. The counter therefore
//! becomes zero exactly when the last pin ends and a reschedule is due, and one test finds both.
//!
//! A process does not use `%gs` (glibc's thread-locals are in `%fs`), and may set its base. A process cannot execute
//! `cli`. So a counter of the same shape stands for it: two instructions, without the cost of a serialising one.
//!
//! One thread is the one CPU. An area for each thread would need an owner for each, and counting needs one thread.
#![allow(unsafe_code, reason = "%gs has no safe access; one system call sets it, and each block says why it is sound")]

use core::arch::asm;
use core::marker::PhantomData;
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The area of a CPU.
#[repr(C, align(64))]
struct Area {
    preempt_count: AtomicU32,
    interrupts_off: AtomicU32,
    cpu: AtomicU32,
    node: AtomicU32,
}

/// The bit of the preemption counter that is clear while a reschedule is due.
const NO_RESCHEDULE: u32 = 1 << 31;

/// The area of the one CPU; CPU 0 of node 0.
static AREA: Area = Area {
    preempt_count: AtomicU32::new(NO_RESCHEDULE),
    interrupts_off: AtomicU32::new(0),
    cpu: AtomicU32::new(0),
    node: AtomicU32::new(0),
};

/// Whether a thread is the CPU already.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Proof that `%gs` of this thread leads to [`AREA`]. It stays in its thread.
#[derive(Clone, Copy)]
pub(crate) struct GsArea(PhantomData<*const ()>);

impl GsArea {
    /// Makes the calling thread the CPU, once in the life of the process.
    ///
    /// `None` if a thread is the CPU already, or the system does not let it set `%gs`.
    pub(crate) fn take() -> Option<GsArea> {
        /// Linux's `asm/prctl.h`.
        const ARCH_SET_GS: libc::c_int = 0x1001;
        if IS_TAKEN.swap(true, Ordering::Relaxed) {
            return None;
        }
        // SAFETY: it sets the base of a register that neither Rust nor the C library uses, for this thread alone.
        let result = unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, &raw const AREA) };
        (result == 0).then_some(GsArea(PhantomData))
    }

    /// Adds one to the preemption counter.
    #[inline(always)]
    pub(crate) fn disable_preemption(self) {
        // SAFETY: `self` proves that `%gs` leads to the area, which is static and made of atomics.
        unsafe { asm!("inc dword ptr gs:[{}]", const offset_of!(Area, preempt_count), options(nostack)) };
    }

    /// Subtracts one, and calls the scheduler if the last pin ended while a reschedule was due.
    ///
    /// Like Linux's, that call changes no register, so the code around it saves none.
    #[inline(always)]
    pub(crate) fn enable_preemption(self) {
        // SAFETY: as in `disable_preemption`. The call is made below the red zone, and `framewright_schedule` saves
        // all registers that a function may change.
        unsafe {
            asm!(
                "dec dword ptr gs:[{}]",
                "jz 2f",
                "3:",
                ".pushsection .text.unlikely.framewright, \"ax\", @progbits",
                "2:",
                "lea rsp, [rsp - 128]",
                "call {}",
                "lea rsp, [rsp + 128]",
                "jmp 3b",
                ".popsection",
                const offset_of!(Area, preempt_count),
                sym framewright_schedule,
                options(nostack),
            );
        }
    }

    /// Adds one to the counter that stands for disabled interrupts.
    #[inline(always)]
    pub(crate) fn disable_interrupts(self) {
        // SAFETY: as in `disable_preemption`.
        unsafe { asm!("inc dword ptr gs:[{}]", const offset_of!(Area, interrupts_off), options(nostack)) };
    }

    /// Subtracts one from it.
    #[inline(always)]
    pub(crate) fn enable_interrupts(self) {
        // SAFETY: as in `disable_preemption`.
        unsafe { asm!("dec dword ptr gs:[{}]", const offset_of!(Area, interrupts_off), options(nostack)) };
    }

    /// Returns whether the counter stands for enabled interrupts.
    #[inline(always)]
    pub(crate) fn has_interrupts_on(self) -> bool {
        self.word::<{ offset_of!(Area, interrupts_off) }>() == 0
    }

    /// Returns the number of the running CPU.
    #[inline(always)]
    pub(crate) fn cpu(self) -> u32 {
        self.word::<{ offset_of!(Area, cpu) }>()
    }

    /// Returns the number of its node.
    #[inline(always)]
    pub(crate) fn node(self) -> u32 {
        self.word::<{ offset_of!(Area, node) }>()
    }

    /// Asks for the line of `word`, which will be written (Linux's `prefetchw`).
    #[inline(always)]
    pub(crate) fn prefetch<T>(self, word: *const T) {
        // SAFETY: a hint. It changes nothing that the program can see, and does not fault.
        unsafe { asm!("prefetchw [{}]", in(reg) word, options(nostack, preserves_flags, readonly)) };
    }

    #[inline(always)]
    fn word<const OFFSET: usize>(self) -> u32 {
        let value: u32;
        // SAFETY: as in `disable_preemption`; the offset is that of a word of the area.
        unsafe {
            asm!("mov {:e}, dword ptr gs:[{}]", out(reg) value, const OFFSET,
                options(nostack, preserves_flags, readonly));
        }
        value
    }
}

/// Calls of the scheduler. No reschedule is due unless a test asks for one.
static SCHEDULED: AtomicU32 = AtomicU32::new(0);

/// Calls [`schedule`] and saves all integer registers that it may change.
///
/// The counted code uses no vector registers, as in a kernel; `schedule` adds to a counter and changes none.
#[unsafe(naked)]
unsafe extern "C" fn framewright_schedule() {
    core::arch::naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "push rax",
        "push rcx",
        "push rdx",
        "push rsi",
        "push rdi",
        "push r8",
        "push r9",
        "push r10",
        "push r11",
        "push rbx",
        "mov rbx, rsp",
        "and rsp, -16",
        "call {}",
        "mov rsp, rbx",
        "pop rbx",
        "pop r11",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rdi",
        "pop rsi",
        "pop rdx",
        "pop rcx",
        "pop rax",
        "pop rbp",
        "ret",
        sym schedule,
    )
}

/// Stands for the scheduler.
extern "C" fn schedule() {
    SCHEDULED.fetch_add(1, Ordering::Relaxed);
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn counters_count_and_the_last_pin_asks_for_the_scheduler() {
        let own = GsArea::take().unwrap();
        assert!(GsArea::take().is_none(), "there is one CPU");
        assert_eq!((own.cpu(), own.node()), (0, 0));
        let preempt_count = || AREA.preempt_count.load(Ordering::Relaxed);
        own.disable_preemption();
        own.disable_preemption();
        assert_eq!(preempt_count(), NO_RESCHEDULE + 2);
        // The bit that says that nobody wants the CPU goes, as when a timer's interrupt finds another thread.
        AREA.preempt_count.fetch_and(!NO_RESCHEDULE, Ordering::Relaxed);
        own.enable_preemption();
        assert_eq!((preempt_count(), SCHEDULED.load(Ordering::Relaxed)), (1, 0));
        own.enable_preemption();
        assert_eq!((preempt_count(), SCHEDULED.load(Ordering::Relaxed)), (0, 1));
        own.disable_interrupts();
        assert!(!own.has_interrupts_on());
        own.enable_interrupts();
        assert!(own.has_interrupts_on());
    }
}
