//! Guest memory out of an arena, seen from a hypervisor and from a guest.

mod example;
mod regions;
mod sharing;
mod reporting;
mod balloon;
mod guest_kernel;
mod race;
#[cfg(target_arch = "x86_64")]
mod virtual_machine;
mod resident;
