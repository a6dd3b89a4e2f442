//! Builds a kernel: copies and edits the tree, configures and compiles.
//!
//! The idea: everything that the kernel depends on goes into one key. If the key of the last build is the same, nothing
//! is done. Otherwise the steps below bring the copy up to date, and make compiles what changed.
//!
//! | step | file | work directory |
//! |---|---|---|
//! | find the places of all edits in the untouched tree | `edit` | |
//! | make the object of Rust | `glue.rs` | `glue/` |
//! | copy the tree; write edited files that differ, restore those without an edit | `tree.rs` | `trees/NAME` |
//! | write the configuration | `config.rs` | `build/NAME-ARCH/.config` |
//! | compile | here | `build/NAME-ARCH/` |
//!
//! Copies of Debian's trees are hard links, which take no space; edited files are replaced, never written in place.
//! A stock tree and an edited one are different copies, so that both kernels can be kept.
//!
//! Cost: two to four minutes of two CPUs for a first build, seconds for a change of one file, none for none.
//!
//! Rejected: building in the tree, which takes a copy for each architecture.

mod tree;
mod config;
mod host;
mod arch;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

pub use arch::Arch;
use arch::make;

use crate::edit::{EditList, Ours, Plan};
use crate::glue;
use crate::places;
use crate::process;
use crate::source::Source;
use crate::tools::{self, Step};

/// Which kernel to build.
#[derive(Clone, Debug)]
pub struct Request {
    /// The untouched tree.
    pub source: Source,
    /// What it runs on.
    pub arch: Arch,
    /// Whether the kernel checks itself.
    pub debug: bool,
    /// Whether the tree stays without Framewright.
    pub stock: bool,
    /// The list of edits.
    pub edits: PathBuf,
    /// An object of Rust to link instead of the glue's.
    pub object: Option<PathBuf>,
    /// The work directory.
    pub work: PathBuf,
}

/// A kernel that is built.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The file that boots.
    pub image: PathBuf,
    /// Lines about the build, for the user.
    pub notes: Vec<String>,
    /// Whether anything had to be done.
    pub is_new: bool,
}

impl Request {
    /// Builds the kernel, unless it is built.
    ///
    /// # Errors
    ///
    /// A program is missing, an edit finds no place, or a step fails; failures of make have the log's end.
    pub fn build(&self) -> Result<Kernel> {
        tools::check(&[Step::Build])?;
        // Two builds at once would write to one tree. The lock ends with this file, whatever happens.
        let path = self.work.join("build.lock");
        let lock = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        lock.lock().with_context(|| format!("cannot lock {}", path.display()))?;
        let plan = self.plan()?;
        let ours = self.ours()?;
        let fragments = config::fragments(self.arch, self.debug)?;
        let key = self.key(plan.as_ref(), &ours, &fragments)?;
        let kind = if self.stock { "stock" } else { "framewright" };
        let suffix = if self.debug { "-debug" } else { "" };
        let out = self.work.join(format!("build/{}-{kind}-{}{suffix}", self.source.name, self.arch));
        let image = match self.arch {
            Arch::Um => out.join("linux"),
            Arch::X86_64 => out.join("arch/x86/boot/bzImage"),
        };
        let stamp = out.join(".framewright-key");
        if image.exists() && fs::read_to_string(&stamp).is_ok_and(|old| old == key) {
            return Ok(Kernel { image, notes: vec!["up to date".to_owned()], is_new: false });
        }
        let tree = self.work.join(format!("trees/{}-{kind}", self.source.name));
        tree::bring_up_to_date(&self.source, &tree, plan.as_ref(), &ours)?;
        fs::create_dir_all(&out).with_context(|| format!("cannot create {}", out.display()))?;
        if stamp.exists() {
            fs::remove_file(&stamp)?;
        }
        let log = out.join("build.log");
        fs::write(&log, "").with_context(|| format!("cannot write {}", log.display()))?;
        let mut notes = config::configure(self.arch, &fragments, &tree, &out, &log)?;
        notes.extend(self.compile(plan.as_ref(), &tree, &out, &log)?);
        fs::write(&stamp, key)?;
        Ok(Kernel { image, notes, is_new: true })
    }

    /// The places of all edits; `None` for a stock kernel.
    fn plan(&self) -> Result<Option<Plan>> {
        if self.stock {
            return Ok(None);
        }
        Ok(Some(Plan::new(&EditList::read(&self.edits)?, &self.source.root)?))
    }

    /// Our files for the tree; none for a stock kernel.
    fn ours(&self) -> Result<Ours> {
        if self.stock {
            return Ok(Ours::default());
        }
        let object = match &self.object {
            Some(object) => Some(object.clone()),
            None if glue::exists() => Some(glue::object(&self.work.join("glue"))?),
            None => None,
        };
        Ok(Ours::of(&places::port().join("kernel"), object)?)
    }

    /// A digest of everything that the kernel depends on.
    fn key(&self, plan: Option<&Plan>, ours: &Ours, fragments: &str) -> Result<String> {
        let mut digest = Sha256::new();
        let mut add = |part: &[u8]| {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        };
        add(self.source.digest()?.as_bytes());
        add(fragments.as_bytes());
        add(self.arch.to_string().as_bytes());
        add(process::output(Command::new("gcc").arg("--version"))?.as_bytes());
        add(&host::state_size().unwrap_or_default().to_le_bytes());
        for change in plan.iter().flat_map(|plan| &plan.files) {
            add(change.file.as_bytes());
            add(change.text.as_bytes());
        }
        for (file, to) in &ours.0 {
            add(to.as_bytes());
            add(&fs::read(file).with_context(|| format!("cannot read {}", file.display()))?);
        }
        Ok(places::hex(&digest.finalize()))
    }

    /// Compiles the configured tree; returns the compiler's warnings about our files and the edited ones.
    fn compile(&self, plan: Option<&Plan>, tree: &Path, out: &Path, log: &Path) -> Result<Vec<String>> {
        let target = match self.arch {
            Arch::Um => "linux",
            Arch::X86_64 => "bzImage",
        };
        let jobs = thread::available_parallelism().map_or(1, |number| number.get());
        let mut make = make(self.arch, tree, out);
        make.arg(format!("-j{jobs}")).arg(target);
        let title = format!("building {} for {}", self.source.name, self.arch);
        let warnings = process::logged(&mut make, &title, log)?;
        let changed = plan.iter().flat_map(|plan| &plan.files).map(|change| change.file.as_str());
        let ours: Vec<&str> = changed.chain(["mm/framewright", "linux/framewright.h"]).collect();
        Ok(warnings.into_iter().filter(|line| ours.iter().any(|file| line.contains(file))).collect())
    }
}
