//! One language for all testing of the page allocator.
//!
//! A test case is a [`Scenario`]: a machine ([`Shape`]) and a list of operations ([`Op`]) on it. It prints as text, one
//! line an operation, and parses back, so that a unit case, a generated sequence, a workload and a failing run are the
//! same thing: a file (extension `.ops`) that every tool can run.
//!
//! ```
//! use framewright_ops::{Outcome, Scenario, run};
//!
//! let scenario: Scenario = "
//!     max-order 4                                  # a small machine: blocks of up to 16 frames,
//!     pageblock-order 2                            # pageblocks of 4,
//!     memory 0x0..0x40 node 0                      # 64 frames of memory,
//!     cpus 0 0                                     # and two CPUs on node 0
//!     a1 = alloc order 2 GFP_KERNEL
//!     raw-free a1+1 order 0                        # a wrong free, which must be refused
//!     run-on 1
//!     free a1 -> ok
//! "
//! .parse()
//! .unwrap();
//! let report = run(&scenario).unwrap();
//! assert!(matches!(report.outcomes[1], Outcome::Refused(_)));
//! assert_eq!(report.census.allocated, 0);
//!
//! // What a generator made prints as such a text, and means the same when it is read back.
//! let generated = framewright_ops::generate::scenario(42);
//! assert_eq!(generated.to_string().parse(), Ok(generated.clone()));
//! run(&generated).unwrap();
//! ```
//!
//! [`run()`] boots the machine, carries the operations out and judges each answer by a naive [`Oracle`]. The oracle
//! keeps a record for every frame and knows nothing of lists and buddies. After each operation the allocator's own
//! `validate` runs and its census is compared. A [`Failure`] names the operation and contains the case as text;
//! [`shrink::shrink`] makes it small.
//!
//! | module | what for |
//! |---|---|
//! | [`run`](mod@run) | a whole scenario, judged |
//! | [`session`] | one operation at a time, with a look at the machine in between |
//! | [`transcript`](mod@transcript), [`recorded`] | what shows of a run, to compare with another, or with a file |
//! | [`generate`], [`machines`], [`variety`] | scenarios and machines from a seed |
//! | [`fuzz`] | generated scenarios on several threads |
//! | [`symptom`], [`shrink`] | small failing cases |
//! | [`scenario`], [`shape`], [`op`], [`expected`], [`assertion`], [`row`] | the language |
//! | [`oracle`], [`memory`] | what an allocator may answer |
#![forbid(unsafe_code)]

pub mod fuzz;
pub mod symptom;
pub mod shrink;
pub mod generate;
pub mod rng;
pub mod run;
pub mod transcript;
pub mod recorded;
pub mod session;
mod play;
pub mod oracle;
mod language;

pub use generate::{machines, variety};
pub use language::{
    Counter, Handle, OnMigrate, OnReclaim, Op, Outcome, ParseError, Place, Row, Scenario, Shape, Step, Terms, zones,
};
pub use language::{assertion, expected, op, row, scenario, shape};
pub use oracle::reach::lowest_mark;
pub use oracle::{Oracle, memory};
pub use run::{Checks, Failure, Kind, Line, Report, follow, run, run_with};
pub use session::{Encounters, Session, Snapshot, with_session};
pub use transcript::{Transcript, transcript, transcript_moved};
