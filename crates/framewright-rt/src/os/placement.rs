//! Where memory is to lie, by the nodes of the machine.

use std::fmt;

use framewright::{NodeId, NodeSet};

/// Where a node's memory lies. Nodes are numbered as the operating system numbers them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Placement {
    /// Anywhere: the arena's node is a label, as for a layout that is only simulated.
    #[default]
    Anywhere,
    /// On these nodes only.
    Bind(NodeSet),
    /// On this node as long as it has memory.
    Prefer(NodeId),
    /// Page by page on these nodes in turn.
    Interleave(NodeSet),
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = |f: &mut fmt::Formatter<'_>, name, nodes: NodeSet| {
            f.write_str(name)?;
            let all = (0..NodeId::LIMIT as u8).map(NodeId).filter(|&node| nodes.contains(node));
            all.enumerate().try_for_each(|(i, node)| write!(f, "{}{}", if i == 0 { " " } else { "," }, node.0))
        };
        match *self {
            Placement::Anywhere => f.write_str("anywhere"),
            Placement::Bind(set) => nodes(f, "bind", set),
            Placement::Prefer(node) => nodes(f, "prefer", NodeSet::only(node)),
            Placement::Interleave(set) => nodes(f, "interleave", set),
        }
    }
}
