//! The settings of a stress test.

use framewright::Mechanisms;

use crate::engine::plant::Plant;

/// The settings of a stress test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// CPUs.
    pub cpus: usize,
    /// Seed of the first episode; each further one adds 1.
    pub seed: u64,
    /// Operations of all CPUs in all episodes.
    pub operations: u64,
    /// Points at which all CPUs rest and everything is checked.
    pub quiescent: u64,
    /// Mechanisms; drawn from the seed if `None`.
    pub mechanisms: Option<Mechanisms>,
    /// Whether interrupts allocate and free; drawn from the seed if `None`.
    pub interrupts: Option<bool>,
    /// Whether NMIs make the calls for any context; drawn from the seed if `None`.
    pub nmis: Option<bool>,
    /// Whether stores are delayed; drawn from the seed if `None`.
    pub delays: Option<bool>,
    /// Whether memory is a pool that CPUs keep full: no request may fail while a frame is free.
    pub pool: bool,
    /// A planted bug of the machine.
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
