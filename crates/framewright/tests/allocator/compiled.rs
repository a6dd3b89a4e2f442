//! Machines with constants: they behave as a machine without, and refuse what they were not compiled for.

use std::cell::Cell;
use std::rc::Rc;

use framewright::config::SectionInit;
use framewright::error::Feature;
use framewright::machine::{Machine, Need, NoPerCpu, Reclaimed, Waiter};
use framewright::mechanisms::{Depot, Hardened, PRESETS};
use framewright::report::{BuddyInfo, PageTypeInfo, Source, VmStat, ZoneInfo, ZoneSnapshot};
use framewright::request::{
    __GFP_DMA32, __GFP_ZERO, GFP_ATOMIC, GFP_HIGHUSER_MOVABLE, GFP_KERNEL, Gfp, NodeSet, Policy,
};
use framewright::units::PfnRange;
use framewright::{
    AllocError, Allocator, BootError, Config, CpuId, Features, FreeError, Geometry, Layout, Mechanisms, MigrateType,
    NodeId, Order, Pfn, Region, Request, Why, ZoneIdx, ZoneKind,
};
use framewright_rt::{Solo, Storage};
use proptest::prelude::*;

type Alone = Solo<'static>;

const CPUS: [NodeId; 3] = [NodeId(0), NodeId(0), NodeId(1)];
const MAP: [Region; 3] =
    [Region::usable(0, 0x300, 0), Region::usable(0x400, 0x600, 0), Region::usable(0x600, 0x900, 1)];
const FLAGS: [Gfp; 4] = [GFP_KERNEL, GFP_ATOMIC, GFP_HIGHUSER_MOVABLE, Gfp(GFP_KERNEL.0 | __GFP_DMA32.0)];

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

/// One thread that plays all CPUs, perhaps compiled for something.
trait Played: Machine {
    fn new(alone: Alone) -> Self;
    fn alone(&self) -> &Alone;
}

impl Played for Alone {
    fn new(alone: Alone) -> Alone {
        alone
    }

    fn alone(&self) -> &Alone {
        self
    }
}

macro_rules! compiled {
    ($( $(#[doc = $doc:literal])+ $name:ident: $mechanisms:expr, $features:expr; )+) => { $(
        $(#[doc = $doc])+
        struct $name(Alone);

        impl Played for $name {
            fn new(alone: Alone) -> $name {
                $name(alone)
            }

            fn alone(&self) -> &Alone {
                &self.0
            }
        }

        impl Machine for $name {
            type U8 = <Alone as Machine>::U8;
            type U16 = <Alone as Machine>::U16;
            type U32 = <Alone as Machine>::U32;
            type U64 = <Alone as Machine>::U64;
            type Usize = <Alone as Machine>::Usize;
            type Pin<'a> = <Alone as Machine>::Pin<'a>;
            type Irq<'a> = <Alone as Machine>::Irq<'a>;
            type PerCpu<T> = NoPerCpu;

            const MECHANISMS: Option<Mechanisms> = $mechanisms;
            const FEATURES: Features = $features;

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

            fn reclaim(&self, need: &Need) -> Reclaimed {
                self.0.reclaim(need)
            }
        }
    )+ };
}

compiled! {
    /// Our mechanisms.
    Ours: Some(Mechanisms::DEFAULT), Features::ALL;
    /// The least mechanisms.
    Least: Some(Mechanisms::MINIMAL), Features::ALL;
    /// Mechanisms with background work.
    Linux: Some(preset("linux-6.1")), Features::ALL;
    /// Mechanisms with a lock that CPUs share.
    Shared: Some(preset("patch9")), Features::ALL;
    /// The least mechanisms, and no feature.
    Bare: Some(Mechanisms::MINIMAL), Features::NONE;
    /// Our mechanisms, and no feature.
    Plain: Some(Mechanisms::DEFAULT), Features::NONE;
    /// No feature; the configuration chooses the mechanisms.
    Open: None, Features::NONE;
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
fn play<M: Played>(config: &Config<'_>, flags: &[Gfp], steps: &[Step]) -> (Vec<Answer>, String) {
    let layout = Layout::on::<M>(config).unwrap();
    assert_eq!(Layout::of(config), Ok(layout));
    let mut storage = Storage::new(&layout);
    let pages = Allocator::boot(M::new(Solo::new(config.cpus)), config, storage.parts()).unwrap();
    let mut blocks = Vec::new();
    let run_on = |cpu: &u16| pages.machine().alone().run_on(CpuId(*cpu));
    let answer = |step: &Step| match step {
        Step::Alloc { cpu, flags: number, order, below } => {
            run_on(cpu);
            let request = Request::new(flags[number % flags.len()], *order);
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
    check_totals(&pages);
    let reports = format!("{}{}{}{}", BuddyInfo(&pages), PageTypeInfo(&pages), ZoneInfo(&pages), VmStat(&pages));
    (answers, reports)
}

/// The sums of counters are those of the zones that the reports show.
fn check_totals<M: Machine>(pages: &Allocator<'_, M>) {
    let kinds = (pages.nodes() * ZoneKind::COUNT) as u16;
    let zones: Vec<_> =
        (0..kinds).filter_map(|idx| pages.zone(ZoneIdx(idx)).map(|zone| (ZoneIdx(idx), zone))).collect();
    for (idx, zone) in &zones {
        let memory = pages.zone_memory(*idx).unwrap();
        assert_eq!((memory.span.start, memory.span.frames()), (zone.start_pfn, zone.spanned));
        assert_eq!((memory.present, memory.managed, memory.free), (zone.present, zone.managed, zone.free));
        assert_eq!((memory.marks.min, memory.marks.high, memory.boost), (zone.min, zone.high, zone.boost));
    }
    assert_eq!(pages.zone_memory(ZoneIdx(kinds)), None);
    let (totals, events) = (pages.totals(), pages.events());
    let sum = |of: fn(&ZoneSnapshot) -> u64| zones.iter().map(|(_, zone)| of(zone)).sum::<u64>();
    let memory = (totals.present, totals.managed, totals.free);
    assert_eq!(memory, (sum(|zone| zone.present), sum(|zone| zone.managed), sum(|zone| zone.free)));
    let (allocated, freed) = (events.pgalloc.iter().sum::<u64>(), events.pgfree);
    assert_eq!((totals.total_allocated, totals.total_freed, totals.allocated), (allocated, freed, allocated - freed));
    assert_eq!(totals.cached, totals.managed - totals.free - totals.allocated);
}

fn behaves_as_configured<M: Played>(steps: &[Step]) {
    let config = config(M::MECHANISMS.unwrap());
    assert_eq!(play::<M>(&config, &FLAGS, steps), play::<Alone>(&config, &FLAGS, steps), "{}", config.mechanisms);
}

/// One node, requests of one mobility, no limit: nothing that the features are for.
fn behaves_without_features<M: Played>(mechanisms: Mechanisms, steps: &[Step]) {
    let (map, cpus) = ([Region::usable(0, 0x300, 0), Region::usable(0x400, 0x900, 0)], [NodeId(0); 3]);
    let config = Config { regions: &map, cpus: &cpus, ..config(mechanisms) };
    let flags = [GFP_HIGHUSER_MOVABLE, GFP_HIGHUSER_MOVABLE & !GFP_KERNEL, GFP_HIGHUSER_MOVABLE | __GFP_DMA32];
    let mut steps = steps.to_vec();
    for step in &mut steps {
        if let Step::Alloc { below, .. } = step {
            *below = None;
        }
    }
    assert_eq!(play::<M>(&config, &flags, &steps), play::<Alone>(&config, &flags, &steps), "{mechanisms}");
}

proptest! {
    #[test]
    fn constant_mechanisms_behave_as_the_configuration(steps in prop::collection::vec(step(), 1..300)) {
        behaves_as_configured::<Ours>(&steps);
        behaves_as_configured::<Least>(&steps);
        behaves_as_configured::<Linux>(&steps);
        behaves_as_configured::<Shared>(&steps);
    }

    #[test]
    fn features_that_nothing_asks_for_are_not_missed(steps in prop::collection::vec(step(), 1..300)) {
        behaves_without_features::<Bare>(Mechanisms::MINIMAL, &steps);
        behaves_without_features::<Plain>(Mechanisms::DEFAULT, &steps);
        behaves_without_features::<Open>(preset("linux-6.1"), &steps);
    }
}

fn refused<M: Played>(config: &Config<'_>) -> Option<BootError> {
    let mut storage = Storage::new(&Layout::of(config).unwrap());
    let booted = Allocator::boot(M::new(Solo::new(config.cpus)), config, storage.parts()).map(drop).err();
    assert_eq!(Layout::on::<M>(config).err(), booted);
    booted
}

#[test]
fn a_configuration_with_other_mechanisms_is_refused() {
    assert_eq!(refused::<Ours>(&config(Mechanisms::DEFAULT)), None);
    let other = Mechanisms { depot: Depot::Off, ..Mechanisms::DEFAULT };
    assert_eq!(refused::<Ours>(&config(other)), Some(BootError::OtherMechanisms("depot")));
    for switch in Mechanisms::SWITCHES {
        let numbers = ["1", "20", "8"];
        let others = Mechanisms::choices(switch).iter().chain(&numbers).filter_map(|choice| {
            let mut mechanisms = Mechanisms::DEFAULT;
            mechanisms.set(switch, choice).ok()?;
            (mechanisms != Mechanisms::DEFAULT && mechanisms.conflict().is_none()).then_some(mechanisms)
        });
        let expected = Some(BootError::OtherMechanisms(switch));
        others.for_each(|other| assert_eq!(refused::<Ours>(&config(other)), expected, "{other}"));
    }
}

#[test]
fn a_configuration_that_needs_a_feature_is_refused() {
    let two = config(Mechanisms::DEFAULT);
    assert_eq!(refused::<Plain>(&two), Some(BootError::LeftOut(Feature::Nodes)));
    let cma = [PfnRange::new(0x40, 0x60)];
    let one = Config { regions: &MAP[..2], cpus: &CPUS[..2], ..two };
    assert_eq!(refused::<Plain>(&Config { cma: &cma, ..one }), Some(BootError::LeftOut(Feature::Mobility)));
    assert_eq!(refused::<Plain>(&one), None);
    let late = Some(BootError::LeftOut(Feature::SectionInit));
    assert_eq!(refused::<Plain>(&Config { section_init: SectionInit::WhenUsed, ..one }), late);
    let map = [MAP[0], Region::possible(0x400, 0x600, 0)];
    assert_eq!(refused::<Plain>(&Config { regions: &map, ..one }), late);
    for hardened in [Hardened::Zero, Hardened::Poison] {
        let mechanisms = Mechanisms { hardened, ..Mechanisms::MINIMAL };
        assert_eq!(refused::<Open>(&Config { mechanisms, ..one }), Some(BootError::LeftOut(Feature::Hardened)));
    }
    let chosen = [SectionInit::AtBoot, SectionInit::BySize];
    chosen.into_iter().for_each(|section_init| assert_eq!(refused::<Plain>(&Config { section_init, ..one }), None));
}

/// Calls `test` with an allocator of one node.
fn with_pages<M: Played>(alone: Alone, test: impl FnOnce(&Allocator<'_, M>)) {
    let config = Config { regions: &MAP[..2], cpus: &CPUS[..2], ..config(Mechanisms::DEFAULT) };
    let mut storage = Storage::new(&Layout::of(&config).unwrap());
    test(&Allocator::boot(M::new(alone), &config, storage.parts()).unwrap());
}

#[test]
fn a_call_that_needs_a_feature_is_refused() {
    with_pages::<Plain>(Solo::new(&CPUS[..2]), |pages| {
        let (page, range) = (Request::page(GFP_KERNEL), PfnRange::new(0x100, 0x120));
        let nodes = AllocError::LeftOut(Feature::Nodes);
        for policy in [Policy::Prefer(NodeId(0)), Policy::Bind(NodeSet::ALL), Policy::Interleave(NodeSet::ALL)] {
            assert_eq!(pages.alloc(&page.with(policy)), Err(nodes));
            assert_eq!(pages.alloc_bulk(&page.with(policy), &mut [Pfn(0); 2]), Err(nodes));
            assert_eq!(pages.alloc_nolock(&page.with(policy)), Err(nodes));
        }
        assert_eq!(pages.alloc(&page.below(Pfn(0x100))), Err(AllocError::LeftOut(Feature::AddressLimits)));
        let (zero, zeroed) = (AllocError::LeftOut(Feature::Zero), Request::page(GFP_KERNEL | __GFP_ZERO));
        assert_eq!(pages.alloc(&zeroed), Err(zero));
        assert_eq!(pages.alloc_bulk(&zeroed, &mut [Pfn(0); 2]), Err(zero));
        assert_eq!(pages.alloc_nolock(&zeroed), Err(zero));
        let mobility = AllocError::LeftOut(Feature::Mobility);
        assert_eq!(pages.alloc_range(range, GFP_KERNEL), Err(mobility));
        assert_eq!(pages.alloc_at(Pfn(0x100), Order(0), GFP_KERNEL), Err(mobility));
        assert_eq!(pages.alloc_contig(1 << 20, Order(0), &page), Err(mobility));
        let run = pages.alloc_contig(5, Order(0), &page).unwrap();
        assert_eq!((run.frames(), pages.free_range(run)), (5, Ok(())));
        assert_eq!(pages.take_offline(range), Err(mobility));
        assert_eq!(pages.add_memory(range), Err(AllocError::LeftOut(Feature::SectionInit)));
        assert!(!pages.init_section(NodeId(0)));
        assert_eq!(pages.set_pageblock_type(Pfn(0x100), MigrateType::Unmovable), Err(mobility));
        let page = pages.alloc(&page).unwrap();
        let frozen = pages.freeze().unwrap();
        assert_eq!(pages.free_nolock(page, Order(0)), Err(FreeError::Busy(page)));
        drop(frozen);
        assert_eq!(pages.free_nolock(page, Order(0)), Ok(()));
        pages.validate().unwrap();
    });
}

#[test]
fn a_machine_without_reclaim_is_not_asked_to() {
    fn asked<M: Played>() -> bool {
        let (alone, asked) = (Solo::new(&CPUS[..2]), Rc::new(Cell::new(false)));
        let told = asked.clone();
        alone.on_reclaim(move |_| {
            told.set(true);
            0
        });
        with_pages::<M>(alone, |pages| {
            let why = loop {
                if let Err(why) = pages.alloc(&Request::page(GFP_KERNEL)) {
                    break why;
                }
            };
            assert_eq!(why, AllocError::no_memory(Why::Watermark));
        });
        asked.get()
    }
    assert_eq!((asked::<Ours>(), asked::<Plain>()), (true, false));
}
