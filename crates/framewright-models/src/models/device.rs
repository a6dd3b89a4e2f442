//! An interrupt at the per-CPU lists of the CPU that it strikes, for each way of protecting them (`pcp-protection`).
//!
//! The CPU has one page on its list and has allocated another. It frees and allocates; the interrupt does so as well,
//! and may keep its page. Each model runs on one CPU, and with another that drains the lists meanwhile.

use framewright::Mechanisms;
use framewright::mechanisms::PcpProtection;
use framewright::watermark::PcpSize;

use super::model;
use crate::device::Device;
use crate::explore::Model;
use crate::stage::{self, EVERY, Sizes, Stage};

/// The interrupt plays the CPU that it strikes.
const SHARES: Device<Stage> = Device { strikes: 0, plays: 0, unmaskable: false, handler: take_and_give };
/// It plays a CPU of its own.
const APART: Device<Stage> = Device { plays: 1, ..SHARES };

/// Models of interrupts.
pub const MODELS: &[Model] = &[
    model("device_off", interrupts_off, cpus!(0 give_and_take)).device(SHARES),
    model("device_preemption", preemption_off, cpus!(0 give_and_take)).device(SHARES),
    model("device_trylock", trylock, cpus!(0 give_and_take)).device(SHARES),
    model("device_own", own_lists, cpus!(0 give_and_take)).device(APART),
    model("device_front", front, cpus!(0 give_and_take)).device(APART),
    model("device_zone", past_the_lists, cpus!(0 give_and_take)).device(SHARES),
    model("device_off_drain", interrupts_off, cpus!(0 give_and_take, 2 [drain(0)])).device(SHARES),
    model("device_preemption_drain", preemption_off, cpus!(0 give_and_take, 2 [drain(0)])).device(SHARES),
    model("device_trylock_drain", trylock, cpus!(0 give_and_take, 2 [drain(0)])).device(SHARES),
    model("device_own_drain", own_lists, cpus!(0 give_and_take, 2 [drain(0)])).device(APART),
    model("device_front_drain", front, cpus!(0 give_and_take, 2 [drain(0)])).device(APART),
];

/// In the fast path, an interrupt that shares the lists of the CPU that it strikes hands a page out twice.
pub const SHARED_FRONT: &[Model] = &[model("device_front_shared", front, cpus!(0 give_and_take)).device(SHARES)];

fn give_and_take(stage: &Stage) {
    stage.free_from(0);
    stage.alloc_into(0, 0);
}

fn take_and_give(stage: &Stage) {
    stage.alloc_into(2, 0);
    stage.alloc_and_free(0);
}

fn stocked(mechanisms: Mechanisms) -> Stage {
    let sizes = Sizes { pcp: PcpSize { batch: 1, high: 4 }, mechanisms, ..Sizes::TINY };
    Stage::new(&sizes).then(does!([alloc_into(0, 0), alloc_and_free(0)]))
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

fn own_lists() -> Stage {
    protected(PcpProtection::OwnLists)
}

fn front() -> Stage {
    stocked(Sizes::FRONT.mechanisms)
}

/// All calls go to the zone.
fn past_the_lists() -> Stage {
    Stage::new(&Sizes { bypass_pcp: EVERY, ..Sizes::TINY }).then(does!([alloc_into(0, 0)]))
}
