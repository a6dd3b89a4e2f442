//! Decodes an event's bytes into one of our records, or a task's name.

use std::collections::HashMap;

use framewright::request::Gfp;
use framewright::units::{MigrateType, Order, Pfn};

use super::event_format::{Field, Format};
use super::print_fmt::FlagNames;
use crate::error::{Excerpt, RawFault, RawResult};
use crate::record::{Kind, Tracepoint};
use crate::struct_page::{PFN_LIMIT, frame_at};

/// The most sets of flags that are cached.
const REMEMBERED: usize = 1 << 12;

/// The recorded kernel's numbers of mobilities, and the size of its pageblocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mobilities {
    /// Mobilities by the kernel's number.
    pub by_number: Vec<MigrateType>,
    /// Order of a pageblock.
    pub pageblock_order: Order,
}

/// An event, and the thread that it happened in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DecodedEvent {
    /// The thread.
    pub pid: u32,
    /// The event.
    pub payload: Payload,
}

/// The content of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Payload {
    /// An event of the page allocator.
    Page(Kind),
    /// A task got a name.
    Name {
        /// The task.
        pid: u32,
        /// Its name.
        name: Box<[u8]>,
    },
    /// An event that was not described.
    Other,
    /// A page move between addresses of no frames.
    ///
    /// The probe reads the arguments of its function, whatever they are, so this is no fault of the page.
    Odd(RawFault),
}

/// The places of an event's fields, by kind.
#[derive(Clone, Debug)]
enum Places {
    Alloc { pfn: Field, order: Field, migratetype: Field, gfp: Field },
    Free { pfn: Field, order: Field },
    FreeBatched { pfn: Field },
    Move { old: Field, new: Field, base: Field },
    ExtFrag { pfn: Field, alloc: Field, fallback: Field, wanted: Field, found: Field, ownership: Field },
    PcpuDrain { pfn: Field, order: Field, migratetype: Field },
    AllocZoneLocked { pfn: Field, order: Field, migratetype: Field, refill: Option<Field> },
    ReclaimBegin { order: Field },
    ReclaimEnd { reclaimed: Field },
    Name { pid: Option<Field>, name: Field },
}

/// Reads the bytes of events.
#[derive(Clone, Debug)]
pub struct Decoder {
    kind: Field,
    pid: Field,
    events: HashMap<u64, Places>,
    mobilities: Mobilities,
    flags: FlagNames,
    known: HashMap<u64, Gfp>,
}

impl Mobilities {
    /// Reads `pagetypeinfo`, which lists the mobilities by their numbers.
    ///
    /// # Errors
    /// It has no mobility, or one that no kernel has.
    pub fn parse(text: &str) -> RawResult<Mobilities> {
        let order = text.lines().find_map(|line| line.strip_prefix("Page block order:"));
        let mut by_number = Vec::new();
        for name in text.lines().filter_map(|line| line.split(", type").nth(1)?.split_whitespace().next()) {
            let known = MigrateType::ALL.into_iter().find(|mobility| mobility.name() == name);
            let fault = || RawFault::Expected { expected: "a mobility", found: Excerpt::new(name.as_bytes()) };
            match known.ok_or_else(fault)? {
                // The rows of the next zone begin.
                known if by_number.contains(&known) => break,
                known => by_number.push(known),
            }
        }
        if by_number.is_empty() {
            return Err(RawFault::Missing { what: "pagetypeinfo".into(), field: "type" });
        }
        let order = order.and_then(|order| order.trim().parse().ok()).filter(|&order| order <= Order::LIMIT.0);
        Ok(Mobilities { by_number, pageblock_order: Order(order.unwrap_or(9)) })
    }

    fn get(&self, value: u64) -> RawResult<MigrateType> {
        let found = usize::try_from(value).ok().and_then(|value| self.by_number.get(value).copied());
        found.ok_or(RawFault::Value { field: "migratetype", value })
    }
}

impl Default for Mobilities {
    /// Those of Linux 4.4 and later, built with contiguous memory areas.
    fn default() -> Mobilities {
        Mobilities { by_number: MigrateType::ALL.to_vec(), pageblock_order: Order(9) }
    }
}

impl Decoder {
    /// Reads events of these kinds.
    ///
    /// # Errors
    /// There is no kind, one is none of those that are read, or lacks a field.
    pub fn new(formats: &[Format], mobilities: Mobilities) -> RawResult<Decoder> {
        let first = formats.first().ok_or(RawFault::Missing { what: "the trace".into(), field: "event" })?;
        let mut decoder = Decoder {
            kind: first.number("common_type")?,
            pid: first.number("common_pid")?,
            events: HashMap::new(),
            mobilities,
            flags: FlagNames::default(),
            known: HashMap::new(),
        };
        for format in formats {
            decoder.events.insert(format.id, places(format)?);
            if format.name == Tracepoint::Alloc.name() {
                decoder.flags = FlagNames::parse(&format.print);
            }
        }
        Ok(decoder)
    }

    /// Decodes an event's bytes.
    ///
    /// # Errors
    /// The bytes are too few, or a value is impossible.
    pub fn decode(&mut self, event: &[u8]) -> RawResult<DecodedEvent> {
        let kind = number(&self.kind, "common_type", event)?;
        let pid = number(&self.pid, "common_pid", event)? as u32;
        let Some(places) = self.events.get(&kind) else { return Ok(DecodedEvent { pid, payload: Payload::Other }) };
        let payload = match places {
            Places::Name { pid: other, name } => {
                let text = name.bytes(event).ok_or(RawFault::NoField { field: "comm", found: event.len() })?;
                let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
                let pid = other.as_ref().and_then(|other| other.number(event)).map_or(pid, |pid| pid as u32);
                Payload::Name { pid, name: text[..end].into() }
            }
            Places::Alloc { pfn, order: size, migratetype, gfp } => {
                let bits = number(gfp, "gfp_flags", event)?;
                let gfp = match self.known.get(&bits) {
                    Some(&gfp) => gfp,
                    None => {
                        let gfp = self.flags.gfp(bits);
                        if self.known.len() < REMEMBERED {
                            self.known.insert(bits, gfp);
                        }
                        gfp
                    }
                };
                Payload::Page(Kind::Alloc {
                    pfn: frame_or_none(pfn, event)?,
                    order: order(size, event)?,
                    migratetype: self.mobilities.get(number(migratetype, "migratetype", event)?)?,
                    gfp,
                })
            }
            Places::Move { old, new, base } => {
                let base = number(base, "base", event)?;
                let (old, new) = (number(old, "old", event)?, number(new, "new", event)?);
                match (described(old, base), described(new, base)) {
                    (Ok(old), Ok(new)) => Payload::Page(Kind::Move { old, new }),
                    (Err(fault), _) | (_, Err(fault)) => Payload::Odd(fault),
                }
            }
            places => Payload::Page(self.other(places, event)?),
        };
        Ok(DecodedEvent { pid, payload })
    }

    /// The record of an event that is neither an allocation nor a move.
    fn other(&self, places: &Places, event: &[u8]) -> RawResult<Kind> {
        let mobility = |field: &Field| self.mobilities.get(number(field, "migratetype", event)?);
        Ok(match places {
            Places::Free { pfn, order: size } => Kind::Free { pfn: frame(pfn, event)?, order: order(size, event)? },
            Places::FreeBatched { pfn } => Kind::FreeBatched { pfn: frame(pfn, event)? },
            Places::ExtFrag { pfn, alloc, fallback, wanted, found, ownership } => {
                let pageblock_order = self.mobilities.pageblock_order;
                let fallback_order = order(fallback, event)?;
                Kind::ExtFrag {
                    pfn: frame(pfn, event)?,
                    alloc_order: order(alloc, event)?,
                    fallback_order,
                    pageblock_order,
                    alloc_migratetype: mobility(wanted)?,
                    fallback_migratetype: mobility(found)?,
                    fragmenting: fallback_order < pageblock_order,
                    change_ownership: number(ownership, "change_ownership", event)? != 0,
                }
            }
            Places::PcpuDrain { pfn, order: size, migratetype } => Kind::PcpuDrain {
                pfn: frame(pfn, event)?,
                order: order(size, event)?,
                migratetype: mobility(migratetype)?,
            },
            Places::AllocZoneLocked { pfn, order: size, migratetype, refill } => {
                let order = order(size, event)?;
                let refill = refill.as_ref().map(|refill| number(refill, "percpu_refill", event)).transpose()?;
                Kind::AllocZoneLocked {
                    pfn: frame_or_none(pfn, event)?,
                    order,
                    migratetype: mobility(migratetype)?,
                    // Kernels without this field refill with single pages only.
                    percpu_refill: refill.map_or(order == Order(0), |refill| refill != 0),
                }
            }
            Places::ReclaimBegin { order: size } => Kind::ReclaimBegin { order: order(size, event)? },
            Places::ReclaimEnd { reclaimed } => {
                Kind::ReclaimEnd { reclaimed: number(reclaimed, "nr_reclaimed", event)? }
            }
            Places::Alloc { .. } | Places::Move { .. } | Places::Name { .. } => {
                return Err(RawFault::Value { field: "kind", value: 0 });
            }
        })
    }
}

/// Finds the fields of an event.
fn places(format: &Format) -> RawResult<Places> {
    let number = |name| format.number(name);
    let tracepoint = match format.name.as_str() {
        "task_newtask" => return Ok(Places::Name { pid: number("pid").ok(), name: format.field("comm")? }),
        "task_rename" => return Ok(Places::Name { pid: number("pid").ok(), name: format.field("newcomm")? }),
        name => Tracepoint::named(name.as_bytes()),
    };
    let unknown = || RawFault::UnknownEvent(Excerpt::new(format.name.as_bytes()));
    Ok(match tracepoint.ok_or_else(unknown)? {
        Tracepoint::Alloc => Places::Alloc {
            pfn: number("pfn")?,
            order: number("order")?,
            migratetype: number("migratetype")?,
            gfp: number("gfp_flags")?,
        },
        Tracepoint::Free => Places::Free { pfn: number("pfn")?, order: number("order")? },
        Tracepoint::FreeBatched => Places::FreeBatched { pfn: number("pfn")? },
        Tracepoint::Move => Places::Move { old: number("old")?, new: number("new")?, base: number("base")? },
        Tracepoint::ExtFrag => Places::ExtFrag {
            pfn: number("pfn")?,
            alloc: number("alloc_order")?,
            fallback: number("fallback_order")?,
            wanted: number("alloc_migratetype")?,
            found: number("fallback_migratetype")?,
            ownership: number("change_ownership")?,
        },
        Tracepoint::PcpuDrain => {
            Places::PcpuDrain { pfn: number("pfn")?, order: number("order")?, migratetype: number("migratetype")? }
        }
        Tracepoint::AllocZoneLocked => Places::AllocZoneLocked {
            pfn: number("pfn")?,
            order: number("order")?,
            migratetype: number("migratetype")?,
            refill: number("percpu_refill").ok(),
        },
        Tracepoint::ReclaimBegin => Places::ReclaimBegin { order: number("order")? },
        Tracepoint::ReclaimEnd => Places::ReclaimEnd { reclaimed: number("nr_reclaimed")? },
    })
}

fn number(field: &Field, name: &'static str, event: &[u8]) -> RawResult<u64> {
    field.number(event).ok_or(RawFault::NoField { field: name, found: event.len() })
}

fn order(field: &Field, event: &[u8]) -> RawResult<Order> {
    let value = number(field, "order", event)?;
    let order = u8::try_from(value).ok().map(Order).filter(|&order| order <= Order::LIMIT);
    order.ok_or(RawFault::Value { field: "order", value })
}

fn frame(field: &Field, event: &[u8]) -> RawResult<Pfn> {
    let value = number(field, "pfn", event)?;
    if value < PFN_LIMIT { Ok(Pfn(value)) } else { Err(RawFault::Value { field: "pfn", value }) }
}

/// The frame of a request; none if it failed, which is a number of all ones.
fn frame_or_none(field: &Field, event: &[u8]) -> RawResult<Option<Pfn>> {
    if number(field, "pfn", event)? == u64::MAX { Ok(None) } else { frame(field, event).map(Some) }
}

/// The frame whose descriptor is at `address`, where frame 0's is at `base`.
fn described(address: u64, base: u64) -> RawResult<Pfn> {
    let pfn = frame_at(address, base).filter(|&pfn| pfn < PFN_LIMIT).map(Pfn);
    pfn.ok_or(RawFault::Value { field: "descriptor", value: address })
}
