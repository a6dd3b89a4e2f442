//! Merges the buffers of all CPUs into one trace, in the order of their times.
//!
//! The clock must be one that all CPUs share (`mono`, `global`, `boot`). A page of each CPU is held decoded. The CPU
//! whose next event is the earliest gives the next record; of equal times, the CPU with the lower number does.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::io::Read;

use framewright::units::CpuId;

use super::event_decoder::{DecodedEvent, Decoder, Payload};
use super::page::{Lost, PageLayout};
use crate::error::{RawFault, Result, TraceError};
use crate::record::{CommId, Comms, Quality, Record};

/// The most tasks with a name at once; further ones are called [`Comms::UNKNOWN`].
const TASKS: usize = 1 << 22;

/// Reads the records of all CPUs' pages, in order.
///
/// After an error there is nothing more.
pub struct RawReader<R> {
    layout: PageLayout,
    decoder: Decoder,
    buffers: Vec<Buffer<R>>,
    /// The next event's time of each buffer that has one.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    tasks: HashMap<u32, CommId>,
    comms: Comms,
    quality: Quality,
    time: u64,
    started: bool,
    ended: bool,
}

/// One CPU's pages.
struct Buffer<R> {
    cpu: CpuId,
    name: String,
    source: R,
    page_size: usize,
    page: Vec<u8>,
    pages: u64,
    events: VecDeque<(u64, DecodedEvent)>,
    lost: Option<Lost>,
}

impl<R: Read> RawReader<R> {
    /// Reads pages of `page_size` bytes. Each source has a CPU and a name for messages.
    pub fn new(layout: PageLayout, page_size: usize, decoder: Decoder, sources: Vec<(CpuId, String, R)>) -> Self {
        let buffer = |(cpu, name, source)| Buffer {
            cpu,
            name,
            source,
            page_size,
            page: Vec::with_capacity(page_size),
            pages: 0,
            events: VecDeque::new(),
            lost: None,
        };
        RawReader {
            layout,
            decoder,
            buffers: sources.into_iter().map(buffer).collect(),
            next: BinaryHeap::new(),
            tasks: HashMap::new(),
            comms: Comms::new(),
            quality: Quality::default(),
            time: 0,
            started: false,
            ended: false,
        }
    }

    /// Notes the name of a task.
    pub fn name_task(&mut self, pid: u32, name: &[u8]) {
        if self.tasks.len() < TASKS || self.tasks.contains_key(&pid) {
            self.tasks.insert(pid, self.comms.intern_bytes(name));
        }
    }

    /// The names of tasks so far.
    pub fn comms(&self) -> &Comms {
        &self.comms
    }

    /// The quality of the trace so far.
    pub fn quality(&self) -> &Quality {
        &self.quality
    }

    /// Queues the next event of a buffer, if it has one.
    fn refill(&mut self, index: usize) -> Result<()> {
        let buffer = &mut self.buffers[index];
        while buffer.events.is_empty() && buffer.load(&self.layout, &mut self.decoder)? {
            if let Some(Lost(events)) = buffer.lost.take() {
                self.quality.count_lost(events);
            }
        }
        if let Some(&(time, _)) = buffer.events.front() {
            self.next.push(Reverse((time, index)));
        }
        Ok(())
    }

    /// Counts an event that is skipped because of `fault`.
    fn pass_over(&mut self, index: usize, fault: &RawFault) {
        self.quality.malformed_lines += 1;
        if self.quality.malformed.len() < Quality::MESSAGES {
            self.quality.malformed.push(format!("{}: {fault}", self.buffers[index].name));
        }
    }

    /// The next record or the first error.
    fn read(&mut self) -> Result<Option<Record>> {
        if !self.started {
            self.started = true;
            (0..self.buffers.len()).try_for_each(|index| self.refill(index))?;
        }
        while let Some(Reverse((_, index))) = self.next.pop() {
            let (cpu, event) = (self.buffers[index].cpu, self.buffers[index].events.pop_front());
            self.refill(index)?;
            let Some((time, DecodedEvent { pid, payload })) = event else { continue };
            match payload {
                Payload::Name { pid, name } => self.name_task(pid, &name),
                Payload::Other => self.quality.count_unknown("(not described)"),
                Payload::Odd(fault) => self.pass_over(index, &fault),
                Payload::Page(kind) => {
                    self.quality.time_steps_back += u64::from(time < self.time);
                    self.quality.count(&kind);
                    self.time = time;
                    let comm = self.tasks.get(&pid).copied().unwrap_or_default();
                    return Ok(Some(Record { time, pid, comm, cpu, kind }));
                }
            }
        }
        Ok(None)
    }
}

impl<R: Read> Buffer<R> {
    /// Reads the next page; false if there is none.
    fn load(&mut self, layout: &PageLayout, decoder: &mut Decoder) -> Result<bool> {
        self.page.clear();
        let filled = self.source.by_ref().take(self.page_size as u64).read_to_end(&mut self.page);
        if filled.map_err(|error| TraceError::new(&self.name, error))? == 0 {
            return Ok(false);
        }
        self.pages += 1;
        if self.page.len() < self.page_size {
            return Err(TraceError::new(&self.name, RawFault::Cut(self.pages)));
        }
        let mut read = || {
            let page = layout.open(&self.page)?;
            self.lost = page.lost();
            for event in page {
                let (time, bytes) = event?;
                self.events.push_back((time, decoder.decode(bytes)?));
            }
            Ok(())
        };
        let number = self.pages;
        read().map_err(|fault| TraceError::new(&self.name, RawFault::InPage { number, fault: Box::new(fault) }))?;
        Ok(true)
    }
}

impl<R: Read> Iterator for RawReader<R> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        if self.ended {
            return None;
        }
        let next = self.read().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}
