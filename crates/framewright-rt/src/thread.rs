//! A background thread of this crate in the embedder's process.
//!
//! It takes no signals, leases no CPU, and ends when its handle is dropped. A fork's child does not have the thread.
//! The handle knows that, and dropping it there touches nothing that the thread may have been using.

use std::io;
use std::mem;
use std::thread::{self, JoinHandle};

use crate::cpus;
use crate::fork;
use crate::interrupts;

/// A running thread. Dropping it stops and awaits it.
pub(crate) struct Thread {
    stop: Box<dyn Fn() + Send + Sync>,
    /// None while it is awaited.
    handle: Option<JoinHandle<()>>,
    /// Which process has the thread: after a fork, the other one has not.
    process: u64,
}

impl Thread {
    /// Runs `body` on a thread of its own. `stop` tells it from outside to return.
    pub(crate) fn start(
        stop: impl Fn() + Send + Sync + 'static,
        body: impl FnOnce() + Send + 'static,
    ) -> io::Result<Thread> {
        fork::watch();
        let run = move || {
            interrupts::block_all();
            cpus::never();
            body();
        };
        let handle = thread::Builder::new().name("framewright".into()).spawn(run)?;
        Ok(Thread { stop: Box::new(stop), handle: Some(handle), process: fork::generation() })
    }

    /// Whether this process is the one that started it.
    pub(crate) fn is_here(&self) -> bool {
        self.process == fork::generation()
    }

    /// Whether it runs: here, and not at its end.
    pub(crate) fn is_running(&self) -> bool {
        self.is_here() && self.handle.as_ref().is_some_and(|handle| !handle.is_finished())
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        let Some(handle) = self.handle.take() else { return };
        if !self.is_here() {
            // There is no thread to stop. The locks of `stop` may have been copied locked, and the handle is invalid
            // here.
            mem::forget(handle);
            return;
        }
        (self.stop)();
        // The body may own this handle. A thread cannot await itself, but it will stop.
        if handle.thread().id() != thread::current().id() {
            // A panic of the body was reported when it happened.
            let _ = handle.join();
        }
    }
}
