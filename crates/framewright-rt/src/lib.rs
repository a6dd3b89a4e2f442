//! User-space runtime of the Framewright page allocator.
