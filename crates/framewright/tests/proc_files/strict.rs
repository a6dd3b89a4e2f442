//! Readers of the files, as strict as the strictest in the field.
//!
//! For buddyinfo and zoneinfo these are the rules of Prometheus' procfs. Fields are split on blanks. The node and the
//! zone are found by position or by the pattern `N, zone NAME`. Every line has the same number of columns, a new zone
//! begins at `\nNode`, and the protection is split at ", " between parentheses. A line that those readers would skip in
//! silence is an error here.

use framewright::units::Order;

/// A line with a count for each order, or for each type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    pub node: u64,
    pub zone: String,
    /// Only in the first table of pagetypeinfo.
    pub ty: Option<String>,
    pub counts: Vec<u64>,
}

impl Row {
    /// The largest order of a line by order.
    pub(crate) fn max_order(&self) -> Order {
        Order(self.counts.len().saturating_sub(1) as u8)
    }
}

/// The part of pagetypeinfo that belongs to a node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct PageTypes {
    pub pageblock_order: u64,
    pub pages_per_block: u64,
    pub free: Vec<Row>,
    pub types: Vec<String>,
    pub blocks: Vec<Row>,
    pub mixed: Option<Vec<Row>>,
}

/// A zone of zoneinfo.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Zone {
    pub node: u64,
    pub name: String,
    /// The lines below `per-node stats`, if there is such a heading.
    pub node_counters: Option<Vec<(String, u64)>>,
    /// Every other line of a name and a number in its order, those of the per-CPU lists aside.
    pub values: Vec<(String, u64)>,
    pub protection: Vec<u64>,
    /// cpu, count, high, batch, threshold.
    pub pagesets: Vec<[u64; 5]>,
}

impl Zone {
    pub(crate) fn value(&self, name: &str) -> u64 {
        self.values.iter().find(|(have, _)| have == name).map_or(0, |&(_, value)| value)
    }

    /// The counters of others: the lines between the free frames and those of CMA.
    pub(crate) fn counters_of_others(&self) -> Vec<(String, u64)> {
        let after = self.values.iter().skip_while(|(name, _)| name != "nr_free_pages").skip(1);
        after.take_while(|(name, _)| name != "nr_free_cma" && name != "numa_hit").cloned().collect()
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("not a number: {text:?}"))
}

fn numbers<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Vec<u64>, String> {
    texts.into_iter().map(number).collect()
}

/// `Node N, zone NAME[, type TYPE] COUNT ...`, with `>` allowed before a count of the typed form.
fn row(line: &str, is_typed: bool) -> Result<Row, String> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (head, counts) = fields.split_at_checked(if is_typed { 6 } else { 4 }).ok_or(format!("too short: {line:?}"))?;
    if head[0] != "Node" || !head[1].ends_with(',') || head[2] != "zone" || is_typed && head[4] != "type" {
        return Err(format!("not a line of a zone: {line:?}"));
    }
    Ok(Row {
        node: number(head[1].trim_end_matches(','))?,
        zone: head[3].trim_end_matches(',').to_string(),
        ty: head.get(5).map(|ty| ty.to_string()),
        counts: numbers(counts.iter().map(|count| if is_typed { count.trim_start_matches('>') } else { count }))?,
    })
}

/// Rows of equal length from `lines` up to an empty line, the end, or another heading.
fn rows(
    lines: &mut std::iter::Peekable<std::str::Lines<'_>>,
    is_typed: bool,
    columns: usize,
) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    while let Some(line) = lines.next_if(|line| line.starts_with("Node ")) {
        let row = row(line, is_typed)?;
        if row.counts.len() != columns {
            return Err(format!("{} columns instead of {columns}: {line:?}", row.counts.len()));
        }
        rows.push(row);
    }
    Ok(rows)
}

pub(crate) fn buddyinfo(text: &str) -> Result<Vec<Row>, String> {
    let rows = text.lines().map(|line| row(line, false)).collect::<Result<Vec<_>, _>>()?;
    match rows.iter().find(|row| row.counts.len() != rows[0].counts.len()) {
        Some(odd) => Err(format!("bucket counts differ: {odd:?}")),
        None => Ok(rows),
    }
}

pub(crate) fn pagetypeinfo(text: &str) -> Result<Vec<PageTypes>, String> {
    let mut lines = text.lines().peekable();
    let mut nodes = Vec::new();
    while lines.peek().is_some() {
        let mut take = |prefix: &str| match lines.next() {
            Some(line) => Ok(line.strip_prefix(prefix).ok_or(format!("{prefix:?} expected: {line:?}"))?.trim_start()),
            None => Err(format!("{prefix:?} expected at the end")),
        };
        let mut part = PageTypes {
            pageblock_order: number(take("Page block order: ")?)?,
            pages_per_block: number(take("Pages per block: ")?)?,
            ..PageTypes::default()
        };
        take("")?;
        let orders = numbers(take("Free pages count per migrate type at order ")?.split_whitespace())?;
        if orders != (0..orders.len() as u64).collect::<Vec<_>>() {
            return Err(format!("orders: {orders:?}"));
        }
        part.free = rows(&mut lines, true, orders.len())?;
        while lines.next_if(|line| line.is_empty()).is_some() {
            let heading = lines.next().unwrap_or_default();
            let (is_mixed, types) = if let Some(types) = heading.strip_prefix("Number of blocks type ") {
                (false, types)
            } else {
                (true, heading.strip_prefix("Number of mixed blocks ").ok_or(format!("a heading? {heading:?}"))?)
            };
            part.types = types.split_whitespace().map(str::to_string).collect();
            let table = rows(&mut lines, false, part.types.len())?;
            if is_mixed { part.mixed = Some(table) } else { part.blocks = table }
        }
        nodes.push(part);
    }
    Ok(nodes)
}

pub(crate) fn zoneinfo(text: &str) -> Result<Vec<Zone>, String> {
    let text = text.strip_prefix("Node").ok_or("starts with no node")?;
    text.split("\nNode").map(zone).collect()
}

fn zone(block: &str) -> Result<Zone, String> {
    let mut lines = block.lines();
    let head = lines.next().unwrap_or_default();
    let (node, name) = head.split_once(", zone").ok_or(format!("no zone: {head:?}"))?;
    let mut zone = Zone { node: number(node.trim())?, name: name.trim().to_string(), ..Zone::default() };
    for line in lines {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let pageset = |zone: &mut Zone, field: usize, value: &str| -> Result<(), String> {
            zone.pagesets.last_mut().ok_or(format!("before any cpu: {line:?}"))?[field] = number(value)?;
            Ok(())
        };
        match fields[..] {
            ["per-node", "stats"] => zone.node_counters = Some(Vec::new()),
            ["pagesets"] => {}
            ["pages", "free", value] => zone.values.push(("free".to_string(), number(value)?)),
            ["protection:", ..] => {
                let list = line.trim().strip_prefix("protection: (").and_then(|list| list.strip_suffix(')'));
                zone.protection = numbers(list.ok_or(format!("protection: {line:?}"))?.split(", "))?;
            }
            ["cpu:", cpu] => zone.pagesets.push([number(cpu)?, 0, 0, 0, 0]),
            ["count:", value] => pageset(&mut zone, 1, value)?,
            ["high:", value] => pageset(&mut zone, 2, value)?,
            ["batch:", value] => pageset(&mut zone, 3, value)?,
            ["vm", "stats", "threshold:", value] => pageset(&mut zone, 4, value)?,
            [name, value] => {
                let pair = (name.trim_end_matches(':').to_string(), number(value)?);
                // A line before the zone's own first line belongs to the node.
                let counters = zone.node_counters.as_mut().filter(|_| zone.values.is_empty());
                counters.unwrap_or(&mut zone.values).push(pair);
            }
            _ => return Err(format!("neither a name nor a number: {line:?}")),
        }
    }
    Ok(zone)
}

pub(crate) fn vmstat(text: &str) -> Result<Vec<(String, u64)>, String> {
    let pair = |line: &str| match line.split_once(' ') {
        Some((name, value)) => Ok((name.to_string(), number(value)?)),
        None => Err(format!("no number: {line:?}")),
    };
    text.lines().map(pair).collect()
}
