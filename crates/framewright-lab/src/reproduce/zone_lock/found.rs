//! What came of it: the tables in their order, and the figures to look at first.

use super::checks::checks;
use super::memory::memory;
use super::others::{elsewhere, mix, with_lru};
use super::plan::{NAME, OURS, ZoneLockPlan};
use super::table::{KernelComparison, curves, find, rows, shares, table};
use crate::reproduce::found::{Head, Reproduction};
use crate::reproduce::plan::Runs;
use crate::reproduce::variation::in_words;
use crate::reproduce::why::WHY;
use framewright_table::figures::{grouped, percent};

/// Compares the runs with the published table. `command` makes the same again.
pub fn found(plan: &ZoneLockPlan<'_>, runs: &Runs, command: &str) -> Reproduction {
    let (published, scale) = (plan.published, &plan.scale);
    let mut found = Reproduction::new(
        (NAME, command),
        [&published.title, &published.source],
        (plan.machine, plan.seed),
        &[],
        runs.varied(),
    );
    let (Head { model, seed, .. }, cpus) = (&found.head, plan.cpus);
    let mib = |frames: u64| grouped(frames as f64 / 256.0);
    let lists = format!(
        "per-CPU lists of {} and {} frames, where a kernel does not size them itself",
        scale.pcp_batch, scale.pcp_high
    );
    found.show.open(
        format!("page faults of {cpus} processes on {model}, seed {seed}"),
        format!("Page faults of {cpus} processes on <a href=\"#machine\">the machine model {model}</a>, seed {seed}. Ours has "),
        format!(
            "1/{} of the memory ({} MiB a process, {} MiB free a node); {}, in a pass every process maps and unmaps its memory once",
            scale.fraction,
            mib(u64::from(scale.process_pages)),
            mib(scale.node_frames),
            in_words(plan.lengths.table, "passes")
        ),
    );
    found.show.note(&format!("  {lists}"), 2);
    found.show.also = format!("; {lists}");
    found.json.put("cpus", cpus);
    found.json.put("scale", *scale);
    found.json.put("passes", plan.lengths);
    found.json.put("fitted", found.fitted.clone());
    let rows = rows(plan, runs, &found.fitted);
    table(plan, &rows, &mut found);
    found.show.whys(WHY);
    shares(&rows, &mut found.show);
    memory(plan, &rows, &mut found);
    found.show.html("\n");
    with_lru(plan, runs, &mut found);
    found.show.html("\n");
    let mut of_others = mix(plan, runs, &mut found);
    found.show.html("\n");
    of_others.extend(elsewhere(plan, runs, &mut found));
    curves(plan, runs, &mut found);
    found.json.put("varied", found.varied.clone());
    headline(&rows, cpus, &mut found);
    let checks = checks(&rows, &found.fitted).into_iter().chain(of_others).collect();
    found.checked(checks)
}

fn headline(rows: &[KernelComparison<'_>], cpus: usize, found: &mut Reproduction) {
    let name = rows.first().map_or("", |row| row.name);
    let both = rows.first().and_then(|row| row.ours.as_ref()).zip(find(rows, OURS));
    let (from, ours) = both.unzip();
    if let Some(change) = ours.and_then(|ours| ours.figures.change_percent) {
        found.headline.row_of_default("default", "%", change);
    }
    let waiting = [from, ours].map(|of| of.map_or(f64::NAN, |of| of.figures.zone_lock_contention_percent));
    let [first, last] = waiting.map(percent);
    let unusable = [from, ours].map(|of| percent(of.map_or(f64::NAN, |of| of.unusable * 100.0)));
    found.headline.tell(
        format!("page faults a second of {cpus} CPUs, against {name}"),
        ("of CPU time waits for the zone lock", waiting.map(|share| format!("{} %", percent(share)))),
        format!(
            "time waiting for the zone lock {last} % ({name}: {first}), free memory unfit for order 5 {} % ({})",
            unusable[1], unusable[0]
        ),
    );
}
