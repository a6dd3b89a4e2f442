//! Results of simulated runs, for people and for other tools.
//!
//! [`RunText`] prints one run in at most 100 columns and [`CurveText`] several beside each other. [`Sensitivity`] says
//! how far a result moves with each number of the machine model. [`timeline::write()`] draws the waits for locks for
//! Perfetto. Programs read the [`Report`](framewright_sim::report::Report) itself as JSON, and a browser shows
//! [`html`](crate::html). All of these write numbers by [`framewright_table::figures`] and share [`cpu_time`].

pub mod sweep;
pub mod sensitivity;
pub mod curve;
pub mod run;
pub mod cpu_time;
pub mod timeline;
pub mod pool;

pub use curve::CurveText;
pub use run::RunText;
pub use sensitivity::Sensitivity;
