//! What is run, and what comes of it.

use anyhow::Context;
use framewright_sim::machine::Spec;
use framewright_sim::thpfioscale::{Config, Load, Marks, Outcome, Shrinkers, Slabs, Thpfioscale, run};
use serde::Serialize;

use super::published::{EMULATED, FragmentationTables, KERNELS, REAL};
use crate::reproduce::runs::{Progress, each};

/// Name of the experiment, and of the table that machines' numbers are fitted to.
pub const NAME: &str = "fragmentation";
/// Our own mechanisms, which nobody published.
pub(crate) const OURS: &str = "default";
/// The configuration in which mechanisms are taken apart, rounds are repeated and pictures are taken.
pub const CLOSER: &str = "skylake-madvise";
/// Kernels that are run for several rounds.
pub(crate) const REPEATED: [&str; 3] = [KERNELS[0], KERNELS[3], OURS];
/// Mechanisms alone and together, and what each is: theirs, and ours. A stall waits for the boost, so there is none
/// without.
pub(crate) const ABLATION: [(&str, &str); 10] = [
    ("vanilla-4.20", "none"),
    ("lowzone", "lower zone first"),
    ("boost-as-mailed", "boost"),
    ("boost", "lower zone first, boost"),
    ("stall-as-mailed", "boost, stall"),
    ("stall", "all three"),
    ("vanilla-4.20,nofragment=enforced", "ours: mobilities kept apart by force"),
    ("vanilla-4.20,compaction=emptiest", "ours: the emptiest pageblock compacted"),
    ("vanilla-4.20,nofragment=enforced,compaction=emptiest", "ours: both"),
    (OURS, "ours: both, and our lists"),
];

/// Rows that were known when the workload's assumptions were chosen: a configuration and a kernel each
/// (`docs/lab/fragmentation.md`).
pub(crate) const RESTATED: [(&str, &str); 1] =
    [("the kernel around the allocator", "skylake-default vanilla-4.20, skylake-madvise vanilla-4.20")];

/// A machine of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    /// Its file.
    pub name: &'static str,
    /// Cores of a socket that are used.
    pub cores: u16,
}

/// A configuration of ours: a published one by its name, or one that was not published.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Name of the setting.
    pub name: &'static str,
    /// Which machine.
    pub machine: usize,
    /// How huge pages are asked for.
    pub asks: Config,
    /// Other load of the machine.
    pub load: Load,
    /// It stands beside the machine that was emulated, not beside a published one.
    pub emulated: bool,
}

/// The machines: 8 CPUs, and with 12 of 18 cores in each socket the 48 of the published one.
pub const MACHINES: [Machine; 2] =
    [Machine { name: "skylake-desktop", cores: 4 }, Machine { name: "haswell-2x18", cores: 12 }];
/// All configurations.
pub const SETTINGS: [Setting; 9] = [
    Setting { name: "skylake-default", machine: 0, asks: Config::Default, load: Load::Files, emulated: false },
    Setting { name: CLOSER, machine: 0, asks: Config::Madvise, load: Load::Files, emulated: false },
    Setting { name: "haswell-default", machine: 1, asks: Config::Default, load: Load::Files, emulated: false },
    Setting { name: "haswell-madvise", machine: 1, asks: Config::Madvise, load: Load::Files, emulated: false },
    Setting { name: "skylake-defrag", machine: 0, asks: Config::Defrag, load: Load::Files, emulated: false },
    Setting { name: "skylake-build", machine: 0, asks: Config::Madvise, load: Load::Build, emulated: false },
    Setting { name: "skylake-network", machine: 0, asks: Config::Madvise, load: Load::Network, emulated: false },
    Setting { name: "emulated-default", machine: 0, asks: Config::Default, load: Load::Files, emulated: true },
    Setting { name: "emulated-madvise", machine: 0, asks: Config::Madvise, load: Load::Files, emulated: true },
];

/// How much is run.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
pub struct FragmentationLengths {
    /// Memory of a socket, in MiB.
    pub mib: u32,
    /// How many of [`SETTINGS`], from the first on.
    pub settings: usize,
    /// Seeds of what was published.
    pub seeds: u64,
    /// Seeds of what was not.
    pub few: u64,
    /// Rounds of `REPEATED`.
    pub rounds: u32,
}

impl FragmentationLengths {
    /// Lengths of a run whose result may be quoted.
    pub const FULL: Self = Self { mib: 1024, settings: SETTINGS.len(), seeds: 10, few: 3, rounds: 15 };
    /// A first look.
    pub const QUICK: Self = Self { mib: 1024, settings: 1, seeds: 1, few: 0, rounds: 0 };

    /// Seeds of a configuration.
    fn seeds_of(&self, setting: &Setting, published: &FragmentationTables) -> u64 {
        if published.configs.iter().any(|config| config.name == setting.name) { self.seeds } else { self.few }
    }
}

/// Plan of the experiment's runs.
#[derive(Clone, Debug)]
pub struct FragmentationPlan<'a> {
    /// [`MACHINES`].
    pub machines: [&'a Spec; 2],
    /// The tables.
    pub published: &'a FragmentationTables,
    /// The first seed.
    pub seed: u64,
    /// How much.
    pub lengths: FragmentationLengths,
}

/// Purpose of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// The tables.
    Table,
    /// The effect of each mechanism alone.
    Ablation,
    /// The fate of huge pages over many rounds.
    Rounds,
}

/// One run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// Purpose of the run.
    pub part: Purpose,
    /// Which configuration.
    pub setting: Setting,
    /// Mechanisms.
    pub kernel: &'static str,
    /// Seed.
    pub seed: u64,
}

/// Outcomes of all runs.
#[derive(Clone, Debug)]
pub struct CaseRuns(pub Vec<(Case, Outcome)>);

impl CaseRuns {
    /// Runs of a kernel, by seed.
    pub fn of(&self, part: Purpose, config: &str, kernel: &str) -> Vec<&Outcome> {
        let is = |case: &Case| case.part == part && case.setting.name == config && case.kernel == kernel;
        self.0.iter().filter(|(case, _)| is(case)).map(|(_, outcome)| outcome).collect()
    }
}

impl FragmentationPlan<'_> {
    /// Runs all of it.
    ///
    /// # Errors
    /// The first run that failed, and which it was.
    pub fn run(&self, progress: Progress<'_>) -> anyhow::Result<CaseRuns> {
        let cases = self.cases();
        let named: Vec<(String, u64)> = cases.iter().map(|case| (case.to_string(), self.weight(case))).collect();
        let total = named.iter().map(|(_, weight)| weight).sum();
        let outcomes = each(
            &named,
            |number, advance| {
                let outcome = self.simulate(&cases[number])?;
                advance(1.0);
                Ok(outcome)
            },
            &mut |now| progress(now, total),
        )?;
        Ok(CaseRuns(cases.into_iter().zip(outcomes).collect()))
    }

    /// Configurations that are run.
    pub fn settings(&self) -> &'static [Setting] {
        &SETTINGS[..self.lengths.settings.min(SETTINGS.len())]
    }

    /// All runs, the longest last.
    pub fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        let mut add = |part, setting: &Setting, kernel, seeds: u64| {
            let seeds = self.seed..self.seed + seeds;
            cases.extend(seeds.map(|seed| Case { part, setting: *setting, kernel, seed }));
        };
        for setting in self.settings() {
            let seeds = self.lengths.seeds_of(setting, self.published);
            setting.kernels().for_each(|kernel| add(Purpose::Table, setting, kernel, seeds));
        }
        for closer in self.settings().iter().filter(|setting| setting.name == CLOSER) {
            let alone = ABLATION.iter().map(|(mechanisms, _)| *mechanisms);
            let alone = alone.filter(|mechanisms| kernels().all(|kernel| kernel != *mechanisms));
            alone.for_each(|mechanisms| add(Purpose::Ablation, closer, mechanisms, self.lengths.few));
            let once = u64::from(self.lengths.rounds != 0);
            REPEATED.into_iter().for_each(|kernel| add(Purpose::Rounds, closer, kernel, once));
        }
        cases
    }

    /// Returns the workload with a setting's memory.
    pub fn options(&self, setting: &Setting) -> Thpfioscale {
        if setting.emulated {
            return as_emulated(setting.asks);
        }
        let sockets = u32::from(self.machines[setting.machine].model().topology.sockets);
        Thpfioscale {
            mib: self.lengths.mib * sockets,
            config: setting.asks,
            load: setting.load,
            ..Thpfioscale::default()
        }
    }

    /// Returns the options of a run.
    fn options_of(&self, case: &Case) -> Thpfioscale {
        let rounds = if case.part == Purpose::Rounds { self.lengths.rounds } else { 1 };
        Thpfioscale { rounds, seed: case.seed, ..self.options(&case.setting) }
    }

    fn simulate(&self, case: &Case) -> anyhow::Result<Outcome> {
        let mut model = self.machines[case.setting.machine].model();
        model.topology.cores = MACHINES[case.setting.machine].cores;
        run(&model, crate::mechanisms::parse(case.kernel)?, &self.options_of(case)).context("thpfioscale")
    }

    /// About how long a run takes, in units of its own.
    fn weight(&self, case: &Case) -> u64 {
        let Thpfioscale { mib, rounds, .. } = self.options_of(case);
        // Seconds of a run at 1 GiB: 6, 10 and 25.
        let load = match case.setting.load {
            Load::Files => 6,
            Load::Build => 10,
            Load::Network => 25,
        };
        u64::from(mib) * u64::from(rounds) * load
    }
}

impl Setting {
    /// Returns the description of a setting that was not published.
    pub fn title(&self) -> &'static str {
        match self.load {
            _ if self.emulated => EMULATED,
            Load::Files => "not published; direct compaction at each fault",
            Load::Build => "not published; a source tree is compiled, MADV_HUGEPAGE",
            Load::Network => "not published; files are sent to clients that come and go, MADV_HUGEPAGE",
        }
    }

    /// Kernels of its table: theirs, and ours.
    pub fn kernels(&self) -> impl Iterator<Item = &'static str> {
        let theirs = if self.emulated { &[REAL][..] } else { &KERNELS };
        theirs.iter().copied().chain([OURS])
    }
}

/// The emulated machine: managed memory, zones, `min_free_kbytes`, what the kernel holds after booting, slabs and log
/// as they were seen there, nothing scaled.
fn as_emulated(config: Config) -> Thpfioscale {
    let (marks, slabs, shrinkers) = (Marks::Own, Slabs::Slub, Shrinkers::Share);
    let seen = Thpfioscale { mib: 972, low: 224, min_free: 44_512, held: 2_800, log: 20_480, ..Thpfioscale::default() };
    Thpfioscale { config, marks, slabs, shrinkers, ..seen }
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {}, seed {}", self.setting.name, self.kernel, self.seed)
    }
}

/// Kernels of the published tables, and ours.
pub fn kernels() -> impl Iterator<Item = &'static str> {
    KERNELS.into_iter().chain([OURS])
}

#[cfg(test)]
mod tests {
    use framewright_sim::machine::named;

    use super::*;
    use crate::reproduce::published::Published as _;

    #[test]
    fn every_published_row_is_run() {
        let published = FragmentationTables::built_in().unwrap();
        let [skylake, haswell] = MACHINES.map(|machine| named(machine.name).unwrap());
        let plan =
            |lengths| FragmentationPlan { machines: [&skylake, &haswell], published: &published, seed: 1, lengths };
        let full = plan(FragmentationLengths::FULL).cases();
        let count = |part| full.iter().filter(|case| case.part == part).count();
        assert_eq!(
            [Purpose::Table, Purpose::Ablation, Purpose::Rounds].map(count),
            [4 * 5 * 10 + 3 * 5 * 3 + 2 * 2 * 3, 5 * 3, 3]
        );
        for row in &published.rows {
            let runs = full.iter().filter(|case| case.setting.name == row.config && case.kernel == row.kernel);
            assert!(runs.count() >= 10, "{} of {}", row.kernel, row.config);
        }
        assert_eq!(plan(FragmentationLengths::QUICK).cases().len(), 5);
        for (mechanisms, _) in ABLATION {
            crate::mechanisms::parse(mechanisms).unwrap();
        }
    }

    #[test]
    fn as_many_threads_want_huge_pages_as_published() {
        let published = FragmentationTables::built_in().unwrap();
        for config in &published.configs {
            let setting = SETTINGS.iter().find(|setting| setting.name == config.name).unwrap();
            let Machine { name, cores } = MACHINES[setting.machine];
            let topology = named(name).unwrap().model().topology;
            assert!(cores <= topology.cores);
            assert_eq!((usize::from(cores * topology.threads) - 4) / 4, config.threads, "{}", config.name);
        }
    }
}
