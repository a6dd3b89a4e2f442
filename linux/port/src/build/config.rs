//! Configures a kernel by fragments of linux/config/.
//!
//! The idea: `make allnoconfig` answers every question with no, except those that a file answers. The file is the
//! architecture's fragment and, with `--debug`, that of checks. The result is small, builds fast, and depends on no
//! file of the host. A release may not know a symbol, or an architecture may not offer it. Such symbols are reported,
//! not refused, so that one fragment serves several releases.
//!
//! Cost: three seconds. Rejected: `defconfig`, which builds a thousand drivers that no guest here has.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::arch::{Arch, make};
use crate::places;
use crate::process;

/// The answers for an architecture.
pub(super) fn fragments(arch: Arch, debug: bool) -> Result<String> {
    let names = [Some(arch.to_string()), debug.then(|| "debug".to_owned())];
    let mut text = String::new();
    for name in names.into_iter().flatten() {
        let path = places::port().join(format!("config/{name}.config"));
        text += &fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    }
    Ok(text)
}

/// Writes `.config` to `out` and returns a note about the answers that were not taken.
pub(super) fn configure(arch: Arch, fragments: &str, tree: &Path, out: &Path, log: &Path) -> Result<Vec<String>> {
    let answers = out.join("answers.config");
    fs::write(&answers, fragments).with_context(|| format!("cannot write {}", answers.display()))?;
    let mut command = make(arch, tree, out);
    command.arg("allnoconfig").env("KCONFIG_ALLCONFIG", &answers);
    process::logged(&mut command, "configuring", log)?;
    let path = out.join(".config");
    let config = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let lost = not_taken(fragments, &config);
    Ok(match lost.is_empty() {
        true => Vec::new(),
        false => vec![format!("this kernel does not take: {}", lost.join(" "))],
    })
}

/// The answers of the fragments that the configuration does not have; an answer no needs no line.
fn not_taken<'a>(fragments: &'a str, config: &str) -> Vec<&'a str> {
    let is_answer = |line: &&str| line.starts_with("CONFIG_") && !line.ends_with("=n");
    fragments.lines().filter(is_answer).filter(|answer| !config.lines().any(|line| line == *answer)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_are_not_taken_are_found() {
        let fragments = "# text\nCONFIG_A=y\nCONFIG_B=n\nCONFIG_C=16\nCONFIG_D=y\n";
        assert_eq!(
            not_taken(fragments, "CONFIG_A=y\nCONFIG_C=32\n# CONFIG_D is not set\n"),
            ["CONFIG_C=16", "CONFIG_D=y"]
        );
    }
}
