//! The three calls of which `ci/text.sh` measures the code: boot, alloc and free.

#[cfg(not(feature = "text-kit"))]
pub use bare::{framewright_text_alloc, framewright_text_boot, framewright_text_free};
#[cfg(feature = "text-kit")]
pub use through_kit::{framewright_text_alloc, framewright_text_boot, framewright_text_free};

/// The core's own calls.
#[cfg(not(feature = "text-kit"))]
mod bare {
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
}

/// The calls of a kernel with the kit: the descriptors' bytes are asked for and cut here as well.
#[cfg(feature = "text-kit")]
mod through_kit {
    use framewright::config::Config;
    use framewright::error::FreeError;
    use framewright::request::Request;
    use framewright::units::{Order, Pfn, PfnRange};
    use framewright_kernel::{Error, bytes, place};

    use crate::kit::{PAGES, Small};

    /// Asks for the bytes and the place of the descriptors, and boots.
    ///
    /// # Errors
    /// Those of [`framewright_kernel::Framewright::boot`].
    #[unsafe(no_mangle)]
    pub fn framewright_text_boot(config: &Config<'_>, block: fn(PfnRange) -> &'static mut [u8]) -> Result<bool, Error> {
        let within = PfnRange::new(0, u64::MAX);
        let Some(own) = place(config, bytes::<Small>(config)?, within) else { return Ok(false) };
        PAGES.boot(&Small, &Config { reserved: &[own], ..*config }, own, block(own)).map(|_| true)
    }

    /// Allocates a block.
    #[unsafe(no_mangle)]
    pub fn framewright_text_alloc(request: &Request) -> Option<Pfn> {
        PAGES.get()?.alloc(request).ok()
    }

    /// Frees a block.
    #[unsafe(no_mangle)]
    pub fn framewright_text_free(pfn: Pfn, order: Order) -> Option<Result<(), FreeError>> {
        Some(PAGES.get()?.free(pfn, order))
    }
}
