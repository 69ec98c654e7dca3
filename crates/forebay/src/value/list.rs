//! A sequence of byte strings, cheap at both ends.
//!
//! Two forms, as in `map.rs`, and for the same reasons: one shared array up to [`SMALL_ELEMENTS_MAX`], a persistent
//! vector of chunks above. The form follows from the number of elements alone.

use std::sync::Arc;

use super::either::Either;
use super::{Blob, COUNTS_BYTES, allocated_bytes, blob_bytes};

/// Most elements of the small form. The persistent vector starts with four empty chunks of a kilobyte each, so it
/// pays late.
const SMALL_ELEMENTS_MAX: usize = 64;

/// Elements in a chunk of the persistent vector.
const CHUNK_ELEMENTS: usize = 64;

/// Bytes of one chunk, as allocated: the elements, where they begin and end, and two reference counts.
const CHUNK_BYTES: usize = 1280;

/// Chunks that the persistent vector has at least: two at either end.
const CHUNKS_MIN: usize = 4;

/// Bytes of the vector's head and root.
const CHUNKED_HEAD_BYTES: usize = 128;

#[derive(Clone, Debug, PartialEq)]
enum Form {
    Small(Arc<[Blob]>),
    Large(Arc<imbl::Vector<Blob>>),
}

/// A sequence of byte strings. Cloning it copies a pointer; a change copies what the clones share near it only.
#[derive(Clone, Debug, PartialEq)]
pub struct List {
    form: Form,
    /// Heap bytes of all elements, without the array or chunks that hold them.
    content_bytes: usize,
}

impl Default for List {
    fn default() -> List {
        List { form: Form::Small(Arc::default()), content_bytes: 0 }
    }
}

impl List {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match &self.form {
            Form::Small(elements) => elements.len(),
            Form::Large(elements) => elements.len(),
        }
    }

    /// Whether it has no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at `index`.
    pub fn get(&self, index: usize) -> Option<&Blob> {
        match &self.form {
            Form::Small(elements) => elements.get(index),
            Form::Large(elements) => elements.get(index),
        }
    }

    /// Puts `element` in the place of the one at `index`, if there is one.
    pub(super) fn replace(&mut self, index: usize, element: Blob) {
        let Some(old) = self.get(index).map(|old| blob_bytes(old.len())) else {
            debug_assert!(false, "element {index} of {}", self.len());
            return;
        };
        self.content_bytes = self.content_bytes - old + blob_bytes(element.len());
        match &mut self.form {
            Form::Small(elements) => Arc::make_mut(elements)[index] = element,
            Form::Large(elements) => drop(Arc::make_mut(elements).set(index, element)),
        }
    }

    /// Adds an element before the first.
    pub fn push_left(&mut self, element: Blob) {
        self.content_bytes += blob_bytes(element.len());
        match &mut self.form {
            Form::Small(elements) if elements.len() < SMALL_ELEMENTS_MAX => {
                *elements = std::iter::once(element).chain(elements.iter().cloned()).collect();
            }
            Form::Small(elements) => {
                let mut chunked = chunked(elements);
                chunked.push_front(element);
                self.form = Form::Large(Arc::new(chunked));
            }
            Form::Large(elements) => Arc::make_mut(elements).push_front(element),
        }
    }

    /// Adds an element after the last.
    pub fn push_right(&mut self, element: Blob) {
        self.content_bytes += blob_bytes(element.len());
        match &mut self.form {
            Form::Small(elements) if elements.len() < SMALL_ELEMENTS_MAX => {
                *elements = elements.iter().cloned().chain(std::iter::once(element)).collect();
            }
            Form::Small(elements) => {
                let mut chunked = chunked(elements);
                chunked.push_back(element);
                self.form = Form::Large(Arc::new(chunked));
            }
            Form::Large(elements) => Arc::make_mut(elements).push_back(element),
        }
    }

    /// Removes the first element.
    pub fn pop_left(&mut self) -> Option<Blob> {
        let element = match &mut self.form {
            Form::Small(elements) => {
                let element = elements.first()?.clone();
                *elements = elements[1..].iter().cloned().collect();
                element
            }
            Form::Large(elements) => Arc::make_mut(elements).pop_front()?,
        };
        self.popped(element)
    }

    /// Removes the last element.
    pub fn pop_right(&mut self) -> Option<Blob> {
        let element = match &mut self.form {
            Form::Small(elements) => {
                let element = elements.last()?.clone();
                *elements = elements[..elements.len() - 1].iter().cloned().collect();
                element
            }
            Form::Large(elements) => Arc::make_mut(elements).pop_back()?,
        };
        self.popped(element)
    }

    /// Removes `count` elements equal to `element` from the left, from the right if negative, all if 0, as LREM does.
    /// Returns how many were removed. O(n).
    pub fn remove_equal(&mut self, count: i64, element: &[u8]) -> usize {
        let limit = if count == 0 { usize::MAX } else { usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX) };
        let equal = self.iter().filter(|other| ***other == *element).count();
        let removed = equal.min(limit);
        if removed == 0 {
            return 0;
        }
        // The equal elements from `first` on go, as many as `removed`, counted among the equal ones.
        let first = if count < 0 { equal - removed } else { 0 };
        let mut seen = 0;
        let kept = self.iter().filter(|other| {
            if ***other != *element {
                return true;
            }
            seen += 1;
            seen <= first || seen > first + removed
        });
        *self = kept.cloned().collect();
        removed
    }

    /// The elements `start..end`, as far as there are such.
    pub fn range(&self, start: usize, end: usize) -> impl Iterator<Item = &Blob> + Clone {
        let end = end.min(self.len());
        let start = start.min(end);
        match &self.form {
            Form::Small(elements) => Either::Small(elements[start..end].iter()),
            Form::Large(elements) => Either::Large(elements.focus().narrow(start..end).into_iter()),
        }
    }

    /// All elements.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Blob> + Clone {
        match &self.form {
            Form::Small(elements) => Either::Small(elements.iter()),
            Form::Large(elements) => Either::Large(elements.iter()),
        }
    }

    /// Heap bytes; see [`Value::size`](super::Value::size).
    pub fn size(&self) -> usize {
        size(self.len(), self.content_bytes)
    }

    /// Heap bytes with one more element, of `element_len` bytes.
    pub fn size_with(&self, element_len: usize) -> usize {
        size(self.len() + 1, self.content_bytes + blob_bytes(element_len))
    }

    fn popped(&mut self, element: Blob) -> Option<Blob> {
        self.content_bytes -= blob_bytes(element.len());
        if let Form::Large(elements) = &self.form
            && elements.len() <= SMALL_ELEMENTS_MAX
        {
            self.form = Form::Small(elements.iter().cloned().collect());
        }
        Some(element)
    }
}

fn chunked(elements: &[Blob]) -> imbl::Vector<Blob> {
    elements.iter().cloned().collect()
}

fn size(len: usize, content_bytes: usize) -> usize {
    let index_bytes = if len <= SMALL_ELEMENTS_MAX {
        allocated_bytes(COUNTS_BYTES + len * size_of::<Blob>())
    } else {
        // Two chunks more than full ones would be: those at the ends are partly filled.
        CHUNKED_HEAD_BYTES + CHUNK_BYTES * CHUNKS_MIN.max(len / CHUNK_ELEMENTS + 2)
    };
    index_bytes + content_bytes
}

impl FromIterator<Blob> for List {
    fn from_iter<I: IntoIterator<Item = Blob>>(elements: I) -> List {
        let elements: Vec<Blob> = elements.into_iter().collect();
        let content_bytes = elements.iter().map(|element| blob_bytes(element.len())).sum();
        let form = if elements.len() <= SMALL_ELEMENTS_MAX {
            Form::Small(elements.into())
        } else {
            Form::Large(Arc::new(elements.into_iter().collect()))
        };
        List { form, content_bytes }
    }
}
