//! Files are sent to clients: the load `network`.
//!
//! Four CPUs serve. A client's request takes an atomic page and the head of a buffer. Then a file is read; the first
//! files are the most popular. It is copied into blocks of eight pages, as a kernel sends (`SKB_FRAG_PAGE_ORDER`), or
//! into single pages if there are none. The blocks are freed when the client has acknowledged them: most clients are
//! near, a tenth is far away.
//!
//! Clients stay connected, each with a socket. Their number rises and falls twice a second, from a quarter to all and
//! back, as it does over a day. A random client leaves. So the amount of unmovable memory rises and falls, and the
//! sockets that remain keep pageblocks occupied.
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

/// Time in which the number of clients rises and falls, and frames for each client at the peak. Assumed.
const TIDE: Ps = S / 2;
const FRAMES: u64 = 16;
/// Clients that come or go between two requests.
const COMERS: usize = 4;
/// Order of a block that is sent.
const BLOCK: u8 = 3;
/// Time until a near client and a far one acknowledge, and clients for each far one. Assumed.
const NEAR: Ps = MS;
const FAR: Ps = 100 * MS;
const FAR_ONE_IN: u64 = 10;

/// Data on the way to a client.
struct Sent {
    blocks: Vec<(Pfn, Order)>,
    heads: [Object; 2],
}

impl Kernel<'_> {
    /// Serves clients until the end of the phase.
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

    /// Connects a few clients if there are fewer than wanted, or disconnects some.
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
        // The first ones most, and each CPU has files of its own.
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

    /// Frees what a client has acknowledged.
    fn has_come(&self, sent: Sent) {
        self.free_blocks(sent.blocks);
        sent.heads.into_iter().for_each(|head| self.give(head));
    }
}

/// Returns the number of clients that are wanted now.
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
