//! Converts the numbers of a machine's file into the simulator's own.

use framewright::machine::Step;

use super::origin::Unit;
use super::schema::STEP_COSTS;
use super::spec::{Parameter, Spec};
use crate::model::{Capacity, Costs, Latencies, Memory, Model, Occupancy, Ps, Stores, Topology};

impl Spec {
    /// Returns the machine as the simulator computes with it.
    ///
    /// A machine of one socket has no latencies between sockets; the model then holds those within the socket. So it
    /// does for nodes of a socket. A curve that a scaled point bends downwards is level there.
    pub fn model(&self) -> Model {
        let numbers = Numbers { spec: self, topology: self.topology() };
        Model {
            name: self.name.clone(),
            topology: numbers.topology,
            latency: numbers.latency(),
            capacity: Capacity {
                l1: numbers.lines("capacity.l1"),
                l2: numbers.lines("capacity.l2"),
                llc: numbers.lines("capacity.llc"),
            },
            occupancy: Occupancy {
                read: numbers.time("occupancy.read"),
                own_permille: (numbers.value("occupancy.own") * 10.0).round() as u32,
            },
            stores: Stores {
                issue: numbers.time("stores.issue"),
                in_flight: numbers.value("stores.in_flight").round() as u8,
                buffer: self.parameter("stores.buffer").map(|buffer| buffer.value.round() as u8),
            },
            memory: Memory {
                zero_line: numbers.time("memory.zero_line"),
                zero_line_alone: numbers.time("memory.zero_line_alone"),
                read_line: numbers.time("memory.read_line"),
                loaded: numbers.loaded(),
                load_permille: numbers.permille("memory.load_factor"),
                beside: numbers.value("memory.beside") > 1.0,
            },
            costs: numbers.costs(),
            pairs: numbers.value("occupancy.together") > 1.0,
            slack: numbers.time("run.slack"),
        }
    }

    /// Returns a time of the machine in nanoseconds, by its path.
    pub fn nanoseconds(&self, path: &str) -> Option<f64> {
        let parameter = self.parameter(path)?;
        match parameter.unit {
            Unit::Ns => Some(parameter.value),
            Unit::Cycles => Some(parameter.value * 1e6 / self.topology().khz as f64),
            _ => None,
        }
    }

    fn topology(&self) -> Topology {
        let value = |path: &str| self.parameter(path).map_or(0.0, |parameter| parameter.value);
        let package = value("topology.nodes").max(1.0) as u16;
        Topology {
            sockets: value("topology.sockets") as u16 * package,
            package,
            cores: value("topology.cores") as u16 / package,
            threads: value("topology.threads") as u16,
            khz: (value("topology.clock") * 1e6).round() as u64,
        }
    }
}

/// A machine's numbers by path. Required numbers are there: the file was checked when it was read.
struct Numbers<'a> {
    spec: &'a Spec,
    topology: Topology,
}

impl Numbers<'_> {
    fn value(&self, path: &str) -> f64 {
        self.spec.parameter(path).map_or(0.0, |parameter| parameter.value)
    }

    fn permille(&self, path: &str) -> u32 {
        (self.value(path) * 1000.0).round() as u32
    }

    fn time(&self, path: &str) -> Ps {
        self.spec.parameter(path).map_or(0, |parameter| self.time_of(parameter))
    }

    fn time_of(&self, parameter: &Parameter) -> Ps {
        match parameter.unit {
            Unit::Cycles => self.topology.cycles(parameter.value),
            _ => (parameter.value * 1000.0).round() as Ps,
        }
    }

    /// Returns the time of `count` instructions; picoseconds are too coarse for one.
    fn instructions(&self, count: u32) -> Ps {
        let scale =
            |parameter: &Parameter| Parameter { value: parameter.value * f64::from(count), ..parameter.clone() };
        self.spec.parameter("costs.instruction").map_or(0, |parameter| self.time_of(&scale(parameter)))
    }

    fn lines(&self, path: &str) -> u32 {
        let Some(parameter) = self.spec.parameter(path) else { return 0 };
        let lines = match parameter.unit {
            Unit::Kib => parameter.value * 16.0,
            Unit::Mib => parameter.value * 16384.0,
            _ => parameter.value,
        };
        lines.round() as u32
    }

    fn latency(&self) -> Latencies {
        let near = |name: &str| self.time(&format!("latency.{name}"));
        let far = |name: &str, within: &str| {
            let parameter = self.spec.parameter(&format!("latency.{name}"));
            parameter.map_or_else(|| near(within), |parameter| self.time_of(parameter))
        };
        Latencies {
            l1: near("l1"),
            l2: near("l2"),
            llc: near("llc"),
            hit: near("hit"),
            hitm: near("hitm"),
            die_hit: far("die_hit", "hit"),
            die_hitm_home_there: far("die_hitm_home_there", "hitm"),
            die_hitm_home_here: far("die_hitm_home_here", "hitm"),
            far_hit: far("far_hit", "hit"),
            far_hitm_home_there: far("far_hitm_home_there", "hitm"),
            far_hitm_home_here: far("far_hitm_home_here", "hitm"),
            dram: near("dram"),
            die_dram: far("die_dram", "dram"),
            far_dram: far("far_dram", "dram"),
        }
    }

    fn loaded(&self) -> Vec<(u32, u32)> {
        let mut highest = 0;
        let points = self.spec.parameters().filter(|parameter| parameter.path.starts_with("memory.loaded."));
        let curve = points.map(|point| {
            highest = highest.max((point.value * 1000.0).round() as u32);
            (point.at.map_or(0, |(percent, _)| (percent * 10.0).round() as u32), highest)
        });
        curve.collect()
    }

    fn costs(&self) -> Costs {
        let cost = |name: &str| self.time(&format!("costs.{name}"));
        let steps = Step::ALL.iter().map(|step| {
            let parameter = self.spec.parameter(&format!("{STEP_COSTS}{}", step.name()));
            parameter.map_or_else(|| self.instructions(step.instructions()), |parameter| self.time_of(parameter))
        });
        Costs {
            steps: steps.collect(),
            hit: self.spec.parameter("costs.hit").map_or_else(|| self.time("latency.l1"), |hit| self.time_of(hit)),
            rmw: cost("rmw"),
            fence: cost("fence"),
            heavy_fence: (cost("heavy_fence"), cost("heavy_fence_interrupted")),
            pin: cost("pin"),
            irq_save: cost("irq_save"),
            masked_free: self.spec.parameter("costs.masked_free").map_or(0, |more| self.time_of(more)),
            interrupt: cost("interrupt"),
            wake: cost("wake"),
            pause: cost("pause"),
            sibling_permille: self.permille("costs.sibling"),
        }
    }
}
