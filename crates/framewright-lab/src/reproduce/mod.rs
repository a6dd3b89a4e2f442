//! `framewright reproduce`: published tables, made again on the simulated machine and set beside ours.
//!
//! An experiment has a file of published numbers (`data/published`), a plan of runs, and a list of checks: what has to
//! hold before one may say that a table was reproduced. Three things are kept apart in all that is printed: rows to
//! which a number of the machine was fitted, which say nothing about the model; rows that are predicted; and how far
//! each of them moves when one of the machine's numbers is a tenth smaller or larger.
//!
//! # The shape that all have
//!
//! ```text
//!    Published  the file's rows, checked                       published
//!         Plan  sets of runs; those that are varied; figures   plan, runs, variation
//! Reproduction  rows of theirs and ours, checks; the JSON      found, check, fitted, why
//!         Show  tables, notes and plots, for text and page     show
//!     Headline  the few figures to look at first               headline
//! ```
//!
//! An experiment describes each of these once. The modules at the right read the file, run the plan, compute the bands,
//! and write the JSON's head, the text and the page.
//!
//! The experiments:
//!
//! - [`zone_lock`]: page faults on 112 CPUs under six kernels, from 2018, and ours;
//! - [`zone_layout`]: aim7 on 120 CPUs with the zone's lock at three places, from 2015;
//! - [`numa_stats`]: NUMA counters by their threshold on 88 CPUs, from 2017;
//! - [`irq_safe`]: per-CPU lists and interrupts: a page's cycles, and packets, from 2017;
//! - [`fragmentation`]: mobilities that mix, and huge pages, under four kernels of 2018, and ours.
//!
//! What they share, each file using only those below it:
//!
//! - [`found`]: what came of an experiment as text, JSON and a page;
//! - [`show`]: tables, notes and plots of both;
//! - [`headline`]: the few figures to look at first;
//! - [`fitted`]: rows that say nothing about the model;
//! - [`check`]: what had to hold, and whether it did;
//! - [`plan`]: sets of runs, and what came of them by name;
//! - [`variation`]: which of the machine's numbers matter, and how much;
//! - [`runs`]: runs on all CPUs of the host, one of the machine's numbers changed or none;
//! - [`published`]: what is asked of a file of published numbers;
//! - [`estimate`]: a mean over seeds, and how sure it is;
//! - [`fields`]: what the fields are that reasons name;
//! - [`why`]: a run's reasons in a sentence.

pub mod zone_lock;
pub mod zone_layout;
pub mod numa_stats;
pub mod irq_safe;
pub mod fragmentation;
pub mod found;
pub mod show;
pub mod headline;
pub mod fitted;
pub mod check;
pub mod plan;
pub mod variation;
pub mod runs;
pub mod published;
pub mod estimate;
pub mod fields;
pub mod why;
