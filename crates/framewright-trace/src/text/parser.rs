//! Turns the lines of a text into records.

use framewright::units::{CpuId, Order, Pfn};

use super::event_fields::Fields;
use super::gfp_text::GfpReader;
use super::line_format::{LineHead, TracerLine, classify, decimal};
use super::migratetypes::MigratetypeReader;
use super::text_options::TextOptions;
use super::tracepoint_name::{is_in, is_note, tracepoint};
use super::vmemmap::Vmemmap;
use crate::error::{Excerpt, LineFault};
use crate::flags::{KernelVersion, Kernels};
use crate::record::{CommId, Comms, Kind, Quality, Record, Tracepoint};

/// Turns lines into records.
pub(super) struct Parser {
    migratetypes: MigratetypeReader,
    vmemmap: Vmemmap,
    gfp: GfpReader,
    pageblock_order: Order,
    pub(super) comms: Comms,
    /// The last name of some tasks, by the low bits of their pids.
    tasks: Vec<(Vec<u8>, CommId)>,
    time: u64,
}

impl Parser {
    /// Tasks whose last name is kept.
    const TASKS: usize = 64;

    pub(super) fn new(options: &TextOptions) -> Parser {
        Parser {
            migratetypes: MigratetypeReader::new(options.numbering),
            vmemmap: Vmemmap::new(options.vmemmap, options.end_pfn),
            gfp: GfpReader::new(options.kernels, options.lenient),
            pageblock_order: options.pageblock_order.filter(|order| order.0 != 0).unwrap_or(Order(9)),
            comms: Comms::new(),
            tasks: vec![(Comms::UNKNOWN.into(), CommId::default()); Parser::TASKS],
            time: 0,
        }
    }

    /// Kernels that the text so far can be of.
    pub(super) fn kernels(&self) -> Kernels {
        self.gfp.kernels()
    }

    /// The record of a line, if it has one.
    pub(super) fn line(&mut self, text: &[u8], quality: &mut Quality) -> Result<Option<Record>, LineFault> {
        match classify(text) {
            TracerLine::Event(head, name, body) => match tracepoint(name) {
                Some(event) => return self.record(&head, event, body, quality).map(Some),
                None if is_in(body) && !is_note(name) => {
                    return Err(LineFault::Buried(Excerpt::new(text)));
                }
                None if name.is_empty() => quality.count_unknown("(text without a name)"),
                None => quality.count_unknown(&String::from_utf8_lossy(&name[..name.len().min(64)])),
            },
            TracerLine::Lost(events) => quality.count_lost(events),
            TracerLine::Comment(text) => {
                quality.skipped_lines += 1;
                self.comment(&String::from_utf8_lossy(text), quality);
            }
            TracerLine::Skip if is_in(text) => return Err(LineFault::NoHead(Excerpt::new(text))),
            TracerLine::Skip => quality.skipped_lines += 1,
            TracerLine::Ticks if is_in(text) => return Err(LineFault::Ticks(Excerpt::new(text))),
            TracerLine::Unrecognized if is_in(text) => return Err(LineFault::NoHead(Excerpt::new(text))),
            TracerLine::Ticks | TracerLine::Unrecognized => quality.unrecognized_lines += 1,
        }
        Ok(None)
    }

    /// Reads a comment that names the kernel, or counts events that were overwritten unread.
    fn comment(&mut self, text: &str, quality: &mut Quality) {
        const VERSIONS: [&str; 4] = ["os release :", "Linux version ", "uname:", "uname :"];
        let of_tracer = text.split_once(" trace v").and_then(|(_, rest)| rest.split_once(" on "));
        let said = VERSIONS.iter().find_map(|before| text.split_once(before)).or(of_tracer);
        if let Some(version) = said.and_then(|(_, version)| KernelVersion::find(version)) {
            self.migratetypes.kernel(version);
            self.gfp.kernel(version);
        } else if let Some((_, counts)) = text.split_once("entries-in-buffer/entries-written:") {
            let count = |text: &str| decimal(text.as_bytes());
            let counts = counts.split_whitespace().next().and_then(|counts| counts.split_once('/'));
            if let Some((Some(kept), Some(written))) = counts.map(|(kept, written)| (count(kept), count(written)))
                && written > kept
            {
                quality.count_lost(Some(written - kept));
            }
        }
    }

    fn record(
        &mut self,
        head: &LineHead<'_>,
        event: Tracepoint,
        body: &[u8],
        quality: &mut Quality,
    ) -> Result<Record, LineFault> {
        let kind = self.kind(event, body, quality)?;
        let comm = self.comm(head);
        let time = head.time.unwrap_or(self.time);
        quality.untimed += u64::from(head.time.is_none());
        quality.time_steps_back += u64::from(time < self.time);
        quality.count(&kind);
        self.time = time;
        Ok(Record { time, pid: head.pid, comm, cpu: CpuId(head.cpu), kind })
    }

    fn comm(&mut self, head: &LineHead<'_>) -> CommId {
        let Some(name) = head.comm else { return CommId::default() };
        let task = &mut self.tasks[head.pid as usize % Parser::TASKS];
        if task.0 != name {
            task.1 = self.comms.intern_bytes(name);
            task.0.clear();
            task.0.extend_from_slice(&name[..name.len().min(Comms::NAME_LIMIT)]);
        }
        task.1
    }

    fn kind(&mut self, event: Tracepoint, body: &[u8], quality: &mut Quality) -> Result<Kind, LineFault> {
        let kind = match event {
            Tracepoint::Alloc => self.alloc(body, quality)?,
            Tracepoint::Free => {
                let fields = Fields::find(event.name(), ["pfn", "order"], body)?;
                Kind::Free { pfn: fields.pfn(0)?, order: fields.order(1)? }
            }
            Tracepoint::FreeBatched => Kind::FreeBatched { pfn: Fields::find(event.name(), ["pfn"], body)?.pfn(0)? },
            Tracepoint::Move => {
                let fields = Fields::find(event.name(), ["old", "new"], body)?;
                let (old, new) = (self.vmemmap.pfn(fields.number(0)?)?, self.vmemmap.pfn(fields.number(1)?)?);
                return Ok(Kind::Move { old, new });
            }
            Tracepoint::ExtFrag => self.ext_frag(body)?,
            Tracepoint::PcpuDrain => {
                let fields = Fields::find(event.name(), ["pfn", "order", "migratetype"], body)?;
                let migratetype = self.migratetypes.of_list(fields.number(2)?)?;
                Kind::PcpuDrain { pfn: fields.pfn(0)?, order: fields.order(1)?, migratetype }
            }
            Tracepoint::AllocZoneLocked => self.alloc_zone_locked(body)?,
            Tracepoint::ReclaimBegin => {
                Kind::ReclaimBegin { order: Fields::find(event.name(), ["order"], body)?.order(0)? }
            }
            Tracepoint::ReclaimEnd => {
                Kind::ReclaimEnd { reclaimed: Fields::find(event.name(), ["nr_reclaimed"], body)?.number(0)? }
            }
        };
        if let Some(pfn) = pfn_of(&kind) {
            self.vmemmap.seen(pfn);
        }
        Ok(kind)
    }

    fn alloc(&mut self, body: &[u8], quality: &mut Quality) -> Result<Kind, LineFault> {
        let names = ["pfn", "page", "order", "migratetype", "gfp_flags"];
        let fields = Fields::find(Tracepoint::Alloc.name(), names, body)?;
        let (pfn, order, number) = (fields.pfn_or_none(0, 1)?, fields.order(2)?, fields.number(3)?);
        // A tool that prints a page's address prints the frame as the kernel does: in decimal before Linux 5.15.
        if fields.text(1).is_ok() && fields.text(0)?.starts_with(b"0x") {
            self.gfp.since(KernelVersion::new(5, 1));
        }
        if let Some(numbering) = self.migratetypes.known() {
            self.gfp.numbering(numbering);
        }
        let (gfp, tells) = self.gfp.read(fields.text(4)?, number, quality)?;
        let migratetype = self.migratetypes.of_request(number, gfp, tells)?;
        Ok(Kind::Alloc { pfn, order, migratetype, gfp })
    }

    fn ext_frag(&mut self, body: &[u8]) -> Result<Kind, LineFault> {
        let names = [
            "pfn",
            "alloc_order",
            "fallback_order",
            "pageblock_order",
            "alloc_migratetype",
            "fallback_migratetype",
            "fragmenting",
            "change_ownership",
        ];
        let fields = Fields::find(Tracepoint::ExtFrag.name(), names, body)?;
        let fallback_order = fields.order(2)?;
        // A tool that does not know the order of a pageblock prints 0 or nothing, and computes `fragmenting` from it.
        let pageblock_order = fields.order_if_there(3)?.filter(|order| order.0 != 0).unwrap_or(self.pageblock_order);
        Ok(Kind::ExtFrag {
            pfn: fields.pfn(0)?,
            alloc_order: fields.order(1)?,
            fallback_order,
            pageblock_order,
            alloc_migratetype: self.migratetypes.of_list(fields.number(4)?)?,
            fallback_migratetype: self.migratetypes.of_list(fields.number(5)?)?,
            fragmenting: fields.flag_if_there(6)?.unwrap_or(fallback_order < pageblock_order),
            change_ownership: fields.flag(7)?,
        })
    }

    fn alloc_zone_locked(&mut self, body: &[u8]) -> Result<Kind, LineFault> {
        let names = ["pfn", "page", "order", "migratetype", "percpu_refill"];
        let fields = Fields::find(Tracepoint::AllocZoneLocked.name(), names, body)?;
        let order = fields.order(2)?;
        Ok(Kind::AllocZoneLocked {
            pfn: fields.pfn_or_none(0, 1)?,
            order,
            migratetype: self.migratetypes.of_list(fields.number(3)?)?,
            // Kernels without this field refill with single pages only.
            percpu_refill: fields.flag_if_there(4)?.unwrap_or(order == Order(0)),
        })
    }
}

/// The frame that a record is about; none for moves, failed requests and reclaim.
const fn pfn_of(kind: &Kind) -> Option<Pfn> {
    match *kind {
        Kind::Alloc { pfn, .. } | Kind::AllocZoneLocked { pfn, .. } => pfn,
        Kind::Free { pfn, .. }
        | Kind::FreeBatched { pfn }
        | Kind::ExtFrag { pfn, .. }
        | Kind::PcpuDrain { pfn, .. } => Some(pfn),
        Kind::Move { .. } | Kind::ReclaimBegin { .. } | Kind::ReclaimEnd { .. } => None,
    }
}
