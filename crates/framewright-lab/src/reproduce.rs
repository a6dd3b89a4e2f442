//! `framewright reproduce`: published tables, made again on the simulated machine and set beside ours.
//!
//! An experiment has a file of published numbers (`data/published`), a plan of runs, and a list of checks: what has to hold
//! before one may say that a table was reproduced. Three things are kept apart in all that it prints: rows to which a
//! number of the machine was fitted, which say nothing about the model; rows that are predicted; and how far each of them
//! moves when one of the machine's numbers is a tenth smaller or larger.
//!
//! What experiments share is data and functions; an experiment brings its table, its runs, what a run shows of a row, and its words.
//!
//! - [`published`]: what is asked of a file of published numbers;
//! - [`runs`]: runs with names, one of the machine's numbers changed or none, on all CPUs of the host;
//! - [`variation`]: which of the machine's numbers matter, and how much;
//! - [`fitted`]: rows that say nothing about the model;
//! - [`estimate`]: a mean over seeds, and how sure it is;
//! - [`check`]: what had to hold, and whether it did;
//! - [`why`]: a run's reasons in a sentence;
//! - [`head`], [`text`]: what the JSON begins with; what is said in the same words for a terminal;
//! - [`zone_lock`]: page faults on 112 CPUs under six kernels, from 2018, and ours;
//! - [`zone_layout`]: aim7 on 120 CPUs with the zone's lock at three places, from 2015;
//! - [`numa_stats`]: NUMA counters by their threshold on 88 CPUs, from 2017;
//! - [`irq_safe`]: per-CPU lists and interrupts: a page's cycles, and packets, from 2017;
//! - [`fragmentation`]: mobilities that mix, and huge pages, under four kernels of 2018, and ours.

pub mod published;
pub mod runs;
pub mod variation;
pub mod fitted;
pub mod estimate;
pub mod check;
pub mod why;
pub mod head;
pub mod text;
pub mod fragmentation;
pub mod irq_safe;
pub mod numa_stats;
pub mod zone_lock;
pub mod zone_layout;
