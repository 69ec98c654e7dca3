//! The file: opening, appending, syncing, rewriting. It has no tasks and does not wait, and its holder has it alone.

use std::io;
use std::sync::Arc;

use super::codec::{Header, Mark, encode_mark};
use super::frame::{self, DESCRIPTION_BYTES_MAX, HEAD_BYTES, Place};
use super::index::Index;
use super::length::{Length, LengthFile};
use super::place::still_there;
use super::remembered::Memo;
use super::rewrite;
use super::scan::{Scan, draw_header, header_of_session, read_dropped, read_live, scan};
use super::space::Space;
use super::work::Work;
use super::{AppendError, Cut, JournalOptions, OpenError, PendingRecords, Source, Torn};
use crate::mutation::{self, Fault};
use crate::outage::disk::{DiskFile, Folder, is_full};
use crate::outage::record::{Description, Dropped, Loss, Pending};
use crate::runtime::Runtime;
use crate::store::embedded::{Durability, UNFLUSHED_BYTES_MAX};
use crate::tier::{Effect, Remembered};

const NAME: &str = "journal";
/// The file that takes its place, while it is written.
const NEW_NAME: &str = "journal.new";
/// Numbers that may be acknowledged unsynced before a mark that says so has to be synced.
const RESERVED_NUMBERS: u64 = 65_536;
/// Bytes of a frame with a mark, at most.
const MARK_BYTES_MAX: u64 = HEAD_BYTES as u64 + 32;
/// Superseded bytes for which a file is not rewritten; a sixteenth of the bytes allowed, if that is less.
const REWRITE_BYTES_MIN: u64 = 1 << 20;

/// Bytes that mean nothing any more, per byte that does, above which a rewrite is worthwhile. At one, a drain copies as
/// much again as it applies, while what is to be told of it waits; at three it is a third of that.
const SUPERSEDED_MAX: u64 = 3;
pub(super) struct Log {
    folder: Arc<dyn Folder>,
    _lock: Box<dyn Send>,
    /// None once it failed or was closed: it is never written again.
    file: Option<Arc<dyn DiskFile>>,
    closed: Option<AppendError>,
    memo: Memo,
    length: LengthFile,
    space: Space,
    /// What was learned of a document found no room: nor may the note that belongs to it.
    unpaired: bool,
    header: Header,
    index: Index,
    /// Where the next frame goes, and where the first one stands.
    end: u64,
    begin: u64,
    synced: u64,
    reserved: u64,
    durability: Durability,
    rewrite_bytes_min: u64,
    /// Superseded bytes below which no rewriting is tried again after one failed.
    rewrite_above: u64,
    runtime: Runtime,
}

/// What opening found beside the log itself.
pub(super) struct Opened {
    pub(super) log: Log,
    pub(super) created: bool,
    pub(super) torn: Option<Torn>,
    pub(super) cut: Option<Cut>,
    pub(super) lost: Option<Loss>,
    /// No number up to this one may be given.
    pub(super) floor: u64,
    pub(super) remembered: Remembered,
}

impl Log {
    pub(super) fn open(
        runtime: &Runtime,
        folder: Arc<dyn Folder>,
        options: &JournalOptions,
    ) -> Result<Opened, OpenError> {
        let io = |why| OpenError::Io { file: folder.show(NAME), why };
        let lock = folder.lock().map_err(|why| match why.kind() {
            io::ErrorKind::WouldBlock => OpenError::Locked { file: folder.show(NAME) },
            _ => io(why),
        })?;
        folder.remove(NEW_NAME).map_err(io)?;
        let file = folder.open(NAME).map_err(io)?;
        let created = file.is_none();
        let scan = match &file {
            Some(file) => scan(Arc::clone(file), folder.show(NAME))?,
            None => Scan::empty(draw_header(runtime, options.description.clone())),
        };
        let (length, told) = LengthFile::open(&*folder).map_err(io)?;
        if let (true, Some(told)) = (created, told) {
            let (file, bytes) = (folder.show(NAME), told.end);
            tracing::error!(file, bytes, "the journal is not there any more: what waited in it, if anything, is lost");
        }
        let (cut, lost) = scan.loss(&*folder, told);
        let (memo, remembered) = Memo::open(&*folder).map_err(io)?;
        let mut log = Log {
            folder: Arc::clone(&folder),
            _lock: lock,
            file,
            closed: None,
            memo,
            length,
            space: Space::default(),
            unpaired: false,
            header: scan.header,
            end: scan.end,
            begin: scan.begin,
            synced: 0,
            reserved: 0,
            index: scan.index,
            durability: options.durability,
            rewrite_bytes_min: REWRITE_BYTES_MIN.min(options.bytes_max / 16),
            rewrite_above: 0,
            runtime: runtime.clone(),
        };
        let torn = (scan.end < scan.file_end).then(|| Torn {
            file: folder.show(NAME),
            offset: scan.end,
            bytes: scan.file_end - scan.end,
        });
        let floor = log.index.last_number().max(scan.seen).max(lost.map_or(0, |loss| loss.up_to));
        log.begin_session(runtime, options, lost, torn.is_some(), floor).map_err(io)?;
        log.look_for_room();
        log.note_length(false);
        Ok(Opened { log, created, torn, cut, lost, floor, remembered })
    }

    /// Makes the file ready to be appended to.
    fn begin_session(
        &mut self,
        runtime: &Runtime,
        options: &JournalOptions,
        lost: Option<Loss>,
        torn: bool,
        floor: u64,
    ) -> io::Result<()> {
        let header = header_of_session(&self.header, self.index.count() == 0, runtime, options, lost, floor)?;
        self.index.raise(floor);
        let changed = lost.is_some() || header.description != self.header.description;
        match &self.file {
            Some(file) if !changed => {
                if torn {
                    // Nothing of the old tail may ever stand behind a new record.
                    file.set_bytes(self.end)?;
                }
                // What a process that was killed has written is there, but perhaps not on disk; nor is the name that
                // this file got when it took another's place, and a power loss would bring that one back.
                file.sync()?;
                self.folder.sync()?;
                self.synced = self.end;
                let mut buffer = Vec::new();
                self.mark(false, &mut buffer);
                file.write(self.end, &buffer)?;
                file.sync()?;
                self.end += buffer.len() as u64;
                self.synced = self.end;
                Ok(())
            }
            _ => self.rewrite(header).map_err(|(why, _)| why),
        }
    }

    pub(super) fn known(&self) -> (&Header, &Index) {
        (&self.header, &self.index)
    }

    /// Bytes of the file, and of those the ones that are not known to be on disk.
    pub(super) fn bytes(&self) -> (u64, u64) {
        (self.end, self.end - self.synced)
    }

    pub(super) fn closed(&self) -> Option<&AppendError> {
        self.closed.as_ref()
    }

    /// Bytes that can still be added as far as the disk goes; none if that is not known.
    pub(super) fn room(&self) -> Option<u64> {
        self.space.room(self.end, self.index.count())
    }

    /// Does `batch` with one write and at most one sync; answers each.
    pub(super) fn run(&mut self, batch: &[Work]) -> Vec<Result<(), AppendError>> {
        let Some(file) = self.file.clone() else {
            return vec![Err(self.why_closed()); batch.len()];
        };
        if let Err(gone) = still_there(&*self.folder, NAME, &*file) {
            self.close(gone);
            return vec![Err(self.why_closed()); batch.len()];
        }
        let (before, reserved, scarce) = (self.end, self.reserved, self.space.is_scarce());
        if batch.iter().any(|work| matches!(work, Work::Look)) {
            self.look_for_room();
        }
        let mut buffer = Vec::new();
        let mut answers: Vec<Result<(), AppendError>> =
            batch.iter().map(|work| self.stage(work, &*file, before, &mut buffer)).collect();
        let sync = self.wants_sync(batch, &*file, before, &mut buffer);
        let written = match self.write(&*file, before, &buffer) {
            Err(why) if is_full(&why) => {
                self.reserved = reserved;
                self.cut_off(&*file, before).map(|()| self.refuse(batch, &mut answers, &why))
            }
            Err(why) => Err(why),
            Ok(()) => self.make_safe(&*file, sync),
        };
        if let Err(why) = written {
            let why = format!("{}: {why}", self.folder.show(NAME));
            self.close(AppendError::Closed { why: why.clone() });
            for answer in answers.iter_mut().filter(|answer| answer.is_ok()) {
                *answer = Err(AppendError::Unknown { why: why.clone() });
            }
            return answers;
        }
        self.space.tell(scarce, self.folder.show(NAME));
        for (work, answer) in batch.iter().zip(&mut answers) {
            match work {
                Work::Describe(description) => *answer = self.describe(description.clone()),
                Work::Remember(remembered) => *answer = self.remember(remembered),
                Work::Look => self.note_length(false),
                _ => {}
            }
        }
        match batch.iter().any(|work| matches!(work, Work::Close)) {
            true => {
                self.note_length(true);
                (self.file, self.closed) = (None, Some(AppendError::Closed { why: "it was closed".to_owned() }));
            }
            false => self.rewrite_if_worthwhile(),
        }
        answers
    }

    /// Puts what `work` appends behind what is staged, if there is room for it.
    fn stage(
        &mut self,
        work: &Work,
        file: &dyn DiskFile,
        before: u64,
        buffer: &mut Vec<u8>,
    ) -> Result<(), AppendError> {
        let Work::Append { effect, body } = work else { return Ok(()) };
        let place = Place { offset: before + buffer.len() as u64, bytes: (HEAD_BYTES + body.len()) as u32 };
        let pending = self.index.count();
        let room = match effect {
            Effect::Added(_) | Effect::Replaced { .. } => self.space.add(&*self.folder, file, place, pending + 1),
            Effect::Gone(_) if std::mem::take(&mut self.unpaired) => Err(io::ErrorKind::StorageFull.into()),
            _ => self.space.note(&*self.folder, file, place.end()),
        };
        if let Err(why) = room {
            self.unpaired |= matches!(effect, Effect::Known(_));
            return Err(self.no_space(&why));
        }
        self.index.apply(effect, place).map_err(AppendError::Misplaced)?;
        frame::write(self.header.marker, place.offset, self.synced, body, buffer);
        Ok(())
    }

    fn no_space(&self, why: &io::Error) -> AppendError {
        AppendError::NoSpace { file: self.folder.show(NAME), why: why.to_string() }
    }

    /// Takes a write back that found no room, after which the file is what it was. Synced, so that nothing of that
    /// write ever stands behind what comes next.
    fn cut_off(&mut self, file: &dyn DiskFile, before: u64) -> io::Result<()> {
        self.space.was_refused(self.end - before);
        self.end = before;
        if mutation::on(Fault::RefusedForRoomKept) {
            return Ok(());
        }
        file.set_bytes(before)?;
        file.sync()?;
        (self.synced, self.end) = (before, before);
        self.space.cut(before);
        let Some(again) = self.file.clone() else { return Err(io::Error::other("it is closed")) };
        let last = self.index.last_number();
        self.index = scan(again, self.folder.show(NAME)).map_err(io::Error::other)?.index;
        self.index.raise(last);
        Ok(())
    }

    /// What was to be appended is not there.
    fn refuse(&mut self, batch: &[Work], answers: &mut [Result<(), AppendError>], why: &io::Error) {
        for (work, answer) in batch.iter().zip(answers) {
            if let Work::Append { effect, .. } = work {
                self.unpaired = matches!(effect, Effect::Known(_));
                if answer.is_ok() {
                    *answer = Err(self.no_space(why));
                }
            }
        }
    }

    /// Looks how much room there is, and takes what notes may need.
    fn look_for_room(&mut self) {
        let file = self.file.clone();
        debug_assert!(file.is_some(), "the journal is closed");
        let Some(file) = file else { return };
        if self.space.is_scarce() {
            self.rewrite_above = 0;
        }
        self.space.look_again(&*self.folder, &*file, self.end, self.index.count());
    }

    /// Stages the marks that the batch needs, and says whether it has to be synced.
    fn wants_sync(&mut self, batch: &[Work], file: &dyn DiskFile, before: u64, buffer: &mut Vec<u8>) -> bool {
        let any = |is: fn(&Work) -> bool| batch.iter().any(is);
        self.end = before + buffer.len() as u64;
        let last = self.index.last_number();
        let close = any(|work| matches!(work, Work::Close));
        let tick = any(|work| matches!(work, Work::Tick));
        let idle = tick && self.end == self.synced && self.reserved > last;
        let beyond = self.durability != Durability::Always && last > self.reserved;
        let idle = idle && self.space.note(&*self.folder, file, self.end + MARK_BYTES_MAX).is_ok();
        if close || idle || beyond {
            self.reserved = if beyond { last.saturating_add(RESERVED_NUMBERS) } else { last };
            let mut frame = Vec::new();
            self.mark(close, &mut frame);
            buffer.extend_from_slice(&frame);
            self.end = before + buffer.len() as u64;
        }
        let ordered = any(|work| matches!(work, Work::Sync | Work::Tick | Work::Describe(_) | Work::Close));
        let always = self.durability == Durability::Always && !mutation::on(Fault::AcknowledgedBeforeFsync);
        let unsynced = self.end - self.synced;
        unsynced > 0 && (ordered || always || beyond || unsynced >= UNFLUSHED_BYTES_MAX)
    }

    /// A mark that will stand at the present end.
    fn mark(&self, clean: bool, buffer: &mut Vec<u8>) {
        frame::write(self.header.marker, self.end, self.synced, &encode_mark(&self.mark_now(clean)), buffer);
    }

    fn mark_now(&self, clean: bool) -> Mark {
        let always = self.durability == Durability::Always;
        let reserved = self.reserved.max(self.index.last_number());
        Mark { boot: self.folder.boot(), reserved, always, clean }
    }

    /// Writes `buffer`, and before that which numbers may be acknowledged.
    fn write(&mut self, file: &dyn DiskFile, offset: u64, buffer: &[u8]) -> io::Result<()> {
        let last = self.index.last_number();
        if self.length.told().is_none_or(|told| last > told.reserved) {
            let reserved = last.saturating_add(RESERVED_NUMBERS);
            self.length.write(&*self.folder, Length { reserved, ..self.length_to(offset) }, false)?;
        }
        if buffer.is_empty() { Ok(()) } else { file.write(offset, buffer) }
    }

    fn make_safe(&mut self, file: &dyn DiskFile, sync: bool) -> io::Result<()> {
        if sync {
            file.sync()?;
            self.synced = self.end;
        }
        Ok(())
    }

    fn note_length(&mut self, close: bool) {
        let now = self.length_to(self.end);
        self.length.note(&*self.folder, now, self.index.last_number(), close);
    }

    fn length_to(&self, end: u64) -> Length {
        let (marker, boot) = (self.header.marker, self.folder.boot());
        Length { marker, end, synced: self.synced.min(end), reserved: 0, boot }
    }

    /// Ends it for good.
    fn close(&mut self, why: AppendError) {
        if self.closed.is_none() {
            tracing::error!(%why, "writes are refused while the database is down");
            self.closed = Some(why);
        }
        self.file = None;
    }

    fn why_closed(&self) -> AppendError {
        self.closed.clone().unwrap_or(AppendError::Closed { why: "it was closed".to_owned() })
    }

    fn remember(&mut self, remembered: &Remembered) -> Result<(), AppendError> {
        self.memo
            .write(&*self.folder, remembered, self.durability != Durability::Never)
            .map_err(|why| AppendError::NotRewritten { why: why.to_string() })
    }

    fn describe(&mut self, description: Description) -> Result<(), AppendError> {
        let bytes = description.mapping.len() + description.catalogue.len();
        if bytes > DESCRIPTION_BYTES_MAX {
            return Err(AppendError::Full { what: "mapping and catalogue", limit: DESCRIPTION_BYTES_MAX as u64 });
        }
        let header = Header { description, last_number: self.index.last_number(), ..self.header.clone() };
        self.rewrite(header).map_err(|(why, ended)| {
            let why = format!("{}: {why}", self.folder.show(NEW_NAME));
            if ended { AppendError::Unknown { why } } else { AppendError::NotRewritten { why } }
        })
    }

    fn rewrite_if_worthwhile(&mut self) {
        let live = self.index.kept_bytes();
        let superseded = (self.end - self.begin).saturating_sub(live);
        let scarce = self.space.is_scarce();
        let least = if scarce { 0 } else { self.rewrite_bytes_min };
        let noise = least.max(MARK_BYTES_MAX).max(self.rewrite_above);
        if superseded / SUPERSEDED_MAX <= live || superseded <= noise {
            return;
        }
        if let (true, Some(file)) = (scarce, &self.file) {
            let needed = self.begin + live + 2 * MARK_BYTES_MAX;
            if !self.space.has(needed, self.end) {
                return;
            }
            // What was kept for notes is room for a new file that is no larger: then there is more for them.
            if needed <= self.space.ahead(self.end) && file.set_bytes(self.end).is_ok() {
                self.space.cut(self.end);
            }
        }
        let header = Header { last_number: self.index.last_number(), ..self.header.clone() };
        if let Err((why, ended)) = self.rewrite(header) {
            let file = self.folder.show(NEW_NAME);
            if !scarce || ended {
                tracing::warn!(
                    %file, %why, ended,
                    "the journal could not be rewritten; the old file goes on if it can"
                );
            }
            self.rewrite_above = superseded * 2;
        }
        if scarce {
            self.look_for_room();
            self.space.tell(true, self.folder.show(NAME));
        }
    }

    /// Writes what still means something to a new file, and puts that in the old one's place. An error says whether the
    /// journal has ended with it; if not, the old file goes on.
    fn rewrite(&mut self, header: Header) -> Result<(), (io::Error, bool)> {
        let header = Header { marker: self.runtime.random(), ..header };
        let (read, mark) = (|place| self.body(place), self.mark_now(false));
        let new = self.folder.create(NEW_NAME);
        let copied = new.and_then(|to| Ok((to.clone(), rewrite::copy(&self.index, read, &*to, &header, &mark)?)));
        let (file, (index, begin, end)) = match copied {
            Ok(copied) => copied,
            Err(why) => {
                let _ = self.folder.remove(NEW_NAME);
                return Err((why, false));
            }
        };
        let placed = self.folder.rename(NEW_NAME, NAME).and_then(|()| self.folder.sync());
        if let Err(why) = placed {
            // Which of the two files a crash would leave is not known, so neither may be written to.
            self.close(AppendError::Closed { why: format!("{}: {why}", self.folder.show(NAME)) });
            return Err((why, true));
        }
        let raised = self.index.last_number();
        (self.file, self.header, self.index) = (Some(file), header, index);
        self.index.raise(raised);
        (self.begin, self.end, self.synced, self.rewrite_above) = (begin, end, end, 0);
        self.space.cut(end);
        self.note_length(false);
        Ok(())
    }

    fn body(&self, place: Place) -> io::Result<Vec<u8>> {
        let file = self.file.as_ref().ok_or_else(|| io::Error::other("it is closed"))?;
        frame::read(&**file, &self.folder.show(NAME), self.header.marker, place).map_err(io::Error::other)
    }

    /// All that is pending now, to be read later.
    pub(super) fn pending(&self) -> PendingRecords {
        let live = self.index.iter().map(|(_, live)| live.clone()).collect::<Vec<_>>();
        let (name, marker) = (self.folder.show(NAME), self.header.marker);
        PendingRecords(Source::File { file: self.file.clone(), name, marker, live: live.into_iter() })
    }

    /// How the last ended that were given up, oldest first.
    pub(super) fn dropped(&self) -> Result<Vec<Dropped>, OpenError> {
        let (name, marker) = (self.folder.show(NAME), self.header.marker);
        let Some(file) = self.file.as_deref() else { return Ok(Vec::new()) };
        self.index.ended().map(|(_, place)| read_dropped(file, &name, marker, place)).collect()
    }

    /// Reads one that is pending.
    pub(super) fn read(&self, number: u64) -> Result<Option<Pending>, OpenError> {
        let name = self.folder.show(NAME);
        match (self.index.get(number), &self.file) {
            (None, _) => Ok(None),
            (Some(live), Some(file)) => read_live(&**file, &name, self.header.marker, live).map(Some),
            (Some(_), None) => {
                let why = io::Error::other(self.why_closed());
                Err(OpenError::Io { file: name, why })
            }
        }
    }
}
