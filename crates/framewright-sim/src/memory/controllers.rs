//! Memory controllers: one for each node.
//!
//! A controller serves a bounded number of lines a second. Zeroed pages queue at it; single lines are read in between.
//! A busier controller serves a line later, by the curve of loaded latency that latency checkers print. Its load is the
//! share of the last microseconds that its work took.

use crate::model::{Model, Ps};

/// A controller's load is taken over this time and as much before.
const PERIOD: Ps = 10_000_000;

/// One node's controller.
#[derive(Clone, Copy, Default, Debug)]
struct Controller {
    /// Times at which the queued pages, and the lines, are done.
    pages: Ps,
    lines: Ps,
    /// Start of the current period, and the work in it and in the one before.
    period: Ps,
    work: Ps,
    before: Ps,
}

impl Controller {
    /// Notes work; returns the controller's load in thousandths.
    fn load(&mut self, now: Ps, work: Ps) -> u32 {
        if now >= self.period + PERIOD {
            let is_next = now < self.period + 2 * PERIOD;
            self.before = if is_next { self.work } else { 0 };
            (self.work, self.period) = (0, now - now % PERIOD);
        }
        self.work += work;
        // The previous period counts by the part that still overlaps the last `PERIOD`.
        let elapsed = now.saturating_sub(self.period).min(PERIOD);
        let recent = self.work + self.before / 1000 * ((PERIOD - elapsed) / (PERIOD / 1000));
        (recent / (PERIOD / 1000)).min(1000) as u32
    }
}

/// All controllers.
pub(crate) struct Controllers {
    nodes: Vec<Controller>,
    read_line: Ps,
    zero_line: Ps,
    zero_line_alone: Ps,
    curve: Vec<(u32, u32)>,
}

impl Controllers {
    pub(crate) fn new(model: &Model) -> Controllers {
        let memory = &model.memory;
        Controllers {
            nodes: vec![Controller::default(); usize::from(model.topology.sockets)],
            read_line: memory.read_line,
            zero_line: memory.zero_line,
            zero_line_alone: memory.zero_line_alone,
            curve: memory.loaded.clone(),
        }
    }

    /// Reads a line of a node; returns how long it takes, with `idle` as its time at rest.
    pub(crate) fn read_line(&mut self, node: usize, now: Ps, idle: Ps) -> Ps {
        let controller = &mut self.nodes[node];
        let load = controller.load(now, self.read_line);
        controller.lines = controller.lines.max(now) + self.read_line;
        (idle * Ps::from(stretch(&self.curve, load)) / 1000).max(controller.lines - now)
    }

    /// Zeroes `lines` lines of a node; returns when they are done.
    pub(crate) fn zero(&mut self, node: usize, now: Ps, lines: u64) -> Ps {
        let controller = &mut self.nodes[node];
        let work = lines * self.zero_line;
        controller.load(now, work);
        controller.pages = controller.pages.max(now) + work;
        controller.pages.max(now + lines * self.zero_line_alone)
    }
}

/// Returns the curve's value at a load, interpolated; both in thousandths.
fn stretch(curve: &[(u32, u32)], load: u32) -> u32 {
    let after = curve.partition_point(|&(at, _)| at < load);
    match (after.checked_sub(1).and_then(|before| curve.get(before)), curve.get(after)) {
        (Some(&(a, low)), Some(&(b, high))) => low + (high - low.min(high)) * (load - a) / (b - a).max(1),
        (None, Some(&(_, first))) => first,
        (Some(&(_, last)), None) => last,
        (None, None) => 1000,
    }
}

#[cfg(test)]
mod tests {
    use super::stretch;

    #[test]
    fn the_curve_is_straight_between_its_points() {
        let curve = [(100, 1000), (500, 1200), (1000, 2200)];
        for (load, expected) in [(0, 1000), (100, 1000), (300, 1100), (500, 1200), (750, 1700), (1000, 2200)] {
            assert_eq!(stretch(&curve, load), expected, "at {load}");
        }
        assert_eq!(stretch(&[], 700), 1000);
    }
}
