//! Operations on CPUs and nodes: drains, statistics, background reclaim and compaction, and how calls are made.

use std::rc::Rc;

use framewright::report::Source;
use framewright::{CpuId, NodeId, Refreshed};

use crate::language::{OnReclaim, Outcome, Wrong, zones};
use crate::play::player::Player;

impl Player<'_> {
    /// Checks that the lists of one CPU, or of all, are empty after a drain.
    pub(crate) fn drained(&self, cpu: Option<CpuId>, frames: u64) -> Result<Outcome, Wrong> {
        let cpus: Vec<CpuId> = match cpu {
            Some(cpu) => vec![cpu],
            None => (0..self.pages.cpus()).map(|cpu| CpuId(cpu as u16)).collect(),
        };
        for zone in zones(self.pages.nodes()) {
            let left = cpus.iter().filter_map(|&cpu| self.pages.pcp(zone, cpu)).find(|pcp| pcp.count != 0);
            if let Some(left) = left {
                return Err(format!("after a drain CPU {} still has {} frames", left.cpu.0, left.count));
            }
        }
        Ok(Outcome::Frames(frames))
    }

    /// Refreshes a CPU's statistics, after which the CPU must keep no counts.
    ///
    /// It may free what it has of other nodes' zones, and nothing else.
    pub(crate) fn refreshed(&self, cpu: CpuId) -> Result<Outcome, Wrong> {
        let (needed, held) = (self.pages.needs_refresh(cpu), self.cached(cpu));
        let did = self.pages.refresh_statistics(cpu);
        let (more, [near, far]) = (self.pages.needs_refresh(cpu), self.cached(cpu));
        let gone = [held[0].wrapping_sub(near), held[1].wrapping_sub(far)];
        if needed != (did != Refreshed::default()) || more != (did.waiting != 0) || gone != [0, did.drained] {
            return Err(format!("CPU {}: {did:?}, needed: {needed}, once more: {more}, gone: {gone:?} frames", cpu.0));
        }
        Ok(Outcome::Done)
    }

    /// Switches the NUMA counters. Switched on again, they count from 0.
    pub(super) fn switch_numa_stat(&self, on: bool) {
        if self.pages.set_numa_stat(on) && self.counting.replace(on) != on {
            self.local.set(0);
            self.other.set(0);
            self.interleaved.set(self.turns.borrow().iter().all(Option::is_some).then_some(0));
        }
    }

    /// Holds a `Local` from now on, or none; drops the one held before.
    pub(super) fn stay(&self, on: bool) -> Result<Outcome, Wrong> {
        self.seat.take();
        if on {
            let local = self.pages.local().ok_or("there is a CPU, but no `Local` of it")?;
            self.seat.replace(Some(Rc::new(local)));
        }
        Ok(Outcome::Done)
    }

    /// Switches the tracepoints. Switched on again, they count from the held frames.
    pub(super) fn trace(&self, on: bool) {
        self.pages.machine().set_traces(on);
        let held = self.oracle.borrow().held_frames();
        self.traced.set(if on { Some(self.traced.get().unwrap_or(held)) } else { None });
    }

    /// Runs a node's background reclaim.
    ///
    /// It must end whatever the callback does, and take back the whole boost. A callback that mixes mobilities may
    /// raise the boost again.
    pub(crate) fn balanced(&self, node: NodeId) -> Result<Outcome, Wrong> {
        let there = zones(self.pages.nodes()).filter(|zone| zone.node() == node);
        let boost = || -> u64 { there.clone().filter_map(|zone| self.pages.zone(zone)).map(|zone| zone.boost).sum() };
        let (before, is_nested) = (boost(), self.hooks.borrow().on_reclaim == OnReclaim::Nest);
        let run = self.pages.balance(node);
        if run.boost != before || (boost() != 0 && !is_nested) {
            return Err(format!("{run:?}, with a boost of {before} before and {} afterwards", boost()));
        }
        Ok(Outcome::Done)
    }

    /// Runs a node's background compaction, on demand and proactively.
    pub(crate) fn compacted(&self, node: NodeId) -> Result<Outcome, Wrong> {
        self.pages.compact(node);
        self.pages.compact_proactively(node);
        Ok(Outcome::Done)
    }
}
