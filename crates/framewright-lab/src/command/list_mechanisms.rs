//! `framewright mechanisms`: the presets and switches with their choices.

use clap::Args;
use framewright_lab::mechanisms::catalogue::Catalogue;

use super::output::{Format, print_as};

/// List all presets and switches of mechanisms, and say what each choice does.
#[derive(Args)]
#[command(after_help = "Examples:
  framewright mechanisms
      all presets and switches
  framewright mechanisms refill free-path
      what these two choose between
  framewright mechanisms patch9 default
      what these sets are, and what they choose other than Linux before them

Other commands take presets and switches with -m: framewright sim -m baseline,refill=cluster --cpus 56")]
pub(crate) struct ListMechanisms {
    /// Only these presets and switches.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Form of the output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

impl ListMechanisms {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let catalogue = Catalogue::of(&self.names)?;
        print_as(self.format, &catalogue, &catalogue)
    }
}
