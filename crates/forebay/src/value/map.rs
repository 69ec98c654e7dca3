//! Sorted keys with payloads: what hashes (payload: a byte string) and sets (payload: nothing) are made of.
//!
//! Two forms. Up to [`Payload::SMALL_ENTRIES_MAX`] entries: one shared sorted array, copied on write; nothing is
//! smaller, and copying so few pointers costs less than a tree. Above: a persistent B-tree, whose nodes are shared
//! between versions. The form follows from the number of entries alone, both ways and at once, so that equal content
//! means equal form and equal size. A change back and forth across the limit costs about one copy of the small form.
//! A change below the limit costs that anyway.

use std::ops::Bound;
use std::sync::Arc;

use super::either::Either;
use super::{Blob, COUNTS_BYTES, allocated_bytes, blob_bytes};

/// What stands beside a key.
pub(super) trait Payload: Clone + PartialEq {
    /// Most entries of the small form.
    const SMALL_ENTRIES_MAX: usize;
    /// Bytes of tree nodes per entry of the large form, its share of the branches included: between
    /// what keys inserted in order (half full leaves) and in random order (leaves two thirds full) leave behind. A tree
    /// from which half of the entries were removed again has more, up to a quarter of the whole where keys are tiny.
    const TREE_ENTRY_BYTES: usize;
    /// Heap bytes of the payload.
    fn heap_bytes(&self) -> usize;
}

impl Payload for Blob {
    const SMALL_ENTRIES_MAX: usize = 32;
    const TREE_ENTRY_BYTES: usize = 74;

    fn heap_bytes(&self) -> usize {
        blob_bytes(self.len())
    }
}

impl Payload for () {
    const SMALL_ENTRIES_MAX: usize = 64;
    const TREE_ENTRY_BYTES: usize = 39;

    fn heap_bytes(&self) -> usize {
        0
    }
}

#[derive(Clone, Debug)]
enum Form<V: Payload> {
    Small(Arc<[(Blob, V)]>),
    Large(Arc<imbl::OrdMap<Blob, V>>),
}

/// What is shared is equal without a look at it: the standard library looks, behind a pointer to a slice.
impl<V: Payload> PartialEq for Form<V> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Form::Small(left), Form::Small(right)) => Arc::ptr_eq(left, right) || left == right,
            (Form::Large(left), Form::Large(right)) => Arc::ptr_eq(left, right) || left == right,
            _ => false,
        }
    }
}

/// Sorted keys with payloads.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Map<V: Payload> {
    form: Form<V>,
    /// Heap bytes of all keys and payloads, without the array or tree that holds them.
    content_bytes: usize,
}

impl<V: Payload> Default for Map<V> {
    fn default() -> Self {
        Map { form: Form::Small(Arc::default()), content_bytes: 0 }
    }
}

fn find<V>(entries: &[(Blob, V)], key: &[u8]) -> Result<usize, usize> {
    entries.binary_search_by(|(probe, _)| (**probe).cmp(key))
}

impl<V: Payload> Map<V> {
    pub(super) fn len(&self) -> usize {
        match &self.form {
            Form::Small(entries) => entries.len(),
            Form::Large(tree) => tree.len(),
        }
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&V> {
        match &self.form {
            Form::Small(entries) => find(entries, key).ok().map(|at| &entries[at].1),
            Form::Large(tree) => tree.get(key),
        }
    }

    /// Sets the payload of `key`; returns the old one. A key that is there already stays the stored one.
    pub(super) fn insert(&mut self, key: Blob, payload: V) -> Option<V> {
        self.content_bytes += payload.heap_bytes();
        let key_bytes = blob_bytes(key.len());
        let old = match &mut self.form {
            Form::Small(entries) => match find(entries, &key) {
                Ok(at) => Some(std::mem::replace(&mut Arc::make_mut(entries)[at].1, payload)),
                Err(at) if entries.len() < V::SMALL_ENTRIES_MAX => {
                    let (before, after) = entries.split_at(at);
                    let entry = std::iter::once((key, payload));
                    *entries = before.iter().cloned().chain(entry).chain(after.iter().cloned()).collect();
                    None
                }
                Err(_) => {
                    let mut tree: imbl::OrdMap<Blob, V> = entries.iter().cloned().collect();
                    tree.insert(key, payload);
                    self.form = Form::Large(Arc::new(tree));
                    None
                }
            },
            Form::Large(tree) => Arc::make_mut(tree).insert(key, payload),
        };
        match &old {
            Some(old) => self.content_bytes -= old.heap_bytes(),
            None => self.content_bytes += key_bytes,
        }
        old
    }

    /// Removes `key`; returns its payload.
    pub(super) fn remove(&mut self, key: &[u8]) -> Option<V> {
        let old = match &mut self.form {
            Form::Small(entries) => {
                let at = find(entries, key).ok()?;
                let old = entries[at].1.clone();
                *entries = entries[..at].iter().chain(&entries[at + 1..]).cloned().collect();
                old
            }
            Form::Large(tree) => {
                // Looked up first: a removal copies the path to the key even where the key is absent.
                if !tree.contains_key(key) {
                    return None;
                }
                let old = Arc::make_mut(tree).remove(key)?;
                if tree.len() <= V::SMALL_ENTRIES_MAX {
                    let entries = tree.iter().map(|(key, payload)| (key.clone(), payload.clone())).collect();
                    self.form = Form::Small(entries);
                }
                old
            }
        };
        self.content_bytes -= blob_bytes(key.len()) + old.heap_bytes();
        Some(old)
    }

    /// All entries, by key.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Blob, &V)> + Clone {
        match &self.form {
            Form::Small(entries) => Either::Small(entries.iter().map(|(key, payload)| (key, payload))),
            Form::Large(tree) => Either::Large(tree.iter()),
        }
    }

    /// The entries whose key is greater than `key`, by key.
    pub(super) fn iter_after(&self, key: &[u8]) -> impl Iterator<Item = (&Blob, &V)> {
        match &self.form {
            Form::Small(entries) => {
                let from = entries.partition_point(|(probe, _)| **probe <= *key);
                Either::Small(entries[from..].iter().map(|(key, payload)| (key, payload)))
            }
            Form::Large(tree) => Either::Large(tree.range::<_, [u8]>((Bound::Excluded(key), Bound::Unbounded))),
        }
    }

    /// The entry at `index` in the order of iteration; O(index) in the large form.
    pub(super) fn nth(&self, index: usize) -> Option<(&Blob, &V)> {
        match &self.form {
            Form::Small(entries) => entries.get(index).map(|(key, payload)| (key, payload)),
            Form::Large(tree) => tree.iter().nth(index),
        }
    }

    /// Heap bytes.
    pub(super) fn size(&self) -> usize {
        size::<V>(self.len(), self.content_bytes)
    }

    /// Heap bytes if `key` had a payload of `payload_bytes` heap bytes.
    pub(super) fn size_with(&self, key: &[u8], payload_bytes: usize) -> usize {
        match self.get(key) {
            Some(old) => size::<V>(self.len(), self.content_bytes - old.heap_bytes() + payload_bytes),
            None => size::<V>(self.len() + 1, self.content_bytes + blob_bytes(key.len()) + payload_bytes),
        }
    }
}

fn size<V: Payload>(len: usize, content_bytes: usize) -> usize {
    let entry_bytes = size_of::<(Blob, V)>();
    let index_bytes = if len <= V::SMALL_ENTRIES_MAX {
        allocated_bytes(COUNTS_BYTES + len * entry_bytes)
    } else {
        allocated_bytes(COUNTS_BYTES + size_of::<imbl::OrdMap<Blob, V>>()) + len * V::TREE_ENTRY_BYTES
    };
    index_bytes + content_bytes
}

impl<V: Payload> FromIterator<(Blob, V)> for Map<V> {
    /// Of equal keys the last one's payload stays.
    fn from_iter<I: IntoIterator<Item = (Blob, V)>>(entries: I) -> Self {
        let mut entries: Vec<(Blob, V)> = entries.into_iter().collect();
        if !entries.is_sorted_by(|a, b| a.0 < b.0) {
            entries.reverse();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            entries.dedup_by(|next, kept| next.0 == kept.0);
        }
        let content_bytes = entries.iter().map(|(key, payload)| blob_bytes(key.len()) + payload.heap_bytes()).sum();
        let form = if entries.len() <= V::SMALL_ENTRIES_MAX {
            Form::Small(entries.into())
        } else {
            Form::Large(Arc::new(entries.into_iter().collect()))
        };
        Map { form, content_bytes }
    }
}
