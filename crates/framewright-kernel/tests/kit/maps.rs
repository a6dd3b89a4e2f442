//! Two steps over odd maps: the second needs exactly what the first asked for, and what it holds is not handed out.

use framewright::{Config, FrameState, NodeId, Pfn, PfnRange, Region};
use framewright_kernel::{Framewright, bytes, place};
use proptest::prelude::*;

use crate::board::{Board, block};

/// Regions with borders anywhere, with and without large holes.
fn maps() -> impl Strategy<Value = Vec<Region>> {
    proptest::collection::vec((0..3_000_u64, 700..20_000_u64, 0..5_u8, any::<bool>()), 1..6).prop_map(|all| {
        let mut next = 1;
        let place = |(gap, frames, usable, far): (u64, u64, u8, bool)| {
            let start = next + gap + if far { 1 << 20 } else { 0 };
            next = start + frames;
            if usable == 0 { Region::reserved(start, next, 0) } else { Region::usable(start, next, 0) }
        };
        all.into_iter().map(place).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_layout_does_not_depend_on_its_own_place(regions in maps(), cpus in 1..5_usize, image in 0..600_u64) {
        prop_assume!(regions.iter().any(|region| region.usable));
        let nodes = vec![NodeId(0); cpus];
        let first = regions.iter().find(|region| region.usable).unwrap().range.start.0;
        let image = PfnRange::new(first, first + image);
        let asked = Config { reserved: &[image], ..Config::new(&regions, &nodes) };
        let needed = bytes::<Board<2>>(&asked).unwrap();
        let Some(own) = place(&asked, needed, PfnRange::new(0, u64::MAX)) else { return Ok(()) };
        prop_assert!(own.intersect(image).is_empty() && own.frames() == (needed as u64).div_ceil(4096));
        prop_assert!(regions.iter().any(|region| region.usable && region.range.intersect(own) == own));
        let booted = Config { reserved: &[own, image], ..asked };
        prop_assert_eq!(bytes::<Board<2>>(&booted), Ok(needed));
        let cell: &'static Framewright<Board<2>> = Box::leak(Box::new(Framewright::new()));
        let pages = cell.boot(&Board, &booted, own, block(needed, 0)).unwrap();
        pages.validate().unwrap();
        for pfn in own.start.0..own.end.0 {
            let state = pages.state_of(Pfn(pfn));
            prop_assert!(matches!(state, FrameState::Offline(..) | FrameState::Hole), "{:#x}: {:?}", pfn, state);
        }
    }
}
