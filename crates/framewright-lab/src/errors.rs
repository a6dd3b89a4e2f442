//! Every error of the laboratory, one of each kind, as it reads in full.
//!
//! The commands' tests show the errors that a command line, a file or a kernel can cause, with the command's advice.
//! This file has the others too, which need a broken kernel or a bug.
//!
//! A new kind of error does not compile before it has a row.

use std::io;

use framewright::request::GFP_KERNEL;
use framewright::{AllocError, BootError, FreeError, NodeId, Order, Pfn, PfnRange, Request, Violation};
use framewright_bench::Trouble;
use framewright_bench::checker::HostError;
use framewright_sim::machine::MachineError;
use framewright_sim::mlc::MlcError;
use framewright_sim::run::{Deadlock, ScheduleError, SetupError};
use framewright_sim::speed::SpeedError;
use framewright_sim::stress::{Failure, Kind, StressError, Wrong};
use framewright_sim::thpfioscale;
use framewright_sim::workload::{Cause, SpecError};
use framewright_trace::error::{Excerpt, Reason, TraceError};
use framewright_trace::explain::ExplainError;
use framewright_trace::flags::{BitsFault, KernelVersion, Kernels};
use framewright_trace::fwt::CompactFault;
use framewright_trace::proc::ProcFault;
use framewright_trace::replay::{ReplayError, ZoneFault};
use framewright_trace::ring_buffer::RawFault;
use framewright_trace::text::LineFault;

use crate::calibrate::CalibrateError;
use crate::compare::comparison::CompareError;
use crate::compare::lines::FormError;
use crate::compare::read::{Kind as Files, ReadError};
use crate::record::RecordError;
use crate::top::kernel::KernelError;
use crate::top::socket::SocketError;

/// Snapshots one error of each kind: the patterns are all that there are, and each matches the sample beside it.
macro_rules! every {
    ($kind:ty: $($pattern:pat => $sample:expr),+ $(,)?) => {{
        let _all = |error: &$kind| match error { $($pattern => (),)+ };
        let mut text = String::new();
        $({
            let sample: $kind = $sample;
            assert!(matches!(sample, $pattern), "{}: {sample:?}", stringify!($pattern));
            let message = sample.to_string();
            assert!(!message.is_empty());
            // Commands print the message and then its source's.
            let source = std::error::Error::source(&sample).map(ToString::to_string);
            assert!(source.is_none_or(|source| !message.contains(&source)), "says its cause twice: {message}");
            text += &format!("{}\n    {}\n", stringify!($pattern), message.trim_end().replace('\n', "\n    "));
        })+
        insta::assert_snapshot!(stringify!($kind).replace("::", "_"), text);
    }};
}

/// An excerpt of a file.
fn quoted(text: &str) -> Excerpt {
    Excerpt::new(text.as_bytes())
}

fn file() -> String {
    "FILE".to_owned()
}

fn denied() -> io::Error {
    io::ErrorKind::PermissionDenied.into()
}

fn setup() -> SetupError {
    SetupError::Cpus { asked: 200, has: 112, machine: "skylake-2x28".to_owned() }
}

fn deadlock() -> Deadlock {
    Deadlock(vec!["CPU 0 in zone lock".to_owned(), "CPU 1 asleep".to_owned()])
}

fn violation() -> Violation {
    Violation { invariant: "I3", pfn: Some(Pfn(0x1000)), expected: 4, found: 5 }
}

#[test]
fn of_texts() {
    every!(Reason:
        Reason::Io(_) => Reason::Io(denied()),
        Reason::Compression(_) => Reason::Compression("bad block".to_owned()),
        Reason::Line(_) => LineFault::Unterminated.into(),
        Reason::Proc(_) => ProcFault::NotText(7).into(),
        Reason::Compact(_) => CompactFault::Unfinished.into(),
        Reason::Raw(_) => RawFault::Cut(3).into(),
        Reason::NotATrace(_) => Reason::NotATrace(12),
        Reason::NoTrace => Reason::NoTrace,
        Reason::SeveralTraces(_) => Reason::SeveralTraces("a.fwt, trace.txt".to_owned()),
        Reason::TooLarge(_) => Reason::TooLarge(1 << 20),
    );
    every!(LineFault:
        LineFault::TooLong(_) => LineFault::TooLong(quoted("xxxx")),
        LineFault::Unterminated => LineFault::Unterminated,
        LineFault::NoHead(_) => LineFault::NoHead(quoted("mm_page_free: pfn=1")),
        LineFault::Buried(_) => LineFault::Buried(quoted("fio-1 [000] 1.0: sched_switch: mm_page_free: pfn=1")),
        LineFault::Ticks(_) => LineFault::Ticks(quoted("fio-1 [000] 12345678: mm_page_free: pfn=1")),
        LineFault::Missing { .. } => LineFault::Missing { event: "mm_page_free", field: "pfn" },
        LineFault::Repeated { .. } => LineFault::Repeated { event: "mm_page_free", field: "pfn" },
        LineFault::Number { .. } => LineFault::Number { event: "mm_page_free", field: "pfn", text: quoted("zz\x1b") },
        LineFault::Range { .. } => LineFault::Range { event: "mm_page_free", field: "order", value: 99, limit: 63 },
        LineFault::Flag(_) => LineFault::Flag(quoted("GFP_NO")),
        LineFault::Bits(_) => BitsFault::Atomic { value: 0xa20 }.into(),
        LineFault::Migratetype(_) => LineFault::Migratetype(9),
        LineFault::Contradiction { .. } => LineFault::Contradiction { value: 2, gfp: GFP_KERNEL },
        LineFault::Numbering => LineFault::Numbering,
        LineFault::PageTable { .. } => LineFault::PageTable { address: 0x10 },
        LineFault::Descriptor { .. } => LineFault::Descriptor { address: 0x1001, base: 0x1000 },
        LineFault::FrameAbove { .. } => LineFault::FrameAbove { address: 0x1000_0000, pfn: Pfn(9), end: Pfn(8) },
    );
    let kernels = Kernels::ALL;
    every!(BitsFault:
        BitsFault::Doubtful { .. } => BitsFault::Doubtful { value: 0x14000c0, doubtful: 0x1400000, kernels },
        BitsFault::Unknown { .. } =>
            BitsFault::Unknown { value: 0x200, unknown: 0x200, kernels: Kernels::of(KernelVersion::new(6, 3)) },
        BitsFault::Atomic { .. } => BitsFault::Atomic { value: 0xa20 },
    );
    every!(ProcFault:
        ProcFault::Expected { .. } => ProcFault::Expected { expected: "a number", found: quoted("lots") },
        ProcFault::Missing { .. } => ProcFault::Missing { node: 0, zone: "Normal".to_owned(), field: "spanned" },
        ProcFault::Columns { .. } => ProcFault::Columns { expected: 11, found: 3 },
        ProcFault::Empty(_) => ProcFault::Empty("zone"),
        ProcFault::MigrateType(_) => ProcFault::MigrateType(quoted("Fast")),
        ProcFault::NotText(_) => ProcFault::NotText(7),
        ProcFault::Length(_) => ProcFault::Length(3),
        ProcFault::TooMany(_) => ProcFault::TooMany(1 << 32),
    );
}

#[test]
fn of_files_with_numbers() {
    every!(CompactFault:
        CompactFault::NotOurs => CompactFault::NotOurs,
        CompactFault::Version(_) => CompactFault::Version(99),
        CompactFault::Unfinished => CompactFault::Unfinished,
        CompactFault::Truncated(_) => CompactFault::Truncated("the header".to_owned()),
        CompactFault::Checksum(_) => CompactFault::Checksum("block 7".to_owned()),
        CompactFault::Misplaced(_) => CompactFault::Misplaced("a second list of names".to_owned()),
        CompactFault::Length { .. } => CompactFault::Length { what: "a block", value: 9, limit: 8 },
        CompactFault::Mismatch(_) => CompactFault::Mismatch("a block"),
        CompactFault::Value(_) => CompactFault::Value("a record"),
        CompactFault::Compression(_) => CompactFault::Compression("a block"),
        CompactFault::Count { .. } => CompactFault::Count { what: "records", found: 3, header: 4 },
    );
    every!(RawFault:
        RawFault::Missing { .. } => RawFault::Missing { what: "mm_page_free".to_owned(), field: "pfn" },
        RawFault::Expected { .. } => RawFault::Expected { expected: "a field", found: quoted("print fmt") },
        RawFault::UnknownEvent(_) => RawFault::UnknownEvent(quoted("sched_switch")),
        RawFault::Size(..) => RawFault::Size("pfn".to_owned(), 3),
        RawFault::Short { .. } => RawFault::Short { found: 8, needed: 16 },
        RawFault::Beyond { .. } => RawFault::Beyond { at: 4080 },
        RawFault::NoField { .. } => RawFault::NoField { field: "pfn", found: 4 },
        RawFault::Value { .. } => RawFault::Value { field: "order", value: 99 },
        RawFault::Cut(_) => RawFault::Cut(3),
        RawFault::InPage { .. } => RawFault::InPage { number: 3, fault: Box::new(RawFault::Beyond { at: 4080 }) },
    );
}

#[test]
fn of_replays_and_recordings() {
    every!(ZoneFault:
        ZoneFault::NoStart => ZoneFault::NoStart,
        ZoneFault::Above => ZoneFault::Above,
        ZoneFault::Nodes(_) => ZoneFault::Nodes(65),
        ZoneFault::Cpu(_) => ZoneFault::Cpu(70_000),
        ZoneFault::Kind => ZoneFault::Kind,
        ZoneFault::Twice => ZoneFault::Twice,
        ZoneFault::Overlap { .. } => ZoneFault::Overlap { node: 1, zone: "DMA32".to_owned() },
    );
    let known = PfnRange { start: Pfn(0x1000), end: Pfn(0x2000) };
    let block = PfnRange { start: Pfn(0x9000), end: Pfn(0x9008) };
    every!(ReplayError:
        ReplayError::Trace(_) => TraceError::at("FILE", 7, LineFault::Unterminated).into(),
        ReplayError::Empty(_) => ReplayError::Empty(file()),
        ReplayError::NotAFile(_) => ReplayError::NotAFile(file()),
        ReplayError::Changed { .. } => ReplayError::Changed { file: file(), first: 7, then: 8 },
        ReplayError::Zone { .. } =>
            ReplayError::Zone { file: file(), node: 0, zone: "Normal".to_owned(), fault: ZoneFault::Twice },
        ReplayError::TooLarge { .. } =>
            ReplayError::TooLarge { file: file(), first: Pfn(0), last: Pfn(1 << 45), bytes: 1 << 50, limit: 4 << 30 },
        ReplayError::TooManyFrames { .. } => ReplayError::TooManyFrames {
            file: file(), first: Pfn(0), last: Pfn(1 << 45), frames: 1 << 45, limit: 1 << 31,
        },
        ReplayError::Pageblock { .. } =>
            ReplayError::Pageblock { file: file(), event: 3, said: Order(13), known: Order(9) },
        ReplayError::Outside { .. } => ReplayError::Outside { file: file(), event: 3, block, known },
        ReplayError::Scattered { .. } => ReplayError::Scattered { file: file(), limit: 65_536 },
        ReplayError::Boot(_) => BootError::NoMemory.into(),
        ReplayError::Invalid { .. } => ReplayError::Invalid { when: "after the last event", violation: violation() },
    );
    every!(ExplainError:
        ExplainError::Replay(_) => ReplayError::Empty(file()).into(),
        ExplainError::NoSuch { .. } => ExplainError::NoSuch { number: 7, count: 6 },
    );
    every!(RecordError:
        RecordError::NotReady(_) => RecordError::NotReady(vec!["tracefs: not mounted; mount it".to_owned()]),
        RecordError::Exists(_) => RecordError::Exists("DIR".to_owned()),
        RecordError::NotOwn(_) => RecordError::NotOwn("DIR".to_owned()),
        RecordError::File { .. } => RecordError::File { doing: "read", path: file(), error: denied() },
        RecordError::Command { .. } => RecordError::Command { program: "mak".to_owned(), error: denied() },
        RecordError::Trace(_) => TraceError::new("FILE", RawFault::Cut(3)).into(),
        RecordError::Full(_) => RecordError::Full("DIR".to_owned()),
        RecordError::Kept { .. } =>
            RecordError::Kept {
                error: Box::new(RecordError::Exists("DIR".to_owned())), spool: "DIR/spool".to_owned(), is_convertible: true,
            },
        RecordError::Damaged { .. } => RecordError::Damaged { path: file(), why: "no JSON".to_owned() },
    );
}

#[test]
fn of_views_and_comparisons() {
    every!(KernelError:
        KernelError::Read { .. } => KernelError::Read { path: "/proc/zoneinfo".into(), error: denied() },
        KernelError::Malformed(_) => TraceError::at("/proc/zoneinfo", 3, ProcFault::Empty("zone")).into(),
    );
    let nobody = framewright_rt::export::fetch("/nowhere.sock", framewright_rt::ReportFile::VmStat).unwrap_err();
    every!(SocketError:
        SocketError::Fetch(_) => nobody.into(),
        SocketError::Malformed(_) => TraceError::at("zoneinfo", 3, ProcFault::Empty("zone")).into(),
    );
    every!(ReadError:
        ReadError::File { .. } => ReadError::File { file: file(), reason: denied() },
        ReadError::Large { .. } => ReadError::Large { file: file() },
        ReadError::Empty { .. } => ReadError::Empty { file: file() },
        ReadError::Json { .. } => ReadError::Json { file: file(), line: 3, reason: "expected value".to_owned() },
        ReadError::Other { .. } => ReadError::Other { file: file(), line: 1, what: "a list".to_owned() },
        ReadError::Shape { .. } => ReadError::Shape {
            file: file(), line: 1, command: "framewright sim", reason: "missing field `cpus`".to_owned(),
        },
    );
    every!(FormError:
        FormError::NotSimulated(_) => FormError::NotSimulated("framewright bench"),
        FormError::NoPageBench(_) => FormError::NoPageBench("page-fault1".to_owned()),
    );
    every!(CompareError:
        CompareError::Read(_) => ReadError::Empty { file: file() }.into(),
        CompareError::Kinds(..) =>
            CompareError::Kinds("a".to_owned(), "framewright sim", "b".to_owned(), "framewright bench"),
        CompareError::NoAllocators(_) => CompareError::NoAllocators("framewright sim"),
        CompareError::Only(..) => CompareError::Only("rand".to_owned(), "page-fault1-8".to_owned(), "throughput".to_owned()),
        CompareError::Nothing(_) => CompareError::Nothing(file()),
        CompareError::Few { .. } =>
            CompareError::Few { row: "page-fault1-8".to_owned(), runs: "1 measurement".to_owned(), kind: Files::Sim },
        CompareError::OneSide => CompareError::OneSide,
    );
    every!(CalibrateError:
        CalibrateError::Path(_) => CalibrateError::Path("repeat: ran out of memory".to_owned()),
        CalibrateError::Implausible { .. } => CalibrateError::Implausible {
            path: "order 0".to_owned(), native: "2.0".to_owned(), what: "an instruction", found: "-0.1".to_owned(),
        },
        CalibrateError::Machine(_) => MachineError::Unknown { name: "nowhere".to_owned() }.into(),
    );
}

#[test]
fn of_this_machine() {
    let (path, what) = ("/sys/devices/system/cpu/online".to_owned(), "no such file".to_owned());
    every!(HostError:
        HostError::Unreadable { .. } => HostError::Unreadable { path: path.clone(), what: what.clone() },
        HostError::Malformed { .. } =>
            HostError::Malformed { path: path.clone(), text: "0-".to_owned(), wanted: "list of CPUs" },
        HostError::Uneven { .. } =>
            HostError::Uneven { part: "sockets", of: "cores", counts: "4, 3".to_owned() },
        HostError::NoCache { .. } => HostError::NoCache { path: "/sys/devices/system/cpu/cpu0/cache".to_owned(), level: 2 },
        HostError::Pin { .. } => HostError::Pin { cpu: 3, what: "Invalid argument (os error 22)".to_owned() },
        HostError::Memory { .. } => HostError::Memory { mib: 64, what: "Cannot allocate memory (os error 12)".to_owned() },
    );
}

#[test]
fn of_simulated_machines() {
    let (name, what) = ("generic:2x2".to_owned(), "has two numbers".to_owned());
    every!(MachineError:
        MachineError::Unknown { .. } => MachineError::Unknown { name: "skylake".to_owned() },
        MachineError::Shape { .. } => MachineError::Shape { name: name.clone(), what: what.clone() },
        MachineError::Unreadable { .. } => MachineError::Unreadable { file: file(), what: "no such file".to_owned() },
        MachineError::Toml { .. } => MachineError::Toml { file: file(), what: "line 3: expected `=`".to_owned() },
        MachineError::Entry { .. } =>
            MachineError::Entry { file: file(), key: "latency.l1".to_owned(), what: "is missing".to_owned() },
    );
    every!(SpecError:
        SpecError::Name { .. } => SpecError::Name { name: "page-fault7".to_owned(), names: vec!["bulk", "rand"] },
        SpecError::Key { .. } => SpecError::Key { workload: "bulk", key: "size".to_owned(), keys: vec!["order"] },
        SpecError::Twice { .. } => SpecError::Twice { workload: "bulk", key: "order".to_owned() },
        SpecError::Form { .. } =>
            SpecError::Form { workload: "bulk", part: "order".to_owned(), example: "order=0".to_owned() },
        SpecError::Value { .. } => SpecError::Value {
            workload: "bulk", key: "order", value: "high".to_owned(), form: "a number from 0 to 10".to_owned(),
        },
        SpecError::Ops { .. } => SpecError::Ops { path: "two.ops".to_owned(), reason: "line 3: no order".to_owned() },
    );
    every!(ScheduleError:
        ScheduleError::Name => ScheduleError::Name,
        ScheduleError::Accesses(_) => ScheduleError::Accesses("0".to_owned()),
    );
    every!(SetupError:
        SetupError::Cpus { .. } => setup(),
        SetupError::Stack(_) => SetupError::Stack(3),
    );
}

#[test]
fn of_simulated_runs() {
    let request = Request::new(GFP_KERNEL, 3);
    let error = AllocError::BadNode(NodeId(7));
    every!(Cause:
        Cause::Setup(_) => setup().into(),
        Cause::Boot(_) => Cause::Boot(BootError::NoMemory),
        Cause::Unfit(_) => Cause::Unfit("the list is for 2 CPUs".to_owned()),
        Cause::NoMemory { .. } => Cause::NoMemory { cpu: 1, request, error, frames: 2048 },
        Cause::Free { .. } => Cause::Free { cpu: 1, pfn: Pfn(7), error: FreeError::AlreadyFree(Pfn(7)) },
        Cause::Deadlock(_) => deadlock().into(),
        Cause::Violation(_) => violation().into(),
        Cause::Disorder(_) => Cause::Disorder("a page is there twice".to_owned()),
        Cause::Lost(_) => Cause::Lost(3),
    );
    every!(thpfioscale::Failure:
        thpfioscale::Failure::Cpus { .. } => thpfioscale::Failure::Cpus { machine: "tiny".to_owned(), cpus: 2 },
        thpfioscale::Failure::Boot(_) => thpfioscale::Failure::Boot(BootError::NoMemory),
        thpfioscale::Failure::Setup(_) => setup().into(),
        thpfioscale::Failure::Deadlock(_) => deadlock().into(),
        thpfioscale::Failure::Memory { .. } => thpfioscale::Failure::Memory { request, error },
        thpfioscale::Failure::Disorder(_) => thpfioscale::Failure::Disorder(violation()),
        thpfioscale::Failure::Lost(_) => thpfioscale::Failure::Lost(3),
    );
}

#[test]
fn of_checks_and_measurements() {
    every!(MlcError:
        MlcError::Setup(_) => setup().into(),
        MlcError::Stuck(_) => deadlock().into(),
    );
    every!(SpeedError:
        SpeedError::Machine(_) => MachineError::Unknown { name: "nowhere".to_owned() }.into(),
        SpeedError::Setup(_) => setup().into(),
    );
    every!(Trouble:
        Trouble::OutOfMemory { .. } => Trouble::OutOfMemory { held: 16 },
        Trouble::Refused { .. } => Trouble::Refused { block: 0x1000 },
        Trouble::Twice { .. } => Trouble::Twice { block: 0x1000 },
        Trouble::Setup(_) => Trouble::Setup("no memory".to_owned()),
    );
    let case = "seed 7\nplant no-heavy-fence\nmax-order 4\npageblock-order 2\n\
                memory 0x0..0x40 node 0\nmemory 0x40..0x80 node 1\ncpus 0 1\n\
                dma-end 0x0\ndma32-end 0x0\n\nrun-on 1\na1 = alloc order 0 GFP_KERNEL\nfree a1\nvalidate\n";
    let wrong = Wrong { kind: Kind::Census, text: "3 frames lost".to_owned() };
    let failure = Failure { wrong, rests: 2, case: case.parse().unwrap(), settings: None };
    every!(StressError:
        StressError::Failed(_) => StressError::Failed(Box::new(failure)),
        StressError::Setup(_) => setup().into(),
        StressError::Boot(_) => StressError::Boot(BootError::NoMemory.to_string()),
        StressError::NoField(_) => StressError::NoField("fire".to_owned()),
    );
}
