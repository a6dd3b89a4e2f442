//! A picture of memory: a cell for each pageblock, in the order of addresses, row by row. Its hue says the pageblock's
//! type, its strength how much of it is in use, and a dot that something in a movable pageblock cannot move: it is the
//! dots that keep huge pages away.
//!
//! Cells of one look are one path, so that a picture of some hundred pageblocks stays small.

use std::fmt::Write as _;

use framewright_sim::thpfioscale::outcome::Block;
use serde::Serialize;

use super::measured::{MOVABLE, TYPES, is_mixed};

/// Width of a picture, in the units of its coordinates.
const WIDTH: f64 = 512.0;
/// Part of a cell that stays free between it and the next.
const GAP: f64 = 0.12;
/// Frames of a pageblock.
const PAGEBLOCK: u16 = 512;
/// Steps of how much is in use: nothing, and quarters.
const STEPS: u16 = 4;
/// Hues of the types by their number, as the style sheet's looks: unmovable, movable, reclaimable; others.
const LOOKS: [usize; 4] = [1, 0, 2, 6];

/// A picture in coordinates.
#[derive(Serialize)]
pub(super) struct Picture {
    title: String,
    /// Meaning of the dots.
    mixed: String,
    /// How many there are of what, in words.
    description: String,
    size: (f64, f64),
    cells: Vec<Cells>,
    /// Those with something that cannot move among what can.
    dots: Vec<Dot>,
}

/// Cells of one look.
#[derive(Serialize)]
struct Cells {
    look: usize,
    full: u16,
    path: String,
}

#[derive(Serialize)]
struct Dot {
    x: f64,
    y: f64,
    radius: f64,
}

impl Picture {
    /// Of all pageblocks, from the lowest.
    pub(super) fn new(title: String, blocks: &[Block]) -> Self {
        // Twice as wide as high.
        let columns = (blocks.len() as f64 * 2.0).sqrt().log2().round().exp2().max(1.0) as usize;
        let (cell, rows) = (WIDTH / columns as f64, blocks.len().div_ceil(columns));
        let corner = |number: usize| ((number % columns) as f64 * cell, (number / columns) as f64 * cell);
        let mut cells: Vec<Cells> = Vec::new();
        let mut dots = Vec::new();
        for (number, block) in blocks.iter().enumerate() {
            let (x, y) = corner(number);
            let look = LOOKS[usize::from(block.migratetype).min(LOOKS.len() - 1)];
            let used = PAGEBLOCK.saturating_sub(block.free);
            let full = (used * STEPS).div_ceil(PAGEBLOCK);
            let side = cell * (1.0 - GAP);
            let square =
                format!("M{:.1} {:.1}h{side:.1}v{side:.1}h-{side:.1}z", x + cell * GAP / 2.0, y + cell * GAP / 2.0);
            match cells.iter_mut().find(|cells| (cells.look, cells.full) == (look, full)) {
                Some(cells) => cells.path.push_str(&square),
                None => cells.push(Cells { look, full, path: square }),
            }
            if is_mixed(block) {
                dots.push(Dot { x: x + cell / 2.0, y: y + cell / 2.0, radius: cell * 0.24 });
            }
        }
        let (mixed, description) = (mixed(blocks), described(blocks));
        Self { title, mixed, description, size: (WIDTH, rows as f64 * cell), cells, dots }
    }
}

/// The picture in words, for readers who cannot see it.
fn described(blocks: &[Block]) -> String {
    let mut text = String::new();
    for (kind, name) in TYPES.into_iter().enumerate() {
        let of: Vec<&Block> = blocks.iter().filter(|block| usize::from(block.migratetype) == kind).collect();
        let whole = of.iter().filter(|block| block.free == PAGEBLOCK).count();
        // Writing to a string cannot fail.
        let _ = write!(text, "{name} pageblocks: {}, free as a whole: {whole}; ", of.len());
    }
    text + &mixed(blocks)
}

/// The pageblocks that are no huge page because of a few pages.
fn mixed(blocks: &[Block]) -> String {
    let movable = blocks.iter().filter(|block| usize::from(block.migratetype) == MOVABLE).count();
    let mixed: Vec<&Block> = blocks.iter().filter(|block| is_mixed(block)).collect();
    let pages: u32 = mixed.iter().map(|block| u32::from(block.fixed)).sum();
    format!("{pages} pages that cannot move, in {} of {movable} movable pageblocks", mixed.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_shows_type_and_use() {
        let block = |migratetype, free, fixed| Block { migratetype, free, movable: 0, fixed };
        let blocks = [block(1, 512, 0), block(1, 0, 3), block(0, 500, 12), block(2, 512, 0), block(1, 512, 0)];
        let picture = Picture::new("a".to_owned(), &blocks);
        let looks: Vec<_> = picture.cells.iter().map(|cells| (cells.look, cells.full)).collect();
        assert_eq!(looks, [(0, 0), (0, 4), (1, 1), (2, 0)]);
        assert_eq!(picture.cells[0].path.matches('M').count(), 2);
        assert_eq!((picture.dots.len(), picture.size), (1, (512.0, 256.0)));
        let told = "unmovable pageblocks: 1, free as a whole: 0; movable pageblocks: 3, free as a whole: 2; reclaimable pageblocks: 1, free as a whole: 1; \
                    3 pages that cannot move, in 1 of 3 movable pageblocks";
        assert_eq!(picture.description, told);
        assert!(Picture::new("b".to_owned(), &[]).cells.is_empty());
    }
}
