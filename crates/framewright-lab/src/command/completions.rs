//! `framewright completions`: a shell's script that completes the command, from the definitions that parse it.

use clap::builder::{PossibleValuesParser, ValueParser};
use clap::{Arg, Args, Command};
use clap_complete::{Shell, generate};
use framewright::mechanisms::PRESETS;
use framewright_sim::machine;
use framewright_sim::workload::Workload;

use super::output::print;
use super::sim::CHECKER;

/// Print what makes a shell complete this command's arguments.
#[derive(Args)]
#[command(after_help = "Examples:
  framewright completions bash > ~/.local/share/bash-completion/completions/framewright
      for bash, from the next shell on
  framewright completions zsh > ~/.zfunc/_framewright
      for zsh, with fpath+=~/.zfunc before compinit in ~/.zshrc
  framewright completions fish > ~/.config/fish/completions/framewright.fish
      for fish")]
pub(crate) struct Completions {
    /// Whose.
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    /// Prints the script for `program`.
    pub(crate) fn run(&self, program: Command) -> anyhow::Result<()> {
        let mut script = Vec::new();
        generate(self.shell, &mut with_names(program), "framewright", &mut script);
        print(&String::from_utf8(script)?)
    }
}

/// Returns a command whose options list the machines, workloads and presets that there are.
///
/// Scripts alone are made of it. The command that parses takes other values too: files, and switches of mechanisms.
fn with_names(command: Command) -> Command {
    let checker = (command.get_name() == "sim").then_some(CHECKER);
    command.mut_args(|arg| named(arg, checker)).mut_subcommands(with_names)
}

/// Returns an argument with the names that it may have; one that takes no such name stays as it is.
///
/// `checker` is the workload that one command has besides.
fn named(arg: Arg, checker: Option<&'static str>) -> Arg {
    let listed =
        |arg: Arg, names: Vec<&'static str>| arg.value_parser(ValueParser::new(PossibleValuesParser::new(names)));
    match arg.get_id().as_str() {
        "machine" => listed(arg, machine::names().collect()),
        "workload" => listed(arg, Workload::names().chain(checker).collect()),
        "mechanisms" | "right_under" => listed(arg, PRESETS.iter().map(|(name, _)| *name).collect()),
        _ => arg,
    }
}
