//! A sequence of byte strings, cheap at both ends.

use super::{Blob, blob_bytes};

/// A sequence of byte strings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct List {
    elements: imbl::Vector<Blob>,
    bytes: usize,
}

impl List {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Whether it has no element.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// The element at `index`.
    pub fn get(&self, index: usize) -> Option<&Blob> {
        self.elements.get(index)
    }

    /// Adds an element before the first.
    pub fn push_left(&mut self, element: Blob) {
        self.bytes += blob_bytes(&element);
        self.elements.push_front(element);
    }

    /// Adds an element after the last.
    pub fn push_right(&mut self, element: Blob) {
        self.bytes += blob_bytes(&element);
        self.elements.push_back(element);
    }

    /// Removes the first element.
    pub fn pop_left(&mut self) -> Option<Blob> {
        let element = self.elements.pop_front()?;
        self.bytes -= blob_bytes(&element);
        Some(element)
    }

    /// Removes the last element.
    pub fn pop_right(&mut self) -> Option<Blob> {
        let element = self.elements.pop_back()?;
        self.bytes -= blob_bytes(&element);
        Some(element)
    }

    /// Removes `count` elements equal to `element` from the left, from the right if negative, all if 0, as LREM does.
    /// Returns how many were removed.
    pub fn remove_equal(&mut self, count: i64, element: &[u8]) -> usize {
        let _ = (count, element);
        todo!("helper C")
    }

    /// The elements `start..end`.
    pub fn range(&self, start: usize, end: usize) -> impl Iterator<Item = &Blob> {
        self.elements.iter().skip(start).take(end.saturating_sub(start))
    }

    /// All elements.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Blob> {
        self.elements.iter()
    }

    /// Heap bytes.
    pub fn size(&self) -> usize {
        self.bytes
    }
}
