pub(crate) fn dig() {}

/// Also the name of a type in middle/leaf.rs.
struct Leaf; // finds name

told!(crate::top::X, { struct Hidden; }); // finds import
