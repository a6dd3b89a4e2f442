//! Joins lines that belong together.
//!
//! The kernel prints a zone's line in parts, and other CPUs may print in between. A mail or a web page breaks long
//! lines. A line that can go on stays open until another begins; a line that continues it is added.

use std::sync::LazyLock;

use regex::Regex;

use super::clean::{LINE_LIMIT, pattern};

/// A line that may go on.
#[derive(Clone, Debug, Default)]
pub(super) struct Open {
    text: String,
    kind: Kind,
    /// Number of its first line.
    line: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Kind {
    /// Nothing is open.
    #[default]
    None,
    /// The head of a report.
    Head,
    /// `Node 0`, `Node 0 DMA` or `DMA:`
    Node,
    Zone,
    Blocks,
    Reserve,
    /// `CPU: 2 PID: 10165 Comm: task`
    Cpu,
}

/// What a line does to the open one.
pub(super) enum Step {
    /// It continued the open line.
    Joined,
    /// It ended the open line, which is complete, and is open now.
    Opened(Option<(u64, String)>),
    /// It is complete in itself. It ended an open head of a report or line of a CPU; other lines stay open.
    Single(Option<(u64, String)>),
}

fn kind_of(body: &str) -> Kind {
    static HEAD: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r"\bpage allocation (?:failure|stalls)|\bvmemmap alloc failure|\binvoked oom-killer:|\S invoked$|\bvmalloc(?: error|:| size)",
        )
    });
    static NODE: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"^(?:Node \d+,?|(?:Node \d+,? )?(?:DMA|DMA32|Normal|HighMem|Movable|Device):?)\s*$"));
    static ZONE: LazyLock<Regex> = LazyLock::new(|| {
        pattern(r"^(?:Node \d+,? )?(?:(?:DMA|DMA32|Normal|HighMem|Movable|Device) free|active_anon):\s?\d+[kK]B")
    });
    static BLOCKS: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"^(?:Node \d+,? )?(?:DMA|DMA32|Normal|HighMem|Movable|Device): \d+[*_]\d+[kK]B"));
    static CPU: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"^(?:CPU: \d+.{0,40} Comm: |Pid: \d+, comm: |CPU: \d+ (?:Not )?[tT]ainted)[^#]*$"));
    if body.starts_with("lowmem_reserve[]:") {
        Kind::Reserve
    } else if ZONE.is_match(body) {
        Kind::Zone
    } else if BLOCKS.is_match(body) {
        Kind::Blocks
    } else if NODE.is_match(body) {
        Kind::Node
    } else if HEAD.is_match(body) {
        Kind::Head
    } else if CPU.is_match(body) {
        Kind::Cpu
    } else {
        Kind::None
    }
}

impl Open {
    /// Adds a line.
    pub(super) fn add(&mut self, line: u64, body: &str) -> Step {
        if self.is_continued_by(body) {
            if self.text.len() + body.len() < LINE_LIMIT {
                let glued = self.kind == Kind::Head && self.text.ends_with(['|', '_']);
                self.text.push_str(if glued || self.text.ends_with(' ') { "" } else { " " });
                self.text.push_str(body.trim_start());
            }
            if self.kind == Kind::Node {
                self.kind = kind_of(&self.text);
            }
            return Step::Joined;
        }
        let kind = kind_of(body);
        if kind == Kind::None {
            return Step::Single(if matches!(self.kind, Kind::Head | Kind::Cpu) { self.close() } else { None });
        }
        let before = self.close();
        *self = Open { text: body.trim_end().to_owned(), kind, line };
        Step::Opened(before)
    }

    /// Returns whether a line is open.
    pub(super) fn is_open(&self) -> bool {
        self.kind != Kind::None
    }

    /// Ends the open line; returns it, if there is one, with the number of its first line.
    pub(super) fn close(&mut self) -> Option<(u64, String)> {
        let Open { text, kind, line } = std::mem::take(self);
        (kind != Kind::None).then_some((line, text))
    }

    fn is_continued_by(&self, body: &str) -> bool {
        static FIELDS: LazyLock<Regex> = LazyLock::new(|| {
            pattern(
                r"^\s*(?:[a-z_]+(?:\([a-z]+\))?:\s?\d+[kK]B|pages_scanned:\d|all_unreclaimable\?|\d+[kK]B\s|(?:yes|no)\s*$)",
            )
        });
        static BLOCKS: LazyLock<Regex> =
            LazyLock::new(|| pattern(r"^\s*(?:\d+[*_]\d+[kK]B|\([UMERHCI]+\)|= ?\d+[kK]B)"));
        static NUMBERS: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\s*\d+(?:\s+\d+)*\s*$"));
        static HEAD: LazyLock<Regex> = LazyLock::new(|| {
            pattern(
                r"^\s*(?:mode:|oom-killer:|(?:page )?order[:= ]|gfp_mask=|nodemask=|cpuset=|mems_allowed=|oom_|failed to allocate)",
            )
        });
        static CPU: LazyLock<Regex> = LazyLock::new(|| {
            pattern(r"^\s*(?:(?:Kdump|Not tainted|Tainted)\b|(?:[A-Z]+\s+|-+\s+)*\d+\.\d+[.\-+\w]*(?:\s|$))")
        });
        static NAME: LazyLock<Regex> = LazyLock::new(|| {
            pattern(r"^\s*(?:(?:DMA|DMA32|Normal|HighMem|Movable|Device)(?: free)?:|free:\d|\d+[*_]\d+[kK]B)")
        });
        match self.kind {
            Kind::None => false,
            Kind::Zone => FIELDS.is_match(body),
            Kind::Blocks => BLOCKS.is_match(body),
            Kind::Reserve => NUMBERS.is_match(body),
            Kind::Node => NAME.is_match(body),
            Kind::Cpu => CPU.is_match(body),
            Kind::Head => {
                let is_inside = self.text.matches('(').count() > self.text.matches(')').count();
                HEAD.is_match(body) || (is_inside && body.contains(')') && !body.contains(": "))
            }
        }
    }
}
