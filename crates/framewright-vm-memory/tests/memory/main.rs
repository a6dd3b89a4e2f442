//! Guest memory out of an arena, seen from a hypervisor and from a guest.

mod example;
mod regions;
mod sharing;
mod reporting;
mod balloon;
mod guest_kernel;
mod race;
mod resident;
