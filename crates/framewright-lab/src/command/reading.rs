//! How a command reads a text trace.

use clap::{Args, ValueEnum};
use framewright_trace::flags::{KernelVersion, Kernels};
use framewright_trace::text::{Numbering, TextOptions};

/// How to read a text trace.
#[derive(Args)]
#[command(next_help_heading = "Reading a text trace")]
pub(crate) struct Reading {
    /// Count malformed lines and go on, instead of stopping at the first.
    #[arg(long)]
    lenient: bool,
    /// Address of frame 0's page descriptor, for page moves recorded under address randomisation, as
    /// 0xffffea0000000000.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    vmemmap: Option<u64>,
    /// How the kernel numbers mobilities, where the trace does not tell.
    #[arg(long, value_enum, value_name = "KERNEL")]
    migratetypes: Option<NumberingAge>,
    /// Version of the kernel, for flags printed as numbers (gfp_flags=0x820) where the trace does not tell it, as 4.19.
    #[arg(long, value_name = "VERSION")]
    kernel: Option<KernelVersion>,
}

/// Numbering of mobilities by the kernel's age.
#[derive(Clone, Copy, ValueEnum)]
enum NumberingAge {
    /// Linux 4.4 and later: 1 is movable, 2 reclaimable.
    #[value(name = "since-4.4")]
    Since4_4,
    /// Before: 1 is reclaimable, 2 movable.
    #[value(name = "before-4.4")]
    Before4_4,
}

impl Reading {
    pub(crate) fn options(&self) -> TextOptions {
        let numbering = self.migratetypes.map(|kernel| match kernel {
            NumberingAge::Since4_4 => Numbering::MovableFirst,
            NumberingAge::Before4_4 => Numbering::ReclaimableFirst,
        });
        TextOptions {
            lenient: self.lenient,
            vmemmap: self.vmemmap,
            numbering: numbering.or(self.kernel.map(Numbering::of)),
            kernels: self.kernel.map_or(Kernels::ALL, Kernels::of),
            ..TextOptions::default()
        }
    }
}

fn address(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).map_err(|_| "is no hexadecimal address".to_owned())
}
