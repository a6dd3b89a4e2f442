//! Wrong frees: refused, named, and nothing changed.
//!
//! *Nothing* is every frame's state, every pageblock's type, every list's length, every per-CPU count and every counter
//! but the one of refused frees. A table of each kind of mistake, and random mistakes in random states.

use std::collections::BTreeMap;

use framewright::request::GFP_KERNEL;
use framewright::{FreeError, Order, Pfn, PfnRange};
use framewright_ops::generate::{self, Weights};
use framewright_ops::rng::Rng;
use framewright_ops::{Op, Outcome, Place, Scenario, Session, machines, with_session};

/// Two nodes with a hole in each, reserved memory, something offline, and blocks in every state:
/// `0x10` order 3 and `0x20` order 0 allocated, `0x18` on a per-CPU list, `0x40` on a free list, `0x50..0x58` offline.
const MACHINE: &str = "
    max-order 4
    pageblock-order 3
    memory 0x8..0x2b node 0
    reserved 0x2b..0x30 node 0
    memory 0x40..0x60 node 0
    memory 0x1000..0x1020 node 1
    cpus 0 1
    dma-end 0x0
    dma32-end 0x0
    pcp 0 Normal 4 40
    a1 = alloc-at 0x10 order 3 GFP_KERNEL
    a2 = alloc-at 0x20 order 0 GFP_KERNEL
    a3 = alloc-at 0x18 order 1 GFP_KERNEL
    free a3
    take-offline 0x50..0x58
    a4 = alloc-at 0x1000 order 2 GFP_HIGHUSER_MOVABLE
";

/// Runs the machine's operations and hands the session to `body`.
fn on_machine(body: impl FnOnce(&Session<'_>) -> Result<(), String>) {
    let scenario: Scenario = MACHINE.parse().unwrap();
    let result = with_session(&scenario.shape, |session| {
        for step in &scenario.steps {
            session.perform(&step.op)?;
            session.check()?;
        }
        body(session)
    });
    result.unwrap();
}

fn free(pfn: u64, order: u8) -> Op {
    Op::RawFree { place: Place::At(Pfn(pfn)), order: Order(order) }
}

fn free_range(pfn: u64, frames: u64) -> Op {
    Op::RawFreeRange { place: Place::At(Pfn(pfn)), frames }
}

fn split(pfn: u64, from: u8, to: u8) -> Op {
    Op::RawSplit { place: Place::At(Pfn(pfn)), from: Order(from), to: Order(to) }
}

fn bad_order(order: u8, max: u8) -> FreeError {
    FreeError::BadOrder { order: Order(order), max: Order(max) }
}

fn wrong_order(pfn: u64, actual: u8) -> FreeError {
    FreeError::WrongOrder { pfn: Pfn(pfn), actual: Order(actual) }
}

fn not_head(pfn: u64, head: u64) -> FreeError {
    FreeError::NotHead { pfn: Pfn(pfn), head: Pfn(head) }
}

/// Every kind of mistake and the error that names it.
fn mistakes() -> Vec<(&'static str, Op, FreeError)> {
    use FreeError::{AlreadyFree, BadRange, Foreign, Misaligned, Offline};
    vec![
        ("free of a free block", free(0x40, 4), AlreadyFree(Pfn(0x40))),
        ("free of a frame inside of a free block", free(0x43, 0), AlreadyFree(Pfn(0x43))),
        ("free of a block on a per-CPU list", free(0x18, 1), AlreadyFree(Pfn(0x18))),
        ("free of the tail of a block on a per-CPU list", free(0x19, 0), AlreadyFree(Pfn(0x19))),
        ("free with too small an order", free(0x10, 2), wrong_order(0x10, 3)),
        ("free with order 0", free(0x10, 0), wrong_order(0x10, 3)),
        ("free with too large an order", free(0x10, 4), wrong_order(0x10, 3)),
        ("free of a single frame with a large order", free(0x20, 4), wrong_order(0x20, 0)),
        ("free of a tail", free(0x11, 0), not_head(0x11, 0x10)),
        ("free of the upper half", free(0x14, 2), not_head(0x14, 0x10)),
        ("free of the last frame", free(0x17, 0), not_head(0x17, 0x10)),
        ("free at a frame where no such block can start", free(0x12, 3), Misaligned(Pfn(0x12), Order(3))),
        ("free above the largest order", free(0x10, 5), bad_order(5, 4)),
        ("free with an order whose size does not fit a byte of orders", free(0x10, 35), bad_order(35, 4)),
        ("free with an order that cannot be shifted by", free(0x10, 64), bad_order(64, 4)),
        ("free with the largest number for an order", free(0x10, 255), bad_order(255, 4)),
        ("free of a hole beside memory", free(0x30, 0), Foreign(Pfn(0x30))),
        ("free of a hole at the start of a zone", free(0x7, 0), Foreign(Pfn(0x7))),
        ("free of a frame between nodes", free(0x800, 0), Foreign(Pfn(0x800))),
        ("free of the frame behind memory", free(0x1020, 0), Foreign(Pfn(0x1020))),
        ("free of the largest frame", free(u64::MAX, 0), Foreign(Pfn(u64::MAX))),
        ("free of a large aligned address", free(1 << 63, 4), Foreign(Pfn(1 << 63))),
        ("free of reserved memory", free(0x2c, 2), Offline(Pfn(0x2c))),
        ("free of a reserved frame", free(0x2b, 0), Offline(Pfn(0x2b))),
        ("free of memory that was taken offline", free(0x50, 3), Offline(Pfn(0x50))),
        ("free of a frame of it", free(0x57, 0), Offline(Pfn(0x57))),
        ("free of no frame", free_range(0x10, 0), BadRange(PfnRange::new(0x10, 0x10))),
        ("free of a range that ends in free memory", free_range(0x10, 12), AlreadyFree(Pfn(0x18))),
        ("free of a range that starts in free memory", free_range(0xf, 4), AlreadyFree(Pfn(0xf))),
        ("free of a range with a free frame inside", free_range(0x1f, 3), AlreadyFree(Pfn(0x1f))),
        ("free of reserved memory by range", free_range(0x2b, 2), Offline(Pfn(0x2b))),
        ("free of a range that starts in a hole", free_range(0x30, 2), Foreign(Pfn(0x30))),
        ("free of a range that runs over the end", free_range(u64::MAX - 2, 9), Foreign(Pfn(u64::MAX - 2))),
        ("free of everything", free_range(0, u64::MAX), Foreign(Pfn(0))),
        ("split of a free block", split(0x40, 4, 0), AlreadyFree(Pfn(0x40))),
        ("split with a wrong order", split(0x10, 2, 0), wrong_order(0x10, 3)),
        ("split of a tail", split(0x14, 2, 0), not_head(0x14, 0x10)),
        ("split into larger blocks", split(0x10, 3, 4), bad_order(4, 3)),
        ("split into blocks of no size", split(0x10, 3, 200), bad_order(200, 3)),
        ("split of a hole", split(0x30, 0, 0), Foreign(Pfn(0x30))),
        ("split above the largest order", split(0x10, 77, 1), bad_order(77, 4)),
    ]
}

#[test]
fn every_mistake_is_named_and_changes_nothing() {
    for (name, op, expected) in mistakes() {
        on_machine(|session| {
            let before = session.snapshot();
            let outcome = session.perform(&op).map_err(|wrong| format!("{name}: {wrong}"))?;
            assert_eq!(outcome, Outcome::Refused(expected), "{name}");
            session.check().map_err(|wrong| format!("{name}: {wrong}"))?;
            session.check_frames().map_err(|wrong| format!("{name}: {wrong}"))?;
            assert_eq!(before.difference(&session.snapshot()), None, "{name}");
            session.give_everything_back().map(drop)
        });
    }
}

#[test]
fn right_frees_among_wrong_ones_are_done() {
    on_machine(|session| {
        let pages = session.pages();
        let blocks = [0x12, 0x20, 0x10, 0x30, 0x18, 0x10].map(Pfn);
        let result = pages.free_bulk(&blocks, Order(3));
        assert_eq!((result.freed, result.refused), (1, 5));
        assert_eq!(result.first, Some((0, FreeError::Misaligned(Pfn(0x12), Order(3)))));
        assert_eq!(pages.counters().bad_frees, 5);
        // The oracle has seen nothing of this: it shall find everything as it was, but for the counter.
        pages.alloc_at(Pfn(0x10), Order(3), GFP_KERNEL).map_err(|error| error.to_string())?;
        session.check_frames()?;
        assert_eq!(session.check(), Err("5 refused frees were counted, should be 0".into()));
        Ok(())
    });
}

/// Mistakes in each part of the property test.
const MISTAKES: u64 = 50_000;
/// Mistakes in one state, before something right happens again.
const IN_A_ROW: u64 = 25;

/// Random mistakes: each must be refused with the right error (the session's oracle sees to that), and change nothing.
fn random_mistakes(seed: u64) {
    let mut errors: BTreeMap<String, u64> = BTreeMap::new();
    let mut rng = Rng::new(seed);
    let mut done = 0;
    while done < MISTAKES {
        let shape = machines::any(&mut rng);
        if shape.frames() > 600 {
            continue;
        }
        let weights = Weights { misuse: 0, faults: 0, ..Weights::MIXED };
        let right = generate::ops_on(shape.clone(), Rng::new(rng.draw()), &weights, 60);
        let wrong = generate::ops_on(shape.clone(), Rng::new(rng.draw()), &Weights::WRONG, 60 * IN_A_ROW as usize);
        let result = with_session(&shape, |session| {
            for (step, mistakes) in right.steps.iter().zip(wrong.steps.chunks(IN_A_ROW as usize)) {
                session.perform(&step.op)?;
                let mut before = session.snapshot();
                for mistake in mistakes {
                    let explain = |wrong: String| format!("`{}` after `{}`: {wrong}", mistake.op, step.op);
                    let outcome = session.perform(&mistake.op).map_err(explain)?;
                    let after = session.snapshot();
                    if let Outcome::Refused(error) = outcome {
                        let name = format!("{error:?}");
                        *errors.entry(name.split(['(', ' ']).next().unwrap_or_default().to_owned()).or_default() += 1;
                        before.difference(&after).map_or(Ok(()), |change| Err(explain(change)))?;
                        done += 1;
                    }
                    before = after;
                }
                session.check()?;
            }
            session.give_everything_back().map(drop)
        });
        assert_eq!(result, Ok(()), "seed {seed}, on\n{shape}");
    }
    for kind in ["Foreign", "Misaligned", "BadOrder", "WrongOrder", "NotHead", "AlreadyFree", "Offline", "BadRange"] {
        assert!(errors.get(kind).is_some_and(|&count| count > 100), "{kind}: {errors:?}");
    }
}

#[test]
fn random_mistakes_change_nothing_1() {
    random_mistakes(1);
}

#[test]
fn random_mistakes_change_nothing_2() {
    random_mistakes(2);
}
