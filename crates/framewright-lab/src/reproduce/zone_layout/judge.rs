//! What has to hold before one may say that the table was reproduced.

use super::plan::{LOCKS, PLACES};
use super::published::Quantity;
use super::result::{Crossover, Row, VariantRow};
use crate::reproduce::check::{Check, Standing, points, seen};
use crate::reproduce::fitted::{self, Fitted};

/// Points that a band may be wide.
const WIDTH: f64 = 30.0;
/// Numbers that may be fitted to the table.
const FITTED: usize = 1;
/// CPUs that are few.
const FEW: usize = 4;
/// Percent by which the lock on a line of its own may be behind the one behind the lists.
const CURED: f64 = 2.0;
/// With waiters that wait apart, at most this part of what the place beside the lists costs else is left.
const LEFT: f64 = 0.25;

/// How a row's change stands to the published one; none for a row that predicts nothing.
pub fn change(row: &Row) -> Option<Standing> {
    let ours = row.simulated.filter(|_| !row.fitted)?;
    // Nobody claims more than the band.
    row.band.map(|band| Standing::of(row.published.change_percent, ours.change_percent, 0.0, Some(band)))
}

/// All checks.
pub fn checks(rows: &[Row], fitted: &[Fitted], variants: &[VariantRow], crossover: &[Crossover]) -> Vec<Check> {
    vec![
        direction(rows),
        few(crossover),
        fitted::at_most(FITTED, "at most one number fitted, to one row", fitted),
        inside(rows),
        narrow(rows),
        alone(variants),
        apart(variants),
    ]
}

fn direction(rows: &[Row]) -> Check {
    let modelled = rows.iter().filter_map(|row| Some((row, row.simulated?)));
    let of = modelled.map(|(row, ours)| {
        let is_right = (ours.change_percent > 0.0) == (row.published.change_percent > 0.0);
        let standing = if is_right { Standing::Near } else { Standing::Off };
        (standing, format!("{} {:+.1} %", row.name, ours.change_percent))
    });
    seen("every change in the published direction", of)
}

fn few(crossover: &[Crossover]) -> Check {
    let name = format!("with up to {FEW} CPUs a taking of the lock is shorter beside the lists");
    let Some(theirs) = crossover.first() else { return Check::unseen(&name, "not run") };
    let gains = &theirs.taking_gain_percent;
    let words: Vec<String> = gains.iter().map(|(cpus, gain)| format!("{cpus}: {gain:+.1} %")).collect();
    let is_shorter = gains.iter().any(|&(cpus, gain)| cpus <= FEW && gain > 0.0);
    Check::seen(&name, is_shorter, format!("by number of CPUs, {}", words.join(", ")))
}

fn inside(rows: &[Row]) -> Check {
    let name = "of rows that are not fitted, the band holds the published change";
    if rows.iter().all(|row| row.band.is_none()) {
        return Check::unseen(name, "no bands in a quick run");
    }
    let of = |row: &Row| {
        let by = row.simulated?.change_percent - row.published.change_percent;
        Some((change(row)?, format!("{} {}", row.name, points(by))))
    };
    seen(name, rows.iter().filter_map(of))
}

fn narrow(rows: &[Row]) -> Check {
    let name = format!("bands of jobs are at most {WIDTH} points wide");
    if rows.iter().all(|row| row.band.is_none()) {
        return Check::unseen(&name, "no bands in a quick run");
    }
    let of = |row: &Row| {
        let width = row.band.map(|band| band.0[1] - band.0[0])?;
        let standing = if width <= WIDTH { Standing::Near } else { Standing::Off };
        Some((standing, format!("{} {width:.1}", row.name)))
    };
    seen(&name, rows.iter().filter(|row| row.quantity == Quantity::Jobs).filter_map(of))
}

fn find(variants: &[VariantRow], lock: usize, place: usize) -> Option<&VariantRow> {
    let name = format!("{}, {}", LOCKS[lock].name(), PLACES[place].name());
    variants.iter().find(|variant| variant.name == name)
}

/// The cure that was thought of and not taken.
fn alone(variants: &[VariantRow]) -> Check {
    let name = format!("on lines of its own the lock is as good as behind the lists, to {CURED} %");
    let Some(alone) = find(variants, 0, 2) else { return Check::unseen(&name, "not run") };
    Check::seen(&name, alone.change_percent >= -CURED, format!("{:+.1} %", alone.change_percent))
}

/// The cure that came later.
fn apart(variants: &[VariantRow]) -> Check {
    let name = "a queued lock, whose waiters wait apart, loses a quarter as much beside the lists, or less";
    let loss = |lock| Some(1.0 - find(variants, lock, 0)?.performance / find(variants, lock, 1)?.performance);
    let Some((theirs, apart)) = loss(0).zip(loss(1)) else { return Check::unseen(name, "not run") };
    Check::seen(name, apart <= theirs * LEFT, format!("{:.1} % against {:.1} %", apart * 100.0, theirs * 100.0))
}
