//! Every system call of an arena is made to fail once, and the process' map is as before.
//!
//! One test alone, because it compares the map of the whole process.

use framewright::request::GFP_USER;
use framewright::{NodeId, NodeSet, Order, Request};
use framewright_rt::os::{Call, Faults};
use framewright_rt::{Arena, ArenaBuilder, ArenaError, Backing, HugePage, Outcome, Placement, Transparent};

use crate::alone::is_alone;
use crate::limits;

/// The mappings of the process, neighbours joined.
///
/// Without the C library's heap, which changes only its protection when it grows.
fn map() -> Vec<(usize, usize)> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for line in maps.lines().filter(|line| !line.ends_with("[heap]")) {
        let (start, end) = line.split_once(' ').and_then(|(range, _)| range.split_once('-')).unwrap();
        let [start, end] = [start, end].map(|text| usize::from_str_radix(text, 16).unwrap());
        match spans.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => spans.push((start, end)),
        }
    }
    spans
}

/// Builds, uses and drops an arena with every option, so that every call is made.
fn build(backing: Backing, strict: bool) -> Result<Arena, ArenaError> {
    let node = || NodeSet::only(NodeId(0));
    let nodes: ArenaBuilder = Arena::builder()
        .without_background()
        .node(4 << 20, Placement::Bind(node()))
        .node(4 << 20, Placement::Interleave(node()))
        .node(4 << 20, Placement::Prefer(NodeId(0)))
        .node(4 << 20, Placement::Anywhere);
    let transparent = if matches!(backing, Backing::Hugetlb(_)) { Transparent::System } else { Transparent::Always };
    nodes.backing(backing).transparent(transparent).populate(true).strict(strict).build()
}

/// Which call the error names.
fn call_of(error: &ArenaError) -> Option<Call> {
    match error {
        ArenaError::Os(error) | ArenaError::Placement { error, .. } => Some(error.call),
        ArenaError::HugePoolEmpty { .. } => Some(Call::Mmap),
        _ => None,
    }
}

/// Fails the `k`-th call; returns the result.
fn attempt(backing: Backing, strict: bool, k: u64, errno: i32) -> (Result<String, ArenaError>, bool) {
    let faults = Faults::nth(k, errno);
    let result = build(backing, strict).map(|arena| {
        let page = arena.alloc(&Request::page(GFP_USER)).unwrap();
        assert!(page.iter().all(|&byte| byte == 0));
        drop(page);
        arena.validate().unwrap();
        let _ = arena.trim(Order(0));
        arena.validate().unwrap();
        arena.report().to_string()
    });
    (result, faults.calls() < k)
}

#[test]
fn nothing_is_left_behind() {
    // Mappings are counted, and huge pages come from a pool.
    let _pool = limits::huge_page_pool();
    if !is_alone(module_path!(), "nothing_is_left_behind") {
        return;
    }
    if let Err(error) = build(Backing::Private, true) {
        println!("SKIPPED: this system refuses something without our help: {error}");
        return;
    }
    let backings = [Backing::Private, Backing::Memfd, Backing::Hugetlb(HugePage::Size2MiB)];
    for backing in backings {
        for (strict, errno) in [(false, libc::ENOMEM), (true, libc::ENOMEM), (false, libc::EPERM), (true, libc::EINVAL)]
        {
            let mut failed = Vec::new();
            for k in 1.. {
                // Once for allocations of the libraries at first use.
                let _ = attempt(backing, strict, k, errno);
                let before = map();
                let (result, over) = attempt(backing, strict, k, errno);
                assert_eq!(before, map(), "{backing}, strict {strict}: call {k} with error {errno}: {result:?}");
                match result {
                    Err(error) => failed.extend(call_of(&error)),
                    Ok(report) if over => {
                        println!("{backing}, strict {strict}, errno {errno}: {} calls; {report}", k - 1);
                        break;
                    }
                    Ok(_) => {}
                }
                if over {
                    // An empty pool of huge pages fails without our help.
                    assert!(matches!(backing, Backing::Hugetlb(_)), "{backing}: {result:?}", result = failed.last());
                    println!("SKIPPED in part: {backing}: {} calls before the pool was found empty", k - 1);
                    break;
                }
            }
            let fails = |call| failed.contains(&call);
            assert!(fails(Call::Mmap) && fails(Call::Munmap), "{backing} {failed:?}");
            if backing == Backing::Memfd {
                assert!(fails(Call::MemfdCreate) && fails(Call::Ftruncate) && fails(Call::AddSeals), "{failed:?}");
            }
            if !matches!(backing, Backing::Hugetlb(_)) {
                assert_eq!(fails(Call::Mbind), strict, "{failed:?}");
                assert!(fails(Call::Madvise) && fails(Call::Mprotect), "{failed:?}");
            }
        }
    }
    refusals();
    discards();
    drops();
}

/// A permanent denial is an error or a note, as the builder says.
fn refusals() {
    for errno in [libc::EPERM, libc::ENOSYS] {
        let faults = Faults::always(Call::Mbind, errno);
        let arena = build(Backing::Private, false).unwrap();
        let [first, second, third, label] = &arena.report().nodes[..] else { panic!("{:?}", arena.report()) };
        for node in [first, second, third] {
            assert!(matches!(node.placed, Outcome::Refused(error) if error.errno == errno), "{node:?}");
        }
        assert_eq!(label.placed, Outcome::NotAsked);
        let error = build(Backing::Private, true).unwrap_err();
        assert!(matches!(error, ArenaError::Placement { node: NodeId(0), error } if error.errno == errno), "{error}");
        assert!(error.to_string().contains("build with best effort"), "{error}");
        drop(faults);
    }
    let _faults = Faults::always(Call::Madvise, libc::EINVAL);
    let arena = build(Backing::Private, false).unwrap();
    assert!(matches!(arena.report().transparent, Outcome::Refused(_)));
    assert!(matches!(arena.report().populated, Outcome::Refused(_)));
}

/// A refused discard leaves the block as it was, and a refused trim leaves every block free.
fn discards() {
    for backing in [Backing::Private, Backing::Memfd] {
        let arena = Arena::builder().without_background().size(16 << 20).backing(backing).build().unwrap();
        let mut page = arena.alloc(&Request::page(GFP_USER)).unwrap();
        page.fill(7);
        let faults = Faults::always(Call::Madvise, libc::ENOMEM);
        assert!(matches!(page.discard(), Err(ArenaError::Os(error)) if error.call == Call::Madvise));
        assert!(matches!(arena.trim(Order(9)), Err(ArenaError::Os(_))));
        drop(faults);
        assert!(page.iter().all(|&byte| byte == 7));
        page.discard().unwrap();
        assert!(page.iter().all(|&byte| byte == 0));
        drop(page);
        let census = arena.validate().unwrap();
        assert_eq!((census.allocated, arena.refused_frees()), (0, 0));
    }
}

/// An unmapping that is refused is tried again.
fn drops() {
    let before = map();
    let arena = build(Backing::Private, false).unwrap();
    for k in 1..=2 {
        let arena = build(Backing::Memfd, false).unwrap();
        let faults = Faults::nth_of(Call::Munmap, k, libc::ENOMEM);
        drop(arena);
        drop(faults);
    }
    drop(arena);
    assert_eq!(before, map());
}
