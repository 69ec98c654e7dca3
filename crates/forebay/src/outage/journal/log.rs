//! The file: opening, appending, syncing, rewriting. It has no tasks and does not wait, and its holder has it alone.

use std::io;
use std::sync::Arc;

use super::codec::{Header, Mark, encode_mark};
use super::frame::{self, DESCRIPTION_BYTES_MAX, HEAD_BYTES, Place};
use super::index::Index;
use super::length::{Length, LengthFile};
use super::place::still_there;
use super::reader::Reader;
use super::remembered::Memo;
use super::rewrite;
use super::scan::{Scan, draw_header, header_of_session, scan};
use super::space::{Kind, Space};
use super::work::{Work, adds, frame_bytes, gone, kind};
use super::{AppendError, Cut, JournalOptions, OpenError, Torn};
use crate::mutation::{self, Fault};
use crate::outage::disk::{DiskFile, Folder, is_full};
use crate::outage::record::{Description, Loss};
use crate::runtime::Runtime;
use crate::store::embedded::{Durability, UNFLUSHED_BYTES_MAX};
use crate::tier::Remembered;

const NAME: &str = "journal";
/// The file that takes its place, while it is written.
const NEW_NAME: &str = "journal.new";
/// Numbers that may be acknowledged unsynced before a mark that says so has to be synced.
const RESERVED_NUMBERS: u64 = 65_536;
/// Bytes of a frame with a mark, at most.
const MARK_BYTES_MAX: u64 = HEAD_BYTES as u64 + 32;
/// Superseded bytes for which a file is not rewritten; a sixteenth of the bytes allowed, if that is less.
const REWRITE_BYTES_MIN: u64 = 1 << 20;

pub(super) struct Log {
    folder: Arc<dyn Folder>,
    _lock: Box<dyn Send>,
    /// None once it failed or was closed: it is never written again.
    file: Option<Arc<dyn DiskFile>>,
    closed: Option<AppendError>,
    memo: Memo,
    length: LengthFile,
    space: Space,
    header: Header,
    index: Index,
    /// Where the next frame goes, and where the first one stands.
    end: u64,
    begin: u64,
    synced: u64,
    reserved: u64,
    durability: Durability,
    /// The mark with which this start begins is written.
    begun: bool,
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
        let torn = scan.torn(folder.show(NAME));
        let (memo, remembered) = Memo::open(&*folder).map_err(io)?;
        let mut log = Log {
            folder: Arc::clone(&folder),
            _lock: lock,
            file,
            closed: None,
            memo,
            length,
            space: Space::default(),
            header: scan.header,
            end: scan.end,
            begin: scan.begin,
            synced: 0,
            reserved: 0,
            index: scan.index,
            durability: options.durability,
            begun: true,
            rewrite_bytes_min: REWRITE_BYTES_MIN.min(options.bytes_max / 16),
            rewrite_above: 0,
            runtime: runtime.clone(),
        };
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
                match file.write(self.end, &buffer) {
                    // Nothing is written before it.
                    Err(why) if is_full(&why) => return file.set_bytes(self.end).map(|()| self.begun = false),
                    written => written?,
                }
                file.sync()?;
                self.end += buffer.len() as u64;
                self.synced = self.end;
                Ok(())
            }
            _ => {
                let bytes = self.begin + self.index.kept_bytes();
                self.rewrite(header).map_err(|(why, _)| match is_full(&why) {
                    true => io::Error::new(
                        why.kind(),
                        format!("{why}; the file is written again, which takes {bytes} bytes"),
                    ),
                    false => why,
                })
            }
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
        let mut begins = !self.begun && batch.iter().any(|work| matches!(work, Work::Append(_)));
        if begins {
            self.mark(false, &mut buffer);
        }
        let mut answers: Vec<Result<(), AppendError>> =
            batch.iter().map(|work| self.stage(work, &*file, before, &mut buffer)).collect();
        let appends = |(work, answer): (&Work, &Result<_, _>)| matches!(work, Work::Append(_)) && answer.is_ok();
        if begins && !batch.iter().zip(&answers).any(appends) {
            // With nothing to begin with, a full disk is not tried each time.
            buffer.clear();
            begins = false;
        }
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
        self.begun |= begins && self.end > before;
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
        let Work::Append(entries) = work else { return Ok(()) };
        let bytes = entries.iter().map(frame_bytes).sum();
        let (to, pending) = (before + buffer.len() as u64 + bytes, self.index.count());
        let room = match entries.iter().filter(|entry| adds(entry)).count() {
            0 => {
                let left = pending.saturating_sub(gone(entries));
                self.space.note(&*self.folder, file, to, (kind(entries), left))
            }
            added => self.space.add(&*self.folder, file, to, bytes, pending + added),
        };
        room.map_err(|why| self.no_space(&why))?;
        for entry in entries {
            let place = Place { offset: before + buffer.len() as u64, bytes: frame_bytes(entry) as u32 };
            self.index.apply(&entry.effect, place).map_err(AppendError::Misplaced)?;
            frame::write(self.header.marker, place.offset, self.synced, &entry.body, buffer);
        }
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
    fn refuse(&self, batch: &[Work], answers: &mut [Result<(), AppendError>], why: &io::Error) {
        for (work, answer) in batch.iter().zip(answers) {
            if matches!(work, Work::Append(_)) && answer.is_ok() {
                *answer = Err(self.no_space(why));
            }
        }
    }

    /// Whether a new file of so many bytes may find room.
    fn has_room_for_new(&mut self, bytes: u64) -> bool {
        if !self.space.has(bytes, self.end) {
            return false;
        }
        // What was kept for notes is room for a new file that is no larger: then there is more for them.
        let gives = |file: &Arc<dyn DiskFile>| file.set_bytes(self.end).is_ok();
        if bytes <= self.space.ahead(self.end) && self.file.as_ref().is_some_and(gives) {
            self.space.cut(self.end);
        }
        true
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
        let idle = idle && self.space.note(&*self.folder, file, self.end + MARK_BYTES_MAX, (Kind::Short, 0)).is_ok();
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
        let header = Header { description, ..self.header.clone() };
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
        if !rewrite::is_worthwhile(superseded, live) || superseded <= noise {
            return;
        }
        if scarce && !self.has_room_for_new(self.begin + live + 2 * MARK_BYTES_MAX) {
            return;
        }
        if let Err((why, ended)) = self.rewrite(self.header.clone()) {
            let file = self.folder.show(NEW_NAME);
            if !scarce || ended {
                tracing::warn!(%file, %why, ended, "the journal is not rewritten; the old file goes on if it can");
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
        let raised = self.index.last_number();
        let (marker, last_number) = (self.runtime.random(), raised.max(header.last_number));
        let header = Header { marker, last_number, ..header };
        let read = |place| self.body(place);
        let mark = self.mark_now(false);
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
        (self.file, self.header, self.index, self.begun) = (Some(file), header, index, true);
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

    /// Reads what it keeps.
    pub(super) fn reader(&self) -> Reader<'_> {
        Reader::new(self.folder.show(NAME), self.file.as_ref(), self.header.marker, &self.index)
    }
}
