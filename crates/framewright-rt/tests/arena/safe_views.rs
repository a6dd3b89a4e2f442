//! Safe code's views of an arena show the allocator and do not lead to it.

use std::any::Any;
use std::path::Path;

use framewright::report::BuddyInfo;
use framewright::request::GFP_USER;
use framewright::{Allocator, Request};
use framewright_rt::{Arena, Native, Owners, ReportFile, export};

fn arena() -> &'static Arena {
    Box::leak(Box::new(Arena::builder().size(16 << 20).without_background().build().unwrap()))
}

/// Whether a value leads to an allocator, by itself, by reference or below a format.
///
/// The allocator's frees are unsafe to reach.
fn leads_to_an_allocator(value: &dyn Any) -> bool {
    value.is::<Allocator<'static, Native>>()
        || value.is::<&'static Allocator<'static, Native>>()
        || value.is::<BuddyInfo<'static, Allocator<'static, Native>>>()
}

/// The public functions below a folder of sources whose results are opaque, sorted.
fn opaque_results(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(opaque_results(&path));
        } else {
            found.extend(opaque_in(&std::fs::read_to_string(path).unwrap()));
        }
    }
    found.sort_unstable();
    found
}

fn opaque_in(source: &str) -> Vec<String> {
    let signatures = source.split("pub fn ").skip(1).filter_map(|rest| rest.split_once(['{', ';']));
    let opaque = signatures.filter_map(|(signature, _)| {
        let (name, result) = (signature.split(['(', '<']).next()?, signature.rsplit_once("-> ")?.1);
        let ends = result.split_once(" where").map_or(result, |(result, _)| result);
        (ends.contains("impl ") || ends.contains("dyn ")).then(|| name.to_owned())
    });
    opaque.collect()
}

#[test]
fn opaque_results_are_found() {
    let source =
        "pub fn plain(&self, hook: impl Fn()) -> u64 {}\npub fn view<T>(\n    &self,\n) -> Option<impl Iterator> {";
    assert_eq!(opaque_in(source), ["view"]);
    assert_eq!(opaque_in("pub fn boxed() -> Box<dyn Error>;"), ["boxed"]);
}

/// An opaque type is `'static` if nothing of it is borrowed, or if all of it lives that long, as here.
#[test]
fn no_view_of_an_arena_is_downcast_to_its_allocator() {
    let arena = arena();
    let owners: &'static Owners<'static> = Box::leak(Box::new(arena.owners()));
    let opaque: [(&str, Box<dyn Any>); 3] = [
        ("buddyinfo", Box::new(arena.buddyinfo())),
        ("blocks", Box::new(owners.blocks())),
        ("listing", Box::new(owners.listing())),
    ];
    let (source, report): (&'static dyn Any, &'static dyn Any) = (arena.source(), arena.report());
    let named = [("source", source), ("report", report), ("owners", owners)];
    let views = opaque.iter().map(|(name, view)| (*name, &**view)).chain(named);
    for (name, view) in views {
        assert!(!leads_to_an_allocator(view), "{name}");
    }
    let mut tried: Vec<&str> = opaque.iter().map(|(name, _)| *name).collect();
    tried.sort_unstable();
    assert_eq!(tried, opaque_results(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))), "every opaque result");
    // SAFETY: it is only looked at.
    let allocator: &'static Allocator<'static, Native> = unsafe { arena.allocator() };
    let leaks: [&dyn Any; 3] = [allocator, &allocator, &BuddyInfo(allocator)];
    assert!(leaks.into_iter().all(leads_to_an_allocator), "what the test looks for is found where it is");
}

/// All methods of a source are passed on: none answers by its default.
#[test]
fn a_view_says_what_the_allocator_says() {
    let arena = arena();
    let held: Vec<_> = (0..9).map(|order| arena.alloc(&Request::new(GFP_USER, order)).unwrap()).collect();
    // SAFETY: it is only looked at.
    let allocator = unsafe { arena.allocator() };
    let nodes = export::online(arena.source());
    let of_nodes = nodes.iter().flat_map(|&node| ReportFile::of_node(node));
    for file in ReportFile::OF_ALL.into_iter().chain(of_nodes) {
        assert_eq!(file.text(arena.source()), file.text(allocator), "{file}");
    }
    drop(held);
}
