//! Writes a file with all its mutants planted.

use std::collections::HashSet;
use std::ops::Range;

use crate::mutant::{Key, Mutant, Shape, Site};

/// Mutant in the text that [`planted`] wrote.
#[derive(Clone, Debug)]
pub(crate) struct Planted {
    pub(crate) number: u32,
    pub(crate) mutant: Mutant,
    /// Bytes of the new text that are its own.
    pub(crate) own: Range<usize>,
    /// Bytes of the new text of its site.
    pub(crate) site: Range<usize>,
    /// Number of its site's first mutant.
    pub(crate) first: u32,
}

/// Returns the text with the mutants planted that are not in `without`. The first has number `first`.
pub(crate) fn planted(text: &str, sites: &[Site], without: &HashSet<Key>, first: u32) -> (String, Vec<Planted>) {
    let sites: Vec<Site> = sites
        .iter()
        .map(|site| Site {
            mutants: site.mutants.iter().filter(|mutant| !without.contains(&mutant.key)).cloned().collect(),
            ..site.clone()
        })
        .filter(|site| !site.mutants.is_empty())
        .collect();
    let mut writer =
        Writer { text, sites: &sites, new: String::with_capacity(4 * text.len()), planted: Vec::new(), first };
    writer.write(0..text.len(), 0);
    (writer.new, writer.planted)
}

struct Writer<'t> {
    text: &'t str,
    sites: &'t [Site],
    new: String,
    planted: Vec<Planted>,
    first: u32,
}

impl Writer<'_> {
    /// Writes a range of the text, in which sites from number `next` on lie; returns the first site after it.
    fn write(&mut self, range: Range<usize>, mut next: usize) -> usize {
        let mut at = range.start;
        while let Some(site) = self.sites.get(next) {
            if site.range.start >= range.end {
                break;
            }
            self.new.push_str(&self.text[at..site.range.start]);
            at = site.range.end;
            next = self.write_site(site, next + 1);
        }
        self.new.push_str(&self.text[at..range.end]);
        next
    }

    fn write_site(&mut self, site: &Site, next: usize) -> usize {
        let first = self.first + u32::try_from(self.planted.len()).expect("few mutants");
        let (start, earlier) = (self.new.len(), self.planted.len());
        if site.shape == Shape::Arm {
            self.new.push_str(&format!(" if crate::mutant_switch::at({first}) != 0"));
            self.note(&site.mutants[0], first, start..self.new.len());
            self.planted[earlier].site = start..self.new.len();
            return next;
        }
        let (open, close) = match site.shape {
            Shape::Expression => ("(", ")"),
            _ => ("{", "}"),
        };
        let outer = if site.shape == Shape::Expression { ("(", ")") } else { ("", "") };
        self.new.push_str(&format!("{}match crate::mutant_switch::at({first}) {{ ", outer.0));
        for (variant, mutant) in site.mutants.iter().enumerate() {
            self.new.push_str(&format!("{variant} => {open} "));
            let from = self.new.len();
            self.new.push_str(&mutant.code);
            self.note(mutant, first, from..self.new.len());
            self.new.push_str(&format!(" {close}, "));
        }
        self.new.push_str(&format!("_ => {open} "));
        let next = self.write(site.range.clone(), next);
        self.new.push_str(&format!(" {close} }}{}", outer.1));
        let last = earlier + site.mutants.len();
        for planted in &mut self.planted[earlier..last] {
            planted.site = start..self.new.len();
        }
        next
    }

    fn note(&mut self, mutant: &Mutant, first: u32, own: Range<usize>) {
        let number = self.first + u32::try_from(self.planted.len()).expect("few mutants");
        self.planted.push(Planted { number, mutant: mutant.clone(), own, site: 0..0, first });
    }
}
