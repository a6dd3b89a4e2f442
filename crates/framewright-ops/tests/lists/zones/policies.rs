//! Node policies count only nodes that have memory in a zone that the request may use.

use framewright::mechanisms::Nofragment;
use framewright::request::GFP_HIGHUSER_MOVABLE;
use framewright::{Gfp, NodeId, NodeSet, Order, Policy};
use framewright_ops::memory::Use;
use framewright_ops::op::{Handle, Op, Terms};
use framewright_ops::rng::Rng;
use framewright_ops::session::with_session;
use framewright_ops::{Scenario, machines};

use super::play_all;

/// Eight nodes with CPUs, two of them with memory.
const EIGHT: &str = "max-order 6\npageblock-order 4\nmemory 0x0..0x400 node 0\nmemory 0x400..0x800 node 7\n\
                     cpus 0 1 2 3 4 5 6 7\ndma-end 0x0\ndma32-end 0x0\nmechanisms default\n";
/// Node 0 has every kind of zone, node 1 Normal and Movable, node 2 Movable alone, node 3 a CPU.
const KINDS: &str = "max-order 6\npageblock-order 4\nmemory 0x0..0x400 node 0\nmemory 0x400..0x800 node 1\n\
                     memory 0x800..0xc00 node 2\ncpus 0 1 2 3\ndma-end 0x100\ndma32-end 0x200\n\
                     movable 0x300..0x400\nmovable 0x700..0xc00\nmechanisms default\n\
                     distances 10 20 30 40 20 10 20 30 30 20 10 20 40 30 20 10\n";

const TURNS: &[(&str, &str, &str)] = &[
    (
        "two of eight",
        EIGHT,
        "a1 = bulk 400 order 0 GFP_HIGHUSER_MOVABLE interleave all\n\
          #! hit 0 Normal 200\n#! hit 7 Normal 200\n#! interleave 0 Normal 200\n#! interleave 7 Normal 200",
    ),
    (
        "from a CPU without memory",
        EIGHT,
        "run-on 3\na1 = bulk 400 order 0 GFP_KERNEL interleave all\n\
          #! hit 0 Normal 200\n#! hit 7 Normal 200\n#! interleave 7 Normal 200",
    ),
    (
        "a set of which one has memory",
        EIGHT,
        "a1 = bulk 40 order 0 GFP_KERNEL interleave 3,4,7\n\
          #! hit 0 Normal 0\n#! hit 7 Normal 40\n#! interleave 7 Normal 40",
    ),
    (
        "a set of which none has: the caller's node, and no turn",
        EIGHT,
        "run-on 7\n\
          a1 = bulk 40 order 0 GFP_KERNEL interleave 3,4\n#! hit 0 Normal 0\n#! hit 7 Normal 40\n\
          #! interleave 7 Normal 0",
    ),
    (
        "several frames at a time",
        EIGHT,
        "a1 = bulk 40 order 3 GFP_KERNEL interleave all\n\
          #! hit 0 Normal 20\n#! hit 7 Normal 20",
    ),
    (
        "one by one",
        EIGHT,
        "a1 = alloc order 0 GFP_KERNEL interleave all\n\
          a2 = alloc order 0 GFP_KERNEL interleave all\na3 = alloc order 0 GFP_KERNEL interleave all\n\
          #! hit 0 Normal 2\n#! hit 7 Normal 1",
    ),
    (
        "this node alone",
        EIGHT,
        "a1 = bulk 40 order 0 GFP_KERNEL|__GFP_THISNODE interleave all\n\
          #! hit 0 Normal 20\n#! hit 7 Normal 20",
    ),
    (
        "zones that the flags exclude do not count: Movable",
        KINDS,
        "\
          a1 = bulk 40 order 0 GFP_KERNEL interleave all\n#! interleave 0 Normal 20\n#! interleave 1 Normal 20\n\
          a2 = bulk 30 order 0 GFP_HIGHUSER_MOVABLE interleave all\n#! interleave 2 Movable 10",
    ),
    (
        "zones that the flags exclude do not count: all but DMA",
        KINDS,
        "\
          a1 = bulk 40 order 0 GFP_KERNEL|GFP_DMA interleave all\n#! interleave 0 DMA 40\n\
          a2 = bulk 40 order 0 GFP_KERNEL|GFP_DMA32 interleave 1,2,3\n#! interleave 0 DMA32 0\n#! hit 0 DMA32 40",
    ),
    (
        "memory above the address limit does not count",
        EIGHT,
        "\
          a1 = bulk 40 order 0 GFP_KERNEL interleave all below 0x400\n#! interleave 0 Normal 40\n\
          #! hit 7 Normal 0",
    ),
    (
        "a zone that the limit runs through counts",
        EIGHT,
        "\
          a1 = bulk 40 order 0 GFP_KERNEL interleave all below 0x600\n#! interleave 0 Normal 20\n\
          #! interleave 7 Normal 20",
    ),
    (
        "nor does memory that is offline",
        EIGHT,
        "take-offline 0x400..0x800 -> ok\n\
          a1 = bulk 40 order 0 GFP_KERNEL interleave all\n#! interleave 0 Normal 40\nbring-online 0x500..0x600\n\
          a2 = bulk 40 order 0 GFP_KERNEL interleave all\n#! interleave 0 Normal 60\n#! interleave 7 Normal 20",
    ),
    (
        "nor does memory that is reserved",
        "max-order 6\npageblock-order 4\nmemory 0x0..0x400 node 0\n\
          reserved 0x400..0x800 node 1\nmemory 0x800..0xc00 node 2\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n",
        "\
          a1 = bulk 40 order 0 GFP_KERNEL interleave all\n#! interleave 0 Normal 20\n#! interleave 2 Normal 20",
    ),
    (
        "a node that is full keeps its turn, which others serve",
        EIGHT,
        "\
          a1 = alloc-range 0x400..0x800 GFP_KERNEL\na2 = bulk 40 order 0 GFP_KERNEL interleave all\n\
          #! hit 0 Normal 20\n#! interleave 0 Normal 20\n#! interleave 7 Normal 0",
    ),
];

#[test]
fn turns_go_round_the_nodes_that_have_memory() {
    play_all(TURNS.iter().map(|(name, machine, ops)| (*name, format!("{machine}{ops}"))));
}

const STRICT: &[(&str, &str, &str)] = &[
    (
        "bound and strict: the nearest with memory",
        EIGHT,
        "run-on 3\n\
          a1 = alloc order 0 GFP_KERNEL|__GFP_THISNODE bind 3,7 -> served\n#! hit 7 Normal 1",
    ),
    (
        "bound and strict: the nearest with DMA",
        KINDS,
        "run-on 3\n\
          a1 = alloc order 0 GFP_KERNEL|GFP_DMA|__GFP_THISNODE bind all -> served\n#! hit 0 DMA 1",
    ),
    (
        "bound and strict: not where only Movable is",
        KINDS,
        "run-on 3\n\
          a1 = alloc order 0 GFP_KERNEL|__GFP_THISNODE bind 0,1,2 -> served\n#! hit 1 Normal 1",
    ),
    (
        "bound and strict: not where all is offline",
        KINDS,
        "take-offline 0x400..0x700 -> ok\nrun-on 3\n\
          a1 = alloc order 0 GFP_KERNEL|__GFP_THISNODE bind 0,1 -> served\n#! hit 0 Normal 1",
    ),
    (
        "bound and strict: below a limit",
        KINDS,
        "run-on 3\n\
          a1 = alloc order 0 GFP_HIGHUSER_MOVABLE|__GFP_THISNODE bind all below 0x400 -> served\n\
          #! hit 0 Movable 1",
    ),
    (
        "bound to nodes without memory",
        EIGHT,
        "\
          a1 = alloc order 0 GFP_KERNEL bind 3,4 -> no zone with memory satisfies the request\n\
          a2 = alloc order 0 GFP_KERNEL|__GFP_THISNODE bind 3,4 -> no zone with memory satisfies the request",
    ),
    (
        "a preferred node without memory: the next, which was meant",
        KINDS,
        "\
          a1 = alloc order 0 GFP_KERNEL on 3 -> served\n#! hit 1 Normal 1\n\
          a2 = alloc order 0 GFP_KERNEL|__GFP_THISNODE on 3 -> no zone with memory satisfies the request",
    ),
    (
        "a preferred node that is all offline: the next, which was meant",
        EIGHT,
        "\
          take-offline 0x400..0x800 -> ok\na1 = alloc order 0 GFP_KERNEL on 7 -> served\n#! hit 0 Normal 1",
    ),
];

#[test]
fn strict_requests_choose_among_the_nodes_that_could_serve_them() {
    play_all(STRICT.iter().map(|(name, machine, ops)| (*name, format!("{machine}{ops}"))));
}

/// On any machine, with any set and flags: while there is room, each node with memory of a usable kind has its turn, no
/// other has one, and the counters say so. (The oracle compares node by node; this counts.)
#[test]
fn turns_are_even_on_any_machine() {
    let mut shown = 0;
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let shape = machines::any(&mut rng);
        let nodes = NodeSet(if rng.one_in(3) { u64::MAX } else { rng.below(256) });
        let gfp = *rng.pick(&[
            GFP_HIGHUSER_MOVABLE,
            framewright::request::GFP_KERNEL,
            Gfp(framewright::request::GFP_KERNEL.0 | 4),
        ]);
        let terms = Terms { gfp, policy: Policy::Interleave(nodes), below: None };
        let scenario = Scenario::new(shape, []);
        with_session(&scenario.shape, |session| {
            let ops = (1..=24).map(|name| Op::Alloc { name: Handle(name), order: Order(0), terms });
            for op in ops {
                session.perform(&op).map_err(|wrong| format!("seed {seed}: {op}: {wrong}"))?;
            }
            let oracle = session.oracle();
            let memory = oracle.memory();
            let mut by_node = [0_i64; NodeId::LIMIT];
            let mut room = [0_u64; NodeId::LIMIT];
            for (_, known) in memory.all().filter(|(_, known)| known.zone.kind() <= gfp.highest_zone()) {
                let node = known.zone.node().index();
                room[node] += u64::from(!matches!(known.used, Use::Withheld { .. }));
                by_node[node] += i64::from(matches!(known.used, Use::Held { .. }));
            }
            let turns = (0..NodeId::LIMIT).filter(|&node| room[node] != 0 && nodes.contains(NodeId(node as u8)));
            let counts: Vec<i64> = turns.clone().map(|node| by_node[node]).collect();
            // Marks and reserves of a small node may send its turn elsewhere, and so may mobilities that are kept apart
            // by force.
            let mixes = scenario.shape.mechanisms.nofragment != Nofragment::Enforced;
            if mixes && counts.len() > 1 && turns.clone().all(|node| room[node] > 160) {
                let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
                assert!(most - least <= 1, "seed {seed}: {counts:?} of {nodes:?} with {gfp}\n{}", scenario.shape);
                shown += 1;
            }
            session.check_frames()
        })
        .unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
    assert!(shown >= 5, "only {shown} machines showed anything");
}
