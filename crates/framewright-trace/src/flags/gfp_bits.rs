//! The bits of flags by era, and the eras that a trace can be of.
//!
//! A set of eras ([`Kernels`]) is what is known of a trace's kernel. It starts as the user says, or with all eras, and
//! shrinks by evidence: an impossible value excludes an era. A value is impossible if it has a bit without a flag,
//! flags that exclude each other, or another mobility than the event itself says.
//!
//! A value on which all eras of the set agree is read. Any other is refused, with the bits that are in doubt.
//!
//! One doubt is not refused. `__GFP_HIGH` with `__GFP_KSWAPD_RECLAIM` alone is `GFP_ATOMIC` since 6.3, and hardly
//! occurs before. It is read as `GFP_ATOMIC`. If the bit of `__GFP_ATOMIC` turns up later, the trace is refused.

use std::fmt;

use framewright::request::{
    __GFP_ACCOUNT, __GFP_ATOMIC, __GFP_COMP, __GFP_DIRECT_RECLAIM, __GFP_DMA, __GFP_DMA32, __GFP_FS, __GFP_HARDWALL,
    __GFP_HIGH, __GFP_HIGHMEM, __GFP_IO, __GFP_KSWAPD_RECLAIM, __GFP_MEMALLOC, __GFP_MOVABLE, __GFP_NOFAIL,
    __GFP_NOMEMALLOC, __GFP_NORETRY, __GFP_NOWARN, __GFP_RECLAIMABLE, __GFP_RETRY_MAYFAIL, __GFP_THISNODE, __GFP_WRITE,
    __GFP_ZERO, __GFP_ZEROTAGS, GFP_TRANSHUGE_LIGHT, Gfp,
};
use framewright::units::MigrateType;

use super::kernel_version::KernelVersion;

/// A flag that means nothing to a page allocator, as `__GFP_COLD` or `__GFP_NOLOCKDEP`.
const IDLE: Option<Gfp> = Some(Gfp::NONE);

/// Flags by their bits. Bits beyond the end, and those with `None`, are no flags.
type Bits = [Option<Gfp>; 28];

const ZONES: [Option<Gfp>; 4] = [Some(__GFP_DMA), Some(__GFP_HIGHMEM), Some(__GFP_DMA32), Some(__GFP_MOVABLE)];

/// The bits of an era: bits 0 to 7, of which only the fourth differs, then `rest`.
const fn bits<const N: usize>(fourth: Gfp, rest: [Option<Gfp>; N]) -> Bits {
    let mut bits = [None; 28];
    let mut i = 0;
    while i < ZONES.len() {
        bits[i] = ZONES[i];
        i += 1;
    }
    bits[4] = Some(fourth);
    bits[5] = Some(__GFP_HIGH);
    bits[6] = Some(__GFP_IO);
    bits[7] = Some(__GFP_FS);
    i = 0;
    while i < N {
        bits[8 + i] = rest[i];
        i += 1;
    }
    bits
}

/// Bits 8 to 18 of kernels before 5.1, with `eighth` the first of them.
const fn middle<const N: usize>(eighth: Option<Gfp>, rest: [Option<Gfp>; N]) -> [Option<Gfp>; 20] {
    let known = [
        eighth,
        Some(__GFP_NOWARN),
        Some(__GFP_RETRY_MAYFAIL),
        Some(__GFP_NOFAIL),
        Some(__GFP_NORETRY),
        Some(__GFP_MEMALLOC),
        Some(__GFP_COMP),
        Some(__GFP_ZERO),
        Some(__GFP_NOMEMALLOC),
        Some(__GFP_HARDWALL),
        Some(__GFP_THISNODE),
    ];
    let mut bits = [None; 20];
    let mut i = 0;
    while i < known.len() {
        bits[i] = known[i];
        i += 1;
    }
    while i - known.len() < N {
        bits[i] = rest[i - known.len()];
        i += 1;
    }
    bits
}

/// 2.6.31 to 4.3. From bit 19 on: `RECLAIMABLE`, `KMEMCG` or `NOACCOUNT`, `NOTRACK`, `NO_KSWAPD`, `OTHER_NODE`,
/// `WRITE`.
const WAIT: Bits =
    bits(__GFP_DIRECT_RECLAIM, middle(IDLE, [Some(__GFP_RECLAIMABLE), IDLE, IDLE, IDLE, IDLE, Some(__GFP_WRITE)]));
/// `__GFP_NO_KSWAPD` of these kernels.
pub(super) const NO_KSWAPD: u32 = 1 << 22;

/// 4.4 to 4.9. From bit 19 on: `ATOMIC`, `ACCOUNT` (`NOACCOUNT` in 4.4), `NOTRACK`, `DIRECT_RECLAIM`, `OTHER_NODE`,
/// `WRITE`, `KSWAPD_RECLAIM`.
const OTHER_NODE: Bits = bits(
    __GFP_RECLAIMABLE,
    middle(
        IDLE,
        [
            Some(__GFP_ATOMIC),
            Some(__GFP_ACCOUNT),
            IDLE,
            Some(__GFP_DIRECT_RECLAIM),
            IDLE,
            Some(__GFP_WRITE),
            Some(__GFP_KSWAPD_RECLAIM),
        ],
    ),
);

/// 4.10 to 4.17. From bit 19 on: `ATOMIC`, `ACCOUNT`, `NOTRACK`, `DIRECT_RECLAIM`, `WRITE`, `KSWAPD_RECLAIM`,
/// `NOLOCKDEP` (for a while one bit higher).
const NO_OTHER_NODE: Bits = bits(
    __GFP_RECLAIMABLE,
    middle(
        IDLE,
        [
            Some(__GFP_ATOMIC),
            Some(__GFP_ACCOUNT),
            IDLE,
            Some(__GFP_DIRECT_RECLAIM),
            Some(__GFP_WRITE),
            Some(__GFP_KSWAPD_RECLAIM),
            IDLE,
            IDLE,
        ],
    ),
);

/// 4.18 to 5.0. From bit 19 on: `ATOMIC`, `ACCOUNT`, `DIRECT_RECLAIM`, `KSWAPD_RECLAIM`, `NOLOCKDEP`.
const NO_GAPS: Bits = bits(
    __GFP_RECLAIMABLE,
    middle(
        Some(__GFP_WRITE),
        [Some(__GFP_ATOMIC), Some(__GFP_ACCOUNT), Some(__GFP_DIRECT_RECLAIM), Some(__GFP_KSWAPD_RECLAIM), IDLE],
    ),
);

/// 5.1 and later: from bit 8 on, with `atomic` bit 9, and from bit 23 on `high`.
const fn packed(atomic: Option<Gfp>, high: [Option<Gfp>; 5]) -> Bits {
    bits(
        __GFP_RECLAIMABLE,
        [
            Some(__GFP_ZERO),
            atomic,
            Some(__GFP_DIRECT_RECLAIM),
            Some(__GFP_KSWAPD_RECLAIM),
            Some(__GFP_WRITE),
            Some(__GFP_NOWARN),
            Some(__GFP_RETRY_MAYFAIL),
            Some(__GFP_NOFAIL),
            Some(__GFP_NORETRY),
            Some(__GFP_MEMALLOC),
            Some(__GFP_COMP),
            Some(__GFP_NOMEMALLOC),
            Some(__GFP_HARDWALL),
            Some(__GFP_THISNODE),
            Some(__GFP_ACCOUNT),
            high[0],
            high[1],
            high[2],
            high[3],
            high[4],
        ],
    )
}

/// `ZEROTAGS`, and by configuration up to four of `SKIP_ZERO`, the kinds of `SKIP_KASAN`, `NOLOCKDEP`, `NO_OBJ_EXT`.
const TAGS: [Option<Gfp>; 5] = [Some(__GFP_ZEROTAGS), IDLE, IDLE, IDLE, IDLE];

/// A range of kernels whose bits have one meaning.
struct Era {
    since: KernelVersion,
    bits: Bits,
    /// Background reclaim is woken without a flag, unless [`NO_KSWAPD`] is set.
    wakes: bool,
    /// `GFP_TRANSHUGE` has `__GFP_NORETRY`, which then says nothing: all huge page faults have it.
    noretry: bool,
}

impl Era {
    const fn new(since: KernelVersion, bits: Bits) -> Era {
        Era { since, bits, wakes: false, noretry: false }
    }
}

const ERAS: [Era; 8] = [
    Era { since: KernelVersion { major: 2, minor: 6, patch: 31 }, bits: WAIT, wakes: true, noretry: true },
    Era { noretry: true, ..Era::new(KernelVersion::new(4, 4), OTHER_NODE) },
    Era::new(KernelVersion::new(4, 8), OTHER_NODE),
    Era::new(KernelVersion::new(4, 10), NO_OTHER_NODE),
    Era::new(KernelVersion::new(4, 18), NO_GAPS),
    Era::new(KernelVersion::new(5, 1), packed(Some(__GFP_ATOMIC), [IDLE, None, None, None, None])),
    Era::new(KernelVersion::new(5, 14), packed(Some(__GFP_ATOMIC), TAGS)),
    Era::new(KernelVersion::new(6, 3), packed(None, TAGS)),
];
/// The first era, of kernels before 4.4.
pub(super) const OLDEST: usize = 0;
/// The last one, without `__GFP_ATOMIC`.
const NEWEST: usize = ERAS.len() - 1;
/// The first of the eras that differ only in `__GFP_ATOMIC` and in flags without meaning here.
const PACKED: usize = 5;

/// The meaning of a value in one era.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Meaning {
    gfp: Gfp,
    /// Bits that are no flags.
    unknown: u32,
}

impl Era {
    fn meaning(&self, value: u32) -> Meaning {
        let mut meaning = Meaning { gfp: Gfp::NONE, unknown: 0 };
        for bit in (0..32).filter(|bit| value >> bit & 1 != 0) {
            match self.bits.get(bit).copied().flatten() {
                Some(flag) => meaning.gfp |= flag,
                None => meaning.unknown |= 1 << bit,
            }
        }
        let gfp = &mut meaning.gfp;
        if self.wakes && value & NO_KSWAPD == 0 {
            *gfp |= __GFP_KSWAPD_RECLAIM;
        }
        // GFP_ATOMIC of a kernel without a bit for it.
        let has_no_atomic = !self.bits.contains(&Some(__GFP_ATOMIC));
        if has_no_atomic && gfp.contains(__GFP_HIGH) && !gfp.contains(__GFP_DIRECT_RECLAIM) {
            let is_atomic = self.wakes || gfp.contains(__GFP_KSWAPD_RECLAIM);
            *gfp |= if is_atomic { __GFP_ATOMIC } else { Gfp::NONE };
        }
        if self.noretry {
            *gfp = as_since_4_8(*gfp);
        }
        meaning
    }

    /// Whether a kernel of this era can make a request with `value` and this mobility.
    fn allows(&self, value: u32, migratetype: Option<u64>) -> bool {
        let Meaning { gfp, unknown } = self.meaning(value);
        let waits = gfp.contains(__GFP_DIRECT_RECLAIM);
        let gives_up = gfp.intersects(__GFP_NORETRY | __GFP_RETRY_MAYFAIL);
        let cannot_fail = gfp.contains(__GFP_NOFAIL);
        let is_odd = unknown != 0
            || (cannot_fail && (gives_up || !waits))
            || (waits && gfp.contains(__GFP_ATOMIC))
            || gfp.contains(__GFP_MOVABLE | __GFP_RECLAIMABLE);
        let (reclaimable, movable) = if self.wakes { (1, 2) } else { (2, 1) };
        let expected = match gfp.migratetype() {
            MigrateType::Movable => movable,
            MigrateType::Reclaimable => reclaimable,
            _ => 0,
        };
        // A kernel with little memory does not group by mobility: all are 0.
        let is_grouped = migratetype != Some(0) || !gfp.contains(__GFP_MOVABLE);
        !is_odd && (!is_grouped || migratetype.is_none_or(|found| found > 2 || found == expected))
    }

    fn is_of(&self, next: Option<&Era>, version: KernelVersion) -> bool {
        self.since <= version && next.is_none_or(|next| version < next.since)
    }
}

/// The kernels that a trace can be of, as a set of eras.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kernels(u8);

impl Default for Kernels {
    /// All of them.
    fn default() -> Kernels {
        Kernels::ALL
    }
}

impl Kernels {
    /// Every kernel since 2.6.31.
    pub const ALL: Kernels = Kernels(((1_u16 << ERAS.len()) - 1) as u8);

    fn filter(self, keep: impl Fn(usize, &Era) -> bool) -> Kernels {
        let kept = self.eras().filter(|&(i, era)| keep(i, era));
        Kernels(kept.fold(0, |set, (i, _)| set | 1 << i))
    }

    fn eras(self) -> impl Iterator<Item = (usize, &'static Era)> {
        ERAS.iter().enumerate().filter(move |(i, _)| self.0 >> i & 1 != 0)
    }

    /// The era of `version`; the oldest for versions before 2.6.31.
    pub fn of(version: KernelVersion) -> Kernels {
        let version = version.max(ERAS[OLDEST].since);
        Kernels::ALL.filter(|i, era| era.is_of(ERAS.get(i + 1), version))
    }

    /// The eras of `self` that can be of `version` or later.
    pub fn since(self, version: KernelVersion) -> Kernels {
        self.filter(|i, _| ERAS.get(i + 1).is_none_or(|next| next.since > version)).or(self)
    }

    /// The eras of `self` that can be before `version`.
    pub fn before(self, version: KernelVersion) -> Kernels {
        self.filter(|_, era| era.since < version).or(self)
    }

    /// The eras of both sets; `self` if there are none.
    pub fn and(self, other: Kernels) -> Kernels {
        Kernels(self.0 & other.0).or(self)
    }

    fn or(self, otherwise: Kernels) -> Kernels {
        if self.0 == 0 { otherwise } else { self }
    }

    /// Whether bits mean the same in all of them.
    pub fn is_known(self) -> bool {
        self.0.count_ones() == 1
    }
}

impl fmt::Display for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "Linux ";
        let mut i = 0;
        while i < ERAS.len() {
            let first = i;
            while i < ERAS.len() && self.0 >> i & 1 != 0 {
                i += 1;
            }
            if first == i {
                i += 1;
                continue;
            }
            write!(f, "{separator}{}", ERAS[first].since)?;
            match ERAS.get(i) {
                Some(next) => write!(f, " to before {}", next.since)?,
                None => f.write_str(" and later")?,
            }
            separator = ", ";
        }
        Ok(())
    }
}

/// The reason why a value cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages show what the fields hold")]
pub enum BitsFault {
    /// The possible kernels disagree.
    #[error(
        "gfp_flags={value:#x} cannot be read without the kernel's version: {doubtful:#x} of it is not the same in {kernels}"
    )]
    Doubtful { value: u32, doubtful: u32, kernels: Kernels },
    /// Some bits are no flags.
    #[error("gfp_flags={value:#x} has {unknown:#x}, which is no flag of {kernels}")]
    Unknown { value: u32, unknown: u32, kernels: Kernels },
    /// A kernel before 6.3, but earlier values were read as of one since then.
    #[error(
        "gfp_flags={value:#x} has __GFP_ATOMIC, so the kernel is older than 6.3, but earlier events were read as of a later one"
    )]
    Atomic { value: u32 },
}

impl BitsFault {
    /// The bits that the lenient mode leaves out of the request, as `0x800`.
    pub fn bits(&self) -> String {
        let bits = match *self {
            BitsFault::Doubtful { doubtful, .. } => doubtful,
            BitsFault::Unknown { unknown, .. } => unknown,
            // Its own is read; that of earlier values was not.
            BitsFault::Atomic { .. } => 1 << 9,
        };
        format!("{bits:#x}")
    }
}

/// Reads the bits of one trace.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    kernels: Kernels,
    /// A request was taken for `GFP_ATOMIC` as of 6.3 and later, though the kernel may be older.
    assumed: bool,
}

impl Reading {
    /// Reads bits of a kernel that is one of `kernels`.
    pub fn new(kernels: Kernels) -> Reading {
        Reading { kernels, assumed: false }
    }

    /// The kernels that are still possible.
    pub fn kernels(&self) -> Kernels {
        self.kernels
    }

    /// Leaves only the kernels that are also in `kernels`; no change if that leaves none.
    pub fn narrow(&mut self, kernels: Kernels) {
        self.kernels = self.kernels.and(kernels);
    }

    /// The flags with these bits, of a request whose mobility has the number `migratetype`.
    ///
    /// # Errors
    /// The bits that are in doubt or no flags, with the flags that are certain.
    pub fn read(&mut self, value: u32, migratetype: Option<u64>) -> Result<Gfp, (BitsFault, Gfp)> {
        let kernels = self.kernels.filter(|_, era| era.allows(value, migratetype)).or(self.kernels);
        self.kernels = kernels;
        if self.assumed && kernels.0 >> NEWEST & 1 == 0 {
            let certain = common(kernels, value).gfp;
            return Err((BitsFault::Atomic { value }, certain));
        }
        let is_packed = kernels.0 >> NEWEST & 1 != 0 && kernels.0 & ((1 << PACKED) - 1) == 0;
        let read = if is_packed { Kernels(1 << NEWEST) } else { kernels };
        self.assumed |= is_packed && !kernels.is_known() && disagree(kernels, value) != 0;
        let Meaning { gfp, unknown } = common(read, value);
        match disagree(read, value) {
            0 if unknown == 0 => Ok(gfp),
            0 => Err((BitsFault::Unknown { value, unknown, kernels }, gfp)),
            doubtful => Err((BitsFault::Doubtful { value, doubtful, kernels }, gfp)),
        }
    }
}

/// The meaning on which all of `kernels` agree.
fn common(kernels: Kernels, value: u32) -> Meaning {
    let all = kernels.eras().map(|(_, era)| era.meaning(value));
    all.reduce(|a, b| Meaning { gfp: a.gfp & b.gfp, unknown: a.unknown & b.unknown })
        .unwrap_or(Meaning { gfp: Gfp::NONE, unknown: value })
}

/// The bits of a value on which `kernels` disagree; all of them if only the sum differs.
fn disagree(kernels: Kernels, value: u32) -> u32 {
    // Zeroing tags does not concern an allocator of frames.
    let differs = |value: u32| {
        let mut all = kernels.eras().map(|(_, era)| era.meaning(value)).map(|m| (m.gfp & !__GFP_ZEROTAGS, m.unknown));
        let first = all.next();
        all.any(|other| Some(other) != first)
    };
    if !differs(value) {
        return 0;
    }
    let of_bit = |bit: u32| {
        let mut all = kernels.eras().map(|(_, era)| era.bits.get(bit as usize).copied().flatten());
        let first = all.next();
        all.any(|other| Some(other) != first)
    };
    let bits = (0..32).filter(|&bit| value >> bit & 1 != 0 && of_bit(bit)).fold(0, |bits, bit| bits | 1 << bit);
    if bits == 0 { value } else { bits }
}

/// A request of a kernel before 4.8, without the `__GFP_NORETRY` that all huge page faults had there.
pub(super) fn as_since_4_8(gfp: Gfp) -> Gfp {
    if gfp.contains(GFP_TRANSHUGE_LIGHT | __GFP_NORETRY) { gfp & !__GFP_NORETRY } else { gfp }
}

/// The flags of kernels before 4.4 with these bits, without implied ones; unknown bits are left out.
pub(super) fn before_4_4(value: u32) -> Gfp {
    let flags = WAIT.iter().enumerate().filter(|(bit, _)| value >> bit & 1 != 0);
    flags.fold(Gfp::NONE, |gfp, (_, flag)| gfp | flag.unwrap_or(Gfp::NONE))
}
