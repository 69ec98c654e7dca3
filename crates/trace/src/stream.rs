//! What readers of formats have in common: the end, what is malformed, and where a trace was cut.

use crate::TraceReader;
use crate::dictionary::Dictionary;
use crate::error::TraceError;
use crate::input::Source;
use crate::record::Record;

/// What each format's reader does; [`Stream`] makes an iterator of it.
pub(crate) trait Next {
    /// The next record, `None` at the end.
    fn next_record(&mut self) -> Result<Option<Record>, TraceError>;

    /// Appends at most so many records, none at the end. Those before an error are appended.
    fn next_records(&mut self, batch: &mut Vec<Record>, most: usize) -> Result<(), TraceError> {
        for _ in 0..most {
            match self.next_record()? {
                Some(record) => batch.push(record),
                None => break,
            }
        }
        Ok(())
    }

    /// As [`TraceReader::fill_requests`].
    fn next_requests(&mut self, batch: &mut Vec<(u64, u32)>, most: usize) -> Result<bool, TraceError> {
        for _ in 0..most {
            match self.next_record()? {
                Some(record) => batch.extend(record.request()),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Where it reads from, if after a malformed record it can go on with the next.
    fn source(&self) -> Option<&Source> {
        None
    }

    /// Whether a trace that is cut ends there, without an error.
    fn takes_cut(&self) -> bool {
        self.source().is_some_and(|source| source.is_lenient())
    }

    /// What its numbers mean.
    fn dictionary(&self) -> Option<&Dictionary> {
        None
    }

    /// What a reader of the figures has to know.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Ends after the first error or the end, whichever comes first; if its source is lenient, only after an error that is
/// not about a single record.
pub(crate) struct Stream<R> {
    pub(crate) reader: R,
    done: bool,
    skipped: u64,
    /// The first of what was passed over.
    first_skipped: Option<String>,
    /// Where the trace was cut.
    cut: Option<String>,
}

impl<R> Stream<R> {
    pub(crate) fn new(reader: R) -> Stream<R> {
        Stream { reader, done: false, skipped: 0, first_skipped: None, cut: None }
    }
}

impl<R: Next> Stream<R> {
    /// Whether a malformed record is counted and no error.
    fn passes_over(&self) -> bool {
        self.reader.source().is_some_and(|source| source.is_lenient())
    }

    fn skip(&mut self, error: &TraceError) {
        self.skipped += 1;
        self.first_skipped.get_or_insert_with(|| error.place_and_reason());
    }

    /// After an error all is over. A cut is remembered; it is no error where it was asked to be none.
    fn over(&mut self, error: TraceError) -> Result<(), TraceError> {
        self.done = true;
        match error {
            TraceError::Cut { offset, what } if self.reader.takes_cut() => {
                self.cut =
                    Some(format!("byte {offset}: the trace is cut short ({what}); only what came before was read"));
                Ok(())
            }
            error => {
                self.cut = error.is_truncated().then(|| error.to_string());
                Err(error)
            }
        }
    }
}

impl<R: Next + Send + 'static> Stream<R> {
    pub(crate) fn boxed(reader: R) -> crate::Records {
        Box::new(Stream::new(reader))
    }
}

impl<R: Next> Iterator for Stream<R> {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        loop {
            match self.reader.next_record() {
                Err(error) if error.is_about_one_record() && self.passes_over() => self.skip(&error),
                Err(error) => return self.over(error).err().map(Err),
                Ok(None) => {
                    self.done = true;
                    return None;
                }
                Ok(Some(record)) => return Some(Ok(record)),
            }
        }
    }
}

impl<R: Next + Send> TraceReader for Stream<R> {
    fn fill(&mut self, batch: &mut Vec<Record>, most: usize) -> Result<(), TraceError> {
        let begun = batch.len();
        while !self.done && batch.len() - begun < most {
            let before = batch.len();
            match self.reader.next_records(batch, most - (before - begun)) {
                Err(error) if error.is_about_one_record() && self.passes_over() => self.skip(&error),
                Err(error) => return self.over(error),
                Ok(()) => self.done = batch.len() == before,
            }
        }
        Ok(())
    }

    fn fill_requests(&mut self, batch: &mut Vec<(u64, u32)>, most: usize) -> Result<bool, TraceError> {
        if self.done {
            return Ok(false);
        }
        match self.reader.next_requests(batch, most) {
            Err(error) if error.is_about_one_record() && self.passes_over() => self.skip(&error),
            Err(error) => self.over(error)?,
            Ok(more) => self.done = !more,
        }
        Ok(!self.done)
    }

    fn dictionary(&self) -> Option<&Dictionary> {
        self.reader.dictionary()
    }

    fn skipped(&self) -> u64 {
        self.skipped
    }

    fn first_skipped(&self) -> Option<&str> {
        self.first_skipped.as_deref()
    }

    fn warnings(&self) -> Vec<String> {
        self.reader.warnings().into_iter().chain(self.cut.clone()).collect()
    }
}
