//! What came of it, table by table, and what has to hold before one may say that the table was reproduced.

use framewright::mechanisms::{LockPlace, ZoneLock};
use framewright_sim::report::{LineReport, Report};
use framewright_sim::workload::Workload;

use super::plan::{
    LOCKS, MEMORY, MEMORY_SET, NAME, PASS, PLACES, Quantity, ZoneLayoutPlan, computing, mechanisms, run_name,
    variant_name, variants, with_memory,
};
use crate::html::plot::{Axis, Plot, Series};
use crate::reproduce::check::{Check, Standing, points, seen};
use crate::reproduce::fitted;
use crate::reproduce::found::{Head, Object, Reproduction, object};
use crate::reproduce::plan::{Runs, TABLE};
use crate::reproduce::show::{Grid, GridCell, Place, cell, either, in_text, named, on_page};
use crate::reproduce::variation::{Band, in_words};
use crate::reproduce::why::{WHY, ZONE, waiting};
use crate::sim::run::accesses;
use framewright_table::figures::{change_percent, counted, duration, grouped, percent};

/// Points that a band may be wide.
const WIDTH: f64 = 30.0;
/// CPUs that are few.
const IS_FEW: usize = 4;
/// Percent by which the lock on a line of its own may be behind the one behind the lists.
const CURED: f64 = 2.0;
/// With waiters that wait apart, at most this part of what the place beside the lists costs else is left.
const LEFT: f64 = 0.25;
/// Fields of the lock's lines that are named at most, and how often one has to be fetched for a taking.
const FIELDS: (usize, f64) = (4, 0.5);
/// Columns of a row's name, and of a lock's.
const NAMES: (usize, usize) = (54, 26);

/// Compares the runs with the published table. `command` makes the same again.
pub fn found(plan: &ZoneLayoutPlan<'_>, runs: &Runs, command: &str) -> Reproduction {
    let published = plan.published;
    let mut found = Reproduction::new(
        (NAME, command),
        [&published.title, &published.source],
        (plan.machine, plan.seed),
        &[],
        runs.varied(),
    );
    let (Head { model, seed, .. }, cpus, workload) =
        (&found.head, plan.most(), Workload::Aim7(plan.workload).to_string());
    found.show.open(
        format!("{workload} on {model}, {cpus} CPUs, seed {seed}"),
        format!("<code>{workload}</code> on {cpus} CPUs of <a href=\"#machine\">the machine model {model}</a>, seed {seed}. Ours: "),
        format!(
            "processes that allocate, compute and end, {}; per-CPU lists of 31 and 186 frames; jobs are processes, elapsed time is \
             what a process takes, system time its CPU time in which it does not compute; no CPU is ever idle",
            in_words(plan.lengths.table, PASS)
        ),
    );
    found.json.put("cpus", cpus);
    found.json.put("workload", workload);
    found.json.put("lengths", plan.lengths);
    found.json.put("fitted", found.fitted.clone());
    let [direction, inside, narrow] = table(plan, runs, &mut found);
    let memory = memory(plan, runs, &mut found);
    let variants = of_variants(plan, runs, &mut found);
    let few = curves(&variants, &mut found);
    found.show.whys(WHY);
    found.json.put("memory", memory);
    found.json.put("varied", found.varied.clone());
    headline(cpus, &variants, &mut found);
    let fitted = fitted::at_most(1, "at most one number fitted, to one row", &found.fitted);
    found.checked(vec![direction, few, fitted, inside, narrow, alone(&variants), apart(&variants)])
}

fn signed(percent: f64) -> GridCell {
    cell(format!("{percent:+.1}"))
}

/// The table; checks of the changes' direction, of what bands hold, and of their width.
fn table(plan: &ZoneLayoutPlan<'_>, runs: &Runs, found: &mut Reproduction) -> [Check; 3] {
    let mut table = Grid::new(&format!("<{} change, %|>12 theirs|>13 ours |>13 band", NAMES.0)).page(
        "The table",
        "Change, percent",
        "Row|theirs|ours|band",
    );
    let (mut json, mut absent) = (Vec::new(), Vec::new());
    let [mut direction, mut inside, mut narrow] = [const { Vec::new() }; 3];
    for row in &plan.published.rows {
        let (name, theirs) = (&row.name, row.change.change_percent);
        // What is derived from the same runs of a row that was fitted is no evidence either.
        let fitted = fitted::is_row(&found.fitted, name.split(", ").next().unwrap_or(name));
        let (ours, band, why_not) = (plan.change(row, runs.of(TABLE)), runs.band(name), row.quantity.unmodelled());
        let cells = vec![named(name, fitted).cut(NAMES.0), signed(theirs)];
        if let Some(ours) = ours.map(|ours| ours.change_percent) {
            // Nobody claims more than the band.
            let standing = band.filter(|_| !fitted).map(|band| Standing::of(theirs, ours, 0.0, Some(band)));
            let told = band.map_or(String::new(), |Band([least, most])| format!("{least:+.0}..{most:+.0}"));
            table.row(cells.into_iter().chain([signed(ours).judged(standing), cell(told)]).collect());
            direction.push((Standing::of_bool((ours > 0.0) == (theirs > 0.0)), format!("{name} {ours:+.1} %")));
            inside.extend(standing.map(|standing| (standing, format!("{name} {}", points(ours - theirs)))));
            if let Some(Band([least, most])) = band.filter(|_| row.quantity == Quantity::Jobs) {
                narrow.push((Standing::of_bool(most - least <= WIDTH), format!("{name} {:.1}", most - least)));
            }
            if !fitted {
                found.headline.row(name, "%", [theirs, ours], false, false);
                found.headline.within(band);
            }
        } else if let Some(why_not) = why_not {
            let cells = cells.into_iter().map(GridCell::page_alone);
            table.row(cells.chain([on_page(why_not).with("colspan=\"2\" class=\"name quiet\"")]).collect());
            absent.push(format!("  {name}: theirs {theirs:+.1}, ours {why_not}"));
        }
        json.push(object! {
            "name": name.clone(), "quantity": row.quantity, "published": row.change, "simulated": ours, "band": band,
            "fitted": fitted, "why_not": why_not,
        });
    }
    let has_bands = runs.variations.is_some();
    found.show.grid(&table);
    found.show.fitted(&found.fitted);
    found.show.line("~ the band holds theirs; ! it does not");
    let varied = found.varied.as_ref().zip(plan.lengths.varied);
    found.show.varied(varied.map(|(varied, varying)| (varied, varying.in_words(PASS))));
    absent.iter().for_each(|told| found.show.note(told, 4));
    found.json.put("rows", json);
    let banded = |name: &str, all: Vec<(Standing, String)>| match has_bands {
        true => seen(name, all.into_iter()),
        false => Check::unseen(name, "no bands in a quick run"),
    };
    [
        seen("every change in the published direction", direction.into_iter()),
        banded("of rows that are not fitted, the band holds the published change", inside),
        banded(&format!("bands of jobs are at most {WIDTH} points wide"), narrow),
    ]
}

/// Shows the effect of assumptions about tasks' memory: the change of jobs from the lock behind the lists to that
/// beside them.
fn memory(plan: &ZoneLayoutPlan<'_>, runs: &Runs, found: &mut Reproduction) -> Vec<Object> {
    let caption = "How it was is not known; the table is made with the last";
    let heads = "Memory|Change of jobs, %|Computing behind the lists, % of CPU time|beside, %";
    let mut table = Grid::new(&format!("<{} Memory of the tasks|>12 change, %|>24 computing, %", NAMES.0)).page(
        "Memory of the tasks",
        caption,
        heads,
    );
    let mut json = Vec::new();
    for (memory, pair) in MEMORY.into_iter().zip(runs.of(MEMORY_SET).chunks_exact(2)) {
        let [beside, behind] = [0, 1].map(|place| &pair[place].1.report);
        let (change, parts) = (change_percent(behind.per_second, beside.per_second), [behind, beside].map(computing));
        let [first, second] = parts.map(|percent| format!("{percent:.1}"));
        let both = in_text(format!("{first} -> {second}"));
        table.row(vec![cell(memory.0), signed(change), both, on_page(first), on_page(second)]);
        json.push(object! {
            "name": memory.0, "workload": Workload::Aim7(with_memory(plan.workload, memory)).to_string(),
            "change_percent": change, "computing_percent": parts,
        });
    }
    found.show.at(Place::Details);
    if !json.is_empty() {
        found.show.heading("Memory of the tasks");
        found.show.grid(&table);
    }
    found.show.html("\n");
    json
}

/// Values by number of CPUs.
type Points = Vec<(usize, f64)>;

/// A lock at a place.
struct Variant {
    name: String,
    /// Processes per second.
    jobs: Points,
    /// Nanoseconds of a taking of the zone lock, from asking for it to giving it up.
    takings: Points,
    /// Processes per second on all CPUs, and by how much that is more than with the table's lock behind the lists.
    performance: f64,
    change: f64,
}

fn of_variants(plan: &ZoneLayoutPlan<'_>, runs: &Runs, found: &mut Reproduction) -> Vec<Variant> {
    let columns = format!("<{}|>18 processes a second|>12 change, %|>20 waiting for it, %|>14 held, p50", NAMES.1);
    let heads = "Lock and place|Processes per second|Change, %|Waiting for it, % of CPU time|Held, p50";
    let mut table = Grid::new(&columns).above(format!("The lock and its place, on {} CPUs", plan.most())).page(
        "The lock and its place",
        format!("On {}", counted(plan.most(), "CPU")),
        heads,
    );
    let (mut all, mut json) = (Vec::new(), Vec::new());
    let report = |name: &str, cpus| runs.report(TABLE, &run_name(name, cpus));
    let behind = report(&variant_name(LOCKS[0].name(), PLACES[1].name()), plan.most()).map(|report| report.per_second);
    for variant in variants() {
        let name = variant_name(variant.0.name(), variant.1.name());
        let Some(last) = report(&name, plan.most()) else { continue };
        let (performance, waits) = (last.per_second, waiting(last, ZONE));
        let change = change_percent(behind.unwrap_or(f64::NAN), performance);
        let held =
            last.locks.iter().filter(|lock| lock.kind == ZONE).map(|lock| lock.holding.p50_ns).fold(0.0, f64::max);
        let points = |of: fn(&Report) -> f64| -> Points {
            plan.cpus.iter().filter_map(|&cpus| Some((cpus, of(report(&name, cpus)?)))).collect()
        };
        let (jobs, takings) = (points(|report| report.per_second), points(taking));
        let (why, lines) = (found.show.run(&name, last), fetched(last));
        found.show.reason(&name, &format!("{why}; {lines}"));
        table.row(vec![
            cell(&name).cut(NAMES.1),
            cell(grouped(performance)),
            signed(change),
            cell(percent(waits)),
            cell(duration(held)),
        ]);
        json.push(object! {
            "name": name.clone(), "mechanisms": mechanisms(variant).to_string(), "performance": performance,
            "change_percent": change, "zone_lock_contention_percent": waits, "hold_p50_ns": held, "why": why,
            "lines": lines, "points": jobs.clone(), "takings_ns": takings.clone(),
        });
        all.push(Variant { name, jobs, takings, performance, change });
    }
    found.show.heading("The lock and its place");
    found.show.grid(&table);
    found.json.put("variants", json);
    all
}

/// Which fields of the lock's lines are fetched how often.
fn fetched(report: &Report) -> String {
    let taken: u64 = report.locks.iter().filter(|lock| lock.kind == ZONE).map(|lock| lock.taken).sum();
    let is_of_lock = |line: &&LineReport| line.fields.iter().any(|field| field.name.starts_with("lock"));
    let mut sums: Vec<(&str, f64)> = Vec::new();
    for field in report.lines.iter().filter(is_of_lock).flat_map(|line| &line.fields) {
        let each = accesses(&field.traffic) as f64 / taken.max(1) as f64;
        match sums.iter_mut().find(|(name, _)| *name == field.name) {
            Some((_, sum)) => *sum += each,
            None => sums.push((&field.name, each)),
        }
    }
    let all: f64 = sums.iter().map(|(_, each)| each).sum();
    // A stable sort: fields that are fetched as often stay in the report's order.
    sums.sort_by(|a, b| b.1.total_cmp(&a.1));
    sums.retain(|(_, each)| *each >= FIELDS.1);
    let named: Vec<String> = sums.iter().take(FIELDS.0).map(|(name, each)| format!("{each:.1} for {name}")).collect();
    let named = if named.is_empty() { "none of its fields stands out".to_owned() } else { named.join(", ") };
    format!("for each taking the lock's line is fetched {all:.1} times: {named}")
}

/// Nanoseconds of a taking of the zone lock, from asking for it to giving it up.
fn taking(report: &Report) -> f64 {
    let zones = || report.locks.iter().filter(|lock| lock.kind == ZONE);
    let time: f64 = zones().map(|lock| lock.waiting.total_ns + lock.holding.total_ns).sum();
    time / zones().map(|lock| lock.taken).sum::<u64>().max(1) as f64
}

/// The variant with this lock at this place.
fn find(variants: &[Variant], lock: ZoneLock, place: LockPlace) -> Option<&Variant> {
    variants.iter().find(|variant| variant.name == variant_name(lock.name(), place.name()))
}

/// Gain of the place beside the lists over that behind them, for one kind of lock.
struct Crossing {
    lock: &'static str,
    /// In percent of processes, by number of CPUs.
    gains: Points,
    /// As `gains`, of the time of a taking of the lock: with few CPUs it is a small part of theirs.
    of_takings: Points,
    /// The least number of CPUs from which on the lock behind the lists is faster; none if it never is.
    cpus: Option<usize>,
}

impl Crossing {
    fn of(lock: ZoneLock, variants: &[Variant]) -> Self {
        let pairs = |of: fn(&Variant) -> &Points, sign: f64| -> Points {
            let at = |place| find(variants, lock, place).map_or(&[][..], |one| of(one));
            let both = at(PLACES[0]).iter().zip(at(PLACES[1]));
            both.map(|(beside, behind)| (beside.0, sign * change_percent(behind.1, beside.1))).collect()
        };
        let (gains, of_takings) = (pairs(|one| &one.jobs, 1.0), pairs(|one| &one.takings, -1.0));
        let slower = gains.iter().rev().take_while(|(_, gain)| *gain < 0.0).last();
        Self { lock: lock.name(), cpus: slower.map(|&(cpus, _)| cpus), gains, of_takings }
    }
}

/// Processes by number of CPUs, and from how many CPUs on which place is the faster; a check of few CPUs.
fn curves(variants: &[Variant], found: &mut Reproduction) -> Check {
    let crossings = LOCKS.map(|lock| Crossing::of(lock, variants));
    let numbers = || variants.first().into_iter().flat_map(|first| first.jobs.iter().map(|(number, _)| *number));
    let columns: String = numbers().map(|number| format!("|>9 {number}")).collect();
    let heads: String = numbers().map(|number| format!("|{}", counted(number, "CPU"))).collect();
    let mut table = Grid::new(&format!("<{}{columns}", NAMES.1))
        .above("Thousand processes a second by number of CPUs")
        .page("Processes per second by number of CPUs", "Processes per second", &format!("Lock and place{heads}"));
    for Variant { name, jobs, .. } in variants {
        let jobs = jobs.iter().map(|(_, jobs)| either(format!("{:.1}", jobs / 1e3), grouped(*jobs)));
        table.row([cell(name).cut(NAMES.1)].into_iter().chain(jobs).collect());
    }
    for Crossing { lock, gains, of_takings, .. } in &crossings {
        let row = |name: GridCell, points: &Points| -> Vec<GridCell> {
            [name].into_iter().chain(points.iter().map(|(_, gain)| signed(*gain))).collect()
        };
        let name = either(format!("{lock}, beside gains, %"), format!("{lock}: beside gains, %")).cut(NAMES.1);
        table.part(row(name, gains));
        table.part(row(cell("of a taking of the lock").indented(), of_takings));
    }
    let show = &mut found.show;
    show.at(Place::Beside);
    show.heading("By number of CPUs");
    let [throughput, lost] = plots(variants, &crossings);
    show.plots(variants.iter().map(|variant| variant.name.clone()).collect(), 1, [throughput]);
    show.grid(&table);
    show.plots(crossings.iter().map(|crossing| crossing.lock.to_owned()).collect(), 2, [lost]);
    let told = crossings.each_ref().map(|Crossing { lock, cpus: from, .. }| {
        let place =
            from.map_or("never better".to_owned(), |number| format!("better from {} on", counted(number, "CPU")));
        show.line(match from {
            Some(cpus) => format!("  {lock}: from {cpus} CPUs on the lock is better off behind the lists"),
            None => format!("  {lock}: behind the lists the lock is never better off"),
        });
        format!("With the {lock} lock, the place behind the lists is {place}")
    });
    show.html(format!("<p>{}.</p>\n", told.join("; ")));
    let few = few(&crossings[0]);
    let json = crossings.map(|Crossing { lock, cpus, gains, of_takings }| {
        object! { "lock": lock, "cpus": cpus, "gain_percent": gains, "taking_gain_percent": of_takings }
    });
    found.json.put("crossover", Vec::from(json));
    few
}

/// Throughput, and what is lost beside the lists.
fn plots(variants: &[Variant], crossings: &[Crossing]) -> [Plot; 2] {
    let series = |name: &str, points: &Points, of: fn(f64) -> f64| Series {
        name: name.to_owned(),
        points: points.iter().map(|&(cpus, value)| (cpus as f64, of(value))).collect(),
    };
    let curves: Vec<Series> = variants.iter().map(|one| series(&one.name, &one.jobs, |value| value)).collect();
    let losses = crossings.iter().map(|one| series(one.lock, &one.gains, |gain| (-gain).max(0.0)));
    let percent = Axis::percent("of the throughput behind them; a gain is drawn as 0");
    let lost = Plot::new("Lost beside the lists", &percent, &losses.collect::<Vec<_>>());
    [Plot::new("Throughput", &Axis::rate("processes"), &curves), lost]
}

fn few(Crossing { of_takings, .. }: &Crossing) -> Check {
    let name = format!("with up to {IS_FEW} CPUs a taking of the lock is shorter beside the lists");
    let words: Vec<String> = of_takings.iter().map(|(cpus, gain)| format!("{cpus}: {gain:+.1} %")).collect();
    let is_shorter = of_takings.iter().any(|&(cpus, gain)| cpus <= IS_FEW && gain > 0.0);
    Check::seen(&name, is_shorter, format!("by number of CPUs, {}", words.join(", ")))
}

/// The cure that was thought of and not taken.
fn alone(variants: &[Variant]) -> Check {
    let name = format!("on lines of its own the lock is as good as behind the lists, to {CURED} %");
    let Some(alone) = find(variants, LOCKS[0], PLACES[2]) else { return Check::unseen(&name, "not run") };
    Check::seen(&name, alone.change >= -CURED, format!("{:+.1} %", alone.change))
}

/// The cure that came later.
fn apart(variants: &[Variant]) -> Check {
    let name = "a queued lock, whose waiters wait apart, loses a quarter as much beside the lists, or less";
    let at = |lock, place| Some(find(variants, lock, place)?.performance);
    let loss = |lock| Some(1.0 - at(lock, PLACES[0])? / at(lock, PLACES[1])?);
    let Some((theirs, apart)) = loss(LOCKS[0]).zip(loss(LOCKS[1])) else { return Check::unseen(name, "not run") };
    Check::seen(name, apart <= theirs * LEFT, format!("{:.1} % against {:.1} %", apart * 100.0, theirs * 100.0))
}

fn headline(cpus: usize, variants: &[Variant], found: &mut Reproduction) {
    let (first, best, beside_queued) = (variants.first(), variants.last(), variants.get(PLACES.len()));
    let jobs = [first, best].map(|of| of.map_or(f64::NAN, |of| of.performance));
    let [cure, beside] = [best, beside_queued].map(|of| points(of.map_or(f64::NAN, |of| of.change)));
    found.headline.row_of_default("beside -> default's lock", "%", change_percent(jobs[0], jobs[1]));
    found.headline.tell(
        format!("aim7 on {cpus} CPUs, the lock beside the order-0 lists or apart"),
        ("processes of aim7 a second, by the lock", jobs.map(grouped)),
        format!("queued, on a line of its own: {cure} % against separate; beside the lists {beside} % still"),
    );
}
