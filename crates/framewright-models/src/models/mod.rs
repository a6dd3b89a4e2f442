//! The models, by what they are about.

pub mod cluster;
pub mod depot;
pub mod device;
pub mod front;
pub mod lock;
pub mod nolock;
pub mod owned;
pub mod pcp;
pub mod queued;
pub mod range;
pub mod reach;
pub mod shared;
pub mod smp_list;
pub mod stat;
pub mod together;
pub mod zone;

use crate::explore::Model;
use crate::stage::Stage;

/// All models.
pub fn all() -> impl Iterator<Item = &'static Model> {
    [
        lock::MODELS,
        queued::MODELS,
        shared::MODELS,
        pcp::MODELS,
        front::MODELS,
        depot::MODELS,
        device::MODELS,
        nolock::MODELS,
        zone::MODELS,
        range::MODELS,
        reach::MODELS,
        together::MODELS,
        cluster::MODELS,
        owned::MODELS,
        stat::MODELS,
    ]
    .into_iter()
    .flatten()
}

/// The model of that name.
pub fn named(name: &str) -> Option<&'static Model> {
    all().find(|model| model.name == name)
}

/// What holds at the end of every model.
fn sound(stage: &Stage) {
    stage.check();
}
