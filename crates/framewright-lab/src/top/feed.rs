//! A source on a thread of its own, and the orders that pause it or change its interval.
//!
//! The screen must answer keys while a source reads a million flags, waits for a socket, or simulates. So a source
//! sends its samples, and reads its [`Orders`] between them. At most sixteen samples wait to be drawn. A faster source
//! blocks then, so a simulated run never gets far ahead of the screen.

use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::sample::Sample;

/// Samples that wait to be drawn.
const WAITING: usize = 16;

/// A message of a source.
pub enum Told {
    /// How it is.
    Sample(Box<Sample>),
    /// It rests, as it was told to at this time.
    Rests,
    /// There will be no more, for this reason; whether that is an error.
    Ended(String, bool),
}

/// The requests to a source.
#[derive(Clone, Copy, Debug)]
struct Wishes {
    every: f64,
    is_paused: bool,
    has_ended: bool,
}

/// The source's end of the wishes.
#[derive(Clone)]
pub struct Orders {
    wishes: Arc<(Mutex<Wishes>, Condvar)>,
    told: SyncSender<Told>,
}

/// The screen's end.
pub struct Feed {
    wishes: Arc<(Mutex<Wishes>, Condvar)>,
    told: Receiver<Told>,
}

impl Orders {
    fn wishes(&self) -> MutexGuard<'_, Wishes> {
        self.wishes.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Seconds between samples, of the source's clock.
    pub fn every(&self) -> f64 {
        self.wishes().every
    }

    /// Sends a message; false if the screen is gone.
    pub fn tell(&self, told: Told) -> bool {
        self.told.send(told).is_ok() && !self.wishes().has_ended
    }

    /// Rests from now on, until it is told to go on.
    pub fn rest(&self) {
        self.wishes().is_paused = true;
        self.tell(Told::Rests);
    }

    /// Waits as long as the source is to rest; false if it is to end.
    pub fn go_on(&self) -> bool {
        let wishes = self.wishes.1.wait_while(self.wishes(), |wishes| wishes.is_paused && !wishes.has_ended);
        !wishes.unwrap_or_else(PoisonError::into_inner).has_ended
    }

    /// Waits until the next sample after one at `last` is due; false if the source has to end.
    fn wait(&self, last: Instant) -> bool {
        let mut wishes = self.wishes();
        loop {
            if wishes.has_ended {
                return false;
            }
            let left = Duration::from_secs_f64(wishes.every).saturating_sub(last.elapsed());
            if left.is_zero() && !wishes.is_paused {
                return true;
            }
            // A paused source wakes when its orders change.
            let patience = if wishes.is_paused { Duration::from_secs(3600) } else { left };
            let waited = self.wishes.1.wait_timeout(wishes, patience).unwrap_or_else(PoisonError::into_inner);
            wishes = waited.0;
        }
    }
}

impl Feed {
    /// Runs a source on a thread, with a sample every `every` seconds at first.
    pub fn start(every: f64, source: impl FnOnce(&Orders) + Send + 'static) -> Feed {
        let wishes = Wishes { every, is_paused: false, has_ended: false };
        let wishes = Arc::new((Mutex::new(wishes), Condvar::new()));
        let (tell, told) = sync_channel(WAITING);
        let orders = Orders { wishes: wishes.clone(), told: tell };
        // It ends when the screen does. It is not joined, because a simulation may take long to reach its next check.
        thread::spawn(move || source(&orders));
        Feed { wishes, told }
    }

    /// Runs a source that is looked at again and again, with the wall's clock. `look` is given the seconds since the
    /// first time, and those until the next.
    pub fn watch<E: std::fmt::Display>(
        every: f64,
        mut look: impl FnMut(f64, f64) -> Result<Sample, E> + Send + 'static,
    ) -> Feed {
        Feed::start(every, move |orders| {
            let start = Instant::now();
            loop {
                let now = Instant::now();
                let told = match look((now - start).as_secs_f64(), orders.every()) {
                    Ok(sample) => Told::Sample(Box::new(sample)),
                    Err(error) => Told::Ended(format!("{error:#}"), true),
                };
                let is_over = matches!(told, Told::Ended(..));
                if !orders.tell(told) || is_over || !orders.wait(now) {
                    return;
                }
            }
        })
    }

    /// All messages since the last call; none once the source has ended and all are read.
    pub fn heard(&self) -> Option<Vec<Told>> {
        let mut heard = Vec::new();
        loop {
            match self.told.try_recv() {
                Ok(told) => heard.push(told),
                Err(TryRecvError::Empty) => return Some(heard),
                Err(TryRecvError::Disconnected) if heard.is_empty() => return None,
                Err(TryRecvError::Disconnected) => return Some(heard),
            }
        }
    }

    /// Waits for the next message; none once the source has ended.
    pub fn next(&self) -> Option<Told> {
        self.told.recv().ok()
    }

    /// Changes what the source is to do.
    fn wish(&self, change: impl FnOnce(&mut Wishes)) {
        change(&mut self.wishes.0.lock().unwrap_or_else(PoisonError::into_inner));
        self.wishes.1.notify_all();
    }

    /// It is to rest, or to go on.
    pub fn pause(&self, is_paused: bool) {
        self.wish(|wishes| wishes.is_paused = is_paused);
    }

    /// It is to send a sample so often.
    pub fn every(&self, seconds: f64) {
        self.wish(|wishes| wishes.every = seconds);
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.wish(|wishes| wishes.has_ended = true);
    }
}
