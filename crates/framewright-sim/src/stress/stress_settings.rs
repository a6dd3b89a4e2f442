//! What a stress test is.

use framewright::Mechanisms;

use crate::engine::plant::Plant;

/// What a stress test is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// CPUs.
    pub cpus: usize,
    /// Seed of the first episode; each further one adds 1.
    pub seed: u64,
    /// Operations of all CPUs in all episodes.
    pub operations: u64,
    /// Points at which all rest and everything is checked.
    pub quiescent: u64,
    /// Mechanisms; by the seed if none.
    pub mechanisms: Option<Mechanisms>,
    /// Whether interrupts allocate and free; by the seed if none.
    pub interrupts: Option<bool>,
    /// Whether NMIs do, by the calls for any context; by the seed if none.
    pub nmis: Option<bool>,
    /// Whether stores are kept back; by the seed if none.
    pub delays: Option<bool>,
    /// Whether memory is a pool that CPUs keep full, in which no request may fail while a frame is free.
    pub pool: bool,
    /// A bug of the machine.
    pub plant: Option<Plant>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            cpus: 16,
            seed: 0,
            operations: 1_000_000,
            quiescent: 40,
            mechanisms: None,
            interrupts: None,
            nmis: None,
            delays: None,
            pool: false,
            plant: None,
        }
    }
}
