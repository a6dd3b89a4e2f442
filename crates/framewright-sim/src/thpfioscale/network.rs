//! Files are sent to clients that come and go: the load `network`.
//!
//! Four CPUs serve. A client's request is an atomic page and the head of a buffer; then a file is read, one of the
//! first rather than one of the last, and copied into blocks of eight pages if there are such, as a kernel sends
//! (`SKB_FRAG_PAGE_ORDER`), else into single pages. They are free when the client has said that it has them: most are
//! near, a tenth is far away.
//!
//! Clients stay connected, each with a socket. How many there are rises and falls, from a quarter to all and back,
//! twice a second here, as it does over a day; it is chance whose socket goes. So memory that cannot move comes in
//! tides, and what a tide leaves behind holds pageblocks.
//!
//! Left out: what clients send, besides requests; pages that are sent without being copied.

use std::collections::VecDeque;

use framewright::request::{
    __GFP_COMP, __GFP_DIRECT_RECLAIM, __GFP_NORETRY, __GFP_NOWARN, GFP_ATOMIC, GFP_KERNEL, Gfp,
};
use framewright::{Order, Pfn, Request};
use framewright_ops::rng::Rng;

use super::files::PAGES;
use super::kernel::Kernel;
use super::phase_state::{JOBS, Stage};
use super::slab::{Object, ObjectKind};
use crate::engine::here;
use crate::model::{MS, Ps, S};

/// How long the number of clients takes to rise and fall, and how many there are at most: one for each so many frames.
/// Assumed.
const TIDE: Ps = S / 2;
const FRAMES: u64 = 16;
/// Clients that come or go between two requests.
const COMERS: usize = 4;
/// Order of a block that is sent.
const BLOCK: u8 = 3;
/// How long a near client takes to say that it has something, and one that is far away; and every which one that is.
/// Assumed.
const NEAR: Ps = MS;
const FAR: Ps = 100 * MS;
const FAR_ONE_IN: u64 = 10;

/// What is on its way to a client.
struct Sent {
    blocks: Vec<(Pfn, Order)>,
    heads: [Object; 2],
}

impl Kernel<'_> {
    /// Serves clients until it is to end.
    pub(super) fn serve(&self, job: usize, stage: &Stage, mut rng: Rng) -> Option<()> {
        let most = (self.frames / FRAMES) as usize / JOBS;
        let mut clients = Vec::new();
        let mut on_the_way = [VecDeque::new(), VecDeque::new()];
        while !stage.stops.get() && self.is_well() {
            here::turn();
            self.come_and_go(&mut clients, tide(here::clock(), most), &mut rng)?;
            let sent = self.answer(job, &mut rng)?;
            let is_far = rng.one_in(FAR_ONE_IN);
            let until = here::clock() + if is_far { FAR } else { NEAR };
            on_the_way[usize::from(is_far)].push_back((until, sent));
            for queue in &mut on_the_way {
                while queue.front().is_some_and(|(until, _)| *until <= here::clock()) {
                    queue.pop_front().into_iter().for_each(|(_, sent)| self.has_come(sent));
                }
            }
        }
        on_the_way.into_iter().flatten().for_each(|(_, sent)| self.has_come(sent));
        clients.into_iter().for_each(|client| self.give(client));
        Some(())
    }

    /// A few clients come while there are fewer than wanted, or go.
    fn come_and_go(&self, clients: &mut Vec<Object>, wanted: usize, rng: &mut Rng) -> Option<()> {
        for _ in 0..COMERS {
            if clients.len() < wanted {
                clients.push(self.object(ObjectKind::Socket)?);
            } else if !clients.is_empty() {
                let client = clients.swap_remove(rng.below(clients.len() as u64) as usize);
                self.give(client);
            }
        }
        Some(())
    }

    /// Takes a request and sends a file.
    fn answer(&self, job: usize, rng: &mut Rng) -> Option<Sent> {
        let packet = self.pages.alloc(&Request::page(GFP_ATOMIC)).ok();
        let heads = [self.object(ObjectKind::Head)?, self.object(ObjectKind::Head)?];
        // The first ones most, and each CPU has its own.
        let files = self.files() as u64 / JOBS as u64;
        let most = rng.below(files) + 1;
        self.read_whole((rng.below(most) * JOBS as u64) as u32 + job as u32)?;
        let gfp = GFP_KERNEL | __GFP_COMP | __GFP_NOWARN | __GFP_NORETRY;
        let quick = Request::new(Gfp(gfp.0 & !__GFP_DIRECT_RECLAIM.0), BLOCK);
        let mut blocks = Vec::with_capacity(2);
        for _ in 0..PAGES >> BLOCK {
            if let Ok(pfn) = self.pages.alloc(&quick) {
                blocks.push((pfn, Order(BLOCK)));
                continue;
            }
            for _ in 0..1 << BLOCK {
                blocks.push((self.fixed_page()?, Order(0)));
            }
        }
        packet.into_iter().for_each(|pfn| self.free(pfn.0, 0));
        Some(Sent { blocks, heads })
    }

    /// A client has what was sent.
    fn has_come(&self, sent: Sent) {
        self.free_blocks(sent.blocks);
        sent.heads.into_iter().for_each(|head| self.give(head));
    }
}

/// How many clients there are to be now.
fn tide(now: Ps, most: usize) -> usize {
    let at = now % TIDE * 2;
    let height = if at < TIDE { at } else { 2 * TIDE - at };
    most / 4 + (most as u64 * 3 / 4 * (height / MS) / (TIDE / MS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_come_and_go_in_tides() {
        let at = |parts: u64| tide(TIDE / 4 * parts, 800);
        assert_eq!([0, 1, 2, 3, 4].map(at), [200, 500, 800, 500, 200]);
    }
}
