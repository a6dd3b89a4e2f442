//! A block of events as columns.
//!
//! Each of the seven columns holds values that resemble each other, and so compresses well:
//!
//! | column | for each event |
//! |---|---|
//! | dictionary | once: unit of time, CPUs, tasks, and *shapes*, which are events without their frames |
//! | shapes | index of its shape |
//! | CPUs | index of its CPU |
//! | tasks | 0 if the task is the one that the CPU's last event had, else 1 + index of its task |
//! | times | difference to the event before, in units |
//! | frames | difference to the last frame of an event of the same shape and CPU, if it has a frame |
//! | sources | for a move: difference of its old frame to that of the last move |
//!
//! The frames are two fifths of the file. The kernel allocates frames of one mobility from one list per CPU, mostly
//! one after the other. So the last frame of the same shape and CPU is a good guess. Guessing by kind and task instead
//! cost 14 % more on the trace in `data/`.
//!
//! A block refers to nothing outside it.

use std::collections::HashMap;
use std::hash::Hash;

use framewright::units::{CpuId, Pfn};

use super::event_shape;
use super::layout::{BLOCK_LIMIT, COLUMN_LIMIT, bounded, pack, unpack};
use super::varint::{VarintReader, put, put_delta};
use crate::error::{CompactFault, FwtResult};
use crate::record::{CommId, Comms, Kind, Record};

const DICTIONARY: &str = "the dictionary";
const SHAPE: &str = "column shapes";
const CPU: &str = "column CPUs";
const TASK: &str = "column tasks";
const TIME: &str = "column times";
const FRAME: &str = "column frames";
const SOURCE: &str = "column sources";

/// The last frame by shape and CPU. Two combinations in one place only guess worse.
struct Guesses(Vec<u64>);

impl Guesses {
    const PLACES: usize = 1 << 16;

    fn new() -> Guesses {
        Guesses(vec![0; Guesses::PLACES])
    }

    fn place(&mut self, shape: usize, cpu: usize) -> &mut u64 {
        &mut self.0[(shape.wrapping_mul(1024) ^ cpu) % Guesses::PLACES]
    }
}

/// Distinct values, numbered in the order of their first use.
struct Numbered<T> {
    values: Vec<T>,
    index: HashMap<T, usize>,
    last: Option<(T, usize)>,
}

impl<T: Copy + Eq + Hash> Numbered<T> {
    fn new() -> Numbered<T> {
        Numbered { values: Vec::new(), index: HashMap::new(), last: None }
    }

    fn number(&mut self, value: T) -> usize {
        match self.last {
            Some((last, number)) if last == value => number,
            _ => {
                let number = *self.index.entry(value).or_insert_with(|| {
                    self.values.push(value);
                    self.values.len() - 1
                });
                self.last = Some((value, number));
                number
            }
        }
    }
}

/// Encodes `records`, at most [`BLOCK_LIMIT`] of them, as a block.
pub(super) fn encode(records: &[Record], comms: &Comms) -> std::io::Result<Vec<u8>> {
    let unit = records.iter().fold(0, |unit, record| gcd(unit, record.time)).max(1);
    let mut cpus = Numbered::new();
    let mut tasks = Numbered::new();
    let mut shapes = Numbered::new();
    let mut columns: [Vec<u8>; 6] = Default::default();
    let [shape_out, cpu_out, task_out, time_out, frame_out, source_out] = &mut columns;
    let mut guesses = Guesses::new();
    let mut last_task: Vec<usize> = Vec::new();
    let (mut last_time, mut last_source) = (0, 0);
    for record in records {
        let (kind, frame, source) = event_shape::split(record.kind);
        let (shape, cpu) = (shapes.number(kind), cpus.number(record.cpu));
        let task = tasks.number((record.pid, record.comm)) + 1;
        last_task.resize(last_task.len().max(cpu + 1), 0);
        put(shape_out, shape as u64);
        put(cpu_out, cpu as u64);
        put(task_out, if last_task[cpu] == task { 0 } else { task as u64 });
        put_delta(time_out, record.time / unit, last_time);
        if let Some(frame) = frame {
            let guess = guesses.place(shape, cpu);
            put_delta(frame_out, frame, *guess);
            *guess = frame;
        }
        if let Some(source) = source {
            put_delta(source_out, source, last_source);
            last_source = source;
        }
        last_task[cpu] = task;
        last_time = record.time / unit;
    }
    let mut block = Vec::new();
    put(&mut block, records.len() as u64);
    pack(&dictionary(unit, &cpus.values, &tasks.values, &shapes.values, comms), &mut block)?;
    columns.iter().try_for_each(|column| pack(column, &mut block))?;
    Ok(block)
}

fn gcd(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn dictionary(unit: u64, cpus: &[CpuId], tasks: &[(u32, CommId)], shapes: &[Kind], comms: &Comms) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, unit);
    put(&mut out, cpus.len() as u64);
    cpus.iter().for_each(|cpu| put(&mut out, u64::from(cpu.0)));
    put(&mut out, tasks.len() as u64);
    for &(pid, comm) in tasks {
        let name = comms.name(comm).as_bytes();
        put(&mut out, u64::from(pid));
        put(&mut out, name.len() as u64);
        out.extend_from_slice(name);
    }
    put(&mut out, shapes.len() as u64);
    for shape in shapes {
        put(&mut out, shape.index() as u64);
        event_shape::fields(shape).into_iter().for_each(|field| put(&mut out, field));
    }
    out
}

/// A block's dictionary.
struct Dictionary {
    unit: u64,
    cpus: Vec<CpuId>,
    tasks: Vec<(u32, CommId)>,
    shapes: Vec<Kind>,
}

impl Dictionary {
    fn read(bytes: &[u8], records: u64, comms: &mut Comms) -> FwtResult<Dictionary> {
        let mut input = VarintReader::new(bytes);
        let unit = input.get(DICTIONARY)?;
        // Every entry belongs to at least one event.
        let cpus = bounded(DICTIONARY, input.get(DICTIONARY)?, records)?;
        let narrow = |cpu: u64| u16::try_from(cpu).map(CpuId).map_err(|_| CompactFault::Value(DICTIONARY));
        let cpus = (0..cpus).map(|_| narrow(input.get(DICTIONARY)?)).collect::<FwtResult<_>>()?;
        let tasks = bounded(DICTIONARY, input.get(DICTIONARY)?, records)?;
        let tasks = (0..tasks).map(|_| task(&mut input, comms)).collect::<FwtResult<_>>()?;
        let shapes = bounded(DICTIONARY, input.get(DICTIONARY)?, records)?;
        let shapes = (0..shapes).map(|_| event_shape::read(&mut input)).collect::<FwtResult<_>>()?;
        input.end(DICTIONARY)?;
        Ok(Dictionary { unit, cpus, tasks, shapes })
    }
}

fn task(input: &mut VarintReader<'_>, comms: &mut Comms) -> FwtResult<(u32, CommId)> {
    let pid = u32::try_from(input.get(DICTIONARY)?).map_err(|_| CompactFault::Value(DICTIONARY))?;
    let length = bounded("a task's name", input.get(DICTIONARY)?, Comms::NAME_LIMIT as u64)?;
    let name = std::str::from_utf8(input.bytes(DICTIONARY, length)?).map_err(|_| CompactFault::Value(DICTIONARY))?;
    Ok((pid, comms.intern(name)))
}

/// Appends the events of a block to `out`.
pub(super) fn decode(content: &[u8], comms: &mut Comms, out: &mut Vec<Record>) -> FwtResult<()> {
    let mut input = VarintReader::new(content);
    let records = bounded("a block", input.get("a block")?, BLOCK_LIMIT)?;
    let dictionary = Dictionary::read(&unpack(DICTIONARY, &mut input, COLUMN_LIMIT)?, records, comms)?;
    let mut column = |what| unpack(what, &mut input, records * 10);
    let (shapes, cpus, tasks) = (column(SHAPE)?, column(CPU)?, column(TASK)?);
    let (times, frames, sources) = (column(TIME)?, column(FRAME)?, column(SOURCE)?);
    input.end("a block")?;
    // Each event takes at least a byte, so no more memory is reserved than the file has.
    if shapes.len() as u64 >= records {
        out.reserve(records as usize);
    }
    let mut columns = Columns {
        shapes: VarintReader::new(&shapes),
        cpus: VarintReader::new(&cpus),
        tasks: VarintReader::new(&tasks),
        times: VarintReader::new(&times),
        frames: VarintReader::new(&frames),
        sources: VarintReader::new(&sources),
        last_task: vec![0; dictionary.cpus.len()],
        last_time: 0,
        last_source: 0,
        guesses: Guesses::new(),
    };
    for _ in 0..records {
        out.push(columns.next(&dictionary)?);
    }
    columns.end()
}

/// The columns of a block while they are read.
struct Columns<'a> {
    shapes: VarintReader<'a>,
    cpus: VarintReader<'a>,
    tasks: VarintReader<'a>,
    times: VarintReader<'a>,
    frames: VarintReader<'a>,
    sources: VarintReader<'a>,
    /// The last task by CPU, 0 if there was none.
    last_task: Vec<usize>,
    last_time: u64,
    last_source: u64,
    guesses: Guesses,
}

impl Columns<'_> {
    #[inline]
    fn next(&mut self, dictionary: &Dictionary) -> FwtResult<Record> {
        let shape = self.shapes.index(SHAPE, dictionary.shapes.len())?;
        let cpu = self.cpus.index(CPU, dictionary.cpus.len())?;
        let task = match self.tasks.index(TASK, dictionary.tasks.len() + 1)? {
            0 => self.last_task[cpu],
            task => task,
        };
        self.last_task[cpu] = task;
        let &(pid, comm) = task.checked_sub(1).and_then(|task| dictionary.tasks.get(task)).ok_or(NO_TASK)?;
        self.last_time = self.times.get_delta(TIME, self.last_time)?;
        let time = self.last_time.checked_mul(dictionary.unit).ok_or(CompactFault::Value(TIME))?;
        let mut kind = dictionary.shapes[shape];
        let (frame, source) = event_shape::frames(&mut kind);
        if let Some(frame) = frame {
            let guess = self.guesses.place(shape, cpu);
            *guess = self.frames.get_delta(FRAME, *guess)?;
            *frame = Pfn(*guess);
        }
        if let Some(source) = source {
            self.last_source = self.sources.get_delta(SOURCE, self.last_source)?;
            *source = Pfn(self.last_source);
        }
        Ok(Record { time, pid, comm, cpu: dictionary.cpus[cpu], kind })
    }

    fn end(&self) -> FwtResult<()> {
        self.shapes.end(SHAPE)?;
        self.cpus.end(CPU)?;
        self.tasks.end(TASK)?;
        self.times.end(TIME)?;
        self.frames.end(FRAME)?;
        self.sources.end(SOURCE)
    }
}

const NO_TASK: CompactFault = CompactFault::Value(TASK);
