//! The kernel's formats, as patterns.

use std::sync::LazyLock;

use regex::Regex;

use super::clean::pattern;

/// The flags of a request: a number, and since 4.6 names.
macro_rules! flags {
    () => {
        r"(?P<number>0x[0-9a-fA-F]+|0)(?:\s?\((?P<names>[^)]*)\)?)?"
    };
}

/// Defines patterns that are compiled when they are first used.
macro_rules! patterns {
    ($($(#[$doc:meta])* $name:ident = $text:expr;)*) => {
        $($(#[$doc])* pub(super) static $name: LazyLock<Regex> = LazyLock::new(|| pattern($text));)*

        #[cfg(test)]
        pub(super) fn all() -> Vec<&'static Regex> {
            vec![$(&$name),*]
        }
    };
}

patterns! {
    /// The head of a failure.
    FAILURE = concat!(
        r"^(?:(?P<task>\S.*?):\s+)?(?:page allocation|vmemmap alloc) failure[.:]\s*order:\s*(?P<order>-?\d+).{0,120}?mode:\s*",
        flags!(),
    );
    /// The head of a stall.
    STALL = concat!(
        r"^(?:(?P<task>\S.*?):\s+)?page allocation stalls for \d+ms,\s*order:\s*(?P<order>-?\d+),\s*mode:\s*",
        flags!(),
    );
    /// The head of a failed `vmalloc`.
    VMALLOC = concat!(
        r"^(?:(?P<task>\S.*?):\s+)?(?:vmalloc: allocation failure|vmalloc error|vmalloc size)\b.*?,\s*mode:\s*",
        flags!(),
    );
    /// The bytes that a `vmalloc` asked for, in a line before its head (before 4.9) or in it.
    VMALLOC_BYTES = r"\bvmalloc(?:: allocation failure(?:, allocated \d+ of)?:?| error: size| size) (?P<bytes>\d+)";
    /// The order at which a `vmalloc` got no pages.
    VMALLOC_ORDER = r"\bpage order (?P<order>\d+)\b.*failed to allocate pages";
    /// The head of an OOM report.
    OOM = concat!(
        r"^(?P<task>\S.*?)\s+invoked oom-killer:\s*gfp_mask=",
        flags!(),
        r".*?\border=\s*(?P<order>-?\d+)",
    );
    /// Nodes of a memory policy.
    NODEMASK = r"\bnodemask=(?P<nodes>\(null\)|[\d,\-]*\d)";
    /// Nodes of a cpuset.
    MEMS_ALLOWED = r"\bmems_allowed=(?P<nodes>[\d,\-]*\d)";
    /// The limit that an OOM kill names.
    CONSTRAINT = r"\boom-kill:\s*constraint=(?P<name>CONSTRAINT_[A-Z_]+)";
    /// The kernel's release in the line of the CPU and the task, and the task.
    RELEASE = concat!(
        r"(?:\b[Cc]omm: (?P<task>.{1,40}?),?|^CPU: \d+)(?: Kdump: loaded)?(?: Not tainted| Tainted: [^0-9]{1,60}?)",
        r"\s+(?:\([^()]{1,40}\)\s+)?(?P<release>\d+\.\d+[.\-+\w~]*)",
    );
    /// Debian's version of a kernel, beside a release that has 0 for the patch level.
    DEBIAN = r"\bDebian (?P<version>\d+\.\d+\.\d+)-";
    /// The kernel's release when it boots.
    BOOTED = r"\bLinux version (?P<release>\d+\.\d+[.\-+\w~]*)";
    /// A zone's numbers.
    ZONE = r"^(?:Node (?P<node>\d+),? )?(?P<name>DMA32|DMA|Normal|HighMem|Movable|Device) free:";
    /// A number of a zone.
    FIELD = r"\b(?P<name>[a-z_]+(?:\([a-z]+\))?):\s?(?P<number>\d+)(?P<unit>[kK]B)?";
    /// Frames that requests must leave.
    RESERVE = r"^lowmem_reserve\[\]:(?P<numbers>(?:\s+-?\d+)+)";
    /// Free blocks of a zone.
    BLOCKS = r"^(?:Node (?P<node>\d+),? )?(?P<name>DMA32|DMA|Normal|HighMem|Movable|Device): (?P<blocks>\d+[*_]\d+[kK]B.*)";
    /// Free blocks of an order.
    BLOCK = r"(?P<count>\d+)[*_](?P<size>\d+)[kK]B(?:\s*\((?P<letters>[A-Z]+)\))?";
    /// The head of the lists of each CPU.
    PER_CPU = r"^(?:Node (?P<node>\d+),? )?(?P<name>DMA32|DMA|Normal|HighMem|Movable|Device) per-cpu:";
    /// The lists of a CPU: before 2.6.25 of hot and cold frames.
    PER_CPU_LINE = r"^CPU\s+\d+:\s+(?:Hot:\s+)?hi:\s*\d+,\s*btch:\s*\d+\s+usd:\s*(?P<used>\d+)(?:.*usd:\s*(?P<cold>\d+))?";
    /// Numbers of the whole machine, in frames.
    TOTAL = r"\b(?P<name>active_file|inactive_file|slab_reclaimable|free):(?P<number>\d+)(?:\s|$)";
    /// Pages that are in HighMem or Movable, and all pages.
    RAM = r"^(?P<number>\d+) (?P<name>pages (?:of )?RAM|pages (?:of )?HighMem)";
    /// The begin of a state without a request.
    SYSRQ = r"(?i)\bsysrq\s*:.*\bshow memory\b";
    /// The begin of a state.
    MEM_INFO = r"(?i)^mem-info:";
    /// A call trace of an interrupt.
    INTERRUPT = r"^\s*<(?:IRQ|SOFTIRQ|NMI)>|\b(?:__do_softirq|do_softirq|net_rx_action|irq_exit\w*|__irq_svc|el1_irq|el1h_64_irq|do_IRQ|handle_softirqs)\b";
    /// A call trace.
    TRACE = r"(?i)^(?:call trace|backtrace|stack):|\b\w+\+0x[0-9a-f]+/0x[0-9a-f]+";
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_pattern_compiles() {
        assert!(super::all().len() > 20);
    }
}
