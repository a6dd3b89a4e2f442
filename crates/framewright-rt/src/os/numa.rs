//! Which nodes of the machine memory lies on.
//!
//! Policies are set by address range (`mbind`), before the range is touched; pages that exist already stay. A set of
//! nodes uses the operating system's numbers, up to 64. The library for these calls (libnuma) is C; the calls are made
//! directly.
//!
//! # Why the unsafe code is right
//!
//! Neither call changes contents. `mbind` says where pages of a range will come from. `move_pages` without target nodes
//! moves nothing and writes one number to a local. The mask and the address that the kernel reads outlive the calls.

use framewright::{NodeId, NodeSet};
use framewright_table::ranges;
use rustix::io::Errno;

use super::call::{Call, OsError, attempt};
use super::mapping::Mapping;
use super::placement::Placement;

/// Where the kernel tells of the machine's nodes.
const SYSFS: &str = "/sys/devices/system/node";

/// Distances between some of the machine's nodes, row by row.
///
/// None if the kernel does not tell those of one node.
pub(crate) fn distances(nodes: &[NodeId]) -> Option<Vec<u8>> {
    let online = parse_list(&std::fs::read_to_string(format!("{SYSFS}/online")).ok()?)?;
    let mut table = Vec::new();
    for from in nodes {
        let row = std::fs::read_to_string(format!("{SYSFS}/node{}/distance", from.0)).ok()?;
        // A row has a column for each node online.
        let row: Vec<u8> = row.split_whitespace().map(|distance| distance.parse().ok()).collect::<Option<_>>()?;
        for to in nodes {
            let column = online.iter().position(|node| node == to)?;
            table.push(*row.get(column)?);
        }
    }
    Some(table)
}

/// Nodes in the kernel's notation: `0-2,5`. Those from 256 on are left out.
fn parse_list(text: &str) -> Option<Vec<NodeId>> {
    let nodes = ranges::<u32>(text)?.into_iter().flat_map(|run| run.map_while(|node| u8::try_from(node).ok()));
    Some(nodes.map(NodeId).collect())
}

/// Binds `len` bytes of a mapping from `at` on to nodes.
pub(crate) fn place(mapping: &Mapping, at: usize, len: usize, placement: Placement) -> Result<(), OsError> {
    assert!(at.checked_add(len).is_some_and(|end| end <= mapping.len()), "a placement outside of the mapping");
    let (mode, nodes) = match placement {
        Placement::Anywhere => return Ok(()),
        Placement::Bind(nodes) => (libc::MPOL_BIND, nodes),
        Placement::Prefer(node) => (libc::MPOL_PREFERRED, NodeSet::only(node)),
        Placement::Interleave(nodes) => (libc::MPOL_INTERLEAVE, nodes),
    };
    let start = mapping.start().as_ptr().wrapping_add(at);
    attempt(Call::Mbind, len, || {
        // The kernel reads one bit less than it is told.
        let bits = NodeId::LIMIT + 1;
        // SAFETY: a policy changes the source of pages, not their contents; the mask outlives the call.
        let result = unsafe { libc::syscall(libc::SYS_mbind, start, len, mode, &raw const nodes.0, bits, 0_u32) };
        errno_of(result)
    })
}

/// The node that a page's memory lies on; none if it has none yet.
pub(crate) fn node_of(address: *const u8) -> Result<Option<NodeId>, OsError> {
    let mut status = 0_i32;
    attempt(Call::MovePages, 1, || {
        // SAFETY: without target nodes nothing is moved; the kernel writes one status and reads one address.
        let result = unsafe {
            let (pages, nodes) = (&raw const address, std::ptr::null::<i32>());
            libc::syscall(libc::SYS_move_pages, 0, 1_usize, pages, nodes, &raw mut status, 0)
        };
        errno_of(result)
    })?;
    Ok(u8::try_from(status).ok().map(NodeId))
}

fn errno_of(result: libc::c_long) -> rustix::io::Result<()> {
    if result == 0 {
        return Ok(());
    }
    let errno = std::io::Error::last_os_error().raw_os_error();
    Err(Errno::from_raw_os_error(errno.unwrap_or(libc::EINVAL)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_beyond_the_largest_are_left_out() {
        assert_eq!(parse_list("0,254-300\n"), Some(vec![NodeId(0), NodeId(254), NodeId(255)]));
    }

    #[test]
    fn a_node_is_near_to_itself() {
        if let Some(table) = distances(&[NodeId(0), NodeId(0)]) {
            assert_eq!(table, [10; 4]);
        }
        assert_eq!(distances(&[NodeId(0), NodeId(200)]), None);
    }
}
