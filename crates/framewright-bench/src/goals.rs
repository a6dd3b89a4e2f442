//! The project's promises about its own rows, and their verdicts.

use serde::Serialize;

use crate::entry::Role;
use crate::row::{Row, threads_text};

/// One promise, of one of the project's own rows.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Goal {
    /// The promise.
    pub goal: String,
    /// The contender that it is judged by.
    pub allocator: String,
    /// The bound.
    pub bound: f64,
    /// Whether the number must be at most or at least the bound.
    pub sense: Sense,
    /// The worst number of the rows that it is about; none if nothing of it was measured.
    pub measured: Option<f64>,
    /// The row with that number.
    pub worst: Option<String>,
    /// Whether it holds.
    pub met: Option<bool>,
}

/// On which side of a bound a number must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Sense {
    /// At most the bound.
    #[serde(rename = "<=")]
    AtMost,
    /// At least the bound.
    #[serde(rename = ">=")]
    AtLeast,
    /// Less than the bound.
    #[serde(rename = "<")]
    Below,
}

impl Sense {
    /// As a sign.
    pub fn sign(self) -> &'static str {
        match self {
            Sense::AtMost => "<=",
            Sense::AtLeast => ">=",
            Sense::Below => "<",
        }
    }

    fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Sense::AtMost => value <= bound,
            Sense::AtLeast => value >= bound,
            Sense::Below => value < bound,
        }
    }

    /// Whether `a` is worse than `b`.
    fn worse(self, a: f64, b: f64) -> bool {
        match self {
            Sense::AtMost | Sense::Below => a > b,
            Sense::AtLeast => a < b,
        }
    }
}

/// A promise: the rows it is about, and the number that it judges.
struct Promise {
    goal: &'static str,
    bound: f64,
    sense: Sense,
    about: fn(&Row) -> bool,
    number: fn(&Row, &[Row]) -> Option<f64>,
}

/// Whether a row is of a batch that the promise covers.
fn large_batch(row: &Row) -> bool {
    let size = row.workload.strip_prefix("batch-").and_then(|rest| rest.trim_end_matches("-fifo").parse().ok());
    size.is_some_and(|pages: usize| pages >= 16)
}

fn ratio(row: &Row, _: &[Row]) -> Option<f64> {
    row.ratio_to_limit
}

/// A row's cost against the cheapest peer at that workload and number of threads.
fn to_best_peer(row: &Row, rows: &[Row]) -> Option<f64> {
    let peers = rows
        .iter()
        .filter(|peer| peer.role == Role::Peer && peer.workload == row.workload && peer.threads == row.threads);
    peers.map(|peer| row.ns_per_page / peer.ns_per_page).max_by(f64::total_cmp)
}

const PROMISES: &[Promise] = &[
    Promise {
        goal: "repeat against an array stack behind a call",
        bound: 1.5,
        sense: Sense::AtMost,
        about: |row| row.workload == "repeat",
        number: ratio,
    },
    Promise {
        goal: "batches of 16 to 16384 against the same",
        bound: 2.0,
        sense: Sense::AtMost,
        about: large_batch,
        number: ratio,
    },
    Promise {
        goal: "rand against the stack with a state byte",
        bound: 1.5,
        sense: Sense::AtMost,
        about: |row| row.workload == "rand",
        number: ratio,
    },
    Promise {
        goal: "producer and consumer against two rings",
        bound: 1.5,
        sense: Sense::AtMost,
        about: |row| row.workload == "producer-consumer",
        number: ratio,
    },
    Promise {
        goal: "throughput of 2 threads against 1 on repeat",
        bound: 1.9,
        sense: Sense::AtLeast,
        about: |row| row.workload == "repeat" && row.threads == 2,
        number: |row, _| row.scaling,
    },
    Promise {
        goal: "order-9 pair on one thread, ns",
        bound: 40.0,
        sense: Sense::AtMost,
        about: |row| row.workload == "order-9" && row.threads == 1,
        number: |row, _| Some(row.ns_per_page),
    },
    Promise {
        goal: "time against the fastest peer, every row",
        bound: 1.0,
        sense: Sense::Below,
        about: |_| true,
        number: to_best_peer,
    },
];

/// Judges every promise by the rows of each of the project's own contenders.
pub fn judge(rows: &[Row]) -> Vec<Goal> {
    let mut own: Vec<&str> = Vec::new();
    for row in rows.iter().filter(|row| row.role == Role::Own) {
        if !own.contains(&row.allocator.as_str()) {
            own.push(&row.allocator);
        }
    }
    PROMISES.iter().flat_map(|promise| own.iter().map(|name| judge_one(promise, name, rows))).collect()
}

fn judge_one(promise: &Promise, allocator: &str, rows: &[Row]) -> Goal {
    let about = rows.iter().filter(|row| row.allocator == allocator && (promise.about)(row));
    let numbers = about.filter_map(|row| Some((row, (promise.number)(row, rows)?)));
    let worst = numbers.reduce(|worst, next| if promise.sense.worse(next.1, worst.1) { next } else { worst });
    Goal {
        goal: promise.goal.to_owned(),
        allocator: allocator.to_owned(),
        bound: promise.bound,
        sense: promise.sense,
        measured: worst.map(|worst| worst.1),
        worst: worst.map(|(row, _)| format!("{}, {}", row.workload, threads_text(row.threads))),
        met: worst.map(|worst| promise.sense.holds(worst.1, promise.bound)),
    }
}
