//! `linux/run boot`: boots a kernel, for a look or for one command.
//!
//! The idea: without `--command` the terminal is the guest's, and nothing is judged. With it, the guest runs the
//! command and ends; the console is shown and judged as for a workload.
//!
//! Cost: a second or two. Rejected: a network and ssh, which the small kernels do not have.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use super::options::KernelOptions;
use crate::console::{Run, new_log};
use crate::guest::{self, Contents};
use crate::machine::Machine;
use crate::process::shown;

/// Boot a kernel: a shell, or one command.
#[derive(Args, Debug)]
pub(super) struct BootKernel {
    #[command(flatten)]
    kernel: KernelOptions,
    #[command(flatten)]
    machine: Machine,
    /// Boot the kernel without Framewright
    #[arg(long, conflicts_with = "framewright")]
    stock: bool,
    /// Preset, with changes after commas; without it Framewright is off
    #[arg(long, value_name = "PRESET")]
    framewright: Option<String>,
    /// Run this in the guest's shell and end
    #[arg(long, value_name = "COMMAND")]
    command: Option<String>,
    /// Program of this host that the guest gets in /bin, with its libraries; may be repeated
    #[arg(long, value_name = "PROGRAM")]
    add: Vec<PathBuf>,
    /// Make this file the guest's disk, and keep it; what the guest writes with `tar -cf $disk FILES` comes out of it with
    /// `tar -xf FILE`
    #[arg(long, value_name = "FILE")]
    disk: Option<PathBuf>,
    /// Print the command that boots, and do not run it
    #[arg(long)]
    print: bool,
    /// Seconds after which a guest with a command is killed
    #[arg(long, default_value_t = 300, value_name = "S")]
    limit: u64,
    /// Text of a line that is allowed although it looks bad; may be repeated
    #[arg(long, value_name = "TEXT")]
    allow: Vec<String>,
    /// Further parameters of the kernel
    #[arg(last = true)]
    parameters: Vec<String>,
}

impl BootKernel {
    /// Boots the kernel.
    ///
    /// # Errors
    ///
    /// The kernel cannot be built or started, or the run of a command was not sound.
    pub(super) fn run(self) -> Result<()> {
        let kernel = self.kernel.build(self.stock)?;
        let work = self.kernel.work.directory()?;
        let contents = Contents { command: self.command.clone(), host_programs: self.add.clone() };
        let archive = guest::archive(&work.join("guest"), &contents)?;
        let log = new_log(&work.join("logs"), "boot")?;
        let disk = self.disk.clone().unwrap_or_else(|| log.with_extension("disk"));
        self.machine.disk(&disk)?;
        let mut parameters = self.parameters.clone();
        parameters.extend(self.framewright.iter().map(|preset| format!("framewright={preset}")));
        let mut command = self.machine.command(self.kernel.arch, &kernel.image, &archive, &disk, &parameters)?;
        if self.print {
            println!("{}", shown(&command));
            return Ok(());
        }
        if self.command.is_none() {
            // The guest's process replaces this one, so that the terminal's signals reach it.
            return Err(command.exec()).with_context(|| format!("cannot start {}", shown(&command)));
        }
        let limit = Duration::from_secs(self.limit);
        let run = Run { title: "booting", log, limit, allowed: &self.allow, echo: true };
        let outcome = run.run(&mut command);
        let temporary = [Some(archive), self.disk.is_none().then_some(disk)];
        for path in temporary.into_iter().flatten() {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
        outcome.map(drop)
    }
}
