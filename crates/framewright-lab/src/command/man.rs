//! `framewright man`: a manual page for each command, from the very definitions that parse it.
//!
//! clap_mangen would fill the lines of examples into a paragraph, so they are put into sections of their own: EXAMPLES
//! as in the help, and NOTES for the other text after the options.

use std::io;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Command};
use clap_mangen::Man as Page;
use clap_mangen::roff::{Roff, roman};
use framewright_trace::output::{Access, Folder};

use super::file;
use super::output::print;

/// Write manual pages, one for each command.
#[derive(Args)]
#[command(after_help = "Examples:
  framewright man -o ~/.local/share/man/man1
      where man finds them: man framewright-sim
  framewright man -o pages
      into a folder of this project: man -l pages/framewright-sim.1")]
pub(crate) struct Man {
    /// The folder; it is made if it does not exist, and pages in it are replaced.
    #[arg(long, short, value_name = "DIR")]
    out: PathBuf,
}

impl Man {
    /// Writes the pages of `program` and of all of its commands.
    pub(crate) fn run(&self, program: Command) -> anyhow::Result<()> {
        let mut command = program.disable_help_subcommand(true);
        command.build();
        let mut all = Vec::new();
        pages(&command, "framewright".to_owned(), &mut all)?;
        Folder::make(&self.out, Access::Shared)
            .with_context(|| format!("cannot make the folder {}; name another with -o", self.out.display()))?;
        for (name, page) in &all {
            let path = self.out.join(name);
            file::write(&path, |out| out.write_all(page))?;
        }
        print(&format!("{} pages in {}; man -l shows one\n", all.len(), self.out.display()))
    }
}

/// Pages of a command and of all below it, with their files' names.
fn pages(command: &Command, name: String, all: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        pages(below, format!("{name}-{}", below.get_name()), all)?;
    }
    all.push((format!("{name}.1"), page(command)?));
    Ok(())
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let (mut text, page) = (Vec::new(), Page::new(command.clone()).manual("Framewright"));
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    let usage = command.clone().render_usage().to_string();
    let usage: Vec<&str> = usage.lines().map(|line| line.trim_start_matches("Usage:").trim()).collect();
    section("SYNOPSIS", &usage, &mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    let behind = command.get_after_long_help().or(command.get_after_help());
    let behind = behind.map(ToString::to_string).unwrap_or_default();
    let (mut examples, mut notes, mut is_example) = (Vec::new(), Vec::new(), false);
    for line in behind.lines() {
        is_example = line == "Examples:" || is_example && line.starts_with(' ');
        match is_example {
            true if line != "Examples:" => examples.push(line),
            false => notes.push(line),
            true => {}
        }
    }
    section("EXAMPLES", &examples, &mut text)?;
    section("NOTES", &notes, &mut text)?;
    page.render_version_section(&mut text)?;
    Ok(text)
}

/// A section whose lines stay as they are.
fn section(title: &str, lines: &[&str], text: &mut Vec<u8>) -> io::Result<()> {
    if lines.iter().all(|line| line.trim().is_empty()) {
        return Ok(());
    }
    let mut roff = Roff::new();
    roff.control("SH", [title]);
    roff.control("nf", []);
    for line in lines {
        roff.text([roman(*line)]);
    }
    roff.control("fi", []);
    roff.to_writer(text)
}
