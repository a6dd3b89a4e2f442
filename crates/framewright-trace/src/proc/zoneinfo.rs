//! `/proc/zoneinfo`: the sizes of each zone, its watermarks and its per-CPU lists.
//!
//! A zone's part has sections: `per-node stats` (in the first zone of a node), the pages and watermarks, counters, and
//! `pagesets` with a group of lines for each CPU. The first word of a line and its section tell what the line means:
//! `high` is a watermark among the pages, and the size of a list among the pagesets.

use std::collections::BTreeMap;

use framewright::units::{Pfn, PfnRange, ZoneKind};

use super::parse::{for_lines, number, zone_head};
use crate::error::{ProcFault, ProcResult, Result, TraceError};

/// All zones of a machine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ZoneInfo {
    /// The zones in the file's order: by node, then by rising addresses.
    pub zones: Vec<ZoneState>,
}

/// One zone. All sizes are in frames.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ZoneState {
    /// Node that it belongs to.
    pub node: u32,
    /// Name, such as `DMA32`.
    pub name: String,
    /// Free frames.
    pub free: u64,
    /// Frames by which the watermarks are raised for now; 0 before Linux 5.0.
    pub boost: u64,
    /// The min watermark, boost included.
    pub min: u64,
    /// The low watermark, boost included.
    pub low: u64,
    /// The high watermark, boost included.
    pub high: u64,
    /// Frames from the first to the last, holes included.
    pub spanned: u64,
    /// Frames that exist.
    pub present: u64,
    /// Frames that the allocator manages; `present` where the kernel does not say.
    pub managed: u64,
    /// Frames of contiguous memory areas; 0 where the kernel does not say.
    pub cma: u64,
    /// By zone, frames that requests for that zone must leave here (`lowmem_reserve`).
    pub protection: Vec<u64>,
    /// First frame; none for zones without memory.
    pub start_pfn: Option<Pfn>,
    /// Per-CPU lists.
    pub pagesets: Vec<PageSet>,
    /// Counters by name.
    pub counters: BTreeMap<String, u64>,
    /// Counters of the zone's node by name, in one zone of each node.
    pub node_counters: BTreeMap<String, u64>,
}

/// One CPU's lists of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PageSet {
    /// The CPU.
    pub cpu: u32,
    /// Frames on the lists.
    pub count: u64,
    /// The most frames on the lists.
    pub high: u64,
    /// Frames that are moved at once.
    pub batch: u64,
}

impl ZoneState {
    /// The kind by name; none for zones that our allocator does not have (`HighMem`, `Device`).
    pub fn zone_kind(&self) -> Option<ZoneKind> {
        ZoneKind::ALL.into_iter().find(|kind| kind.name() == self.name)
    }

    /// The frames from the first to the last; empty for a zone without memory.
    pub fn range(&self) -> PfnRange {
        let start = self.start_pfn.unwrap_or_default();
        PfnRange { start, end: start.add(if self.start_pfn.is_some() { self.spanned } else { 0 }) }
    }

    /// Frames on all per-CPU lists: free for the kernel, but in no free block.
    pub fn pageset_frames(&self) -> u64 {
        self.pagesets.iter().fold(0, |frames, set| frames.saturating_add(set.count))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ZoneSection {
    Head,
    PerNode,
    Pages,
    PageSets,
}

impl ZoneInfo {
    /// Reads the file's text, called `file` in messages.
    ///
    /// # Errors
    /// The line that is malformed, or the last line of a zone that lacks a number.
    pub fn parse(text: &str, file: &str) -> Result<ZoneInfo> {
        let mut zones: Vec<ZoneState> = Vec::new();
        let mut found = FoundFields::default();
        let mut section = ZoneSection::Head;
        for_lines(text, file, |line| {
            if let Some(head) = zone_head(line) {
                let (node, name, _) = head?;
                zones.last().map_or(Ok(()), |zone| found.check(zone))?;
                zones.push(ZoneState { node, name: name.to_owned(), ..ZoneState::default() });
                (found, section) = (FoundFields::default(), ZoneSection::Head);
                return Ok(());
            }
            let zone = zones.last_mut().ok_or_else(|| ProcFault::expected("`Node N, zone NAME`", line))?;
            zone.line(line, &mut section, &mut found)
        })?;
        let last_line = text.lines().count() as u64;
        match zones.last() {
            None => Err(TraceError::new(file, ProcFault::Empty("zone"))),
            Some(zone) => found.check(zone).map_err(|fault| TraceError::at(file, last_line, fault)),
        }?;
        Ok(ZoneInfo { zones })
    }

    /// One past the last frame of the machine.
    pub fn end_pfn(&self) -> Pfn {
        self.zones.iter().map(|zone| zone.range().end).max().unwrap_or_default()
    }

    /// The zone called `name` on `node`.
    pub fn zone(&self, node: u32, name: &str) -> Option<&ZoneState> {
        self.zones.iter().find(|zone| zone.node == node && zone.name == name)
    }
}

/// The numbers that every zone must have, and whether they were there.
#[derive(Clone, Copy, Default)]
struct FoundFields([bool; FoundFields::FIELDS.len()]);

impl FoundFields {
    const FIELDS: [&'static str; 6] = ["pages free", "min", "low", "high", "spanned", "present"];

    fn note(&mut self, field: &str) {
        if let Some(i) = FoundFields::FIELDS.iter().position(|&name| name == field) {
            self.0[i] = true;
        }
    }

    fn check(&self, zone: &ZoneState) -> ProcResult<()> {
        match self.0.iter().position(|&found| !found) {
            None => Ok(()),
            Some(i) => {
                Err(ProcFault::Missing { node: zone.node, zone: zone.name.clone(), field: FoundFields::FIELDS[i] })
            }
        }
    }
}

impl ZoneState {
    fn line(&mut self, line: &str, section: &mut ZoneSection, found: &mut FoundFields) -> ProcResult<()> {
        let line = line.trim();
        match line {
            "per-node stats" => *section = ZoneSection::PerNode,
            "pagesets" => *section = ZoneSection::PageSets,
            _ => {
                let (name, value) = match line.strip_prefix("pages free") {
                    Some(value) => {
                        *section = ZoneSection::Pages;
                        ("pages free", value)
                    }
                    None => line.split_once(char::is_whitespace).unwrap_or((line, "")),
                };
                let value = value.trim();
                match (name, *section) {
                    ("protection:", _) => self.protection = protection(value)?,
                    ("start_pfn:", _) => self.start_pfn = Some(Pfn(number(value)?)),
                    (_, ZoneSection::PageSets) => self.pageset_line(name, value)?,
                    (_, ZoneSection::Pages) if self.page_line(name, value, found)? => {}
                    (_, ZoneSection::PerNode) => keep(&mut self.node_counters, name, value),
                    _ => keep(&mut self.counters, name, value),
                }
            }
        }
        Ok(())
    }

    /// A line among the pages and watermarks; false if it is a counter.
    fn page_line(&mut self, name: &str, value: &str, found: &mut FoundFields) -> ProcResult<bool> {
        let field = match name {
            "pages free" => &mut self.free,
            "boost" => &mut self.boost,
            "min" => &mut self.min,
            "low" => &mut self.low,
            "high" => &mut self.high,
            "spanned" => &mut self.spanned,
            "present" => &mut self.present,
            "managed" => &mut self.managed,
            "cma" => &mut self.cma,
            _ => return Ok(false),
        };
        *field = number(value)?;
        if name == "present" {
            self.managed = self.present;
        }
        found.note(name);
        Ok(true)
    }

    fn pageset_line(&mut self, name: &str, value: &str) -> ProcResult<()> {
        if name == "cpu:" {
            let cpu = value.parse().map_err(|_| ProcFault::expected("a CPU's number", value))?;
            self.pagesets.push(PageSet { cpu, ..PageSet::default() });
            return Ok(());
        }
        let Some(set) = self.pagesets.last_mut() else {
            return Err(ProcFault::expected("`cpu: N`", name));
        };
        match name {
            "count:" => set.count = number(value)?,
            "high:" => set.high = number(value)?,
            "batch:" => set.batch = number(value)?,
            _ => {}
        }
        Ok(())
    }
}

/// `(0, 122, 869)`.
fn protection(value: &str) -> ProcResult<Vec<u64>> {
    let list = value.strip_prefix('(').and_then(|value| value.strip_suffix(')'));
    let list = list.ok_or_else(|| ProcFault::expected("a list in parentheses", value))?;
    list.split(',').map(|word| number(word.trim())).collect()
}

/// Keeps a counter that is a number; a replay needs nothing of other lines.
fn keep(counters: &mut BTreeMap<String, u64>, name: &str, value: &str) {
    if let Ok(value) = value.parse() {
        counters.insert(name.trim_end_matches(':').to_owned(), value);
    }
}
