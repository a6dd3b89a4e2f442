use framewright_campaign::{Case, Kind, Hits, play};
fn main() {
    let mut args = std::env::args().skip(1);
    let first: u64 = args.next().unwrap().parse().unwrap();
    let count: u64 = args.next().unwrap().parse().unwrap();
    let mut hits = Hits::default();
    let (mut ops, mut acc) = (0, 0);
    let began = std::time::Instant::now();
    let mut longest = [0; 3];
    for seed in first..first + count {
        let t = std::time::Instant::now();
        match play(&Case::of(seed), std::env::var("LOG").is_ok()) {
            Ok(p) => { hits.add(&p.hits); ops += p.operations; acc += p.accesses; longest[0] = longest[0].max(p.longest[0]); longest[1] = longest[1].max(p.longest[1]); longest[2] = longest[2].max(p.longest[2]);
              if std::env::var("V").is_ok() { println!("{seed} {:?} {:.3}s acc {} by {:?} sw {} longest {:?} digest {:x}", p.operations, t.elapsed().as_secs_f64(), p.accesses, p.by_schedule, p.switches, p.longest, p.digest); } }
            Err(f) => { println!("seed {seed}: {} before {}", f.wrong, f.before); for l in f.log.iter().rev().take(6).rev() { println!("{l}"); } }
        }
    }
    let s = began.elapsed().as_secs_f64();
    println!("{ops} ops {acc} accesses {s:.1}s {:.0} ops/s longest {longest:?}", ops as f64 / s);
    for kind in Kind::ALL { println!("{kind:24} {}", hits.0[*kind as usize]); }
}
