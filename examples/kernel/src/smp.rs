//! The other CPUs: woken one after the other, by INIT and two start-up messages.
//!
//! A woken CPU runs a copy of the trampoline (`boot.rs`) in real mode. It finds its stack in `boot_other_stack` and its
//! number in [`count`], which is why only one is woken at a time.

use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::apic::{self, Message};
use crate::boot::TRAMPOLINE;
use crate::{cpu, interrupts, serial, threads};

unsafe extern "C" {
    static trampoline: u8;
    static trampoline_end: u8;
    static mut boot_other_stack: u64;
}

/// CPUs that run.
static COUNT: AtomicUsize = AtomicUsize::new(1);

/// Returns the number of CPUs that run.
pub(crate) fn count() -> usize {
    COUNT.load(Ordering::Acquire)
}

/// Starts the CPUs with these APIC numbers; `stack` returns the end of a stack for each.
///
/// Context: the first CPU.
pub(crate) fn start(others: impl Iterator<Item = u8>, mut stack: impl FnMut() -> u64) {
    let code = &raw const trampoline;
    let length = &raw const trampoline_end as usize - code as usize;
    // SAFETY: the page at TRAMPOLINE is mapped and unused, and the code does not depend on where it runs.
    unsafe { ptr::copy_nonoverlapping(code, TRAMPOLINE as *mut u8, length) };
    for apic in others {
        let started = count();
        // SAFETY: the CPU that was woken before has read its stack's address: it has counted itself.
        unsafe { ptr::write_volatile(&raw mut boot_other_stack, stack()) };
        apic::send(apic, Message::Init);
        apic::wait(10);
        for _ in 0..2 {
            apic::send(apic, Message::Start((TRAMPOLINE >> 12) as u8));
            let end = apic::milliseconds() + 100;
            while count() == started && apic::milliseconds() < end {}
            if count() > started {
                break;
            }
        }
        let patience = apic::milliseconds() + 60_000;
        while count() == started {
            if apic::milliseconds() > patience {
                serial::refuse(format_args!("the CPU with APIC number {apic} does not start"));
            }
        }
    }
}

/// What a CPU but the first does, in long mode on its stack.
pub(crate) extern "C" fn other_cpu() -> ! {
    cpu::enter(count());
    interrupts::load();
    apic::enable();
    COUNT.fetch_add(1, Ordering::AcqRel);
    threads::idle()
}
