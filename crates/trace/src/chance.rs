//! Seeded randomness of noise.

/// Sums of the shares of ranks, the last about 1.
pub(crate) fn zipf(domain: usize, exponent: f64) -> Vec<f64> {
    let weights: Vec<f64> = (1..=domain).map(|rank| (rank as f64).powf(-exponent)).collect();
    let whole: f64 = weights.iter().sum();
    weights
        .iter()
        .scan(0.0, |sum, weight| {
            *sum += weight / whole;
            Some(*sum)
        })
        .collect()
}

/// A number from 0 up to 1 (splitmix64).
pub(crate) fn uniform(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut x = *state;
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}
