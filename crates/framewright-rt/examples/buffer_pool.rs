//! A buffer pool: extents of 2 MiB and pages of 4 KiB out of one arena with two nodes, filled and drained by threads.
//!
//! ```sh
//! cargo run --release -p framewright-rt --example buffer_pool
//! ```
//!
//! With a path, it waits while its pool is full, and exports it at a socket there:
//!
//! ```sh
//! cargo run --release -p framewright-rt --example buffer_pool pool.sock
//! framewright proc zoneinfo --from pool.sock        # from elsewhere
//! ```

use std::error::Error;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;

use framewright::request::GFP_USER;
use framewright::{AllocError, NodeId, NodeSet, Order, Policy, Request};
use framewright_rt::{Arena, Pages, Placement, Transparent};

/// Memory of each node, and what its thread loads into it.
const NODE_BYTES: u64 = 64 << 20;
const EXTENTS: u64 = 24;
const PAGES: u64 = 3_000;

/// A loaded buffer. Dropping it gives its memory back to the arena, on whatever thread.
struct Buffer<'a> {
    id: u64,
    memory: Pages<'a>,
}

/// Allocates a buffer and "reads" its contents: its id, at the beginning.
fn load(arena: &Arena, id: u64, request: Request) -> Result<Buffer<'_>, AllocError> {
    let mut memory = arena.alloc(&request)?;
    memory[..8].copy_from_slice(&id.to_le_bytes());
    Ok(Buffer { id, memory })
}

/// Loads a node's share: extents from this node or not at all, pages from another node rather than not at all.
fn fill(arena: &Arena, node: NodeId) -> Result<Vec<Buffer<'_>>, AllocError> {
    let extent = Request::new(GFP_USER, 9).with(Policy::Bind(NodeSet::only(node)));
    let page = Request::page(GFP_USER).on(node);
    let extents = (0..EXTENTS).map(|id| load(arena, id, extent));
    let pages = (EXTENTS..EXTENTS + PAGES).map(|id| load(arena, id, page));
    extents.chain(pages).collect()
}

/// Drops buffers, after checking their contents.
fn drain(buffers: Vec<Buffer<'_>>) {
    for Buffer { id, memory } in buffers {
        assert_eq!(memory[..8], id.to_le_bytes());
    }
}

/// Exports the pool at a socket, until Enter is pressed.
fn show(arena: &Arena, socket: &Path, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let export = arena.export(socket)?;
    writeln!(out, "to be seen at {}, until you press Enter\n", export.path().display())?;
    out.flush()?;
    io::stdin().read_line(&mut String::new())?;
    Ok(())
}

/// All of it, printed to `out`.
pub(crate) fn run(socket: Option<&Path>, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    // A machine with one node refuses the second; the arena is built all the same, and its report says so.
    let arena = Arena::builder()
        .node(NODE_BYTES, Placement::Prefer(NodeId(0)))
        .node(NODE_BYTES, Placement::Prefer(NodeId(1)))
        .transparent(Transparent::Always)
        .build()?;
    writeln!(out, "{}\nbefore\n{}", arena.report(), arena.buddyinfo())?;

    // One thread for each node fills the pool.
    let pool = &arena;
    let loaded = thread::scope(|scope| {
        let threads = [NodeId(0), NodeId(1)].map(|node| scope.spawn(move || fill(pool, node)));
        threads.map(|thread| thread.join().expect("a loading thread panicked"))
    });
    writeln!(out, "at the peak\n{}", arena.buddyinfo())?;
    socket.map_or(Ok(()), |socket| show(pool, socket, out))?;

    // Other threads drain it: memory may be freed anywhere.
    thread::scope(|scope| {
        for buffers in loaded {
            let buffers = buffers?;
            scope.spawn(|| drain(buffers));
        }
        Ok::<(), AllocError>(())
    })?;
    arena.drain(); // what CPUs keep for the next allocation
    writeln!(out, "after\n{}", arena.buddyinfo())?;

    let trimmed = arena.trim(Order(9))?;
    writeln!(out, "given back to the system: {} MiB in {} blocks", trimmed.bytes >> 20, trimmed.blocks)?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let socket = std::env::args_os().nth(1).map(PathBuf::from);
    run(socket.as_deref(), &mut io::stdout().lock())
}
