//! A process' cgroup and its ancestors, and which of them is nearest to its limit.

use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use super::text::{CgroupError, Mount, Paths, keyed, limit, number};

/// The cgroup of this process, found again at each look.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cgroup {
    root: PathBuf,
}

/// Memory of a cgroup: of the one with the least memory left, among the process' own and its ancestors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryUsage {
    /// The lowest limit in bytes; none if no level has one.
    pub limit: Option<u64>,
    /// Bytes in use, without file pages that the kernel drops first.
    pub used: u64,
    /// How often a limit was met, at all levels together.
    pub events: u64,
}

impl MemoryUsage {
    /// Returns the bytes below the limit; none without a limit.
    pub fn headroom(&self) -> Option<u64> {
        self.limit.map(|limit| limit.saturating_sub(self.used))
    }
}

impl Cgroup {
    /// The process' cgroup as the kernel shows it.
    pub fn of_process() -> Cgroup {
        Cgroup::in_tree("/")
    }

    /// The process' cgroup with files below `root` instead of `/`: for tests, and for a file system mounted elsewhere.
    pub fn in_tree(root: impl Into<PathBuf>) -> Cgroup {
        Cgroup { root: root.into() }
    }

    /// Reads limits and usage; none where the process sees no cgroup with a memory controller.
    ///
    /// # Errors
    /// A file cannot be read, or has another form than the kernel's.
    pub fn look(&self) -> Result<Option<MemoryUsage>, CgroupError> {
        let mut tightest: Option<MemoryUsage> = None;
        let mut events = 0_u64;
        for (is_unified, directory) in self.levels()? {
            let Some(usage) = usage_of(is_unified, &directory)? else { continue };
            events = events.saturating_add(usage.events);
            let left = |usage: &MemoryUsage| usage.headroom().unwrap_or(u64::MAX);
            tightest = Some(tightest.filter(|tightest| left(tightest) <= left(&usage)).unwrap_or(usage));
        }
        Ok(tightest.map(|usage| MemoryUsage { events, ..usage }))
    }

    /// Directories of the cgroup and its ancestors up to the mount point, each with its version.
    fn levels(&self) -> Result<Vec<(bool, PathBuf)>, CgroupError> {
        let Some(paths) = read(&self.root.join("proc/self/cgroup"), Paths::parse)? else { return Ok(Vec::new()) };
        let mounts = read(&self.root.join("proc/self/mountinfo"), Mount::parse)?.unwrap_or_default();
        // Version 1 has the controller where it names it.
        for (is_unified, path) in [(false, paths.memory), (true, paths.unified)] {
            let Some(path) = path else { continue };
            let there = || mounts.iter().filter(|mount| mount.is_unified == is_unified);
            let around = there().find(|mount| path.starts_with(&mount.root));
            let Some(mount) = around.or_else(|| there().next()) else { continue };
            let point = self.root.join(mount.point.strip_prefix("/").unwrap_or(&mount.point));
            // A path from outside of the mounted part: the mounted part is all that can be seen.
            let inside = path.strip_prefix(&mount.root).ok();
            let inside = inside.filter(|path| path.components().all(|part| matches!(part, Component::Normal(_))));
            let directories = inside.unwrap_or(Path::new("")).ancestors();
            return Ok(directories.map(|directory| (is_unified, point.join(directory))).collect());
        }
        Ok(Vec::new())
    }
}

/// The memory of one level; none if it has no such files, as a root has none.
fn usage_of(is_unified: bool, directory: &Path) -> Result<Option<MemoryUsage>, CgroupError> {
    let (current, cache) = match is_unified {
        true => ("memory.current", "inactive_file"),
        false => ("memory.usage_in_bytes", "total_inactive_file"),
    };
    let Some(current) = read(&directory.join(current), number)? else { return Ok(None) };
    let stat = read(&directory.join("memory.stat"), |text| keyed(text, [cache]))?;
    let used = current.saturating_sub(stat.map_or(0, |[cache]| cache));
    let limit_in = |file: &str| Ok(read(&directory.join(file), limit)?.flatten());
    if !is_unified {
        let events = read(&directory.join("memory.failcnt"), number)?.unwrap_or(0);
        return Ok(Some(MemoryUsage { limit: limit_in("memory.limit_in_bytes")?, used, events }));
    }
    let limits = [limit_in("memory.max")?, limit_in("memory.high")?];
    let events = read(&directory.join("memory.events"), |text| keyed(text, ["high", "max"]))?;
    let events = events.map_or(0, |[high, max]| high.saturating_add(max));
    Ok(Some(MemoryUsage { limit: limits.into_iter().flatten().min(), used, events }))
}

/// Reads a file; none if there is no such file.
fn read<T>(file: &Path, parse: impl Fn(&[u8]) -> Result<T, CgroupError>) -> Result<Option<T>, CgroupError> {
    let text = match fs::read(file) {
        Ok(text) => text,
        // A cgroup that was removed meanwhile has no device.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return Ok(None),
        Err(error) => return Err(CgroupError { file: file.into(), line: 0, reason: error.to_string() }),
    };
    parse(&text).map(Some).map_err(|error| CgroupError { file: file.into(), ..error })
}
