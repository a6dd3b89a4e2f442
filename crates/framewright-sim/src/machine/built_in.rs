//! The machines that are built in.

/// Most CPUs of a machine.
pub const MOST_CPUS: usize = 1024;

/// Machines that come with the program.
pub(super) const BUILT_IN: [(&str, &str); 12] = [
    ("skylake-2x28", include_str!("../../data/machines/skylake-2x28.toml")),
    ("broadwell-2x22", include_str!("../../data/machines/broadwell-2x22.toml")),
    ("haswell-2x18", include_str!("../../data/machines/haswell-2x18.toml")),
    ("ivybridge-ex-4x15", include_str!("../../data/machines/ivybridge-ex-4x15.toml")),
    ("cascadelake-2x20", include_str!("../../data/machines/cascadelake-2x20.toml")),
    ("zen1-2x32", include_str!("../../data/machines/zen1-2x32.toml")),
    ("sapphirerapids-2x48", include_str!("../../data/machines/sapphirerapids-2x48.toml")),
    ("zen4-2x96", include_str!("../../data/machines/zen4-2x96.toml")),
    ("graviton3-1x64", include_str!("../../data/machines/graviton3-1x64.toml")),
    ("skylake-desktop", include_str!("../../data/machines/skylake-desktop.toml")),
    ("this", include_str!("../../data/machines/this.toml")),
    (GENERIC, include_str!("../../data/machines/generic.toml")),
];

/// The machine whose sockets, cores and threads the user gives.
pub(super) const GENERIC: &str = "generic";

/// The machines that come with the program.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}
