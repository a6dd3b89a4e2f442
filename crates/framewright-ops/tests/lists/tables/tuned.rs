//! Per-CPU lists whose sizes follow their use.

use std::fmt::Write;

use framewright::Layout;
use framewright_ops::Scenario;
use framewright_ops::session::with_session;

use super::{Case, check};

/// Zone Normal of 1024 frames, an eighth of which one CPU may have on its lists; a batch of 4, and a high of 12 to
/// begin with. The zone's high mark is what is said.
macro_rules! lists {
    ($high:literal) => {
        concat!(
            "max-order 4\npageblock-order 4\nmemory 0x0..0x400 node 0\ncpus 0\ndma-end 0x0\ndma32-end 0x0\n\
             marks 0 Normal 0 0 ",
            $high,
            "\npcp 0 Normal 4 12\nmechanisms pcp-size=tuned\n"
        )
    };
}

/// Sixteen pages, taken past the lists.
const PAGES: &str = "a1 = alloc-at 0x0 order 4 GFP_HIGHUSER_MOVABLE\nsplit a1 order 0";
/// All pages of a block of sixteen.
macro_rules! free_sixteen {
    () => {
        "raw-free 0x0 order 0\nraw-free 0x1 order 0\nraw-free 0x2 order 0\nraw-free 0x3 order 0\n\
         raw-free 0x4 order 0\nraw-free 0x5 order 0\nraw-free 0x6 order 0\nraw-free 0x7 order 0\n\
         raw-free 0x8 order 0\nraw-free 0x9 order 0\nraw-free 0xa order 0\n\
         expect Node 0, zone Normal, cpu 0 count 11\nraw-free 0xb order 0\n\
         expect Node 0, zone Normal, cpu 0 count 4\n\
         raw-free 0xc order 0\nraw-free 0xd order 0\nraw-free 0xe order 0\nraw-free 0xf order 0\n"
    };
}

const SIZES: &[Case] = &[
    Case {
        name: "refills double as long as nothing is freed",
        machine: lists!(0),
        setup: "",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 64",
        ops: "a1 = alloc order 0 GFP_HIGHUSER_MOVABLE\nexpect Node 0, zone Normal, cpu 0 count 3\n\
              a2 = bulk 3 order 0 GFP_HIGHUSER_MOVABLE\na3 = alloc order 0 GFP_HIGHUSER_MOVABLE\n\
              expect Node 0, zone Normal, cpu 0 count 7\n\
              a4 = bulk 7 order 0 GFP_HIGHUSER_MOVABLE\na5 = alloc order 0 GFP_HIGHUSER_MOVABLE",
        after: "Node 0, zone Normal, type Movable 0 0 1 0 62\nNode 0, zone Normal, cpu 0 count 15",
    },
    Case {
        name: "a free halves what was doubled",
        machine: lists!(0),
        setup: "a1 = bulk 4 order 0 GFP_HIGHUSER_MOVABLE\na2 = alloc order 0 GFP_HIGHUSER_MOVABLE",
        before: "Node 0, zone Normal, type Movable 0 0 1 0 63\nNode 0, zone Normal, cpu 0 count 7",
        ops: "free a2\na3 = bulk 8 order 0 GFP_HIGHUSER_MOVABLE\nexpect Node 0, zone Normal, cpu 0 count 0\n\
              a4 = alloc order 0 GFP_HIGHUSER_MOVABLE",
        after: "Node 0, zone Normal, type Movable 0 0 1 1 62\nNode 0, zone Normal, cpu 0 count 7",
    },
    Case {
        name: "larger blocks come a batch at a time",
        machine: lists!(0),
        setup: "",
        before: "Node 0, zone Normal, type Movable 0 0 0 0 64",
        ops: "a1 = bulk 2 order 1 GFP_HIGHUSER_MOVABLE\na2 = bulk 2 order 1 GFP_HIGHUSER_MOVABLE\n\
              a3 = alloc order 1 GFP_HIGHUSER_MOVABLE",
        after: "Node 0, zone Normal, type Movable 0 0 1 0 63\nNode 0, zone Normal, cpu 0 count 2",
    },
    Case {
        name: "at high as much goes back as was freed in a row, but for a batch, and high grows by that",
        machine: lists!(0),
        setup: PAGES,
        before: "Node 0, zone Normal, type Movable 0 0 0 0 63",
        ops: concat!(
            free_sixteen!(),
            // Up to 16 there may be now, less one.
            "a2 = alloc-at 0x10 order 4 GFP_HIGHUSER_MOVABLE\nsplit a2 order 0\n\
             raw-free 0x10 order 0\nraw-free 0x11 order 0\nraw-free 0x12 order 0\nraw-free 0x13 order 0\n\
             raw-free 0x14 order 0\nraw-free 0x15 order 0\nraw-free 0x16 order 0\n\
             expect Node 0, zone Normal, cpu 0 count 15\nraw-free 0x17 order 0"
        ),
        after: "Node 0, zone Normal, type Movable 0 0 1 0 63\nNode 0, zone Normal, cpu 0 count 4",
    },
    Case {
        name: "in a zone below its high mark lists stay as they began",
        machine: lists!(2000),
        setup: PAGES,
        before: "Node 0, zone Normal, type Movable 0 0 0 0 63",
        ops: concat!(
            free_sixteen!(),
            "a2 = alloc-at 0x10 order 4 GFP_HIGHUSER_MOVABLE\nsplit a2 order 0\n\
             raw-free 0x10 order 0\nraw-free 0x11 order 0\nraw-free 0x12 order 0\n\
             expect Node 0, zone Normal, cpu 0 count 11\nraw-free 0x13 order 0"
        ),
        after: "Node 0, zone Normal, type Movable 0 0 0 0 63\nNode 0, zone Normal, cpu 0 count 4",
    },
];

#[test]
fn sizes_follow_the_use() {
    check(SIZES);
}

/// Frames on the lists of CPU 0.
fn count(rows: &[framewright_ops::Row]) -> u64 {
    let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
    let line = text.lines().find(|line| line.contains("cpu 0 count"));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

/// 95 pages are freed in a row, so that lists may have up to 51; then one page comes and goes.
#[test]
fn sizes_decay() {
    let mut list = lists!(0).to_owned();
    for (name, block) in (1..).zip((0..0x60).step_by(0x10)) {
        writeln!(list, "a{name} = alloc-at {block:#x} order 4 GFP_HIGHUSER_MOVABLE\nsplit a{name} order 0").unwrap();
    }
    (0..95).for_each(|page| writeln!(list, "raw-free {page:#x} order 0").unwrap());
    let grown = list.parse::<Scenario>().unwrap();
    let pair = format!("{}\na7 = alloc order 0 GFP_HIGHUSER_MOVABLE\nfree a7", lists!(0)).parse::<Scenario>().unwrap();
    let counts = with_session(&grown.shape, |session| {
        grown.steps.iter().for_each(|step| _ = session.perform(&step.op).unwrap());
        let mut counts = vec![count(&session.rows())];
        for _ in 0..3 {
            for _ in 0..1 << 14 {
                pair.steps.iter().for_each(|step| _ = session.perform(&step.op).unwrap());
            }
            counts.push(count(&session.rows()));
        }
        session.check().unwrap();
        session.give_everything_back().map(drop).unwrap();
        Ok(counts)
    });
    // 52 less an eighth is 46, of which a batch goes as soon as it is reached again.
    assert_eq!(counts, Ok(vec![51, 43, 38, 33]));
}

#[test]
fn a_depot_has_a_size_of_its_own() {
    let machine = lists!(0).replace("pcp-size=tuned", "pcp-size=tuned,depot=all");
    let error = Layout::of(&machine.parse::<Scenario>().unwrap().shape.config()).unwrap_err().to_string();
    assert!(
        error.contains("pcp-size=tuned sizes the lists that go back to the zone, so it must be depot=off"),
        "{error}"
    );
}
