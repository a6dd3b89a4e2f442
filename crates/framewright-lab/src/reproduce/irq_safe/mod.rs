//! `irq-safe`: what it costs to keep interrupts off the per-CPU lists, and what it costs not to.
//!
//! Published (`data/published/irq-safe.toml`): a page's cycles with interrupts held off and with preemption held off
//! only, on a machine that is not named; the same of a pair on another, with what its parts cost there; two tests of
//! aim9; and what the network lost by it three months later, when packets' pages came from the zone. The same loops run
//! here, with today's Linux (a lock that is tried) and our default beside them, and the parts are measured natively.
//!
//! # What the rows say
//!
//! That program did one page more than it divided by, so what is compared is divided out
//! ([`published::BatchRow::corrected`]). What an allocation, and a free, saves is one number of the machine each,
//! fitted to one row; the other rows say whether it is one number. The second machine's costs are from its own table,
//! so its pair is predicted. aim9 and the network say what the saving, or a zone lock for each page, comes to in the
//! time of everything else, which is restated (`plan::RESTATED`).
//!
//! - [`mod@found`]: what came of it, table by table, and what has to hold;
//! - [`plan`]: what is run;
//! - [`published`]: the tables.

pub mod found;
pub mod plan;
pub mod published;

pub use found::found;
pub use plan::{IrqSafeLengths, IrqSafePlan};
pub use published::IrqSafeTables;
