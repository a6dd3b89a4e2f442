//! Facts about the machine, without which a number in nanoseconds means nothing.

use std::fs;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::crew::allowed_cpus;
use crate::tsc::cycles;

/// The machine of a measurement.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MachineFacts {
    /// Model of the processor, as the kernel calls it.
    pub cpu: String,
    /// CPUs that the process may run on.
    pub cpus: usize,
    /// Name and release of the kernel.
    pub kernel: String,
    /// The compiler that this program was built with, if known.
    pub rustc: Option<String>,
    /// The clock of the measurements.
    pub clock: String,
    /// The cost of one reading of the clock, in nanoseconds.
    pub clock_ns: f64,
    /// Cycles of the time-stamp counter in a nanosecond; none where there is no such counter.
    pub tsc_ghz: Option<f64>,
    /// Memory that was available before the run, in bytes.
    pub memory_available: u64,
    /// The kernel's clock source, if it tells.
    pub clocksource: Option<String>,
    /// Processes waiting to run, averaged over the last minute, before the run: above 1, others disturb.
    pub load: Option<f64>,
}

impl MachineFacts {
    /// Of this machine, now.
    pub fn gather() -> MachineFacts {
        let uname = rustix::system::uname();
        MachineFacts {
            cpu: cpu_model().unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cpus: allowed_cpus().len(),
            kernel: format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy()),
            rustc: option_env!("FRAMEWRIGHT_RUSTC").map(str::to_owned),
            clock: "CLOCK_MONOTONIC".to_owned(),
            clock_ns: clock_cost().as_nanos() as f64,
            tsc_ghz: tsc_ghz(),
            memory_available: available_bytes(),
            clocksource: first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            load: first_line("/proc/loadavg").and_then(|line| line.split(' ').next()?.parse().ok()),
        }
    }
}

/// The time that reading the clock adds to a duration.
pub(crate) fn clock_cost() -> Duration {
    static COST: OnceLock<Duration> = OnceLock::new();
    *COST.get_or_init(|| (0..1000).map(|_| Instant::now().elapsed()).min().unwrap_or_default())
}

/// Counted against the clock for 20 ms, which is good to some parts in a million.
pub(crate) fn tsc_ghz() -> Option<f64> {
    let (start, from) = (Instant::now(), cycles()?);
    while start.elapsed() < Duration::from_millis(20) {
        std::hint::spin_loop();
    }
    let (elapsed, to) = (start.elapsed(), cycles()?);
    let ghz = to.wrapping_sub(from) as f64 / elapsed.as_nanos() as f64;
    Some((ghz * 1e6).round() / 1e6)
}

fn first_line(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.lines().next()?.trim().to_owned())
}

fn cpu_model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Memory that can be had without harm to others; 1 GiB if the system does not tell.
pub(crate) fn available_bytes() -> u64 {
    let kib = || {
        let text = fs::read_to_string("/proc/meminfo").ok()?;
        let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    kib().unwrap_or(1 << 20) << 10
}
