//! Makes the free lists of a zone as a report shows them.

use framewright::{MigrateType, Order, Pfn, PfnRange};

use crate::language::{Handle, Outcome, Wrong};
use crate::play::player::{Player, granted};

impl Player<'_> {
    /// Frees blocks out of what a handle holds, so that the lists of `migratetype` gain `blocks[order]` of each order.
    ///
    /// Only largest blocks that the handle holds whole are used, and get the type. Does nothing if they are too few.
    pub(super) fn free_blocks(
        &self,
        handle: Handle,
        migratetype: MigrateType,
        blocks: &[u64],
    ) -> Result<Outcome, Wrong> {
        let geometry = self.pages.geometry();
        let held = self.oracle.borrow().blocks(handle);
        let whole = held.into_iter().filter(|block| block.1 == geometry.max_order).map(|block| block.0);
        let Some(places) = Places::plan(blocks, geometry.max_order, whole) else { return Ok(Outcome::Skipped) };
        for &pfn in &places.opened {
            for pageblock in PfnRange::block(pfn, geometry.max_order).blocks(geometry.pageblock_order) {
                self.set_type(pageblock.0, migratetype)?;
            }
        }
        let mut frames = 0;
        for &(pfn, order) in &places.blocks {
            let range = PfnRange::block(pfn, order);
            granted(self.pages.free_range(range), "free", range)?;
            self.oracle.borrow_mut().release(range)?;
            frames += range.frames();
        }
        self.drained(None, self.pages.drain_all())?;
        Ok(Outcome::Frames(frames))
    }
}

/// Places for blocks of which no two merge.
struct Places {
    /// The largest blocks that are used.
    opened: Vec<Pfn>,
    /// The blocks.
    blocks: Vec<(Pfn, Order)>,
}

impl Places {
    /// Finds places in largest blocks that are in use; `None` if they are too few.
    ///
    /// A block of order k takes the lower half of a room of order k + 1. The upper half is the room of smaller blocks,
    /// and so never free as a whole: no block has a free buddy.
    fn plan(blocks: &[u64], max: Order, mut whole: impl Iterator<Item = Pfn>) -> Option<Places> {
        let mut places = Places { opened: Vec::new(), blocks: Vec::new() };
        let mut rooms: Vec<Vec<Pfn>> = vec![Vec::new(); usize::from(max.0) + 1];
        for (order, &count) in blocks.iter().enumerate().rev() {
            let wanted = Order(order as u8);
            for _ in 0..count {
                if wanted >= max {
                    // A larger block than the machine has is as good as none.
                    let pfn = whole.next().filter(|_| wanted == max)?;
                    places.opened.push(pfn);
                    places.blocks.push((pfn, max));
                    continue;
                }
                let larger = (order + 1..rooms.len()).find(|&larger| !rooms[larger].is_empty());
                let (mut size, pfn) = match larger {
                    Some(larger) => (larger, rooms[larger].pop()?),
                    None => {
                        let pfn = whole.next()?;
                        places.opened.push(pfn);
                        (rooms.len() - 1, pfn)
                    }
                };
                while size > order {
                    size -= 1;
                    rooms[size].push(pfn.add(Order(size as u8).frames()));
                }
                places.blocks.push((pfn, wanted));
            }
        }
        Some(places)
    }
}
