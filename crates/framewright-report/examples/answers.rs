//! Prints the answers to the reports of files.
fn main() {
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path).unwrap();
        println!("=== {path}");
        for report in framewright_report::read::reports(&String::from_utf8_lossy(&bytes)) {
            println!("{}", framewright_report::answer::answer(&report));
        }
    }
}
