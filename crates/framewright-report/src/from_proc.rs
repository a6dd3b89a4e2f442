//! A state of memory from files of `/proc`: `zoneinfo` and `buddyinfo`, and `pagetypeinfo` if it is there.

use framewright_trace::state::InitialState;

use crate::memory::{ListType, Memory, OrderFree, Types, Zone};
use crate::report::{Kind, Report};

/// Makes the report of a state.
///
/// # Errors
/// The name of the file that is missing.
pub fn report_of(state: &InitialState, page_size: Option<u64>) -> Result<Report, &'static str> {
    let zoneinfo = state.zoneinfo.as_ref().ok_or("zoneinfo")?;
    let buddyinfo = state.buddyinfo.as_ref().ok_or("buddyinfo")?;
    let types = state.pagetypeinfo.as_ref();
    let mut memory = Memory { page_size, kernel: state.kernel, ..Memory::default() };
    for zone in zoneinfo.zones.iter().filter(|zone| zone.managed > 0) {
        let free = buddyinfo.rows.iter().find(|row| row.node == zone.node && row.zone == zone.name);
        let counts = free.map_or(&[][..], |row| &row.free);
        let by_type = |order: usize| {
            let types = types?;
            let mut all = [0; ListType::ALL.len()];
            for row in types.free.iter().filter(|row| row.node == zone.node && row.zone == zone.name) {
                let count = row.free.get(order).copied().unwrap_or(0);
                if let Some(at) = ListType::ALL.iter().position(|&list| name(list) == row.migratetype.name()) {
                    all[at] += count;
                }
            }
            Some(all)
        };
        let orders = counts.iter().enumerate().map(|(order, &blocks)| {
            let by_type = by_type(order).filter(|all| all.iter().sum::<u64>() == blocks);
            let types = by_type.map(|all| {
                let present = ListType::ALL.into_iter().zip(all).filter(|(_, count)| *count > 0);
                present.fold(Types::default(), |set, (list, _)| set.with(list))
            });
            OrderFree { blocks, types, by_type }
        });
        let highatomic = types.and_then(|types| {
            let row = types.pageblocks.iter().find(|row| row.node == zone.node && row.zone == zone.name)?;
            Some(row.count[framewright::MigrateType::HighAtomic.index()].saturating_mul(types.pageblock_order.frames()))
        });
        let counter = |name: &str| zone.counters.get(name).copied();
        memory.zones.push(Zone {
            node: zone.node,
            name: zone.name.clone(),
            free: zone.free,
            min: zone.min,
            low: zone.low,
            high: zone.high,
            boost: Some(zone.boost),
            reserved_highatomic: highatomic,
            free_highatomic: counter("nr_free_highatomic"),
            free_cma: counter("nr_free_cma").or(Some(0).filter(|_| zone.cma == 0)),
            managed: Some(zone.managed),
            present: Some(zone.present),
            free_pcp: Some(zone.pageset_frames()),
            local_pcp: None,
            file: counter("nr_zone_active_file")
                .zip(counter("nr_zone_inactive_file"))
                .map(|(active, inactive)| active.saturating_add(inactive)),
            slab_reclaimable: None,
            lowmem_reserve: Some(zone.protection.clone()),
            orders: orders.collect(),
        });
    }
    let release = state.kernel.map(|kernel| kernel.to_string());
    Ok(Report { memory, release, ..Report::new(1, Kind::State) })
}

/// The name of a type in `pagetypeinfo`.
fn name(list: ListType) -> &'static str {
    match list {
        ListType::Unmovable => "Unmovable",
        ListType::Movable => "Movable",
        ListType::Reclaimable => "Reclaimable",
        ListType::Reserve => "Reserve",
        ListType::HighAtomic => "HighAtomic",
        ListType::Cma => "CMA",
        ListType::Isolate => "Isolate",
    }
}
