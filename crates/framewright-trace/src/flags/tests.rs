//! Names and bits against each other: what a kernel prints by names means what its bits mean.

use framewright::request::{
    __GFP_KSWAPD_RECLAIM, __GFP_RECLAIMABLE, __GFP_ZEROTAGS, GFP_ATOMIC, GFP_KERNEL, GFP_TRANSHUGE_LIGHT, Gfp,
};
use proptest::prelude::*;

use super::*;

fn version(text: &str) -> KernelVersion {
    text.parse().unwrap()
}

/// Bits as a kernel of this version means them.
fn bits(kernel: &str, value: u32) -> Gfp {
    Reading::new(Kernels::of(version(kernel))).read(value, None).unwrap()
}

/// What kernels have printed of values, in logs and traces.
const PRINTED: [(&str, u32, &str); 40] = [
    ("2.6.32", 0x201da, "GFP_HIGHUSER_MOVABLE|GFP_COLD"),
    ("2.6.32", 0x80d0, "GFP_KERNEL|GFP_ZERO"),
    ("2.6.32", 0x800d0, "GFP_TEMPORARY"),
    ("2.6.38", 0x200da, "GFP_HIGHUSER_MOVABLE"),
    ("3.10", 0x280da, "GFP_HIGHUSER_MOVABLE|GFP_ZERO"),
    ("3.10", 0xd0, "GFP_KERNEL"),
    ("3.10", 0xf0, "GFP_KERNEL|GFP_ATOMIC"),
    ("3.10", 0x20, "GFP_ATOMIC"),
    ("3.10", 0x4020, "GFP_ATOMIC|GFP_COMP"),
    ("3.10", 0x0, "GFP_NOWAIT"),
    ("3.10", 0x1200, "GFP_NOWARN|GFP_NORETRY"),
    ("3.10", 0x4352da, "GFP_TRANSHUGE"),
    ("3.10", 0x80050, "GFP_NOFS|GFP_RECLAIMABLE"),
    ("3.10", 0x10200d0, "GFP_USER|0x1000000"),
    ("4.3", 0x820050, "GFP_NOFS|GFP_HARDWALL|GFP_OTHER_NODE"),
    ("4.4", 0x24200ca, "GFP_HIGHUSER_MOVABLE"),
    ("4.4", 0x2080020, "GFP_ATOMIC"),
    ("4.5", 0x24000d0, "GFP_TEMPORARY"),
    ("4.9.56", 0x240c0d0, "GFP_TEMPORARY|__GFP_COMP|__GFP_ZERO"),
    ("4.9", 0x24280ca, "GFP_HIGHUSER_MOVABLE|__GFP_ZERO"),
    ("4.9", 0x25000c0, "GFP_KERNEL_ACCOUNT"),
    ("4.10", 0x14200ca, "GFP_HIGHUSER_MOVABLE"),
    ("4.14", 0x14201ca, "GFP_HIGHUSER_MOVABLE|__GFP_COLD"),
    ("4.15.0-108-generic", 0x15000c0, "GFP_KERNEL_ACCOUNT"),
    ("4.15", 0x1080020, "GFP_ATOMIC"),
    ("4.18.0-240.10.1.el8_3.x86_64", 0x6200ca, "GFP_HIGHUSER_MOVABLE"),
    ("4.19", 0x480020, "GFP_ATOMIC"),
    ("4.20.0-rc3+", 0x7080c0, "GFP_KERNEL_ACCOUNT|__GFP_ZERO"),
    ("5.0", 0x6000d0, "GFP_KERNEL|__GFP_RECLAIMABLE"),
    ("5.1", 0x100cca, "GFP_HIGHUSER_MOVABLE"),
    ("5.4", 0xa20, "GFP_ATOMIC"),
    ("5.4", 0x140dca, "GFP_HIGHUSER_MOVABLE|__GFP_COMP|__GFP_ZERO"),
    ("5.15", 0x900dca, "GFP_HIGHUSER_MOVABLE|__GFP_ZERO|__GFP_ZEROTAGS"),
    ("6.1.16", 0xcd0, "GFP_KERNEL|__GFP_RECLAIMABLE"),
    ("6.2", 0x3d24ca, "GFP_TRANSHUGE|__GFP_NORETRY|__GFP_THISNODE"),
    ("6.3", 0x820, "GFP_ATOMIC"),
    ("6.8", 0x52820, "GFP_ATOMIC|__GFP_NOWARN|__GFP_NORETRY|__GFP_COMP"),
    ("6.12", 0xce0, "GFP_KERNEL|__GFP_HIGH"),
    ("6.16.9", 0x140dca, "GFP_HIGHUSER_MOVABLE|__GFP_ZERO|__GFP_COMP"),
    ("6.16", 0x2000cc0, "GFP_KERNEL|0x2000000"),
];

#[test]
fn bits_mean_what_the_kernels_names_mean() {
    for (kernel, value, names) in PRINTED {
        let named = named(names);
        assert!(named.unknown.is_empty(), "{names}: {:?}", named.unknown);
        assert_eq!(bits(kernel, value), named.gfp, "{value:#x} of {kernel}, which prints {names}");
    }
}

#[test]
fn names_of_every_kernel_are_known() {
    let single = [
        "HIGHMEM",
        "DMA",
        "DMA32",
        "MOVABLE",
        "RECLAIMABLE",
        "WAIT",
        "HIGH",
        "IO",
        "FS",
        "COLD",
        "NOWARN",
        "REPEAT",
        "NOFAIL",
        "NORETRY",
        "MEMALLOC",
        "COMP",
        "ZERO",
        "NOMEMALLOC",
        "HARDWALL",
        "THISNODE",
        "NOTRACK",
        "NO_KSWAPD",
        "OTHER_NODE",
        "WRITE",
        "KMEMCG",
        "NOACCOUNT",
        "ACCOUNT",
        "ATOMIC",
        "DIRECT_RECLAIM",
        "KSWAPD_RECLAIM",
        "RECLAIM",
    ];
    for name in single {
        for prefix in ["GFP_", "__GFP_"] {
            let text = format!("{prefix}{name}");
            assert!(named(&text).unknown.is_empty(), "{text}");
        }
    }
    let later = [
        "RETRY_MAYFAIL",
        "ZEROTAGS",
        "SKIP_ZERO",
        "SKIP_KASAN",
        "SKIP_KASAN_POISON",
        "SKIP_KASAN_UNPOISON",
        "NOLOCKDEP",
        "NO_OBJ_EXT",
    ];
    later.iter().for_each(|name| assert!(named(&format!("__GFP_{name}")).unknown.is_empty(), "{name}"));
    for name in ["GFP_IOFS", "GFP_TEMPORARY", "GFP_TRANSHUGE_LIGHT", "GFP_NOWAIT", "GFP_DMA32", "none", "0", "0x10"] {
        assert!(named(name).unknown.is_empty(), "{name}");
    }
    assert_eq!(named("GFP_KERNEL|GFP_").unknown, ["GFP_"]);
    assert_eq!(named("GFP_KERNEL|__GFP_CMA|GFP_ATOMIC_").unknown, ["__GFP_CMA", "GFP_ATOMIC_"]);
    assert_eq!(named("GFP_KERNEL||x=1").unknown, ["", "x=1"]);
}

/// Kernels, the bits, the frame number that was printed beside them if any, and what they mean.
type Row = (Kernels, u32, Option<u64>, Result<Gfp, u32>);

#[test]
fn what_is_in_doubt_is_refused_by_name() {
    // Kernels that are known to be possible, the value, the mobility's number, what comes of it.
    let from = |text: &str| Kernels::ALL.since(version(text));
    let table: [Row; 14] = [
        // GFP_KERNEL since 5.1; before, a request that cannot fail and may fail.
        (Kernels::ALL, 0xcc0, Some(0), Ok(GFP_KERNEL)),
        // Reclaimable memory, and the event says unmovable: so it is the bit for waiting.
        (Kernels::ALL, 0xd0, Some(0), Ok(GFP_KERNEL)),
        // With reclaimable memory's number since 4.4.
        (from("5.1"), 0xcd0, Some(2), Ok(GFP_KERNEL | __GFP_RECLAIMABLE)),
        (Kernels::ALL, 0x24000c0, Some(0), Err(0x2400000)),
        (Kernels::ALL, 0x14000c0, Some(0), Err(0x1400000)),
        (from("4.4"), 0x6000c0, Some(0), Err(0x600000)),
        (from("4.8").before(version("4.18")), 0x14000c0, Some(0), Err(0x1000000)),
        (from("4.10").before(version("4.18")), 0x14000c0, Some(0), Ok(GFP_KERNEL)),
        // Equal in all of them.
        (from("5.1"), 0x820, Some(0), Ok(GFP_ATOMIC)),
        (from("5.1"), 0xa20, Some(0), Ok(GFP_ATOMIC)),
        (from("5.1"), 0x800cc0, Some(0), Ok(GFP_KERNEL)),
        (from("4.4").before(version("4.10")), 0xc0, Some(0), Ok(named("__GFP_IO|__GFP_FS").gfp)),
        // No flag of theirs.
        (from("6.3"), 0x8000_0cc0, Some(0), Err(0x8000_0000)),
        (Kernels::of(version("6.3")), 0xe20, Some(0), Err(0x200)),
    ];
    for (kernels, value, number, expected) in table {
        let found =
            Reading::new(kernels).read(value, number).map(|gfp| gfp & !__GFP_ZEROTAGS).map_err(
                |(fault, _)| match fault {
                    BitsFault::Doubtful { doubtful, .. } => doubtful,
                    BitsFault::Unknown { unknown, .. } => unknown,
                    BitsFault::Atomic { value } => value,
                },
            );
        assert_eq!(found, expected, "{value:#x} of {kernels}");
    }
    let (fault, certain) = Reading::new(Kernels::ALL).read(0x24000c0, Some(0)).unwrap_err();
    insta::assert_snapshot!(fault, @"gfp_flags=0x24000c0 cannot be read without the kernel's version: 0x2400000 of it is not the same in Linux 4.4 to before 4.18, 5.14 and later");
    assert_eq!(certain, named("__GFP_IO|__GFP_FS").gfp);
}

#[test]
fn one_value_can_tell_the_kernel_of_others() {
    // Movable memory with its number before 4.4.
    let mut reading = Reading::new(Kernels::ALL);
    assert!(reading.read(0x4000d0, Some(0)).is_ok(), "what is unmovable waits");
    reading = Reading::new(Kernels::ALL);
    reading.read(0x280da, Some(2)).unwrap();
    assert_eq!(reading.kernels(), Kernels::of(version("3.10")));
    assert_eq!(reading.read(0x20, Some(0)), Ok(GFP_ATOMIC));
    // GFP_ATOMIC as of 6.3, until its bit shows that the kernel is older.
    let mut reading = Reading::new(Kernels::ALL.since(version("5.11")));
    assert_eq!(reading.read(0x820, Some(0)), Ok(GFP_ATOMIC));
    assert!(matches!(reading.read(0xa20, Some(0)), Err((BitsFault::Atomic { .. }, GFP_ATOMIC))));
    let mut reading = Reading::new(Kernels::ALL.since(version("5.11")));
    assert_eq!(reading.read(0xa20, Some(0)), Ok(GFP_ATOMIC));
    assert_eq!(reading.read(0x820, Some(0)), Ok(named("__GFP_HIGH|__GFP_KSWAPD_RECLAIM").gfp));
    // A small machine's requests are all unmovable by number: that is no evidence.
    let mut reading = Reading::new(Kernels::ALL);
    assert!(reading.read(0x24200ca, Some(0)).is_err());
}

#[test]
fn versions_are_found_in_what_kernels_say_of_themselves() {
    let table = [
        ("6.1.0-56-cloud-amd64", Some("6.1")),
        ("Linux version 5.4.0-1064-azure (buildd@lcy02) (gcc version 9.4.0) #69", Some("5.4")),
        ("Linux host 2.6.32-754.el6.x86_64 #1 SMP", Some("2.6.32")),
        ("3.10.0-rc3+", Some("3.10")),
        ("v6.3", Some("6.3")),
        ("4.9.56\n", Some("4.9.56")),
        ("6", None),
        ("10.0.0.1", None),
        ("0.1", None),
        ("", None),
        ("2024-11-25", None),
    ];
    for (text, expected) in table {
        assert_eq!(KernelVersion::find(text).map(|found| found.to_string()), expected.map(str::to_owned), "{text}");
    }
    assert_eq!(Kernels::of(version("2.6.18")), Kernels::of(version("3.0")));
    assert_eq!(Kernels::of(version("99.0")), Kernels::of(version("6.3")));
    assert_eq!(Kernels::of(version("4.5")).to_string(), "Linux 4.4 to before 4.8");
    assert_eq!(Kernels::ALL.to_string(), "Linux 2.6.31 and later");
    assert!(Kernels::of(version("5.13")) != Kernels::of(version("5.14")));
}

/// Prints flags as Linux 3.x does, with the names that it has.
fn printed_by_3x(value: u32) -> String {
    const NAMES: [(u32, &str); 28] = [
        (0x4352da, "GFP_TRANSHUGE"),
        (0x200da, "GFP_HIGHUSER_MOVABLE"),
        (0x200d2, "GFP_HIGHUSER"),
        (0x200d0, "GFP_USER"),
        (0x800d0, "GFP_TEMPORARY"),
        (0xd0, "GFP_KERNEL"),
        (0x50, "GFP_NOFS"),
        (0x20, "GFP_ATOMIC"),
        (0x10, "GFP_NOIO"),
        (0x20, "GFP_HIGH"),
        (0x10, "GFP_WAIT"),
        (0x40, "GFP_IO"),
        (0x100, "GFP_COLD"),
        (0x200, "GFP_NOWARN"),
        (0x400, "GFP_REPEAT"),
        (0x800, "GFP_NOFAIL"),
        (0x1000, "GFP_NORETRY"),
        (0x4000, "GFP_COMP"),
        (0x8000, "GFP_ZERO"),
        (0x10000, "GFP_NOMEMALLOC"),
        (0x20000, "GFP_HARDWALL"),
        (0x40000, "GFP_THISNODE"),
        (0x80000, "GFP_RECLAIMABLE"),
        (0x8, "GFP_MOVABLE"),
        (0x200000, "GFP_NOTRACK"),
        (0x400000, "GFP_NO_KSWAPD"),
        (0x800000, "GFP_OTHER_NODE"),
        (0x100000, "GFP_KMEMCG"),
    ];
    let mut rest = value;
    let mut parts = Vec::new();
    for (mask, name) in NAMES {
        if rest & mask == mask {
            rest &= !mask;
            parts.push(name.to_owned());
        }
    }
    if rest != 0 {
        parts.push(format!("{rest:#x}"));
    }
    if parts.is_empty() { "GFP_NOWAIT".to_owned() } else { parts.join("|") }
}

/// Found by the property below.
#[test]
fn before_4_4_what_may_wait_is_not_atomic() {
    let text = printed_by_3x(0xeb_7bfe);
    assert!(text.starts_with("GFP_TRANSHUGE|GFP_ATOMIC|"), "{text}");
    assert_eq!(named(&text).gfp, bits("3.10", 0xeb_7bfe));
}

/// Found by the property below: a huge page fault that may not wait is printed flag by flag.
#[test]
fn before_4_8_huge_faults_that_may_not_wait_have_no_noretry() {
    let text = printed_by_3x(0x43_52ca);
    assert!(text.contains("GFP_NORETRY|GFP_COMP"), "{text}");
    assert_eq!(named(&text).gfp, bits("3.10", 0x43_52ca));
    assert_eq!(named(&text).gfp, GFP_TRANSHUGE_LIGHT);
}

proptest! {
    #[test]
    fn names_and_bits_of_3x_agree(value in 0..1_u32 << 25) {
        // The name of a single flag tells an old kernel. GFP_COLD is one that no combination has in it.
        let value = value | 0x100;
        let text = printed_by_3x(value);
        prop_assert_eq!(named(&text).gfp, bits("3.10", value), "{:#x} {}", value, text);
    }

    #[test]
    fn names_and_bits_of_6_1_agree(value in 0..1_u32 << 24) {
        let gfp = bits("6.1", value);
        prop_assert_eq!(gfp, Gfp(value));
        // What nothing in a kernel asks for is read as what is asked for.
        if !gfp.contains(GFP_ATOMIC & !__GFP_KSWAPD_RECLAIM) {
            prop_assert_eq!(named(&gfp.to_string()).gfp, gfp);
        }
    }

    #[test]
    fn any_bits_are_read_or_refused(value: u32, number in 0..7_u64, era in 0..9_usize) {
        let all = ["2.6.31", "4.4", "4.8", "4.10", "4.18", "5.1", "5.14", "6.3"];
        let kernels = all.get(era).map_or(Kernels::ALL, |kernel| Kernels::of(version(kernel)));
        if let Err((fault, _)) = Reading::new(kernels).read(value, Some(number)) {
            prop_assert!(!fault.to_string().contains(char::is_control));
        }
    }
}
