//! The hasher of caches that are given none.
//!
//! Its seeds come by chance, so that no client can choose keys that collide. A snapshot keeps them. What a cache
//! remembers of keys that left is prints of their hashes, which are worth something to equal seeds alone.

use std::hash::{BuildHasher, RandomState};
use std::sync::{LazyLock, OnceLock};

use foldhash::SharedSeed;
use foldhash::quality::{FoldHasher, SeedableRandomState};

/// Shared seeds of snapshots that one process takes, at most. Each snapshot of another process has a different one.
const SHARED_MAX: usize = 64;

/// What tells one hasher from another. Who knows it can choose keys that collide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seeds {
    pub own: u64,
    pub shared: u64,
}

/// Hashes keys with seeds of chance: the hasher of a [`Cache`](crate::Cache) that is given none.
///
/// ```
/// use std::hash::BuildHasher;
/// use forebay_cache::Hashing;
///
/// let (one, other) = (Hashing::default(), Hashing::default());
/// assert_eq!(one.hash_one("key"), one.clone().hash_one("key"));
/// assert_ne!(one.hash_one("key"), other.hash_one("key"));
/// ```
#[derive(Clone)]
pub struct Hashing {
    state: SeedableRandomState,
    seeds: Seeds,
}

/// The shared seed of this process, and those of others whose snapshots it took.
static OF_PROCESS: LazyLock<(u64, SharedSeed)> = LazyLock::new(|| numbered(RandomState::new().hash_one(1)));
static OF_OTHERS: [OnceLock<(u64, SharedSeed)>; SHARED_MAX] = [const { OnceLock::new() }; SHARED_MAX];

fn numbered(number: u64) -> (u64, SharedSeed) {
    (number, SharedSeed::from_u64(number))
}

impl Hashing {
    /// With these seeds. `None`: there were too many others before.
    pub(super) fn of(seeds: Seeds) -> Option<Hashing> {
        let of_others = OF_OTHERS.iter().map(|other| other.get_or_init(|| numbered(seeds.shared)));
        let mut all = std::iter::once(&*OF_PROCESS).chain(of_others);
        let (_, shared) = all.find(|(number, _)| *number == seeds.shared)?;
        Some(Hashing { state: SeedableRandomState::with_seed(seeds.own, shared), seeds })
    }

    pub(super) fn seeds(&self) -> Seeds {
        self.seeds
    }
}

impl Default for Hashing {
    fn default() -> Hashing {
        let (number, shared) = &*OF_PROCESS;
        let seeds = Seeds { own: RandomState::new().hash_one(0), shared: *number };
        Hashing { state: SeedableRandomState::with_seed(seeds.own, shared), seeds }
    }
}

impl BuildHasher for Hashing {
    type Hasher = FoldHasher<'static>;

    #[inline(always)]
    fn build_hasher(&self) -> FoldHasher<'static> {
        self.state.build_hasher()
    }
}

/// The seeds are nothing for a log.
impl std::fmt::Debug for Hashing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hashing").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_hasher() {
        let hashing = Hashing::default();
        let again = Hashing::of(hashing.seeds()).map(|again| again.hash_one("key"));
        assert_eq!(again, Some(hashing.hash_one("key")));
        let other = Hashing::of(Seeds { own: 1, shared: 2 }).map(|other| other.hash_one("key"));
        assert_eq!(other, Hashing::of(Seeds { own: 1, shared: 2 }).map(|other| other.hash_one("key")));
        assert_ne!(other, again);
        let made = (0..1000).filter_map(|shared| Hashing::of(Seeds { own: 1, shared })).count();
        assert_eq!(made, SHARED_MAX, "2 was there");
    }
}
