//! Handles of CPUs, and requests known at run time: by each preset, on machines with and without values of CPUs.

use framewright::mechanisms::PRESETS;
use framewright::request::{
    __GFP_DMA, __GFP_DMA32, __GFP_MOVABLE, __GFP_RECLAIMABLE, __GFP_ZERO, GFP_ATOMIC, GFP_HIGHUSER_MOVABLE, GFP_KERNEL,
    GFP_USER, NodeSet, Policy,
};
use framewright::units::{CpuId, NodeId, Order, Pfn, PfnRange};
use framewright::{AllocError, Allocator, Config, FrameState, FreeError, Gfp, Layout, Region, Request};
use framewright_rt::Storage;

use crate::roles::{Keeping, Kept, Roles, Unkept};

/// Two runs of memory of zone DMA32 with a hole between, and one of zone Normal.
const MAP: [Region; 3] = [
    Region::usable(0x1_0000, 0x1_2000, 0),
    Region::usable(0x2_0000, 0x2_2000, 0),
    Region::usable(0x10_0000, 0x10_2000, 0),
];
const CPUS: [NodeId; 3] = [NodeId(0); 3];
/// Orders with lists, one without, the pageblock order, and the largest.
const ORDERS: [u8; 7] = [0, 1, 2, 3, 5, 9, 10];

/// Runs `test` on an allocator of each preset, at whose end all memory must be free.
fn with_each<K: Keeping>(test: impl Fn(&Allocator<'_, Roles<K>>, &str)) {
    for &(name, mechanisms) in PRESETS {
        let name = format!("{name}, values kept: {}", K::KEPT);
        let config = Config { mechanisms, ..Config::new(&MAP, &CPUS) };
        let mut storage = Storage::new(&Layout::of(&config).unwrap());
        let pages = Allocator::boot(Roles::<K>::new(&CPUS), &config, storage.parts()).unwrap();
        let before = pages.validate().unwrap().free;
        test(&pages, &name);
        pages.validate().unwrap_or_else(|violation| panic!("{name}: {violation}"));
        pages.drain_all();
        assert_eq!(pages.validate().unwrap().free, before, "{name}: memory is lost");
    }
}

fn is_allocated<K: Keeping>(pages: &Allocator<'_, Roles<K>>, pfn: Pfn, order: u8) -> bool {
    pages.state_of(pfn) == FrameState::Allocated(pfn, Order(order))
}

/// Allocates and frees by the handle of CPU 0, which the caller is not always on.
fn go_through_all_orders<K: Keeping>() {
    with_each::<K>(|pages, name| {
        let handle = pages.cpu_handle(CpuId(0)).unwrap();
        assert_eq!(handle.cpu(), CpuId(0));
        let gfps = [GFP_KERNEL, GFP_HIGHUSER_MOVABLE, GFP_KERNEL | __GFP_DMA32, GFP_KERNEL | __GFP_RECLAIMABLE];
        // So little is left of the first run and the last that requests get blocks of all.
        let filled = [PfnRange::new(0x1_0800, 0x1_2000), PfnRange::new(0x10_0800, 0x10_2000)];
        filled.iter().for_each(|&range| pages.alloc_range(range, GFP_KERNEL).unwrap());
        let (mut held, mut served_large) = (Vec::new(), 0);
        for turn in 0..900_usize {
            pages.machine().run_on(CpuId((turn / 40 % 3) as u16));
            let order = ORDERS[turn * turn / 7 % if turn % 50 == 0 { 7 } else { 5 }];
            let request = Request::new(gfps[turn % 4], order);
            let served =
                if turn % 3 == 0 { handle.alloc_pages(request.gfp, request.order) } else { handle.alloc(&request) };
            let Ok(pfn) = served else {
                assert!(order >= 9, "{name}: {request:?}: {served:?}");
                continue;
            };
            assert!(is_allocated(pages, pfn, order), "{name}: {request:?}");
            assert!(MAP.iter().any(|region| region.range.contains(pfn)), "{name}: {pfn} is in a hole");
            served_large += u32::from(order >= 9);
            held.push((pfn, order));
            if turn % 2 == 1 {
                let (pfn, order) = held.swap_remove(turn * 7919 % held.len());
                let by_order = turn % 4 == 1;
                let freed =
                    if by_order { handle.free_pages(pfn, Order(order)) } else { handle.free(pfn, Order(order)) };
                assert_eq!(freed, Ok(()), "{name}");
                assert_eq!(handle.free(pfn, Order(order)), Err(FreeError::AlreadyFree(pfn)), "{name}");
                assert_eq!(handle.free_pages(pfn, Order(order)), Err(FreeError::AlreadyFree(pfn)), "{name}");
                assert_eq!(pages.free_pages(pfn, Order(order)), Err(FreeError::AlreadyFree(pfn)), "{name}");
            }
        }
        pages.validate().unwrap_or_else(|violation| panic!("{name}: {violation}"));
        // Blocks of all runs are on the lists now.
        for run in &MAP {
            assert!(held.iter().any(|&(pfn, _)| run.range.contains(pfn)), "{name}: nothing of {run:?}");
        }
        assert!(served_large > 0, "{name}: no block of the pageblock order or above");
        held.into_iter().for_each(|(pfn, order)| pages.free_pages(pfn, Order(order)).unwrap());
        filled.iter().for_each(|&range| pages.free_range(range).unwrap());
    });
}

#[test]
fn handles_serve_all_orders_on_every_cpu() {
    go_through_all_orders::<Unkept>();
    go_through_all_orders::<Kept>();
}

#[test]
fn handles_refuse_what_plain_calls_refuse() {
    fn go<K: Keeping>() {
        with_each::<K>(|pages, name| {
            let (handle, mut others) = (pages.cpu_handle(CpuId(1)).unwrap(), Vec::new());
            for cpu in [1, 2] {
                pages.machine().run_on(CpuId(cpu));
                let block = handle.alloc(&Request::new(GFP_KERNEL, 2)).unwrap();
                for (pfn, order, error) in [
                    (block, 1, FreeError::WrongOrder { pfn: block, actual: Order(2) }),
                    (Pfn(0x1_8000), 0, FreeError::Foreign(Pfn(0x1_8000))),
                    (Pfn(u64::MAX), 0, FreeError::Foreign(Pfn(u64::MAX))),
                ] {
                    assert_eq!(handle.free(pfn, Order(order)), Err(error), "{name}, CPU {cpu}");
                    assert_eq!(pages.free(pfn, Order(order)), Err(error), "{name}, CPU {cpu}");
                }
                for (allocated, freed) in [(0, 1), (1, 0), (2, 0), (0, 2)] {
                    let block = loop {
                        let block = handle.alloc(&Request::new(GFP_KERNEL, allocated)).unwrap();
                        if block.is_aligned(Order(allocated.max(freed))) {
                            break block;
                        }
                        others.push((block, Order(allocated)));
                    };
                    let error = Err(FreeError::WrongOrder { pfn: block, actual: Order(allocated) });
                    assert_eq!(handle.free_pages(block, Order(freed)), error, "{name}, CPU {cpu}");
                    assert_eq!(pages.free_pages(block, Order(freed)), error, "{name}, CPU {cpu}");
                    others.push((block, Order(allocated)));
                }
                others.drain(..).for_each(|(block, order)| pages.free_pages(block, order).unwrap());
                let part = handle.free(block.add(1), Order(0)).unwrap_err();
                assert_eq!(pages.free(block.add(1), Order(0)), Err(part), "{name}, CPU {cpu}");
                handle.free(block, Order(2)).unwrap();
            }
            for request in contradicting() {
                assert_eq!(handle.alloc(&request), Err(AllocError::BadFlags), "{name}: {request:?}");
                let result = handle.alloc_pages(request.gfp, request.order);
                assert_eq!(result, Err(AllocError::BadFlags), "{name}: {request:?}");
            }
            let beyond = Request::new(GFP_KERNEL, 11);
            assert_eq!(handle.alloc(&beyond), pages.alloc(&beyond), "{name}");
            assert_eq!(handle.alloc_pages(GFP_KERNEL, Order(11)), pages.alloc(&beyond), "{name}");
            assert_eq!(pages.alloc_pages(GFP_KERNEL, Order(11)), pages.alloc(&beyond), "{name}");
            assert!(pages.cpu_handle(CpuId(3)).is_none(), "{name}: there are three CPUs");
        });
    }
    go::<Unkept>();
    go::<Kept>();
}

fn contradicting() -> [Request; 2] {
    let page = |gfp| Request::page(gfp);
    [page(GFP_KERNEL | __GFP_MOVABLE | __GFP_RECLAIMABLE), page(GFP_KERNEL | __GFP_DMA | __GFP_DMA32)]
}

/// A handle on its CPU takes the block that the CPU freed last, as a plain call does; on another CPU that CPU's.
#[test]
fn handles_and_plain_calls_use_the_same_lists() {
    fn go<K: Keeping>() {
        with_each::<K>(|pages, name| {
            let (page, handle) = (Request::page(GFP_KERNEL), pages.cpu_handle(CpuId(0)).unwrap());
            let [here, there] = [0, 1].map(|cpu| {
                pages.machine().run_on(CpuId(cpu));
                pages.alloc(&page).unwrap()
            });
            for (cpu, pfn) in [(1, there), (0, here)] {
                pages.machine().run_on(CpuId(cpu));
                handle.free(pfn, Order(0)).unwrap();
                assert_eq!(pages.alloc(&page), Ok(pfn), "{name}, CPU {cpu}: freed by the handle");
                pages.free(pfn, Order(0)).unwrap();
                assert_eq!(handle.alloc(&page), Ok(pfn), "{name}, CPU {cpu}: freed by a plain call");
                pages.free(pfn, Order(0)).unwrap();
                assert_eq!(
                    handle.alloc_pages(page.gfp, page.order),
                    Ok(pfn),
                    "{name}, CPU {cpu}: freed by a plain call"
                );
                handle.free(pfn, Order(0)).unwrap();
            }
        });
    }
    go::<Unkept>();
    go::<Kept>();
}

/// Where a request may be served, by plain calls and by a handle: pages below a limit, of a node, zeroed ones.
fn special() -> Vec<Request> {
    let page = Request::page(GFP_KERNEL);
    vec![
        page.below(Pfn(0x1_1000)),
        page.with(Policy::Interleave(NodeSet(1))),
        page.with(Policy::Bind(NodeSet(1))),
        page.on(NodeId(0)),
        Request::page(GFP_KERNEL | __GFP_ZERO),
        Request::new(GFP_HIGHUSER_MOVABLE | __GFP_ZERO, 3),
        Request::page(GFP_ATOMIC),
        Request::page(GFP_USER | __GFP_DMA32),
        Request::new(GFP_KERNEL, 2),
        page,
    ]
}

#[test]
fn varying_requests_are_not_taken_for_the_last_one() {
    fn go<K: Keeping>() {
        with_each::<K>(|pages, name| {
            let (requests, handle) = (special(), pages.cpu_handle(CpuId(0)).unwrap());
            let mut held = Vec::new();
            // Each request comes after each other one, and after itself.
            for (first, second) in requests.iter().flat_map(|first| requests.iter().map(move |second| (first, second)))
            {
                for (turn, request) in [first, second, second, first].into_iter().enumerate() {
                    let is_plain = turn % 2 == 0;
                    let Request { gfp, order, .. } = *request;
                    let pfn = match request.below {
                        Some(_) if is_plain => pages.alloc(request),
                        Some(_) => handle.alloc(request),
                        None if is_plain => pages.alloc_pages(gfp, order),
                        None => handle.alloc_pages(gfp, order),
                    };
                    let pfn = pfn.unwrap();
                    let case = format!("{name}: {request:?} after {first:?}");
                    assert!(is_allocated(pages, pfn, order.0), "{case}");
                    let zeroed = pages.machine().take_zeroed();
                    if request.gfp.contains(__GFP_ZERO) {
                        assert!(zeroed.contains(&(pfn, order)), "{case}: not zeroed");
                    } else {
                        assert_eq!(zeroed, [], "{case}");
                    }
                    assert!(request.below.is_none_or(|limit| pfn < limit), "{case}: {pfn}");
                    assert!(!request.gfp.contains(__GFP_DMA32) || pfn < Pfn(0x10_0000), "{case}: {pfn}");
                    held.push((pfn, order));
                }
                // Every second block is freed, so that lists have blocks for the next requests.
                for _ in 0..2 {
                    let (pfn, order) = held.swap_remove(held.len() / 2);
                    handle.free(pfn, order).unwrap();
                }
            }
            held.into_iter().for_each(|(pfn, order)| pages.free(pfn, order).unwrap());
        });
    }
    go::<Unkept>();
    go::<Kept>();
}

/// Contradicting flags are refused also after a request that differs in nothing else.
#[test]
fn varying_requests_with_contradicting_flags_are_refused() {
    fn go<K: Keeping>() {
        with_each::<K>(|pages, name| {
            let right = [GFP_KERNEL | __GFP_MOVABLE, GFP_KERNEL | __GFP_RECLAIMABLE, GFP_KERNEL | __GFP_DMA32];
            for gfp in right.into_iter().chain([GFP_KERNEL, Gfp(0)]) {
                for wrong in contradicting() {
                    for _ in 0..2 {
                        let page = pages.alloc_pages(gfp, Order(0)).unwrap();
                        assert_eq!(pages.alloc_pages(wrong.gfp, wrong.order), Err(AllocError::BadFlags), "{name}");
                        pages.free(page, Order(0)).unwrap();
                    }
                }
            }
        });
    }
    go::<Unkept>();
    go::<Kept>();
}
