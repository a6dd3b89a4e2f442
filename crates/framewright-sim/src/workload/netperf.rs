//! `netperf`: a stream of packets on each CPU, as in netperf's TCP_STREAM.
//!
//! A network card fills the pages of a ring in order and interrupts the CPU. In the interrupt the driver passes full
//! pages on, as many as the stream's window allows, and allocates as many to refill the ring. The task copies page
//! after page to user space and frees it. A CPU without full pages halts until the next interrupt. So all pages go from
//! an interrupt that allocates to a task that frees. Throughput is what a CPU has time for: no packet is lost, and the
//! network is never the limit.

use std::cell::RefCell;
use std::collections::VecDeque;

use framewright::request::GFP_ATOMIC;
use framewright::{Order, Pfn, Request};

use super::floor::{Floor, Trouble};
use super::play::{Ground, Length, Needs, Play, WorkloadKind};
use crate::engine::here;
use crate::model::{MS, Ps};
use crate::settings::settings;

/// Mean time between two interrupts of a CPU: a card's moderation lets some pages fill.
const EVERY: Ps = 20_000_000;
/// How long a CPU without a full page halts where there are no interrupts.
const HALT: Ps = 1_000_000;
/// Lines that pass through a CPU's caches when a page is read and written elsewhere.
const COPIED: u32 = 2 * 64;
/// Most pages that a driver passes on in one interrupt (NAPI's budget, which counts packets).
const BUDGET: usize = 64;

settings! {
    /// Options of `netperf`.
    Netperf {
        ring: u32 = 1024, 0..=65536, "pages that wait for packets";
        window: u32 = 128, 1..=65536, "full pages of a stream that were not copied yet, at most";
        receive: u32 = 3000, 0..=1_000_000, "cycles that the driver and the protocols take for a page";
        copy: u32 = 5700, 0..=1_000_000, "cycles that it takes to copy a page to user space";
    }
}

impl WorkloadKind for Netperf {
    const NAME: &'static str = "netperf";
    const SUMMARY: &'static str =
        "each CPU receives packets: interrupts allocate their pages, the task frees them (netperf's TCP_STREAM)";
    const UNIT: &'static str = "page of packets";
    const INTERRUPTS: Option<Ps> = Some(EVERY);

    fn needs(&self, _: usize) -> Needs {
        let length = Length::Time { warm_up: 2 * MS, window: 4 * MS, pass: u64::from(self.window) };
        Needs { frames: u64::from(self.ring + self.window), bytes: (0, 0), length }
    }

    fn set_up<'a>(&self, ground: &Ground<'a>) -> Result<Box<dyn Play + 'a>, String> {
        let streams = (0..ground.cpus).map(|_| RefCell::default()).collect();
        Ok(Box::new(Streams { settings: *self, streams }))
    }
}

/// A stream for each CPU: full pages in order, then those of the ring.
struct Streams {
    settings: Netperf,
    streams: Vec<RefCell<VecDeque<Pfn>>>,
}

impl Play for Streams {
    fn play(&self, floor: &Floor<'_>, cpu: usize) -> Result<(), Trouble> {
        let stream = &self.streams[cpu];
        for _ in 0..self.settings.ring {
            let page = floor.alloc(&Request::page(GFP_ATOMIC))?;
            stream.borrow_mut().push_back(page);
        }
        while floor.goes_on() {
            let full = if self.full(cpu) == 0 { None } else { stream.borrow_mut().pop_front() };
            let Some(page) = full else {
                here::halt(HALT);
                continue;
            };
            floor.work(self.settings.copy);
            here::touch_private(COPIED);
            floor.free(page, Order(0))?;
            floor.done();
        }
        // Interrupts still come while other CPUs are measured, but allocate no more.
        let rest: Vec<Pfn> = stream.borrow_mut().drain(..).collect();
        rest.into_iter().try_for_each(|page| floor.free(page, Order(0)))
    }

    fn interrupt(&self, floor: &Floor<'_>, cpu: usize) -> Result<(), Trouble> {
        let room = (self.settings.window as usize).saturating_sub(self.full(cpu));
        for _ in 0..room.min(BUDGET) {
            if !floor.is_wanted() {
                break;
            }
            let page = floor.alloc(&Request::page(GFP_ATOMIC))?;
            floor.work(self.settings.receive);
            self.streams[cpu].borrow_mut().push_back(page);
        }
        Ok(())
    }
}

impl Streams {
    /// Returns the number of full pages of a CPU's stream.
    fn full(&self, cpu: usize) -> usize {
        self.streams[cpu].borrow().len().saturating_sub(self.settings.ring as usize)
    }
}
