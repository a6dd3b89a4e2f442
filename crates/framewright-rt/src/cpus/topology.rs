//! Which processors this machine may have, and the memory node of each, from sysfs.
//!
//! *Possible* processors, not those online: a processor that is plugged in later has its number, and its slot, already.

use std::fs;
use std::path::Path;

use framewright::units::NodeId;
use framewright_table::ranges;
use rustix::thread::{CpuSet, sched_getaffinity};

const CPUS: &str = "/sys/devices/system/cpu/possible";
const NODES: &str = "/sys/devices/system/node";

/// The node of each possible processor, by its number; node 0 where the kernel does not say.
pub(super) fn processors() -> Vec<NodeId> {
    let listed = fs::read_to_string(CPUS).ok().and_then(|list| parse(&list)?.last().copied());
    let count = listed.map_or_else(configured, |last| last + 1);
    let mut nodes = vec![NodeId(0); count];
    for (node, cpus) in nodes_below(Path::new(NODES)) {
        for cpu in cpus {
            if let Some(entry) = nodes.get_mut(cpu) {
                *entry = node;
            }
        }
    }
    nodes
}

/// Processors of each node that has a folder in `root`.
fn nodes_below(root: &Path) -> Vec<(NodeId, Vec<usize>)> {
    let node = |entry: fs::DirEntry| {
        let number = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
        let cpus = parse(&fs::read_to_string(entry.path().join("cpulist")).ok()?)?;
        Some((NodeId(number), cpus))
    };
    fs::read_dir(root).into_iter().flatten().flatten().filter_map(node).collect()
}

/// As many as there are up to the last one that this thread may run on. A later one has no slot.
fn configured() -> usize {
    let allowed = sched_getaffinity(None).ok();
    let last = allowed.and_then(|allowed| (0..CpuSet::MAX_CPU).rev().find(|&cpu| allowed.is_set(cpu)));
    last.map_or(1, |last| last + 1)
}

/// Reads a list of the kernel's: numbers and ranges, ascending (`0-3,8,10-11`).
fn parse(list: &str) -> Option<Vec<usize>> {
    Some(ranges::<u16>(list)?.into_iter().flatten().map(usize::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_come_from_their_folders() {
        let root = std::env::temp_dir().join(format!("framewright-nodes-{}", std::process::id()));
        for (node, list) in [("node0", "0-1"), ("node3", "2"), ("nodes", "9"), ("node4", "?")] {
            fs::create_dir_all(root.join(node)).unwrap();
            fs::write(root.join(node).join("cpulist"), list).unwrap();
        }
        let mut nodes = nodes_below(&root);
        nodes.sort();
        assert_eq!(nodes, [(NodeId(0), vec![0, 1]), (NodeId(3), vec![2])]);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(nodes_below(&root), []);
    }

    #[test]
    fn this_machine_has_processors() {
        assert!(!processors().is_empty());
        assert!(configured() <= processors().len());
    }
}
