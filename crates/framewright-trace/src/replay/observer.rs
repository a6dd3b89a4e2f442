//! The interface of code that follows a replay while it runs.
//!
//! A replay only counts. An observer can learn more of a single request, as [`crate::explain`] does. All calls come
//! from one thread, in the order of the events, and change nothing. So a replay with an observer has the results of
//! one without.

use framewright::event::Event;
use framewright::units::{Order, Pfn};
use framewright::{AllocError, Allocator, Request};
use framewright_rt::Solo;

use super::recorded_machine::RecordedMachine;
use crate::record::Record;

/// The allocator of a replay.
pub(crate) type Pages<'h> = Allocator<'h, Solo<'h>>;

/// Receives the events of a replay. An observer overrides the calls that it needs.
pub(crate) trait Observer {
    /// The frames that were in use when recording began are allocated now. This made no events.
    fn is_set_up(&mut self, _machine: &RecordedMachine, _pages: &Pages<'_>) {}

    /// Record `number` of the trace, counted from 1, is carried out next.
    ///
    /// It makes any number of requests, and background reclaim and compaction may follow.
    fn begins(&mut self, _number: u64, _record: &Record) {}

    /// This request is made next.
    fn asks(&mut self, _request: &Request, _pages: &Pages<'_>) {}

    /// The request was answered.
    fn answered(&mut self, _answer: Result<Pfn, AllocError>, _pages: &Pages<'_>) {}

    /// A tracepoint was passed.
    fn event(&mut self, _event: &Event) {}

    /// A block is moved. The event before this allocated the new place; the next one frees the old block.
    fn moves(&mut self, _from: Pfn, _to: Pfn, _order: Order) {}
}

/// An observer that ignores all.
impl Observer for () {}
