//! Reading a journal: through, when it is opened, and single transactions later.

use std::io;
use std::sync::Arc;

use super::codec::{Entry, Header, Mark, decode_entry, effect_of};
use super::frame::{self, DESCRIPTION_BYTES_MAX, Next, Place, Scanner};
use super::index::{Index, Live};
use super::length::Length;
use super::{Cut, JournalOptions, LOSSES_MAX, OpenError, PENDING_MAX, Torn};
use crate::mutation::{self, Fault};
use crate::outage::disk::{DiskFile, Folder};
use crate::outage::record::{Description, Dropped, Epoch, Loss, Pending, Record, Standing};
use crate::runtime::Runtime;
use crate::tier::Effect;

/// What reading a file through told.
pub(super) struct Scan {
    pub(super) header: Header,
    pub(super) begin: u64,
    pub(super) index: Index,
    pub(super) end: u64,
    pub(super) file_end: u64,
    /// The last mark, and whether it is the last of all.
    pub(super) mark: Option<(Mark, bool)>,
    pub(super) seen: u64,
}

pub(super) fn scan(file: Arc<dyn DiskFile>, name: String) -> Result<Scan, OpenError> {
    let (mut scanner, header) = Scanner::open(file, name.clone())?;
    let begin = scanner.at;
    let mut scan =
        Scan { header, begin, index: Index::default(), end: begin, file_end: scanner.end(), mark: None, seen: 0 };
    loop {
        match scanner.next()? {
            Next::Entry(place, entry) => {
                let effect = match *entry {
                    Entry::Record(record) => {
                        scan.mark = scan.mark.map(|(mark, _)| (mark, false));
                        effect_of(&record)
                    }
                    Entry::Mark(mark) => {
                        scan.mark = Some((mark, true));
                        Effect::Mark
                    }
                };
                let refused = |why| OpenError::Damaged { file: name.clone(), offset: place.offset, why };
                scan.index.apply(&effect, place).map_err(refused)?;
                if scan.index.count() > PENDING_MAX {
                    return Err(OpenError::TooMany { file: name, records_max: PENDING_MAX });
                }
                scan.end = scanner.at;
            }
            Next::End => break,
            Next::Torn { seen } => {
                scan.seen = seen;
                break;
            }
        }
    }
    scan.index.raise(scan.header.last_number);
    Ok(scan)
}

impl Scan {
    /// What stands in `file` behind the last complete record, if anything.
    pub(super) fn torn(&self, file: String) -> Option<Torn> {
        let bytes = self.file_end - self.end;
        (bytes > 0).then_some(Torn { file, offset: self.end, bytes })
    }

    /// Of a journal that is not there yet.
    pub(super) fn empty(header: Header) -> Scan {
        Scan { header, begin: 0, index: Index::default(), end: 0, file_end: 0, mark: None, seen: 0 }
    }

    /// What the file lacks of what `told` says of it, and what may be lost, if it was left as it is.
    pub(super) fn loss(&self, folder: &dyn Folder, told: Option<Length>) -> (Option<Cut>, Option<Loss>) {
        let (boot, after) = (folder.boot(), self.index.last_number());
        let told = told.filter(|told| told.marker == self.header.marker);
        let cut = told.filter(|told| told.least(boot) > self.end && !mutation::on(Fault::CutUnnoticed));
        let unsynced = self.reserved_unsynced(boot);
        let up_to = unsynced.into_iter().chain(cut.map(|told| told.reserved.max(self.seen))).max();
        let lost = up_to.filter(|up_to| *up_to > after);
        let loss = |up_to| Loss { epoch: self.header.epoch, after, up_to, seen: self.seen };
        let cut = cut.map(|told| Cut { bytes: told.least(boot), left: self.end });
        (cut, lost.map(loss))
    }

    /// The highest number that may have been acknowledged and lost with what was not synced, if the machine is in its
    /// `boot` now.
    fn reserved_unsynced(&self, boot: Option<u128>) -> Option<u64> {
        let (mark, last) = self.mark?;
        let closed = mark.clean && last && self.end == self.file_end;
        let all_here = boot.is_some() && mark.boot == boot;
        (!(mark.always || closed || all_here)).then_some(mark.reserved.max(self.seen))
    }
}

fn read_record(file: &dyn DiskFile, name: &str, marker: u64, place: Place) -> Result<Record, OpenError> {
    let body = frame::read(file, name, marker, place)?;
    let why = match decode_entry(&body) {
        Ok(Entry::Record(record)) => return Ok(record),
        Ok(Entry::Mark(_)) => "a mark stands in place of a record".to_owned(),
        Err(why) => why.to_string(),
    };
    Err(OpenError::Damaged { file: name.to_owned(), offset: place.offset, why })
}

/// Reads how one ended that was given up.
pub(super) fn read_dropped(file: &dyn DiskFile, name: &str, marker: u64, place: Place) -> Result<Dropped, OpenError> {
    let why = "another kind of record was expected".to_owned();
    match read_record(file, name, marker, place)? {
        Record::Dropped(dropped) => Ok(dropped),
        _ => Err(OpenError::Damaged { file: name.to_owned(), offset: place.offset, why }),
    }
}

/// Reads what `live` names.
pub(super) fn read_live(file: &dyn DiskFile, name: &str, marker: u64, live: &Live) -> Result<Pending, OpenError> {
    let read = |place: Place| read_record(file, name, marker, place);
    let records: Result<Vec<Record>, OpenError> = live.places().map(read).collect();
    assembled(records?).ok_or_else(|| OpenError::Damaged {
        file: name.to_owned(),
        offset: live.place.offset,
        why: "another kind of record was expected".to_owned(),
    })
}

/// What the records of one transaction say together: first what brought it in, then what was learned, last how it
/// stands, if it is in quarantine or an operator has decided about it. None if they are others.
pub(super) fn assembled(records: Vec<Record>) -> Option<Pending> {
    let merged = matches!(records.first(), Some(Record::Merged { .. }));
    let mut records = records.into_iter();
    let (Record::Buffered(mut buffered) | Record::Merged { into: mut buffered, .. }) = records.next()? else {
        return None;
    };
    let (mut standing, mut settled) = (Standing::Waiting, Vec::new());
    for record in records {
        match record {
            Record::Known { key, read, unchecked, .. } => {
                buffered.unchecked |= unchecked;
                buffered.known.retain(|(known, _)| *known != key);
                buffered.known.push((key, read));
            }
            Record::Unchecked { .. } => buffered.unchecked = true,
            Record::Settled { key, fingerprint, stored, .. } => {
                let shown = buffered.shown.iter_mut().filter(|(shown, _)| *shown == key);
                shown.for_each(|(_, shown)| *shown = fingerprint);
                settled.retain(|(other, _)| *other != key);
                settled.extend(stored.map(|version| (key, version)));
            }
            Record::Quarantined { reason, .. } => standing = Standing::Quarantined(reason),
            Record::Ordered { .. } => standing = Standing::Ordered,
            _ => return None,
        }
    }
    Some(Pending { buffered, standing, merged, settled })
}

fn draw_epoch(runtime: &Runtime) -> Epoch {
    Epoch(u128::from(runtime.random()) << 64 | u128::from(runtime.random()))
}

pub(super) fn draw_header(runtime: &Runtime, description: Description) -> Header {
    Header { epoch: draw_epoch(runtime), marker: 0, safe_bytes: 0, last_number: 0, description, losses: Vec::new() }
}

/// The header of a session behind `before`, of a file in which something is pending unless it `is_empty`.
pub(super) fn header_of_session(
    before: &Header,
    is_empty: bool,
    runtime: &Runtime,
    options: &JournalOptions,
    lost: Option<Loss>,
    floor: u64,
) -> io::Result<Header> {
    let mut header = Header { last_number: floor, ..before.clone() };
    if let Some(loss) = lost {
        header.epoch = draw_epoch(runtime);
        header.losses.push(loss);
        let forgotten = header.losses.len().saturating_sub(LOSSES_MAX);
        header.losses.drain(..forgotten);
    }
    if is_empty {
        // The store is the one that it was, until whoever opened it says otherwise.
        let known = std::mem::take(&mut header.description.catalogue);
        header.description = options.description.clone();
        if header.description.catalogue.is_empty() {
            header.description.catalogue = known;
        }
    }
    let Description { mapping, catalogue } = &header.description;
    match mapping.len() + catalogue.len() > DESCRIPTION_BYTES_MAX {
        true => Err(io::Error::other(format!("mapping and catalogue are longer than {DESCRIPTION_BYTES_MAX} bytes"))),
        false => Ok(header),
    }
}
