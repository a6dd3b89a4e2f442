//! What the core does with a per-CPU variable of a machine.

/// What the core does with a value of one CPU.
///
/// A closure, or a type of the core whose call is always inlined: a machine that calls it in two places would otherwise
/// get a call out of line.
pub trait Operation<T> {
    /// Result of an operation that succeeds.
    type Output;

    /// Does it; `None` if it changed nothing.
    fn run(&self, value: &T) -> Option<Self::Output>;
}

impl<T, R, F: Fn(&T) -> Option<R>> Operation<T> for F {
    type Output = R;

    #[inline(always)]
    fn run(&self, value: &T) -> Option<R> {
        self(value)
    }
}
