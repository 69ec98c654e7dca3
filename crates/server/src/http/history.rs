//! The last ten minutes of all figures, second by second, so that a page which was just opened shows a curve.
//!
//! A row has every number of every metric in `metrics.rs`. Metrics with a line for each command or table are summed.
//! So rows stay short, and no name that a user chose makes a column. Rows are taken whether a page is open or not: an
//! outage is often looked at when it has begun.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::json;
use crate::metrics::{self, Metric, Value, View};

/// Rows that are kept, one a second.
pub const HISTORY_ROWS_MAX: usize = 600;

/// Numbers of a row; there are some 200.
pub const HISTORY_COLUMNS_MAX: usize = 512;

/// Labels with as many values as there are commands or tables.
const SUMMED: [&str; 2] = ["command", "table"];

/// Rows of one event: what is made ahead of a browser that does not read.
const EVENT_ROWS_MAX: usize = 20;

/// The rows, and who waits for the next.
pub(super) struct History {
    rows: Mutex<Rows>,
    news: watch::Sender<()>,
}

#[derive(Default)]
struct Rows {
    names: Vec<String>,
    numbers: HashMap<String, usize>,
    rows: VecDeque<Row>,
}

struct Row {
    /// ms since the Unix epoch; rises from row to row, whatever the clock does.
    at_ms: u64,
    values: Box<[f64]>,
}

/// What a page has been sent.
#[derive(Default)]
pub(super) struct Sent {
    /// The time of the last row.
    pub at_ms: u64,
    /// Names of columns.
    pub names: usize,
}

/// Whether a metric's lines are summed.
pub(super) fn is_summed(metric: &Metric) -> bool {
    matches!(metric.value, Value::Each(label, _) if SUMMED.contains(&label))
}

impl Rows {
    fn set(&mut self, values: &mut Vec<f64>, name: &str, value: f64) {
        let at = match self.numbers.get(name) {
            Some(at) => *at,
            None if self.names.len() >= HISTORY_COLUMNS_MAX => return,
            None => {
                self.names.push(name.to_owned());
                self.numbers.insert(name.to_owned(), self.names.len() - 1);
                self.names.len() - 1
            }
        };
        if values.len() <= at {
            values.resize(at + 1, f64::NAN);
        }
        values[at] = value;
    }
}

impl History {
    pub(super) fn new() -> History {
        History { rows: Mutex::default(), news: watch::Sender::new(()) }
    }

    fn lock(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Told of each row from now on.
    pub(super) fn news(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }

    /// Takes a row; the oldest goes where there are too many.
    pub(super) fn take(&self, view: &View<'_>, now_ms: u64) {
        let mut found = Vec::new();
        for metric in metrics::all() {
            match is_summed(metric) {
                true => {
                    let mut sum = 0.0;
                    metric.read(view, &mut |_, value| sum += value);
                    found.push((metric.name.to_owned(), sum));
                }
                false => metric.read(view, &mut |rest, value| found.push((format!("{}{rest}", metric.name), value))),
            }
        }
        let mut rows = self.lock();
        let mut values = vec![f64::NAN; rows.names.len()];
        found.iter().for_each(|(name, value)| rows.set(&mut values, name, *value));
        let at_ms = rows.rows.back().map_or(now_ms, |last| now_ms.max(last.at_ms + 1));
        if rows.rows.len() >= HISTORY_ROWS_MAX {
            rows.rows.pop_front();
        }
        rows.rows.push_back(Row { at_ms, values: values.into() });
        drop(rows);
        self.news.send_replace(());
    }

    /// The next rows that a page has not been sent, as events, and whether these are all; `None` if it has them all.
    pub(super) fn next(&self, sent: &mut Sent) -> Option<(String, bool)> {
        let rows = self.lock();
        let from = rows.rows.partition_point(|row| row.at_ms <= sent.at_ms);
        let last = rows.rows.iter().skip(from).take(EVENT_ROWS_MAX).next_back()?.at_ms;
        let mut out = String::new();
        if sent.names < rows.names.len() {
            sent.names = rows.names.len();
            out.push_str("event: names\ndata: [");
            json::list(&mut out, &rows.names, |out, name| json::text(out, name));
            out.push_str("]\n\n");
        }
        let _ = write!(out, "event: rows\nid: {last}\ndata: [");
        json::list(&mut out, rows.rows.iter().skip(from).take(EVENT_ROWS_MAX), |out, row| {
            let _ = write!(out, "[{}", row.at_ms);
            for value in &row.values {
                out.push(',');
                json::number(out, *value);
            }
            out.push(']');
        });
        out.push_str("]\n\n");
        sent.at_ms = last;
        Some((out, from + EVENT_ROWS_MAX >= rows.rows.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history_of(rows: usize) -> History {
        let history = History::new();
        for n in 0..rows as u64 {
            let mut all = history.lock();
            all.names = vec!["a".into(), "b".into()];
            all.rows.push_back(Row { at_ms: 1000 + n, values: [n as f64, f64::NAN].into() });
        }
        history
    }

    #[test]
    fn a_page_is_sent_each_row_once_and_few_at_a_time() {
        let history = history_of(EVENT_ROWS_MAX + 2);
        let mut sent = Sent::default();
        let (first, all) = history.next(&mut sent).unwrap();
        assert!(!all);
        assert!(first.starts_with("event: names\ndata: [\"a\",\"b\"]\n\nevent: rows\nid: 1019\ndata: [[1000,0,null],"));
        let (second, all) = history.next(&mut sent).unwrap();
        assert_eq!((&*second, all), ("event: rows\nid: 1021\ndata: [[1020,20,null],[1021,21,null]]\n\n", true));
        assert!(history.next(&mut sent).is_none());
        // Another page, that had them before it was cut off.
        let mut again = Sent { at_ms: 1020, names: 0 };
        assert!(history.next(&mut again).unwrap().0.ends_with("data: [[1021,21,null]]\n\n"));
    }

    #[test]
    fn names_are_bounded_and_a_row_may_have_fewer() {
        let mut rows = Rows::default();
        let mut values = Vec::new();
        for n in 0..HISTORY_COLUMNS_MAX + 10 {
            rows.set(&mut values, &n.to_string(), 1.0);
        }
        assert_eq!((rows.names.len(), values.len()), (HISTORY_COLUMNS_MAX, HISTORY_COLUMNS_MAX));
        let mut few = Vec::new();
        rows.set(&mut few, "2", 5.0);
        assert!(few.len() == 3 && few[0].is_nan() && few[2] == 5.0);
    }
}
