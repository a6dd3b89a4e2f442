//! An interrupt at the per-CPU lists of the CPU that it strikes, for each way of protecting these (`pcp-protection`), on one CPU and with
//! another that drains the lists meanwhile.
//!
//! The CPU has a page on its list and one in its hands. It takes and gives; the interrupt takes and gives as well, and may keep what
//! it got.

use framewright::Mechanisms;
use framewright::mechanisms::PcpProtection;
use framewright::watermark::PcpSize;

use super::sound;
use crate::device::Device;
use crate::explore::{Model, Part};
use crate::interrupt::Fences;
use crate::stage::{self, Sizes, Stage};

const PLAIN: Model = Model {
    name: "",
    // The device is one thread more, and strikes once.
    bound: Some(1),
    spins: false,
    device: SHARES,
    fences: Fences::Promoted,
    stage: interrupts_off,
    threads: ALONE,
    check: sound,
};

/// The interrupt plays the CPU that it strikes.
const SHARES: Option<Device<Stage>> = Some(Device { strikes: 0, plays: 0, unmaskable: false, handler: take_and_give });
/// It plays a CPU of its own.
const APART: Option<Device<Stage>> = Some(Device { strikes: 0, plays: 1, unmaskable: false, handler: take_and_give });

const ALONE: &[(u16, Part)] = &[(0, give_and_take)];
const DRAINED: &[(u16, Part)] = &[(0, give_and_take), (2, |stage| _ = stage.drain(0))];

/// Models of interrupts.
pub const MODELS: &[Model] = &[
    Model { name: "device_off", ..PLAIN },
    Model { name: "device_preemption", stage: preemption_off, ..PLAIN },
    Model { name: "device_trylock", stage: trylock, ..PLAIN },
    Model { name: "device_own", stage: own_lists, device: APART, ..PLAIN },
    Model { name: "device_front", stage: front, device: APART, ..PLAIN },
    Model { name: "device_zone", stage: past_the_lists, ..PLAIN },
    Model { name: "device_off_drain", threads: DRAINED, ..PLAIN },
    Model { name: "device_preemption_drain", stage: preemption_off, threads: DRAINED, ..PLAIN },
    Model { name: "device_trylock_drain", stage: trylock, threads: DRAINED, ..PLAIN },
    Model { name: "device_own_drain", stage: own_lists, device: APART, threads: DRAINED, ..PLAIN },
    Model { name: "device_front_drain", stage: front, device: APART, threads: DRAINED, ..PLAIN },
];

/// At the front an interrupt that shares the lists of the CPU that it strikes hands a page out twice.
pub const SHARED_FRONT: &[Model] = &[Model { name: "device_front_shared", stage: front, ..PLAIN }];

fn give_and_take(stage: &Stage) {
    stage.free_from(0);
    stage.alloc_into(0, 0);
}

fn take_and_give(stage: &Stage) {
    stage.alloc_into(2, 0);
    stage.alloc_and_free(0);
}

fn stocked(mechanisms: Mechanisms) -> Stage {
    let stage = Stage::new(&Sizes { pcp: PcpSize { batch: 1, high: 4 }, mechanisms, ..Sizes::TINY });
    stage.alloc_into(0, 0);
    stage.alloc_and_free(0);
    stage
}

fn protected(pcp_protection: PcpProtection) -> Stage {
    stocked(Mechanisms { pcp_protection, ..stage::PLAIN })
}

fn interrupts_off() -> Stage {
    protected(PcpProtection::InterruptsOff)
}

fn preemption_off() -> Stage {
    protected(PcpProtection::PreemptionOff)
}

fn trylock() -> Stage {
    protected(PcpProtection::Trylock)
}

fn past_the_lists() -> Stage {
    let stage = Stage::new(&Sizes { bypass_pcp: stage::EVERY, ..Sizes::TINY });
    stage.alloc_into(0, 0);
    stage
}

fn own_lists() -> Stage {
    protected(PcpProtection::OwnLists)
}

fn front() -> Stage {
    stocked(Sizes::FRONT.mechanisms)
}
