//! Machines of tests that pass on to [`framewright_rt::Native`] all but the calls that the test observes.

/// The items that such a machine takes from its field of that type: words, pins, interrupt guards and fences.
///
/// A second name is the test's own word around each of them.
macro_rules! runs_on_threads {
    ($field:ident) => {
        type U8 = <Native as Machine>::U8;
        type U16 = <Native as Machine>::U16;
        type U32 = <Native as Machine>::U32;
        type U64 = <Native as Machine>::U64;
        type Usize = <Native as Machine>::Usize;
        runs_on_threads!(@calls $field);
    };
    ($field:ident, $word:ident) => {
        type U8 = $word<<Native as Machine>::U8>;
        type U16 = $word<<Native as Machine>::U16>;
        type U32 = $word<<Native as Machine>::U32>;
        type U64 = $word<<Native as Machine>::U64>;
        type Usize = $word<<Native as Machine>::Usize>;
        runs_on_threads!(@calls $field);
    };
    (@calls $field:ident) => {
        type Pin<'a> = <Native as Machine>::Pin<'a>;
        type Irq<'a> = <Native as Machine>::Irq<'a>;
        type PerCpu<T> = framewright::machine::NoPerCpu;

        fn pin(&self) -> Self::Pin<'_> {
            self.$field.pin()
        }

        fn irq_save(&self) -> Self::Irq<'_> {
            self.$field.irq_save()
        }

        fn fence(&self) {
            self.$field.fence();
        }
    };
}

pub(crate) use runs_on_threads;
