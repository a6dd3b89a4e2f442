//! The tables and plots, and the figures to look at first.

use super::found::{Found, Row, SAVING, is_gain, is_loss, is_near, is_pair};
use super::plan::{ITERATIONS, Lengths, MODES, NAME, STREAMS};
use super::published::{Both, Operation, Statistic};
use crate::html::plot::{Axis, Over, Plot, Series};
use crate::reproduce::head::Head;
use crate::reproduce::headline::{self, Gain, Headline};
use crate::reproduce::reproduction::{Common, Reproduction};
use crate::reproduce::show::{
    Cell, Grid, Place, Show, band, cell, definitions, either, escaped, in_text, named, on_page,
};
use crate::sim::figures::{grouped, share};

/// Batches whose saving is shown first: of an allocation and its free.
const FIRST: [u32; 2] = [1, 64];
/// What the modes are.
const WORDS: [&str; 4] = [
    "Linux until 2022: interrupts are held off while a CPU is at its lists",
    "the change of 2017: preemption is held off, and whoever comes in an interrupt goes to the zone",
    "Linux since 2022: the lists' lock is tried, and whoever finds them in use goes to the zone",
    "ours: an interrupt has lists of its own",
];

impl Reproduction for Found {
    fn common(&self) -> Common<'_> {
        Common { head: &self.head, fitted: &self.fitted, varied: self.varied.as_ref(), checks: &self.checks }
    }

    fn show<'a>(&'a self, show: &mut Show<'a>) {
        let Self { head: Head { model, seed, .. }, desktop, .. } = self;
        show.open(
            format!("interrupts and the per-CPU lists, on {model} and {desktop}, seed {seed}"),
            format!("<a href=\"#machine\">The machine model {model}</a>, and {desktop} for the pair; seed {seed}. Ours: "),
            "the machine of the batches, of aim9 and of the packets is not named, the first stands in for it; per-CPU lists of 31 \
             and 186 frames",
        );
        show.html(definitions(MODES.iter().map(|mode| mode.name).zip(WORDS)));
        self.show_batches(show);
        show.at(Place::Details);
        self.show_others(show);
        self.show_pair(show);
        self.show_parts(show);
        self.show_tests(show);
        show.at(Place::Beside);
        show.plots(
            vec!["theirs".to_owned(), "ours".to_owned()],
            1,
            [("allocation", Operation::Alloc), ("free", Operation::Free)].map(|of| self.plot(of)),
        );
        self.show_packets(show);
        let reasons = || self.softirq.iter().map(|row| (row.mode, &row.why));
        show.why_on_page(reasons());
        show.why("Why", reasons());
        show.runs = self.runs.iter().map(|(mode, report)| (format!("packets, {mode}"), report)).collect();
    }

    fn headline(&self) -> Headline {
        let (pair, row) = (&self.page_bench02, headline::Row::new);
        let saved = [pair.published.saving(), pair.simulated.saving()];
        let total = |batch: u32| {
            let found = self.rows.iter().find(|row| row.name() == format!("total {batch}"))?;
            let both = [found.corrected.saving(), found.simulated.saving()];
            let near = found.off_percent().abs() <= SAVING;
            Some(row(&format!("batch of {batch}, saves"), "cycles", both, found.fitted, near))
        };
        let tests = self.aim9.iter().filter(|test| test.statistic == Statistic::Hmean).map(|test| {
            let both = [test.published_gain_percent, test.simulated_gain_percent];
            row(test.test.name(), "%", both, false, is_gain(test) == Some(true))
        });
        let packets = self.softirq.iter().filter(|found| !found.fitted).filter_map(|found| {
            let both = [found.published_change_percent?, found.change_percent];
            Some(row("packets in interrupts", "%", both, false, is_loss(found)))
        });
        let of_default = self.softirq.last().map_or(f64::NAN, |row| row.change_percent);
        let ours = pair.modes.last().map_or(f64::NAN, |(_, cycles)| *cycles);
        Headline {
            experiment: NAME,
            what: "what lists that interrupts do not use save, and cost".to_owned(),
            rows: [row("page_bench02, saves", "cycles", saved, false, is_pair(pair))]
                .into_iter()
                .chain(FIRST.into_iter().filter_map(total))
                .chain(tests)
                .chain(packets)
                .chain([headline::Row::of_default("packets in interrupts, default", "%", of_default)])
                .collect(),
            gain: Gain::new(
                "cycles of a pair, and interrupts may allocate",
                [pair.simulated.vanilla, ours].map(|cycles| format!("{cycles:.1}")),
            ),
            ours: format!(
                "interrupts bring lists of their own: {ours:.1} cycles a pair, not {:.1}",
                pair.simulated.irqsafe
            ),
            fails: Vec::new(),
        }
    }
}

impl Found {
    fn show_batches(&self, show: &mut Show<'_>) {
        let columns = "<14|>18 theirs, printed|>20 corrected|>20 ours|>18 saving:   theirs|>8 ours ";
        let caption = "Cycles a page, interrupts off → preemption off. Theirs did one page more than a batch is called; corrected is over \
                       as many as there were";
        let mut table = Grid::new(columns)
            .above("Cycles a page; theirs over as many pages as there were, one more than a batch is called")
            .page("Batches", caption, "Batch|Theirs:printed;corrected|Ours|Saved:theirs;ours");
        for row in &self.rows {
            let saving = |both: Both| cell(format!("{:.1}", both.saving()));
            table.row(vec![
                named(&row.name(), row.fitted),
                both(row.published),
                both(row.corrected),
                both(row.simulated),
                saving(row.corrected),
                saving(row.simulated).holds(is_near(row)),
            ]);
        }
        show.grid(&table);
        show.fitted(&self.fitted);
        show.line(format!("! saving more than {SAVING} % off"));
    }

    /// The batches in the other modes: on the page all of them.
    fn show_others(&self, show: &mut Show<'_>) {
        let mut table = Grid::new("<36 Not in the table, cycles a page:|>18 to allocate|>12 to free").page(
            "The batches with other lists",
            "Cycles a page",
            "Lists|Batch|to allocate|to free",
        );
        let last = self.rows.iter().map(|row| row.batch).max();
        for row in &self.beside {
            let cycles = [row.alloc, row.free].map(|cycles| cell(format!("{cycles:.1}")));
            let name = either(format!("  {}, batch {}", row.mode, row.batch), row.mode);
            let cells = [name, on_page(row.batch)].into_iter().chain(cycles);
            let is_in_text = row.batch == 64 || Some(row.batch) == last;
            table.row(cells.map(|cell| if is_in_text { cell } else { cell.page_alone() }).collect());
        }
        show.heading("The batches with other lists");
        show.grid(&table);
    }

    fn show_pair(&self, show: &mut Show<'_>) {
        let (found, desktop) = (&self.page_bench02, &self.desktop);
        let Both { vanilla, irqsafe } = found.simulated;
        show.html(format!(
            "\n<h2>One pair, and its parts</h2>\n<p>page_bench02 took {:?} cycles and takes {:?} with the change; ours {vanilla:.1} and \
             {irqsafe:.1} on {desktop}.</p>\n",
            found.published.vanilla, found.published.irqsafe
        ));
        let trylock = found.native.iter().filter(|row| row.protection == "trylock");
        let heads: String = trylock.map(|row| format!("|ns here, {}", escaped(row.preset))).collect();
        let caption = "A pair by how the lists are kept from interrupts; natively nothing is masked";
        let mut table = Grid::new("").page("One pair", caption, &format!("Lists|Cycles, simulated{heads}"));
        for (mode, cycles) in &found.modes {
            let native = found.native.iter().filter(|row| row.protection == *mode);
            let native = native.map(|row| on_page(format!("{:.1}", row.ns)));
            table.row([on_page(mode), on_page(format!("{cycles:.1}"))].into_iter().chain(native).collect());
        }
        show.grid(&table);
        let savings = [found.published, found.simulated].map(Both::saving);
        show.line(format!("\npage_bench02: cycles of a pair on {desktop}"));
        show.line(format!("  theirs {}, saves {:.0}", arrow(found.published, "->"), savings[0]));
        show.line(format!("  ours   {}, saves {:.1}", arrow(found.simulated, "->"), savings[1]));
        let modes: Vec<String> = found.modes.iter().map(|(mode, cycles)| format!("{mode} {cycles:.1}")).collect();
        show.note(&format!("  by mode: {}", modes.join(", ")), 4);
        let native = found.native.iter().map(|row| format!("{}, {} {:.1} ns", row.preset, row.protection, row.ns));
        let native: Vec<String> = native.collect();
        if !native.is_empty() {
            show.note(&format!("  natively, here, where nothing is masked: {}", native.join("; ")), 4);
        }
    }

    fn show_parts(&self, show: &mut Show<'_>) {
        let caption = "time_bench_sample: theirs, and what corresponds to it on the machine that this page was made on";
        let mut table = Grid::new("<33 time_bench: theirs|>8 cycles|>8 ns|<37 here|>6 cycles|>7 ns").page(
            "Its parts",
            caption,
            "Theirs|cycles|ns|.Here|cycles|ns",
        );
        for row in &self.time_bench {
            let mut cells = row.published.as_ref().map_or_else(
                || vec![cell(""), cell(""), cell("")],
                |theirs| {
                    let cycles = format!("{:.0}", theirs.cycles);
                    vec![
                        cell(&theirs.name),
                        cell(cycles),
                        either(format!("{:.3}", theirs.ns), format!("{:?}", theirs.ns)),
                    ]
                },
            );
            cells.extend(row.native.as_ref().map_or_else(
                || [cell(""), cell(""), cell("")],
                |here| {
                    let cycles = here.cycles.map(|cycles| format!("{cycles:.1}"));
                    let cycles = either(cycles.as_deref().unwrap_or("-"), cycles.as_deref().unwrap_or(""));
                    [cell(here.name), cycles, cell(format!("{:.2}", here.ns))]
                },
            ));
            cells[3] = cells[3].clone().with("class=\"name\"");
            table.row(cells);
        }
        show.grid(&table);
    }

    fn show_tests(&self, show: &mut Show<'_>) {
        let heads = "Test|Theirs:before;after;better by, %|Ours:before;after;better by, %";
        let mut table = Grid::new("<22|>26 theirs, a second|>9 by|>30 ours|>9 by")
            .above(format!("aim9, {ITERATIONS} iterations; better by, in percent"))
            .page("aim9", "Operations a second, and by how much the change is better", heads);
        for row in &self.aim9 {
            let of = |both: Both, gain: f64| {
                let [before, after] = [both.vanilla, both.irqsafe].map(rate);
                let change = in_text(format!("{before} -> {after}"));
                [change, on_page(before), on_page(after), cell(format!("{gain:+.2}"))]
            };
            let theirs = of(row.published, row.published_gain_percent);
            let ours = of(row.simulated, row.simulated_gain_percent);
            let name = named(&row.test.row(row.statistic), row.fitted);
            table.row([name].into_iter().chain(theirs).chain(ours).collect());
        }
        show.html("\n<h2>aim9</h2>\n");
        show.grid(&table);
    }

    fn show_packets(&self, show: &mut Show<'_>) {
        let heads = "Lists|Theirs:Mbit/s;change, %|Ours:Mbit/s;change, %;band";
        let mut table = Grid::new("<18|>15 theirs: Mbit/s|>9 change|>16 ours: Mbit/s|>9 change|>14 band")
            .above(format!("Packets: {STREAMS} streams, pages allocated in interrupts and freed by tasks"))
            .page("Packets", "Eight streams: pages are allocated in interrupts and freed by tasks", heads);
        for row in &self.softirq {
            let change = |change: Option<f64>| match change {
                None => cell(""),
                Some(0.0) => either("", format!("{:+.1}", 0.0)),
                Some(change) => either(format!("{change:+.1} %"), format!("{change:+.1}")),
            };
            let mechanisms = format!("<br><code>{}</code>", escaped(row.mechanisms));
            table.row(vec![
                named(row.mode, row.fitted).around(["", &mechanisms]),
                cell(row.published_mbit.map_or(String::new(), grouped)),
                change(row.published_change_percent),
                cell(grouped(row.simulated_mbit)),
                change(Some(row.change_percent)),
                band(row.band),
            ]);
        }
        show.heading("Packets");
        show.grid(&table);
        let full = Lengths::FULL.packets;
        let rounds = Lengths::VARIED.map(|window| format!("{:.0} % of the window", share(window as f64, full as f64)));
        show.varied(self.varied.as_ref().map(|varied| (varied, rounds)));
    }

    /// Savings over the batch.
    fn plot(&self, (title, operation): (&str, Operation)) -> Plot {
        let points = |of: fn(&Row) -> Both| {
            let rows = self.rows.iter().filter(|row| row.operation == operation && row.batch > 1);
            rows.map(|row| (f64::from(row.batch).log2(), of(row).saving())).collect()
        };
        let series = [("theirs", points(|row| row.corrected)), ("ours", points(|row| row.simulated))];
        let series = series.map(|(name, points)| Series { name: name.to_owned(), points });
        let article = if operation == Operation::Alloc { "an" } else { "a" };
        Plot::over(&format!("Saved by {article} {title}"), &Axis::count("cycles"), &Over::PAGES, &series)
    }
}

/// Cycles, before and after.
fn arrow(both: Both, to: &str) -> String {
    format!("{:.1} {to} {:.1}", both.vanilla, both.irqsafe)
}

fn both(both: Both) -> Cell {
    either(arrow(both, "->"), arrow(both, "→"))
}

/// A statistic of rates: what scatters little needs decimals.
fn rate(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}") } else { grouped(value) }
}
