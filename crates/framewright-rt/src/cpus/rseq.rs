//! The slot of the processor that a thread runs on, for any number of threads.
//!
//! With Linux's *restartable sequences* a thread executes a few instructions on the processor's own data as if it could
//! not be stopped. If it is stopped, moved or signalled before the last of them (the *commit*, one store), the kernel
//! sends it to an abort address instead. Here the sequence is a lock without an atomic instruction:
//!
//! > read the number of this processor; if that processor's `owner` word is 0, store one's own mark there.
//!
//! Only threads on that processor store a mark, and two of them cannot be in the sequence at once, so a plain store
//! does. The thread may be stopped or moved right after. It keeps the slot, and the next thread on that processor finds
//! it taken. That thread does not wait: it takes one of the *spares* (see [`Cpus::share`]), and waits only when those
//! are taken too. Leaving is one release store of 0, from any processor: no other thread writes a word that is not 0. A
//! thread that reads that 0 and stores its own mark has acquired the last owner's writes (`mov` on x86-64, `ldar` on
//! aarch64). Coherence orders the mark after the 0.
//!
//! A call notes the slot that it took ([`crate::current`]), and the value of that CPU. The next call compares the
//! number of this processor with that of the slot, inside its sequence, and computes neither address
//! ([`sequence::take_noted`]). A fork's child has nothing noted, so it finds out where it must not use a machine.
//!
//! Nothing else needs care. A thread whose affinity or cpuset changes is moved, which the sequence notices. A processor
//! that goes offline leaves a slot that no thread enters until it returns; a drain gets its pages. A processor that
//! comes online was possible from the start. One with a number beyond the slots is served by the spares.
//!
//! # Interrupts
//!
//! An interrupt of a thread ([`crate::interrupts`]) is like another thread on the processor. The kernel sends the
//! thread out of a sequence before it calls a handler. If the interrupted code has the processor's slot, the handler
//! finds it taken. It then takes the slot of this processor's interrupts by a sequence of its own.
//!
//! # The kernel's side
//!
//! Each thread registers 32 bytes with the kernel, once. The C library glibc does so since 2.35 and publishes their
//! place (`__rseq_offset` from the thread pointer). It is looked up at run time, so that older libraries link.
//! Otherwise the thread registers its own at its first pin and takes them back when it exits. Where that is denied this
//! way is unavailable: [`RseqUnavailable`]. Reasons are seccomp, an old kernel, or a libc that registers without
//! publishing. A fork's child inherits the registration. The last sequence's address stays in those bytes until the
//! kernel next looks, so code that pins must not be unloaded.
//!
//! Rejected: `sched_getcpu` and a lock (10 + 16 ns a pair, here 2). A sequence around each whole operation would have
//! to be written in assembly. The compact concurrency number (`mm_cid`) needs newer kernels and libraries than many
//! have.
//!
//! # Why the unsafe code is right
//!
//! The kernel writes to an area as long as it is registered, and everybody else reads it as atomics. An area is its
//! thread's: glibc's stands at one distance from the thread pointer in every thread, for all of its life. The own one
//! is a thread-local without destructor, and is taken back from the kernel before the thread's memory is used again
//! ([`part`]). [`OwnArea`] does not leave its thread. The two symbols are glibc's, with the types that it documents.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use framewright::machine::Busy;
use framewright::units::NodeId;

use super::sequence::{self, AREA_BYTES, Area, OwnArea, SIGNATURE};
use super::slots::{Cpus, MOST_SLOTS, Side, Slot, Wait};
use super::{topology, watch};
use crate::current::Place;

/// Why CPUs cannot follow the processors here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RseqUnavailable {
    /// No sequence is written for this architecture.
    #[error("no restartable sequence is written for this architecture")]
    Architecture,
    /// The kernel refused to register the thread; the error number of the system call.
    #[error("the kernel does not register restartable sequences: {}", std::io::Error::from_raw_os_error(*.0))]
    Refused(i32),
}

/// Numbers that no processor has.
const UNREGISTERED: u32 = u32::MAX;
const REFUSED: u32 = u32::MAX - 1;

const FLAG_UNREGISTER: i32 = 1;
/// How often a thread tries again after the kernel interfered, before it takes a spare.
const TRIES: u32 = 4;
/// Processors for one spare; the fewest and most spares.
///
/// A spare is in use while a thread is stopped in an operation, or holds two CPUs at once.
const CPUS_PER_SPARE: usize = 8;
const SPARES: (usize, usize) = (2, 8);

thread_local! {
    /// For threads that the C library did not register.
    static OWN: Area = const {
        Area {
            cpu_id_start: AtomicU32::new(0),
            cpu_id: AtomicU32::new(UNREGISTERED),
            rseq_cs: AtomicU64::new(0),
            flags: AtomicU32::new(0),
            padding: [const { AtomicU32::new(0) }; 3],
        }
    };
}

/// The way that this process can use, once that was found out.
static FOUND: OnceLock<Result<Rseq, RseqUnavailable>> = OnceLock::new();

/// Where a thread's area is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rseq {
    /// So far from the thread pointer: the C library's.
    Libc(isize),
    /// In [`OWN`], once the thread has registered it.
    Own,
}

impl Rseq {
    /// Finds out which way this process can use.
    ///
    /// Registers the calling thread if the C library did not.
    ///
    /// # Errors
    /// [`RseqUnavailable`] if there is none.
    pub(crate) fn find() -> Result<Rseq, RseqUnavailable> {
        *FOUND.get_or_init(|| {
            if !sequence::SUPPORTED {
                return Err(RseqUnavailable::Architecture);
            }
            match libc_offset().map(Rseq::Libc) {
                Some(found) if found.here().cpu() < REFUSED => Ok(found),
                _ => join().map(|()| Rseq::Own),
            }
        })
    }

    /// The calling thread's area.
    #[inline]
    fn here(self) -> OwnArea {
        let area = match self {
            Rseq::Libc(offset) => sequence::thread_pointer().wrapping_offset(offset).cast(),
            Rseq::Own => OWN.with(std::ptr::from_ref),
        };
        // SAFETY: `libc_offset` found that glibc keeps an area there, in every thread for all of its life. The own one
        // is a thread-local without destructor, which names no processor unless it is registered.
        unsafe { OwnArea::new(area) }
    }

    /// A number that no other living thread has; never 0.
    fn mark(self) -> usize {
        self.here().address().addr()
    }

    /// Takes the slot of this processor.
    ///
    /// None if another thread has it, if the kernel interfered, or on a processor without slot.
    #[inline]
    pub(crate) fn enter(self, cpus: &Cpus) -> Option<(Place, &Slot)> {
        self.enter_here(cpus).map(|(place, slot, _)| (place, slot))
    }

    /// As [`Rseq::enter`]; also returns the thread's area.
    #[inline]
    pub(super) fn enter_here(self, cpus: &Cpus) -> Option<(Place, &Slot, OwnArea)> {
        let here = self.here();
        let slot = sequence::take(here, cpus.of_processors())?;
        Some((slot.place(), slot, here))
    }

    /// In an interrupt: takes the slot of this processor's interrupts, or else a shared one.
    ///
    /// For an interrupt that finds the processor's slot taken, perhaps by the code that it interrupted. None if the
    /// machine has no interrupts.
    #[cold]
    fn enter_apart(self, cpus: &Cpus, wait: Wait) -> Result<Option<(Place, &Slot)>, Busy> {
        let slots = cpus.slots.get(cpus.threads..).filter(|slots| slots.len() == cpus.threads);
        let Some(slots) = slots else { return Ok(None) };
        let slots = slots.get(..cpus.of_processors().len()).unwrap_or_default();
        match sequence::take(self.here(), slots) {
            Some(slot) => Ok(Some((slot.place(), slot))),
            None => cpus.share(self.mark(), Side::Interrupts, wait),
        }
    }

    /// Takes a slot, shared ones included.
    ///
    /// None if the machine refuses to work in this process, or if this is an interrupt and the machine has none.
    ///
    /// # Errors
    /// As [`Cpus::share`].
    #[cold]
    pub(crate) fn enter_otherwise(self, cpus: &Cpus, wait: Wait) -> Result<Option<(Place, &Slot)>, Busy> {
        if cpus.refuses() {
            return Ok(None);
        }
        if Side::here() == Side::Interrupts {
            return self.enter_apart(cpus, wait);
        }
        if self == Rseq::Own && OWN.with(|own| own.cpu_id.load(Relaxed) == UNREGISTERED) {
            // If it fails, the thread takes spares for ever.
            let _ = join();
        }
        let mark = self.mark();
        for _ in 0..TRIES {
            let cpu = self.here().cpu();
            let Some(slot) = cpus.own_slots().get(cpu as usize) else { break };
            if slot.is_of(mark) {
                slot.nest();
                return Ok(Some((slot.place(), slot)));
            }
            if !slot.is_free() {
                break;
            }
            if let Some(entered) = self.enter(cpus) {
                return Ok(Some(entered));
            }
        }
        let Some((place, spare)) = cpus.share(mark, Side::Threads, wait)? else { return Ok(None) };
        // A spare has no processor; the thread has.
        let here = cpus.slots.get(self.here().cpu() as usize);
        Ok(Some((Place { node: here.map_or(place.node, |slot| slot.node), ..place }, spare)))
    }
}

/// The calling thread's mark on slots that follow the processors, if there can be such.
pub(crate) fn mark() -> Option<usize> {
    FOUND.get()?.ok().map(Rseq::mark)
}

/// Makes the slots of a machine whose CPUs follow the processors: theirs, then spares.
///
/// Nodes from `nodes` on are taken for node 0.
pub(crate) fn cpus(nodes: usize) -> Cpus {
    let mut processors = topology::processors();
    processors.truncate(MOST_SLOTS - SPARES.1);
    for node in processors.iter_mut().filter(|node| node.index() >= nodes) {
        *node = NodeId(0);
    }
    let spares = (processors.len() / CPUS_PER_SPARE).clamp(SPARES.0, SPARES.1);
    processors.resize(processors.len() + spares, NodeId(0));
    Cpus::new(&processors, spares)
}

/// A constant of glibc: its name and the type that glibc documents.
struct Symbol<T>(&'static CStr, PhantomData<T>);

/// Size of the areas that glibc registered; 0 if it registered none.
const SIZE: Symbol<libc::c_uint> = Symbol(c"__rseq_size", PhantomData);
/// Where they are, from the thread pointer.
const OFFSET: Symbol<isize> = Symbol(c"__rseq_offset", PhantomData);

impl<T: Copy> Symbol<T> {
    /// Its value; none if the C library has no such symbol.
    fn value(&self) -> Option<T> {
        // SAFETY: the name ends with a null byte. The symbol has this type, and is constant once the program runs.
        unsafe { libc::dlsym(libc::RTLD_DEFAULT, self.0.as_ptr()).cast::<T>().as_ref() }.copied()
    }
}

/// Where glibc keeps the areas that it registered, from the thread pointer.
fn libc_offset() -> Option<isize> {
    // Of the area's 32 bytes the fields of the first kernels are 20.
    SIZE.value().filter(|&size| size >= 20).and(OFFSET.value())
}

/// Registers the thread's own area, until it exits.
fn join() -> Result<(), RseqUnavailable> {
    if watch::shares() || !watch::watch_exit() {
        return Err(RseqUnavailable::Refused(libc::EAGAIN));
    }
    register(0).inspect_err(|_| OWN.with(|own| own.cpu_id.store(REFUSED, Relaxed)))
}

/// Takes the thread's own area back from the kernel, before its memory is reused.
pub(super) fn part() {
    if OWN.with(|own| own.cpu_id.load(Relaxed)) < REFUSED {
        let _ = register(FLAG_UNREGISTER);
        OWN.with(|own| own.cpu_id.store(REFUSED, Relaxed));
    }
}

fn register(flags: i32) -> Result<(), RseqUnavailable> {
    let area = OWN.with(std::ptr::from_ref);
    // SAFETY: the kernel writes to the area while it is registered, which ends before the thread-local does (`part`).
    // All other readers and writers use atomics.
    let status = unsafe { libc::syscall(libc::SYS_rseq, area, AREA_BYTES, flags, SIGNATURE) };
    if status == 0 {
        return Ok(());
    }
    Err(RseqUnavailable::Refused(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)))
}
