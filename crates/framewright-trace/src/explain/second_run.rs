//! The second run, which records the details of one incident: the state before it, the steps taken, and the
//! consequences.
//!
//! A replay is deterministic. So the first run only numbers the incidents, and this one knows the request before it is
//! made.

use std::collections::BTreeMap;

use framewright::event::Event;
use framewright::report::{Source, VmEvents};
use framewright::units::{MigrateType, Order, Pfn};
use framewright::{AllocError, Counters, Request};

use super::incidents::{Incident, IncidentDetail, IncidentLog};
use super::page_owner::{OwnedFrames, Pageblock};
use super::zonelist::{ZoneThen, zonelist};
use crate::record::Record;
use crate::replay::{Observer, Pages, RecordedMachine};

/// The steps that were taken for a request, as far as they can be counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Done {
    /// Whether a fallback served the refill of a CPU's list; none if no event said so.
    pub(super) refill: Option<bool>,
    pub(super) woke_reclaim: bool,
    /// Number of waits for background reclaim to avoid a fallback.
    pub(super) stalls: u64,
    pub(super) compactions: u64,
    /// Frames that compaction scanned.
    pub(super) scanned: u64,
    /// Frames that compaction failed to move.
    pub(super) stayed: u64,
    /// Frames moved out of each pageblock, and whether only the request's own block was left there.
    pub(super) moved: BTreeMap<Pfn, (u64, bool)>,
    /// Frames drained from the CPUs' lists.
    pub(super) drained: u64,
    pub(super) reclaims: u64,
}

/// The state just before a request.
pub(super) struct Before {
    pub(super) zones: Vec<ZoneThen>,
    /// Their pageblocks.
    pub(super) pageblocks: Vec<PageblockThen>,
    counters: Counters,
    events: VmEvents,
}

/// A pageblock just before a request.
pub(super) struct PageblockThen {
    pub(super) pfn: Pfn,
    pub(super) pageblock: Pageblock,
    pub(super) migratetype: MigrateType,
    /// Whether one request got all of it.
    pub(super) is_one: bool,
    /// The frames that cannot be moved, by owner.
    pub(super) pinned: OwnedFrames,
}

/// The later contents of a fallback's pageblocks.
#[derive(Default)]
pub(super) struct After {
    /// Frames in use in them just before, by owner.
    pub(super) held: OwnedFrames,
    /// Frames of them that were memory.
    pub(super) memory: u64,
    /// Most frames of the request's mobility at once in the first of them.
    pub(super) most: u64,
    /// First time since at which that one was wholly free.
    pub(super) free_again: Option<u64>,
    /// Numbers of requests for huge pages that failed while frames of the request's mobility were there.
    pub(super) failures: Vec<u64>,
    /// Number of these at which nothing else was there.
    pub(super) alone: u64,
}

/// The observer of the second run.
pub(super) struct SecondRun<'s> {
    pub(super) incidents: IncidentLog,
    machine: &'s RecordedMachine,
    /// The number of the incident, from 1, and the incident itself.
    number: u64,
    target: Incident,
    pub(super) before: Option<Before>,
    /// Whether the request is under way.
    busy: bool,
    pub(super) done: Done,
    pub(super) after: After,
    /// The record for which the next huge page was served.
    pub(super) next_served: Option<u64>,
}

impl<'s> SecondRun<'s> {
    pub(super) fn new(
        incidents: IncidentLog,
        machine: &'s RecordedMachine,
        (number, target): (u64, Incident),
    ) -> SecondRun<'s> {
        SecondRun {
            incidents,
            machine,
            number,
            target,
            before: None,
            busy: false,
            done: Done::default(),
            after: After::default(),
            next_served: None,
        }
    }

    /// The pageblocks that the block of a fallback is in.
    pub(super) fn own_pageblocks(&self) -> impl Iterator<Item = Pfn> + use<> {
        pageblocks_of(&self.target, self.incidents.owners.order)
    }

    /// Whether the incident has happened.
    fn is_past(&self) -> bool {
        self.incidents.found.len() as u64 >= self.number
    }

    fn before(&self, request: &Request, pages: &Pages<'_>) -> Before {
        let zones = zonelist(pages, Some(self.machine), request);
        let owners = &self.incidents.owners;
        let then = |(pfn, pageblock): (Pfn, Pageblock)| {
            let (memory, idx) = self.machine.memory_in(pfn)?;
            zones.iter().find(|zone| zone.idx == idx)?;
            let migratetype = pages.pageblock_type(memory)?;
            let mut held = owners.held([pfn]);
            let is_full = pageblock.used() == owners.order.frames();
            let is_one = is_full && held.len() == 1 && held.keys().all(|owner| owner.record != 0);
            held.retain(|owner, _| owner.mobility != MigrateType::Movable);
            Some(PageblockThen { pfn, pageblock, migratetype, is_one, pinned: held })
        };
        let pageblocks = owners.pageblocks().filter_map(then).collect();
        Before { zones, pageblocks, counters: pages.counters(), events: pages.events() }
    }

    /// Counts the steps since the state before.
    fn count(&mut self, pages: &Pages<'_>) {
        let Some(Before { counters, events, .. }) = &self.before else { return };
        let (now, done) = (pages.counters(), &mut self.done);
        done.woke_reclaim = now.kswapd_wakes != counters.kswapd_wakes;
        done.stalls = now.fragment_stalls - counters.fragment_stalls;
        let (now, then) = (pages.events(), events);
        let since = |count: fn(&VmEvents) -> Option<u64>| count(&now).unwrap_or(0) - count(then).unwrap_or(0);
        done.compactions = since(|events| events.compact_stall);
        done.scanned = since(|events| events.compact_migrate_scanned);
        done.stayed = since(|events| events.pgmigrate_fail);
        done.reclaims = since(|events| events.allocstall.map(|zones| zones.iter().sum()));
        let IncidentLog { owners, record, .. } = &self.incidents;
        for (&pfn, (_, is_free)) in &mut done.moved {
            *is_free = owners.holders(pfn).all(|(_, owner)| owner.record == *record);
        }
    }

    /// Follows the contents of a fallback's pageblock; of several, that of the first.
    fn follow(&mut self, was_freed: Option<Pfn>) {
        let owners = &self.incidents.owners;
        let Some(pfn) = self.own_pageblocks().next() else { return };
        let own = owners.pageblock(pfn);
        self.after.most = self.after.most.max(own.of(self.target.mobility).frames);
        let was_own = was_freed.is_some_and(|freed| freed.align_down(owners.order) == pfn);
        if self.after.free_again.is_none() && was_own && own.used() == 0 {
            self.after.free_again = Some(owners.now.time);
        }
    }

    /// A huge request failed after the incident.
    fn note_failure(&mut self) {
        let Some(pfn) = self.own_pageblocks().next() else { return };
        let own = self.incidents.owners.pageblock(pfn);
        let held = own.of(self.target.mobility).frames;
        if held != 0 {
            self.after.failures.push(self.incidents.found.len() as u64);
            self.after.alone += u64::from(held == own.used());
        }
    }
}

impl Observer for SecondRun<'_> {
    fn is_set_up(&mut self, machine: &RecordedMachine, pages: &Pages<'_>) {
        self.incidents.is_set_up(machine, pages);
    }

    fn begins(&mut self, number: u64, record: &Record) {
        self.incidents.begins(number, record);
    }

    fn asks(&mut self, request: &Request, pages: &Pages<'_>) {
        self.incidents.asks(request, pages);
        if self.incidents.requests == self.target.request {
            self.before = Some(self.before(request, pages));
            self.busy = true;
        }
    }

    fn answered(&mut self, answer: Result<Pfn, AllocError>, pages: &Pages<'_>) {
        let (order, was_past, happened) = (self.incidents.order(), self.is_past(), self.incidents.found.len());
        self.incidents.answered(answer, pages);
        if std::mem::take(&mut self.busy) {
            self.count(pages);
        } else if was_past && order.is_some_and(|order| order >= self.incidents.owners.order) {
            if self.incidents.found.len() != happened {
                self.note_failure();
            } else if answer.is_ok() {
                self.next_served.get_or_insert(self.incidents.record);
            }
        }
    }

    fn event(&mut self, event: &Event) {
        let was_past = self.is_past();
        if !was_past && self.busy {
            let owners = &self.incidents.owners;
            let own = || pageblocks_of(&self.target, owners.order);
            self.after.held = owners.held(own());
            self.after.memory = own().map(|pfn| owners.pageblock(pfn).memory).sum();
        }
        self.incidents.event(event);
        match *event {
            // The event right after the fallback, for the same block.
            Event::AllocZoneLocked { percpu_refill, .. } if self.busy && was_past => {
                self.done.refill.get_or_insert(percpu_refill);
            }
            Event::PcpuDrain { order, .. } if self.busy => self.done.drained += order.frames(),
            Event::PageAlloc { .. } if was_past => self.follow(None),
            Event::PageFree { pfn, .. } if was_past => self.follow(Some(pfn)),
            _ => {}
        }
    }

    fn moves(&mut self, from: Pfn, to: Pfn, order: Order) {
        self.incidents.moves(from, to, order);
        if self.busy {
            self.done.moved.entry(from.align_down(self.incidents.owners.order)).or_default().0 += order.frames();
        }
    }
}

/// The pageblocks that the block of a fallback is in; none for a failure.
fn pageblocks_of(incident: &Incident, pageblock_order: Order) -> impl Iterator<Item = Pfn> + use<> {
    let (first, count) = match incident.what {
        IncidentDetail::Fallback(taken) => {
            let larger = taken.order.0.saturating_sub(pageblock_order.0);
            (taken.pfn.align_down(pageblock_order), 1 << larger)
        }
        IncidentDetail::Failure { .. } => (Pfn(0), 0),
    };
    (0..count).map(move |i: u64| first.add(i << pageblock_order.0))
}
