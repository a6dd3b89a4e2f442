//! A list of operations under given mechanisms, and what shows of it.

use framewright::Mechanisms;
use framewright::report::{BuddyInfo, PageTypeInfo, VmStat, ZoneInfo};
use framewright_ops::{Scenario, with_session};

/// Plays a list; returns the outcome of each operation, the free lists after it, and the reports at the end.
pub(crate) fn play(machine: &str, ops: &str, mechanisms: Mechanisms) -> Vec<String> {
    let parsed = format!("{machine}\n{ops}").parse();
    let mut scenario: Scenario = parsed.unwrap_or_else(|error| panic!("{error}"));
    scenario.shape.mechanisms = mechanisms;
    let shown = with_session(&scenario.shape, |session| {
        let mut shown = Vec::new();
        for step in &scenario.steps {
            let outcome = session.perform(&step.op).map_err(|wrong| format!("`{}`: {wrong}", step.op))?;
            shown.push(format!("{} -> {outcome}", step.op));
            shown.extend(session.rows().iter().map(ToString::to_string));
        }
        session.check()?;
        let pages = session.pages();
        let reports = [
            BuddyInfo(pages).to_string(),
            PageTypeInfo(pages).to_string(),
            ZoneInfo(pages).to_string(),
            VmStat(pages).to_string(),
        ];
        shown.extend(reports.iter().flat_map(|report| report.lines().map(str::to_owned)));
        shown.push(format!("{:?}", session.encounters()));
        session.give_everything_back()?;
        Ok(shown)
    });
    shown.unwrap_or_else(|wrong| panic!("{mechanisms}: {wrong}"))
}
