//! What a session does beside serving: it shows requests to monitors, waits out a pause, and times what had to wait.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use forebay::mutation::{self, Fault};
use forebay_protocol::{Frame, Reply};
use futures_util::future::{Either, select};

use super::Session;
use super::open::WHOLE_TIME_UP;
use crate::attention::{MONITORS, PAUSED, TRACKING};
use crate::command::{Command, Effect, Flag};
use crate::monitor;

impl Session {
    /// Before a request, when there is something to look out for.
    pub(super) async fn attend(&mut self, frame: Frame<'_>) {
        let Some((number, command)) = self.shared.table.find_numbered(frame.arg(0)) else {
            return self.end_caching("");
        };
        self.look_again();
        // What is about to be refused waits for nothing and is shown to nobody.
        if !command.arity_fits(frame.len()) || self.denied(number, command, frame).is_some() {
            return self.end_caching(command.name);
        }
        let attention = self.shared.attention.get();
        if attention & PAUSED != 0 && !mutation::on(Fault::PauseIgnored) {
            self.wait_for_pause(command, frame).await;
        }
        if attention & TRACKING != 0 {
            self.take_pushes();
            if !mutation::on(Fault::NotedAfterRead) {
                self.note_reads(command, frame);
            }
        }
        if attention & MONITORS != 0 && !command.is(Flag::Admin) {
            let now_ms = self.shared.engine.runtime().now_ms();
            let line = monitor::line(now_ms, self.space, &self.client.address, &self.shared.table, command, frame);
            self.shared.monitors.show(&line, &self.shared.attention);
        }
    }

    /// Whether a pause concerns a request, and then whether it may write. CLIENT itself goes on, so that a pause can be
    /// ended; so does what is queued, since EXEC will wait.
    fn heeds_pause(&self, command: &Command, frame: Frame<'_>) -> Option<bool> {
        let queued = self.multi.queue.is_some() && !command.is(Flag::NotQueued);
        let writes = || match command.effect(frame) {
            Some(effect) => effect != Effect::Read,
            None => {
                // A script that is declared to read only still may not wait for a write that waits.
                matches!(command.name, "flushdb" | "flushall" | "exec" | "txn") || command.is(Flag::RunsScript)
            }
        };
        (command.name != "client" && !queued).then(writes)
    }

    /// Waits while a pause holds up a request that is to run again, and keeps no room for its reply. Whether it did.
    pub(super) async fn waits_out_pause(&mut self, command: &Command, frame: Frame<'_>) -> bool {
        let paused = self.shared.attention.get() & PAUSED != 0 && !mutation::on(Fault::PauseForgotten);
        let writes = self.heeds_pause(command, frame).filter(|_| paused);
        let held_up = writes.is_some_and(|writes| self.shared.pause.holds(writes, self.shared.engine.runtime()));
        if held_up {
            self.granted = 0;
            self.counted.settle(self.replies.bytes());
            self.wait_for_pause(command, frame).await;
        }
        held_up
    }

    async fn wait_for_pause(&mut self, command: &Command, frame: Frame<'_>) {
        let Some(writes) = self.heeds_pause(command, frame) else { return };
        // Whoever else waits in this connection's batch has been answered before.
        let (shared, client) = (self.shared.clone(), self.client.clone());
        let runtime = shared.engine.runtime();
        let mut resumed = pin!(shared.pause.wait(writes, runtime, &shared.attention));
        let mut gone = pin!(async {
            let killed = async {
                if mutation::on(Fault::KillWaitsForPause) {
                    std::future::pending::<()>().await;
                }
                client.killed().await;
            };
            select(pin!(killed), pin!(shared.stopping.wait())).await;
        });
        loop {
            // Its client is not idle; but a transaction must not hold its locks for as long as a pause may take.
            let ends = self.open.ends(shared.engine.limits());
            let time_up = async {
                match ends {
                    Some(at) => runtime.sleep(at.saturating_sub(runtime.elapsed())).await,
                    None => std::future::pending().await,
                }
            };
            match select(&mut resumed, select(&mut gone, pin!(time_up))).await {
                Either::Left(_) => return,
                Either::Right((Either::Left(_), _)) => {
                    self.closing = true;
                    return;
                }
                Either::Right((Either::Right(_), _)) => self.roll_back(WHOLE_TIME_UP),
            }
        }
    }

    /// After a command that was not served from the cache at once; the moment at which it was done.
    pub(super) fn time(&mut self, command: &Command, frame: Frame<'_>, began: Duration) -> Duration {
        let runtime = self.shared.engine.runtime();
        let now = runtime.elapsed();
        let us = now.saturating_sub(began).as_micros() as u64;
        self.pending.waited(us, &self.shared.tally);
        let settings = &self.shared.settings;
        let slowlog_us = settings.slowlog_us.load(Ordering::Relaxed);
        // A wrong password is slow on purpose, and strangers must not be able to fill the log.
        if !self.identity.is_stranger() && u64::try_from(slowlog_us).is_ok_and(|slowlog_us| us >= slowlog_us) {
            let entries_max = settings.slowlog_entries_max.load(Ordering::Relaxed);
            let client = (self.client.address.clone(), self.client.names().name.clone());
            let args = monitor::redacted(&self.shared.table, command, frame);
            self.shared.slowlog.add(runtime.now_ms() / 1000, us, args, client, entries_max);
        }
        let latency_ms = settings.latency_ms.load(Ordering::Relaxed);
        if latency_ms > 0 && us / 1000 >= latency_ms {
            self.shared.latency.add(runtime.now_ms() / 1000, us / 1000);
        }
        now
    }

    /// Done when there is something that MONITOR or CACHE NOTIFY is to show. For the session's own connection only.
    pub async fn shown(&self) {
        let requests = std::pin::pin!(async {
            match &self.monitor {
                Some((monitor, _)) => monitor.ready().await,
                None => std::future::pending().await,
            }
        });
        let mode = std::pin::pin!(async {
            match &self.notice {
                Some(notice) => notice.ready().await,
                None => std::future::pending().await,
            }
        });
        let told = std::pin::pin!(std::future::poll_fn(|_| match self.has_pushes() {
            true => Poll::Ready(()),
            // What is told wakes the client's task, as a kill does.
            false => Poll::Pending,
        }));
        select(told, select(requests, mode)).await;
    }

    /// Whether it is shown what others do, however little it reads.
    pub fn is_shown_others(&self) -> bool {
        self.monitor.is_some() || self.notice.is_some() || self.tracked.is_some() || self.subscribed
    }

    /// Has the client told of another mode of the store from now on, or no more.
    pub fn notify(&mut self, on: bool) {
        match (on, self.notice.take()) {
            (true, notice) => self.notice = Some(notice.unwrap_or_else(|| self.shared.modes.add())),
            (false, Some(notice)) => self.shared.modes.remove(&notice),
            (false, None) => {}
        }
    }

    /// Puts what MONITOR and CACHE NOTIFY are to show behind the replies.
    pub fn take_shown(&mut self) {
        self.take_pushes();
        if let Some(mode) = self.notice.as_ref().and_then(|notice| notice.take()) {
            let push = [Reply::Text("store-mode".to_owned()), Reply::Text(mode.name().to_owned())];
            self.replies.push(&Reply::Push(push.into()), self.protocol);
        }
        self.check_monitor();
        if let Some((monitor, _)) = &self.monitor {
            self.replies.out().extend_from_slice(&monitor.take());
        }
    }

    /// A monitor asks for nothing more, so that nothing else would look at its rights again.
    fn check_monitor(&mut self) {
        if self.monitor.is_none() || !self.identity.is_guarded(&self.shared.access) {
            return;
        }
        self.look_again();
        let Some((_, request)) = &self.monitor else { return };
        let Some((number, command)) = self.shared.table.find_numbered(request.arg(0)) else { return };
        if let Some(denied) = self.denied(number, command, request.frame()) {
            let text = self.refusal(&denied);
            self.stop_monitor();
            self.answer(&Reply::error(text));
        }
    }

    /// Shows nothing more.
    pub fn stop_monitor(&mut self) {
        if let Some((monitor, _)) = self.monitor.take() {
            self.shared.monitors.remove(&monitor, &self.shared.attention);
        }
    }
}
