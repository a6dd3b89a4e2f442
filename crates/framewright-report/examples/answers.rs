//! Prints the answers to the reports of files.
fn main() {
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path).unwrap();
        println!("=== {path}");
        for report in framewright_report::read::reports(&String::from_utf8_lossy(&bytes)) {
            let mut answer = framewright_report::answer::answer(&report);
            if let (Some(query), Some(case)) = (framewright_report::decision::Query::of(&report), answer.decision.as_ref().and_then(|d| d.cases.first()).cloned()) {
                for (name, m) in [("default", framewright::Mechanisms::DEFAULT), ("baseline", framewright::Mechanisms::BASELINE)] {
                    answer.tries.push(framewright_report::trial::try_again(&report.memory, &query, &case, name, m));
                }
            }
            println!("{answer}");
        }
    }
}
