//! Mechanisms as a constant of the machine: it behaves as with the same configuration, and refuses any other.

use framewright::machine::{Machine, Waiter};
use framewright::mechanisms::{Depot, PRESETS};
use framewright::report::{BuddyInfo, PageTypeInfo, VmStat, ZoneInfo};
use framewright::request::{__GFP_DMA32, GFP_ATOMIC, GFP_HIGHUSER_MOVABLE, GFP_KERNEL, Gfp};
use framewright::{
    AllocError, Allocator, BootError, Config, CpuId, FreeError, Geometry, Layout, Mechanisms, NodeId, Order, Pfn,
    Region, Request,
};
use framewright_rt::{Solo, Storage};
use proptest::prelude::*;

type Alone = Solo<'static>;

const CPUS: [NodeId; 3] = [NodeId(0), NodeId(0), NodeId(1)];
const MAP: [Region; 3] =
    [Region::usable(0, 0x300, 0), Region::usable(0x400, 0x600, 0), Region::usable(0x600, 0x900, 1)];
const FLAGS: [Gfp; 4] = [GFP_KERNEL, GFP_ATOMIC, GFP_HIGHUSER_MOVABLE, Gfp(GFP_KERNEL.0 | __GFP_DMA32.0)];

/// Mechanisms that are compiled: ours, the least, background work, and a lock that CPUs share.
const COMPILED: [Mechanisms; 4] = [Mechanisms::DEFAULT, Mechanisms::MINIMAL, preset("linux-6.1"), preset("patch9")];

const fn preset(name: &str) -> Mechanisms {
    let mut rest = PRESETS;
    while let [(preset, mechanisms), others @ ..] = rest {
        if is_same(preset.as_bytes(), name.as_bytes()) {
            return *mechanisms;
        }
        rest = others;
    }
    panic!("no such preset")
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    match (one, other) {
        ([a, one @ ..], [b, other @ ..]) => *a == *b && is_same(one, other),
        (one, other) => one.is_empty() && other.is_empty(),
    }
}

/// One thread that plays all CPUs, compiled for the mechanisms with this number.
struct Compiled<const N: usize>(Alone);

impl<const N: usize> Machine for Compiled<N> {
    type U8 = <Alone as Machine>::U8;
    type U16 = <Alone as Machine>::U16;
    type U32 = <Alone as Machine>::U32;
    type U64 = <Alone as Machine>::U64;
    type Usize = <Alone as Machine>::Usize;
    type Pin<'a> = <Alone as Machine>::Pin<'a>;
    type Irq<'a> = <Alone as Machine>::Irq<'a>;

    const MECHANISMS: Option<Mechanisms> = Some(COMPILED[N]);

    fn pin(&self) -> Self::Pin<'_> {
        self.0.pin()
    }

    fn near(&self) -> NodeId {
        self.0.near()
    }

    fn irq_save(&self) -> Self::Irq<'_> {
        self.0.irq_save()
    }

    fn keeps_interrupts_apart(&self) -> bool {
        self.0.keeps_interrupts_apart()
    }

    fn fence(&self) {}

    fn may_fence(&self) -> bool {
        self.0.may_fence()
    }

    fn now(&self) -> u64 {
        self.0.now()
    }

    fn sleep_until(&self, waiter: Waiter, deadline: u64) {
        self.0.sleep_until(waiter, deadline);
    }
}

fn config(mechanisms: Mechanisms) -> Config<'static> {
    let geometry = Geometry { page_shift: 12, max_order: Order(6), pageblock_order: Order(5) };
    Config { geometry, dma_end: Pfn(0x40), dma32_end: Pfn(0x200), mechanisms, ..Config::new(&MAP, &CPUS) }
}

/// What a caller does.
#[derive(Clone, Debug)]
enum Step {
    Alloc { cpu: u16, flags: usize, order: u8, below: Option<u64> },
    Free { cpu: u16, block: usize, order: Option<u8> },
    Drain { cpu: u16 },
    Refresh { cpu: u16 },
}

fn step() -> impl Strategy<Value = Step> {
    let cpu = 0..CPUS.len() as u16;
    let below = prop_oneof![4 => Just(None), 1 => (0x10..0x900_u64).prop_map(Some)];
    let order = prop_oneof![6 => Just(0_u8), 3 => 0..4_u8, 1 => 0..8_u8];
    let alloc = (cpu.clone(), 0..FLAGS.len(), order, below);
    // Now and then of another order than the block's.
    let free = (cpu.clone(), any::<usize>(), prop_oneof![20 => Just(None), 1 => (0..8_u8).prop_map(Some)]);
    prop_oneof![
        6 => alloc.prop_map(|(cpu, flags, order, below)| Step::Alloc { cpu, flags, order, below }),
        5 => free.prop_map(|(cpu, block, order)| Step::Free { cpu, block, order }),
        1 => cpu.clone().prop_map(|cpu| Step::Drain { cpu }),
        1 => cpu.prop_map(|cpu| Step::Refresh { cpu }),
    ]
}

/// The answer to a step.
#[derive(PartialEq, Debug)]
enum Answer {
    Alloc(Result<Pfn, AllocError>),
    Free(Result<(), FreeError>),
    Number(u64),
}

/// Carries the steps out; returns the answers, and the reports after the last one.
fn play<M: Machine>(machine: M, on: fn(&M) -> &Alone, mechanisms: Mechanisms, steps: &[Step]) -> (Vec<Answer>, String) {
    let config = config(mechanisms);
    let mut storage = Storage::new(&Layout::of(&config).unwrap());
    let pages = Allocator::boot(machine, &config, storage.parts()).unwrap();
    let mut blocks = Vec::new();
    let run_on = |cpu: &u16| on(pages.machine()).run_on(CpuId(*cpu));
    let answer = |step: &Step| match step {
        Step::Alloc { cpu, flags, order, below } => {
            run_on(cpu);
            let request = Request::new(FLAGS[*flags], *order);
            let request = below.map_or(request, |below| request.below(Pfn(below)));
            let served = pages.alloc(&request);
            blocks.extend(served.iter().map(|&pfn| (pfn, Order(*order))));
            Answer::Alloc(served)
        }
        Step::Free { .. } if blocks.is_empty() => Answer::Number(0),
        Step::Free { cpu, block, order } => {
            run_on(cpu);
            let block = block % blocks.len();
            let (pfn, right) = blocks[block];
            let freed = pages.free(pfn, order.map_or(right, Order));
            if freed.is_ok() {
                blocks.swap_remove(block);
            }
            Answer::Free(freed)
        }
        Step::Drain { cpu } => Answer::Number(pages.drain_cpu(CpuId(*cpu))),
        Step::Refresh { cpu } => {
            run_on(cpu);
            Answer::Number(pages.refresh_statistics(CpuId(*cpu)).told)
        }
    };
    let answers = steps.iter().map(answer).collect();
    pages.validate().unwrap();
    let reports = format!("{}{}{}{}", BuddyInfo(&pages), PageTypeInfo(&pages), ZoneInfo(&pages), VmStat(&pages));
    (answers, reports)
}

fn behaves_as_configured<const N: usize>(steps: &[Step]) {
    let compiled = play(Compiled::<N>(Solo::new(&CPUS)), |machine| &machine.0, COMPILED[N], steps);
    assert_eq!(compiled, play(Solo::new(&CPUS), |machine| machine, COMPILED[N], steps), "{}", COMPILED[N]);
}

proptest! {
    #[test]
    fn a_constant_behaves_as_the_configuration(steps in prop::collection::vec(step(), 1..300)) {
        behaves_as_configured::<0>(&steps);
        behaves_as_configured::<1>(&steps);
        behaves_as_configured::<2>(&steps);
        behaves_as_configured::<3>(&steps);
    }
}

#[test]
fn a_configuration_with_other_mechanisms_is_refused() {
    let refused = |mechanisms| {
        let config = config(mechanisms);
        let mut storage = Storage::new(&Layout::of(&config).unwrap());
        Allocator::boot(Compiled::<0>(Solo::new(&CPUS)), &config, storage.parts()).map(drop).err()
    };
    assert_eq!(refused(Mechanisms::DEFAULT), None);
    assert_eq!(
        refused(Mechanisms { depot: Depot::Off, ..Mechanisms::DEFAULT }),
        Some(BootError::OtherMechanisms("depot"))
    );
    for switch in Mechanisms::SWITCHES {
        let numbers = ["1", "20", "8"];
        let others = Mechanisms::choices(switch).iter().chain(&numbers).filter_map(|choice| {
            let mut mechanisms = Mechanisms::DEFAULT;
            mechanisms.set(switch, choice).ok()?;
            (mechanisms != Mechanisms::DEFAULT && mechanisms.conflict().is_none()).then_some(mechanisms)
        });
        others.for_each(|other| assert_eq!(refused(other), Some(BootError::OtherMechanisms(switch)), "{other}"));
    }
}
