//! The command of the Linux port; `linux/run` starts it.
//!
//! It only parses the command line and prints an error; the library does the rest.
//! Cost: none. Rejected: logic here, where tests cannot call it.

use std::process::ExitCode;

use clap::Parser;
use framewright_linux_port::commands::Cli;

fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
