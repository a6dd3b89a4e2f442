use crate::top::X;
