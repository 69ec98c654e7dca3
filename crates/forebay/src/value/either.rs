//! One iterator out of two, for the two forms that a hash, list or set has.

/// Either of two iterators over the same items.
#[derive(Clone)]
pub(super) enum Either<A, B> {
    /// Over the small form.
    Small(A),
    /// Over the large form.
    Large(B),
}

impl<A: Iterator, B: Iterator<Item = A::Item>> Iterator for Either<A, B> {
    type Item = A::Item;

    fn next(&mut self) -> Option<A::Item> {
        match self {
            Either::Small(iter) => iter.next(),
            Either::Large(iter) => iter.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Either::Small(iter) => iter.size_hint(),
            Either::Large(iter) => iter.size_hint(),
        }
    }

    fn nth(&mut self, n: usize) -> Option<A::Item> {
        match self {
            Either::Small(iter) => iter.nth(n),
            Either::Large(iter) => iter.nth(n),
        }
    }
}

impl<A: DoubleEndedIterator, B: DoubleEndedIterator<Item = A::Item>> DoubleEndedIterator for Either<A, B> {
    fn next_back(&mut self) -> Option<A::Item> {
        match self {
            Either::Small(iter) => iter.next_back(),
            Either::Large(iter) => iter.next_back(),
        }
    }
}
