//! The store's outages as the server shows them: who is told of another mode (CACHE NOTIFY), and the one line that says
//! how things stand.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay::outage::{Gate, GateState, Mode};
use forebay::runtime::Runtime;
use futures_util::task::AtomicWaker;

/// Those who want to be told of another mode; as many as there are connections at most.
#[derive(Default)]
pub struct Modes {
    list: Mutex<Vec<Arc<Notice>>>,
    /// The store is away now.
    away: AtomicBool,
}

/// One who wants to be told.
#[derive(Default)]
pub struct Notice {
    /// The mode that it has not been told yet. Who is slow is told the last one.
    news: Mutex<Option<Mode>>,
    waker: AtomicWaker,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Modes {
    /// Follows the modes of `gate`, until it is gone.
    pub fn follow(self: &Arc<Modes>, gate: &Gate, runtime: &Runtime) {
        let (modes, mut changes) = (self.clone(), gate.mode_changes());
        runtime.spawn(async move {
            while let Some(mode) = changes.next().await {
                modes.tell(mode);
            }
        });
    }

    fn tell(&self, mode: Mode) {
        self.away.store(mode == Mode::Failed, Ordering::Relaxed);
        for notice in lock(&self.list).iter() {
            *lock(&notice.news) = Some(mode);
            notice.waker.wake();
        }
    }

    /// Whether the store is away now.
    #[inline]
    pub fn is_away(&self) -> bool {
        self.away.load(Ordering::Relaxed)
    }

    /// Has someone told from now on.
    pub fn add(&self) -> Arc<Notice> {
        let notice = Arc::new(Notice::default());
        lock(&self.list).push(notice.clone());
        notice
    }

    /// Tells it nothing more.
    pub fn remove(&self, notice: &Arc<Notice>) {
        lock(&self.list).retain(|other| !Arc::ptr_eq(other, notice));
    }

    /// Those who are told now.
    pub fn len(&self) -> usize {
        lock(&self.list).len()
    }

    /// Whether nobody is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Notice {
    /// The mode that was not told yet.
    pub fn take(&self) -> Option<Mode> {
        lock(&self.news).take()
    }

    /// Done when there is one. For its own connection only.
    pub async fn ready(&self) {
        std::future::poll_fn(|context| {
            self.waker.register(context.waker());
            match lock(&self.news).is_some() {
                true => std::task::Poll::Ready(()),
                false => std::task::Poll::Pending,
            }
        })
        .await;
    }
}

/// `mode failed since 00:00:12 | pending 41 writes 9.3 KiB | room 63.9 MiB = 4 h 10 m at this rate`.
pub fn summary(state: Option<&GateState>) -> String {
    let Some(state) = state else { return format!("mode {} | nothing is buffered here", Mode::Normal.name()) };
    let mut line = format!("mode {} since {}", state.mode.name(), clock(state.lasted));
    let amount = &state.amount;
    line.push_str(&format!(" | pending {} writes {}", amount.transactions, size(amount.bytes)));
    line.push_str(&format!(" | room {}", size(state.room)));
    if state.short {
        line.push_str(" on the journal's disk");
    }
    if let Some(time) = state.room_time {
        line.push_str(&format!(" = {} at this rate", span(time)));
    }
    if amount.quarantined > 0 {
        line.push_str(&format!(" | {} quarantined: see CACHE QUARANTINE LIST", amount.quarantined));
    }
    if state.fenced.is_some() {
        line.push_str(" | fenced: another forebay has the database; start this one again if it is to serve");
    }
    if state.suspended.is_some() {
        line.push_str(" | suspended: compare, then CACHE DRAIN RESUME, or CACHE QUARANTINE APPLY and DROP");
    }
    if state.closed.is_some() {
        line.push_str(" | the journal has failed: nothing more is buffered");
    }
    line
}

/// Hours, minutes and seconds: `00:00:12`.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// A time in its two largest units: `4 h 10 m`.
fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} m {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} m", seconds / 3600, seconds / 60 % 60),
        86_400..86_400_000 => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
        _ => "more than 1000 d".to_owned(),
    }
}

/// `9.3 KiB`.
pub fn size(bytes: usize) -> String {
    let bytes = bytes as f64;
    match bytes {
        ..1024.0 => format!("{bytes} B"),
        ..1_048_576.0 => format!("{:.1} KiB", bytes / 1024.0),
        ..1_073_741_824.0 => format!("{:.1} MiB", bytes / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes / 1_073_741_824.0),
    }
}

#[cfg(test)]
mod tests {
    use forebay::outage::Counts;

    use super::*;

    fn state() -> GateState {
        GateState {
            mode: Mode::Failed,
            since_ms: 1,
            lasted: Duration::from_secs(12),
            amount: Default::default(),
            room: 67_004_006,
            room_time: Some(Duration::from_secs(15_047)),
            oldest_ms: None,
            why: String::new(),
            suspended: None,
            fenced: None,
            unnoted: 0,
            short: false,
            closed: None,
            losses: Vec::new(),
            counts: Counts::default(),
            outage: Counts::default(),
        }
    }

    #[test]
    fn the_line_is_that_of_the_first_five_minutes() {
        let mut state = state();
        (state.amount.transactions, state.amount.bytes) = (41, 9523);
        let line = "mode failed since 00:00:12 | pending 41 writes 9.3 KiB | room 63.9 MiB = 4 h 10 m at this rate";
        assert_eq!(summary(Some(&state)), line);
        (state.amount.quarantined, state.suspended) = (2, Some("restored".to_owned()));
        let more = " | 2 quarantined: see CACHE QUARANTINE LIST | suspended: compare, then CACHE DRAIN RESUME, \
                    or CACHE QUARANTINE APPLY and DROP";
        assert_eq!(summary(Some(&state)), format!("{line}{more}"));
        state.closed = Some("removed".to_owned());
        let failed = " | the journal has failed: nothing more is buffered";
        assert_eq!(summary(Some(&state)), format!("{line}{more}{failed}"));
        assert_eq!(summary(None), "mode normal | nothing is buffered here");
    }

    #[test]
    fn times_and_sizes() {
        for (seconds, expected) in [(0, "0 s"), (61, "1 m 1 s"), (86_400, "1 d 0 h"), (1 << 40, "more than 1000 d")] {
            assert_eq!(span(Duration::from_secs(seconds)), expected);
        }
        assert_eq!(clock(Duration::from_secs(360_001)), "100:00:01");
        for (bytes, expected) in [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (3 << 30, "3.0 GiB")] {
            assert_eq!(size(bytes), expected);
        }
    }

    #[test]
    fn who_is_slow_is_told_the_last_mode() {
        let modes = Modes::default();
        let notice = modes.add();
        modes.tell(Mode::Failed);
        assert!(modes.is_away());
        modes.tell(Mode::Recovery);
        assert!(!modes.is_away() && notice.take() == Some(Mode::Recovery) && notice.take().is_none());
        modes.remove(&notice);
        modes.tell(Mode::Normal);
        assert!(modes.is_empty() && notice.take().is_none());
    }
}
