//! A workload on a simulated machine, shown while it runs.
//!
//! The run lasts as long as the screen is open. A sample is taken at fixed intervals of *simulated* time, between two
//! steps of the CPUs. The run waits while samples wait to be drawn, so a frame is equal on every machine, and pausing
//! stops simulated time too. Counting starts at the beginning; there is no warm-up unless one is asked for.
//!
//! Each sample walks one part of the pageblocks. The size of the part does not depend on the speed of this machine.

use std::sync::Arc;

use framewright::FrameState;
use framewright::units::{Pfn, PfnRange};
use framewright_rt::ReportFile;
use framewright_sim::model::Model;
use framewright_sim::workload::watch::Moment;
use framewright_sim::workload::{Job, run_watched};
use framewright_trace::error::TraceError;

use super::feed::{Feed, Orders, Told};
use super::map::{Block, BlockKind, Map};
use super::sample::{LockCount, Sample, Texts};
use super::state::{About, TimeBase};
use super::sweep::{PageblockSweep, pageblocks};
use crate::mechanisms;

/// Frames that are walked at a look.
const WALKED: u64 = 1 << 17;
/// Picoseconds of a second.
const SECOND: f64 = 1e12;

/// A workload on a simulated machine, as a source.
pub struct Simulation {
    /// The machine.
    pub model: Model,
    /// The work of its CPUs. A window of 0 never ends.
    pub job: Job,
    /// Simulated time in seconds at which it is to rest, once.
    pub until: Option<f64>,
}

impl Simulation {
    /// Its description, for the head of the screen.
    pub fn about(&self) -> About {
        let Job { workload, cpus, seed, mechanisms: set, .. } = &self.job;
        About {
            source: format!("{workload} on {}", self.model.name),
            machine: format!("{cpus} CPUs, seed {seed}"),
            cpus: *cpus,
            mechanisms: format!("mechanisms {}", mechanisms::label(set)),
            clock: TimeBase::Simulated,
        }
    }

    /// Runs it on a thread, with a sample every `every` seconds of simulated time.
    pub fn start(self, every: f64) -> Feed {
        Feed::start(every, move |orders| {
            let end = match self.run(orders) {
                Ok(()) => Told::Ended("the run is over".to_owned(), false),
                Err(error) => Told::Ended(error, true),
            };
            orders.tell(end);
        })
    }

    fn run(self, orders: &Orders) -> Result<(), String> {
        let endless = self.job.window == 0;
        let job = Job { window: if endless { u64::MAX / 4 } else { self.job.window }, ..self.job };
        let (mut sweep, mut until, mut wrong) = (PageblockSweep::default(), self.until, None);
        let mut watch = |moment: &Moment<'_>| {
            let at = moment.clock as f64 / SECOND;
            let sample = look(moment, at, &mut sweep).map_err(|error| wrong = Some(error.to_string())).ok()?;
            if !orders.tell(Told::Sample(Box::new(sample))) {
                return None;
            }
            if until.take_if(|until| at >= *until).is_some() {
                orders.rest();
            }
            let step = (orders.every() * SECOND).max(1.0) as u64;
            let rest = until.map_or(u64::MAX, |until| (until * SECOND).ceil() as u64);
            // On the round times, so that frames have round names.
            orders.go_on().then_some((moment.clock / step * step + step).min(rest))
        };
        let ran = run_watched(&self.model, &job, &mut watch);
        wrong.map_or(Ok(()), Err)?;
        ran.map(drop).map_err(|error| error.to_string())
    }
}

/// How it is.
fn look(moment: &Moment<'_>, at: f64, sweep: &mut PageblockSweep) -> Result<Sample, TraceError> {
    // A file of all nodes has a text, whatever the nodes.
    let text = |file: ReportFile| file.text(moment.pages).unwrap_or_default();
    let texts = Texts {
        zoneinfo: text(ReportFile::ZoneInfo),
        buddyinfo: text(ReportFile::BuddyInfo),
        pagetypeinfo: Some(text(ReportFile::PageTypeInfo)),
        vmstat: text(ReportFile::VmStat),
    };
    let fragmenting = moment.counters.extfrag_fragmenting;
    let mut sample = Sample::read(at, &texts, Some((fragmenting + moment.counters.extfrag_whole, fragmenting)))?;
    let lock = |lock: &framewright_sim::workload::watch::LockCount| LockCount {
        name: lock.name.clone(),
        taken: lock.taken,
        contended: lock.contended,
        waited: lock.waited as f64 / SECOND,
    };
    sample.locks = Ok(moment.locks.iter().map(lock).collect());
    let pageblock = 1 << sample.pageblock.0;
    let read = |range| Ok::<_, String>(pageblocks(range, pageblock).map(|block| walk(moment, block)).collect());
    let map: Result<Map, String> = sweep.look(&sample, read, |frames, was_read| was_read && frames >= WALKED);
    sample.map = map.map(Arc::new);
    Ok(sample)
}

/// A pageblock, from block to block of what is in it.
fn walk(moment: &Moment<'_>, range: PfnRange) -> Block {
    let (mut at, mut frames, mut used) = (range.start.0, 0, 0);
    while at < range.end.0 {
        let (end, is_used) = match moment.pages.state_of(Pfn(at)) {
            FrameState::Hole => {
                at += 1;
                continue;
            }
            FrameState::Free(head, order) => (head.0 + order.frames(), false),
            FrameState::Allocated(head, order)
            | FrameState::Pcp(head, order)
            | FrameState::Offline(head, order)
            | FrameState::Quarantined(head, order) => (head.0 + order.frames(), true),
        };
        let run = end.clamp(at + 1, range.end.0) - at;
        frames += run as u32;
        used += if is_used { run as u32 } else { 0 };
        at += run;
    }
    let kind = moment.pages.pageblock_type(range.start).map_or(BlockKind::Away, BlockKind::of);
    Block { zone: None, kind, frames, used }
}
