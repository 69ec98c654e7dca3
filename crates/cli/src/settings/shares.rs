//! Limits whose default is a share of the memory: what they bound comes beside the cache, which makes way for most of
//! it (`forebay::cache::Cache::lend`). Each has a floor that lets one document of the largest size pass.

use forebay::lease::WriteRates;
use forebay::value::DOCUMENT_BYTES_MAX;

use super::form::Form;
use super::number::Bytes;
use super::values::{MEMORY_BYTES_MIN, Settings};

const MIB: u64 = 1 << 20;

/// One document of the largest size, and what a request or a reply has around it.
const DOCUMENT: u64 = DOCUMENT_BYTES_MAX as u64 + MIB;

/// One before and one after a change.
const CHANGED_DOCUMENT: u64 = 2 * DOCUMENT;

/// Resident size is at most so many tenths of the memory, and [`BESIDE_MEMORY`] more.
const TENTHS_OF_MEMORY: u64 = 11;
const BESIDE_MEMORY: u64 = 64 * MIB;

/// What the program takes by itself.
const PROGRAM: u64 = 24 * MIB;

/// The cache keeps one so-manyth of its budget, and makes way with the rest at most.
const KEPT_PART: u64 = 4;

/// One key may be locked at a time for so many bytes of the memory; it takes about half of that while it is.
const KEY_MEMORY: u64 = 2 << 10;

/// One client may be connected for so many bytes of the memory: it takes about as much, where it makes the most of what
/// is not counted.
const CLIENT_MEMORY: u64 = 64 << 10;

/// The writes of one document may be counted apart for so many bytes of the memory: a thirtieth of it.
const RATE_MEMORY: u64 = 4 << 10;

/// One script may run for so many bytes of the memory: with its own bytes an eighth of it.
const SCRIPT_MEMORY: u64 = 32 << 20;

/// A partition is of no use with less of the memory: its tables alone take a good part of that.
const PARTITION_MEMORY: u64 = 64 << 10;

/// A limit that follows the memory.
pub struct Share {
    /// The setting.
    pub name: &'static str,
    /// One so-manyth of the memory.
    part: u64,
    /// It is never less.
    floor: u64,
    /// It is never more.
    most: u64,
    set: fn(&mut Settings, u64),
    /// What all connections may take together; `None` for a part of such a total.
    total: Option<fn(&Settings) -> u64>,
}

/// All such limits.
#[rustfmt::skip] // One line each reads as the table that it is.
static SHARES: [Share; 19] = [
    Share { name: "placed-bytes-max", part: 16, floor: MIB, most: u64::MAX,
        set: |to, bytes| to.txn.placed_bytes_max = bytes,
        // One that is larger passes without other large ones.
        total: Some(|of| of.txn.placed_bytes_max.max(DOCUMENT + of.txn.placed_bytes_max / 8)) },
    Share { name: "client-reply-bytes-max", part: 4, floor: DOCUMENT, most: 256 * MIB,
        set: |to, bytes| to.server.client_reply_bytes_max = usize_of(bytes), total: None },
    Share { name: "replies-bytes-max", part: 4, floor: DOCUMENT, most: u64::MAX,
        set: |to, bytes| to.server.replies_bytes_max = usize_of(bytes),
        total: Some(|of| of.server.replies_bytes_max as u64) },
    Share { name: "held-bytes-max", part: 4, floor: CHANGED_DOCUMENT, most: u64::MAX,
        set: |to, bytes| to.server.held_bytes_max = usize_of(bytes),
        total: Some(|of| of.server.held_bytes_max as u64) },
    Share { name: "txn-bytes-max", part: 4, floor: CHANGED_DOCUMENT, most: 256 * MIB,
        set: |to, bytes| to.server.txn_bytes_max = usize_of(bytes), total: None },
    Share { name: "documents-bytes-max", part: 8, floor: 4 * MIB, most: u64::MAX,
        set: |to, bytes| to.txn.documents_bytes_max = usize_of(bytes), total: None },
    Share { name: "row-bytes-max", part: 32, floor: MIB, most: 2 * DOCUMENT,
        set: |to, bytes| to.row_bytes_max = usize_of(bytes), total: None },
    Share { name: "underway-bytes-max", part: 256, floor: 4 * MIB, most: u64::MAX,
        set: |to, bytes| to.server.underway_bytes_max = usize_of(bytes),
        total: Some(|of| of.server.underway_bytes_max as u64) },
    Share { name: "locked-keys-max", part: KEY_MEMORY, floor: 32 << 10, most: 1 << 20,
        set: |to, keys| to.server.locked_keys_max = usize_of(keys), total: None },
    Share { name: "clients-max", part: CLIENT_MEMORY, floor: 1_000, most: 10_000,
        set: |to, clients| to.server.clients_max = usize_of(clients), total: None },
    Share { name: "multi-bytes-max", part: 8, floor: DOCUMENT, most: 64 * MIB,
        set: |to, bytes| to.server.multi_bytes_max = usize_of(bytes), total: None },
    Share { name: "request-bytes-max", part: 4, floor: DOCUMENT, most: 256 * MIB,
        set: |to, bytes| to.server.request.request_bytes_max = bytes as u32, total: None },
    Share { name: "tracking-bytes-max", part: 32, floor: MIB, most: 256 * MIB,
        set: |to, bytes| to.server.tracking_bytes_max = usize_of(bytes),
        total: Some(|of| of.server.tracking_bytes_max as u64) },
    Share { name: "lease-rates-max", part: RATE_MEMORY, floor: 4 << 10, most: 1 << 20,
        set: |to, documents| to.server.lease_rates_max = usize_of(documents),
        total: Some(|of| (of.server.lease_rates_max * WriteRates::ENTRY_BYTES) as u64) },
    Share { name: "scripts-max", part: SCRIPT_MEMORY, floor: 2, most: 16,
        set: |to, scripts| to.server.scripts_max = usize_of(scripts), total: None },
    Share { name: "script-bytes-max", part: 128, floor: 4 * MIB, most: 64 * MIB,
        set: |to, bytes| to.server.script_bytes_max = usize_of(bytes),
        total: Some(|of| of.server.script_bytes_max.saturating_mul(of.server.scripts_max) as u64) },
    Share { name: "script-cache-bytes-max", part: 128, floor: MIB, most: 64 * MIB,
        set: |to, bytes| to.server.script_cache_bytes_max = usize_of(bytes),
        total: Some(|of| of.server.script_cache_bytes_max as u64) },
    // Taken off the cache's budget where there are shadows.
    Share { name: "shadow-memory", part: 8, floor: MIB, most: u64::MAX,
        set: |to, bytes| to.shadows.memory = bytes, total: None },
    Share { name: "outage-bytes-max", part: 4, floor: CHANGED_DOCUMENT, most: 256 * MIB,
        set: |to, bytes| to.outage_bytes_max = bytes, total: None },
];

fn usize_of(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

impl Share {
    fn of(&self, memory: u64) -> u64 {
        (memory / self.part).clamp(self.floor, self.most)
    }

    /// How the default follows, for help texts.
    pub fn text(&self) -> String {
        if matches!(self.part, KEY_MEMORY | CLIENT_MEMORY | RATE_MEMORY | SCRIPT_MEMORY) {
            let every = Bytes::show(&self.part);
            return format!("one for {every} of --memory, at least {} and at most {}", self.floor, self.most);
        }
        let most = match self.most {
            u64::MAX => String::new(),
            most => format!(" and at most {}", Bytes::show(&most)),
        };
        format!("1/{} of --memory, at least {}{most}", self.part, Bytes::show(&self.floor))
    }
}

/// The share that the default of the setting `name` is.
pub fn share_of(name: &str) -> Option<&'static Share> {
    SHARES.iter().find(|share| share.name == name)
}

impl Settings {
    /// Sets all limits that follow the memory to what they are by default.
    pub(super) fn share_memory(&mut self) {
        let memory = self.memory.max(MEMORY_BYTES_MIN);
        SHARES.iter().for_each(|share| (share.set)(self, share.of(memory)));
    }

    /// Why there are more partitions than the memory is good for, if there are.
    pub(super) fn too_many_partitions(&self) -> Option<String> {
        let most = self.memory / PARTITION_MEMORY;
        let (memory, each) = (Bytes::show(&self.memory), Bytes::show(&PARTITION_MEMORY));
        let why = || format!("give a whole number from 1 to {most}, one for {each} of --memory, which is {memory}");
        (self.partitions as u64 > most).then(why)
    }

    /// By how much more the memory may be exceeded than is promised, if all that the limits allow comes together.
    pub fn beyond_memory(&self) -> Option<u64> {
        let totals = SHARES.iter().filter_map(|share| share.total).map(|total| total(self));
        let beside = totals.fold(0, u64::saturating_add);
        let lent = beside.min(self.memory - self.memory / KEPT_PART);
        let most = self.memory.saturating_sub(lent).saturating_add(beside).saturating_add(PROGRAM);
        let promised = (self.memory / 10).saturating_mul(TENTHS_OF_MEMORY).saturating_add(BESIDE_MEMORY);
        most.checked_sub(promised).filter(|more| *more > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::SETTINGS;

    fn with_memory(memory: u64) -> Settings {
        let mut settings = Settings { memory, ..Settings::default() };
        settings.share_memory();
        settings
    }

    #[test]
    fn every_share_is_a_setting_and_its_help_says_so() {
        for share in &SHARES {
            let setting = SETTINGS.iter().find(|setting| setting.name == share.name).expect(share.name);
            assert!(setting.help().contains(&share.text()), "{}", setting.help());
        }
    }

    #[test]
    fn shares_follow_the_memory_and_let_a_document_pass() {
        let (small, large) = (with_memory(16 * MIB), with_memory(64 << 30));
        assert_eq!(small.server.txn_bytes_max as u64, CHANGED_DOCUMENT);
        assert_eq!(small.server.client_reply_bytes_max as u64, DOCUMENT);
        assert_eq!(large.server.held_bytes_max, 16 << 30);
        assert_eq!(large.server.request.request_bytes_max, 256 << 20);
        let clients = [16 * MIB, 64 * MIB, 256 * MIB].map(|memory| with_memory(memory).server.clients_max);
        assert_eq!(clients, [1_000, 1_024, 4_096]);
        let rates = [1, 16, 256, 1 << 20].map(|mib| with_memory(mib * MIB).server.lease_rates_max);
        assert_eq!(rates, [4_096, 4_096, 65_536, 1 << 20]);
    }

    #[test]
    fn only_a_small_memory_is_exceeded() {
        for memory in [64 * MIB, 256 * MIB, 1 << 30, 64 << 30] {
            assert_eq!(with_memory(memory).beyond_memory(), None, "{memory}");
        }
        assert!(with_memory(16 * MIB).beyond_memory().is_some());
        let mut generous = with_memory(256 * MIB);
        generous.server.held_bytes_max = 1 << 30;
        assert!(generous.beyond_memory().is_some());
    }
}
