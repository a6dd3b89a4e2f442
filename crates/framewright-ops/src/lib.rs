//! The operation language of the Framewright page allocator: print, parse, generate, an oracle and a runner.
