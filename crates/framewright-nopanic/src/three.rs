//! The three calls of which `ci/text.sh` measures the code: boot, alloc and free.

use framewright::config::Config;
use framewright::error::{AllocError, BootError, FreeError};
use framewright::request::Request;
use framewright::units::{Order, Pfn};
use framewright::{Allocator, Parts};

use crate::kernel::Kernel;

type Pages = Allocator<'static, Kernel>;

/// Boots.
///
/// # Errors
/// Those of [`Allocator::boot`].
#[unsafe(no_mangle)]
pub fn framewright_text_boot(
    kernel: Kernel,
    config: &Config<'_>,
    parts: Parts<'static, Kernel>,
) -> Result<Pages, BootError> {
    Allocator::boot(kernel, config, parts)
}

/// Allocates a block.
///
/// # Errors
/// Those of [`Allocator::alloc`].
#[unsafe(no_mangle)]
pub fn framewright_text_alloc(pages: &Pages, request: &Request) -> Result<Pfn, AllocError> {
    pages.alloc(request)
}

/// Frees a block.
///
/// # Errors
/// Those of [`Allocator::free`].
#[unsafe(no_mangle)]
pub fn framewright_text_free(pages: &Pages, pfn: Pfn, order: Order) -> Result<(), FreeError> {
    pages.free(pfn, order)
}
