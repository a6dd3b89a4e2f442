//! `framewright completions`: a shell's script that completes the command, from the definitions that parse it.

use clap::{Args, Command};
use clap_complete::{Shell, generate};

use super::output::print_as_it_is;

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
    pub(crate) fn run(&self, mut program: Command) -> anyhow::Result<()> {
        let mut script = Vec::new();
        generate(self.shell, &mut program, "framewright", &mut script);
        print_as_it_is(&String::from_utf8(script)?)
    }
}
