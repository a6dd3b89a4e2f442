//! The files that a process can export of an allocator, and their names.
//!
//! An asker writes a name: `zoneinfo`, or `node0/numastat`. A path is the file's place on Linux, below the folder that
//! stands for the root: `proc/zoneinfo`, `sys/devices/system/node/node0/numastat`.

use std::fmt;
use std::str::FromStr;

use framewright::report::{
    BuddyInfo, ExtfragIndex, NodeNumaStat, NodeVmStat, PageTypeInfo, Source, UnusableIndex, VmStat, ZoneInfo,
};
use framewright::units::{NodeId, ZoneIdx, ZoneKind};
use framewright_table::ranges;

/// Length limit of a name in bytes.
///
/// An error message can still quote a name that is too long.
pub(super) const NAME_LIMIT: usize = 64;

/// A file about an allocator, as Linux has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ReportFile {
    /// `/proc/buddyinfo`.
    BuddyInfo,
    /// `/proc/pagetypeinfo`.
    PageTypeInfo,
    /// `/proc/zoneinfo`.
    ZoneInfo,
    /// `/proc/vmstat`.
    VmStat,
    /// debugfs's `extfrag/unusable_index`.
    UnusableIndex,
    /// debugfs's `extfrag/extfrag_index`.
    ExtfragIndex,
    /// Which nodes there are: `/sys/devices/system/node/online`, as `0-1,3`.
    Online,
    /// A node's `numastat`.
    NumaStat(NodeId),
    /// A node's `vmstat`.
    NodeVmStat(NodeId),
}

impl ReportFile {
    /// The files that are there once, whatever the nodes.
    pub const OF_ALL: [ReportFile; 7] = [
        ReportFile::BuddyInfo,
        ReportFile::PageTypeInfo,
        ReportFile::ZoneInfo,
        ReportFile::VmStat,
        ReportFile::UnusableIndex,
        ReportFile::ExtfragIndex,
        ReportFile::Online,
    ];

    /// The files that a node has.
    pub const fn of_node(node: NodeId) -> [ReportFile; 2] {
        [ReportFile::NumaStat(node), ReportFile::NodeVmStat(node)]
    }

    /// Where Linux has it, from the root on but without its slash.
    pub fn path(&self) -> String {
        match self {
            ReportFile::BuddyInfo | ReportFile::PageTypeInfo | ReportFile::ZoneInfo | ReportFile::VmStat => {
                format!("proc/{self}")
            }
            ReportFile::UnusableIndex | ReportFile::ExtfragIndex => format!("sys/kernel/debug/extfrag/{self}"),
            ReportFile::Online | ReportFile::NumaStat(_) | ReportFile::NodeVmStat(_) => {
                format!("sys/devices/system/node/{self}")
            }
        }
    }

    /// Prints the file for an allocator, byte for byte as Linux lays it out.
    ///
    /// None for a file of a node that does not exist.
    pub fn text<S: Source + ?Sized>(&self, source: &S) -> Option<String> {
        match *self {
            ReportFile::BuddyInfo => Some(BuddyInfo(source).to_string()),
            ReportFile::PageTypeInfo => Some(PageTypeInfo(source).to_string()),
            ReportFile::ZoneInfo => Some(ZoneInfo(source).to_string()),
            ReportFile::VmStat => Some(VmStat(source).to_string()),
            ReportFile::UnusableIndex => Some(UnusableIndex(source).to_string()),
            ReportFile::ExtfragIndex => Some(ExtfragIndex(source).to_string()),
            ReportFile::Online => Some(format!("{}\n", Nodes(online(source)))),
            ReportFile::NumaStat(node) => of_node(NodeNumaStat { source, node }.to_string()),
            ReportFile::NodeVmStat(node) => of_node(NodeVmStat { source, node }.to_string()),
        }
    }
}

/// A node's file; an offline one has nothing in it.
fn of_node(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// The nodes of an allocator that are online, in ascending order.
pub fn online<S: Source + ?Sized>(source: &S) -> Vec<NodeId> {
    let nodes = (0..source.nr_nodes().min(NodeId::LIMIT)).map(|node| NodeId(node as u8));
    let has_zone = |node| ZoneKind::ALL.into_iter().any(|kind| source.zone(ZoneIdx::of(node, kind)).is_some());
    nodes.filter(|&node| has_zone(node)).collect()
}

impl fmt::Display for ReportFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReportFile::BuddyInfo => f.write_str("buddyinfo"),
            ReportFile::PageTypeInfo => f.write_str("pagetypeinfo"),
            ReportFile::ZoneInfo => f.write_str("zoneinfo"),
            ReportFile::VmStat => f.write_str("vmstat"),
            ReportFile::UnusableIndex => f.write_str("unusable_index"),
            ReportFile::ExtfragIndex => f.write_str("extfrag_index"),
            ReportFile::Online => f.write_str("online"),
            ReportFile::NumaStat(node) => write!(f, "node{}/numastat", node.0),
            ReportFile::NodeVmStat(node) => write!(f, "node{}/vmstat", node.0),
        }
    }
}

/// A text names no file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "there is no file '{name}'; there are {}, and of each node N: nodeN/numastat, nodeN/vmstat",
    ReportFile::OF_ALL.map(|file| file.to_string()).join(", ")
)]
pub struct UnknownFile {
    /// The text's beginning, with everything escaped that is not plain ASCII.
    name: String,
}

/// Reads a request: the bytes of a line, without its end.
pub(super) fn parse(line: &[u8]) -> Result<ReportFile, UnknownFile> {
    let unknown = || UnknownFile { name: line[..line.len().min(NAME_LIMIT)].escape_ascii().to_string() };
    let text = str::from_utf8(line).map_err(|_| unknown())?;
    if let Some(&file) = ReportFile::OF_ALL.iter().find(|file| file.to_string() == text) {
        return Ok(file);
    }
    let (node, name) = text.strip_prefix("node").and_then(|text| text.split_once('/')).ok_or_else(unknown)?;
    let number =
        node.parse().ok().filter(|number: &u8| number.to_string() == node && usize::from(*number) < NodeId::LIMIT);
    match (number.map(NodeId), name) {
        (Some(node), "numastat") => Ok(ReportFile::NumaStat(node)),
        (Some(node), "vmstat") => Ok(ReportFile::NodeVmStat(node)),
        _ => Err(unknown()),
    }
}

impl FromStr for ReportFile {
    type Err = UnknownFile;

    fn from_str(text: &str) -> Result<ReportFile, UnknownFile> {
        parse(text.as_bytes())
    }
}

/// Node numbers, in ascending order, as Linux writes a set: `0-2,5`.
pub(super) struct Nodes(pub(super) Vec<NodeId>);

impl fmt::Display for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.chunk_by(|before, node| node.0 == before.0 + 1);
        for (at, run) in runs.enumerate() {
            f.write_str(if at == 0 { "" } else { "," })?;
            match run {
                [first, .., last] => write!(f, "{}-{}", first.0, last.0)?,
                [only] => write!(f, "{}", only.0)?,
                [] => {}
            }
        }
        Ok(())
    }
}

impl Nodes {
    /// Reads a set of nodes as Linux or [`ReportFile::Online`] prints it; none if it is none.
    pub(super) fn parse(text: &str) -> Option<Nodes> {
        let nodes: Vec<NodeId> = ranges::<u8>(text)?.into_iter().flatten().map(NodeId).collect();
        let are_known = nodes.last().is_none_or(|last| last.index() < NodeId::LIMIT);
        (are_known && nodes.is_sorted_by(|a, b| a < b)).then_some(Nodes(nodes))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all() -> impl Iterator<Item = ReportFile> {
        let of_nodes = (0..NodeId::LIMIT as u8).flat_map(|node| ReportFile::of_node(NodeId(node)));
        ReportFile::OF_ALL.into_iter().chain(of_nodes)
    }

    #[test]
    fn every_file_has_a_name_of_its_own() {
        for file in all() {
            let name = file.to_string();
            assert_eq!(parse(name.as_bytes()), Ok(file));
            assert_eq!(name.parse(), Ok(file));
            assert!(name.len() <= NAME_LIMIT && file.path().ends_with(&name));
        }
    }

    #[test]
    fn nodes_are_written_as_linux_does() {
        let cases: [(&str, &[u8]); 6] = [
            ("", &[]),
            ("0", &[0]),
            ("0-1", &[0, 1]),
            ("0,2", &[0, 2]),
            ("0-2,5", &[0, 1, 2, 5]),
            ("7-9,63", &[7, 8, 9, 63]),
        ];
        for (text, numbers) in cases {
            let nodes: Vec<NodeId> = numbers.iter().copied().map(NodeId).collect();
            assert_eq!(Nodes(nodes.clone()).to_string(), text);
            assert_eq!(Nodes::parse(&format!("{text}\n")).unwrap().0, nodes);
        }
        for wrong in ["1-", "-1", "a", "0-64", "2,1", "1,1", "0-255", "256", "1--2", "0 1"] {
            assert!(Nodes::parse(wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn what_names_nothing_is_quoted() {
        let told = |line: &[u8]| parse(line).unwrap_err().to_string();
        assert!(told(b"zone\tinfo\xff").starts_with("there is no file 'zone\\tinfo\\xff'; there are buddyinfo, "));
        assert!(told(&[b'a'; 5000]).len() < 300);
        for wrong in
            ["", "Zoneinfo", "zoneinfo ", " vmstat", "node/vmstat", "node00/vmstat", "node+1/vmstat", "node64/vmstat"]
        {
            assert!(wrong.parse::<ReportFile>().is_err(), "{wrong:?}");
        }
    }

    proptest! {
        /// Whatever is asked, the answer is a file of that very name, or one line of plain text.
        #[test]
        fn any_line_is_a_name_or_refused(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            match parse(&line) {
                Ok(file) => prop_assert_eq!(file.to_string().into_bytes(), line),
                Err(error) => prop_assert!(error.to_string().bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())),
            }
        }

        #[test]
        fn near_names_are_names_or_refused(
            name in "(node)?[0-9]{0,4}/?(numastat|vmstat|buddyinfo|zoneinfo|online)?[\n\0 ]?",
        ) {
            if let Ok(file) = name.parse::<ReportFile>() {
                prop_assert_eq!(file.to_string(), name);
            }
        }

        #[test]
        fn any_set_of_nodes_reads_back(numbers in proptest::collection::btree_set(0_u8..64, 0..64)) {
            let nodes: Vec<NodeId> = numbers.into_iter().map(NodeId).collect();
            prop_assert_eq!(Nodes::parse(&Nodes(nodes.clone()).to_string()).unwrap().0, nodes);
        }
    }
}
