//! A machine's file, from what was measured and, for all of the rest, from another machine.

use framewright_bench::checker::{Host, Reading, Readings};
use framewright_sim::machine::{self, Basis, MachineError, Parameter, Spec, Unit};

use super::curve::{CurvePoint, curve};

/// Latencies that are measured, from near to far, of which each is at least the one before it.
const LEVELS: [&str; 4] = ["latency.l1", "latency.l2", "latency.llc", "latency.dram"];

/// Makes the machine's file of this host.
///
/// `file` names it, and so its machine; `processor` is in its title. What was not measured is assumed to be
/// as on `base`.
///
/// # Errors
/// `base` lacks a number that this machine needs and that was not measured.
pub fn machine_file(
    file: &str,
    processor: &str,
    (host, readings): (&Host, &Readings),
    base: &Spec,
) -> Result<Spec, MachineError> {
    let mut numbers = Numbers { numbers: assumed(host, base) };
    numbers.shape(host);
    let mut floor: f64 = 0.0;
    for row in readings.rows.iter().filter(|row| !row.path.is_empty()) {
        let is_level = LEVELS.contains(&row.path.as_str());
        // A level that came out faster than a nearer one is as slow as that.
        let value = if is_level { row.value.max(floor) } else { row.value };
        floor = if is_level { value } else { floor };
        numbers.set(&row.path, rounded(value), unit(row), measured(row));
        if let Some(name) = row.path.strip_prefix("latency.") {
            numbers.set(&format!("mlc.{name}"), rounded(value), Unit::Ns, measured(row));
        }
    }
    if let (Some(peak), Some(line)) = (readings.value("mlc.peak"), readings.value("memory.read_line")) {
        let rest = readings.value("latency.dram").map_or(floor, |dram| dram.max(floor));
        let of_node = 64.0 / line;
        numbers.curve(&curve(&readings.loaded, rest, of_node), (rest, of_node, peak));
    }
    let title = format!(
        "{processor}: {} x {} cores, {} CPUs; measured by framewright machine check",
        host.sockets,
        host.cores,
        host.cpus.len()
    );
    machine::assemble(file, &title, numbers.numbers)
}

/// Returns the numbers of a machine that were not measured: as on `base`, in so far as this host has them.
fn assumed(host: &Host, base: &Spec) -> Vec<Parameter> {
    let mut numbers: Vec<Parameter> = base.parameters().cloned().collect();
    if host.nodes > 1 && base.parameter("latency.die_dram").is_none() {
        let farther: Vec<Parameter> =
            base.parameters().filter(|number| number.path.starts_with("latency.far_")).cloned().collect();
        numbers.extend(
            farther.into_iter().map(|number| Parameter { path: number.path.replace("far_", "die_"), ..number }),
        );
    }
    numbers.retain(|number| {
        (host.sockets > 1 || !number.path.starts_with("latency.far_"))
            && (host.nodes > 1 || !number.path.starts_with("latency.die_"))
            && number.path != "topology.nodes"
    });
    for number in &mut numbers {
        let (Basis::Source(text) | Basis::Assumed(text) | Basis::Fitted(text)) = &number.basis;
        let text = text.strip_prefix("as on ").map_or_else(|| text.clone(), |rest| format!("on {rest}"));
        number.basis = Basis::Assumed(format!("not measured; as on {}: {text}", base.name));
    }
    numbers
}

/// The numbers of a file that is being made.
struct Numbers {
    numbers: Vec<Parameter>,
}

impl Numbers {
    /// Sets a number, which may be there already.
    fn set(&mut self, path: &str, value: f64, unit: Unit, basis: Basis) {
        self.numbers.retain(|number| number.path != path);
        self.numbers.push(Parameter { path: path.to_owned(), value, unit, at: None, basis });
    }

    /// Sets sockets, nodes, cores, threads and caches.
    fn shape(&mut self, host: &Host) {
        let shown = |what: &str| Basis::Source(format!("measured: {what} of this machine, /sys/devices/system"));
        let counts = [("sockets", host.sockets), ("cores", host.cores), ("threads", host.threads)];
        for (name, count) in counts {
            self.set(&format!("topology.{name}"), count as f64, Unit::Count, shown("topology"));
        }
        if host.nodes > 1 {
            self.set("topology.nodes", host.nodes as f64, Unit::Count, shown("topology"));
        }
        let caches = host.caches;
        let sizes = [("l1", caches.l1), ("l2", caches.l2), ("llc", caches.llc * caches.llc_of_node)];
        for (name, bytes) in sizes {
            self.set(&format!("capacity.{name}"), bytes as f64 / 1024.0, Unit::Kib, shown("caches"));
        }
    }

    /// Sets the curve of loaded latency, if there is one, and what a latency checker would print of it.
    fn curve(&mut self, points: &[CurvePoint], (rest, of_node, peak): (f64, f64, f64)) {
        if points.is_empty() {
            return;
        }
        self.numbers.retain(|number| !number.path.starts_with("memory.loaded."));
        let mut add = |path: String, (value, unit), at, basis| {
            self.numbers.push(Parameter { path, value, unit, at: Some(at), basis });
        };
        let basis = Basis::Source(format!("measured: {rest:.1} ns at rest"));
        add("memory.loaded.0".to_owned(), (1.0, Unit::Ratio), (0.0, Unit::Percent), basis);
        for (number, CurvePoint { percent, ratio, from }) in points.iter().enumerate() {
            let text = format!("measured: {:.1} ns at {:.1} of {of_node:.1} GB/s of a node", from.ns, from.gb_per_s);
            let basis = Basis::Source(text);
            let path = format!("memory.loaded.{}", number + 1);
            add(path, (*ratio, Unit::Ratio), (*percent, Unit::Percent), basis.clone());
            let (ns, rate) = (rounded(ratio * rest), rounded(percent / 100.0 * peak));
            add(format!("mlc.loaded.{number}"), (ns, Unit::Ns), (rate, Unit::GbPerS), basis);
        }
    }
}

fn unit(row: &Reading) -> Unit {
    match row.unit {
        "ghz" => Unit::Ghz,
        "gb_per_s" => Unit::GbPerS,
        _ => Unit::Ns,
    }
}

fn measured(row: &Reading) -> Basis {
    let Reading { what, low, high, rounds, .. } = row;
    let spread = match rounds {
        1 => String::new(),
        _ => format!(", median of {rounds} rounds, {} to {}", rounded(*low), rounded(*high)),
    };
    Basis::Source(format!("measured: {what}{spread}"))
}

/// Rounds to four significant digits: further ones are noise.
pub(super) fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10_f64.powi(3 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}
