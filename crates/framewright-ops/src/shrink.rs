//! Makes a failing scenario small.
//!
//! Delta debugging: operations are dropped, in large chunks first and then one by one. The rest gets simpler operands,
//! and the machine fewer special features. All of it is repeated while anything still helps. Handles make that sound:
//! an operation whose handle is gone does nothing.

use framewright::request::GFP_KERNEL;
use framewright::{Gfp, Mechanisms, Order, PfnRange, Policy, Region};

use crate::language::{Op, Scenario, Shape, Terms};

/// Returns the smallest scenario found for which `fails` holds, after at most `tries` proposals.
pub fn shrink(scenario: Scenario, tries: usize, fails: impl FnMut(&Scenario) -> bool) -> Scenario {
    let mut shrinker = Shrinker { best: scenario, left: tries, fails };
    while shrinker.drop_steps() | shrinker.simplify_steps() | shrinker.simplify_machine() {}
    shrinker.best
}

/// Tries ever smaller scenarios.
struct Shrinker<F> {
    best: Scenario,
    /// Proposals that may still be tried.
    left: usize,
    fails: F,
}

impl<F: FnMut(&Scenario) -> bool> Shrinker<F> {
    /// Keeps a proposal if it still fails; returns whether it does.
    fn try_out(&mut self, proposal: Scenario) -> bool {
        let fails = self.left > 0 && (self.fails)(&proposal);
        self.left = self.left.saturating_sub(1);
        if fails {
            self.best = proposal;
        }
        fails
    }

    /// Drops steps, in chunks that become smaller; returns whether that helped.
    fn drop_steps(&mut self) -> bool {
        let all = self.best.steps.len();
        let mut chunk = all.div_ceil(2);
        while chunk > 0 {
            let mut at = 0;
            while at < self.best.steps.len() {
                let mut proposal = self.best.clone();
                proposal.steps.drain(at..self.best.steps.len().min(at + chunk));
                at += if self.try_out(proposal) { 0 } else { chunk };
            }
            chunk /= 2;
        }
        self.best.steps.len() < all
    }

    /// Makes the operands of each operation simpler; returns whether that helped.
    fn simplify_steps(&mut self) -> bool {
        let (mut at, mut helped) = (0, false);
        while at < self.best.steps.len() {
            let best = self.best.clone();
            let simpler = simpler_ops(&best.steps[at].op).into_iter().any(|op| {
                let mut proposal = best.clone();
                proposal.steps[at].op = op;
                self.try_out(proposal)
            });
            helped |= simpler;
            at += usize::from(!simpler);
        }
        helped
    }

    /// Makes the machine simpler; returns whether that helped.
    fn simplify_machine(&mut self) -> bool {
        let mut helped = false;
        loop {
            let Scenario { shape, steps } = self.best.clone();
            let with = |shape| Scenario { shape, steps: steps.clone() };
            if !simpler_shapes(&shape).into_iter().any(|shape| self.try_out(with(shape))) {
                return helped;
            }
            helped = true;
        }
    }
}

/// Returns simpler terms.
fn simpler_terms(terms: Terms) -> Vec<Terms> {
    let mut simpler = Vec::new();
    if terms.policy != Policy::Local {
        simpler.push(Terms { policy: Policy::Local, ..terms });
    }
    if terms.below.is_some() {
        simpler.push(Terms { below: None, ..terms });
    }
    simpler.extend(simpler_gfps(terms.gfp).into_iter().map(|gfp| Terms { gfp, ..terms }));
    simpler
}

/// Returns the plainest flags, then all flags but one.
fn simpler_gfps(gfp: Gfp) -> Vec<Gfp> {
    if gfp == GFP_KERNEL {
        return Vec::new();
    }
    let without = (0..32).map(|bit| Gfp(gfp.0 & !(1 << bit))).filter(move |&fewer| fewer != gfp);
    [GFP_KERNEL].into_iter().chain(without.filter(|&fewer| fewer != GFP_KERNEL)).collect()
}

/// Returns order 0, then the order below.
fn simpler_orders(order: Order) -> Vec<Order> {
    let mut orders: Vec<Order> = [Order(0), order.down()].into_iter().filter(|&simpler| simpler != order).collect();
    orders.dedup();
    orders
}

fn fewer(count: u64) -> Vec<u64> {
    let mut counts: Vec<u64> = [1, count / 2, count.saturating_sub(1)].into_iter().filter(|&n| n < count).collect();
    counts.dedup();
    counts
}

fn shorter(range: PfnRange) -> Vec<PfnRange> {
    let lengths = fewer(range.frames()).into_iter().filter(|&frames| frames != 0);
    lengths.map(|frames| PfnRange { end: range.start.add(frames), ..range }).collect()
}

/// Returns the operation with simpler operands, simplest first.
fn simpler_ops(op: &Op) -> Vec<Op> {
    let mut simpler = Vec::new();
    match *op {
        Op::Alloc { name, order, terms } => {
            simpler.extend(simpler_orders(order).into_iter().map(|order| Op::Alloc { name, order, terms }));
            simpler.extend(simpler_terms(terms).into_iter().map(|terms| Op::Alloc { name, order, terms }));
        }
        Op::AllocNolock { name, order, terms } => simpler.push(Op::Alloc { name, order, terms }),
        Op::FreeNolock(handle) => simpler.push(Op::Free(handle)),
        Op::Bulk { name, count, order, terms } => {
            simpler.push(Op::Alloc { name, order, terms });
            let fewer = fewer(count.into()).into_iter().map(|count| count as u32);
            simpler.extend(fewer.map(|count| Op::Bulk { name, count, order, terms }));
            simpler.extend(simpler_orders(order).into_iter().map(|order| Op::Bulk { name, count, order, terms }));
            simpler.extend(simpler_terms(terms).into_iter().map(|terms| Op::Bulk { name, count, order, terms }));
        }
        Op::AllocAt { name, pfn, order, gfp } => {
            simpler.extend(simpler_orders(order).into_iter().map(|order| Op::AllocAt { name, pfn, order, gfp }));
            simpler.extend(simpler_gfps(gfp).into_iter().map(|gfp| Op::AllocAt { name, pfn, order, gfp }));
        }
        Op::AllocRange { name, range, gfp } => {
            simpler.extend(shorter(range).into_iter().map(|range| Op::AllocRange { name, range, gfp }));
            simpler.extend(simpler_gfps(gfp).into_iter().map(|gfp| Op::AllocRange { name, range, gfp }));
        }
        Op::AllocContig { name, frames, align, terms } => {
            let make = |frames, align, terms| Op::AllocContig { name, frames, align, terms };
            simpler.extend(fewer(frames).into_iter().map(|frames| make(frames, align, terms)));
            simpler.extend(simpler_orders(align).into_iter().map(|align| make(frames, align, terms)));
            simpler.extend(simpler_terms(terms).into_iter().map(|terms| make(frames, align, terms)));
        }
        Op::TakeOffline(range) => simpler.extend(shorter(range).into_iter().map(Op::TakeOffline)),
        Op::AddMemory(range) => simpler.extend(shorter(range).into_iter().map(Op::AddMemory)),
        Op::BringOnline(range) => simpler.extend(shorter(range).into_iter().map(Op::BringOnline)),
        Op::FreePart { handle, skip, frames } => {
            simpler.push(Op::Free(handle));
            simpler.extend(fewer(frames).into_iter().map(|frames| Op::FreePart { handle, skip, frames }));
        }
        Op::FreeBlocks { handle, migratetype, ref blocks } => {
            let shorter = blocks.split_last().map(|(_, rest)| rest.to_vec());
            let thinner = blocks.iter().map(|blocks| blocks / 2).collect::<Vec<u64>>();
            let changed = [shorter, Some(thinner)].into_iter().flatten().filter(|one| one != blocks && !one.is_empty());
            simpler.extend(changed.map(|blocks| Op::FreeBlocks { handle, migratetype, blocks }));
        }
        _ => {}
    }
    simpler
}

/// Returns the machine with one special feature less, or with less memory.
fn simpler_shapes(shape: &Shape) -> Vec<Shape> {
    let mut simpler = Vec::new();
    let mut push = |change: &dyn Fn(&mut Shape)| {
        let mut changed = shape.clone();
        change(&mut changed);
        if changed != *shape && changed.regions.iter().any(|region| region.usable) {
            simpler.push(changed);
        }
    };
    push(&|shape| shape.tuning.clear());
    push(&|shape| (shape.zone_counters, shape.node_counters) = (0, 0));
    push(&|shape| shape.distances.clear());
    if shape.mechanisms != Mechanisms::BASELINE {
        push(&|shape| shape.mechanisms = Mechanisms::BASELINE);
        push(&|shape| shape.mechanisms = Mechanisms::DEFAULT);
    }
    push(&|shape| shape.cma.clear());
    push(&|shape| shape.movable.clear());
    push(&|shape| shape.dma32_end = shape.dma_end);
    push(&|shape| (shape.dma_end, shape.dma32_end) = (framewright::Pfn(0), framewright::Pfn(0)));
    push(&|shape| shape.cpus.truncate(shape.cpus.len().div_ceil(2)));
    push(&|shape| shape.cpus.iter_mut().for_each(|node| node.0 = 0));
    for at in 0..shape.regions.len() {
        push(&|shape| {
            shape.regions.remove(at);
        });
        push(&|shape| shape.regions[at] = half(shape.regions[at]));
        push(&|shape| shape.regions[at].node.0 = 0);
        push(&|shape| shape.regions[at].usable = true);
    }
    for at in 0..shape.cma.len() {
        push(&|shape| {
            shape.cma.remove(at);
        });
    }
    simpler.into_iter().map(distances_that_fit).collect()
}

/// Returns the lower half of a region, cut where a large block may end.
fn half(region: Region) -> Region {
    let half = region.range.frames().div_ceil(2).next_power_of_two();
    let end = region.range.start.add(half).min(region.range.end);
    Region { range: PfnRange { end, ..region.range }, ..region }
}

/// Removes the table of distances if it does not fit the nodes.
fn distances_that_fit(mut shape: Shape) -> Shape {
    if shape.distances.len() != shape.nodes() * shape.nodes() {
        shape.distances.clear();
    }
    shape
}
