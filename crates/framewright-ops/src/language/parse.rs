//! Reads the lines that `op.rs` prints.

use std::str::FromStr;

use framewright::machine::Fault;
use framewright::{Policy, ZoneIdx};

use crate::language::assertion;
use crate::language::counter::Counter;
use crate::language::op::{Handle, OnMigrate, OnReclaim, Op, Place, Terms};
use crate::language::row::{COLUMNS, Row, trim};
use crate::language::words::{Reason, Words, number};

impl FromStr for Op {
    type Err = Reason;

    /// Reads one operation, without comment or expected outcome.
    fn from_str(line: &str) -> Result<Op, Reason> {
        if let Some(stated) = line.trim_start().strip_prefix(assertion::SIGN) {
            return stated.parse().map(Op::Assert);
        }
        let mut words = Words::new(line);
        let op = op(&mut words)?;
        words.end()?;
        Ok(op)
    }
}

fn op(words: &mut Words<'_>) -> Result<Op, Reason> {
    let first = words.word("an operation")?;
    if let Some(name) = handle(first) {
        words.keyword("=")?;
        return defining(name, words);
    }
    Ok(match first {
        "free" => Op::Free(handle_of(words)?),
        "free-nolock" => Op::FreeNolock(handle_of(words)?),
        "free-part" => {
            let handle = handle_of(words)?;
            Op::FreePart { handle, skip: words.number("frames to skip")?, frames: words.number("a number of frames")? }
        }
        "free-blocks" => {
            let (handle, migratetype) = (handle_of(words)?, words.migratetype()?);
            let blocks = blocks(words)?;
            Op::FreeBlocks { handle, migratetype, blocks }
        }
        "split" => {
            let handle = handle_of(words)?;
            words.keyword("order")?;
            Op::Split { handle, to: words.order()? }
        }
        "raw-free" => {
            let place = place(words)?;
            words.keyword("order")?;
            Op::RawFree { place, order: words.order()? }
        }
        "raw-free-range" => Op::RawFreeRange { place: place(words)?, frames: words.number("a number of frames")? },
        "raw-split" => raw_split(words)?,
        "drain" if words.takes("all") => Op::DrainAll,
        "drain" => {
            words.keyword("cpu")?;
            Op::DrainCpu(words.cpu()?)
        }
        "offline-cpu" => Op::OfflineCpu(words.cpu()?),
        "online-cpu" => Op::OnlineCpu(words.cpu()?),
        "refresh" => Op::Refresh(words.cpu()?),
        "balance" => Op::Balance(words.node()?),
        "compact" => Op::Compact(words.node()?),
        "count" => {
            let counter = counter(words)?;
            words.keyword("by")?;
            Op::Count { counter, change: words.signed("a change")? }
        }
        "numa-stat" => Op::NumaStat(words.on_or_off()?),
        "run-on" => Op::RunOn(words.cpu()?),
        "local" => Op::Local(words.on_or_off()?),
        "trace" => Op::Trace(words.on_or_off()?),
        "take-offline" => Op::TakeOffline(words.range()?),
        "bring-online" => Op::BringOnline(words.range()?),
        "add-memory" => Op::AddMemory(words.range()?),
        "type" => Op::SetType { pfn: words.pfn()?, migratetype: words.migratetype()? },
        "fault" => Op::Fault { point: fault(words)?, hit: words.number("which time it fails")? },
        "on-reclaim" => Op::OnReclaim(on_reclaim(words)?),
        "on-migrate" => Op::OnMigrate(on_migrate(words)?),
        "expect" => Op::Expect(row(words)?),
        "validate" => Op::Validate,
        other => return Err(format!("`{other}` is no operation")),
    })
}

/// Reads an operation after `aN =`.
fn defining(name: Handle, words: &mut Words<'_>) -> Result<Op, Reason> {
    Ok(match words.word("an operation that allocates")? {
        "alloc" => {
            words.keyword("order")?;
            Op::Alloc { name, order: words.order()?, terms: terms(words)? }
        }
        "alloc-nolock" => {
            words.keyword("order")?;
            Op::AllocNolock { name, order: words.order()?, terms: terms(words)? }
        }
        "bulk" => {
            let count = bulk_count(words)?;
            words.keyword("order")?;
            Op::Bulk { name, count, order: words.order()?, terms: terms(words)? }
        }
        "alloc-at" => {
            let pfn = words.pfn()?;
            words.keyword("order")?;
            Op::AllocAt { name, pfn, order: words.order()?, gfp: words.gfp()? }
        }
        "alloc-range" => Op::AllocRange { name, range: words.range()?, gfp: words.gfp()? },
        "alloc-contig" => {
            let frames = words.number("a number of frames")?;
            words.keyword("align")?;
            Op::AllocContig { name, frames, align: words.order()?, terms: terms(words)? }
        }
        other => return Err(format!("`{other}` is no operation that allocates")),
    })
}

/// How many blocks one `bulk` may ask for: the run keeps room for their frame numbers.
const MAX_BULK: u32 = 1_000_000;

fn bulk_count(words: &mut Words<'_>) -> Result<u32, Reason> {
    let wanted = format!("at most {MAX_BULK} blocks");
    let word = words.word(&wanted)?;
    let count = number(word).filter(|&count| count <= MAX_BULK);
    count.ok_or_else(|| format!("`{word}` where {wanted} should be"))
}

fn raw_split(words: &mut Words<'_>) -> Result<Op, Reason> {
    let place = place(words)?;
    words.keyword("order")?;
    let from = words.order()?;
    words.keyword("to")?;
    Ok(Op::RawSplit { place, from, to: words.order()? })
}

/// Reads a handle: an `a` and nothing but digits after it.
fn handle(word: &str) -> Option<Handle> {
    let digits = word.strip_prefix('a')?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok().map(Handle)).flatten()
}

fn handle_of(words: &mut Words<'_>) -> Result<Handle, Reason> {
    let word = words.word("a handle such as a3")?;
    handle(word).ok_or_else(|| format!("`{word}` where a handle such as a3 should be"))
}

fn place(words: &mut Words<'_>) -> Result<Place, Reason> {
    let word = words.word("a frame or a handle")?;
    let (base, skip) = word.split_once('+').unwrap_or((word, "0"));
    let place = match handle(base) {
        Some(handle) => number(skip).map(|skip| Place::In(handle, skip)),
        None if base == word => number(base).map(|pfn| Place::At(framewright::Pfn(pfn))),
        None => None,
    };
    place.ok_or_else(|| format!("`{word}` where a frame (0x400) or a place in a handle (a3+1) should be"))
}

fn terms(words: &mut Words<'_>) -> Result<Terms, Reason> {
    let mut terms = Terms::new(words.gfp()?);
    if words.takes("on") {
        terms.policy = Policy::Prefer(framewright::NodeId(words.number("a node's number")?));
    } else if words.takes("bind") {
        terms.policy = Policy::Bind(words.nodes()?);
    } else if words.takes("interleave") {
        terms.policy = Policy::Interleave(words.nodes()?);
    }
    if words.takes("below") {
        terms.below = Some(words.pfn()?);
    }
    Ok(terms)
}

fn counter(words: &mut Words<'_>) -> Result<Counter, Reason> {
    const INDEX: &str = "a counter's number";
    if words.takes("zone") {
        return Ok(Counter::Zone(words.zone()?, words.number(INDEX)?));
    }
    words.keyword("node")?;
    Ok(Counter::Node(words.node()?, words.number(INDEX)?))
}

fn fault(words: &mut Words<'_>) -> Result<Fault, Reason> {
    let word = words.word("a fault point")?;
    let found = Fault::ALL.into_iter().find(|point| format!("{point:?}") == word);
    found.ok_or_else(|| format!("`{word}` is no fault point"))
}

fn on_reclaim(words: &mut Words<'_>) -> Result<OnReclaim, Reason> {
    Ok(match words.word("what reclaim does")? {
        "fail" => OnReclaim::Fail,
        "lie" => OnReclaim::Lie,
        "free" => OnReclaim::Free(words.number("a number of blocks")?),
        "nest" => OnReclaim::Nest,
        "drain" => OnReclaim::Drain,
        other => return Err(format!("reclaim cannot `{other}`")),
    })
}

fn on_migrate(words: &mut Words<'_>) -> Result<OnMigrate, Reason> {
    let word = words.word("what migration does")?;
    let found = OnMigrate::NAMES.iter().find(|(name, _)| *name == word);
    found.map(|(_, choice)| *choice).ok_or_else(|| format!("migration cannot `{word}`"))
}

impl FromStr for Row {
    type Err = Reason;

    /// Reads a row; see `row.rs` for its forms.
    fn from_str(line: &str) -> Result<Row, Reason> {
        row(&mut Words::new(line))
    }
}

fn row(words: &mut Words<'_>) -> Result<Row, Reason> {
    if words.takes("pageblock") {
        let row = Row::Pageblock { pfn: words.pfn()?, migratetype: words.migratetype()? };
        return words.end().map(|()| row);
    }
    // The commas of the notation belong to the words before them.
    let plain = words.rest().replace(',', " ");
    *words = Words::new("");
    let mut words = Words::new(&plain);
    words.keyword("Node")?;
    let node = words.node()?;
    words.keyword("zone")?;
    let zone = ZoneIdx::of(node, words.zone_kind()?);
    if words.takes("boost") {
        let row = Row::Boost { zone, frames: words.number("a number of frames")? };
        return words.end().map(|()| row);
    }
    if words.takes("cpu") {
        let cpu = words.cpu()?;
        words.keyword("count")?;
        let row = Row::Pcp { zone, cpu, count: words.number("a number of frames")? };
        return words.end().map(|()| row);
    }
    words.keyword("type")?;
    let migratetype = words.migratetype()?;
    Ok(Row::Free { zone, migratetype, blocks: blocks(&mut words)? })
}

/// Reads numbers of blocks by order, without zeros at the end.
fn blocks(words: &mut Words<'_>) -> Result<Vec<u64>, Reason> {
    let mut blocks = words.numbers("a number of blocks")?;
    if blocks.len() > COLUMNS {
        return Err(format!("a row has at most {COLUMNS} columns"));
    }
    trim(&mut blocks);
    Ok(blocks)
}
