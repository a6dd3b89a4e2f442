//! What the run has to say: the first wrong page, or the allocator's state at rest, and the counts.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use framewright::report::{BuddyInfo, ZoneInfo};
use framewright::{FrameCounts, FreeError};

use crate::owner::{self, Owner};
use crate::serial::{self, Outcome, println};
use crate::tag::WrongPage;
use crate::{pages, smp, threads};

/// The counts, as one line.
struct Counts;

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [threads, interrupts, nmis] = owner::all();
        let sum = |owners: &[Owner], counter: fn(&Owner) -> &AtomicU64| -> u64 {
            owners.iter().map(|owner| counter(owner).load(Ordering::Relaxed)).sum()
        };
        let all = |counter| sum(threads, counter) + sum(interrupts, counter) + sum(nmis, counter);
        let operations = sum(threads, |owner| &owner.allocated) + sum(threads, |owner| &owner.freed);
        write!(f, "counts: cpus={} operations={operations}", smp::count())?;
        write!(f, " interrupts={}", sum(interrupts, |owner| &owner.calls))?;
        write!(f, " interrupt-allocations={}", sum(interrupts, |owner| &owner.allocated))?;
        write!(f, " nmis={}", sum(nmis, |owner| &owner.calls))?;
        write!(f, " nmi-allocations={}", sum(nmis, |owner| &owner.allocated))?;
        write!(f, " failed={}", all(|owner| &owner.failed))?;
        write!(f, " pages-checked={}", all(|owner| &owner.checked))?;
        write!(f, " migrations={}", threads::migrations())
    }
}

/// Says that a page is not its owner's, and ends the machine. Context: any.
pub(crate) fn wrong_page(caller: u16, page: &WrongPage) -> ! {
    let WrongPage { pfn, tag, owner } = *page;
    let found = OwnerName(page.found());
    let due = OwnerName(owner);
    serial::die(format_args!(
        "wrong page: frame {pfn:#x} has the tag {tag:#x} of {found}, and should have that of {due}; found by {}\n\
        {Counts} wrong-pages=1",
        OwnerName(Some(caller)),
    ))
}

/// Says that a free was refused, and ends the machine. Context: any.
pub(crate) fn wrong_free(caller: u16, error: FreeError) -> ! {
    serial::die(format_args!("wrong free by {}: {error}\n{Counts} wrong-pages=0", OwnerName(Some(caller))))
}

/// An owner, in words.
struct OwnerName(Option<u16>);

impl fmt::Display for OwnerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.map(usize::from) {
            None => f.write_str("nobody"),
            Some(owner) if owner >= owner::NMIS => write!(f, "NMIs of CPU {}", owner - owner::NMIS),
            Some(owner) if owner >= owner::INTERRUPTS => write!(f, "interrupts of CPU {}", owner - owner::INTERRUPTS),
            Some(owner) => write!(f, "thread {owner}"),
        }
    }
}

/// Prints the allocator's state at rest and the counts; returns whether all is as it should be.
///
/// Context: no other CPU, thread or interrupt calls the allocator.
pub(crate) fn at_rest() -> Outcome {
    let pages = pages::get();
    pages.drain_all();
    let validated = pages.validate();
    println!("{}{}", BuddyInfo(pages), ZoneInfo(pages));
    let expected = pages::stack_frames();
    let outcome = match validated {
        Ok(FrameCounts { present, free, allocated, offline, .. }) if allocated == expected => {
            println!(
                "validate: every invariant holds: {present} frames, {free} free, \
                {allocated} of stacks, {offline} withheld",
            );
            Outcome::Right
        }
        Ok(frames) => {
            println!("validate: {} frames are allocated, {expected} expected", frames.allocated);
            Outcome::Wrong
        }
        Err(violation) => {
            println!("validate: {violation}");
            Outcome::Wrong
        }
    };
    println!("{Counts} wrong-pages=0");
    outcome
}
