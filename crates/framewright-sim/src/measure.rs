//! Puts a report together from what was counted.

use framewright::machine::{LockKind, LockName};

use crate::engine::cpu::{Cpu, Mark, Spent};
use crate::engine::locks::LockStats;
use crate::engine::run::Simulation;
use crate::memory::counters::{Count, PLACES, Place};
use crate::model::{Ps, ns};
use crate::report::{CpuReport, FieldReport, Figure, LineReport, LockReport, LockSpan, Report, SCHEMA, Times, Traffic};

/// The parts of a report that the machine does not know.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Workload.
    pub workload: String,
    /// Mechanisms.
    pub mechanisms: String,
    /// Name of one operation.
    pub unit: String,
    /// Figures of the workload's own.
    pub figures: Vec<Figure>,
}

/// Returns a kind of lock as text: the core's name for it in lower case, with hyphens.
fn kind(kind: LockKind) -> String {
    let name = format!("{kind:?}");
    name.char_indices().fold(String::new(), |mut text, (at, letter)| {
        text.extend((at > 0 && letter.is_ascii_uppercase()).then_some('-'));
        text.push(letter.to_ascii_lowercase());
        text
    })
}

impl Simulation<'_> {
    /// Returns what the runs so far have shown.
    pub fn report(&self, about: &About) -> Report {
        let per_cpu: Vec<CpuReport> =
            (0..).zip(&self.world.cpus).map(|(number, cpu)| cpu_report(number, cpu)).collect();
        let operations = per_cpu.iter().map(|cpu| cpu.operations).sum();
        let window = self.window().max(1) as f64;
        let cycles = window * self.options.cpus as f64 * self.world.model.topology.khz as f64 / 1e9;
        Report {
            schema: SCHEMA,
            machine: self.world.model.name.clone(),
            workload: about.workload.clone(),
            mechanisms: about.mechanisms.clone(),
            cpus: self.options.cpus,
            seed: self.options.seed,
            schedule: self.options.schedule.to_string(),
            warm_up_ns: self.options.warm_up / 1000,
            window_ns: self.window() / 1000,
            operations,
            unit: about.unit.clone(),
            per_second: operations as f64 * 1e12 / window,
            cycles_per_operation: if operations == 0 { 0.0 } else { cycles / operations as f64 },
            figures: about.figures.clone(),
            locks: self.locks(),
            lines: self.lines(),
            accesses: self.world.cpus.iter().map(|cpu| span(cpu).accesses).sum(),
            per_cpu,
            switches: self.world.switches,
        }
    }

    /// Returns the length of the window, up to now if it is not over.
    fn window(&self) -> Ps {
        let (begin, end) = self.world.window;
        end.min(self.clock()).saturating_sub(begin)
    }

    /// Returns each acquisition of a lock, if they were kept.
    pub fn lock_spans(&self) -> &[LockSpan] {
        self.world.locks.spans.as_deref().unwrap_or_default()
    }

    fn locks(&self) -> Vec<LockReport> {
        let time = self.window() * self.world.cpus.len() as Ps;
        let report = |(name, stats): (&LockName, &LockStats)| LockReport {
            name: name.to_string(),
            kind: kind(name.kind),
            taken: stats.taken(),
            contended: stats.contended,
            waiting: stats.waiting(),
            holding: stats.holding(),
            contention_percent: stats.contended_wait as f64 * 100.0 / time.max(1) as f64,
        };
        let mut locks: Vec<LockReport> = self.world.locks.stats.iter().map(report).collect();
        locks.sort_by(|a, b| b.waiting.total_ns.total_cmp(&a.waiting.total_ns));
        locks
    }

    fn lines(&self) -> Vec<LineReport> {
        let arrays = self.world.counters.arrays().map(|(region, count)| {
            let name = self.regions[region].name.clone();
            let fields = vec![FieldReport { name: name.clone(), traffic: traffic(count) }];
            let lines = self.regions[region].bytes().div_ceil(1 << self.regions[region].line_shift()) as u64;
            LineReport { name, lines, total: traffic(count), fields }
        });
        let lines = self.world.counters.lines().iter().map(|places| self.line(places));
        let mut all: Vec<LineReport> = arrays.chain(lines).filter(|line| line.total != Traffic::default()).collect();
        let cost = |traffic: &Traffic| traffic.queued_ns + traffic.moving_ns;
        all.sort_by(|a, b| cost(&b.total).total_cmp(&cost(&a.total)).then_with(|| a.name.cmp(&b.name)));
        all
    }

    /// One line of a region with fields.
    fn line(&self, places: &[Place; PLACES]) -> LineReport {
        let region = &self.regions[usize::from(places[0].region)];
        let mut fields: Vec<FieldReport> = Vec::new();
        let mut part = None;
        for place in places.iter().filter(|place| place.count != Count::default()) {
            let name = self.names.of(region.start + place.offset);
            part = part.or_else(|| name.as_ref().map(|(part, _)| (*part).to_owned()));
            let name = name.map_or_else(|| format!("+ {}", place.offset % region.element.max(1)), |(_, name)| name);
            let traffic = traffic(&place.count);
            match fields.iter_mut().find(|field| field.name == name) {
                Some(field) => field.traffic = plus(field.traffic, traffic),
                None => fields.push(FieldReport { name, traffic }),
            }
        }
        let total = fields.iter().map(|field| field.traffic).fold(Traffic::default(), plus);
        fields.sort_by(|a, b| {
            let cost = |field: &FieldReport| field.traffic.queued_ns + field.traffic.moving_ns;
            cost(b).total_cmp(&cost(a))
        });
        let (element, within) = (places[0].offset / region.element.max(1), places[0].offset % region.element.max(1));
        let part = part.unwrap_or_else(|| format!("{} {element}", region.name));
        LineReport { name: format!("{part} + {within}"), lines: 1, total, fields }
    }
}

fn traffic(count: &Count) -> Traffic {
    Traffic {
        loads: count.loads,
        stores: count.stores,
        rmws: count.rmws,
        near: count.near,
        far: count.far,
        memory: count.memory,
        queued_ns: ns(count.queued),
        moving_ns: ns(count.moving),
    }
}

fn plus(a: Traffic, b: Traffic) -> Traffic {
    Traffic {
        loads: a.loads + b.loads,
        stores: a.stores + b.stores,
        rmws: a.rmws + b.rmws,
        near: a.near + b.near,
        far: a.far + b.far,
        memory: a.memory + b.memory,
        queued_ns: a.queued_ns + b.queued_ns,
        moving_ns: a.moving_ns + b.moving_ns,
    }
}

/// Returns what a CPU did in its window, up to now if it is not over.
fn span(cpu: &Cpu) -> Mark {
    let begin = cpu.marks[0].unwrap_or_default();
    let last = Mark { clock: cpu.now.clock, times: cpu.times, accesses: cpu.now.accesses };
    let end = cpu.marks[1].unwrap_or(last);
    Mark {
        clock: end.clock - begin.clock,
        times: end.times.since(&begin.times),
        accesses: end.accesses - begin.accesses,
    }
}

fn cpu_report(number: usize, cpu: &Cpu) -> CpuReport {
    let span = span(cpu);
    let times = &span.times;
    let of = |what| ns(times.get(what));
    let time = Times {
        instructions: of(Spent::Instructions),
        hits: ns(span.clock.saturating_sub(times.sum())),
        near: of(Spent::Near),
        far: of(Spent::Far),
        memory: of(Spent::Memory),
        queued: of(Spent::Queued),
        spinning: of(Spent::Spinning),
        stores: of(Spent::Stores),
        zeroing: of(Spent::Zeroing),
        asleep: of(Spent::Asleep),
        interrupts: of(Spent::Interrupts),
    };
    let core = usize::from(cpu.now.core);
    CpuReport { cpu: number, node: usize::from(cpu.node), core, operations: cpu.operations, time }
}
