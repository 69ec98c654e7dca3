//! How far something has come: a bar on a terminal, lines in a log.

use std::sync::{Mutex, PoisonError};

use forebay_sim::lab;
use forebay_workload::{live, replay};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use crate::say;

const COUNTED: &str = "{msg:18} {wide_bar} {human_pos}/{human_len} {rate:>12} ETA {eta:>4}";
const UNKNOWN: &str = "{msg:18} {spinner} {human_pos} requests {elapsed}";
const TOLD: &str = "{prefix:14} {wide_bar} {msg}";

/// A bar on a terminal, one for each phase.
#[derive(Default)]
pub struct Bar {
    bar: Mutex<Option<ProgressBar>>,
}

impl Bar {
    fn with(&self, act: impl FnOnce(&mut Option<ProgressBar>)) {
        act(&mut self.bar.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn start(&self, bar: ProgressBar, template: &str) {
        // A template that does not parse would only cost its looks.
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let style = style.with_key("rate", |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            let _ = write!(out, "{:.0}/s", state.per_sec());
        });
        bar.set_style(style);
        self.with(|current| *current = Some(bar));
    }

    fn clear(&self) {
        self.with(|bar| {
            if let Some(bar) = bar.take() {
                bar.finish_and_clear();
            }
        });
    }
}

fn title(phase: replay::Phase) -> &'static str {
    match phase {
        replay::Phase::Scan => "reading the trace",
        replay::Phase::Preload => "writing its keys",
        replay::Phase::Run => "replaying",
    }
}

impl replay::Progress for Bar {
    fn begin(&self, phase: replay::Phase, total: Option<u64>) {
        let (bar, template) = match total {
            Some(total) => (ProgressBar::new(total), COUNTED),
            None => (ProgressBar::new_spinner(), UNKNOWN),
        };
        self.start(bar.with_message(title(phase)), template);
    }

    fn advance(&self, done: u64) {
        self.with(|bar| {
            if let Some(bar) = bar {
                bar.inc(done);
            }
        });
    }

    fn end(&self) {
        self.clear();
    }
}

impl lab::Progress for Bar {
    fn begin(&self, pass: &str, records: Option<u64>) {
        let (bar, template) = match records {
            Some(records) => (ProgressBar::new(records), COUNTED),
            None => (ProgressBar::new_spinner(), UNKNOWN),
        };
        self.start(bar.with_message(pass.to_owned()), template);
    }

    fn advance(&self, records: u64) {
        replay::Progress::advance(self, records);
    }

    fn end(&self) {
        self.clear();
    }
}

impl live::Progress for Bar {
    fn begin(&self, title: &'static str, total: u64) {
        self.start(ProgressBar::new(total).with_prefix(title), TOLD);
    }

    fn at(&self, done: u64, words: &str) {
        self.with(|bar| {
            if let Some(bar) = bar {
                bar.set_position(done);
                bar.set_message(words.to_owned());
            }
        });
    }

    fn end(&self) {
        self.clear();
    }
}

/// One line for each phase, for logs.
pub struct Lines;

impl replay::Progress for Lines {
    fn begin(&self, phase: replay::Phase, total: Option<u64>) {
        match total {
            Some(total) => say::note(format_args!("{}: {total}", title(phase))),
            None => say::note(title(phase)),
        }
    }

    fn advance(&self, _: u64) {}

    fn end(&self) {}
}

impl live::Progress for Lines {
    fn begin(&self, title: &'static str, _: u64) {
        say::note(title);
    }

    fn at(&self, _: u64, _: &str) {}

    fn end(&self) {}
}
