//! What stands in the blocks: `docs/snapshot-format.md` as code.

use std::time::Duration;

use crate::engine::{Ghosts, NEVER};

use super::super::hashing::Seeds;
use super::super::life::{Left, Lifetime};
use super::super::portable::{Portable, put_number, take_bytes, take_number};
use super::super::tags::TAGS_MAX;

/// What the file begins with: that it is a snapshot, and of which version.
pub(super) const MAGIC: [u8; 8] = *b"FOREBAYC";
pub(super) const VERSION: u32 = 1;

/// Cells of ghosts in a block, at most.
pub(super) const CELLS_MAX: usize = 1 << 14;

/// The first block.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Header {
    /// The number of the file.
    pub file: u64,
    /// In nanoseconds since 1970.
    pub saved_at: u64,
    /// Keys and values.
    pub form: (String, String),
    /// As a program names it; empty: the built-in one.
    pub policy: String,
    /// The entries of a shard stand in the order in which they would go.
    pub is_ordered: bool,
    pub seeds: Seeds,
    /// Hashes of the cache's hasher, by which it is known again.
    pub probe: u64,
    pub shards: u32,
    /// When it was begun; others went on meanwhile.
    pub entries: u64,
    pub weight: u64,
}

/// What a block after the first one holds, by its first byte.
pub(super) enum Block<'b> {
    Section(Section),
    /// Bytes of entries of the section that was told last.
    Entries(&'b [u8]),
    Ghosts(Cells),
    /// All that there is was told: so many entries.
    End(u64),
}

/// What follows is the entries of one queue of a shard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Section {
    pub shard: u32,
    pub in_main: bool,
    pub weight: u64,
}

/// Ghosts of a shard, or a part of them.
#[derive(Debug, PartialEq)]
pub(super) struct Cells {
    pub shard: u32,
    pub now: u16,
    pub pushes: u64,
    /// Cells of the shard.
    pub total: u64,
    /// Where these are among them.
    pub first: u64,
    pub cells: Vec<u32>,
}

/// An entry, but for its key and value.
#[derive(Debug, PartialEq)]
pub(super) struct Record<'b> {
    pub mark: u8,
    pub weight: u64,
    pub left: Option<Left>,
    pub tags: Vec<u64>,
    pub key: &'b [u8],
    pub value: &'b [u8],
}

impl Header {
    pub fn write(&self) -> Vec<u8> {
        let mut to = Vec::new();
        let Header { file, saved_at, form, policy, is_ordered, seeds, probe, shards, entries, weight } = self;
        (*file, *saved_at).write(&mut to);
        form.write(&mut to);
        policy.write(&mut to);
        (*is_ordered, seeds.own, seeds.shared, *probe, *shards).write(&mut to);
        (*entries, *weight).write(&mut to);
        to
    }

    pub fn read(from: &mut &[u8]) -> Option<Header> {
        let (file, saved_at) = Portable::read(from)?;
        let form = Portable::read(from)?;
        let policy = Portable::read(from)?;
        let (is_ordered, own, shared, probe, shards) = Portable::read(from)?;
        let (entries, weight) = Portable::read(from)?;
        let seeds = Seeds { own, shared };
        Some(Header { file, saved_at, form, policy, is_ordered, seeds, probe, shards, entries, weight })
    }
}

const SECTION: u8 = 1;
/// What a block of entries begins with.
pub(super) const ENTRIES: u8 = 2;
const GHOSTS: u8 = 3;
const END: u8 = 4;

impl Section {
    pub fn write(&self) -> Vec<u8> {
        let mut to = vec![SECTION];
        (self.shard, self.in_main, self.weight).write(&mut to);
        to
    }
}

/// The last block.
pub(super) fn end(entries: u64) -> Vec<u8> {
    let mut to = vec![END];
    entries.write(&mut to);
    to
}

/// The blocks of a shard's ghosts.
pub(super) fn ghosts(shard: u32, ghosts: &Ghosts) -> impl Iterator<Item = Vec<u8>> {
    let parts = ghosts.cells.chunks(CELLS_MAX).enumerate();
    parts.map(move |(at, cells)| {
        let mut to = vec![GHOSTS];
        (shard, ghosts.now, ghosts.pushes as u64).write(&mut to);
        (ghosts.cells.len() as u64, (at * CELLS_MAX) as u64).write(&mut to);
        u32::write_all(cells, &mut to);
        to
    })
}

impl Block<'_> {
    pub fn read(mut from: &[u8]) -> Option<Block<'_>> {
        let from = &mut from;
        match u8::read(from)? {
            SECTION => {
                let (shard, in_main, weight) = Portable::read(from)?;
                Some(Block::Section(Section { shard, in_main, weight }))
            }
            ENTRIES => Some(Block::Entries(from)),
            GHOSTS => {
                let (shard, now, pushes) = Portable::read(from)?;
                let (total, first) = Portable::read(from)?;
                let cells = u32::read_all(from.len() / size_of::<u32>(), from)?;
                Some(Block::Ghosts(Cells { shard, now, pushes, total, first, cells }))
            }
            END => Some(Block::End(u64::read(from)?)),
            _ => None,
        }
    }
}

const MARK: u8 = 3;
const TIMED: u8 = 4;
const TAGGED: u8 = 8;

/// A span, and that there is none.
fn put_span(span: Option<Duration>, to: &mut Vec<u8>) {
    // What is longer never ends.
    let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(NEVER).min(NEVER - 1);
    put_number(span.map_or(0, |span| nanos(span) + 1), to);
}

fn take_span(from: &mut &[u8]) -> Option<Option<Duration>> {
    Some(take_number(from)?.checked_sub(1).map(Duration::from_nanos))
}

impl Left {
    fn write(&self, to: &mut Vec<u8>) {
        let Lifetime { since_creation, since_write, since_access, refresh_after } = self.lifetime;
        [since_creation, since_write, since_access, refresh_after].into_iter().for_each(|span| put_span(span, to));
        // NEVER is the largest number: as a small one it takes a byte.
        let ends = [self.until, self.limit, self.refresh].map(|end| end.wrapping_add(1));
        ends.into_iter().chain([self.age]).for_each(|number| put_number(number, to));
    }

    fn read(from: &mut &[u8]) -> Option<Left> {
        let lifetime = Lifetime {
            since_creation: take_span(from)?,
            since_write: take_span(from)?,
            since_access: take_span(from)?,
            refresh_after: take_span(from)?,
        };
        let [until, limit, refresh] = [take_number(from)?, take_number(from)?, take_number(from)?];
        let [until, limit, refresh] = [until, limit, refresh].map(|end| end.wrapping_sub(1));
        Some(Left { lifetime, until, limit, refresh, age: take_number(from)? })
    }
}

impl<'b> Record<'b> {
    /// Adds an entry, whose key and value are the bytes that these add.
    pub fn write(&self, key: impl Fn(&mut Vec<u8>), value: impl Fn(&mut Vec<u8>), to: &mut Vec<u8>) {
        let flags = [(self.left.is_some(), TIMED), (!self.tags.is_empty(), TAGGED)];
        to.push((self.mark & MARK) | flags.into_iter().filter(|flag| flag.0).map(|flag| flag.1).sum::<u8>());
        put_number(self.weight, to);
        self.left.iter().for_each(|left| left.write(to));
        if !self.tags.is_empty() {
            to.push(self.tags.len() as u8);
            u64::write_all(&self.tags, to);
        }
        let mut part = Vec::new();
        for write in [&key as &dyn Fn(&mut Vec<u8>), &value] {
            part.clear();
            write(&mut part);
            put_number(part.len() as u64, to);
            to.extend_from_slice(&part);
        }
    }

    pub fn read(from: &mut &'b [u8]) -> Option<Record<'b>> {
        let head = u8::read(from)?;
        if head > MARK | TIMED | TAGGED {
            return None;
        }
        let weight = take_number(from)?;
        let left = if head & TIMED != 0 { Some(Left::read(from)?) } else { None };
        let count = if head & TAGGED != 0 { usize::from(u8::read(from)?) } else { 0 };
        let tags = if count <= TAGS_MAX { u64::read_all(count, from)? } else { return None };
        let part = |from: &mut &'b [u8]| take_bytes(usize::try_from(take_number(from)?).ok()?, from);
        let (key, value) = (part(from)?, part(from)?);
        Some(Record { mark: head & MARK, weight, left, tags, key, value })
    }
}
