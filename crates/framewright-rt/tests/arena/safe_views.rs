//! Safe code's views of an arena show the allocator and do not lead to it.

use std::any::Any;

use framewright::report::BuddyInfo;
use framewright::request::GFP_USER;
use framewright::{Allocator, Request};
use framewright_rt::{Arena, Native, ReportFile, export};

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

/// An opaque type is `'static` if nothing of it is borrowed, or if all of it lives that long, as here.
#[test]
fn no_view_of_an_arena_is_downcast_to_its_allocator() {
    let arena = arena();
    let table: Box<dyn Any> = Box::new(arena.buddyinfo());
    let state: &'static dyn Any = arena.source();
    let report: &'static dyn Any = arena.report();
    for (name, view) in [("source", state), ("buddyinfo", &*table), ("report", report)] {
        assert!(!leads_to_an_allocator(view), "{name}");
    }
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
