//! The two architectures, and the call of make for them.
//!
//! The idea: both are built in a directory of their own, from one tree. User and host in the kernel's banner are fixed,
//! so that a kernel does not depend on the account of its builder.
//!
//! Cost: none. Rejected: further architectures, until the glue has one.

use std::fmt;
use std::path::Path;
use std::process::Command;

/// What a kernel runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Arch {
    /// User-Mode Linux: the kernel is a process of the host, with one CPU.
    Um,
    /// A PC with several CPUs, which QEMU plays.
    #[value(name = "x86_64")]
    X86_64,
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Arch::Um => "um",
            Arch::X86_64 => "x86_64",
        })
    }
}

/// A call of make for a tree and an output directory, without a target.
pub(super) fn make(arch: Arch, tree: &Path, out: &Path) -> Command {
    let mut make = Command::new("make");
    make.arg("-C").arg(tree).arg(format!("O={}", out.display())).arg(format!("ARCH={arch}"));
    make.env("LC_ALL", "C").env("KBUILD_BUILD_USER", "framewright").env("KBUILD_BUILD_HOST", "framewright");
    make
}
