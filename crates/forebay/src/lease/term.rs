//! The length of a lease that costs least, for Poisson reads and writes.
//!
//! R is the mean time between reads, W that between writes, d the length of a lease, u = d/W and r = R/W. The share of
//! reads that find a fresh copy is `W (1 - e^-u) / (R + d)`: the paper's equation 5, simplified. It is greatest where
//! `e^u = 1 + u + r`. Newton's method on `ln(1 + r + u) - u` finds that in a few steps. Times have any one unit.
//!
//! Rules, by what becomes of a copy that was found stale or current:
//!
//! * *to the end* (the paper's): a stale copy is used until its lease ends; each stale read costs `kappa` misses.
//! * *evicting* (A): it is given up at the first stale read.
//! * *renewing* (C): each validated read begins the lease again; then only W decides.

/// Most steps of Newton's method, which needs 3 to 8.
const STEPS_MAX: usize = 60;

/// The greatest share of reads without a verdict that is reckoned with: without any, leases would not end.
const ALONE_MAX: f64 = 0.99;

/// Mean times between the reads of one document in one cache, and between its writes by others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gaps {
    /// Between reads.
    pub read: f64,
    /// Between writes; infinite where there is none.
    pub write: f64,
}

/// A lease: its length, and what a read costs then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Term {
    /// Its length; infinite: until it is found stale.
    pub length: f64,
    /// The cost of one read, in misses. At 1 or near it the copy is not worth keeping.
    pub cost: f64,
}

impl Gaps {
    /// Of estimates: the mean time between reads, if it is known, and how often others write in a second.
    pub fn estimated(gap: Option<f64>, writes: f64) -> Gaps {
        let write = 1.0 / writes.max(f64::MIN_POSITIVE);
        Gaps { read: gap.unwrap_or(write / 10.0).max(1e-6), write }
    }

    /// The share of reads that find a copy, fresh or stale, under leases of `length`.
    pub fn hit_rate(self, length: f64) -> f64 {
        if length.is_infinite() { 1.0 } else { length / (self.read + length) }
    }

    /// The share of reads that find a fresh one.
    pub fn fresh_hit_rate(self, length: f64) -> f64 {
        self.fresh_reads(length) / (1.0 + length / self.read)
    }

    /// The share that find a stale one.
    pub fn stale_hit_rate(self, length: f64) -> f64 {
        self.hit_rate(length) - self.fresh_hit_rate(length)
    }

    /// Fresh reads of one lease, behind the miss that began it.
    fn fresh_reads(self, length: f64) -> f64 {
        match self.write.is_infinite() {
            true => length / self.read,
            false => -self.write * (-length / self.write).exp_m1() / self.read,
        }
    }

    /// Algorithm 1 of the paper: lengthens the lease read by read as long as the fresh hit rate rises. Reads of one
    /// lease, its length, and the rate. The search ends at `reads_max`.
    pub fn by_counting(self, reads_max: u32) -> (u32, f64, f64) {
        let mut best = (0, 0.0, 0.0);
        for reads in 1..=reads_max {
            let length = f64::from(reads) * self.read;
            let rate = self.fresh_hit_rate(length);
            if rate < best.2 {
                break;
            }
            best = (reads, length, rate);
        }
        best
    }

    /// The length of a lease in which a write falls by that chance.
    pub fn until_written(self, chance: f64) -> f64 {
        -self.write * (-chance).ln_1p()
    }

    /// The longest lease under which at most the share `most` of the reads finds a stale copy. That share rises with
    /// the length, from 0 to 1.
    pub fn until_stale(self, most: f64) -> f64 {
        if most <= 0.0 {
            return 0.0;
        }
        let (mut low, mut high) = (0.0, self.read);
        while self.stale_hit_rate(high) < most {
            (low, high) = (high, 2.0 * high);
            if high.is_infinite() {
                return high;
            }
        }
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if self.stale_hit_rate(middle) <= most { low = middle } else { high = middle }
        }
        low
    }

    /// The length at which the fresh hit rate is greatest: the paper's objective.
    pub fn ideal(self) -> f64 {
        self.cost_aware(1.0)
    }

    /// The length that costs least where a stale read costs `kappa` misses, and the copy is used to the end. Infinite
    /// where stale reads cost next to nothing.
    pub fn cost_aware(self, kappa: f64) -> f64 {
        if self.write.is_infinite() {
            return f64::INFINITY;
        }
        let r = self.read / self.write;
        let right = r - r / kappa;
        if r <= 0.0 {
            return 0.0;
        }
        if 1.0 + right <= 0.0 {
            return f64::INFINITY;
        }
        self.write * root(r, kappa, right)
    }

    /// What a read costs, in misses, under leases of `length` that are used to the end.
    pub fn cost_to_the_end(self, length: f64, kappa: f64) -> f64 {
        if length.is_infinite() {
            return if self.write.is_infinite() { 0.0 } else { kappa };
        }
        let stale = length / self.read - self.fresh_reads(length);
        (1.0 + kappa * stale) / (1.0 + length / self.read)
    }

    /// The share of leases of `length` that end with a stale read, where the first one ends them.
    fn stale_leases(self, length: f64) -> f64 {
        let (writes, reads) = (1.0 / self.write, 1.0 / self.read);
        if length.is_infinite() {
            return 1.0;
        }
        if (reads - writes).abs() < 1e-12 * reads {
            return 1.0 - (-writes * length).exp() * (1.0 + writes * length);
        }
        let both = (-writes * length).exp() - (-reads * length).exp();
        -(-writes * length).exp_m1() - writes / (reads - writes) * both
    }

    /// What a read costs under leases of `length` that a stale read ends, at the cost of `kappa` misses.
    pub fn cost_evicting(self, length: f64, kappa: f64) -> f64 {
        if self.write.is_infinite() {
            return 1.0 / (1.0 + length / self.read);
        }
        let fresh = if length.is_infinite() { self.write / self.read } else { self.fresh_reads(length) };
        (1.0 + kappa * self.stale_leases(length)) / (1.0 + fresh)
    }

    /// The length that costs least there; infinite where it never pays to give a copy up by time.
    pub fn evicting(self, kappa: f64) -> f64 {
        let r = self.read / self.write;
        if self.write.is_infinite() || (r < 1.0 && kappa <= (1.0 - r) / (2.0 * r)) {
            return f64::INFINITY;
        }
        let (writes, reads) = (1.0 / self.write, 1.0 / self.read);
        let slope = |length: f64| {
            let gain = match (reads - writes).abs() < 1e-12 * reads {
                true => writes * length,
                false => writes / (reads - writes) * -(-(reads - writes) * length).exp_m1(),
            };
            kappa * gain * (1.0 + self.fresh_reads(length)) - 1.0 - kappa * self.stale_leases(length)
        };
        let (mut low, mut high) = (0.0, self.read);
        while slope(high) < 0.0 {
            high *= 2.0;
            if high > 1e9 * (self.read + self.write) {
                return f64::INFINITY;
            }
        }
        for _ in 0..200 {
            let middle = (low + high) / 2.0;
            if slope(middle) < 0.0 {
                low = middle;
            } else {
                high = middle;
            }
        }
        (low + high) / 2.0
    }

    /// The length that costs least where each read begins the lease again: the copy is used as long as a stale read,
    /// by its chance, costs less than a miss.
    pub fn renewing(self, kappa: f64) -> f64 {
        if kappa <= 1.0 { f64::INFINITY } else { -self.write * (-1.0 / kappa).ln_1p() }
    }

    /// What a read costs there.
    pub fn cost_renewing(self, length: f64, kappa: f64) -> f64 {
        let (reads, writes) = (1.0 / self.read, 1.0 / self.write);
        let fresh_of_all = reads / (reads + writes);
        if length.is_infinite() {
            return kappa * (1.0 - fresh_of_all);
        }
        let used = -(-reads * length).exp_m1();
        let fresh = fresh_of_all * -(-(reads + writes) * length).exp_m1();
        kappa * (used - fresh) + 1.0 - used
    }

    /// What a read costs under leases of `length` that a verdict begins again, where a share `alone` of the reads gets
    /// none: their transactions end without a message. Such a read costs nothing, stale or not, and renews nothing.
    pub fn cost_partly_judged(self, length: f64, kappa: f64, alone: f64) -> f64 {
        let alone = alone.clamp(0.0, ALONE_MAX);
        let (writes, verdicts) = (1.0 / self.write, (1.0 - alone) / self.read);
        // A lease ends with a verdict or, where none came, with a miss.
        let missed = (-verdicts * length).exp();
        let both = if length.is_infinite() { 1.0 } else { -(-(verdicts + writes) * length).exp_m1() };
        let stale = 1.0 - missed - verdicts / (verdicts + writes) * both;
        (missed + kappa * stale) / (1.0 + alone / (1.0 - alone) * (1.0 - missed))
    }

    /// The length that costs least there. A use costs a stale read by its chance; a miss costs itself, and the reads
    /// without a verdict that a renewed lease has begun with. So `kappa (1 - e^-u) = 1 + cost alone / (1 - alone)`,
    /// which is solved by turns.
    pub fn partly_judged(self, kappa: f64, alone: f64) -> f64 {
        let alone = alone.clamp(0.0, ALONE_MAX);
        let mut length = self.renewing(kappa);
        for _ in 0..STEPS_MAX {
            let kept = 1.0 + self.cost_partly_judged(length, kappa, alone) * alone / (1.0 - alone);
            let next = self.renewing(kappa / kept);
            let done = next.is_infinite() || (next - length).abs() <= 1e-12 * next;
            length = next;
            if done {
                break;
            }
        }
        length
    }

    /// The lease to use where each verdict begins it again. Reads without a verdict hardly change it: see
    /// [`Gaps::partly_judged`].
    pub fn renewed(self, kappa: f64) -> Term {
        let length = self.renewing(kappa);
        Term { length, cost: self.cost_renewing(length, kappa) }
    }
}

impl Term {
    /// Its length for one copy: up to a tenth shorter or longer by `chance`, of 0 to 1, so that copies which were made
    /// together do not end together; at most `length_max`.
    pub fn drawn(self, chance: f64, length_max: f64) -> f64 {
        (self.length * (0.9 + 0.2 * chance)).min(length_max)
    }

    /// Whether to keep the copy saves at least the share `least` of the misses.
    pub fn is_worth(self, least: f64) -> bool {
        1.0 - self.cost >= least
    }
}

/// The root u > 0 of `(1 + r + u) e^-u = 1 + right`, where `right = r - r/kappa`. The function is concave, so Newton's
/// method falls to the root from a start beyond it.
fn root(r: f64, kappa: f64, right: f64) -> f64 {
    let mut u = (r * r + 2.0 * r / kappa).sqrt() + 2.0 * r / kappa;
    if right < 0.0 {
        u = u.max(2.0 - 2.0 * right.ln_1p());
    }
    for _ in 0..STEPS_MAX {
        let step = ((r + u).ln_1p() - u - right.ln_1p()) * (1.0 + r + u) / (r + u);
        let next = if u + step > 0.0 { u + step } else { u / 2.0 };
        let done = (next - u).abs() <= 1e-15 * u.max(1.0);
        u = next;
        if done {
            break;
        }
    }
    u
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of the paper: reads and writes, and how many reads a lease has.
    #[test]
    fn the_papers_lines() {
        for (read, write, reads) in
            [(3.2, 160.0, 10), (0.16, 160.0, 44), (0.5, 2800.0, 105), (0.5, 10.0, 6), (1.0, 19.0, 6)]
        {
            assert_eq!(Gaps { read, write }.by_counting(1_000_000).0, reads, "{read} {write}");
        }
        let figure_5 = Gaps { read: 1.0, write: 19.0 };
        assert!((figure_5.by_counting(100).2 - 0.734_993).abs() < 1e-6);
    }

    /// At the ideal length the fresh hit rate is the chance that no write falls in the lease.
    #[test]
    fn the_optimum_has_a_closed_form() {
        for r in [1e-9, 1e-6, 1e-3, 0.05, 0.5, 1.0, 3.0, 50.0] {
            let gaps = Gaps { read: r, write: 1.0 };
            let length = gaps.ideal();
            let rate = gaps.fresh_hit_rate(length);
            assert!((rate - (-length).exp()).abs() < 1e-9, "{r}");
            for other in [0.9, 1.1] {
                assert!(gaps.fresh_hit_rate(length * other) < rate, "{r}");
            }
        }
    }

    #[test]
    fn what_is_never_written_never_ends() {
        let gaps = Gaps { read: 1.0, write: f64::INFINITY };
        assert_eq!(
            (gaps.ideal(), gaps.evicting(6.0), gaps.renewing(6.0)),
            (f64::INFINITY, f64::INFINITY, f64::INFINITY)
        );
        assert_eq!((gaps.cost_to_the_end(f64::INFINITY, 6.0), gaps.cost_renewing(f64::INFINITY, 6.0)), (0.0, 0.0));
        let term = gaps.renewed(6.0);
        assert_eq!((term.drawn(0.5, 60.0), term.is_worth(0.99)), (60.0, true));
    }

    #[test]
    fn what_is_written_most_is_not_worth_a_copy() {
        let term = Gaps { read: 1.0, write: 100.0 }.renewed(6.0);
        assert!((term.cost - 0.058).abs() < 0.01 && term.is_worth(0.9), "{term:?}");
        let written = Gaps { read: 10.0, write: 1.0 }.renewed(6.0);
        assert!(!written.is_worth(0.05), "{written:?}");
    }

    /// Where each read gets a verdict, it is the rule of those that renew; else no other length costs less.
    #[test]
    fn reads_without_a_verdict_lengthen_leases_a_little() {
        let gaps = Gaps { read: 1.0, write: 100.0 };
        let (length, cost) = (gaps.renewing(6.0), gaps.cost_renewing(gaps.renewing(6.0), 6.0));
        assert!((gaps.partly_judged(6.0, 0.0) / length - 1.0).abs() < 1e-9);
        assert!((gaps.cost_partly_judged(length, 6.0, 0.0) / cost - 1.0).abs() < 1e-9);
        for (gaps, kappa, alone) in [(gaps, 6.0, 0.5), (gaps, 6.0, 0.8), (Gaps { read: 5.0, write: 3.0 }, 5.0, 0.3)] {
            let best = gaps.partly_judged(kappa, alone);
            let cost = |length: f64| gaps.cost_partly_judged(length, kappa, alone);
            assert!(best > gaps.renewing(kappa), "{alone}");
            assert!([0.5, 0.9, 1.1, 2.0].iter().all(|other| cost(best) < cost(best * other)), "{alone}");
            assert!(cost(gaps.renewing(kappa)) < 1.02 * cost(best), "{alone}");
        }
        let unseen = gaps.partly_judged(6.0, 0.8);
        assert!((unseen - 22.872).abs() < 0.001 && (length - 18.232).abs() < 0.001, "{unseen} {length}");
    }

    #[test]
    fn leases_that_began_together_end_apart() {
        let term = Term { length: 10.0, cost: 0.1 };
        assert_eq!([0.0, 0.5, 1.0].map(|chance| term.drawn(chance, 10.5)), [9.0, 10.0, 10.5]);
    }
}
