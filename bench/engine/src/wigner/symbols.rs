//! Wigner's symbols: a 6j symbol as a sum of products of 3j symbols.

use wigners::wigner_3j;

/// A 3j symbol: three angular momenta, and the first two of their projections. The third is minus the sum of those.
#[derive(Clone, Copy)]
pub struct Three {
    pub j: [u32; 3],
    pub m: [i32; 2],
}

/// The six angular momenta of a 6j symbol.
#[derive(Clone, Copy)]
pub struct Six([u32; 6]);

/// Five numbers of 8 bits: a momentum is below 128.
pub fn key(three: Three) -> u64 {
    let Three { j: [j1, j2, j3], m: [m1, m2] } = three;
    let byte = |m: i32| u64::from(m as i8 as u8);
    u64::from(j1) << 32 | u64::from(j2) << 24 | u64::from(j3) << 16 | byte(m1) << 8 | byte(m2)
}

/// Its value, by the crate `wigners`, whose own cache is asked first.
pub fn value(three: Three) -> f64 {
    let Three { j: [j1, j2, j3], m: [m1, m2] } = three;
    wigner_3j(j1, j2, j3, m1, m2, -m1 - m2)
}

/// As [`value`], with nothing in the crate's cache.
pub fn computed(three: Three) -> f64 {
    wigners::clear_wigner_3j_cache();
    value(three)
}

fn is_triangle(a: u32, b: u32, c: u32) -> bool {
    a <= b + c && b <= a + c && c <= a + b
}

impl Six {
    /// Every so manieth of those that are not zero for want of a triangle, with momenta up to `most`.
    pub fn all(most: u32, every: usize) -> Vec<Six> {
        let base = most as usize + 1;
        let digits = |number: usize| std::array::from_fn(|at| (number / base.pow(at as u32) % base) as u32);
        let all = (0..base.pow(6)).map(digits).filter(|&[a, b, c, d, e, f]: &[u32; 6]| {
            is_triangle(a, b, c) && is_triangle(a, e, f) && is_triangle(d, b, f) && is_triangle(d, e, c)
        });
        all.step_by(every).map(Six).collect()
    }

    /// The symbol, of 3j symbols as `three` gives them:
    ///
    /// ```text
    /// { a b c }       sum of    (-1)^(sum of j - m)  ( a  b  c)( a  e  f)( d  b  f)( d  e  c)
    /// { d e f }  =  all m                            (-m -n -o)( m -q  r)( p  n -r)(-p  q  o)
    /// ```
    pub fn sum(&self, mut three: impl FnMut(Three) -> f64) -> f64 {
        let [a, b, c, d, e, f] = self.0;
        let within = |j: u32, m: i32| m.unsigned_abs() <= j;
        let range = |j: u32| -(j as i32)..=j as i32;
        let momenta: i32 = self.0.iter().map(|&j| j as i32).sum();
        let mut sum = 0.0;
        for m in range(a) {
            for n in range(b) {
                let o = -m - n;
                if !within(c, o) {
                    continue;
                }
                for r in range(f) {
                    // Of each 3j symbol the projections sum up to zero.
                    let (q, p) = (m + r, r - n);
                    if !within(e, q) || !within(d, p) {
                        continue;
                    }
                    let product = three(Three { j: [a, b, c], m: [-m, -n] })
                        * three(Three { j: [a, e, f], m: [m, -q] })
                        * three(Three { j: [d, b, f], m: [p, n] })
                        * three(Three { j: [d, e, c], m: [-p, q] });
                    let exponent = momenta - (m + n + o + p + q + r);
                    sum += if exponent % 2 == 0 { product } else { -product };
                }
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn six(j: [u32; 6]) -> f64 {
        Six(j).sum(value)
    }

    /// Against published values, and a symmetry: columns may change places.
    #[test]
    fn sums_are_6j_symbols() {
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
        near(six([1, 1, 1, 1, 1, 1]), 1.0 / 6.0);
        near(six([2, 2, 2, 2, 2, 2]), -3.0 / 70.0);
        near(six([1, 1, 0, 1, 1, 0]), 1.0 / 3.0);
        near(six([1, 2, 3, 2, 1, 2]), 1.0 / (5.0 * 21f64.sqrt()));
        near(six([3, 2, 4, 1, 3, 2]), six([2, 3, 4, 3, 1, 2]));
        let zero = Six::all(3, 1).into_iter().filter(|six| six.0[2] == 0);
        for six in zero {
            // With a momentum of zero there is a closed form.
            let [a, b, _, d, e, f] = six.0;
            let sign = if (a + e + f) % 2 == 0 { 1.0 } else { -1.0 };
            let expected = if a == b && d == e { sign / f64::from((2 * a + 1) * (2 * d + 1)).sqrt() } else { 0.0 };
            near(six.sum(value), expected);
        }
    }

    #[test]
    fn keys_differ() {
        let mut seen = std::collections::HashSet::new();
        for six in Six::all(2, 1) {
            six.sum(|three| {
                seen.insert((key(three), three.j, three.m));
                1.0
            });
        }
        let keys: std::collections::HashSet<u64> = seen.iter().map(|entry| entry.0).collect();
        assert_eq!(keys.len(), seen.len());
    }
}
