//! What kernels left of memory.

use std::iter::once;

use framewright_sim::workload::aftermath::FreeBlocks;

use super::plan::ZoneLockPlan;
use super::published::ORDERS;
use super::table::{KERNEL, KernelComparison, index, total};
use crate::html::plot::{Axis, Over, Plot, Series};
use crate::reproduce::found::Reproduction;
use crate::reproduce::show::{Grid, GridCell, cell, either};
use framewright_table::figures::{count, percent, share};

/// Groups of orders that buddyinfo is shown in: name and first order of each.
const GROUPS: [(&str, usize); 4] = [("0", 0), ("1-4", 1), ("5-8", 5), ("9-10", 9)];

/// The free blocks of each kernel, theirs and ours.
pub(super) fn memory(plan: &ZoneLockPlan<'_>, rows: &[KernelComparison<'_>], found: &mut Reproduction) {
    let names = GROUPS.map(|(name, _)| name);
    let columns: String = names.map(|name| format!("|>7 {name}")).concat();
    let columns = format!("<24 kernel|<7{columns}|>10 on lists|>15 unusable at 5|>9 drained|>7 pairs");
    let caption = "Percent of free memory by order of its blocks <span class=\"quiet\">of what buddyinfo shows; beside it, what lay on \
                   per-CPU lists and in depots</span>";
    let heads = format!("Kernel|.|{}|On lists, %|Unusable at order 5|Drained|Pairs left", names.join("|"));
    let mut table = Grid::new(&columns)
        .above("Free memory left in both zones Normal, percent by order of its blocks")
        .page("Free memory by order", caption, &heads);
    let mut line = |name: GridCell, whose: &str, blocks: &[u64; ORDERS], rest: [GridCell; 4]| {
        let groups = groups(blocks).map(|group| cell(percent(group)));
        table.row([name, cell(whose).with("class=\"name\"")].into_iter().chain(groups).chain(rest).collect());
    };
    for row in rows {
        let name = cell(row.name).cut(KERNEL);
        if let Some(blocks) = &row.blocks {
            line(name.clone(), "theirs", blocks, [cell(""), thousandths(index(blocks)), cell(""), cell("")]);
        }
        if let Some(ours) = &row.ours {
            let name = if row.blocks.is_some() { either("", row.name) } else { name };
            let kept = percent(kept(&ours.left));
            let kept = either(format!("{kept} %"), kept);
            let [left, drained] = [ours.unusable, ours.drained].map(thousandths);
            line(name, "ours", &total(&ours.left), [kept, left, drained, cell(count(ours.pairs))]);
        }
    }
    let show = &mut found.show;
    show.html(format!(
        "\n<h2>What was left of memory</h2>\n<p>Free blocks by order in both zones Normal, when all processes had ended. Ours is {} times \
         smaller a machine, so its curves lie lower; what to compare is the shape. Drained: when per-CPU lists and depots have been given \
         back; pairs: free buddies that then could be one block and are not.</p>\n",
        plan.scale.fraction
    ));
    show.plots(vec!["theirs".to_owned(), "ours".to_owned()], 2, rows.iter().filter_map(plot));
    show.grid(&table);
    let words = "on lists: free, but on per-CPU lists and in depots, and so not among the blocks; drained: unusable at 5 when these have \
                 been given back; pairs: of free buddies, which then could be one block and are not";
    show.note(words, 2);
}

fn thousandths(index: f64) -> GridCell {
    cell(format!("{index:.3}"))
}

/// Percent of the free frames by group of orders.
fn groups(blocks: &[u64; ORDERS]) -> [f64; GROUPS.len()] {
    let frames = |orders: std::ops::Range<usize>| orders.map(|order| blocks[order] << order).sum::<u64>() as f64;
    std::array::from_fn(|group| {
        let end = GROUPS.get(group + 1).map_or(ORDERS, |(_, first)| *first);
        share(frames(GROUPS[group].1..end), frames(0..ORDERS))
    })
}

/// Percent of all free frames that are on per-CPU lists and in depots, and so in no block of buddyinfo.
fn kept(zones: &[FreeBlocks]) -> f64 {
    let cached: u64 = zones.iter().map(|zone| zone.cached).sum();
    let listed: u64 = total(zones).iter().enumerate().map(|(order, blocks)| blocks << order).sum();
    share(cached as f64, (cached + listed) as f64)
}

/// Free blocks by order, theirs and ours, of a kernel of which theirs were published.
fn plot(row: &KernelComparison<'_>) -> Option<Plot> {
    let points = |blocks: &[u64]| (0..).map(f64::from).zip(blocks.iter().map(|&blocks| blocks as f64)).collect();
    let series = |name: &str, blocks: &[u64]| Series { name: name.to_owned(), points: points(blocks) };
    let theirs = series("theirs", &row.theirs.and(row.blocks)?);
    let ours = row.ours.as_ref().map(|ours| series("ours", &total(&ours.left)));
    let both: Vec<Series> = once(theirs).chain(ours).collect();
    Some(Plot::over(row.name, &Axis::powers("free blocks"), &Over::ORDERS, &both))
}
