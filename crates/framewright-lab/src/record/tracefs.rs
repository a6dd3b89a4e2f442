//! An instance of tracefs of our own: a buffer and switches that no other program uses, and that end with this one.
//!
//! Each setting is a file that takes a word. The instance is named by our process, so that a leftover of a killed
//! recorder can be told from an instance in use. It is removed when it is dropped, however the recording ended. An
//! instance with our own number is a leftover too: in a container every recorder may be process 1.
//!
//! *Page moves* have no tracepoint that says which pages, so a kprobe sits on the function that hands a page's identity
//! over. Its arguments are addresses of page descriptors, in a table whose start is randomised at boot. The probe reads
//! the start from the kernel's own variable along with them (`@vmemmap_base`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;

use super::error::RecordError;

/// Prefix of our instances' names; the number of the process follows.
const NAME: &str = "framewright-";
/// Prefix of our probes' groups; the number of the process follows.
const GROUP: &str = "framewright_";
/// The name of our probes in their groups.
const PROBE: &str = "page_migrate";
/// The file of all probes.
pub(super) const PROBES: &str = "kprobe_events";

/// An event that is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Its group and name.
    pub name: &'static str,
    /// The loss without it; empty if it is required.
    pub without: &'static str,
}

/// The events that are recorded, where the kernel has them.
pub const EVENTS: [Wanted; 7] = [
    Wanted { name: "kmem/mm_page_alloc", without: "" },
    Wanted { name: "kmem/mm_page_free", without: "" },
    Wanted { name: "kmem/mm_page_alloc_extfrag", without: "the kernel's fallbacks are not counted" },
    Wanted { name: "vmscan/mm_vmscan_direct_reclaim_begin", without: "what requests reclaimed is not told apart" },
    Wanted { name: "vmscan/mm_vmscan_direct_reclaim_end", without: "what requests reclaimed is not told apart" },
    Wanted { name: "task/task_newtask", without: "new tasks have no name" },
    Wanted { name: "task/task_rename", without: "programs have the name of who started them" },
];

/// How the allocator goes about it: recorded if asked for.
pub(crate) const INNER: [&str; 3] =
    ["kmem/mm_page_free_batched", "kmem/mm_page_pcpu_drain", "kmem/mm_page_alloc_zone_locked"];

/// Where tracefs is mounted, from the text of `/proc/mounts`.
pub fn find(mounts: &str) -> Option<PathBuf> {
    let mut mounted = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?)).filter(|&(_, kind)| kind == "tracefs")
    });
    mounted.next().map(|(place, _)| PathBuf::from(place.replace("\\040", " ")))
}

/// Instances whose process has ended. Called while this process has none.
pub fn left_over(tracefs: &Path) -> Vec<PathBuf> {
    let Ok(instances) = fs::read_dir(tracefs.join("instances")) else { return Vec::new() };
    let dead = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()?.strip_prefix(NAME));
        name.is_some_and(is_dead)
    };
    let mut found: Vec<PathBuf> = instances.flatten().map(|entry| entry.path()).filter(dead).collect();
    found.sort();
    found
}

/// Probes whose process has ended, as events. Called while this process has none. They outlive the instances in which
/// they were switched on.
pub(crate) fn left_over_probes(tracefs: &Path) -> Vec<String> {
    let probes = fs::read_to_string(tracefs.join(PROBES)).unwrap_or_default();
    let events = probes.lines().filter_map(|line| line.strip_prefix("p:")?.split(' ').next());
    let dead = events.filter(|event| {
        let pid = event.strip_prefix(GROUP).and_then(|rest| rest.strip_suffix(PROBE)?.strip_suffix('/'));
        pid.is_some_and(is_dead)
    });
    dead.map(str::to_owned).collect()
}

/// Whether this is the number of a process that is no more; ours is that of one that had it before us.
fn is_dead(pid: &str) -> bool {
    let gone = |number: u32| number == process::id() || !Path::new("/proc").join(pid).exists();
    pid.parse().is_ok_and(gone)
}

/// The definition of a probe for page moves, after its name.
///
/// # Errors
/// Why there can be none.
pub fn probe(tracefs: &Path) -> Result<String, &'static str> {
    if !tracefs.join(PROBES).exists() {
        return Err("this kernel has no kprobes");
    }
    let symbols = fs::read("/proc/kallsyms").map_err(|_| "/proc/kallsyms cannot be read")?;
    definition(&String::from_utf8_lossy(&symbols), cfg!(target_arch = "x86_64"))
}

/// The definition of a probe for page moves, from the text of `/proc/kallsyms`.
fn definition(symbols: &str, x86_64: bool) -> Result<String, &'static str> {
    if !x86_64 {
        return Err("where page descriptors are is only known for x86-64");
    }
    let has = |name: &str| symbols.lines().any(|line| line.split(' ').nth(2) == Some(name));
    // The second is the first's name before Linux 5.16.
    let function = ["folio_migrate_flags", "migrate_page_states"].into_iter().find(|name| has(name));
    let function = function.ok_or("the kernel cannot move pages")?;
    // A kernel that does not randomise has no variable for it.
    let base = if has("vmemmap_base") { "@vmemmap_base" } else { "\\0xffffea0000000000" };
    Ok(format!("{function} new=%di:x64 old=%si:x64 base={base}:x64"))
}

/// An instance of our own.
pub struct Instance {
    tracefs: PathBuf,
    path: PathBuf,
    /// The group of our probe, if there is one.
    probe: Option<String>,
    removed: bool,
}

impl Instance {
    /// Makes an instance with so much memory for each CPU, and removes those of recorders that are no more, and their
    /// probes. Nothing is recorded yet.
    ///
    /// # Errors
    /// It cannot be made, or not with so much memory.
    #[allow(clippy::disallowed_methods, reason = "a folder of tracefs, where nobody makes links")]
    pub fn create(tracefs: &Path, buffer_kib: u64) -> Result<Instance, RecordError> {
        let path = tracefs.join("instances").join(format!("{NAME}{}", process::id()));
        for left in left_over(tracefs) {
            match fs::remove_dir(&left) {
                Err(error) if left == path => return Err(RecordError::at("remove", &path, error)),
                // Another program may still be reading it.
                _ => {}
            }
        }
        for event in left_over_probes(tracefs) {
            let _ = append(&tracefs.join(PROBES), &format!("-:{event}"));
        }
        fs::create_dir(&path).map_err(|error| RecordError::at("make", &path, error))?;
        let instance = Instance { tracefs: tracefs.to_owned(), path, probe: None, removed: false };
        instance.write("tracing_on", "0")?;
        instance.write("trace_clock", "mono")?;
        instance.write("buffer_size_kb", &buffer_kib.to_string())?;
        Ok(instance)
    }

    /// Sets a probe on page moves.
    ///
    /// # Errors
    /// The kernel refused it, and why.
    pub(crate) fn set_probe(&mut self) -> Result<(), String> {
        let definition = probe(&self.tracefs)?;
        let group = format!("{GROUP}{}", process::id());
        let file = self.tracefs.join(PROBES);
        append(&file, &format!("p:{group}/{PROBE} {definition}")).map_err(|error| error.to_string())?;
        self.probe = Some(group);
        Ok(())
    }

    /// Switches an event on and returns its description; none if the kernel does not have it.
    ///
    /// # Errors
    /// It is there and cannot be switched on.
    pub fn enable(&self, event: &str) -> Result<Option<String>, RecordError> {
        let folder = Path::new("events").join(event);
        if !self.path.join(&folder).exists() {
            return Ok(None);
        }
        let format = self.read(&folder.join("format").to_string_lossy())?;
        self.write(&folder.join("enable").to_string_lossy(), "1")?;
        Ok(Some(format))
    }

    /// The name of our probe, as an event.
    pub(crate) fn probe_event(&self) -> Option<String> {
        self.probe.as_ref().map(|group| format!("{group}/{PROBE}"))
    }

    /// Starts or stops recording.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn switch(&self, on: bool) -> Result<(), RecordError> {
        self.write("tracing_on", if on { "1" } else { "0" })
    }

    /// The buffers' numbers of CPUs, with their folders.
    ///
    /// # Errors
    /// The CPUs' files cannot be listed.
    pub fn cpus(&self) -> Result<Vec<(u16, PathBuf)>, RecordError> {
        let folder = self.path.join("per_cpu");
        let entries = fs::read_dir(&folder).map_err(|error| RecordError::at("list", &folder, error))?;
        let numbered = entries.flatten().filter_map(|entry| {
            let number = entry.file_name().to_str()?.strip_prefix("cpu")?.parse().ok()?;
            Some((number, entry.path()))
        });
        let mut cpus: Vec<(u16, PathBuf)> = numbered.collect();
        cpus.sort();
        Ok(cpus)
    }

    /// Bytes of a page of the buffers, if the kernel says.
    pub fn page_size(&self) -> Option<usize> {
        let kib: usize = self.read("buffer_subbuf_size_kb").ok()?.trim().parse().ok()?;
        Some(kib << 10)
    }

    /// Events that the kernel counted as lost, over all CPUs.
    pub fn lost(&self) -> u64 {
        let stats = self.cpus().unwrap_or_default().into_iter();
        stats.map(|(_, folder)| lost_in(&fs::read_to_string(folder.join("stats")).unwrap_or_default())).sum()
    }

    /// The text of a file of the instance, as `events/header_page`.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(&self, file: &str) -> Result<String, RecordError> {
        let path = self.path.join(file);
        read_at_once(&path).map_err(|error| RecordError::at("read", &path, error))
    }

    #[allow(clippy::disallowed_methods, reason = "a file of tracefs, where nobody makes links")]
    fn write(&self, file: &str, text: &str) -> Result<(), RecordError> {
        let path = self.path.join(file);
        fs::write(&path, text).map_err(|error| RecordError::at("write to", &path, error))
    }

    /// Removes it and its probe. All readers of its buffers must have closed them. Returns the files that could not be
    /// removed.
    pub fn remove(mut self) -> Vec<RecordError> {
        self.clear()
    }

    /// Removes what is not removed yet.
    fn clear(&mut self) -> Vec<RecordError> {
        let mut failed = Vec::new();
        if !self.removed {
            // Removing the folder would do; a probe must be off before it can go.
            let _ = self.write("tracing_on", "0");
            let _ = self.write("events/enable", "0");
            match fs::remove_dir(&self.path) {
                Ok(()) => self.removed = true,
                Err(error) => failed.push(RecordError::at("remove", &self.path, error)),
            }
        }
        if let Some(group) = self.probe.clone() {
            let file = self.tracefs.join(PROBES);
            match append(&file, &format!("-:{group}/{PROBE}")) {
                Ok(()) => self.probe = None,
                Err(error) => failed.push(RecordError::at("remove our probe from", &file, error)),
            }
        }
        failed
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // There is no caller left to tell; `framewright doctor` names the leftovers.
        let _ = self.clear();
    }
}

/// The text of a file. `header_page` answers the first call only, so that call must not ask for only a few bytes.
fn read_at_once(path: &Path) -> io::Result<String> {
    let mut file = fs::File::open(path)?;
    let mut text = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        match io::Read::read(&mut file, &mut buffer)? {
            0 => return Ok(String::from_utf8_lossy(&text).into_owned()),
            bytes => text.extend_from_slice(&buffer[..bytes]),
        }
    }
}

/// Appends: overwriting would remove the probes of all programs.
#[allow(clippy::disallowed_methods, reason = "a file of tracefs, where nobody makes links")]
fn append(path: &Path, line: &str) -> io::Result<()> {
    io::Write::write_all(&mut fs::OpenOptions::new().append(true).open(path)?, line.as_bytes())
}

/// Lost events in the text of a buffer's `stats`.
fn lost_in(stats: &str) -> u64 {
    let counts = ["overrun", "commit overrun", "dropped events"];
    let lost = stats.lines().filter_map(|line| line.split_once(':')).filter(|(name, _)| counts.contains(name));
    lost.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracefs_is_found_where_it_is_mounted() {
        let table = [
            ("proc /proc proc rw 0 0\nnodev /sys/kernel/tracing tracefs rw 0 0\n", Some("/sys/kernel/tracing")),
            ("tracefs /mnt/my\\040traces tracefs rw 0 0\n", Some("/mnt/my traces")),
            ("tracefs /tracefs ext4 rw 0 0\n", None),
            ("", None),
        ];
        for (mounts, place) in table {
            assert_eq!(find(mounts), place.map(PathBuf::from), "{mounts}");
        }
    }

    #[test]
    fn probes_fit_the_kernel() {
        let table = [
            (
                "ffff1 T folio_migrate_flags\nffff2 D vmemmap_base\n",
                true,
                Ok("folio_migrate_flags new=%di:x64 old=%si:x64 base=@vmemmap_base:x64"),
            ),
            (
                "0 T migrate_page_states\n0 t folio_migrate_flags.cold\n",
                true,
                Ok("migrate_page_states new=%di:x64 old=%si:x64 base=\\0xffffea0000000000:x64"),
            ),
            ("ffff2 D vmemmap_base\n", true, Err("the kernel cannot move pages")),
            ("ffff1 T folio_migrate_flags\n", false, Err("where page descriptors are is only known for x86-64")),
        ];
        for (symbols, x86_64, expected) in table {
            assert_eq!(definition(symbols, x86_64).as_deref().map_err(|why| *why), expected, "{symbols}");
        }
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(probe(folder.path()), Err("this kernel has no kprobes"));
    }

    #[test]
    fn losses_are_added_up() {
        let stats = "entries: 12\noverrun: 3\ncommit overrun: 4\nbytes: 900\ndropped events: 5\nread events: 77\n";
        assert_eq!((lost_in(stats), lost_in("")), (12, 0));
    }

    #[test]
    fn only_instances_of_the_dead_and_our_own_are_left_over() {
        let folder = tempfile::tempdir().unwrap();
        let own = format!("{NAME}{}", process::id());
        for name in [own.as_str(), "framewright-4294967295", "framewright-x", "somebody"] {
            fs::create_dir_all(folder.path().join("instances").join(name)).unwrap();
        }
        let mut expected = ["framewright-4294967295", &own].map(|name| folder.path().join("instances").join(name));
        expected.sort();
        assert_eq!(left_over(folder.path()), expected);
        assert_eq!(left_over(Path::new("/nowhere")), [] as [PathBuf; 0]);
    }

    #[test]
    fn only_probes_of_the_dead_and_our_own_are_left_over() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(left_over_probes(folder.path()), [""; 0]);
        // As Linux 6.1 lists them.
        let line = |group: &str| {
            format!("p:{group}/page_migrate folio_migrate_flags new=%di:x64 old=%si:x64 base=@vmemmap_base:x64\n")
        };
        let own = format!("{GROUP}{}", process::id());
        let groups = [own.as_str(), "framewright_4294967295", "framewright_x", "framewright_1", "somebody"];
        let probes: String = groups.into_iter().map(line).collect();
        fs::write(folder.path().join(PROBES), probes + "r8:framewright_4294967295/other vfs_read\n").unwrap();
        let expected = [format!("{own}/page_migrate"), "framewright_4294967295/page_migrate".to_owned()];
        assert_eq!(left_over_probes(folder.path()), expected);
    }

    #[test]
    fn what_the_dead_left_behind_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let dead = folder.path().join("instances/framewright-4294967295");
        fs::create_dir_all(&dead).unwrap();
        let probe = "p:framewright_4294967295/page_migrate folio_migrate_flags\n";
        fs::write(folder.path().join(PROBES), probe).unwrap();
        let mut instance = Instance::create(folder.path(), 64).unwrap();
        assert!(!dead.exists());
        let written = fs::read_to_string(folder.path().join(PROBES)).unwrap();
        assert_eq!(written, format!("{probe}-:framewright_4294967295/page_migrate"));
        assert_eq!(instance.clear().len(), 1, "a folder with files in it, which those of tracefs are not");
        instance.removed = true;
    }

    #[test]
    fn our_own_name_is_free_or_named() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join(format!("instances/{NAME}{}", process::id()));
        fs::create_dir_all(&own).unwrap();
        Instance::create(folder.path(), 64).unwrap().removed = true;
        let error = Instance::create(folder.path(), 64).err().unwrap().to_string();
        assert!(error.starts_with(&format!("cannot remove {}: ", own.display())), "{error}");
    }

    #[test]
    fn everything_that_stays_behind_is_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("instances")).unwrap();
        let mut instance = Instance::create(folder.path(), 64).unwrap();
        instance.probe = Some("framewright_1".to_owned());
        let path = instance.path.clone();
        let failed: Vec<String> = instance.remove().iter().map(ToString::to_string).collect();
        assert_eq!(failed.len(), 2, "{failed:?}");
        assert!(failed[0].starts_with(&format!("cannot remove {}: ", path.display())), "{failed:?}");
        let probes = folder.path().join(PROBES);
        assert!(failed[1].starts_with(&format!("cannot remove our probe from {}: ", probes.display())), "{failed:?}");
    }
}
