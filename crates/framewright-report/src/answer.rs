//! The whole answer to a report: what was asked for, the decision, the verdict and what would have helped.

use framewright::Gfp;
use framewright::request::{
    __GFP_DIRECT_RECLAIM, __GFP_KSWAPD_RECLAIM, __GFP_NOFAIL, __GFP_NORETRY, __GFP_NOWARN, __GFP_RETRY_MAYFAIL,
    __GFP_THISNODE, GFP_ATOMIC, GFP_DMA32, GFP_HIGHUSER_MOVABLE, GFP_KERNEL,
};
use framewright_table::figures::thousands;
use serde::Serialize;

use crate::decision::{Case, Decision, Excluded, MarkName, Outcome, Query, Rights, ZoneAnswer, ZoneCase, decide};
use crate::memory::Zone;
use crate::remedies::{Remedy, remedies};
use crate::report::{Asked, Context, Kind, Report};
use crate::trial::Trial;

/// Why the verdict is as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Every zone lacks frames to keep its mark.
    Watermark,
    /// A zone keeps its mark and has no block of the order.
    Fragmentation,
    /// The order is above the largest block that the kernel manages.
    Order,
    /// A memory control group reached its limit.
    Group,
    /// The OOM killer was called by hand.
    ByHand,
    /// The handler of page faults called the OOM killer.
    PageFault,
    /// No zone with memory is allowed.
    NoZone,
    /// A zone serves the request.
    Served,
    /// `vmalloc` found no addresses; zones serve its pages.
    Addresses,
    /// `vmalloc` was asked for nothing, or for more than the machine has.
    Size,
    /// What is free is reserved for others, or isolated.
    Reserved,
    /// The report does not have what decides.
    Unknown,
}

/// The verdict.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Verdict {
    /// Whether the request fails.
    pub outcome: Outcome,
    /// Why.
    pub cause: Cause,
    /// One sentence.
    pub sentence: String,
}

/// The request in words.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct AskedFor {
    /// Binary logarithm of the number of frames.
    pub order: u8,
    /// Flags by names.
    pub flags: String,
    /// Flags that could not be read, and do not count.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// What the flags mean, each in a few words.
    pub words: Vec<String>,
}

/// The answer to a report.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Answer {
    /// First line of the report, counted from 1.
    pub line: u64,
    /// What the report is about.
    pub kind: Kind,
    /// Name of the task.
    pub task: Option<String>,
    /// Release of the kernel.
    pub release: Option<String>,
    /// Bytes of a frame.
    pub page_size: Option<u64>,
    /// Whether an interrupt made the request.
    pub context: Context,
    /// The request; `None` for a state alone.
    pub asked: Option<AskedFor>,
    /// The zones of a state without a request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<Zone>,
    /// The decision; `None` without a request or zones.
    pub decision: Option<Decision>,
    /// Frames on per-CPU lists: of all CPUs, and of the reporting one; `None` if the report does not say.
    pub cached: Option<(u64, Option<u64>)>,
    /// The verdict.
    pub verdict: Verdict,
    /// What would have helped; those that help come first.
    pub remedies: Vec<Remedy>,
    /// For a state without a request: what it would serve.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub largest: Vec<Largest>,
    /// The request on our allocator.
    pub tries: Vec<Trial>,
    /// What the report lacks or garbles.
    pub missing: Vec<String>,
}

/// The largest order that a state serves to one kind of request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Largest {
    /// Flags of the request.
    pub flags: &'static str,
    /// The order that is surely served; `None` if not even one frame is.
    pub order: Option<u8>,
    /// The order that is served if everything unknown is in the request's favour.
    pub at_best: Option<u8>,
}

/// Requests that a state without one is tried with.
const USUAL: [(&str, Gfp); 4] = [
    ("GFP_KERNEL", GFP_KERNEL),
    ("GFP_ATOMIC", GFP_ATOMIC),
    ("GFP_HIGHUSER_MOVABLE", GFP_HIGHUSER_MOVABLE),
    ("GFP_KERNEL|GFP_DMA32", Gfp(GFP_KERNEL.0 | GFP_DMA32.0)),
];

/// Returns the largest order that the state of a report serves to the usual kinds of requests.
fn largest(report: &Report) -> Vec<Largest> {
    let orders = report.memory.zones.iter().map(|zone| zone.orders.len()).max().unwrap_or(0);
    let tried = |gfp: Gfp, order: u8| {
        let report = Report { asked: Some(Asked::new(gfp, order)), ..report.clone() };
        Query::of(&report).map_or(Outcome::Fails, |query| decide(&report.memory, &query).outcome)
    };
    let largest = |(flags, gfp)| {
        let outcomes: Vec<Outcome> = (0..orders as u8).map(|order| tried(gfp, order)).collect();
        let last = |is: &dyn Fn(Outcome) -> bool| outcomes.iter().rposition(|&outcome| is(outcome)).map(|at| at as u8);
        let order = last(&|outcome| outcome == Outcome::Succeeds);
        Largest { flags, order, at_best: last(&|outcome| outcome != Outcome::Fails) }
    };
    USUAL.into_iter().map(largest).collect()
}

/// Answers a report.
pub fn answer(report: &Report) -> Answer {
    let query = Query::of(report);
    let has_zones = !report.memory.zones.is_empty();
    let decision = query.as_ref().filter(|_| has_zones).map(|query| decide(&report.memory, query));
    let case = decision.as_ref().and_then(|decision| decision.cases.first());
    let verdict = verdict(report, query.as_ref(), decision.as_ref());
    use Cause::{Addresses, ByHand, Group, Order, PageFault, Size};
    let is_theirs = !matches!(verdict.cause, Group | ByHand | PageFault | Order | Addresses | Size);
    let remedies = match (&query, case) {
        (Some(query), Some(case)) if is_theirs && verdict.outcome != Outcome::Succeeds => remedies(report, query, case),
        _ => Vec::new(),
    };
    let frames = |number: &dyn Fn(&Zone) -> Option<u64>| {
        report.memory.zones.iter().filter_map(number).reduce(u64::saturating_add)
    };
    Answer {
        line: report.line,
        kind: report.kind,
        task: report.task.clone(),
        release: report.release.clone(),
        page_size: report.memory.page_size,
        context: match (&query, report.context) {
            // Only a task waits; the trace of an interrupt is another CPU's.
            (Some(query), Context::Interrupt) if query.gfp.contains(__GFP_DIRECT_RECLAIM) => Context::Task,
            (_, context) => context,
        },
        asked: query.as_ref().map(|query| asked_for(report, query, case)),
        cached: frames(&|zone| zone.free_pcp).map(|all| (all, frames(&|zone| zone.local_pcp))),
        zones: if query.is_none() { report.memory.zones.clone() } else { Vec::new() },
        missing: missing(report, query.as_ref(), decision.as_ref()),
        decision,
        verdict,
        remedies,
        largest: if query.is_none() && has_zones { largest(report) } else { Vec::new() },
        tries: Vec::new(),
    }
}

/// Puts a request into words.
fn asked_for(report: &Report, query: &Query, case: Option<&Case>) -> AskedFor {
    let gfp = query.gfp;
    let mut words: Vec<String> = Vec::new();
    let mut say = |is_so: bool, text: &str| {
        if is_so {
            words.push(text.to_owned());
        }
    };
    let waits = gfp.contains(__GFP_DIRECT_RECLAIM);
    say(waits, "may sleep and reclaim");
    say(!waits && gfp.contains(__GFP_KSWAPD_RECLAIM), "may not sleep, wakes background reclaim");
    say(!waits && !gfp.contains(__GFP_KSWAPD_RECLAIM), "may not sleep, wakes nobody");
    say(waits && gfp.contains(__GFP_NORETRY), "gives up early");
    say(waits && gfp.contains(__GFP_RETRY_MAYFAIL) && !gfp.contains(__GFP_NORETRY), "retries, then fails");
    say(
        waits && query.order > 3 && !gfp.intersects(__GFP_NORETRY | __GFP_RETRY_MAYFAIL | __GFP_NOFAIL),
        "fails after one round of reclaim and compaction, since its order is above 3",
    );
    say(gfp.contains(__GFP_NOFAIL), "may not fail");
    say(gfp.contains(__GFP_NOWARN), "wants no report");
    say(gfp.contains(__GFP_THISNODE), "from one node only");
    let is_bound = matches!(report.constraint.as_deref(), Some("CONSTRAINT_MEMORY_POLICY" | "CONSTRAINT_CPUSET"))
        || case.is_some_and(|case| case.zones.iter().any(|zone| zone.excluded == Some(Excluded::Node)));
    if let Some(nodes) = &query.nodes
        && is_bound
        && nodes.len() < 8
    {
        let nodes: Vec<String> = nodes.iter().map(u32::to_string).collect();
        words.push(format!("from node {}", nodes.join(", ")));
    }
    if query.mark == MarkName::High {
        words.push("the last try before the kill keeps the whole high mark".to_owned());
    } else if let Some(case) = case {
        words.push(case.rights.in_words().to_owned());
    }
    AskedFor { order: query.order, flags: gfp.to_string(), left_out: query.left_out.clone(), words }
}

fn verdict(report: &Report, query: Option<&Query>, decision: Option<&Decision>) -> Verdict {
    let say = |outcome, cause, sentence: &str| Verdict { outcome, cause, sentence: sentence.to_owned() };
    if report.kind == Kind::OomByHand {
        let sentence = "the OOM killer was called by hand (SysRq-f); no request failed";
        return say(Outcome::Depends, Cause::ByHand, sentence);
    }
    if report.is_of_group() {
        let sentence = "fails by the limit of a memory control group: the machine's zones do not decide";
        return say(Outcome::Fails, Cause::Group, sentence);
    }
    if report.is_of_page_fault() {
        let sentence = "the handler of page faults called the OOM killer; it asked the allocator for nothing";
        return say(Outcome::Depends, Cause::PageFault, sentence);
    }
    let Some(query) = query else {
        let sentence = "nothing was asked for: --order and --gfp name a request to try on this state";
        return say(Outcome::Depends, Cause::Unknown, sentence);
    };
    let Some((decision, case)) = decision.and_then(|decision| Some((decision, decision.cases.first()?))) else {
        let is_bound = query.nodes.is_some() && report.memory.ram.is_some();
        if report.memory.zones.is_empty() && is_bound {
            let sentence = "would fail: the nodes that it may use have no zone with memory";
            return say(Outcome::Fails, Cause::NoZone, sentence);
        }
        let sentence = "cannot be decided: the report ends before the lines of the zones";
        return say(Outcome::Depends, Cause::Unknown, sentence);
    };
    let (cause, why) = why(report, query, case, decision.outcome);
    if report.kind == Kind::Vmalloc
        && let Some(verdict) = vmalloc(report, cause)
    {
        return verdict;
    }
    let sentence = match decision.outcome {
        Outcome::Fails if report.kind == Kind::State && query.gfp.contains(__GFP_DIRECT_RECLAIM) => {
            format!("would fail, unless reclaim or compaction helps: {why}")
        }
        Outcome::Fails if report.unread.iter().any(|text| text.ends_with("no line of its own")) => {
            format!("would fail in the zones whose lines are there: {why}")
        }
        Outcome::Fails => format!("would fail: {why}"),
        Outcome::Succeeds => format!("would succeed with these numbers: {why}"),
        Outcome::Depends => format!("depends on what the report does not say; most likely: {why}"),
    };
    Verdict { outcome: decision.outcome, cause, sentence }
}

/// Returns the verdict on a `vmalloc` that did not fail for a lack of pages.
fn vmalloc(report: &Report, cause: Cause) -> Option<Verdict> {
    let bytes = report.vmalloc.bytes;
    let all = report.memory.ram.map(|frames| frames.saturating_mul(report.memory.page_kib() * 1024));
    let (cause, sentence) = match (bytes, all) {
        (Some(0), _) if !report.vmalloc.lacked_pages => {
            (Cause::Size, "fails: vmalloc was asked for 0 bytes, a mistake of its caller".to_owned())
        }
        (Some(bytes), Some(all)) if bytes > all => {
            let (asked, all) = (thousands(bytes / 1024), thousands(all / 1024));
            (Cause::Size, format!("fails: vmalloc was asked for {asked} KiB, and the machine has {all}"))
        }
        _ if cause == Cause::Served && !report.vmalloc.lacked_pages => {
            (Cause::Addresses, "fails: zones serve its pages, so vmalloc found no free addresses".to_owned())
        }
        _ => return None,
    };
    Some(Verdict { outcome: Outcome::Fails, cause, sentence })
}

/// Returns the cause, and the reason in words.
fn why(report: &Report, query: &Query, case: &Case, outcome: Outcome) -> (Cause, String) {
    let name = |zone: &ZoneCase| format!("{} {}", zone.node, zone.name);
    // That the request failed is evidence: then what is unknown was against it.
    let is_against = outcome == Outcome::Depends && matches!(report.kind, Kind::Failure | Kind::Oom);
    let answer_of = |zone: &ZoneCase| if is_against { zone.account.worst } else { zone.account.best };
    if let Some((zone, block)) = case.asked().find_map(|zone| match answer_of(zone) {
        ZoneAnswer::Serves { block } => Some((zone, block)),
        _ => None,
    }) {
        let after = match (outcome, report.kind) {
            (Outcome::Succeeds, Kind::Failure | Kind::Oom | Kind::Stall | Kind::Vmalloc) => {
                "; memory became free after the try, or a limit that the report does not show applied"
            }
            _ => "",
        };
        return (Cause::Served, format!("zone {} has a block of order {block} above its mark{after}", name(zone)));
    }
    if case.asked().next().is_none() {
        return (Cause::NoZone, "no zone of the nodes and the kind that it may use has memory".to_owned());
    }
    let largest = report.memory.zones.iter().map(|zone| zone.orders.len()).max().unwrap_or(0);
    if largest > 0 && usize::from(query.order) >= largest {
        return (Cause::Order, format!("order {} is above {}, the largest of this kernel", query.order, largest - 1));
    }
    let blocked = case.asked().filter(|zone| matches!(answer_of(zone), ZoneAnswer::NoBlock));
    if let Some(zone) = blocked.max_by_key(|zone| spare(zone)) {
        let spare = thousands(spare(zone).max(0));
        if query.order == 0 {
            let reserved = "all that is free there is reserved for others or isolated";
            return (Cause::Reserved, format!("zone {} has {spare} frames to spare, but {reserved}", name(zone)));
        }
        let order = query.order;
        return (
            Cause::Fragmentation,
            format!("zone {} has {spare} frames to spare, but no block of order {order}", name(zone)),
        );
    }
    let split = case.asked().find_map(|zone| match answer_of(zone) {
        ZoneAnswer::ShortOfOrder { order, by } => Some((zone, order, by)),
        _ => None,
    });
    if let Some((zone, order, by)) = split {
        let by = thousands(by);
        return (
            Cause::Fragmentation,
            format!("zone {} lacks {by} frames in blocks of order {order} or larger", name(zone)),
        );
    }
    let short: Vec<String> = case
        .asked()
        .filter_map(|zone| match answer_of(zone) {
            ZoneAnswer::Short { by } => Some(format!("{} by {}", name(zone), thousands(by))),
            _ => None,
        })
        .collect();
    let shown = short.iter().take(4).cloned().collect::<Vec<_>>().join(", ");
    let more = if short.len() > 4 { ", …" } else { "" };
    match short.len() {
        1 => (Cause::Watermark, format!("the only zone that it may use lacks frames to keep its mark: {shown}")),
        _ => (Cause::Watermark, format!("every zone that it may use lacks frames to keep its mark: {shown}{more}")),
    }
}

/// Returns the frames of a zone above what the request must leave, if everything unknown is in its favour.
pub(crate) fn spare(zone: &ZoneCase) -> i64 {
    let account = &zone.account;
    let usable = i128::from(account.free)
        - i128::from(account.of_the_block)
        - i128::from(account.highatomic.least)
        - i128::from(account.cma.least);
    let spare = usable - i128::from(account.keep) - i128::from(account.reserve.least) - 1;
    spare.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

/// Names what the report lacks, with what follows from it.
fn missing(report: &Report, query: Option<&Query>, decision: Option<&Decision>) -> Vec<String> {
    let mut missing = report.unread.clone();
    let zones = &report.memory.zones;
    if let Some(query) = query {
        if !query.left_out.is_empty() {
            missing.push(format!("flags {} could not be read and do not count", query.left_out.join(", ")));
        }
        let waits = query.gfp.contains(__GFP_DIRECT_RECLAIM);
        if report.context == Context::Unknown && !waits && query.memalloc.len() > 1 {
            missing.push("no call trace: kswapd may have been interrupted by the request or have made it".to_owned());
        }
    }
    if report.memory.page_size.is_none() && !zones.is_empty() {
        missing.push("no lists of free blocks: pages count as 4 KiB, and a block of any order as there".to_owned());
    }
    let is_old = report.memory.kernel.is_none();
    let has_cases = decision.is_some_and(|decision| decision.cases.len() > 1);
    if is_old && (has_cases || query.is_none() && !zones.is_empty()) {
        missing.push("no version of the kernel: --kernel VERSION gives it".to_owned());
    }
    let Some(case) = decision.and_then(|decision| decision.cases.first()) else { return missing };
    for (bounds, what) in [
        (case.asked().find(|zone| !zone.account.reserve.is_exact()).map(|zone| zone.account.reserve), "lowmem_reserve"),
        (
            case.asked().find(|zone| !zone.account.highatomic.is_exact()).map(|zone| zone.account.highatomic),
            "the reserve for high orders",
        ),
        (case.asked().find(|zone| !zone.account.cma.is_exact()).map(|zone| zone.account.cma), "free CMA"),
    ] {
        if let Some(bounds) = bounds {
            let (least, most) = (thousands(bounds.least), thousands(bounds.most));
            missing.push(format!("without {what} the answer lies between {least} and {most} frames of it"));
        }
    }
    let cases = decision.map_or(&[][..], |decision| &decision.cases);
    for other in cases.iter().skip(1).take(2) {
        let differs = if other.rules_since == case.rules_since {
            if other.memalloc { "if kswapd made the request" } else { "if the request interrupted kswapd" }.to_owned()
        } else {
            format!("by the rules since {}", other.rules_since)
        };
        let outcome = match other.outcome {
            Outcome::Fails => "it would fail as well",
            Outcome::Succeeds => "it would succeed",
            Outcome::Depends => "it depends",
        };
        missing.push(format!("{differs}, {outcome}, {}", Rights::in_words(other.rights)));
    }
    missing
}
