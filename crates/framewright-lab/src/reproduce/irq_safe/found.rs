//! What came of it, table by table, and what has to hold before one may say that the tables were reproduced.

use anyhow::Context;
use framewright_bench::time_bench::Primitive as Part;
use framewright_sim::report::Report;

use super::plan::{
    AIM9, BATCHES, ITERATIONS, IrqSafeLengths, IrqSafePlan, LOST, MODES, Mode, NAME, Native, PAIR_SET, RESTATED,
    STREAMS, lost, mbit,
};
use super::published::{Both, Operation, Primitive, Statistic, Test};
use crate::html::plot::{Axis, Over, Plot, Series};
use crate::reproduce::check::Check;
use crate::reproduce::fitted::{self, at_most, is_row};
use crate::reproduce::found::{Head, Reproduction, object};
use crate::reproduce::plan::{Runs, TABLE};
use crate::reproduce::runs;
use crate::reproduce::show::{
    Grid, GridCell, Place, band, cell, definitions, either, escaped, in_text, named, on_page,
};
use framewright_table::figures::{change_percent, grouped, share};

/// Percent by which a saving may be off.
const SAVING: f64 = 20.0;
/// Percent of the savings that have to be within that.
const SHARE: f64 = 80.0;
/// The smallest batch that counts: of one page, most is the loop around it.
const LEAST: u32 = 2;
/// Cycles by which the pair's saving may be off.
const PAIR: f64 = 5.0;
/// Percent that a test of aim9 may gain: least and most.
const GAINS: [(Test, [f64; 2]); 2] = [(Test::PageTest, [1.0, 5.0]), (Test::BrkTest, [0.0, 2.0])];
/// Percent of the packets that the change may lose.
const LOSS: [f64; 2] = [15.0, 27.0];
/// Percent that the other modes may lose at most.
const LITTLE: f64 = 2.0;

/// Batches whose saving is shown first: of an allocation and its free.
const FIRST: [u32; 2] = [1, 64];
/// Descriptions of the modes.
const WORDS: [&str; 4] = [
    "Linux until 2022: interrupts are held off while a CPU is at its lists",
    "the change of 2017: preemption is held off, and whoever comes in an interrupt goes to the zone",
    "Linux since 2022: the lists' lock is tried, and whoever finds them in use goes to the zone",
    "ours: an interrupt has lists of its own",
];

/// Compares runs and native measurements with the published tables. `command` makes the same
/// again.
///
/// # Errors
/// A run is missing, or has not measured what it should have.
pub fn found(plan: &IrqSafePlan<'_>, (runs, native): (&Runs, &Native), command: &str) -> anyhow::Result<Reproduction> {
    let (published, desktop) = (plan.published, &plan.desktop.name);
    let of_machine = fitted::to(NAME, plan.machine);
    let mut found = Reproduction::new(
        (NAME, command),
        [&published.title, &published.source],
        (plan.machine, plan.seed),
        &RESTATED,
        runs.varied(),
    );
    let Head { model, seed, .. } = &found.head;
    found.show.open(
        format!("interrupts and the per-CPU lists, on {model} and {desktop}, seed {seed}"),
        format!("<a href=\"#machine\">The machine model {model}</a>, and {desktop} for the pair; seed {seed}. Ours: "),
        "the machine of the batches, of aim9 and of the packets is not named, the first stands in for it; per-CPU lists of 31 and 186 \
         frames",
    );
    found.show.html(definitions(MODES.iter().map(|mode| mode.name).zip(WORDS)));
    found.json.put("desktop", desktop.clone());
    found.json.put("fitted", found.fitted.clone());
    let pair = PairComparison::of(plan, runs)?;
    let near = pair.first_row(&mut found);
    let savings = batches(plan, runs, &mut found)?;
    let mut checks =
        vec![at_most(2, "at most two numbers of the machine fitted, each to one row", &of_machine), savings];
    checks.push(near);
    pair.show(plan, native, &mut found);
    parts(&published.time_bench, native, &mut found);
    checks.extend(aim9(plan, runs, &mut found));
    checks.extend(packets(plan, runs, &mut found)?);
    found.show.reasons("Why");
    found.json.put("varied", found.varied.clone());
    found.headline.tell(
        "what lists that interrupts do not use save, and cost".to_owned(),
        (
            "cycles of a pair, and interrupts may allocate",
            [pair.cycles[0], pair.cycles[3]].map(|cycles| format!("{cycles:.1}")),
        ),
        format!("interrupts bring lists of their own: {:.1} cycles a pair, not {:.1}", pair.cycles[3], pair.cycles[1]),
    );
    Ok(found.checked(checks))
}

/// Reports of a set, by each mode.
fn by_mode<'r>(runs: &'r Runs, set: &str) -> impl Iterator<Item = [&'r Report; 4]> {
    let modes = runs.of(set).as_chunks::<4>().0;
    modes.iter().map(|modes| modes.each_ref().map(|(_, outcome)| &outcome.report))
}

/// Cycles, before and after.
fn both(both: Both) -> GridCell {
    let told = |to: &str| format!("{:.1} {to} {:.1}", both.vanilla, both.irqsafe);
    either(told("->"), told("→"))
}

/// Cycles of a page's allocation and of its free: by batch, in each mode.
fn timed(plan: &IrqSafePlan<'_>, runs: &Runs) -> anyhow::Result<Vec<(u32, Vec<[f64; 2]>)>> {
    let timed = |(batch, reports): (u32, [&Report; 4])| {
        let of = |(mode, report): (&Mode, &Report)| {
            plan.page_cycles(report).with_context(|| format!("batch {batch}, {}: not timed", mode.name))
        };
        anyhow::Ok((batch, MODES.iter().zip(reports).map(of).collect::<anyhow::Result<Vec<_>>>()?))
    };
    plan.published.batches().into_iter().zip(by_mode(runs, BATCHES)).map(timed).collect()
}

/// The batches; whether enough of the savings are near enough.
fn batches(plan: &IrqSafePlan<'_>, runs: &Runs, found: &mut Reproduction) -> anyhow::Result<Check> {
    let all = timed(plan, runs)?;
    let caption = "Cycles a page, interrupts off → preemption off. Theirs did one page more than a batch is called; corrected is over as \
                   many as there were";
    let mut table = Grid::new("<14|>18 theirs, printed|>20 corrected|>20 ours|>18 saving:   theirs|>8 ours ")
        .above("Cycles a page; theirs over as many pages as there were, one more than a batch is called")
        .page("Batches", caption, "Batch|Theirs:printed;corrected|Ours|Saved:theirs;ours");
    let (mut json, mut counted, mut off, mut savings) = (Vec::new(), 0, Vec::new(), Vec::new());
    for row in &plan.published.rows {
        let (name, corrected) = (row.operation.row(row.batch), row.corrected());
        let (_, cycles) =
            all.iter().find(|(batch, _)| *batch == row.batch).with_context(|| format!("{name}: not run"))?;
        let ours = Both { vanilla: row.operation.of(cycles[0]), irqsafe: row.operation.of(cycles[1]) };
        let fitted = is_row(&found.fitted, &name);
        let saved = [corrected.saving(), ours.saving()];
        let by = change_percent(saved[0], saved[1]);
        let near = (row.batch >= LEAST && !fitted).then(|| by.abs() <= SAVING);
        counted += usize::from(near.is_some());
        if near == Some(false) {
            off.push(format!("{name} {by:+.0} %"));
        }
        if row.operation == Operation::Total && FIRST.contains(&row.batch) {
            let name = format!("batch of {}, saves", row.batch);
            found.headline.row(&name, "cycles", saved, fitted, by.abs() <= SAVING);
        }
        let [theirs, of_ours] = saved.map(|saved| cell(format!("{saved:.1}")));
        table.row(vec![
            named(&name, fitted),
            both(row.printed),
            both(corrected),
            both(ours),
            theirs,
            of_ours.holds(near),
        ]);
        json.push(object! {
            "operation": row.operation, "batch": row.batch, "published": row.printed, "corrected": corrected,
            "simulated": ours, "fitted": fitted,
        });
        savings.push((row.operation, row.batch, saved));
    }
    found.show.grid(&table);
    found.show.fitted(&found.fitted);
    found.show.line(format!("! saving more than {SAVING} % off"));
    found.show.at(Place::Beside);
    let plots = [("Saved by an allocation", Operation::Alloc), ("Saved by a free", Operation::Free)];
    let legend = vec!["theirs".to_owned(), "ours".to_owned()];
    found.show.plots(legend, 1, plots.map(|(title, operation)| plot(title, operation, &savings)));
    found.json.put("rows", json);
    others(&all, found);
    let near = counted - off.len();
    let outliers = if off.is_empty() { String::new() } else { format!("; not {}", off.join(", ")) };
    Ok(Check::seen(
        &format!("{SHARE} % of the savings from a batch of {LEAST} on within {SAVING} %"),
        near as f64 * 100.0 / counted.max(1) as f64 >= SHARE,
        format!("{near} of {counted}{outliers}"),
    ))
}

/// Savings of an operation over the batch: theirs and ours.
fn plot(title: &str, operation: Operation, savings: &[(Operation, u32, [f64; 2])]) -> Plot {
    let series = [("theirs", 0), ("ours", 1)].map(|(name, whose)| {
        let rows = savings.iter().filter(|(known, batch, _)| *known == operation && *batch > 1);
        Series {
            name: name.to_owned(),
            points: rows.map(|(_, batch, saved)| (f64::from(*batch).log2(), saved[whose])).collect(),
        }
    });
    Plot::over(title, &Axis::count("cycles"), &Over::PAGES, &series)
}

/// The batches in the other modes: on the page all of them.
fn others(all: &[(u32, Vec<[f64; 2]>)], found: &mut Reproduction) {
    let mut table = Grid::new("<36 Not in the table, cycles a page:|>18 to allocate|>12 to free").page(
        "The batches with other lists",
        "Cycles a page",
        "Lists|Batch|to allocate|to free",
    );
    let (mut json, last) = (Vec::new(), all.iter().map(|(batch, _)| *batch).max());
    for (batch, cycles) in all {
        let is_in_text = *batch == 64 || Some(*batch) == last;
        for (Mode { name: mode, .. }, &[alloc, free]) in MODES.iter().zip(cycles).skip(2) {
            let name = either(format!("  {mode}, batch {batch}"), mode);
            let cells =
                [name, on_page(batch)].into_iter().chain([alloc, free].map(|cycles| cell(format!("{cycles:.1}"))));
            table.row(cells.map(|cell| if is_in_text { cell } else { cell.page_alone() }).collect());
            json.push(object! { "mode": *mode, "batch": *batch, "alloc": alloc, "free": free });
        }
    }
    found.show.at(Place::Details);
    found.show.heading("The batches with other lists");
    found.show.grid(&table);
    found.json.put("beside", json);
}

/// A pair: cycles.
struct PairComparison {
    theirs: Both,
    ours: Both,
    /// By each mode.
    cycles: [f64; 4],
}

impl PairComparison {
    fn of(plan: &IrqSafePlan<'_>, runs: &Runs) -> anyhow::Result<Self> {
        let reports = by_mode(runs, PAIR_SET).next().context("a run is missing")?;
        let cycles = reports.map(|report| runs::cycles(plan.desktop, report));
        let ours = Both { vanilla: cycles[0], irqsafe: cycles[1] };
        Ok(Self { theirs: plan.published.page_bench02, ours, cycles })
    }

    /// The first of the figures to look at first; whether the saving is near enough.
    fn first_row(&self, found: &mut Reproduction) -> Check {
        let [theirs, ours] = [self.theirs, self.ours].map(Both::saving);
        let near = (ours - theirs).abs() <= PAIR;
        found.headline.row("page_bench02, saves", "cycles", [theirs, ours], false, near);
        let detail = format!("{ours:.1}, published {theirs:.0}");
        Check::seen(&format!("page_bench02: saving within {PAIR} cycles"), near, detail)
    }

    fn show(&self, plan: &IrqSafePlan<'_>, native: &Native, found: &mut Reproduction) {
        let (Self { theirs, ours, cycles }, Native { pairs, .. }, desktop) = (self, native, &plan.desktop.name);
        let (show, Both { vanilla, irqsafe }) = (&mut found.show, ours);
        show.html(format!(
            "\n<h2>One pair, and its parts</h2>\n<p>page_bench02 took {:?} cycles and takes {:?} with the change; ours {vanilla:.1} and \
             {irqsafe:.1} on {desktop}.</p>\n",
            theirs.vanilla, theirs.irqsafe
        ));
        let trylock = pairs.iter().filter(|row| row.protection == "trylock");
        let heads: String = trylock.map(|row| format!("|ns here, {}", escaped(row.preset))).collect();
        let caption = "A pair by how the lists are kept from interrupts; natively nothing is masked";
        let mut table = Grid::new("").page("One pair", caption, &format!("Lists|Cycles, simulated{heads}"));
        let modes: Vec<(&'static str, f64)> = MODES.iter().map(|mode| mode.name).zip(*cycles).collect();
        for (mode, cycles) in &modes {
            let native = pairs.iter().filter(|row| row.protection == *mode);
            let native = native.map(|row| on_page(format!("{:.1}", row.ns)));
            table.row([on_page(mode), on_page(format!("{cycles:.1}"))].into_iter().chain(native).collect());
        }
        show.grid(&table);
        show.line(format!("\npage_bench02: cycles of a pair on {desktop}"));
        show.line(format!("  theirs {}, saves {:.0}", both(*theirs).as_text(), theirs.saving()));
        show.line(format!("  ours   {}, saves {:.1}", both(*ours).as_text(), ours.saving()));
        let told: Vec<String> = modes.iter().map(|(mode, cycles)| format!("{mode} {cycles:.1}")).collect();
        show.note(&format!("  by mode: {}", told.join(", ")), 4);
        let told = pairs.iter().map(|row| format!("{}, {} {:.1} ns", row.preset, row.protection, row.ns));
        let told: Vec<String> = told.collect();
        if !told.is_empty() {
            show.note(&format!("  natively, here, where nothing is masked: {}", told.join("; ")), 4);
        }
        found.json.put(
            "page_bench02",
            object! { "published": *theirs, "simulated": *ours, "modes": modes, "native": pairs.clone() },
        );
    }
}

/// Parts of a pair: theirs, each with what corresponds to it here; then what is measured here alone.
fn parts(published: &[Primitive], native: &Native, found: &mut Reproduction) {
    let here =
        |name: Option<&str>| native.time_bench.iter().filter(|row| row.published_name == name).collect::<Vec<&Part>>();
    let of = |theirs: &Primitive| {
        let here = here(Some(theirs.name.as_str()));
        let here = if here.is_empty() { vec![None] } else { here.into_iter().map(Some).collect() };
        here.into_iter().map(|here| (Some(theirs.clone()), here.cloned())).collect::<Vec<_>>()
    };
    let alone = here(None).into_iter().map(|here| (None, Some(here.clone())));
    let all: Vec<(Option<Primitive>, Option<Part>)> = published.iter().flat_map(of).chain(alone).collect();
    let caption = "time_bench_sample: theirs, and what corresponds to it on the machine that this page was made on";
    let mut table = Grid::new("<33 time_bench: theirs|>8 cycles|>8 ns|<37 here|>6 cycles|>7 ns").page(
        "Its parts",
        caption,
        "Theirs|cycles|ns|.Here|cycles|ns",
    );
    let nothing = || [cell(""), cell(""), cell("")];
    for (theirs, here) in &all {
        let theirs = theirs.as_ref().map_or_else(nothing, |Primitive { name, cycles, ns }| {
            [cell(name), cell(format!("{cycles:.0}")), either(format!("{ns:.3}"), format!("{ns:?}"))]
        });
        let [name, cycles, ns] = here.as_ref().map_or_else(nothing, |here| {
            let cycles = here.cycles.map(|cycles| format!("{cycles:.1}"));
            let cycles = cycles.map_or_else(|| either("-", ""), cell);
            [cell(here.name), cycles, cell(format!("{:.2}", here.ns))]
        });
        table.row(theirs.into_iter().chain([name.with("class=\"name\""), cycles, ns]).collect());
    }
    found.show.grid(&table);
    let json = all.into_iter().map(|(theirs, here)| object! { "published": theirs, "native": here });
    found.json.put("time_bench", json.collect::<Vec<_>>());
}

/// Statistics of aim9's tests; whether their means gain as much as they have to.
fn aim9(plan: &IrqSafePlan<'_>, runs: &Runs, found: &mut Reproduction) -> Vec<Check> {
    let heads = "Test|Theirs:before;after;better by, %|Ours:before;after;better by, %";
    let mut table = Grid::new("<22|>26 theirs, a second|>9 by|>30 ours|>9 by")
        .above(format!("aim9, {ITERATIONS} iterations; better by, in percent"))
        .page("aim9", "Operations a second, and by how much the change is better", heads);
    let names = GAINS.map(|(test, [least, most])| format!("{}: gains {least} to {most} %", test.name()));
    let mut checks = names.each_ref().map(|name| Check::unseen(name, "not in the table"));
    let mut json = Vec::new();
    for row in &plan.published.aim9 {
        let (test, statistic, theirs) = (row.test, row.statistic, row.value);
        let iterations = || by_mode(runs, AIM9).skip(test as usize * ITERATIONS as usize).take(ITERATIONS as usize);
        let of = |mode: usize| statistic.of(&iterations().map(|modes| modes[mode].per_second).collect::<Vec<_>>());
        let ours = Both { vanilla: of(0), irqsafe: of(1) };
        let (name, [by, gain]) = (test.row(statistic), [theirs, ours].map(|both| statistic.gain_percent(both)));
        let fitted = is_row(&found.fitted, &name);
        let cells = |both: Both, gain: f64| {
            let [before, after] = [both.vanilla, both.irqsafe].map(rate);
            let change = in_text(format!("{before} -> {after}"));
            [change, on_page(before), on_page(after), cell(format!("{gain:+.2}"))]
        };
        table.row([named(&name, fitted)].into_iter().chain(cells(theirs, by)).chain(cells(ours, gain)).collect());
        if let Some(number) = GAINS.iter().position(|(of, _)| *of == test).filter(|_| statistic == Statistic::Hmean) {
            let (_, [least, most]) = GAINS[number];
            // Where nothing is allocated nothing is gained: a rounding below zero is none.
            let holds = gain >= least - 0.005 && gain <= most;
            found.headline.row(test.name(), "%", [by, gain], false, holds);
            checks[number] = Check::seen(&names[number], holds, format!("{gain:+.2} %, published {by:+.2} %"));
        }
        json.push(object! {
            "test": test, "statistic": statistic, "published": theirs, "published_gain_percent": by, "simulated": ours,
            "simulated_gain_percent": gain, "fitted": fitted,
        });
    }
    found.show.html("\n<h2>aim9</h2>\n");
    found.show.grid(&table);
    found.json.put("aim9", json);
    checks.to_vec()
}

/// A statistic of rates: what scatters little needs decimals.
fn rate(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}") } else { grouped(value) }
}

/// A change in percent; a terminal shows none of nothing.
fn changed(change: Option<f64>) -> GridCell {
    match change {
        None => cell(""),
        Some(0.0) => either("", format!("{:+.1}", 0.0)),
        Some(change) => either(format!("{change:+.1} %"), format!("{change:+.1}")),
    }
}

/// Packets; whether the change loses as much as it has to, and the other modes little.
fn packets(plan: &IrqSafePlan<'_>, runs: &Runs, found: &mut Reproduction) -> anyhow::Result<Vec<Check>> {
    let reports = by_mode(runs, TABLE).next().context("a run is missing")?;
    let heads = "Lists|Theirs:Mbit/s;change, %|Ours:Mbit/s;change, %;band";
    let mut table = Grid::new("<18|>15 theirs: Mbit/s|>9 change|>16 ours: Mbit/s|>9 change|>14 band")
        .above(format!("Packets: {STREAMS} streams, pages allocated in interrupts and freed by tasks"))
        .page("Packets", "Eight streams: pages are allocated in interrupts and freed by tasks", heads);
    let before = plan.published.kernel(MODES[0].name);
    let (mut json, mut checks) = (Vec::new(), Vec::new());
    for (number, (mode, report)) in MODES.iter().zip(reports).enumerate() {
        let (theirs, change) = (plan.published.kernel(mode.name), lost(reports[0], report));
        let by = before.zip(theirs).map(|(one, other)| change_percent(one.mbit, other.mbit));
        let moved = (number == 1).then(|| runs.band(LOST)).flatten();
        let fitted = theirs.is_some_and(|row| is_row(&found.fitted, &row.kernel));
        let mechanisms = format!("<br><code>{}</code>", escaped(mode.mechanisms));
        table.row(vec![
            named(mode.name, fitted).around(["", &mechanisms]),
            cell(theirs.map_or(String::new(), |row| grouped(row.mbit))),
            changed(by),
            cell(grouped(mbit(report))),
            changed(Some(change)),
            band(moved),
        ]);
        let holds = (LOSS[0]..=LOSS[1]).contains(&-change);
        if let Some(by) = by.filter(|_| !fitted) {
            found.headline.row("packets in interrupts", "%", [by, change], false, holds);
            found.headline.within(moved);
        }
        let why = found.show.run(&format!("packets, {}", mode.name), report);
        found.show.reason(mode.name, &why);
        json.push(object! {
            "mode": mode.name, "mechanisms": mode.mechanisms, "published_mbit": theirs.map(|row| row.mbit),
            "published_change_percent": by, "simulated_mbit": mbit(report), "change_percent": change, "band": moved,
            "fitted": fitted, "why": why,
        });
        let name = format!("packets: {} loses", mode.name);
        match number {
            0 => {}
            1 => {
                let published = by.map_or(String::new(), |change| format!(", published {change:+.1} %"));
                let name = format!("{name} {} to {} %", LOSS[0], LOSS[1]);
                checks.push(Check::seen(&name, holds, format!("{change:+.1} %{published}")));
            }
            _ => checks.push(Check::seen(
                &format!("{name} less than {LITTLE} %"),
                change > -LITTLE,
                format!("{change:+.1} %"),
            )),
        }
    }
    found.headline.row_of_default("packets in interrupts, default", "%", lost(reports[0], reports[3]));
    found.json.put("softirq", json);
    let show = &mut found.show;
    show.at(Place::Beside);
    show.heading("Packets");
    show.grid(&table);
    let full = IrqSafeLengths::FULL.packets;
    let rounds =
        IrqSafeLengths::VARIED.map(|window| format!("{:.0} % of the window", share(window as f64, full as f64)));
    show.varied(found.varied.as_ref().map(|varied| (varied, rounds)));
    Ok(checks)
}
