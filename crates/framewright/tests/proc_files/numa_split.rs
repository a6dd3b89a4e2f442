//! The order of a zone's counters before and after the NUMA counters were taken out of the zone's others.
//!
//! That change moved six lines below `nr_free_cma`, and nothing else that a reader of zoneinfo could see. The
//! comparison that went with it shows one zone, of 3976 free frames, in both orders; both are printed here.

use framewright::report::{NodeVmStat, PcpSnapshot, VmStat, ZoneInfo, ZoneSnapshot};
use framewright::units::{CpuId, NodeId, Order, Pfn, ZoneIdx, ZoneKind};

use crate::recorded::Recorded;

/// The counters of other subsystems that the zone had then.
const OTHERS: [&str; 11] = [
    "nr_zone_inactive_anon",
    "nr_zone_active_anon",
    "nr_zone_inactive_file",
    "nr_zone_active_file",
    "nr_zone_unevictable",
    "nr_zone_write_pending",
    "nr_mlock",
    "nr_page_table_pages",
    "nr_kernel_stack",
    "nr_bounce",
    "nr_zspages",
];

/// The base on the left, the change on the right, from the first counter to the threshold.
const BOTH: &str = "
      nr_free_pages 3976                     nr_free_pages 3976
      nr_zone_inactive_anon 0                nr_zone_inactive_anon 0
      nr_zone_active_anon 0                  nr_zone_active_anon 0
      nr_zone_inactive_file 0                nr_zone_inactive_file 0
      nr_zone_active_file 0                  nr_zone_active_file 0
      nr_zone_unevictable 0                  nr_zone_unevictable 0
      nr_zone_write_pending 0                nr_zone_write_pending 0
      nr_mlock     0                         nr_mlock     0
      nr_page_table_pages 0                  nr_page_table_pages 0
      nr_kernel_stack 0                      nr_kernel_stack 0
      nr_bounce    0                         nr_bounce    0
      nr_zspages   0                         nr_zspages   0
      numa_hit     0                         nr_free_cma  0
      numa_miss    0                         numa_hit     0
      numa_foreign 0                         numa_miss    0
      numa_interleave 0                      numa_foreign 0
      numa_local   0                         numa_interleave 0
      numa_other   0                         numa_local   0
      nr_free_cma  0                         numa_other   0
  pagesets                               pagesets
    cpu: 0                                 cpu: 0
              count: 0                               count: 0
              high:  0                               high:  0
              batch: 1                               batch: 1
  vm stats threshold: 10                 vm stats threshold: 10
";

/// The document's zone; Linux counted `NR_FREE_CMA_PAGES` with the others, so its place tells the two apart.
fn zone(numa_before_cma: bool) -> Recorded {
    let zone = ZoneSnapshot {
        kind: ZoneKind::Dma,
        start_pfn: Pfn(1),
        spanned: 4095,
        present: 3998,
        managed: 3976,
        free: 3976,
        stat_threshold: 10,
        ..ZoneSnapshot::default()
    };
    let idx = ZoneIdx::of(NodeId(0), ZoneKind::Dma);
    Recorded {
        max_order: Order(10),
        zones: vec![zone],
        pcps: vec![(idx, PcpSnapshot { cpu: CpuId(0), count: 0, high: 0, batch: 1 })],
        zone_counters: vec![(idx, OTHERS.map(|name| (name.to_string(), 0)).to_vec())],
        numa_before_cma,
        ..Recorded::default()
    }
}

/// The lines of a text from the one that begins with `first` to the one that begins with `last`.
fn part<'a>(text: &'a str, first: &str, last: &str) -> Vec<&'a str> {
    let mut lines: Vec<_> = text.lines().skip_while(|line| !line.trim_start().starts_with(first)).collect();
    let end = lines.iter().position(|line| line.trim_start().starts_with(last)).expect("the last line");
    lines.truncate(end + 1);
    lines
}

#[test]
fn six_lines_move_behind_the_zones_counters() {
    let [base, changed] = [true, false].map(|before| ZoneInfo(&zone(before)).to_string());
    let [left, right] = [&base, &changed].map(|text| part(text, "nr_free_pages", "vm stats threshold"));
    let both: String = left.iter().zip(&right).map(|(left, right)| format!("{left:<39}{right}\n")).collect();
    assert_eq!(format!("\n{both}"), BOTH);
    // The rest of the file is the same.
    let rest = |text: &str, part: &[&str]| text.replace(&part.join("\n"), "");
    assert_eq!(rest(&base, &left), rest(&changed, &right));
}

#[test]
fn vmstat_and_a_nodes_vmstat_have_the_same_order() {
    for before in [true, false] {
        let state = zone(before);
        let names = |text: &str| text.split_whitespace().step_by(2).map(str::to_string).collect::<Vec<_>>();
        let zoneinfo = names(&part(&ZoneInfo(&state).to_string(), "nr_free_pages", "pagesets").join("\n"));
        let zoneinfo = &zoneinfo[..zoneinfo.len() - 1];
        assert_eq!(names(&NodeVmStat { source: &state, node: NodeId(0) }.to_string()), zoneinfo);
        assert_eq!(names(&VmStat(&state).to_string())[..zoneinfo.len()], *zoneinfo);
    }
}
