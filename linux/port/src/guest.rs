//! Makes the guest's root file system: busybox, the init script, the guest's programs, and a command.
//!
//! The idea: one archive of the format `newc` (cpio), which both architectures unpack into memory at boot. It is made
//! here, file by file, so that each boot can have a command of its own. The programs are compiled without libraries,
//! and again only when their source has changed.
//!
//! Programs of the host that a workload needs come with their libraries.
//!
//! Cost: 6 MB in the guest, a second to compile. Rejected: an image of a disk, which takes root to fill; the host's
//! directory (hostfs), which only User-Mode Linux has.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use crate::places;
use crate::process;
use crate::tools::{self, Step};

/// Programs of the guest, a C file each.
const PROGRAMS: &[&str] = &[
    "linux/guest/page_fault",
    "linux/guest/stress",
    "linux/guest/oom",
    "linux/guest/tmpfs",
    "linux/guest/numa",
    "linux/guest/hotplug",
    "linux/guest/contig",
    "linux/guest/poison",
    "linux/guest/split",
    "tools/linux_vm/faults",
];

/// Scripts that a command may read, which lie at the guest's root.
const SCRIPTS: &[&str] = &["linux/guest/bench.sh", "linux/guest/thpfioscale.sh", "tools/linux_vm/workload.sh"];

/// What a guest has besides busybox and the port's programs.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// What the guest runs; a shell without it.
    pub command: Option<String>,
    /// Programs of the host, by name or path, which lie in /bin.
    pub host_programs: Vec<PathBuf>,
}

/// Writes an archive with these contents to `directory`, and returns its path.
///
/// # Errors
///
/// Busybox, a program or the C compiler is missing, a program does not compile, or a file cannot be written.
pub fn archive(directory: &Path, contents: &Contents) -> Result<PathBuf> {
    tools::check(&[Step::Guest])?;
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let guest = places::port().join("guest");
    let mut cpio = Cpio::default();
    for folder in ["bin", "programs", "lib", "lib64"] {
        cpio.add(folder, 0o040_755, &[]);
    }
    cpio.add("bin/busybox", 0o100_755, &read(&in_path(Path::new("busybox"))?)?);
    cpio.add("init", 0o100_755, &read(&guest.join("init"))?);
    for script in SCRIPTS {
        let path = places::root().join(script);
        cpio.add(file_name(&path)?, 0o100_644, &read(&path)?);
    }
    cpio.add("programs/measure", 0o100_755, &read(&places::port().join("measure"))?);
    for (name, path) in programs(&guest, directory)? {
        cpio.add(&format!("programs/{name}"), 0o100_755, &read(&path)?);
    }
    let mut libraries = BTreeSet::new();
    for program in &contents.host_programs {
        let path = in_path(program)?;
        cpio.add(&format!("bin/{}", file_name(&path)?), 0o100_755, &read(&path)?);
        libraries.extend(libraries_of(&path)?);
    }
    for path in libraries {
        let folder = if path.starts_with("/lib64") { "lib64" } else { "lib" };
        cpio.add(&format!("{folder}/{}", file_name(&path)?), 0o100_755, &read(&path)?);
    }
    if let Some(command) = &contents.command {
        cpio.add("command", 0o100_644, format!("{command}\n").as_bytes());
    }
    let path = directory.join(format!("guest-{}.cpio", std::process::id()));
    fs::write(&path, cpio.finish()).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Compiles the programs that have changed; returns their names and paths.
fn programs(guest: &Path, directory: &Path) -> Result<Vec<(&'static str, PathBuf)>> {
    let header = read(&guest.join("guest.h"))?;
    PROGRAMS
        .iter()
        .map(|program| {
            let source = places::root().join(format!("{program}.c"));
            let name = program.rsplit('/').next().unwrap_or(program);
            let hash = places::hex(&Sha256::new().chain_update(&header).chain_update(read(&source)?).finalize());
            let path = directory.join(format!("{name}-{}", hash.get(..16).unwrap_or(&hash)));
            if !path.exists() {
                let mut compiler = Command::new("gcc");
                compiler.args(["-O2", "-static", "-Wall", "-Wextra", "-o"]).arg(&path).arg(&source);
                process::output(&mut compiler)?;
            }
            Ok((name, path))
        })
        .collect()
}

/// The path of a program of the host, which is searched for unless it is a path already.
fn in_path(program: &Path) -> Result<PathBuf> {
    if program.components().count() > 1 {
        return Ok(program.to_owned());
    }
    tools::find(program).with_context(|| format!("no program {} on this host", program.display()))
}

/// The libraries that a program of the host needs, with the loader.
fn libraries_of(program: &Path) -> Result<Vec<PathBuf>> {
    let listed = Command::new("ldd").arg(program).output().context("cannot start ldd")?;
    // For a program without libraries ldd fails, and says so on standard error.
    Ok(libraries_in(&String::from_utf8_lossy(&listed.stdout)))
}

/// The paths in the output of ldd: `name => path (address)` or `path (address)`.
fn libraries_in(listed: &str) -> Vec<PathBuf> {
    let path = |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from);
    listed.lines().filter_map(path).collect()
}

/// The last part of a path.
fn file_name(path: &Path) -> Result<&str> {
    path.file_name().and_then(|name| name.to_str()).with_context(|| format!("{} has no file name", path.display()))
}

/// The content of a file.
fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// An archive of the format `newc`.
#[derive(Default)]
struct Cpio {
    bytes: Vec<u8>,
    entries: u32,
}

impl Cpio {
    /// Adds a file or folder; `mode` has its kind and permissions.
    fn add(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let [links, size, name_size] = [1, content.len() as u32, name.len() as u32 + 1];
        // Magic; inode, mode, user, group, links, time, size; four numbers of devices; length of the name; a checksum.
        let fields = [self.entries, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name_size, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    /// Pads to a multiple of four bytes.
    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// Ends the archive.
    fn finish(mut self) -> Vec<u8> {
        self.add("TRAILER!!!", 0, &[]);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_paths() {
        let listed = "\tlinux-vdso.so.1 (0x7f)\n\tlibz.so.1 => /lib/x/libz.so.1 (0x7f)\n\t/lib64/ld.so.2 (0x7f)\n";
        assert_eq!(libraries_in(listed), [Path::new("/lib/x/libz.so.1"), Path::new("/lib64/ld.so.2")]);
        assert_eq!(libraries_in("\tnot a dynamic executable\n"), [] as [PathBuf; 0]);
    }

    #[test]
    fn archives_are_of_the_format_newc() {
        let mut cpio = Cpio::default();
        cpio.add("a", 0o100_644, b"hello");
        let bytes = cpio.finish();
        assert_eq!(bytes.len() % 4, 0);
        let text = String::from_utf8_lossy(&bytes).replace('\0', ".").replace("0707", "\n0707");
        let wanted = [
            "",
            "07070100000001000081A4000000000000000000000001000000000000000500000000000000000000000000000000",
            "07070100000002000000000000000000000000000000010000000000000000000000000000000000000000",
        ];
        for (line, beginning) in text.split('\n').zip(wanted) {
            assert!(line.starts_with(beginning), "{line}");
        }
        assert!(text.contains("0000000200000000a.hello...\n"), "{text}");
        assert!(text.ends_with("0000000B00000000TRAILER!!!...."), "{text}");
    }
}
