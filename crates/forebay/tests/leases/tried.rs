//! The rule that forebay uses, beside the best lease that trying finds. Each read is validated, and its verdict comes a
//! while later.

use std::collections::VecDeque;

use forebay::lease::Gaps;

use super::exponential;

/// Reads of one try.
const READS: usize = 6_000;

/// Reads and writes of one document, at moments in units of the mean time between reads.
struct Drawn {
    reads: Vec<f64>,
    writes: Vec<f64>,
}

fn draw(gaps: Gaps, seed: u64) -> Drawn {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut moments = |count: usize, gap: f64| {
        let mut now = 0.0;
        let mut next = || {
            now += exponential(&mut random, gap);
            now
        };
        (0..count).map(|_| next()).collect::<Vec<f64>>()
    };
    let reads = moments(READS, gaps.read);
    let count = 100 + (2.0 * READS as f64 * gaps.read / gaps.write) as usize;
    Drawn { reads, writes: moments(count, gaps.write) }
}

/// A copy: the writes up to when it was fetched, and when its lease ends.
struct Copy {
    written: usize,
    ends: f64,
}

/// What a read costs, in misses, under leases of `length`. A stale read costs `abort`. Its verdict comes after
/// `verdict`; then the copy is given up, and the document fetched at the cost of a miss. With `renews`, a good verdict
/// begins the lease again, as of the read.
fn cost(drawn: &Drawn, length: f64, renews: bool, (verdict, abort): (f64, f64)) -> f64 {
    let written = |at: f64| drawn.writes.partition_point(|write| *write <= at);
    let (mut sum, mut copy) = (0.0, Copy { written: 0, ends: f64::NEG_INFINITY });
    // Reads whose verdict is on its way, each with the copy that it has used.
    let mut judged: VecDeque<(f64, usize)> = VecDeque::new();
    for &now in &drawn.reads {
        while let Some((read, used)) = judged.pop_front_if(|(read, _)| *read + verdict <= now) {
            let is_kept = copy.written == used;
            if is_kept && written(read) == used {
                copy.ends = if renews { copy.ends.max(read + length) } else { copy.ends };
            } else if is_kept {
                copy = Copy { written: written(read + verdict), ends: read + verdict + length };
                sum += 1.0;
            }
        }
        if now > copy.ends {
            copy = Copy { written: written(now), ends: now + length };
            sum += 1.0;
        } else {
            sum += if copy.written == written(now) { 0.0 } else { abort };
            judged.push_back((now, copy.written));
        }
    }
    sum / drawn.reads.len() as f64
}

/// How much more the rule costs than the best of all lengths: the mean and the worst of 12 points for each verdict, by
/// W/R and by what an abort costs.
fn above_the_best(verdicts: [f64; 2]) -> (f64, f64) {
    let (mut sum, mut worst, mut points) = (0.0, 0.0_f64, 0);
    for write in [3.0, 20.0, 140.0, 1000.0] {
        for verdict in verdicts {
            for abort in [1.0, 5.0, 20.0] {
                let gaps = Gaps { read: 1.0, write };
                let drawn: Vec<Drawn> = (0..4).map(|seed| draw(gaps, seed)).collect();
                let mean = |length: f64, renews: bool| {
                    drawn.iter().map(|drawn| cost(drawn, length, renews, (verdict, abort))).sum::<f64>()
                        / drawn.len() as f64
                };
                let lengths = (0..32).map(|step| 0.05 * 1.4_f64.powi(step)).chain([0.0, f64::INFINITY]);
                let tried = lengths.flat_map(|length| [mean(length, false), mean(length, true)]);
                let best = tried.fold(f64::INFINITY, f64::min);
                let term = gaps.renewed(abort + 1.0);
                let rule = mean(term.length, true);
                let more = rule / best - 1.0;
                println!(
                    "{:5.1} % W {write}, verdict {verdict}, abort {abort}: {rule:.4}, best {best:.4}",
                    100.0 * more
                );
                (sum, worst, points) = (sum + more, worst.max(more), points + 1);
            }
        }
    }
    let mean = sum / f64::from(points);
    println!("{points} points: {:.2} % above the best on average, {:.1} % at worst", 100.0 * mean, 100.0 * worst);
    (mean, worst)
}

/// Later verdicts let more reads find the same stale copy, which the rule does not know.
#[test]
fn the_rule_is_near_the_best_of_all_lengths_where_verdicts_come_soon() {
    let (mean, worst) = above_the_best([0.0, 1.0]);
    assert!(mean < 0.01 && worst < 0.06, "{mean}, worst {worst}");
    let (mean, worst) = above_the_best([7.0, 50.0]);
    assert!(mean < 0.33 && worst < 1.6, "{mean}, worst {worst}");
}
