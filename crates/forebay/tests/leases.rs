//! The mathematics of leases by worked examples, and by reads and writes that are drawn.
//!
//! `FOREBAY_NIGHTLY=1` draws ten million reads a point.

#[path = "leases/estimated.rs"]
mod estimated;
#[path = "leases/tried.rs"]
mod tried;

use forebay::lease::Gaps;
use serde_json::Value;

fn exponential(random: &mut fastrand::Rng, mean: f64) -> f64 {
    -mean * (1.0 - random.f64()).ln()
}

fn number(value: &Value) -> f64 {
    // A duration that is null never ends.
    value.as_f64().unwrap_or(f64::INFINITY)
}

fn close(got: f64, expected: f64, what: &str) {
    let same = got == expected || (got - expected).abs() <= 1e-9 * expected.abs().max(1.0);
    assert!(same, "{what}: {got}, not {expected}");
}

fn vectors() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/vectors/lease.json");
    serde_json::from_str(&std::fs::read_to_string(path).expect("the vectors")).expect("JSON")
}

#[test]
fn worked_examples() {
    let vectors = vectors();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    for vector in list(&vectors["vectors"]) {
        let gaps = Gaps { read: number(&vector["R"]), write: number(&vector["W"]) };
        let what = format!("R {} W {}", gaps.read, gaps.write);
        let counted = &vector["algorithm1"];
        let (reads, length, rate) = gaps.by_counting(u32::MAX);
        assert_eq!(u64::from(reads), counted["hits_per_lease"].as_u64().expect("a number"), "{what}");
        close(length, number(&counted["duration"]), &what);
        close(rate, number(&counted["fresh_hit_rate"]), &what);
        close(gaps.hit_rate(length), number(&counted["hit_rate"]), &what);
        close(gaps.stale_hit_rate(length), number(&counted["stale_hit_rate"]), &what);
        let (ideal, counted_length) = (gaps.ideal(), length);
        close(ideal, number(&vector["continuous"]["duration"]), &what);
        close(gaps.fresh_hit_rate(ideal), number(&vector["continuous"]["fresh_hit_rate"]), &what);
        for case in list(&vector["cost_aware"]) {
            let kappa = number(&case["kappa"]);
            let length = gaps.cost_aware(kappa);
            let what = format!("{what} kappa {kappa}");
            close(length, number(&case["duration"]), &what);
            close(gaps.cost_to_the_end(length, kappa), number(&case["cost_per_read"]), &what);
            close(gaps.cost_to_the_end(counted_length, kappa), number(&case["cost_at_paper_lease"]), &what);
        }
        for case in list(&vector["evict_on_stale"]) {
            let abort = number(&case["abort_cost"]);
            let length = gaps.evicting(abort);
            let what = format!("{what} abort {abort}");
            close(length, number(&case["duration"]), &what);
            close(gaps.cost_evicting(length, abort), number(&case["cost_per_read"]), &what);
        }
        for case in list(&vector["renew_on_validate"]) {
            let kappa = number(&case["kappa"]);
            let length = gaps.renewing(kappa);
            let what = format!("{what} renewing, kappa {kappa}");
            close(length, number(&case["duration"]), &what);
            close(gaps.cost_renewing(length, kappa), number(&case["cost_per_read"]), &what);
        }
    }
    let figure = Gaps { read: 1.0, write: 19.0 };
    for point in list(&vectors["figure5_curve_R1_W19"]) {
        let length = number(&point["d"]);
        close(figure.hit_rate(length), number(&point["hit"]), "figure 5");
        close(figure.fresh_hit_rate(length), number(&point["fresh"]), "figure 5");
        close(figure.stale_hit_rate(length), number(&point["stale"]), "figure 5");
    }
}

/// The paper's figure 5 by drawn reads and writes: the formula is exact, not optimistic.
#[test]
fn figure_5_by_chance() {
    let nightly = std::env::var_os("FOREBAY_NIGHTLY").is_some();
    let reads: u64 = if nightly { 10_000_000 } else { 400_000 };
    let gaps = Gaps { read: 1.0, write: 19.0 };
    let mut random = fastrand::Rng::with_seed(5);
    for length in [3.0, 6.0, 17.0] {
        let (mut now, mut written, mut ends, mut fetched, mut fresh) = (0.0, 0.0, -1.0, 0.0, 0u64);
        let mut next_write = exponential(&mut random, gaps.write);
        for _ in 0..reads {
            now += exponential(&mut random, gaps.read);
            while next_write <= now {
                written = next_write;
                next_write += exponential(&mut random, gaps.write);
            }
            match now > ends {
                true => (ends, fetched) = (now + length, now),
                false => fresh += u64::from(written <= fetched),
            }
        }
        let (share, expected) = (fresh as f64 / reads as f64, gaps.fresh_hit_rate(length));
        // Reads of one lease hang together, so the spread is that of the leases, each of 1 + d/R reads.
        let sigma = (expected * (1.0 - expected) * (1.0 + length) / reads as f64).sqrt();
        assert!((share - expected).abs() < 3.0 * sigma, "{length}: {share}, not {expected} by {sigma}");
    }
}
