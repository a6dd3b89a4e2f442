//! Counting instructions: a program that runs itself under callgrind, once for each caller, call and part of a call.

use std::process::{Command, ExitCode};

/// A program that counts.
pub(crate) struct Counting {
    pub(crate) name: &'static str,
    /// Callers and calls, as the usage shows them.
    pub(crate) usage: &'static str,
    /// Blocks that are counted in each run.
    pub(crate) blocks: usize,
}

impl Counting {
    /// Does the work of one caller if the arguments name it; otherwise prints the table.
    pub(crate) fn main(
        &self,
        table: impl FnOnce(&Counting) -> Result<(), String>,
        run: impl FnOnce(&str, &str) -> Option<()>,
    ) -> ExitCode {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let done = match words.as_slice() {
            [] => table(self),
            [caller, call] => run(caller, call).ok_or_else(|| self.told()),
            _ => Err(self.told()),
        };
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(reason) => {
                eprintln!("{}: {reason}", self.name);
                ExitCode::FAILURE
            }
        }
    }

    fn told(&self) -> String {
        format!("usage: {} [{}]", self.name, self.usage)
    }

    /// Counts the instructions for a block, for each caller.
    pub(crate) fn counts<const N: usize>(
        &self,
        callers: [&str; N],
        call: &str,
        what: &str,
    ) -> Result<[f64; N], String> {
        let mut counts = [0.0; N];
        for (counted, caller) in counts.iter_mut().zip(callers) {
            *counted = self.count(caller, call, what)?;
        }
        Ok(counts)
    }

    /// Counts what the functions do whose name has `counted_` and then `what`.
    fn count(&self, caller: &str, call: &str, what: &str) -> Result<f64, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
        valgrind.arg(format!("--toggle-collect=*counted_{what}*")).arg(program).args([caller, call]);
        let output = valgrind.output().map_err(|error| format!("valgrind: {error}"))?;
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        let collected = log.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse::<f64>().ok());
        match collected {
            Some(collected) if output.status.success() => Ok(collected / self.blocks as f64),
            _ => Err(format!("valgrind: {log}")),
        }
    }
}
