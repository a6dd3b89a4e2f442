//! `/proc/zoneinfo`: sizes, watermarks, counters and per-CPU lists of every zone.
//!
//! A zone without memory has only its sizes and its protection. They are useful because the protection of the zones
//! below depends on all kinds.

use core::fmt;

use super::counters::{node_counters, zone_lines};
use super::snapshot::ZoneSnapshot;
use super::source::{NodeSnapshot, Source, nodes, zones_of};
use crate::types::units::{CpuId, NodeId, ZoneIdx};

/// Prints `/proc/zoneinfo`.
///
/// As in Linux, it shows the watermarks in force: `boost` is printed, and is contained in the three watermarks below
/// it.
#[derive(Clone, Copy, Debug)]
pub struct ZoneInfo<'a, S: Source + ?Sized>(pub &'a S);

impl<S: Source + ?Sized> fmt::Display for ZoneInfo<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for node in nodes(self.0) {
            let mut online = false;
            let mut is_first = true;
            for zone in zones_of(self.0, node) {
                online = true;
                writeln!(f, "Node {}, zone {:>8}", zone.node.0, zone.kind)?;
                if zone.is_populated() && is_first {
                    f.write_str("  per-node stats\n")?;
                    for (name, count) in node_counters(self.0, core::iter::once(node)) {
                        counter(f, name, count)?;
                    }
                    is_first = false;
                }
                self.pages(f, &zone)?;
                if zone.is_populated() {
                    let sum = NodeSnapshot::default().plus(&zone);
                    let idx = ZoneIdx::of(node, zone.kind);
                    zone_lines(self.0, core::iter::once(idx), &sum, |name, count| counter(f, name, count))?;
                    self.pagesets(f, node, &zone)?;
                    writeln!(f, "  node_unreclaimable:  {}", u8::from(zone.unreclaimable))?;
                    writeln!(f, "  start_pfn:           {}", zone.start_pfn.0)?;
                }
            }
            if online && self.0.has_device_zone() {
                writeln!(f, "Node {}, zone {:>8}", node.0, "Device")?;
                self.pages(f, &ZoneSnapshot::default())?;
            }
        }
        Ok(())
    }
}

fn counter(f: &mut fmt::Formatter<'_>, name: &str, count: u64) -> fmt::Result {
    writeln!(f, "      {name:<12} {count}")
}

impl<S: Source + ?Sized> ZoneInfo<'_, S> {
    fn pages(&self, f: &mut fmt::Formatter<'_>, zone: &ZoneSnapshot) -> fmt::Result {
        let lines = [
            ("  pages free", zone.free),
            ("        boost", zone.boost),
            ("        min", zone.min.saturating_add(zone.boost)),
            ("        low", zone.low.saturating_add(zone.boost)),
            ("        high", zone.high.saturating_add(zone.boost)),
            ("        spanned", zone.spanned),
            ("        present", zone.present),
            ("        managed", zone.managed),
            ("        cma", zone.cma),
        ];
        for (label, frames) in lines {
            writeln!(f, "{label:<16} {frames}")?;
        }
        f.write_str("        protection: (")?;
        let [dma, dma32, normal, movable] = zone.protection;
        write!(f, "{dma}, {dma32}, {normal}, {movable}")?;
        if self.0.has_device_zone() {
            // A request that may use Device may use Movable too, and Device has no memory of its own to protect.
            write!(f, ", {movable}")?;
        }
        f.write_str(")\n")
    }

    fn pagesets(&self, f: &mut fmt::Formatter<'_>, node: NodeId, zone: &ZoneSnapshot) -> fmt::Result {
        f.write_str("  pagesets\n")?;
        let idx = ZoneIdx::of(node, zone.kind);
        let cpus = u16::try_from(self.0.nr_cpus()).unwrap_or(u16::MAX);
        for pcp in (0..cpus).filter_map(|cpu| self.0.pcp(idx, CpuId(cpu))) {
            writeln!(f, "    cpu: {}", pcp.cpu.0)?;
            writeln!(f, "              count: {}", pcp.count)?;
            writeln!(f, "              high:  {}", pcp.high)?;
            writeln!(f, "              batch: {}", pcp.batch)?;
            writeln!(f, "  vm stats threshold: {}", zone.stat_threshold)?;
        }
        Ok(())
    }
}
