//! One kept function for every public operation of the kit for kernels, as `calls.rs` has for the core.

use core::fmt::{self, Write};

use framewright::config::Config;
use framewright::error::FreeError;
use framewright::request::Request;
use framewright::units::{CpuId, Order, Pfn, PfnRange};
use framewright_kernel::{Context, Contexts, Error, Framewright, Kernel};

use crate::call::{Sink, call};
use crate::kit;

call! {
    fn kit_bytes(config: &'static Config<'static>) -> Result<usize, Error> {
        framewright_kernel::bytes::<kit::Small>(config)
    }

    fn kit_cell(unused: ()) -> bool {
        let () = unused;
        let cell: Framewright<kit::Small> = Framewright::new();
        cell.get().is_none()
    }

    fn kit_place(config: &'static Config<'static>, bytes: usize, within: PfnRange) -> Option<PfnRange> {
        framewright_kernel::place(config, bytes, within)
    }

    fn kit_boot_within(config: &'static Config<'static>, within: PfnRange, block: &'static mut [u8]) -> Result<bool, Error> {
        kit::PAGES.boot_within(&kit::Small, config, within, |_| block).map(|pages| pages.cpus() != 0)
    }

    fn kit_boot(
        config: &'static Config<'static>,
        own: PfnRange,
        block: &'static mut [u8]
    ) -> Result<bool, Error> {
        kit::PAGES.boot(&kit::Small, config, own, block).map(|pages| kit::PAGES.get().is_some_and(|got| core::ptr::eq(got, pages)))
    }

    fn kit_pair(request: Request) -> Option<Result<(), FreeError>> {
        kit::PAGES.get().and_then(|pages| {
            let cpu = pages.machine().kernel().cpu();
            let block = pages.alloc(&Request { order: request.order.min(Order(cpu as u8)), ..request }).ok()?;
            Some(pages.free(block, request.order))
        })
    }

    fn kit_pinned(record: CpuId, pfn: Pfn) -> Option<bool> {
        kit::PAGES.get().map(|pages| {
            // SAFETY: the functions here are compiled and linked, and never called.
            let pin = unsafe { pages.machine().pinned_at(record) };
            pages.free_listed(&pin, pfn, Order(0))
        })
    }

    fn kit_record(contexts: Contexts, context: Context, cpus: usize) -> (Option<usize>, usize, Option<usize>) {
        (contexts.set_of(context), contexts.sets(), kit::Small.record(cpus))
    }

    fn kit_tags(block: &'static mut [u8]) -> (Option<usize>, usize) {
        (kit::PAGES.get().map(framewright_kernel::tag_bytes), framewright_kernel::tag_words(block).len())
    }

    fn display_kit_error(sink: &'static mut Sink, error: Error) -> fmt::Result {
        write!(sink, "{error}")
    }
}
