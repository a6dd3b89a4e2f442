//! The text form: what is printed is read back, and what is wrong is named with its line.

use framewright::machine::Fault;
use framewright::report::Source;
use framewright::{CpuId, Gfp, MigrateType, NodeId, NodeSet, Order, Pfn, PfnRange, Policy, ZoneIdx, ZoneKind};
use framewright_ops::assertion::{Assertion, Quantity};
use framewright_ops::expected::{Expected, Relation};
use framewright_ops::rng::Rng;
use framewright_ops::{
    Checks, Counter, Handle, Kind, Line, OnMigrate, OnReclaim, Op, Outcome, Place, Row, Scenario, Step, Terms, follow,
    generate, machines, run, shrink, with_session,
};
use proptest::prelude::*;

/// A number of any magnitude.
fn any_number(rng: &mut Rng) -> u64 {
    rng.draw() >> rng.below(64)
}

fn any_range(rng: &mut Rng) -> PfnRange {
    PfnRange::new(any_number(rng), any_number(rng))
}

fn any_terms(rng: &mut Rng) -> Terms {
    let nodes = [NodeSet::ALL, NodeSet(0), NodeSet(rng.draw()), NodeSet(1 << rng.below(64))];
    let policies = [
        Policy::Local,
        Policy::Prefer(NodeId(rng.draw() as u8)),
        Policy::Bind(*rng.pick(&nodes)),
        Policy::Interleave(*rng.pick(&nodes)),
    ];
    let below = rng.one_in(2).then(|| Pfn(any_number(rng)));
    Terms { gfp: Gfp(any_number(rng) as u32), policy: *rng.pick(&policies), below }
}

fn any_place(rng: &mut Rng) -> Place {
    if rng.one_in(2) {
        return Place::At(Pfn(any_number(rng)));
    }
    Place::In(Handle(any_number(rng) as u32), rng.below(2) * any_number(rng))
}

fn any_row(rng: &mut Rng) -> Row {
    let zone = ZoneIdx::of(NodeId(rng.below(64) as u8), *rng.pick(&ZoneKind::ALL));
    let migratetype = *rng.pick(&MigrateType::ALL);
    match rng.below(4) {
        3 => Row::Boost { zone, frames: any_number(rng) },
        0 => {
            let mut blocks: Vec<u64> = (0..rng.below(19)).map(|_| any_number(rng)).collect();
            while blocks.last() == Some(&0) {
                blocks.pop();
            }
            Row::Free { zone, migratetype, blocks }
        }
        1 => Row::Pcp { zone, cpu: CpuId(any_number(rng) as u16), count: any_number(rng) },
        _ => Row::Pageblock { pfn: Pfn(any_number(rng)), migratetype },
    }
}

fn any_assertion(rng: &mut Rng) -> Assertion {
    let node = NodeId(rng.below(64) as u8);
    let zone = ZoneIdx::of(node, *rng.pick(&ZoneKind::ALL));
    let some = rng.one_in(2).then_some(zone);
    let cpu = rng.one_in(2).then(|| CpuId(any_number(rng) as u16));
    let quantities = [
        Quantity::Numa(rng.below(6) as usize, zone),
        Quantity::Free(some),
        Quantity::Pcp(zone, cpu),
        Quantity::Pageblocks(*rng.pick(&MigrateType::ALL), some),
        Quantity::Event(rng.below(19) as usize),
        Quantity::Census(rng.below(7) as usize),
    ];
    let relation = *rng.pick(&[Relation::Equal, Relation::AtMost, Relation::AtLeast]);
    Assertion { quantity: *rng.pick(&quantities), relation, value: any_number(rng) }
}

fn any_counter(rng: &mut Rng) -> Counter {
    let (node, index) = (NodeId(rng.below(64) as u8), any_number(rng) as usize);
    if rng.one_in(2) {
        Counter::Node(node, index)
    } else {
        Counter::Zone(ZoneIdx::of(node, *rng.pick(&ZoneKind::ALL)), index)
    }
}

/// Any operation at all, sensible or not.
fn any_op(rng: &mut Rng) -> Op {
    let name = Handle(any_number(rng) as u32);
    let order = Order(any_number(rng) as u8);
    let pfn = Pfn(any_number(rng));
    let cpu = CpuId(any_number(rng) as u16);
    let gfp = Gfp(rng.draw() as u32);
    match rng.below(33) {
        29 => Op::Assert(any_assertion(rng)),
        30 => Op::Local(rng.one_in(2)),
        31 => Op::Trace(rng.one_in(2)),
        28 => Op::Balance(NodeId(rng.below(64) as u8)),
        0 => Op::Alloc { name, order, terms: any_terms(rng) },
        1 => Op::Bulk { name, count: rng.below(1_000_001) as u32, order, terms: any_terms(rng) },
        2 => Op::AllocAt { name, pfn, order, gfp },
        3 => Op::AllocRange { name, range: any_range(rng), gfp },
        4 => Op::AllocContig { name, frames: any_number(rng), align: order, terms: any_terms(rng) },
        5 => Op::Free(name),
        6 => Op::FreePart { handle: name, skip: any_number(rng), frames: any_number(rng) },
        7 => Op::Split { handle: name, to: order },
        8 => Op::RawFree { place: any_place(rng), order },
        9 => Op::RawFreeRange { place: any_place(rng), frames: any_number(rng) },
        10 => Op::RawSplit { place: any_place(rng), from: order, to: Order(rng.draw() as u8) },
        11 => Op::DrainAll,
        12 => Op::DrainCpu(cpu),
        13 => Op::OfflineCpu(cpu),
        14 => Op::RunOn(cpu),
        15 => Op::TakeOffline(any_range(rng)),
        16 => Op::BringOnline(any_range(rng)),
        17 => Op::SetType { pfn, migratetype: *rng.pick(&MigrateType::ALL) },
        18 => Op::Fault { point: *rng.pick(&Fault::ALL), hit: any_number(rng) },
        19 => {
            let free = OnReclaim::Free(any_number(rng) as u32);
            Op::OnReclaim(*rng.pick(&[OnReclaim::Fail, OnReclaim::Lie, free, OnReclaim::Nest, OnReclaim::Drain]))
        }
        20 => {
            use OnMigrate::{Abandon, Fail, Free, Lie, Move, Nest};
            Op::OnMigrate(*rng.pick(&[Fail, Lie, Move, Free, Abandon, Nest]))
        }
        21 => Op::Expect(any_row(rng)),
        22 => Op::OnlineCpu(cpu),
        23 => Op::Refresh(cpu),
        24 => Op::NumaStat(rng.one_in(2)),
        26 => Op::AllocNolock { name, order, terms: any_terms(rng) },
        27 => Op::FreeNolock(name),
        25 => Op::Count { counter: any_counter(rng), change: any_number(rng) as i64 },
        _ => Op::Validate,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_operation_reads_back(seed in any::<u64>()) {
        let op = any_op(&mut Rng::new(seed));
        prop_assert_eq!(op.to_string().parse(), Ok(op));
    }
}

#[test]
fn scenarios_read_back() {
    for seed in 0..500 {
        let scenario = generate::scenario(seed);
        assert_eq!(scenario.to_string().parse(), Ok(scenario), "seed {seed}");
    }
    let names: Vec<&str> = machines::named().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 22, "every machine's text is right: {names:?}");
}

#[test]
fn what_is_left_to_defaults_and_comments_is_understood() {
    let text = "
        # A comment, an empty line, and blanks that mean nothing.

           memory   0..0x10   node 0   # decimal or hexadecimal
        a1 = alloc   order 0   GFP_KERNEL|__GFP_ZERO   ->   0x0   # what must come of it
        validate
    ";
    let scenario: Scenario = text.parse().unwrap();
    assert_eq!(scenario.shape.cpus, [NodeId(0)]);
    assert_eq!(scenario.shape.geometry.max_order, Order(10));
    assert_eq!(scenario.steps[0].expected, Some(Expected::Text("0x0".to_owned())));
    assert_eq!(scenario.steps[1], Step::from(Op::Validate));
    assert_eq!(scenario.to_string().parse(), Ok(scenario));
}

/// What may stand after the arrow, in every form, and what is the same.
#[test]
fn outcomes_are_read() {
    for (text, expected) in [
        ("served", Expected::Served),
        ("failed", Expected::Failed),
        ("12", Expected::Count(Relation::Equal, 12)),
        ("= 12", Expected::Count(Relation::Equal, 12)),
        (">=15000", Expected::Count(Relation::AtLeast, 15_000)),
        ("<= 0x10", Expected::Count(Relation::AtMost, 16)),
        ("served 0x10", Expected::Text("0x10".to_owned())),
        ("failed: served a b", Expected::Text("a b".to_owned())),
        ("skipped", Expected::Text("skipped".to_owned())),
        ("12 blocks", Expected::Text("12 blocks".to_owned())),
    ] {
        assert_eq!(text.parse(), Ok(expected.clone()), "{text}");
        assert_eq!(expected.to_string().parse(), Ok(expected), "{text}");
    }
}

#[test]
fn a_first_line_may_be_the_systems() {
    let text = "#!/usr/bin/env -S framewright ops\nmemory 0x0..0x10 node 0\n #!  highatomic<=1  # at most\n#! cached 0";
    let scenario: Scenario = text.parse().unwrap();
    let lines: Vec<String> = scenario.steps.iter().map(Step::to_string).collect();
    assert_eq!(lines, ["#! highatomic <= 1", "#! cached 0"]);
    let late: Result<Scenario, _> = "memory 0x0..0x10 node 0\n#!/bin/sh".parse();
    assert!(late.unwrap_err().to_string().starts_with("line 2: `/bin/sh` is nothing to assert"));
}

/// Every event counter that an allocator keeps can be stated.
#[test]
fn events_have_names() {
    let list: Scenario = "memory 0x0..0x400 node 0\nmechanisms default\nvalidate".parse().unwrap();
    let kept = with_session(&list.shape, |session| {
        Ok(session.pages().events().named().map(|(name, count)| format!("#! vmstat {name} {count}")).collect())
    });
    let kept: Vec<String> = kept.unwrap();
    assert_eq!(kept.len(), 19, "{kept:?}");
    let list: Scenario = format!("memory 0x0..0x400 node 0\nmechanisms default\n{}", kept.join("\n")).parse().unwrap();
    run(&list).unwrap();
}

/// Each form of a statement, where it holds and where it does not.
#[test]
fn statements_are_checked() {
    let machine = "max-order 4\npageblock-order 2\nmemory 0x0..0x40 node 0\nmemory 0x40..0x80 node 1\ncpus 0 1\n\
                   dma-end 0x0\ndma32-end 0x0\n";
    let setup = "a1 = alloc order 2 GFP_KERNEL\na2 = bulk 4 order 0 GFP_KERNEL on 1\nfree a1\n";
    for (line, fits) in [
        ("a3 = alloc order 0 GFP_KERNEL -> served", true),
        ("a3 = alloc order 0 GFP_KERNEL -> 1", true),
        ("a3 = alloc order 0 GFP_KERNEL -> failed", false),
        ("a3 = alloc order 9 GFP_KERNEL -> failed", true),
        ("a3 = alloc order 9 GFP_KERNEL -> served", false),
        ("a3 = alloc order 9 GFP_KERNEL -> <=3", true),
        ("a3 = bulk 3 order 0 GFP_KERNEL -> 3", true),
        ("a3 = bulk 3 order 0 GFP_KERNEL -> >=4", false),
        ("a3 = alloc-range 0x0..0x0 GFP_KERNEL -> failed", true),
        ("free a1 -> served", false),
        ("free a1 -> failed", false),
        ("free a1 -> skipped", true),
        ("free a1 -> 0", false),
        ("raw-free 0x0 order 0 -> failed", true),
        ("raw-free 0x0 order 0 -> 0", false),
        ("drain all -> >=0", true),
        ("#! hit 1 Normal 4", true),
        ("#! hit 1 Normal 3", false),
        ("#! hit 0 Normal >= 1", true),
        ("#! local 0 Normal 1", true),
        ("#! other 1 Normal 4", true),
        ("#! miss 1 Normal <= 0", true),
        ("#! foreign 0 Normal >= 1", false),
        ("#! interleave 0 Normal 0", true),
        ("#! hit 2 Normal 0", false),
        ("#! allocated 4", true),
        ("#! present 0x80", true),
        ("#! cached >= 125", false),
        ("#! free <= 124", true),
        ("#! free 0 Normal <= 64", true),
        ("#! pcp 0 Normal <= 64", true),
        ("#! pcp 0 Normal 0 <= 64", true),
        ("#! pcp 0 Normal 9 0", false),
        ("#! highatomic 0", true),
        ("#! highatomic 1 Normal >= 1", false),
        ("#! pageblocks Movable >= 20", true),
        ("#! pageblocks Movable 0 Normal 99", false),
        ("#! vmstat pgalloc_normal 8", true),
        ("#! vmstat pgfree 9", false),
        ("#! vmstat compact_stall 0", false),
        ("expect Node 0, zone Normal, boost 0", true),
        ("expect Node 0, zone Normal, boost 1", false),
    ] {
        let scenario: Scenario = format!("{machine}{setup}{line}").parse().unwrap();
        let mut differing = Vec::new();
        let mut see = |line: &Line<'_>| differing.extend(line.differs.map(|_| line.number));
        follow(&scenario, Checks::default(), &mut see).unwrap();
        let expected = if fits { vec![] } else { vec![4] };
        assert_eq!(differing, expected, "{line}");
        let failed = run(&scenario).err().map(|failure| (failure.kind, failure.step, failure.free));
        assert_eq!(failed, (!fits).then_some((Kind::Stated, 4, 124)), "{line}");
    }
}

/// Wrong texts, each after one right line, and their errors.
const WRONG: &[(&str, &str)] = &[
    ("alloc order 0 GFP_KERNEL", "line 2: `alloc` is no operation"),
    ("a1 = free a2", "line 2: `free` is no operation that allocates"),
    ("a1 alloc order 0 GFP_KERNEL", "line 2: `alloc` where `=` should be"),
    ("a1 =", "line 2: the line ends where an operation that allocates should be"),
    ("a1 = alloc 0 GFP_KERNEL", "line 2: `0` where `order` should be"),
    ("a1 = alloc order 256 GFP_KERNEL", "line 2: `256` where an order should be"),
    ("a1 = alloc order -1 GFP_KERNEL", "line 2: `-1` where an order should be"),
    ("a1 = alloc order +1 GFP_KERNEL", "line 2: `+1` where an order should be"),
    ("a1 = alloc order 0", "line 2: the line ends where flags such as GFP_KERNEL should be"),
    ("a1 = alloc order 0 GFP_KERNEL|GFP_MOON", "line 2: `GFP_MOON` is no flag of a request"),
    ("a1 = alloc order 0 GFP_KERNEL on", "line 2: the line ends where a node's number should be"),
    ("a1 = alloc order 0 GFP_KERNEL bind 64", "line 2: `64` where a set of nodes such as 0,3 should be"),
    ("a1 = alloc order 0 GFP_KERNEL below", "line 2: the line ends where a frame number should be"),
    ("a1 = alloc order 0 GFP_KERNEL twice", "line 2: `twice` is too much"),
    ("a1 = bulk 1000001 order 0 GFP_KERNEL", "line 2: `1000001` where at most 1000000 blocks should be"),
    ("a1 = alloc-range 0x10 GFP_KERNEL", "line 2: `0x10` where a range such as 0x10..0x20 should be"),
    ("a1 = alloc-at 0xg order 0 GFP_KERNEL", "line 2: `0xg` where a frame number should be"),
    (
        "a1 = alloc-at 0x10000000000000000 order 0 GFP_KERNEL",
        "line 2: `0x10000000000000000` where a frame number should be",
    ),
    ("free 0x10", "line 2: `0x10` where a handle such as a3 should be"),
    ("free a", "line 2: `a` where a handle such as a3 should be"),
    ("free a99999999999", "line 2: `a99999999999` where a handle such as a3 should be"),
    ("free a1 a2", "line 2: `a2` is too much"),
    ("raw-free a1+x order 0", "line 2: `a1+x` where a frame (0x400) or a place in a handle (a3+1) should be"),
    ("raw-free 0x1+1 order 0", "line 2: `0x1+1` where a frame (0x400) or a place in a handle (a3+1) should be"),
    ("drain", "line 2: the line ends where `cpu` should be"),
    ("run-on 65536", "line 2: `65536` where a CPU's number should be"),
    ("type 0x0 Solid", "line 2: `Solid` where a type such as Movable should be"),
    ("count zone 0 Normal 1 by", "line 2: the line ends where a change should be"),
    ("count node 0 1 by +1", "line 2: `+1` where a change should be"),
    ("count frame 0 1 by 1", "line 2: `frame` where `node` should be"),
    ("node-counters 5", "line 2: 5 counters are more than 4"),
    ("fault Everything 1", "line 2: `Everything` is no fault point"),
    ("on-reclaim sleep", "line 2: reclaim cannot `sleep`"),
    ("on-migrate fly", "line 2: migration cannot `fly`"),
    ("expect Node 0, zone Low, type Movable 1", "line 2: `Low` where a zone (DMA, DMA32, Normal, Movable) should be"),
    ("expect Node 64, zone DMA, type Movable 1", "line 2: node 64 is above the largest, 63"),
    (
        "expect Node 0, zone DMA, type CMA 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20",
        "line 2: a row has at most 19 columns",
    ),
    ("expect pageblock 0x0 Movable 1", "line 2: `1` is too much"),
    ("memory 0x10..0x20", "line 2: the line ends where `node` should be"),
    ("memory 0x10..0x20 node 64", "line 2: node 64 is above the largest, 63"),
    ("pcp 0 Normal 1", "line 2: the line ends where a number of frames should be"),
    ("cpus 0 300", "line 2: `300` where a node's number should be"),
    ("mechanisms speed=9", "line 2: `speed=9` is no mechanism"),
    ("free a1 ->", "line 2: the line ends where an outcome should be"),
    ("free a1 -> servd", "line 2: `servd` is no outcome"),
    ("free a1 -> >=", "line 2: `` where a number should be"),
    ("free a1 -> <=x", "line 2: `x` where a number should be"),
    (
        "#! hits 0 Normal 2",
        "line 2: `hits` is nothing to assert; there are hit, miss, foreign, interleave, local, other, free, pcp, \
         highatomic, pageblocks, vmstat, present, allocated, cached, isolated, in-flight, quarantined, offline",
    ),
    ("#!", "line 2: the line ends where what is asserted should be"),
    ("#! hit", "line 2: the line ends where a node's number should be"),
    ("#! hit 0 Normal", "line 2: the line ends where a zone should be"),
    ("#! highatomic", "line 2: the line ends where a number should be"),
    ("#! highatomic <=", "line 2: the line ends where a number should be"),
    ("#! highatomic < 3", "line 2: `<` where a node's number should be"),
    ("#! highatomic<=many", "line 2: `many` where a number should be"),
    ("#! vmstat pgmoon 3", "line 2: `pgmoon` is no event of vmstat"),
    ("#! pageblocks Solid 3", "line 2: `Solid` where a type such as Movable should be"),
    ("#! hit 0 Normal 2 -> ok", "line 2: `2 ->` is too much"),
    ("#! cached 0 Normal 3", "line 2: `0 Normal` is too much"),
    ("#! cached 1\nmax-order 3", "line 3: the machine must be described before the first operation"),
    ("validate\nmax-order 3", "line 3: the machine must be described before the first operation"),
    ("a1 = alloc order 0 GFP_KERNEL\nfree a1\na1 = alloc order 1 GFP_KERNEL", "line 4: a1 has a meaning since line 2"),
];

#[test]
fn what_is_wrong_is_named() {
    for (text, expected) in WRONG {
        let result: Result<Scenario, _> = format!("memory 0x0..0x10 node 0\n{text}").parse();
        assert_eq!(result.map_err(|error| error.to_string()), Err((*expected).to_owned()), "{text}");
    }
    let nothing: Result<Scenario, _> = "cpus 0\n".parse();
    let error = nothing.unwrap_err().to_string();
    assert_eq!(error, "line 1: the text ends and no line describes `memory`");
}

#[test]
fn a_failure_names_the_operation_and_shows_the_case() {
    let text = "max-order 3\npageblock-order 2\nmemory 0x0..0x10 node 0\na1 = alloc order 0 GFP_KERNEL\nfree a1 -> 0x7";
    let failure = run(&text.parse().unwrap()).unwrap_err();
    insta::assert_snapshot!(failure, @r"
    operation 2, `free a1 -> 0x7`: the outcome is: ok
    --- the case, to be saved as a .ops file ---
    max-order 3
    pageblock-order 2
    memory 0x0..0x10 node 0
    cpus 0
    a1 = alloc order 0 GFP_KERNEL
    free a1 -> 0x7
    ");
    let text = "max-order 3\npageblock-order 4\nmemory 0x0..0x10 node 0\nvalidate";
    let failure = run(&text.parse().unwrap()).unwrap_err().to_string();
    let first = failure.lines().next();
    assert_eq!(first, Some("booting: page size, largest order and pageblock order do not fit together"));
}

/// Whether a scenario still has what the test below takes for a bug: a split of what was allocated in bulk.
fn fails(scenario: &Scenario) -> bool {
    run(scenario).is_ok_and(|report| {
        scenario.steps.iter().zip(report.outcomes).any(|(step, outcome)| match (&step.op, outcome) {
            (Op::Split { handle, .. }, Outcome::Blocks(_)) => {
                scenario.steps.iter().any(|step| matches!(step.op, Op::Bulk { name, .. } if name == *handle))
            }
            _ => false,
        })
    })
}

#[test]
fn failing_scenarios_become_small() {
    let seed = (0..).find(|&seed| fails(&generate::scenario(seed))).unwrap();
    let small = shrink::shrink(generate::scenario(seed), 4_000, fails);
    assert!(fails(&small));
    assert_eq!(small.steps.len(), 2, "{small}");
    assert_eq!(small.shape.regions.len(), 1, "{small}");
    assert_eq!(small.shape.cpus, [NodeId(0)], "{small}");
}
