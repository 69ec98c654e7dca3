//! The tags of a group: a byte per slot, compared with a wanted one all at once.
#![allow(unsafe_code)]

use crate::sync::{AtomicU64, Ordering};

/// Slots of a group, each of which has a tag.
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub(super) const SLOTS: usize = 16;
/// The models' time is that of making groups, for the most part.
#[cfg(any(feature = "loom", feature = "shuttle"))]
pub(super) const SLOTS: usize = 2;

/// Of a slot that holds nothing.
pub(super) const FREE: u8 = 0;
/// Of a slot whose entry was removed while the order still names it.
pub(super) const DEAD: u8 = 1;
/// Set in the tags of entries, and in no other.
const LIVE: u8 = 0x80;

/// The tag of an entry whose key has this hash: the lowest byte, the others do not matter.
#[inline(always)]
pub(super) fn tag_of(hash: u64) -> u32 {
    hash as u32 | u32::from(LIVE)
}

/// Whether a slot with this tag holds an entry.
#[cfg(all(test, not(feature = "loom")))]
pub(super) fn is_live(tag: u8) -> bool {
    tag & LIVE != 0
}

/// Sixteen tags in two words. A writer holds the shard's lock, so that a change of one byte is a plain load and
/// a plain store of its word.
#[repr(C, align(16))]
pub(super) struct Tags([AtomicU64; 2]);

impl Tags {
    pub fn new() -> Tags {
        Tags([AtomicU64::new(0), AtomicU64::new(0)])
    }

    /// The slots with this tag, the lowest byte of what is given.
    #[inline(always)]
    pub fn equal_to(&self, tag: impl Into<u32>) -> Lanes {
        simd::equal_to(&self.0, tag.into())
    }

    #[inline]
    pub fn get(&self, lane: usize) -> u8 {
        (self.0[lane / 8].load(Ordering::Relaxed) >> (lane % 8 * 8)) as u8
    }

    /// The shard's lock is held.
    #[inline]
    pub fn set(&self, lane: usize, tag: u8) {
        let (word, shift) = (&self.0[lane / 8], lane % 8 * 8);
        let others = word.load(Ordering::Relaxed) & !(0xff << shift);
        word.store(others | u64::from(tag) << shift, Ordering::Relaxed);
    }

    /// All free. The shard's lock is held.
    pub fn clear(&self) {
        for word in &self.0 {
            word.store(0, Ordering::Relaxed);
        }
    }
}

/// A set of slots of a group, one bit each, `1 << STEP_LOG2` bits apart.
#[derive(Clone, Copy)]
pub(super) struct Lanes(Bits);

#[cfg(not(all(target_arch = "aarch64", not(miri), not(any(feature = "loom", feature = "shuttle")))))]
type Bits = u32;
#[cfg(all(target_arch = "aarch64", not(miri), not(any(feature = "loom", feature = "shuttle"))))]
type Bits = u64;

const STEP_LOG2: u32 = if Bits::BITS == 64 { 2 } else { 0 };

impl Lanes {
    /// The first, which stays.
    #[inline(always)]
    pub fn first(self) -> Option<usize> {
        (self.0 != 0).then(|| (self.0.trailing_zeros() >> STEP_LOG2) as usize)
    }
}

impl Iterator for Lanes {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let lane = self.first()?;
        self.0 &= self.0 - 1;
        Some(lane)
    }
}

#[cfg(all(target_arch = "x86_64", not(miri), not(any(feature = "loom", feature = "shuttle"))))]
mod simd {
    use std::arch::asm;

    use super::{AtomicU64, Lanes};

    #[inline(always)]
    pub(super) fn equal_to(words: &[AtomicU64; 2], tag: u32) -> Lanes {
        let lanes: u32;
        // SAFETY: the address is that of 16 readable bytes, aligned to 16 by `Tags`. The comparison stands for two
        // relaxed loads of the words, which may be stored to meanwhile: each half of an aligned load of 16 bytes is
        // read at once on every x86-64. As assembly it is no data race. All is SSE2, part of every x86-64; the tag is
        // spread over the register from the lowest byte, whatever the others are.
        unsafe {
            asm!(
                "movd {tags}, {tag:e}",
                "punpcklbw {tags}, {tags}",
                "pshuflw {tags}, {tags}, 0",
                "punpcklqdq {tags}, {tags}",
                "pcmpeqb {tags}, xmmword ptr [{words}]",
                "pmovmskb {lanes:e}, {tags}",
                tag = in(reg) tag,
                words = in(reg) words,
                tags = out(xmm_reg) _,
                lanes = lateout(reg) lanes,
                options(pure, readonly, nostack, preserves_flags)
            );
        }
        Lanes(lanes)
    }
}

#[cfg(all(target_arch = "aarch64", not(miri), not(any(feature = "loom", feature = "shuttle"))))]
mod simd {
    use std::arch::aarch64::{
        vceqq_u8, vcombine_u64, vcreate_u64, vdupq_n_u8, vget_lane_u64, vreinterpret_u64_u8, vreinterpretq_u8_u64,
        vreinterpretq_u16_u8, vshrn_n_u16,
    };

    use super::{AtomicU64, Lanes};
    use crate::sync::Ordering;

    #[inline(always)]
    pub(super) fn equal_to(words: &[AtomicU64; 2], tag: u32) -> Lanes {
        let [low, high] = [words[0].load(Ordering::Relaxed), words[1].load(Ordering::Relaxed)];
        // SAFETY: NEON is part of every aarch64 that Rust's standard library runs on.
        let nibbles = unsafe {
            let tags = vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(low), vcreate_u64(high)));
            let equal = vceqq_u8(tags, vdupq_n_u8(tag as u8));
            vget_lane_u64(vreinterpret_u64_u8(vshrn_n_u16::<4>(vreinterpretq_u16_u8(equal))), 0)
        };
        Lanes(nibbles & 0x1111_1111_1111_1111)
    }
}

#[cfg(any(miri, feature = "loom", feature = "shuttle", not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod simd {
    use super::{AtomicU64, Lanes};

    #[inline(always)]
    pub(super) fn equal_to(words: &[AtomicU64; 2], tag: u32) -> Lanes {
        super::portable(words, tag)
    }
}

/// Without vectors: exact, so that a free slot is never one that has an entry.
#[cfg(any(
    test,
    miri,
    feature = "loom",
    feature = "shuttle",
    not(any(target_arch = "x86_64", target_arch = "aarch64"))
))]
fn portable(words: &[AtomicU64; 2], tag: u32) -> Lanes {
    const LOW_BITS: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let half = |word: &AtomicU64| {
        let differs = word.load(Ordering::Relaxed) ^ u64::from_ne_bytes([tag as u8; 8]);
        // The top bit of each byte that is zero.
        let zero = !(((differs & LOW_BITS) + LOW_BITS) | differs | LOW_BITS);
        // They are gathered in the top byte.
        (zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
    };
    let bits = half(&words[0]) | half(&words[1]) << 8;
    (0..SLOTS)
        .filter(|lane| bits >> lane & 1 == 1)
        .fold(Lanes(0), |lanes, lane| Lanes(lanes.0 | 1 << (lane << STEP_LOG2)))
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn both_forms_find_the_same() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..if cfg!(miri) { 100 } else { 20_000 } {
            let tags = Tags::new();
            let mut bytes = [0; SLOTS];
            for (lane, byte) in bytes.iter_mut().enumerate() {
                *byte = [FREE, DEAD, 0x80, 0x81, 0xff, random.u8(..)][random.usize(..6)];
                tags.set(lane, *byte);
                assert_eq!(tags.get(lane), *byte);
            }
            let tag = bytes[random.usize(..SLOTS)];
            let expected: Vec<usize> = (0..SLOTS).filter(|&lane| bytes[lane] == tag).collect();
            assert_eq!(tags.equal_to(tag).collect::<Vec<_>>(), expected);
            assert_eq!(portable(&tags.0, tag.into()).collect::<Vec<_>>(), expected);
            assert_eq!(tags.equal_to(tag ^ 0x40).count(), bytes.iter().filter(|&&byte| byte == tag ^ 0x40).count());
        }
    }
}
