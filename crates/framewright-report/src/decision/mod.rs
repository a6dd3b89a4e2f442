//! The kernel's decision, computed from a report.
//!
//! The slow path of the allocator asks each zone that the request may use, from the highest down:
//!
//! ```text
//! free - (2^order - 1) - reserve for high orders - free CMA  >  part of the mark + lowmem_reserve[highest zone]
//! ```
//!
//! What does not count, and which part of the mark counts, depends on the request's flags and on the kernel
//! (`rules.rs`). Above order 0 the zone must also have a block that the request may take. The last try before the OOM
//! killer acts keeps the whole high mark.
//!
//! A number that the report lacks has bounds. If both ends give one answer, the answer is certain. So is it if all
//! kernels that the report can be of agree ([`Case`]).

mod rules;
mod zone;
mod zones;

use framewright::Gfp;
use framewright::request::{__GFP_DIRECT_RECLAIM, __GFP_HIGH, __GFP_THISNODE};
use framewright_trace::flags::{KernelVersion, Kernels};
use serde::Serialize;

pub use self::rules::{Rights, Rules};
pub(crate) use self::zone::usable;
pub use self::zone::{Account, Bounds, MarkName, ZoneAnswer};
use self::zone::{Question, account};
pub(crate) use self::zones::{configured, highest, rank};
use crate::memory::{ListType, Memory, Zone};
use crate::report::{Context, Kind, Report};

/// The answer to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// No zone serves it.
    Fails,
    /// A zone serves it.
    Succeeds,
    /// It depends on what the report does not say.
    Depends,
}

/// A request, as the decision needs it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Query {
    /// Flags.
    pub gfp: Gfp,
    /// Flags that could not be read.
    pub left_out: Vec<String>,
    /// Binary logarithm of the number of frames.
    pub order: u8,
    /// Nodes that may serve it; `None` for all.
    pub nodes: Option<Vec<u32>>,
    /// Whether the report says that it failed.
    ///
    /// A request for one node then was for a node that does not serve it: the report names none.
    pub has_failed: bool,
    /// The mark of the last try.
    pub mark: MarkName,
    /// Rules of the kernels that it can be of, the most likely first.
    pub rules: Vec<Rules>,
    /// Whether the task may be freeing memory (`PF_MEMALLOC`), the most likely first.
    pub memalloc: Vec<bool>,
}

/// Returns the oldest and the first too young kernel that can have printed a report.
fn age(report: &Report) -> (KernelVersion, Option<KernelVersion>) {
    let zones = &report.memory.zones;
    let has = |field: &dyn Fn(&Zone) -> bool| zones.iter().any(field);
    let holds = |wanted: ListType| {
        has(&|zone: &Zone| zone.orders.iter().any(|free| free.types.is_some_and(|types| types.contains(wanted))))
    };
    let names = report.asked.as_ref().is_some_and(|asked| asked.names.is_some());
    let oldest = [
        (has(&|zone| zone.free_highatomic.is_some()), (6, 12)),
        (has(&|zone| zone.boost.is_some()), (5, 9)),
        (names || holds(ListType::HighAtomic) || has(&|zone| zone.reserved_highatomic.is_some()), (4, 4)),
        (has(&|zone| zone.free_cma.is_some()), (3, 7)),
    ];
    let oldest =
        oldest.into_iter().find(|(is_so, _)| *is_so).map(|(_, (major, minor))| KernelVersion::new(major, minor));
    let has_number_alone = report.asked.as_ref().is_some_and(|asked| asked.names.is_none() && asked.number.is_some());
    let youngest = [(holds(ListType::Reserve), KernelVersion::new(4, 4)), (has_number_alone, KernelVersion::new(4, 6))];
    let youngest = youngest.into_iter().find(|(is_so, _)| *is_so).map(|(_, version)| version);
    let youngest = youngest.into_iter().chain(report.before).min();
    (oldest.unwrap_or(KernelVersion { major: 2, minor: 6, patch: 32 }), youngest)
}

impl Query {
    /// Makes the query of a report; `None` if it names no request.
    pub fn of(report: &Report) -> Option<Query> {
        let asked = report.asked.as_ref()?;
        let (oldest, youngest) = age(report);
        let kernels = match report.memory.kernel {
            Some(version) => Kernels::of(version),
            // A number without names is of a kernel before 4.6, most likely before 4.4, where bits moved.
            None if asked.names.is_none() => Kernels::ALL.before(KernelVersion::new(4, 4)).since(oldest),
            None => youngest.map_or(Kernels::ALL, |end| Kernels::ALL.before(end)).since(oldest),
        };
        let flags = asked.flags(kernels);
        let mut rules = Rules::candidates(report.memory.kernel, oldest);
        if let (None, Some(end)) = (report.memory.kernel, youngest) {
            let older: Vec<Rules> = rules.iter().copied().filter(|rules| rules.since() < end).collect();
            rules = if older.is_empty() { rules } else { older };
        }
        let is_kswapd = report.task.as_deref().is_some_and(|task| task.starts_with("kswapd"));
        let memalloc = match (is_kswapd, report.context) {
            (true, Context::Unknown) => vec![true, false],
            (true, Context::Task) => vec![true],
            _ => vec![false],
        };
        // A request that cannot wait and has priority ignores its task's cpuset.
        let ignores_cpuset = !flags.gfp.contains(__GFP_DIRECT_RECLAIM) && flags.gfp.contains(__GFP_HIGH);
        let allowed = asked.mems_allowed.clone().filter(|_| !ignores_cpuset);
        let nodes = match (asked.nodemask.clone(), allowed) {
            (Some(mask), Some(allowed)) => Some(mask.into_iter().filter(|node| allowed.contains(node)).collect()),
            (mask, allowed) => mask.or(allowed),
        };
        Some(Query {
            gfp: flags.gfp,
            left_out: flags.left_out,
            order: asked.order?,
            nodes,
            has_failed: report.kind == Kind::Failure,
            mark: if report.kind == Kind::Oom { MarkName::High } else { MarkName::Min },
            rules,
            memalloc,
        })
    }

    /// Returns the rights of the last try under these rules.
    fn rights(&self, rules: Rules, memalloc: bool) -> Rights {
        match self.mark {
            MarkName::Min => Rights::of(rules, self.gfp, self.order, memalloc),
            MarkName::High => Rights::of_last_try(),
        }
    }
}

/// Why a zone is not asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Excluded {
    /// The flags ask for lower zones.
    Zone,
    /// The memory policy or the cpuset excludes its node.
    Node,
    /// It manages no memory.
    Empty,
    /// Its node serves the request, which failed: the node that it was for is another.
    Serving,
}

/// One zone in a case.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ZoneCase {
    /// Node of the zone.
    pub node: u32,
    /// Name of the zone.
    pub name: String,
    /// Why it is not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excluded: Option<Excluded>,
    /// Its account.
    #[serde(flatten)]
    pub account: Account,
}

impl ZoneCase {
    /// Returns whether this is the case of `zone`.
    pub fn is_of(&self, zone: &Zone) -> bool {
        self.node == zone.node && self.name == zone.name
    }
}

/// The decision under one assumption.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Case {
    /// The first kernel with the rules used.
    #[serde(serialize_with = "as_text")]
    pub rules_since: KernelVersion,
    /// Whether the task counts as freeing memory.
    pub memalloc: bool,
    /// What the request may take.
    pub rights: Rights,
    /// The zones in the order in which they are asked, within each node.
    pub zones: Vec<ZoneCase>,
    /// The answer.
    pub outcome: Outcome,
}

fn as_text<S: serde::Serializer>(version: &KernelVersion, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(version)
}

impl Case {
    /// Returns the zones that are asked.
    pub fn asked(&self) -> impl Iterator<Item = &ZoneCase> {
        self.zones.iter().filter(|zone| zone.excluded.is_none())
    }
}

/// The decision about a request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Decision {
    /// One decision for each assumption that changes a number; the most likely first.
    pub cases: Vec<Case>,
    /// The answer on which all cases agree.
    pub outcome: Outcome,
}

/// Decides about a request. A query without rules has no case, and depends.
pub fn decide(memory: &Memory, query: &Query) -> Decision {
    let mut cases: Vec<Case> = Vec::new();
    for &rules in &query.rules {
        for &memalloc in &query.memalloc {
            let case = case(memory, query, rules, memalloc);
            if cases.iter().all(|other| other.zones != case.zones) {
                cases.push(case);
            }
        }
    }
    let first = cases.first().map_or(Outcome::Depends, |case| case.outcome);
    let agree = cases.iter().all(|case| case.outcome == first);
    Decision { cases, outcome: if agree { first } else { Outcome::Depends } }
}

fn case(memory: &Memory, query: &Query, rules: Rules, memalloc: bool) -> Case {
    let rights = query.rights(rules, memalloc);
    let configured = configured(memory);
    let highest = highest(query.gfp, &configured);
    let mut zones: Vec<ZoneCase> = Vec::new();
    for zone in &memory.zones {
        let reserve = reserve(memory, zone, &configured, highest);
        let excluded = if zone.managed == Some(0) {
            Some(Excluded::Empty)
        } else if rank(&zone.name) > rank(highest) {
            Some(Excluded::Zone)
        } else if query.nodes.as_ref().is_some_and(|nodes| !nodes.contains(&zone.node)) {
            Some(Excluded::Node)
        } else {
            None
        };
        let of = |rights| account(zone, &Question { rules, rights, mark: query.mark, order: query.order, reserve });
        let ordinary = of(rights.ordinary());
        let account = if rights.no_watermarks && !ordinary.worst.serves() { of(rights.reserves()) } else { ordinary };
        zones.push(ZoneCase { node: zone.node, name: zone.name.clone(), excluded, account });
    }
    zones.sort_by_key(|zone| (zone.node, std::cmp::Reverse(rank(&zone.name))));
    let on_one_node = query.gfp.contains(__GFP_THISNODE);
    if on_one_node && query.has_failed {
        leave_failing(&mut zones);
    }
    let outcome = outcome(&zones, on_one_node);
    Case { rules_since: rules.since(), memalloc, rights, zones, outcome }
}

/// Returns the frames that a zone keeps from requests whose highest zone is `highest`.
///
/// Without the report's list it is between nothing and Linux's formula: the memory of the zones above, divided by 256,
/// by 32 for Normal.
fn reserve(memory: &Memory, zone: &Zone, configured: &[&str], highest: &str) -> Bounds {
    let column = configured.iter().position(|&name| name == highest);
    if let Some(reserve) = &zone.lowmem_reserve {
        let column = column.unwrap_or(0).min(reserve.len().saturating_sub(1));
        return Bounds::exact(reserve.get(column).copied().unwrap_or(0));
    }
    let above = |other: &&Zone| {
        other.node == zone.node && rank(&other.name) > rank(&zone.name) && rank(&other.name) <= rank(highest)
    };
    let managed = memory.zones.iter().filter(above).filter_map(|zone| zone.size());
    let ratio = if zone.name == "Normal" { 32 } else { 256 };
    Bounds { least: 0, most: managed.fold(0, u64::saturating_add) / ratio }
}

/// Leaves only the nodes that fail, if some do, for a request that was for one of them and failed.
fn leave_failing(zones: &mut [ZoneCase]) {
    let fails: Vec<u32> =
        nodes_of(zones).into_iter().filter(|&node| of_node(zones, Some(node)) == Outcome::Fails).collect();
    if fails.is_empty() {
        return;
    }
    for zone in zones.iter_mut().filter(|zone| !fails.contains(&zone.node)) {
        zone.excluded.get_or_insert(Excluded::Serving);
    }
}

/// Returns the nodes with a zone that is asked.
fn nodes_of(zones: &[ZoneCase]) -> Vec<u32> {
    let mut nodes: Vec<u32> = zones.iter().filter(|zone| zone.excluded.is_none()).map(|zone| zone.node).collect();
    nodes.dedup();
    nodes
}

/// Returns the answer of all zones together; `on_one_node`: only one node is asked, and it is not known which.
fn outcome(zones: &[ZoneCase], on_one_node: bool) -> Outcome {
    if !on_one_node {
        return of_node(zones, None);
    }
    let mut outcomes = nodes_of(zones).into_iter().map(|node| of_node(zones, Some(node)));
    let first = outcomes.next().unwrap_or(Outcome::Fails);
    if outcomes.all(|outcome| outcome == first) { first } else { Outcome::Depends }
}

/// Returns the answer of the zones of a node, or of all.
fn of_node(zones: &[ZoneCase], node: Option<u32>) -> Outcome {
    let (mut best, mut worst) = (false, false);
    for zone in zones.iter().filter(|zone| zone.excluded.is_none() && node.is_none_or(|node| node == zone.node)) {
        best |= zone.account.best.serves();
        worst |= zone.account.worst.serves();
    }
    match (best, worst) {
        (_, true) => Outcome::Succeeds,
        (true, false) => Outcome::Depends,
        (false, false) => Outcome::Fails,
    }
}
