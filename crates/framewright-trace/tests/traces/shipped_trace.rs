//! The trace in `data/` is whole and says what its description says.

use std::path::{Path, PathBuf};

use framewright::request::{__GFP_THISNODE, Gfp};
use framewright::units::Order;
use framewright_trace::proc::flag;
use framewright_trace::record::Kind;
use framewright_trace::{Place, Trace};

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/traces/linux-6.1-thpfioscale-1g.fwt")
}

#[test]
fn events_are_those_of_the_description() {
    let mut trace = Trace::open(&path()).unwrap();
    let (mut first_tries, mut second_tries, mut served, mut fragmenting) = (0, 0, 0, 0);
    for record in trace.by_ref() {
        match record.unwrap().kind {
            Kind::Alloc { pfn, order: Order(9), gfp: Gfp(gfp), .. } => {
                if Gfp(gfp).contains(__GFP_THISNODE) {
                    first_tries += 1;
                } else {
                    second_tries += 1;
                }
                served += u32::from(pfn.is_some());
            }
            Kind::ExtFrag { fragmenting: true, .. } => fragmenting += 1,
            _ => {}
        }
    }
    assert_eq!((first_tries, second_tries, served, fragmenting), (272, 250, 54, 13));
    let quality = trace.quality();
    assert!(quality.is_complete());
    insta::assert_snapshot!(quality, @"
    1275750 events
         602855 mm_page_alloc, 468 of them failed
         636447 mm_page_free
          36401 page_migrate
             47 mm_page_alloc_extfrag
    no event lost
    91 steps back in time
    ");
}

/// A program may have the file built in. Its name is then the one it is given, in errors too.
#[test]
fn bytes_in_memory_read_as_the_file() {
    let whole: &'static [u8] = std::fs::read(path()).unwrap().leak();
    let in_memory = Trace::open(Place::BuiltIn { name: "ours.fwt", bytes: whole }).unwrap();
    assert_eq!(in_memory.initial(), Trace::open(&path()).unwrap().initial());
    assert!(in_memory.map(Result::unwrap).eq(Trace::open(&path()).unwrap().map(Result::unwrap)));
    let errors = [0, 8, 40, whole.len() / 2].map(|length| {
        let mut cut = Trace::open(Place::BuiltIn { name: "ours.fwt", bytes: &whole[..length] });
        cut.as_mut().map_or_else(|error| error.to_string(), |trace| trace.find_map(Result::err).unwrap().to_string())
    });
    insta::assert_snapshot!(errors.join("\n"), @"
    ours.fwt: ends in the middle of the header
    ours.fwt: ends in the middle of the header
    ours.fwt: ends in the middle of section `zone`
    ours.fwt: ends in the middle of section `evts`
    ");
}

#[test]
fn free_frames_make_the_blocks_that_the_kernel_counted() {
    let trace = Trace::open(&path()).unwrap();
    let state = trace.initial();
    let (Some(zones), Some(buddyinfo), Some(flags)) = (&state.zoneinfo, &state.buddyinfo, &state.kpageflags) else {
        panic!("a file of the state is missing");
    };
    assert_eq!(flags.end_pfn(), zones.end_pfn());
    let free: u64 = flags.ranges_with(flag::BUDDY).map(|range| range.frames()).sum();
    assert_eq!((free, buddyinfo.frames()), (175_027, 175_139));
    // The flags were read after buddyinfo: 112 frames of one zone had been taken meanwhile.
    let ours = flags.buddyinfo(zones, buddyinfo.max_order());
    let differences: Vec<_> = ours.differences(buddyinfo).iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(differences.join("\n"), @"
    node 0, zone Normal, order 4: 0 against 1
    node 0, zone Normal, order 5: 2 against 3
    node 0, zone Normal, order 6: 1 against 0
    node 0, zone Normal, order 7: 2 against 3
    ");
    let pagetypes = state.pagetypeinfo.as_ref().unwrap();
    for row in &buddyinfo.rows {
        for (order, &blocks) in row.free.iter().enumerate() {
            let of_zone = pagetypes.free.iter().filter(|types| types.zone == row.zone);
            assert_eq!(of_zone.map(|types| types.free[order]).sum::<u64>(), blocks, "{} {order}", row.zone);
        }
    }
}
