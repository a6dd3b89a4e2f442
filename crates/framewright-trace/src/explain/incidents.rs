//! Incidents: the fallbacks and the failed requests of a replay, numbered in the order of time.
//!
//! A *fallback* is a request, or a refill of a CPU's list, that got a block from the free lists of another mobility
//! (`mm_page_alloc_extfrag`). One refill can make several. It does harm as long as pages of its mobility are in the
//! pageblock that it went to. Of several pageblocks, that is the first, from which the request was served.
//!
//! A *failure* is a request that got nothing. The free memory at that time shows what it lacked.

use framewright::event::Event;
use framewright::request::Gfp;
use framewright::units::{MigrateType, Order, Pfn};
use framewright::{AllocError, Request, Why};

use super::page_owner::{Moment, PageOwners};
use super::zonelist::{ZoneThen, zonelist};
use crate::record::Record;
use crate::replay::{Observer, Pages, RecordedMachine};

/// A fallback or a failure, while the replay runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incident {
    /// Number of the record of the trace, counted from 1.
    pub(super) record: u64,
    /// Number of our request, counted from 1. Some records make none, some two.
    pub(super) request: u64,
    pub(super) order: Order,
    pub(super) mobility: MigrateType,
    pub(super) gfp: Gfp,
    pub(super) what: IncidentDetail,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum IncidentDetail {
    Fallback(FallbackBlock),
    Failure {
        why: Why,
        /// Frames above the min mark in the zones that it could use.
        free: u64,
        /// Order of the largest free block of zones that are above it.
        largest: Option<u8>,
    },
}

/// The block of a fallback.
#[derive(Clone, Copy, Debug)]
pub(super) struct FallbackBlock {
    pub(super) pfn: Pfn,
    pub(super) order: Order,
    /// Mobility of the list that it was on.
    pub(super) from: MigrateType,
    /// Whether its pageblock has the request's mobility now.
    pub(super) claimed: bool,
    /// Time with pages of the request's mobility in the pageblock up to then.
    before: Moment,
}

impl Incident {
    pub(super) fn fallback(&self) -> Option<&FallbackBlock> {
        match &self.what {
            IncidentDetail::Fallback(taken) => Some(taken),
            IncidentDetail::Failure { .. } => None,
        }
    }

    /// Time with pages of a fallback's mobility in its pageblock since.
    pub(super) fn held(&self, taken: &FallbackBlock, owners: &PageOwners) -> Moment {
        owners.pageblock(taken.pfn).of(self.mobility).total(owners.now).since(taken.before)
    }
}

/// Observes a replay and numbers its incidents.
pub(super) struct IncidentLog {
    pub(super) owners: PageOwners,
    pub(super) found: Vec<Incident>,
    /// Number of the current record.
    pub(super) record: u64,
    /// Number of our requests so far.
    pub(super) requests: u64,
    request: Option<Request>,
}

impl IncidentLog {
    pub(super) fn new(owners: PageOwners) -> IncidentLog {
        IncidentLog { owners, found: Vec::new(), record: 0, requests: 0, request: None }
    }

    /// Order of the current request.
    pub(super) fn order(&self) -> Option<Order> {
        self.request.map(|request| request.order)
    }

    fn note(&mut self, order: Order, mobility: MigrateType, gfp: Gfp, what: IncidentDetail) {
        let IncidentLog { record, requests: request, .. } = *self;
        self.found.push(Incident { record, request, order, mobility, gfp, what });
    }
}

impl Observer for IncidentLog {
    fn is_set_up(&mut self, machine: &RecordedMachine, pages: &Pages<'_>) {
        self.owners.set_up(machine, pages);
    }

    fn begins(&mut self, number: u64, record: &Record) {
        self.record = number;
        self.owners.now.time = self.owners.now.time.max(record.time);
    }

    fn asks(&mut self, request: &Request, _: &Pages<'_>) {
        self.requests += 1;
        self.request = Some(*request);
    }

    fn answered(&mut self, answer: Result<Pfn, AllocError>, pages: &Pages<'_>) {
        let Some(request) = self.request.take() else { return };
        let Err(AllocError::NoMemory { why, .. }) = answer else { return };
        let zones = zonelist(pages, None, &request);
        let free = zones.iter().map(ZoneThen::spare).fold(0, u64::saturating_add);
        let what = IncidentDetail::Failure { why, free, largest: zones.iter().filter_map(ZoneThen::largest).max() };
        self.note(request.order, request.gfp.migratetype(), request.gfp, what);
        if request.order >= self.owners.order {
            self.owners.now.failed += 1;
        }
    }

    fn event(&mut self, event: &Event) {
        self.owners.hear(event, self.record);
        if let Event::ExtFrag {
            pfn,
            alloc_order,
            fallback_order,
            alloc_migratetype,
            fallback_migratetype,
            change_ownership,
            ..
        } = *event
            && let Some(request) = self.request
        {
            let before = self.owners.pageblock(pfn).of(alloc_migratetype).total(self.owners.now);
            let (order, from, claimed) = (fallback_order, fallback_migratetype, change_ownership);
            let what = IncidentDetail::Fallback(FallbackBlock { pfn, order, from, claimed, before });
            self.note(alloc_order, alloc_migratetype, request.gfp, what);
        }
    }

    fn moves(&mut self, from: Pfn, to: Pfn, order: Order) {
        self.owners.moves(from, to, order);
    }
}
