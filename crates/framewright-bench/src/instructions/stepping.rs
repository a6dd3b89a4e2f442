//! Counting by single steps.
//!
//! A program runs itself again as a child that it traces. The child says by a signal where a counted region begins
//! and where it ends; between the two it is let go for one instruction at a time, and all the rest at full speed. A
//! system call counts as the one instruction that it is. The signals' own instructions are counted too. Their number is
//! equal for all regions, so that of an empty region is subtracted.
#![allow(unsafe_code, reason = "ptrace has no safe wrapper among our dependencies; each block says why it is sound")]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use libc::{SIGTRAP, SIGURG, c_int, pid_t};
use rustix::thread::sched_getcpu;
use serde::Serialize;

use crate::crew::pin;
use crate::instructions::counted::PAGES;

/// Regions of a batch.
const REGIONS: usize = 4;

/// Instructions that a page costs.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Counts {
    /// Of its allocation.
    pub alloc: f64,
    /// Of its free.
    pub free: f64,
    /// Of both, one page again and again.
    pub repeat: f64,
}

impl Counts {
    fn of(regions: [u64; REGIONS], batches: usize) -> Counts {
        let pages = (batches * PAGES) as f64;
        // Less what it takes to say where a region begins and ends, and to call nothing.
        let [nothing, alloc, free, repeat] = regions.map(|count| count as f64);
        Counts { alloc: (alloc - nothing) / pages, free: (free - nothing) / pages, repeat: (repeat - nothing) / pages }
    }
}

/// Runs a command that does a variant's work ([`super::work`]) and counts its instructions.
///
/// # Errors
/// A system that denies tracing; a command that failed, or did other work.
pub fn count(command: &mut Command, batches: usize) -> io::Result<Counts> {
    stay_on_one_processor();
    // SAFETY: between fork and exec only one system call is made, which takes no pointer.
    unsafe { command.pre_exec(|| request(libc::PTRACE_TRACEME, 0, 0)) };
    let child = command.spawn()?.id() as pid_t;
    let regions = follow(child, batches)?.ok_or_else(|| io::Error::other("the counted program failed"))?;
    Ok(Counts::of(regions, batches))
}

/// The child inherits it. On two processors each step would wait for the other to wake up.
fn stay_on_one_processor() {
    // Where it is denied, counting takes longer.
    let _ = pin(sched_getcpu());
}

/// Lets the child run to its end; none if it failed, or did not mark the regions that it should.
fn follow(child: pid_t, batches: usize) -> io::Result<Option<[u64; REGIONS]>> {
    let (mut counts, mut marks, mut deliver) = ([0_u64; REGIONS], 0_usize, 0);
    wait(child)?;
    loop {
        let inside = marks % 2 == 1;
        request(if inside { libc::PTRACE_SINGLESTEP } else { libc::PTRACE_CONT }, child, deliver)?;
        deliver = 0;
        let status = wait(child)?;
        if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
            let all = libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0 && marks == 2 * REGIONS * batches;
            return Ok(all.then_some(counts));
        }
        match libc::WSTOPSIG(status) {
            SIGTRAP if inside => counts[marks / 2 % REGIONS] += 1,
            SIGURG => marks += 1,
            signal => deliver = signal,
        }
    }
}

fn wait(child: pid_t) -> io::Result<c_int> {
    let mut status = 0;
    // SAFETY: the status is written to a variable of its type.
    match unsafe { libc::waitpid(child, &raw mut status, 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(status),
    }
}

fn request(request: libc::c_uint, child: pid_t, signal: c_int) -> io::Result<()> {
    let nowhere = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: the requests made here neither read nor write this process' memory; the last argument is a number.
    match unsafe { libc::ptrace(request, child, nowhere, libc::c_long::from(signal)) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
