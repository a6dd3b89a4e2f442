//! A line as words.
//!
//! `parse.rs` and `shape.rs` read lines with it. Words are separated by blanks. Each is read as what the grammar wants
//! next; an error says what was wanted and what was found.

use framewright::{CpuId, Gfp, MigrateType, NodeId, NodeSet, Order, Pfn, PfnRange, ZoneIdx, ZoneKind};

/// Why a line is wrong, without its number.
pub(crate) type Reason = String;

/// The words of a line that are not read yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'t> {
    rest: &'t str,
}

impl<'t> Words<'t> {
    pub(crate) fn new(line: &'t str) -> Words<'t> {
        Words { rest: line.trim() }
    }

    /// Returns the next word without reading it.
    pub(crate) fn peek(&self) -> Option<&'t str> {
        self.rest.split_whitespace().next()
    }

    /// Reads a word; `wanted` describes it for the error.
    pub(crate) fn word(&mut self, wanted: &str) -> Result<&'t str, Reason> {
        let word = self.peek().ok_or_else(|| format!("the line ends where {wanted} should be"))?;
        self.rest = self.rest[word.len()..].trim_start();
        Ok(word)
    }

    /// Reads this word if it comes next; returns whether it does.
    pub(crate) fn takes(&mut self, word: &str) -> bool {
        let comes = self.peek() == Some(word);
        if comes {
            self.rest = self.rest[word.len()..].trim_start();
        }
        comes
    }

    /// Reads exactly this word.
    pub(crate) fn keyword(&mut self, keyword: &str) -> Result<(), Reason> {
        let word = self.word(&format!("`{keyword}`"))?;
        if word == keyword { Ok(()) } else { Err(format!("`{word}` where `{keyword}` should be")) }
    }

    /// Checks that nothing is left.
    pub(crate) fn end(self) -> Result<(), Reason> {
        if self.rest.is_empty() { Ok(()) } else { Err(format!("`{}` is too much", self.rest)) }
    }

    /// Returns all that is left.
    pub(crate) fn rest(self) -> &'t str {
        self.rest
    }

    /// Reads a number that fits `T`, decimal or hexadecimal with `0x`.
    pub(crate) fn number<T: TryFrom<u64>>(&mut self, wanted: &str) -> Result<T, Reason> {
        let word = self.word(wanted)?;
        number(word).ok_or_else(|| format!("`{word}` where {wanted} should be"))
    }

    /// Reads a decimal number with or without a minus.
    pub(crate) fn signed(&mut self, wanted: &str) -> Result<i64, Reason> {
        let word = self.word(wanted)?;
        let value = if word.starts_with('+') { None } else { word.parse().ok() };
        value.ok_or_else(|| format!("`{word}` where {wanted} should be"))
    }

    pub(crate) fn order(&mut self) -> Result<Order, Reason> {
        self.number("an order").map(Order)
    }

    pub(crate) fn cpu(&mut self) -> Result<CpuId, Reason> {
        self.number("a CPU's number").map(CpuId)
    }

    /// Reads `on` or `off`.
    pub(crate) fn on_or_off(&mut self) -> Result<bool, Reason> {
        match self.word("`on` or `off`")? {
            "on" => Ok(true),
            "off" => Ok(false),
            word => Err(format!("`{word}` where `on` or `off` should be")),
        }
    }

    pub(crate) fn pfn(&mut self) -> Result<Pfn, Reason> {
        self.number("a frame number").map(Pfn)
    }

    /// Reads `START..END`.
    pub(crate) fn range(&mut self) -> Result<PfnRange, Reason> {
        let word = self.word("a range")?;
        let parts = word.split_once("..").and_then(|(start, end)| Some((number(start)?, number(end)?)));
        let (start, end) = parts.ok_or_else(|| format!("`{word}` where a range such as 0x10..0x20 should be"))?;
        Ok(PfnRange::new(start, end))
    }

    pub(crate) fn node(&mut self) -> Result<NodeId, Reason> {
        let node = NodeId(self.number("a node's number")?);
        if node.index() < NodeId::LIMIT {
            Ok(node)
        } else {
            Err(format!("node {} is above the largest, {}", node.0, NodeId::LIMIT - 1))
        }
    }

    /// Reads `0,3`, `all` or `none`.
    pub(crate) fn nodes(&mut self) -> Result<NodeSet, Reason> {
        let word = self.word("a set of nodes")?;
        let wrong = || format!("`{word}` where a set of nodes such as 0,3 should be");
        match word {
            "all" => Ok(NodeSet::ALL),
            "none" => Ok(NodeSet(0)),
            _ => word.split(',').try_fold(NodeSet(0), |set, node| {
                let node = number(node).filter(|&node: &u8| node < 64).ok_or_else(wrong)?;
                Ok(set.with(NodeSet::only(NodeId(node))))
            }),
        }
    }

    pub(crate) fn gfp(&mut self) -> Result<Gfp, Reason> {
        let word = self.word("flags such as GFP_KERNEL")?;
        Gfp::parse(word).map_err(|part| format!("`{part}` is no flag of a request"))
    }

    pub(crate) fn zone_kind(&mut self) -> Result<ZoneKind, Reason> {
        let word = self.word("a zone")?;
        let kind = ZoneKind::ALL.into_iter().find(|kind| kind.name() == word);
        kind.ok_or_else(|| format!("`{word}` where a zone (DMA, DMA32, Normal, Movable) should be"))
    }

    /// Reads `NODE ZONE`.
    pub(crate) fn zone(&mut self) -> Result<ZoneIdx, Reason> {
        Ok(ZoneIdx::of(self.node()?, self.zone_kind()?))
    }

    pub(crate) fn migratetype(&mut self) -> Result<MigrateType, Reason> {
        let word = self.word("a type")?;
        let found = MigrateType::ALL.into_iter().find(|migratetype| migratetype.name() == word);
        found.ok_or_else(|| format!("`{word}` where a type such as Movable should be"))
    }

    /// Reads all that is left as numbers.
    pub(crate) fn numbers<T: TryFrom<u64>>(&mut self, wanted: &str) -> Result<Vec<T>, Reason> {
        let mut numbers = Vec::new();
        while self.peek().is_some() {
            numbers.push(self.number(wanted)?);
        }
        Ok(numbers)
    }
}

/// Reads a number, decimal or hexadecimal with `0x`.
pub(crate) fn number<T: TryFrom<u64>>(word: &str) -> Option<T> {
    let value = match word.strip_prefix("0x") {
        Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).ok(),
        Some(_) => None,
        None if word.starts_with('+') => None,
        None => word.parse().ok(),
    };
    T::try_from(value?).ok()
}
