//! The sections of an arena that may grow: which of them are present.
//!
//! A section has the size of the largest block. It is the unit in which the core adds memory, and in which an arena
//! grows and shrinks. There are three states:
//!
//! | state | memory | comes by |
//! |---|---|---|
//! | [`SectionState::Possible`] | none yet; the core has descriptors that nothing touched | `Allocator::add_memory` |
//! | [`SectionState::Present`] | handed out by the allocator | |
//! | [`SectionState::Withheld`] | given back to the operating system | `Allocator::bring_online` |
//!
//! An arena grows from its lowest address on and shrinks from its highest one, so that used memory stays together. The
//! first section of each node is never taken: a node without memory is left out of the zones that requests look at.
//!
//! Cost: a byte for each section, and a walk over them for each change.
//!
//! Rejected: the core's own states of frames. A frame that a caller of the core withheld looks like one of a section.

use std::ops::Range;

use framewright::{NodeId, Order, Pfn, PfnRange};

/// The state of a section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SectionState {
    /// Was never there.
    Possible,
    /// Is there.
    Present,
    /// Was taken.
    Withheld,
}

/// The node that shall grow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Near {
    pub(super) node: NodeId,
    /// Whether no other node may grow instead.
    pub(super) alone: bool,
}

/// Neighbouring sections of one node and one state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Run {
    pub(super) sections: Range<usize>,
    pub(super) state: SectionState,
}

/// The sections of all nodes, side by side.
#[derive(Debug)]
pub(super) struct Sections {
    first: Pfn,
    order: Order,
    states: Vec<SectionState>,
    /// Sections of each node.
    nodes: Vec<Range<usize>>,
}

impl Sections {
    /// Describes nodes, each with its frames and with those of them that are present, from its start on.
    pub(super) fn new(order: Order, nodes: impl Iterator<Item = (PfnRange, u64)>) -> Sections {
        let mut sections = Sections { first: Pfn(0), order, states: Vec::new(), nodes: Vec::new() };
        for (range, present) in nodes {
            if sections.states.is_empty() {
                sections.first = range.start;
            }
            let (start, count) = (sections.states.len(), |frames: u64| (frames >> order.0) as usize);
            sections.states.resize(start + count(present), SectionState::Present);
            sections.states.resize(start + count(range.frames()), SectionState::Possible);
            sections.nodes.push(start..sections.states.len());
        }
        sections
    }

    /// Frames of some sections.
    pub(super) fn frames(&self, sections: &Range<usize>) -> PfnRange {
        let pfn = |section: usize| self.first.add((section as u64) << self.order.0);
        PfnRange { start: pfn(sections.start), end: pfn(sections.end) }
    }

    pub(super) fn set(&mut self, sections: Range<usize>, state: SectionState) {
        self.states[sections].fill(state);
    }

    /// The sections of the nodes that may grow, the near node's before others.
    fn growing(&self, near: Near) -> impl Iterator<Item = &Range<usize>> {
        let others = self.nodes.iter().enumerate().filter(move |&(node, _)| !near.alone && node != near.node.index());
        self.nodes.get(near.node.index()).into_iter().chain(others.map(|(_, sections)| sections))
    }

    /// Number of sections that may come.
    pub(super) fn absent(&self, near: Near) -> usize {
        let sections = self.growing(near).cloned().flatten();
        sections.filter(|&section| self.states[section] != SectionState::Present).count()
    }

    /// The lowest sections that may come, at most `most` of them.
    pub(super) fn next_absent(&self, near: Near, most: usize) -> Option<Run> {
        self.growing(near).filter(|_| most != 0).find_map(|node| {
            let start = node.clone().find(|&section| self.states[section] != SectionState::Present)?;
            let state = self.states[start];
            let is_other = |&section: &usize| self.states[section] != state;
            let end = (start..node.end).find(is_other).unwrap_or(node.end);
            Some(Run { sections: start..end.min(start.saturating_add(most)), state })
        })
    }

    /// The present sections that may go, each with its node, from the highest one on.
    pub(super) fn takeable(&self) -> Vec<(NodeId, usize)> {
        let nodes = self.nodes.iter().enumerate().rev();
        let all = nodes.flat_map(|(node, sections)| {
            let behind_first = sections.clone().skip(1).rev();
            behind_first.map(move |section| (NodeId(node as u8), section))
        });
        all.filter(|&(_, section)| self.states[section] == SectionState::Present).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two nodes of four sections, each with the first two present.
    fn two_nodes() -> Sections {
        let nodes = [PfnRange::new(0x1000, 0x1800), PfnRange::new(0x1800, 0x2000)];
        Sections::new(Order(9), nodes.into_iter().map(|range| (range, 0x400)))
    }

    fn near(node: u8) -> Near {
        Near { node: NodeId(node), alone: false }
    }

    fn run(sections: Range<usize>, state: SectionState) -> Option<Run> {
        Some(Run { sections, state })
    }

    #[test]
    fn the_near_node_grows_first_from_its_lowest_section_on() {
        let mut sections = two_nodes();
        assert_eq!(sections.absent(near(0)), 4);
        assert_eq!(sections.next_absent(near(0), 9), run(2..4, SectionState::Possible));
        assert_eq!(sections.next_absent(near(1), 1), run(6..7, SectionState::Possible));
        assert_eq!(sections.next_absent(near(7), 9), run(2..4, SectionState::Possible));
        assert_eq!(sections.next_absent(near(0), 0), None);
        sections.set(2..4, SectionState::Present);
        assert_eq!(sections.next_absent(near(0), 9), run(6..8, SectionState::Possible));
        sections.set(1..3, SectionState::Withheld);
        assert_eq!(sections.next_absent(near(0), 9), run(1..3, SectionState::Withheld));
        assert_eq!(sections.frames(&(1..3)), PfnRange::new(0x1200, 0x1600));
        sections.set(1..8, SectionState::Present);
        assert_eq!((sections.next_absent(near(0), 9), sections.absent(near(0))), (None, 0));
    }

    #[test]
    fn a_node_may_grow_alone() {
        let mut sections = two_nodes();
        let alone = Near { node: NodeId(1), alone: true };
        assert_eq!((sections.absent(alone), sections.next_absent(alone, 9)), (2, run(6..8, SectionState::Possible)));
        sections.set(6..8, SectionState::Present);
        assert_eq!((sections.absent(alone), sections.next_absent(alone, 9)), (0, None));
    }

    #[test]
    fn a_run_has_one_state() {
        let mut sections = two_nodes();
        sections.set(1..2, SectionState::Withheld);
        assert_eq!(sections.next_absent(near(0), 9), run(1..2, SectionState::Withheld));
    }

    #[test]
    fn sections_go_from_the_highest_on_but_for_the_first_of_a_node() {
        let mut sections = two_nodes();
        assert_eq!(sections.takeable(), [(NodeId(1), 5), (NodeId(0), 1)]);
        sections.set(2..4, SectionState::Present);
        sections.set(5..6, SectionState::Withheld);
        assert_eq!(sections.takeable(), [3, 2, 1].map(|section| (NodeId(0), section)));
    }
}
