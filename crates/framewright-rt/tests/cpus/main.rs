//! Threads on CPUs: leases, CPUs that follow the processors, and CPUs that a holder keeps or the system denies.

#[path = "../alone/mod.rs"]
#[expect(dead_code, reason = "these tests start their own processes")]
mod alone;
mod denied;
mod forgotten;
mod leases;
mod per_cpu;
mod values;
