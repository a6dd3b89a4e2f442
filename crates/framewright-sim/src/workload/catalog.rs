//! Every kind of workload by its name.

use std::fmt;
use std::str::FromStr;

use super::aim7::Aim7;
use super::aim9::Aim9;
use super::dealt::{ParallelFree, Rand};
use super::netperf::Netperf;
use super::ops::Ops;
use super::page_bench::{Bulk, PageAlloc, PageBench01, PageBench02, PageBench03, PageBench04, Repeat};
use super::page_fault::PageFault1;
use super::page_fault_mix::PageFaultMix;
use super::pipe::{PageBench05, ProducerConsumer};
use super::play::{Ground, Needs, Play, WorkloadKind};
use crate::model::Ps;
use crate::settings::{Configurable, Setting, SpecError, read_all};

macro_rules! workloads {
    ($($Kind:ident),+ $(,)?) => {
        /// A workload: one of the kinds, with its options.
        #[derive(Clone, PartialEq, Debug)]
        #[allow(missing_docs, reason = "each is described where its options are")]
        pub enum Workload { $( $Kind($Kind), )+ Ops(Ops) }

        impl Workload {
            /// Returns the names of all workloads.
            pub fn names() -> impl Iterator<Item = &'static str> {
                [$( $Kind::NAME, )+ Ops::NAME].into_iter()
            }

            /// Returns what one operation is.
            pub fn unit(&self) -> &'static str {
                match self { $( Workload::$Kind(_) => $Kind::UNIT, )+ Workload::Ops(_) => Ops::UNIT }
            }

            /// Returns the mean time between two interrupts of a CPU, if the workload needs interrupts.
            pub(crate) fn interrupts(&self) -> Option<Ps> {
                match self { $( Workload::$Kind(_) => $Kind::INTERRUPTS, )+ Workload::Ops(_) => None }
            }

            /// Returns a workload with its default options, by name. A list of operations has no default.
            fn named(name: &str) -> Option<Workload> {
                match name {
                    $( $Kind::NAME => Some(Workload::$Kind($Kind::default())), )+
                    _ => None,
                }
            }

            /// Returns the workload with these options.
            fn with(&self, options: &str) -> Result<Workload, SpecError> {
                match self {
                    $( Workload::$Kind(_) => read_all($Kind::NAME, options).map(Workload::$Kind), )+
                    Workload::Ops(_) => Ops::load(options).map(Workload::Ops),
                }
            }

            fn name_and_summary(&self) -> (&'static str, &'static str) {
                match self {
                    $( Workload::$Kind(_) => ($Kind::NAME, $Kind::SUMMARY), )+
                    Workload::Ops(_) => (Ops::NAME, Ops::ABOUT),
                }
            }

            fn settings(&self) -> Vec<Setting> {
                match self {
                    $( Workload::$Kind(kind) => kind.each(), )+
                    Workload::Ops(_) => Vec::new(),
                }
            }

            pub(crate) fn needs(&self, cpus: usize) -> Needs {
                match self {
                    $( Workload::$Kind(kind) => kind.needs(cpus), )+
                    Workload::Ops(ops) => ops.needs(),
                }
            }

            pub(crate) fn set_up<'a>(&self, ground: &Ground<'a>) -> Result<Box<dyn Play + 'a>, String> {
                match self {
                    $( Workload::$Kind(kind) => kind.set_up(ground), )+
                    Workload::Ops(ops) => ops.set_up(ground),
                }
            }
        }
    };
}

workloads! {
    PageFault1, PageFaultMix, PageBench01, PageBench02, PageBench03, PageBench04, PageBench05, PageAlloc,
    ParallelFree, Aim7, Aim9, Netperf, Bulk, Repeat, Rand, ProducerConsumer,
}

impl Workload {
    /// Describes a workload: what it models, what an operation is, its options and their defaults.
    ///
    /// Returns `None` if there is no workload of this name.
    pub fn about(name: &str) -> Option<String> {
        if name == Ops::NAME {
            return Some(Ops::ABOUT.to_owned());
        }
        let workload = Workload::named(name)?;
        let (name, summary) = workload.name_and_summary();
        let mut text = format!("{name}: {summary}\n  operation: one {}\n", workload.unit());
        for setting in workload.settings() {
            text += &format!("  {}={}: {}\n", setting.key, setting.value, setting.about);
        }
        Some(text)
    }
}

impl FromStr for Workload {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Workload, SpecError> {
        let (name, options) = text.split_once(':').map_or((text, None), |(name, options)| (name, Some(options)));
        if name == Ops::NAME {
            let reason = || "the workload is `ops:FILE`: a list of operations in a file".to_owned();
            let path = options.filter(|path| !path.is_empty());
            let path = path.ok_or_else(|| SpecError::Ops { path: text.to_owned(), reason: reason() })?;
            return Ops::load(path).map(Workload::Ops);
        }
        let unknown = || SpecError::Name { name: name.to_owned(), names: Workload::names().collect() };
        let workload = Workload::named(name).ok_or_else(unknown)?;
        options.map_or(Ok(workload.clone()), |options| workload.with(options))
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Workload::Ops(ops) = self {
            return write!(f, "{}:{}", Ops::NAME, ops.name());
        }
        f.write_str(self.name_and_summary().0)?;
        let changed = self.settings().into_iter().filter(|setting| !setting.is_default);
        let mut separator = ':';
        changed.into_iter().try_for_each(|setting| {
            let before = std::mem::replace(&mut separator, ',');
            write!(f, "{before}{}={}", setting.key, setting.value)
        })
    }
}
