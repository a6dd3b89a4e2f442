//! Who follows a replay while it runs.
//!
//! A replay counts; somebody who wants to know more of a single request than a count ([`crate::explain`]) watches. All calls come from one
//! thread, in the order in which things happen, and change nothing: a replay that is watched is the one that is not.

use framewright::event::Event;
use framewright::pfn::{Order, Pfn};
use framewright::{AllocError, Allocator, Request};
use framewright_rt::Solo;

use super::recorded_machine::RecordedMachine;
use crate::record::Record;

/// The allocator of a replay.
pub(crate) type Pages<'h> = Allocator<'h, Solo<'h>>;

/// See the module's description. Whoever watches overrides what it wants to hear.
pub(crate) trait Observer {
    /// What was in use when recording began is in use now. Events of it are not heard.
    fn is_set_up(&mut self, _machine: &RecordedMachine, _pages: &Pages<'_>) {}

    /// This record, the `number`-th of the trace counted from 1, is carried out next: with any number of requests, and with what
    /// background reclaim and compaction do thereupon.
    fn begins(&mut self, _number: u64, _record: &Record) {}

    /// This request is made next.
    fn asks(&mut self, _request: &Request, _pages: &Pages<'_>) {}

    /// It was answered.
    fn answered(&mut self, _answer: Result<Pfn, AllocError>, _pages: &Pages<'_>) {}

    /// A tracepoint was passed.
    fn event(&mut self, _event: &Event) {}

    /// A block is moved. An event said before that the place was allocated, and the next says that the block was freed.
    fn moves(&mut self, _from: Pfn, _to: Pfn, _order: Order) {}
}

/// Nobody.
impl Observer for () {}
