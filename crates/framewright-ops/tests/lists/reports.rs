//! What reports say of zones, beside a count of every frame.

use std::collections::{BTreeMap, BTreeSet};

use framewright::report::Source;
use framewright::units::{MigrateType, NodeId, PfnRange, ZoneIdx, ZoneKind};
use framewright_ops::rng::Rng;
use framewright_ops::{Session, Shape, machines, with_session};

/// Pageblocks by zone and type: each by the zone and the type of its first memory.
fn counted(session: &Session<'_>) -> BTreeMap<ZoneIdx, [u64; MigrateType::COUNT]> {
    let oracle = session.oracle();
    let mut seen = BTreeSet::new();
    let mut blocks: BTreeMap<ZoneIdx, [u64; MigrateType::COUNT]> = BTreeMap::new();
    for (pfn, known) in oracle.memory().all() {
        let PfnRange { start, .. } = oracle.memory().pageblock(pfn);
        if seen.insert(start) {
            let migratetype = session.pages().pageblock_type(pfn).unwrap();
            blocks.entry(known.zone).or_default()[migratetype.index()] += 1;
        }
    }
    blocks
}

/// Compares all zones, after some pageblocks were given another type; how many have pageblocks.
fn compare(shape: &Shape, rng: &mut Rng) -> usize {
    let compared = with_session(shape, |session| {
        for (pfn, _) in session.oracle().memory().all() {
            if rng.one_in(20) {
                let migratetype = *rng.pick(&[MigrateType::Unmovable, MigrateType::Reclaimable, MigrateType::Cma]);
                session.pages().set_pageblock_type(pfn, migratetype).unwrap();
            }
        }
        let counted = counted(session);
        for node in 0..shape.nodes() {
            for zone in ZoneKind::ALL.map(|kind| ZoneIdx::of(NodeId(node as u8), kind)) {
                let told = session.pages().zone(zone).map_or([0; MigrateType::COUNT], |zone| zone.blocks);
                assert_eq!(told, counted.get(&zone).copied().unwrap_or_default(), "{zone:?} of\n{shape}");
            }
        }
        let cma = counted.values().any(|blocks| blocks[MigrateType::Cma.index()] != 0);
        assert_eq!(session.pages().has_cma(), cma, "{shape}");
        Ok(counted.len())
    });
    compared.unwrap()
}

#[test]
fn pageblocks_by_type_are_those_of_the_zone() {
    let mut rng = Rng::new(1);
    let named = machines::named().map(|(_, shape)| compare(&shape, &mut rng)).max();
    assert!(named >= Some(5), "no machine with several zones");
    for _ in 0..300 {
        let shape = machines::random(&mut rng);
        compare(&shape, &mut rng);
    }
}
