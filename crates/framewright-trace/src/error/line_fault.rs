//! Faults of a line of a text trace.

use framewright::request::Gfp;
use framewright::units::Pfn;

use super::excerpt::Excerpt;
use crate::flags::BitsFault;
use crate::lines::LINE_LIMIT;

/// A fault of a line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages show what the fields hold")]
pub enum LineFault {
    /// Longer than any line of a trace.
    #[error("the line is longer than {LINE_LIMIT} bytes; it starts {0}")]
    TooLong(Excerpt),
    /// The last line has no line end.
    #[error("the file ends in the middle of this line")]
    Unterminated,
    /// An event without the columns before it.
    #[error("there is no `task-pid [cpu] seconds:` before the event in {0}")]
    NoHead(Excerpt),
    /// An event of the page allocator inside a line that looks like another event.
    #[error("an event of the page allocator is where the fields of another event should be in {0}")]
    Buried(Excerpt),
    /// The trace's clock does not count seconds.
    #[error("the time is no number of seconds in {0}; trace with the clock `local`, `global` or `mono`")]
    Ticks(Excerpt),
    /// A field is missing.
    #[error("{event} has no {field}=")]
    Missing { event: &'static str, field: &'static str },
    /// A field occurs twice.
    #[error("{event} has {field}= twice, as if two lines had run together")]
    Repeated { event: &'static str, field: &'static str },
    /// A field is no number.
    #[error("{event} has {field}={text}, which is no number")]
    Number { event: &'static str, field: &'static str, text: Excerpt },
    /// A field's number is too large.
    #[error("{event} has {field}={value}, above {limit}")]
    Range { event: &'static str, field: &'static str, value: u64, limit: u64 },
    /// A flag that no kernel has.
    #[error("gfp_flags has {0}, which is no flag")]
    Flag(Excerpt),
    /// Flags that are printed as a number, which depends on the kernel.
    #[error(transparent)]
    Bits(#[from] BitsFault),
    /// A mobility that no kernel has.
    #[error("there is no mobility with the number {0}")]
    Migratetype(u64),
    /// A request's mobility is not the one that its flags ask for.
    #[error("migratetype={value} is not what {gfp} asks for in the numbering of the lines before; say which it is")]
    Contradiction { value: u64, gfp: Gfp },
    /// The numbering turned out to be another one than assumed.
    #[error(
        "this request shows that 1 is reclaimable and 2 movable, but earlier events were read the other way round; say that the kernel is older than 4.4"
    )]
    Numbering,
    /// An address in none of the usual tables of page descriptors.
    #[error(
        "{address:#x} is in no table of page descriptors at one of the usual addresses (the kernel randomises them unless booted with nokaslr); say where frame 0's is"
    )]
    PageTable { address: u64 },
    /// An address between two page descriptors.
    #[error("{address:#x} is not the address of a page descriptor: not a multiple of 64 above {base:#x}")]
    Descriptor { address: u64, base: u64 },
    /// A page descriptor's frame is outside the machine, or far above all earlier ones.
    #[error(
        "{address:#x} would be the page descriptor of frame {pfn}, above all others (they end at {end}); say where frame 0's is"
    )]
    FrameAbove { address: u64, pfn: Pfn, end: Pfn },
}
