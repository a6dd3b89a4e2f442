//! Traces as text: what ftrace, `trace-cmd report` and `perf script` print.
//!
//! One pass over the bytes, a line at a time, without regular expressions: a trace of a minute has hundreds of megabytes.
//! Memory is bounded whatever the input: lines, task names and the table of unknown events all have limits. The text
//! need not be UTF-8.
//!
//! What a line is, is told by its shape (`line_format.rs`), the fields of an event by their names (`event_fields.rs`), and what
//! depends on the kernel's version is found out from the trace itself (`values.rs`). Three classes of trouble:
//!
//! * Events that are none of ours are counted by name, and lines that are no events at all are counted.
//! * What the tracer says it lost is counted: a replay of a trace with gaps frees what it has not allocated.
//! * A line of one of our events that cannot be read is an error. The lenient mode counts it instead and goes on.
//!
//! A line that names one of our events is never passed over: if its head cannot be read, that is an error too.
//!
//! A last line without line end is such an error even if it could be read: a cut `order=10` reads well as `order=1`.
//!
//! Not read: the verbose latency format (`... [0000abcd] 0.123ms (+0.001ms):`), and traces whose clock counts ticks.

mod event_fields;
mod line_format;
mod values;

#[cfg(test)]
mod tests;

use std::io::Read;

use framewright::pfn::{CpuId, Order, Pfn};
use framewright::request::Gfp;

use self::event_fields::Fields;
use self::line_format::Head;
pub use self::values::Numbering;
use self::values::{Descriptors, Flags, Mobilities};
use super::error::{Excerpt, Reason, Result, TraceError};
use super::flags::{BitsFault, KernelVersion, Kernels};
use super::input::{LINE_LIMIT, Line, Lines};
use super::record::{CommId, Comms, Kind, Quality, Record};

/// How to read a text trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TextOptions {
    /// Numbers of mobilities; found out from the trace if none.
    pub numbering: Option<Numbering>,
    /// Address of frame 0's page descriptor, for page moves; the usual ones of x86-64 if none.
    pub vmemmap: Option<u64>,
    /// Kernels that the trace can be of, for flags that are printed as numbers; found out from the trace if several.
    pub kernels: Kernels,
    /// Order of a pageblock, where events do not say; 9 if none.
    pub pageblock_order: Option<Order>,
    /// One past the machine's last frame, to check addresses against; not checked if none.
    pub end_pfn: Option<Pfn>,
    /// Whether to count malformed lines and go on, instead of ending with an error at the first.
    pub lenient: bool,
}

/// What is wrong with a line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LineFault {
    /// Longer than any line of a trace.
    #[error("the line is longer than {LINE_LIMIT} bytes; it starts {0}")]
    TooLong(Excerpt),
    /// The last line has no line end.
    #[error("the file ends in the middle of this line")]
    Unterminated,
    /// An event without the columns before it.
    #[error("there is no `task-pid [cpu] seconds:` before the event in {0}")]
    NoHead(Excerpt),
    /// An event of ours inside of what looks like another event.
    #[error("an event of the page allocator is where the fields of another event should be in {0}")]
    Buried(Excerpt),
    /// The trace's clock does not count seconds.
    #[error("the time is no number of seconds in {0}; trace with the clock `local`, `global` or `mono`")]
    Ticks(Excerpt),
    /// A field is not there.
    #[error("{event} has no {field}=")]
    Missing {
        /// The event.
        event: &'static str,
        /// The field.
        field: &'static str,
    },
    /// A field is there twice.
    #[error("{event} has {field}= twice, as if two lines had run together")]
    Repeated {
        /// The event.
        event: &'static str,
        /// The field.
        field: &'static str,
    },
    /// A field is no number.
    #[error("{event} has {field}={text}, which is no number")]
    Number {
        /// The event.
        event: &'static str,
        /// The field.
        field: &'static str,
        /// Its text.
        text: Excerpt,
    },
    /// A field's number is too large.
    #[error("{event} has {field}={value}, above {limit}")]
    Range {
        /// The event.
        event: &'static str,
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The largest that it can have.
        limit: u64,
    },
    /// A flag that no kernel has.
    #[error("gfp_flags has {0}, which is no flag")]
    Flag(Excerpt),
    /// Flags that are printed as a number, which depends on the kernel.
    #[error(transparent)]
    Bits(#[from] BitsFault),
    /// A mobility that no kernel has.
    #[error("there is no mobility with the number {0}")]
    Migratetype(u64),
    /// A request's mobility is not the one that its flags ask for.
    #[error("migratetype={value} is not what {gfp} asks for in the numbering of the lines before; say which it is")]
    Contradiction {
        /// The mobility's number.
        value: u64,
        /// The flags.
        gfp: Gfp,
    },
    /// The numbering turned out to be another one than assumed.
    #[error(
        "this request shows that 1 is reclaimable and 2 movable, but earlier events were read the other way round; say that the kernel is older than 4.4"
    )]
    Numbering,
    /// An address in none of the usual tables of page descriptors.
    #[error(
        "{address:#x} is in no table of page descriptors at one of the usual addresses (the kernel randomises them unless booted with nokaslr); say where frame 0's is"
    )]
    PageTable {
        /// The address.
        address: u64,
    },
    /// An address between two page descriptors.
    #[error("{address:#x} is not the address of a page descriptor: not a multiple of 64 above {base:#x}")]
    Descriptor {
        /// The address.
        address: u64,
        /// Where frame 0's descriptor is.
        base: u64,
    },
    /// A page descriptor's frame is not in the machine, or far above all that the trace has named so far.
    #[error(
        "{address:#x} would be the page descriptor of frame {pfn}, above all others (they end at {end}); say where frame 0's is"
    )]
    FrameAbove {
        /// The address.
        address: u64,
        /// The frame that it would be of.
        pfn: Pfn,
        /// One past the highest frame that is known.
        end: Pfn,
    },
}

/// Reads the records of a text trace, one after the other.
///
/// After an error there is nothing more.
pub struct TextReader<R> {
    lines: Lines<R>,
    file: String,
    lenient: bool,
    parser: Parser,
    quality: Quality,
    ended: bool,
}

impl<R: Read> TextReader<R> {
    /// Reads from `source`, which messages call `file`.
    pub fn new(source: R, file: &str, options: &TextOptions) -> TextReader<R> {
        TextReader {
            lines: Lines::new(source),
            file: file.to_owned(),
            lenient: options.lenient,
            parser: Parser::new(options),
            quality: Quality::default(),
            ended: false,
        }
    }

    /// The names of tasks so far.
    pub fn comms(&self) -> &Comms {
        &self.parser.comms
    }

    /// What the trace was worth so far.
    pub fn quality(&self) -> &Quality {
        &self.quality
    }

    /// Kernels that the whole of the text can be of.
    pub(crate) fn kernels(mut self) -> Kernels {
        self.by_ref().for_each(drop);
        self.parser.flags.kernels()
    }

    /// The next record or the first error.
    fn read(&mut self) -> Result<Option<Record>> {
        loop {
            let line = self.lines.next_line();
            let line = match line {
                Ok(Some(line)) => line,
                Ok(None) => return self.end(),
                Err(error) => return Err(TraceError::at(&self.file, self.lines.number() + 1, error)),
            };
            let found = match line {
                Line::Whole(text) => self.parser.line(text, &mut self.quality),
                Line::Unterminated(text) if self.lenient => self.parser.line(text, &mut self.quality),
                Line::Unterminated(text) => match line_format::classify(text) {
                    line_format::Line::Skip | line_format::Line::Comment(_) => {
                        self.parser.line(text, &mut self.quality)
                    }
                    _ => Err(LineFault::Unterminated),
                },
                Line::TooLong(text) => Err(LineFault::TooLong(Excerpt::new(&text[..40]))),
            };
            self.quality.lines = self.lines.number();
            match found {
                Ok(Some(record)) => return Ok(Some(record)),
                Ok(None) => {}
                Err(fault) => {
                    let error = TraceError::at(&self.file, self.lines.number(), fault);
                    if !self.lenient {
                        return Err(error);
                    }
                    self.quality.malformed_lines += 1;
                    if self.quality.malformed.len() < Quality::MESSAGES {
                        self.quality.malformed.push(error.to_string());
                    }
                }
            }
        }
    }

    fn end(&self) -> Result<Option<Record>> {
        let quality = &self.quality;
        let is_trace =
            quality.records() + quality.unknown_events() + quality.lost_reports + quality.malformed_lines > 0;
        if is_trace || quality.unrecognized_lines == 0 {
            return Ok(None);
        }
        Err(TraceError::new(&self.file, Reason::NotATrace(quality.lines)))
    }
}

impl<R: Read> Iterator for TextReader<R> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        if self.ended {
            return None;
        }
        let next = self.read().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

/// The events that become records.
#[derive(Clone, Copy)]
enum Event {
    Alloc,
    Free,
    FreeBatched,
    Move,
    ExtFrag,
    PcpuDrain,
    AllocZoneLocked,
}

impl Event {
    /// The event called `name`, with the names of older kernels.
    fn named(name: &[u8]) -> Option<Event> {
        Some(match name {
            b"mm_page_alloc" => Event::Alloc,
            b"mm_page_free" | b"mm_page_free_direct" => Event::Free,
            b"mm_page_free_batched" | b"mm_pagevec_free" => Event::FreeBatched,
            b"page_migrate" => Event::Move,
            b"mm_page_alloc_extfrag" => Event::ExtFrag,
            b"mm_page_pcpu_drain" => Event::PcpuDrain,
            b"mm_page_alloc_zone_locked" => Event::AllocZoneLocked,
            _ => return None,
        })
    }

    /// Whether `text` has one of the events somewhere: its name as a word, with a colon or a parenthesis after it.
    fn is_in(text: &[u8]) -> bool {
        let is_part = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
        [&b"mm_page"[..], b"page_migrate"].iter().any(|start| {
            memchr::memmem::find_iter(text, start).any(|at| {
                let is_start = at.checked_sub(1).is_none_or(|before| !is_part(&text[before]));
                let rest = &text[at..text.len().min(at + 32)];
                let end = rest.iter().position(|b| !is_part(b)).unwrap_or(rest.len());
                is_start && matches!(rest.get(end), Some(b':' | b'(')) && Event::named(&rest[..end]).is_some()
            })
        })
    }

    /// Whether events called `name` print what somebody wrote, which can be a line of a trace.
    fn is_note(name: &[u8]) -> bool {
        [&b"tracing_mark_write"[..], b"print", b"bprint", b"bputs", b"bpf_trace_printk", b"raw_data"].contains(&name)
    }
}

/// Turns lines into records.
struct Parser {
    mobilities: Mobilities,
    descriptors: Descriptors,
    flags: Flags,
    pageblock_order: Order,
    comms: Comms,
    /// The last name of some tasks, by the low bits of their numbers.
    tasks: Vec<(Vec<u8>, CommId)>,
    time: u64,
}

impl Parser {
    const TASKS: usize = 64;

    fn new(options: &TextOptions) -> Parser {
        Parser {
            mobilities: Mobilities::new(options.numbering),
            descriptors: Descriptors::new(options.vmemmap, options.end_pfn),
            flags: Flags::new(options.kernels, options.lenient),
            pageblock_order: options.pageblock_order.filter(|order| order.0 != 0).unwrap_or(Order(9)),
            comms: Comms::new(),
            tasks: vec![(Comms::UNKNOWN.into(), CommId::default()); Parser::TASKS],
            time: 0,
        }
    }

    /// The record of a line, if it has one.
    fn line(&mut self, text: &[u8], quality: &mut Quality) -> std::result::Result<Option<Record>, LineFault> {
        match line_format::classify(text) {
            line_format::Line::Event(head, name, body) => match Event::named(name) {
                Some(event) => return self.record(&head, event, body, quality).map(Some),
                None if Event::is_in(body) && !Event::is_note(name) => {
                    return Err(LineFault::Buried(Excerpt::new(text)));
                }
                None if name.is_empty() => quality.count_unknown("(text without a name)"),
                None => quality.count_unknown(&String::from_utf8_lossy(&name[..name.len().min(64)])),
            },
            line_format::Line::Lost(events) => quality.count_lost(events),
            line_format::Line::Comment(text) => {
                quality.skipped_lines += 1;
                self.comment(&String::from_utf8_lossy(text), quality);
            }
            line_format::Line::Skip if Event::is_in(text) => return Err(LineFault::NoHead(Excerpt::new(text))),
            line_format::Line::Skip => quality.skipped_lines += 1,
            line_format::Line::Ticks if Event::is_in(text) => return Err(LineFault::Ticks(Excerpt::new(text))),
            line_format::Line::Unrecognized if Event::is_in(text) => return Err(LineFault::NoHead(Excerpt::new(text))),
            line_format::Line::Ticks | line_format::Line::Unrecognized => quality.unrecognized_lines += 1,
        }
        Ok(None)
    }

    /// What a comment says about the kernel, and about events that were overwritten before they were read.
    fn comment(&mut self, text: &str, quality: &mut Quality) {
        const VERSIONS: [&str; 4] = ["os release :", "Linux version ", "uname:", "uname :"];
        let of_tracer = text.split_once(" trace v").and_then(|(_, rest)| rest.split_once(" on "));
        let said = VERSIONS.iter().find_map(|before| text.split_once(before)).or(of_tracer);
        if let Some(version) = said.and_then(|(_, version)| KernelVersion::find(version)) {
            self.mobilities.kernel(version);
            self.flags.kernel(version);
        } else if let Some((_, counts)) = text.split_once("entries-in-buffer/entries-written:") {
            let count = |text: &str| line_format::decimal(text.as_bytes());
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
        head: &Head<'_>,
        event: Event,
        body: &[u8],
        quality: &mut Quality,
    ) -> std::result::Result<Record, LineFault> {
        let kind = self.kind(event, body, quality)?;
        let comm = self.comm(head);
        let time = head.time.unwrap_or(self.time);
        quality.untimed += u64::from(head.time.is_none());
        quality.time_steps_back += u64::from(time < self.time);
        quality.count(&kind);
        self.time = time;
        Ok(Record { time, pid: head.pid, comm, cpu: CpuId(head.cpu), kind })
    }

    fn comm(&mut self, head: &Head<'_>) -> CommId {
        let Some(name) = head.comm else { return CommId::default() };
        let task = &mut self.tasks[head.pid as usize % Parser::TASKS];
        if task.0 != name {
            task.1 = self.comms.intern_bytes(name);
            task.0.clear();
            task.0.extend_from_slice(&name[..name.len().min(Comms::NAME_LIMIT)]);
        }
        task.1
    }

    fn kind(&mut self, event: Event, body: &[u8], quality: &mut Quality) -> std::result::Result<Kind, LineFault> {
        let kind = match event {
            Event::Alloc => self.alloc(body, quality)?,
            Event::Free => {
                let fields = Fields::find("mm_page_free", ["pfn", "order"], body)?;
                Kind::Free { pfn: fields.pfn(0)?, order: fields.order(1)? }
            }
            Event::FreeBatched => {
                Kind::FreeBatched { pfn: Fields::find("mm_page_free_batched", ["pfn"], body)?.pfn(0)? }
            }
            Event::Move => {
                let fields = Fields::find("page_migrate", ["old", "new"], body)?;
                let (old, new) = (self.descriptors.pfn(fields.number(0)?)?, self.descriptors.pfn(fields.number(1)?)?);
                return Ok(Kind::Move { old, new });
            }
            Event::ExtFrag => self.ext_frag(body)?,
            Event::PcpuDrain => {
                let fields = Fields::find("mm_page_pcpu_drain", ["pfn", "order", "migratetype"], body)?;
                let migratetype = self.mobilities.of_list(fields.number(2)?)?;
                Kind::PcpuDrain { pfn: fields.pfn(0)?, order: fields.order(1)?, migratetype }
            }
            Event::AllocZoneLocked => self.alloc_zone_locked(body)?,
        };
        if let Some(pfn) = pfn_of(&kind) {
            self.descriptors.seen(pfn);
        }
        Ok(kind)
    }

    fn alloc(&mut self, body: &[u8], quality: &mut Quality) -> std::result::Result<Kind, LineFault> {
        let names = ["pfn", "page", "order", "migratetype", "gfp_flags"];
        let fields = Fields::find("mm_page_alloc", names, body)?;
        let (pfn, order, number) = (fields.pfn_or_none(0, 1)?, fields.order(2)?, fields.number(3)?);
        // What prints a page's address prints the frame as the kernel does: as a decimal number before Linux 5.15.
        if fields.text(1).is_ok() && fields.text(0)?.starts_with(b"0x") {
            self.flags.since(KernelVersion::new(5, 1));
        }
        if let Some(numbering) = self.mobilities.known() {
            self.flags.numbering(numbering);
        }
        let (gfp, tells) = self.flags.read(fields.text(4)?, number, quality)?;
        let migratetype = self.mobilities.of_request(number, gfp, tells)?;
        Ok(Kind::Alloc { pfn, order, migratetype, gfp })
    }

    fn ext_frag(&mut self, body: &[u8]) -> std::result::Result<Kind, LineFault> {
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
        let fields = Fields::find("mm_page_alloc_extfrag", names, body)?;
        let fallback_order = fields.order(2)?;
        // A tool that does not know the order of a pageblock prints neither or 0: `fragmenting` is worked out when printing.
        let pageblock_order = fields.order_if_there(3)?.filter(|order| order.0 != 0).unwrap_or(self.pageblock_order);
        Ok(Kind::ExtFrag {
            pfn: fields.pfn(0)?,
            alloc_order: fields.order(1)?,
            fallback_order,
            pageblock_order,
            alloc_migratetype: self.mobilities.of_list(fields.number(4)?)?,
            fallback_migratetype: self.mobilities.of_list(fields.number(5)?)?,
            fragmenting: fields.flag_if_there(6)?.unwrap_or(fallback_order < pageblock_order),
            change_ownership: fields.flag(7)?,
        })
    }

    fn alloc_zone_locked(&mut self, body: &[u8]) -> std::result::Result<Kind, LineFault> {
        let names = ["pfn", "page", "order", "migratetype", "percpu_refill"];
        let fields = Fields::find("mm_page_alloc_zone_locked", names, body)?;
        let order = fields.order(2)?;
        Ok(Kind::AllocZoneLocked {
            pfn: fields.pfn_or_none(0, 1)?,
            order,
            migratetype: self.mobilities.of_list(fields.number(3)?)?,
            // Kernels that do not say so refill with single pages only.
            percpu_refill: fields.flag_if_there(4)?.unwrap_or(order == Order(0)),
        })
    }
}

/// The frame that a record is about, none for moves and what failed.
const fn pfn_of(kind: &Kind) -> Option<Pfn> {
    match *kind {
        Kind::Alloc { pfn, .. } | Kind::AllocZoneLocked { pfn, .. } => pfn,
        Kind::Free { pfn, .. }
        | Kind::FreeBatched { pfn }
        | Kind::ExtFrag { pfn, .. }
        | Kind::PcpuDrain { pfn, .. } => Some(pfn),
        Kind::Move { .. } => None,
    }
}
