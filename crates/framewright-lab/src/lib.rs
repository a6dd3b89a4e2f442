//! The framewright command: replay and measure page allocators.
