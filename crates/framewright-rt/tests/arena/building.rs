//! Arenas as a program uses them: descriptions that make no sense, nodes, zones, memory of all kinds.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;

use framewright::report::Source;
use framewright::request::{__GFP_THISNODE, __GFP_ZERO, GFP_HIGHUSER_MOVABLE, GFP_USER};
use framewright::{BootError, CpuId, NodeId, NodeSet, Order, Pfn, PfnRange, Policy, Request, ZoneIdx, ZoneKind};
use framewright_rt::os::OsError;
use framewright_rt::{Arena, ArenaBuilder, ArenaError, Backing, CpuMode, HugePage, Outcome, Placement, Transparent};

const MIB: u64 = 1 << 20;

fn builder() -> ArenaBuilder {
    Arena::builder().without_background()
}

#[test]
fn descriptions_that_make_no_sense_are_named() {
    let anywhere = Placement::Anywhere;
    let huge = Backing::Hugetlb(HugePage::Size2MiB);
    let cases: Vec<(ArenaBuilder, ArenaError)> = vec![
        (builder(), ArenaError::Empty),
        (builder().size(0), ArenaError::Empty),
        (builder().node(MIB * 2, anywhere).node(0, anywhere), ArenaError::Empty),
        (builder().size(4095), ArenaError::Empty),
        (builder().size(4097), ArenaError::BadSize { bytes: 4097, multiple: 4096 }),
        (builder().size(MIB).node(MIB, anywhere), ArenaError::BadSize { bytes: MIB, multiple: 2 * MIB }),
        (builder().size(4 * MIB).movable(4097), ArenaError::BadSize { bytes: 4097, multiple: 4096 }),
        (builder().size(3 * MIB).backing(huge), ArenaError::BadSize { bytes: 3 * MIB, multiple: 2 * MIB }),
        (builder().size(1 << 63), ArenaError::TooLarge { bytes: 1 << 63, max: i64::MAX as u64 }),
        (
            builder().node(1 << 62, anywhere).node(1 << 62, anywhere),
            ArenaError::TooLarge { bytes: 1 << 63, max: i64::MAX as u64 },
        ),
        (builder().size(1 << 50), ArenaError::Boot(BootError::TooManyFrames { frames: 1 << 38 })),
        (builder().size(MIB).page(2048), ArenaError::BadPage { bytes: 2048 }),
        (builder().size(MIB).page(5000), ArenaError::BadPage { bytes: 5000 }),
        (builder().size(4 * MIB).page(4 * MIB).backing(huge), ArenaError::BadPage { bytes: 4 * MIB }),
        (builder().size(2 * MIB).first_pfn(100), ArenaError::BadFirstFrame { pfn: 100, multiple: 512 }),
        (builder().size(MIB).max_order(30), ArenaError::BadMaxOrder { order: Order(30), max: Order(18) }),
        (builder().size(MIB).cpus(0), ArenaError::Boot(BootError::BadCpus)),
    ];
    for (builder, expected) in cases {
        let description = format!("{builder:?}");
        assert_eq!(builder.build().map(drop), Err(expected), "{description}");
        assert!(!expected.to_string().is_empty());
    }
    let many = (0..65).fold(builder(), |builder, _| builder.node(2 * MIB, anywhere));
    assert_eq!(many.build().map(drop), Err(ArenaError::Boot(BootError::BadNode(NodeId(64)))));
}

#[test]
fn all_of_a_small_arena_can_be_had() {
    for pages in [1_u64, 2, 3, 511, 512, 513, 1000, 4096] {
        let arena = builder().size(pages * 4096).build().unwrap();
        let mut held = Vec::new();
        while let Ok(page) = arena.alloc(&Request::page(GFP_USER)) {
            held.push(page);
        }
        assert_eq!(held.len() as u64, pages);
        assert_eq!(arena.validate().unwrap().allocated, pages);
        drop(held);
        assert_eq!((arena.validate().unwrap().allocated, arena.refused_frees()), (0, 0));
    }
}

#[test]
fn the_largest_block_is_that_of_the_largest_node() {
    for (size, order) in [(4096, 9), (2 * MIB, 9), (5 * MIB, 10), (64 * MIB, 14), (3 << 30, 18), (5 << 30, 18)] {
        assert_eq!(builder().size(size).build().unwrap().report().max_order, Order(order), "{size}");
    }
    let arena = builder().size(64 * MIB).page(65_536).build().unwrap();
    assert_eq!((arena.report().max_order, arena.page_size()), (Order(10), 65_536));
    assert_eq!(arena.alloc(&Request::new(GFP_USER, 1)).unwrap().len(), 131_072);
    let huge = builder().size(64 * MIB).page(2 * MIB).build().unwrap();
    let blocks: Vec<_> = std::iter::from_fn(|| huge.alloc(&Request::page(GFP_USER)).ok()).collect();
    assert_eq!(blocks.len(), 32);
    drop(blocks);
    huge.validate().unwrap();
}

#[test]
fn frames_and_addresses_translate() {
    let arena = builder().size(8 * MIB).first_pfn(1 << 20).build().unwrap();
    let PfnRange { start, end } = arena.frames();
    assert_eq!((start, end), (Pfn(1 << 20), Pfn((1 << 20) + 2048)));
    let base = arena.address(start).unwrap();
    assert_eq!(arena.address(end), None);
    assert_eq!(arena.address(Pfn(0)), None);
    assert_eq!(arena.address(Pfn(u64::MAX)), None);
    for pfn in [start, start.add(1), start.add(2047)] {
        let address = arena.address(pfn).unwrap().as_ptr();
        assert_eq!(address.addr() - base.as_ptr().addr(), ((pfn.0 - start.0) << 12) as usize);
        assert_eq!(arena.pfn_of(address), Some(pfn));
        assert_eq!(arena.pfn_of(address.wrapping_add(4095)), Some(pfn));
    }
    assert_eq!(arena.pfn_of(base.as_ptr().wrapping_sub(1)), None);
    assert_eq!(arena.pfn_of(base.as_ptr().wrapping_add(8 << 20)), None);
    let page = arena.alloc(&Request::page(GFP_USER)).unwrap();
    assert_eq!(arena.pfn_of(&raw const page[17]), Some(page.pfn()));
    assert_eq!(arena.address(page.pfn()), Some(page.address()));
}

#[test]
fn nodes_are_labels_on_a_machine_with_one() {
    let arena = builder().node(64 * MIB, Placement::Anywhere).node(32 * MIB, Placement::Anywhere).build().unwrap();
    let [zero, one] = &arena.report().nodes[..] else { panic!("{}", arena.report()) };
    assert_eq!((zero.range, one.range), (PfnRange::new(0, 0x4000), PfnRange::new(0x4000, 0x6000)));
    for (node, range) in [(NodeId(0), zero.range), (NodeId(1), one.range)] {
        let strict = Request::new(GFP_USER | __GFP_THISNODE, 9).on(node);
        let blocks: Vec<_> = std::iter::from_fn(|| arena.alloc(&strict).ok()).collect();
        assert_eq!(blocks.len() as u64, range.frames() >> 9);
        assert!(blocks.iter().all(|block| range.contains(block.pfn())));
        // The other node serves a request that may go there.
        let other = arena.alloc(&Request::new(GFP_USER, 9).on(node)).unwrap();
        assert!(!range.contains(other.pfn()));
    }
    let spread = Request::page(GFP_USER).with(Policy::Interleave(NodeSet::first(2)));
    let pages: Vec<_> = (0..64).map(|_| arena.alloc(&spread).unwrap()).collect();
    assert_eq!(pages.iter().filter(|page| one.range.contains(page.pfn())).count(), 32);
}

#[test]
fn memory_is_placed_where_the_machine_has_the_node() {
    let node = NodeSet::only(NodeId(0));
    let arena = builder().node(4 * MIB, Placement::Bind(node)).node(4 * MIB, Placement::Prefer(NodeId(0)));
    let arena = arena.node(4 * MIB, Placement::Interleave(node)).build().unwrap();
    if let Some(refused) = arena.report().nodes.iter().find(|node| node.placed != Outcome::Done) {
        println!("SKIPPED: {refused:?}");
        return;
    }
    for node in [NodeId(0), NodeId(1), NodeId(2)] {
        let mut page = arena.alloc(&Request::page(GFP_USER).on(node)).unwrap();
        assert_eq!(arena.machine_node_of(page.pfn()).unwrap(), None, "not touched yet");
        page[0] = 1;
        assert_eq!(arena.machine_node_of(page.pfn()).unwrap(), Some(NodeId(0)));
    }
    // A node that no machine has.
    let missing = || builder().node(4 * MIB, Placement::Bind(NodeSet::only(NodeId(63))));
    assert!(matches!(missing().build().unwrap().report().nodes[0].placed, Outcome::Refused(_)));
    let error = missing().strict(true).build().unwrap_err();
    assert!(matches!(error, ArenaError::Placement { error: OsError { errno: libc::EINVAL, .. }, .. }), "{error}");
    assert!(error.to_string().contains("/sys/devices/system/node/online"));
}

#[test]
fn a_zone_movable_keeps_others_out() {
    let arena = builder().size(64 * MIB).movable(16 * MIB).build().unwrap();
    assert_eq!(arena.buddyinfo().to_string().lines().count(), 2, "{}", arena.buddyinfo());
    let fixed: Vec<_> = std::iter::from_fn(|| arena.alloc(&Request::new(GFP_USER, 9)).ok()).collect();
    assert_eq!(fixed.len(), 24);
    let movable: Vec<_> = std::iter::from_fn(|| arena.alloc(&Request::new(GFP_HIGHUSER_MOVABLE, 9)).ok()).collect();
    assert_eq!(movable.len(), 8);
    assert!(movable.iter().all(|block| block.pfn() >= Pfn(0x3000)));
}

#[test]
fn a_memfd_is_seen_by_other_processes_and_keeps_its_size() {
    let arena = builder().size(4 * MIB).backing(Backing::Memfd).build().unwrap();
    let mut page = arena.alloc(&Request::page(GFP_USER)).unwrap();
    page[..5].copy_from_slice(b"hello");
    // SAFETY: only read through, while no code writes.
    let fd = unsafe { arena.memfd() }.unwrap();
    let file = File::from(fd.try_clone_to_owned().unwrap());
    let mut text = [0; 5];
    file.read_exact_at(&mut text, page.pfn().0 << 12).unwrap();
    assert_eq!(&text, b"hello");
    for len in [0, 4096, 8 * MIB] {
        assert_eq!(file.set_len(len).unwrap_err().raw_os_error(), Some(libc::EPERM));
    }
    // The seals cannot be removed, and no resize can make the last byte raise a signal.
    let seals = rustix::fs::fcntl_get_seals(&file).unwrap();
    let all = rustix::fs::SealFlags::SHRINK | rustix::fs::SealFlags::GROW | rustix::fs::SealFlags::SEAL;
    assert!(seals.contains(all), "{seals:?}");
    assert!(rustix::fs::fcntl_add_seals(&file, rustix::fs::SealFlags::WRITE).is_err());
    let last = arena.frames().end.0 - 1;
    // SAFETY: the frame is memory of the arena, and no other code uses it.
    unsafe { arena.address(Pfn(last)).unwrap().add(4095).write_volatile(1) };
    // Another process reads the bytes that this one wrote.
    let path = format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd());
    let output = std::process::Command::new("head").arg("-c5").arg(&path).output().unwrap();
    let mut first = [0; 5];
    File::open(&path).unwrap().read_exact(&mut first).unwrap();
    assert_eq!(output.stdout, first);
    assert!(unsafe_is_none(&builder().size(MIB).build().unwrap()));
}

fn unsafe_is_none(arena: &Arena) -> bool {
    // SAFETY: nothing is done with it.
    unsafe { arena.memfd() }.is_none()
}

#[test]
fn memory_handed_in_is_used_as_it_is() {
    let mut memory = vec![0_u64; 520 * 512];
    let address = memory.as_mut_ptr().cast::<u8>();
    let start = address.wrapping_add(address.align_offset(4096));
    let slice = |offset, len| NonNull::slice_from_raw_parts(NonNull::new(start.wrapping_add(offset)).unwrap(), len);
    let build = |builder: ArenaBuilder, offset, len| {
        // SAFETY: the vector lives to the end of the test and is used in no other way.
        unsafe { builder.build_in(slice(offset, len)) }
    };
    assert_eq!(build(builder(), 0, 0).map(drop), Err(ArenaError::Empty));
    let bad = build(builder(), 8, 4096).map(drop);
    assert_eq!(bad, Err(ArenaError::Misaligned { address: start.addr() + 8, multiple: 4096 }));
    let bad = build(builder().size(MIB), 0, 4096).map(drop);
    assert_eq!(bad, Err(ArenaError::WrongLength { bytes: 4096, nodes: MIB }));
    for (builder, option) in [
        (builder().backing(Backing::Memfd), "the backing"),
        (builder().transparent(Transparent::Always), "advice about huge pages"),
        (builder().populate(true), "populating"),
        (builder().node(MIB, Placement::Prefer(NodeId(0))), "the placement on nodes"),
    ] {
        assert_eq!(build(builder, 0, MIB as usize).map(drop), Err(ArenaError::NotOurs { option }));
    }
    let arena = build(builder(), 0, 519 * 4096).unwrap();
    let mut pages: Vec<_> = std::iter::from_fn(|| arena.alloc(&Request::page(GFP_USER)).ok()).collect();
    assert_eq!(pages.len(), 519);
    pages.iter_mut().for_each(|page| page.fill(1));
    assert!(matches!(pages[0].discard(), Err(ArenaError::Unsupported { .. })));
    drop(pages);
    assert!(matches!(arena.trim(Order(0)), Err(ArenaError::Unsupported { .. })));
    drop(arena);
    // SAFETY: the vector's own memory; the arena over it is gone.
    assert_eq!(unsafe { start.add(519 * 4096 - 1).read() }, 1);
}

#[test]
fn trimmed_memory_reads_as_zero_and_held_memory_stays() {
    for backing in [Backing::Private, Backing::Memfd] {
        let arena = builder().size(32 * MIB).backing(backing).build().unwrap();
        let request = Request::new(GFP_USER, 9);
        let mut blocks: Vec<_> = std::iter::from_fn(|| arena.alloc(&request).ok()).collect();
        assert_eq!(blocks.len(), 16);
        blocks.iter_mut().for_each(|block| block.fill(7));
        let kept = blocks.swap_remove(5);
        drop(blocks);
        let trimmed = arena.trim(Order(0)).unwrap();
        assert_eq!(trimmed.bytes, 30 * MIB, "{trimmed:?}");
        assert_eq!(arena.trim(Order(0)).unwrap().bytes, 0, "what was given back and not used since is left alone");
        assert_eq!(arena.validate().unwrap().allocated, 512);
        assert!(kept.iter().all(|&byte| byte == 7));
        let fresh: Vec<_> = std::iter::from_fn(|| arena.alloc(&request).ok()).collect();
        assert_eq!(fresh.len(), 15);
        assert!(fresh.iter().all(|block| block.iter().all(|&byte| byte == 0)));
        drop(fresh);
        assert_eq!(arena.trim(Order(0)).unwrap().bytes, 30 * MIB, "it was used since");
    }
}

#[test]
fn reports_read_well() {
    let builder = builder().node(4 * MIB, Placement::Anywhere).node(2 * MIB, Placement::Anywhere).cpus(3);
    let arena = builder.transparent(Transparent::Never).build().unwrap();
    let text = arena.report().to_string();
    let descriptors = arena.report().descriptors >> 10;
    let expected = format!(
        "private: 6 MiB, pages of 4 KiB, largest order 10, 3 CPU slots\n\
         descriptors: {descriptors} KiB of address space\n\
         transparent huge pages: done\n\
         node 0: frames 0x0..0x400, anywhere\n\
         node 1: frames 0x400..0x600, anywhere\n"
    );
    if arena.report().transparent == Outcome::Done {
        assert_eq!(text, expected);
    }
    assert_eq!(Placement::Bind(NodeSet(0b1011)).to_string(), "bind 0,1,3");
    assert!(format!("{arena:?}").starts_with("Arena {"));
    assert_eq!(arena.buddyinfo().to_string().lines().count(), 2);
}

#[test]
fn cpus_are_leased_or_follow_the_processors() {
    let leased = builder().size(4 * MIB).cpus(3).build().unwrap();
    assert_eq!((leased.report().cpu_mode, leased.report().cpus), (CpuMode::Lease, 3));
    let arena = builder().size(4 * MIB).node(4 * MIB, Placement::Anywhere).cpu_mode(CpuMode::PerCpu).build().unwrap();
    match (arena.report().cpu_mode, arena.report().per_cpu_refused) {
        (CpuMode::PerCpu, None) => {}
        (CpuMode::Lease, Some(why)) => {
            println!("SKIPPED in part: {why}");
            let strict = builder().size(MIB).cpu_mode(CpuMode::PerCpu).strict(true).build();
            assert_eq!(strict.map(drop), Err(ArenaError::PerCpu(why)));
            assert!(arena.report().to_string().contains("CPUs are leased: "));
        }
        other => panic!("{other:?}"),
    }
    for arena in [&leased, &arena] {
        // More threads than CPUs.
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..200).for_each(|_| drop(arena.alloc(&Request::page(GFP_USER)).unwrap())));
            }
        });
        assert_eq!(arena.validate().unwrap().allocated, 0);
    }
}

#[test]
fn memory_is_zeroed_on_request() {
    let arena = builder().size(4 * MIB).build().unwrap();
    for (order, zeroed) in [(0, false), (0, true), (3, false), (3, true)] {
        let request = Request::new(if zeroed { GFP_USER | __GFP_ZERO } else { GFP_USER }, order);
        let mut blocks = Vec::new();
        arena.alloc_bulk(&request, 100, &mut blocks).unwrap();
        blocks.extend(arena.alloc(&request));
        for block in &mut blocks {
            assert!(!zeroed || block.iter().all(|&byte| byte == 0));
            block.fill(5);
        }
    }
    let arena = std::sync::Arc::new(arena);
    let owned = arena.alloc_owned(&Request::page(GFP_USER | __GFP_ZERO)).unwrap();
    assert!(owned.iter().all(|&byte| byte == 0));
}

#[test]
fn idle_cpus_are_drained_in_the_background() {
    let interval = std::time::Duration::from_millis(5);
    let mut arena = builder().size(16 * MIB).background(interval).build().unwrap();
    assert!(arena.background().unwrap().is_running());
    let pages: Vec<_> = (0..64).map(|_| arena.alloc(&Request::page(GFP_USER)).unwrap()).collect();
    drop(pages);
    let zone = ZoneIdx::of(NodeId(0), ZoneKind::Normal);
    let cpus = 0..arena.report().cpus as u16;
    let cached =
        || cpus.clone().filter_map(|cpu| arena.source().pcp(zone, CpuId(cpu))).map(|pcp| pcp.count).sum::<u64>();
    // A minute is long enough on any machine.
    let emptied = (0..12_000).any(|_| {
        std::thread::sleep(interval);
        cached() == 0
    });
    assert!(emptied, "{} frames are still kept", cached());
    drop(arena);
    assert!(builder().size(MIB).build().unwrap().background().is_none());
    assert!(Arena::builder().size(MIB).build().unwrap().background().unwrap().is_running(), "unless opted out");
}
