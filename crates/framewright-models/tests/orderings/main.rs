//! Every ordering, wait and fence of the core and of the runtime is needed: a model fails when it is one step weaker.
//!
//! The sites are found in the sources. The table of `docs/memory-ordering.md` names for each site the models that fail
//! without it, of which the first runs here. Where no program can tell, the table gives the reason.
//!
//! [`search`] is for use by hand: it weakens sites and runs every model that meets them.

mod sites;
mod table;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use framewright_models::explore::{self, Outcome};
use framewright_models::models;
use framewright_models::session::{Place, Plant, is_in_core};

use crate::sites::Site;
use crate::table::Row;

/// Heading of the core's table.
const CORE: &str = "## The table";
/// Heading of the runtime's table.
const RUNTIME: &str = "## The table of the runtime";
/// The runtime's file that translates the core's orderings to the standard library's, one by one.
const TRANSLATION: &str = "words.rs";
/// Most weaker orderings of the core that no model finds. Waits are not counted: the machine has none that is relaxed.
const SURVIVORS: usize = 8;
/// Most weaker orderings of the runtime that no model finds, but for fences of the compiler.
const RUNTIME_SURVIVORS: usize = 9;

fn core() -> Vec<Site> {
    sites::of_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../framewright/src"), &[])
}

fn runtime() -> Vec<Site> {
    sites::of_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../framewright-rt/src"), &[TRANSLATION])
}

fn plant(site: &Site, weaker: &str) -> Plant {
    let (_, ordering) = site.orders.weaker().into_iter().find(|(name, _)| *name == weaker).expect("it is weaker");
    let (line, column) = site.at;
    Plant::Weaken(Place { file: site.file.clone().leak(), line: line as u32, column: column as u32 }, ordering)
}

/// Returns what the table lacks, and what it has too many of.
fn differences(sites: &[Site], rows: &[Row]) -> Vec<String> {
    let of_site = |site: &Site| {
        let (function, call) = (site.function.clone(), site.call.clone());
        site.orders.weaker().into_iter().map(move |(weaker, _)| format!("`{function}` | `{call}` | {weaker}"))
    };
    let wanted: Vec<String> = sites.iter().flat_map(of_site).collect();
    let written: Vec<String> =
        rows.iter().map(|row| format!("`{}` | `{}` | {}", row.function, row.call, row.weaker)).collect();
    let wanted_set: BTreeSet<_> = wanted.iter().collect();
    let written_set: BTreeSet<_> = written.iter().collect();
    assert_eq!(wanted_set.len(), wanted.len(), "two sites have one name");
    let missing = wanted_set.difference(&written_set).map(|name| format!("no row: {name}"));
    let stale = written_set.difference(&wanted_set).map(|name| format!("no site: {name}"));
    let mut differences: Vec<String> = missing.chain(stale).collect();
    if written_set.len() != written.len() {
        differences.push("a row is there twice".to_owned());
    }
    differences
}

#[test]
fn every_ordering_has_a_row() {
    for (sites, heading) in [(core(), CORE), (runtime(), RUNTIME)] {
        let differences = differences(&sites, &table::read(heading));
        assert!(differences.is_empty(), "docs/memory-ordering.md, {heading}:\n{}", differences.join("\n"));
    }
}

#[test]
fn a_new_ordering_and_a_stale_row_are_found() {
    let source = "impl<M: Machine> Lock<M> {
        fn take(&self, machine: &M) {
            self.word.add(1, Ordering::AcqRel);
            machine.fence();
            let _ = self.word.wait_while(Patience::Turn, |now| now != 0);
        }
    }";
    let document = "## Other\n\n| `new.rs::Lock::take` | `fence` | skipped: `b` |\n## The table\n\n\
        | where | call | found by |\n|---|---|---|\n\
        | `new.rs::Lock::take` | `word.add(AcqRel)` | acquire: `a`; release: [why](#why) |\n\
        | `new.rs::Lock::take` | `word.store(Release)` | relaxed: `a` |\n";
    let found = differences(&sites::of_text("sync/new.rs", source), &table::rows(document, CORE));
    let wanted = [
        "no row: `new.rs::Lock::take` | `fence` | skipped",
        "no row: `new.rs::Lock::take` | `word.wait_while` | relaxed",
        "no site: `new.rs::Lock::take` | `word.store(Release)` | relaxed",
    ];
    assert_eq!(found, wanted);
}

/// The runtime names the standard library's orderings alone, and its fences are functions.
#[test]
fn a_new_ordering_of_the_standard_library_is_found() {
    let source = "use std::sync::atomic::Ordering::{self, Acquire, Relaxed, SeqCst};
    fn wake(word: &AtomicU32) {
        word.fetch_add(1, SeqCst);
        fence(Ordering::SeqCst);
        atomic::compiler_fence(SeqCst);
        let _ = (word.load(Acquire), word.load(Relaxed), Kind::Release);
    }
    #[cfg(test)] mod tests { fn t() { word.load(SeqCst); } }";
    let wanted = [
        "no row: `new.rs::wake` | `compiler_fence` | skipped",
        "no row: `new.rs::wake` | `fence` | skipped",
        "no row: `new.rs::wake` | `word.fetch_add(SeqCst)` | acquire-release",
        "no row: `new.rs::wake` | `word.load(Acquire)` | relaxed",
    ];
    assert_eq!(differences(&sites::of_text("new.rs", source), &[]), wanted);
}

#[test]
#[should_panic(expected = "orderings in calls, and in all")]
fn an_ordering_in_a_macro_is_found() {
    sites::of_text("new.rs", "fn f() { each!(word.load(Ordering::Acquire)); }");
}

#[test]
fn few_weaker_orderings_survive() {
    let is_choice = |row: &Row| row.models.is_empty() && !row.call.contains("wait_while");
    let survivors: Vec<Row> = table::read(CORE).into_iter().filter(is_choice).collect();
    assert!(survivors.len() <= SURVIVORS, "{} survive: {survivors:#?}", survivors.len());
    let is_processors = |row: &Row| row.models.is_empty() && !row.call.starts_with("compiler_fence");
    let survivors: Vec<Row> = table::read(RUNTIME).into_iter().filter(is_processors).collect();
    assert!(survivors.len() <= RUNTIME_SURVIVORS, "{} survive: {survivors:#?}", survivors.len());
}

#[test]
fn every_litmus_test_has_a_row() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("litmus");
    let table = std::fs::read_to_string(folder.join("README.md")).expect("the table");
    let files = std::fs::read_dir(&folder).expect("a folder").map(|file| file.expect("a file").file_name());
    let tests = files.filter_map(|name| Some(name.to_str()?.strip_suffix(".litmus")?.to_owned()));
    let missing: Vec<String> = tests.filter(|name| !table.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "litmus/README.md has no row for {missing:?}");
}

#[test]
fn weaker_orderings_of_locks_and_lists_are_found() {
    find(CORE, core(), |site| site.file.starts_with("sync/"));
}

#[test]
fn weaker_orderings_of_per_cpu_lists_are_found() {
    find(CORE, core(), |site| site.file.starts_with("pcp/"));
}

#[test]
fn weaker_orderings_elsewhere_are_found() {
    find(CORE, core(), |site| !["sync/", "pcp/"].iter().any(|folder| site.file.starts_with(folder)));
}

#[test]
fn weaker_orderings_of_the_runtime_are_found() {
    find(RUNTIME, runtime(), |_| true);
}

/// Runs for each weaker ordering of some sites the first model that the table names.
fn find(heading: &str, sites: Vec<Site>, are_wanted: impl Fn(&Site) -> bool) {
    let rows = table::read(heading);
    let mut missed = Vec::new();
    for site in sites.iter().filter(|site| is_chosen(site) && are_wanted(site)) {
        for row in rows.iter().filter(|row| (&row.function, &row.call) == (&site.function, &site.call)) {
            let Some(model) = row.models.first() else { continue };
            let name = format!("{} {} {}", row.function, row.call, row.weaker);
            let outcome = models::explore_named(model, plant(site, &row.weaker));
            let outcome = outcome.unwrap_or_else(|| panic!("no model has the name {model}"));
            let (found, seconds) = (outcome.failure.is_some(), outcome.elapsed.as_secs_f32());
            println!("{name}: {model} after {} executions, {seconds:.1} s: {found}", outcome.executions);
            if !found {
                missed.push(format!("{name} by {model}, met {}", outcome.met));
            }
        }
    }
    assert!(missed.is_empty(), "not found: {missed:#?}");
}

/// Returns whether `ORDERINGS`, which may choose some sites by parts of their names, chooses this one.
fn is_chosen(site: &Site) -> bool {
    let (name, parts) = (format!("{} {}", site.function, site.call), std::env::var("ORDERINGS").unwrap_or_default());
    parts.split(',').any(|part| name.contains(part))
}

/// Returns the beginning of the failure's message.
fn cause(outcome: &Outcome) -> String {
    outcome.failure.iter().flat_map(|text| text.trim().chars().take(60)).filter(|&c| c != '\n').collect()
}

/// Returns a number from the environment.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect("a number"))
}

/// Prints which models fail for each weaker ordering, and the reason where none does.
///
/// Each model gets `SECONDS` (10) for a site; `FAILURES` (1) of them are enough. Models are tried in the order of the
/// executions that they have without a plant, and only if they meet the site.
#[test]
#[ignore = "takes an hour for all sites"]
fn search() {
    let sites: Vec<Site> = core().into_iter().chain(runtime()).filter(is_chosen).collect();
    let only = std::env::var("MODELS").unwrap_or_default();
    let limit = Duration::from_secs(number("SECONDS", 10));
    explore::limit(Some(limit));
    let mut known = Vec::new();
    for name in models::names().filter(|name| name.starts_with(&only)) {
        let (outcome, calls) = models::explore_named_noting(name).expect("a model of that name");
        assert_eq!(outcome.failure, None, "{name}");
        let met: Vec<&Site> = sites
            .iter()
            .filter(|site| {
                let there = |&(file, line, column): &(&str, u32, u32)| {
                    (line as usize, column as usize) == site.at && is_in_core(file, &site.file)
                };
                calls.iter().any(there)
            })
            .collect();
        known.push((outcome.executions, name, met));
    }
    known.sort_by_key(|&(executions, name, _)| (executions, name));
    let (mut killed, mut survive) = (0, 0);
    for site in &sites {
        for (weaker, _) in site.orders.weaker() {
            let (mut by, mut tried, mut cut) = (Vec::new(), 0, 0);
            for (_, model, _) in known.iter().filter(|(.., met)| met.contains(&site)) {
                let began = Instant::now();
                let outcome = models::explore_named(model, plant(site, weaker)).expect("a model of that name");
                tried += 1;
                cut += usize::from(!outcome.is_complete && outcome.failure.is_none());
                if outcome.failure.is_some() {
                    let seconds = began.elapsed().as_secs_f32();
                    by.push(format!("`{model}` ({}, {seconds:.1} s: {})", outcome.executions, cause(&outcome)));
                }
                if by.len() as u64 >= number("FAILURES", 1) {
                    break;
                }
            }
            let result = if by.is_empty() { format!("SURVIVES, {cut} cut short") } else { by.join(", ") };
            println!("{} | {} | {weaker} | {tried} tried: {result}", site.function, site.call);
            killed += usize::from(!by.is_empty());
            survive += usize::from(by.is_empty());
        }
    }
    println!("{} sites, {killed} weaker orderings killed, {survive} survive", sites.len());
}
