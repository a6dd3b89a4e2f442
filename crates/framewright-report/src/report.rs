//! One report of a kernel: what was asked for, by whom, and the memory at that moment.

use framewright::request::Gfp;
use framewright_trace::flags::{InMessage, KernelVersion, Kernels};
use serde::Serialize;

use crate::memory::Memory;

/// What a report is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// `page allocation failure`: the request got nothing.
    Failure,
    /// `page allocation stalls for`: the request still waits (4.9 to 4.14).
    Stall,
    /// A failure of `vmalloc`, which asks for many single pages.
    Vmalloc,
    /// `invoked oom-killer`: a process is killed for the request.
    Oom,
    /// The OOM killer called by SysRq-f, without a request.
    OomByHand,
    /// The state of memory alone, as SysRq-m prints it.
    State,
}

/// Why `vmalloc` failed, as far as its head says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Vmalloc {
    /// Bytes that it asked for.
    pub bytes: Option<u64>,
    /// Whether it got no pages; otherwise it found no addresses, or was refused for its size.
    pub lacked_pages: bool,
}

/// The request of a report.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Asked {
    /// Binary logarithm of the number of frames; `None` if the report does not say.
    pub order: Option<u8>,
    /// Flags as a number, whose bits depend on the kernel.
    pub number: Option<u32>,
    /// Flags by their names, from 4.6 on.
    pub names: Option<String>,
    /// Nodes of the request's memory policy; `None` for any.
    pub nodemask: Option<Vec<u32>>,
    /// Nodes of the task's cpuset; `None` if the report does not say.
    pub mems_allowed: Option<Vec<u32>>,
}

impl Asked {
    /// Returns the flags, as far as they are certain for one of `kernels`.
    pub fn flags(&self, kernels: Kernels) -> InMessage {
        InMessage::read(self.number, self.names.as_deref(), kernels)
    }

    /// Makes a request of flags and an order.
    pub fn new(gfp: Gfp, order: u8) -> Asked {
        Asked { order: Some(order), names: Some(gfp.to_string()), ..Asked::default() }
    }
}

/// Where in its code the kernel was when it made the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Context {
    /// The call trace shows an interrupt.
    Interrupt,
    /// The call trace shows none.
    Task,
    /// There is no call trace.
    #[default]
    Unknown,
}

/// A report of a kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// Its first line in the text, counted from 1.
    pub line: u64,
    /// What it is about.
    pub kind: Kind,
    /// Name of the task that made the request.
    pub task: Option<String>,
    /// The kernel's release, as it was printed.
    pub release: Option<String>,
    /// Whether a line of the report itself names the release, and not only the boot of the kernel before it.
    pub is_named: bool,
    /// The request; `None` for a state alone.
    pub asked: Option<Asked>,
    /// The kernel is older than this one, as its lines show.
    pub before: Option<KernelVersion>,
    /// Where the kernel was.
    pub context: Context,
    /// The limit that an OOM kill names, as `CONSTRAINT_MEMCG`.
    pub constraint: Option<String>,
    /// For [`Kind::Vmalloc`]: what its head says.
    pub vmalloc: Vmalloc,
    /// The memory at that moment.
    pub memory: Memory,
    /// Lines that could not be read in full, each with the reason.
    pub unread: Vec<String>,
}

impl Report {
    /// Makes an empty report.
    pub fn new(line: u64, kind: Kind) -> Report {
        Report {
            line,
            kind,
            task: None,
            release: None,
            is_named: false,
            asked: None,
            before: None,
            context: Context::Unknown,
            constraint: None,
            vmalloc: Vmalloc::default(),
            memory: Memory::default(),
            unread: Vec::new(),
        }
    }

    /// Notes that the kernel is older than `version`.
    pub fn note_before(&mut self, version: KernelVersion) {
        self.before = self.before.into_iter().chain([version]).min();
    }

    /// Returns whether the OOM killer was called by the handler of page faults, which asks for nothing itself.
    pub fn is_of_page_fault(&self) -> bool {
        self.kind == Kind::Oom && self.asked.as_ref().is_some_and(|asked| asked.number == Some(0))
    }

    /// Returns whether a memory control group's limit, not the machine's memory, ended the request.
    pub fn is_of_group(&self) -> bool {
        self.constraint.as_deref() == Some("CONSTRAINT_MEMCG")
    }
}
