//! Numbers of the caller's that are larger than any machine. An error says so, or the call does as much as there is.
//! Nothing is reserved by such a number first.

use framewright::request::GFP_USER;
use framewright::watermark::PcpSize;
use framewright::{BootError, Config, FrameState, Layout, NodeId, Pfn, PfnRange, Region, Request};
use framewright_rt::{Arena, ArenaBuilder, ArenaError, CpuMode, Placement, Solo, Storage};

const FRAMES: usize = 4096;

fn builder() -> ArenaBuilder {
    Arena::builder().size((FRAMES as u64) << 12).without_background()
}

#[test]
fn a_bulk_request_of_any_count_gets_what_there_is() {
    for count in [FRAMES + 1, 1 << 33, 1 << 40, isize::MAX as usize, usize::MAX] {
        let arena = builder().build().unwrap();
        let mut out = Vec::new();
        let served = arena.alloc_bulk(&Request::page(GFP_USER), count, &mut out).unwrap();
        assert_eq!((served, out.len()), (FRAMES, FRAMES), "{count}");
        arena.alloc_bulk(&Request::page(GFP_USER), count, &mut out).unwrap_err();
        assert_eq!(out.len(), FRAMES);
        drop(out);
        assert_eq!(arena.validate().unwrap().allocated, 0);
    }
}

#[test]
fn as_many_cpus_as_can_be_numbered_and_no_more() {
    let build = |builder: ArenaBuilder| builder.build().map(|arena| arena.report().cpus);
    for cpus in [0, 65_536, 1 << 40, usize::MAX] {
        let refused = Err(ArenaError::Boot(BootError::BadCpus));
        assert_eq!(build(builder().cpus(cpus)), refused, "{cpus}");
        assert_eq!(build(builder().cpus(cpus).interrupts(true)), refused, "{cpus}");
    }
    assert_eq!(build(builder().cpus(40_000).interrupts(true)), Err(ArenaError::Boot(BootError::BadCpus)));
    assert_eq!(build(builder().cpus(4_000)), Ok(4_000));
    // Not used where CPUs follow the processors.
    let _: Result<_, _> = build(builder().cpus(usize::MAX).cpu_mode(CpuMode::PerCpu));
}

/// Tries each option by itself: an arena that is built works, and the others are refused.
#[test]
fn no_option_of_an_arena_panics() {
    let most = u64::MAX;
    let options: [(&str, ArenaBuilder); 11] = [
        ("size", Arena::builder().size(most)),
        ("size in pages", Arena::builder().size(most << 12)),
        ("nodes", (0..300).fold(Arena::builder(), |builder, _| builder.node(4 << 20, Placement::Anywhere))),
        ("page", builder().page(1 << 63)),
        ("first frame", builder().first_pfn(1 << 63)),
        ("largest order", builder().max_order(u8::MAX)),
        ("movable", builder().movable(most << 12)),
        ("marks", builder().min_free(most)),
        ("lists", builder().pcp(PcpSize { batch: u32::MAX, high: u32::MAX })),
        ("two nodes", Arena::builder().node(1 << 62, Placement::Anywhere).node(1 << 62, Placement::Anywhere)),
        ("interval", builder().background(std::time::Duration::MAX)),
    ];
    for (name, builder) in options {
        match builder.build() {
            Ok(arena) => {
                let _page = arena.alloc(&Request::page(GFP_USER));
                arena.validate().unwrap_or_else(|violation| panic!("{name}: {violation}"));
            }
            Err(error) => assert!(!error.to_string().is_empty(), "{name}"),
        }
    }
}

/// The kernel may refuse so much address space; nothing else may fail.
#[test]
fn arenas_up_to_16_tib_serve_pages() {
    for (size, cpus) in [(1 << 40, 256), (1 << 44, 256)] {
        match Arena::builder().size(size).cpus(cpus).without_background().build() {
            Ok(arena) => {
                let report = arena.report();
                let block = arena.alloc(&Request::new(GFP_USER, 10)).unwrap();
                assert_eq!((report.bytes, report.cpus), (size, cpus));
                drop(block);
                // SAFETY: nothing is freed that was not allocated here.
                let allocator = unsafe { arena.allocator() };
                let end = report.nodes[0].range.end.0;
                let near_end = PfnRange::new(end - (1 << 18) - 5_000, end - (1 << 18));
                allocator.alloc_range(near_end, GFP_USER).unwrap();
                assert!(matches!(allocator.state_of(near_end.start), FrameState::Allocated(..)));
                allocator.free_range(near_end).unwrap();
                // Of exactly 16 TiB, the last largest block, here of 1 GiB, has no descriptors.
                let is_used = !matches!(allocator.state_of(Pfn(end - 1)), FrameState::Hole);
                assert_eq!(is_used, size < 1 << 44);
            }
            Err(ArenaError::Os(error)) => println!("{error}"),
            Err(error) => panic!("{size}: {error}"),
        }
    }
}

/// The descriptors of more memory than there is are an error, or a panic with a reason, and not the end of the process.
#[test]
fn descriptors_that_there_is_no_memory_for_are_refused() {
    let map = [Region::usable(0, 1 << 20, 0)];
    let nodes = [NodeId(0)];
    let layout = Layout::of(&Config::new(&map, &nodes)).unwrap();
    let larger = Layout { frames: usize::MAX / 32, ..layout };
    assert!(Storage::<Solo<'_>>::try_new(&larger).is_err());
}
