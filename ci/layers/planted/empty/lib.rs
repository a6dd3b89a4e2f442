//! A crate without modules. // finds tree
