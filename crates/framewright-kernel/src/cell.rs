//! The static cell that a kernel's allocator lies in, from its first instruction on.

use framewright::units::PfnRange;
use framewright::{Allocator, Config};

use crate::boot::{Carved, bytes, carve, check_place, measured, of_kernel, place};
use crate::error::Error;
use crate::kernel::{Contexts, Fences, Kernel};
use crate::machine::KernelMachine;
use crate::memory::{Carver, Once};

/// The allocator of a kernel.
pub type Pages<K> = Allocator<'static, KernelMachine<K>>;

/// Most reserved ranges that [`Framewright::boot_within`] takes: its stack has room for them.
const MOST_RESERVED: usize = 31;

/// A static cell for a kernel's allocator, which is booted once.
///
/// `static PAGES: Framewright<Mine> = Framewright::new();`
pub struct Framewright<K: Kernel>(Once<Pages<K>>);

impl<K: Kernel> Framewright<K> {
    /// Returns a cell without an allocator.
    #[expect(clippy::new_without_default, reason = "a static needs a constant, which a trait cannot give")]
    pub const fn new() -> Self {
        const {
            assert!(
                !(matches!(K::CONTEXTS, Contexts::InterruptsOff) && matches!(K::FENCES, Fences::Interrupts { .. })),
                "pins that hold interrupts off cannot wait for the fence of another CPU: take Fences::Full"
            );
        }
        Framewright(Once::new())
    }

    /// Boots the allocator with its descriptors where there is room for them; returns it.
    ///
    /// `within` is the memory that the kernel has mapped. The kernel maps frames to the memory itself: `map` is called
    /// with the place that was found, and returns it as bytes. It is called at most once, and not where the cell was
    /// booted before. [`Framewright::boot`] tells the rest.
    ///
    /// # Errors
    /// As [`Framewright::boot`]; or there is no place, or the configuration reserves more than 31 ranges.
    pub fn boot_within(
        &self,
        kernel: &'static K,
        config: &Config<'_>,
        within: PfnRange,
        map: impl FnOnce(PfnRange) -> &'static mut [u8],
    ) -> Result<&Pages<K>, Error> {
        let (given, most) = (config.reserved.len(), MOST_RESERVED);
        let mut reserved = [PfnRange::new(0, 0); MOST_RESERVED + 1];
        let needed = bytes::<K>(config)?;
        let own = place(config, needed, within).ok_or(Error::NoPlace { needed })?;
        let [first, others @ ..] = &mut reserved;
        *first = own;
        others.get_mut(..given).ok_or(Error::ManyReserved { given, most })?.copy_from_slice(config.reserved);
        let reserved = reserved.get(..=given).unwrap_or_default();
        self.boot_mapped(kernel, &Config { reserved, ..*config }, own, || map(own))
    }

    /// Boots the allocator with its descriptors in `block`, which lies in the frames `own`; returns it.
    ///
    /// All usable memory of the configuration is free afterwards, except what it reserves. `block` is
    /// [`bytes`](crate::bytes) long, of any alignment and with any contents ([`Kernel::starts_zeroed`] aside). The
    /// configuration reserves `own`, in one range, or it lies in a hole or reserved region. It is empty for a block
    /// that lies in no frame, such as a test's. The kernel chooses `Config::contexts` ([`Kernel::CONTEXTS`]),
    /// `Config::is_zeroed` ([`Kernel::starts_zeroed`]), and the mechanisms if it has some ([`Kernel::MECHANISMS`]).
    ///
    /// Context: one CPU, on which [`Kernel::pin`] and [`Kernel::cpu`] work. Others may follow.
    ///
    /// # Errors
    /// The configuration is wrong or does not reserve `own`, the block or `own` is too short, or the cell was booted
    /// before. Nothing has happened then, except to the contents of `block`.
    pub fn boot(
        &self,
        kernel: &'static K,
        config: &Config<'_>,
        own: PfnRange,
        block: &'static mut [u8],
    ) -> Result<&Pages<K>, Error> {
        self.boot_mapped(kernel, config, own, || block)
    }

    fn boot_mapped(
        &self,
        kernel: &'static K,
        config: &Config<'_>,
        own: PfnRange,
        map: impl FnOnce() -> &'static mut [u8],
    ) -> Result<&Pages<K>, Error> {
        if matches!(K::FENCES, Fences::OneCpu) && config.cpus.len() > 1 {
            return Err(Error::OneCpu(config.cpus.len()));
        }
        let config = Config { is_zeroed: kernel.starts_zeroed(), ..of_kernel::<K>(config) };
        let make = || {
            let (layout, needed) = measured::<K>(&config)?;
            check_place(&config, needed, own)?;
            let block = map();
            let given = block.len();
            if given < needed {
                return Err(Error::TooShort { needed, given });
            }
            let Carved { parts, nodes, room } = carve(&mut Carver::new(block), &config, &layout);
            Ok(Allocator::boot(KernelMachine { kernel, nodes, room }, &config, parts)?)
        };
        self.0.make(make).unwrap_or(Err(Error::Twice))
    }

    /// Returns the allocator, once it is booted.
    #[inline(always)]
    pub fn get(&self) -> Option<&Pages<K>> {
        self.0.get()
    }
}
