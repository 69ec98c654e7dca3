//! Whether the store is up: a breaker over what calls to it say, and the mode that follows. Both are pure functions of
//! what they are told and of the time that they are given.
//!
//! The mode is a hint to people and to waiting calls. The truth is what is pending. A lane with pending work takes no
//! direct write in any mode. (So a document of the paper is dirty for as long as its queue is not empty, whatever the
//! mode.)

use std::time::Duration;

/// When a breaker opens and closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    /// Failures in a row after which the store counts as down.
    pub failures_to_open: u32,
    /// Answers in a row after which it counts as up again.
    pub successes_to_close: u32,
    /// Pause between two probes of a store that is down, at first; it doubles with each that fails.
    pub pause_ms: u64,
    /// Longest such pause.
    pub pause_ms_max: u64,
}

impl Default for BreakerSettings {
    fn default() -> BreakerSettings {
        BreakerSettings { failures_to_open: 3, successes_to_close: 2, pause_ms: 50, pause_ms_max: 2_000 }
    }
}

/// Counts failures and successes in a row.
#[derive(Clone, Debug)]
pub struct Breaker {
    settings: BreakerSettings,
    open: bool,
    /// In a row: failures while closed, successes while open.
    count: u32,
    pause_ms: u64,
    /// Why it opened, or the last failure since.
    why: String,
}

impl Breaker {
    /// A closed breaker.
    pub fn new(settings: BreakerSettings) -> Breaker {
        Breaker { settings, open: false, count: 0, pause_ms: settings.pause_ms, why: String::new() }
    }

    /// Whether the store counts as down.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Whether the last call failed, or the store counts as down.
    pub fn is_in_doubt(&self) -> bool {
        self.open || self.count > 0
    }

    /// Whether one more failure opens it.
    pub fn is_about_to_open(&self) -> bool {
        !self.open && self.count + 1 >= self.settings.failures_to_open
    }

    /// The last failure that was told.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// Pause before the next probe.
    pub fn pause(&self) -> Duration {
        // One that has begun to answer is asked again soon.
        Duration::from_millis(if self.open && self.count > 0 { self.settings.pause_ms } else { self.pause_ms })
    }

    /// A call was answered. True if that closes the breaker. Only a call that does what the store is there for ends the
    /// doubling of the pauses ([`Breaker::worked`]): a store that answers probes and refuses work is not up.
    pub fn answered(&mut self) -> bool {
        if !self.open {
            self.count = 0;
            return false;
        }
        self.count += 1;
        if self.count < self.settings.successes_to_close {
            return false;
        }
        (self.open, self.count) = (false, 0);
        true
    }

    /// The store did what was asked of it, be it open or closed before.
    pub fn worked(&mut self) {
        self.pause_ms = self.settings.pause_ms;
        if !self.open {
            self.count = 0;
        }
    }

    /// A call failed. True if that opens the breaker.
    pub fn failed(&mut self, why: &str) -> bool {
        why.clone_into(&mut self.why);
        if self.open {
            self.count = 0;
            self.pause_ms = (self.pause_ms * 2).min(self.settings.pause_ms_max);
            return false;
        }
        self.count += 1;
        self.count >= self.settings.failures_to_open && self.trip(why)
    }

    /// The store is down, whatever was counted. True if that was news.
    pub fn trip(&mut self, why: &str) -> bool {
        why.clone_into(&mut self.why);
        self.count = 0;
        if !self.open {
            // A store that falls again right behind its recovery is asked less often each time.
            self.pause_ms = (self.pause_ms * 2).min(self.settings.pause_ms_max);
        }
        !std::mem::replace(&mut self.open, true)
    }
}

/// What the gate does with writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// They go to the store.
    Normal,
    /// The store is down: they are buffered.
    Failed,
    /// The store is up, and buffered writes are applied.
    Recovery,
}

impl Mode {
    /// The one transition function: from what the breaker says and whether anything waits for the store.
    pub fn of(open: bool, waiting: bool) -> Mode {
        match (open, waiting) {
            (true, _) => Mode::Failed,
            (false, true) => Mode::Recovery,
            (false, false) => Mode::Normal,
        }
    }

    /// As people are told.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Normal => "normal",
            Mode::Failed => "failed",
            Mode::Recovery => "recovery",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_after_failures_in_a_row_and_closes_after_answers_in_a_row() {
        let mut breaker = Breaker::new(BreakerSettings::default());
        assert!(!breaker.failed("a") && !breaker.failed("b"));
        assert!(breaker.is_in_doubt() && !breaker.answered() && !breaker.is_in_doubt());
        assert!(!breaker.failed("c") && !breaker.failed("d") && breaker.failed("e"));
        assert!(breaker.is_open() && breaker.why() == "e");
        assert!(!breaker.answered() && !breaker.failed("f") && !breaker.answered() && breaker.answered());
        assert!(!breaker.is_open());
    }

    #[test]
    fn a_store_that_answers_and_does_not_work_is_asked_less_and_less() {
        let settings = BreakerSettings::default();
        let mut breaker = Breaker::new(settings);
        let mut last = Duration::ZERO;
        for _ in 0..10 {
            assert!(breaker.trip("throttled"));
            assert!(breaker.pause() > last || breaker.pause().as_millis() as u64 == settings.pause_ms_max);
            last = breaker.pause();
            while !breaker.answered() {}
        }
        assert_eq!(last.as_millis() as u64, settings.pause_ms_max);
        breaker.worked();
        assert!(breaker.pause() < last);
    }

    #[test]
    fn the_mode_follows() {
        assert_eq!(Mode::of(true, false), Mode::Failed);
        assert_eq!(Mode::of(true, true), Mode::Failed);
        assert_eq!(Mode::of(false, true), Mode::Recovery);
        assert_eq!(Mode::of(false, false), Mode::Normal);
    }
}
