//! One connection: bytes in, bytes out.
//!
//! It goes on reading while replies wait to be written: many clients write a whole pipeline before they read, and would
//! hang otherwise. What waits is bounded by `client_reply_bytes_max`, and over all clients by `replies_bytes_max`. Past
//! them the session serves nothing more until its client has read (`crowd.rs`); a client that reads nothing then is
//! closed and logged. Strangers may have little waiting, in and out. A deep pipeline is served in slices, so that
//! others get their turn. The bytes travel on a [`Wire`]: a socket, or TLS over one.

pub(crate) mod amounts;
mod closing;
mod inline;
mod meanwhile;
pub mod simulated;
#[cfg(test)]
mod tests;
pub(crate) mod wire;

use std::io::{self, ErrorKind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use forebay::cache::Lent;
use forebay_protocol::{Batch, Decoder, Reply};

use crate::clients::Client;
use crate::room::{Claim, LANE_TURN, Place};
use crate::session::Session;
use crate::state::Shared;
use amounts::*;
use closing::Patience;
use meanwhile::Meanwhile;
use wire::{Ready, Wire};

/// Serves a connection to its end.
pub(crate) async fn serve(wire: impl Wire, shared: Arc<Shared>, client: Arc<Client>) {
    let mut connection = Connection::new(wire, shared, client);
    if let Err(error) = connection.run().await {
        tracing::debug!(client = connection.client.id, %error, "connection ended");
    }
    connection.session.counted.settle(0);
    connection.count_held(0);
    connection.forget_stranger();
}

struct Connection<W> {
    wire: W,
    decoder: Decoder,
    input: BytesMut,
    session: Session,
    /// Bytes of requests that are counted in the server's figures.
    held: usize,
    /// Those of them that MULTI, WATCH and TXN keep.
    kept: usize,
    /// The same in the pool of strangers.
    held_as_stranger: usize,
    /// Its place among large requests.
    place: Place,
    /// Its client sends no more.
    ended: bool,
    /// Since when it has to authenticate, on the runtime's clock.
    stranger_since: Option<Duration>,
    shared: Arc<Shared>,
    client: Arc<Client>,
    /// What the cache makes way with for it, once it has authenticated.
    lent: Option<Lent>,
}

impl<W: Wire> Connection<W> {
    fn new(wire: W, shared: Arc<Shared>, client: Arc<Client>) -> Connection<W> {
        Connection {
            wire,
            decoder: Decoder::new(shared.limits.request),
            input: BytesMut::new(),
            session: Session::new(shared.clone(), client.clone()),
            held: 0,
            kept: 0,
            held_as_stranger: 0,
            place: Place::new(shared.clone(), client.clone()),
            ended: false,
            stranger_since: None,
            lent: None,
            shared,
            client,
        }
    }

    async fn run(&mut self) -> io::Result<()> {
        let mut batch = Batch::default();
        let shared = self.shared.clone();
        // One place among those that wait for the stop, kept as long as the connection: to take it costs their number.
        let mut stopped = pin!(shared.stopping.wait());
        loop {
            // What is served may take long, a wrong password seconds: what waits behind it counts meanwhile.
            self.hold()?;
            let full = self.serve_slice(&mut batch).await?;
            self.send_stranger_away()?;
            self.write()?;
            self.hold()?;
            if self.session.closing || (self.ended && !full) {
                // Before the last replies are read, which may take: others may want what it has locked.
                self.session.leave();
                return self.close().await;
            }
            if full {
                // Others get their turn; meanwhile the client may have sent more, or read.
                tokio::task::yield_now().await;
                continue;
            }
            self.ended |= self.wait(stopped.as_mut()).await?;
        }
    }

    /// Serves the complete requests at hand, at most one slice; whether there may be more.
    async fn serve_slice(&mut self, batch: &mut Batch) -> io::Result<bool> {
        // Unauthenticated clients' limits change with AUTH, so one request at a time: see `forebay_protocol::Limits`.
        let authenticated = !self.session.identity.is_stranger();
        if authenticated != self.decoder.limits().authenticated {
            self.stranger_since = (!authenticated).then(|| self.shared.engine.runtime().elapsed());
            self.decoder.set_limits(forebay_protocol::Limits { authenticated, ..self.shared.limits.request });
        }
        let _inline = inline::take(&self.decoder, &self.input, &self.shared, &self.client).await?;
        let frames_max = if authenticated { self.shared.limits.pipeline_frames_max } else { 1 };
        (batch.args_max, self.session.replies.turn_bytes) = turn(self.shared.clients.len());
        self.session.replies.large_bytes = large_bytes(&self.shared);
        match self.decoder.decode_batch(&mut self.input, frames_max, batch) {
            Ok(0) => Ok(false),
            Ok(_) => {
                if !authenticated {
                    self.shared.clients.heard(&self.client);
                }
                self.place.complete();
                let now = self.shared.engine.runtime().elapsed();
                self.session.expire(now);
                let full = batch.is_full(frames_max);
                let read_ahead = self.serve_batch(batch, !authenticated).await?;
                // While it waited for a lock it was not idle.
                self.session.open.touch(self.shared.engine.runtime().elapsed());
                self.session.take_shown();
                batch.clear();
                // What broke the protocol behind these is answered now, not when more comes.
                let more = self.decoder.begins_inline(&self.input);
                Ok(full || read_ahead || more || self.decoder.has_failed())
            }
            Err(error) => {
                self.session.answer(&error.to_reply());
                self.session.closing = true;
                tracing::info!(client = self.client.id, %error, "a client broke the protocol");
                Ok(false)
            }
        }
    }

    /// Serves a batch to its end, unless its client is killed: then all that it waits for is given up at once. Goes on
    /// reading and writing meanwhile, so that a client that closes its socket while it waits for a lock is noticed;
    /// whether more came. One that has only said that it sends nothing more looks the same: it is refused what it waits
    /// for a lock for, and gets all other replies.
    async fn serve_batch(&mut self, batch: &Batch, stranger: bool) -> io::Result<bool> {
        let Connection { wire, input, session, client, ended, .. } = self;
        let (read, written, most) = (0, 0, read_bytes(&self.shared));
        let (caller, counted, before) = (session.caller.clone(), session.counted.clone(), *ended);
        let mut meanwhile =
            Meanwhile { wire, input, client, counted, caller, stranger, most, ended: before, read, written };
        meanwhile.serve(session, batch).await?;
        let Meanwhile { ended: over, read, written, .. } = meanwhile;
        *ended = over;
        if written > 0 {
            session.open.replies_written();
        }
        if written > buffer_bytes(&self.shared) && session.replies.ready_mut().is_empty() {
            *session.replies.ready_mut() = BytesMut::new();
        }
        let figures = &self.shared.figures;
        if read + written > 0 {
            figures.bytes_in.fetch_add(read as u64, Ordering::Relaxed);
            figures.bytes_out.fetch_add(written as u64, Ordering::Relaxed);
        }
        Ok(read > 0)
    }

    /// When the client must have authenticated, on the runtime's clock.
    fn stranger_until(&self) -> Option<Duration> {
        let since = self.stranger_since.filter(|_| self.session.identity.is_stranger())?;
        Some(since + Duration::from_millis(self.stranger_limit().1))
    }

    fn stranger_limit(&self) -> (&'static str, u64) {
        let limits = &self.shared.limits;
        match self.client.is_silent() && limits.handshake_ms_max < limits.stranger_ms_max {
            true => ("handshake_ms_max", limits.handshake_ms_max),
            false => ("stranger_ms_max", limits.stranger_ms_max),
        }
    }

    /// Also between the requests of one who never stops sending.
    fn send_stranger_away(&self) -> io::Result<()> {
        if self.stranger_until().is_some_and(|until| until <= self.shared.engine.runtime().elapsed()) {
            let (limit, _) = self.stranger_limit();
            self.shared.figures.strangers_closed.fetch_add(1, Ordering::Relaxed);
            tracing::info!(client = self.client.id, "closing a stranger: {limit}");
            return Err(io::Error::other(limit));
        }
        Ok(())
    }

    /// Waits until there is something to do: bytes to read or room to write, the end of a transaction's time, a kill,
    /// or the server's stop. True at the end of the client's bytes.
    async fn wait(&mut self, mut stopped: Pin<&mut impl Future<Output = ()>>) -> io::Result<bool> {
        while !self.session.closing {
            let waiting = !self.session.replies.ready_mut().is_empty();
            let read = self.may_read();
            let (claim, look) = (read.is_none().then(|| self.claim()), read.is_none().then_some(LANE_TURN));
            let runtime = self.shared.engine.runtime();
            let deadline = self.session.deadline();
            let time_left = deadline.map(|deadline| deadline.at.saturating_sub(runtime.elapsed()));
            let stranger = self.stranger_until().map(|until| until.saturating_sub(runtime.elapsed()));
            let sleep = time_left.into_iter().chain(stranger).chain(look).min().map(|left| runtime.sleep(left));
            let up = async {
                match sleep {
                    Some(sleep) => sleep.await,
                    None => std::future::pending().await,
                }
            };
            match self.session.identity.is_stranger() {
                true if self.input.capacity() - self.input.len() < STRANGER_READ_BYTES => {
                    self.input.reserve(STRANGER_READ_BYTES.max(self.input.len()));
                }
                true => {}
                false if read.is_some() => {
                    if self.input.is_empty() && self.input.capacity() > buffer_bytes(&self.shared) {
                        self.input = BytesMut::new();
                    }
                    self.decoder.reserve(&mut self.input, read_bytes(&self.shared));
                }
                false => {}
            }
            let Connection { wire, input, .. } = self;
            let ready = async {
                match (read, waiting) {
                    (Some(most), _) => wire.ready(input, most, waiting).await,
                    (None, true) => wire.writable().await.map(|()| Ready::Write),
                    (None, false) => std::future::pending().await,
                }
            };
            // In this order, so that a client that never pauses hides nothing from us.
            tokio::select! {
                biased;
                () = stopped.as_mut() => self.session.closing = true,
                () = self.client.killed() => return Err(io::Error::other("killed by CLIENT KILL")),
                () = up => {
                    self.session.expire(self.shared.engine.runtime().elapsed());
                    self.send_stranger_away()?;
                    if read.is_none() {
                        self.place.look();
                    }
                }
                () = self.place.wait(claim) => {}
                () = self.session.shown() => {
                    self.session.take_shown();
                    self.write()?;
                }
                ready = ready => match ready? {
                    Ready::Write => self.write()?,
                    Ready::Read(first) => return Ok(self.read_on(first)? == 0),
                },
            }
        }
        Ok(true)
    }

    /// Reads on while the last read filled its room; bytes read in all, `first` included. A stranger's requests are
    /// short and served one at a time.
    fn read_on(&mut self, first: usize) -> io::Result<usize> {
        let mut total = first;
        let stranger = self.session.identity.is_stranger();
        while !stranger && total > 0 && self.was_filled() {
            let Some(most) = self.may_read() else { break };
            self.decoder.reserve(&mut self.input, read_bytes(&self.shared));
            match self.wire.try_read(&mut self.input, most) {
                Ok(0) => break,
                Ok(count) => total += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        self.shared.figures.bytes_in.fetch_add(total as u64, Ordering::Relaxed);
        Ok(total)
    }

    /// Whether the last read took all that it had room for, and may go on.
    fn was_filled(&self) -> bool {
        let length = self.input.len();
        let filled = length == self.input.capacity() || self.taken() == self.place.bytes();
        filled && length < INPUT_BYTES_MAX && is_read_on(&self.decoder, &self.input, &self.shared)
    }

    /// What the request that is not complete takes with its next step.
    fn claim(&self) -> Claim {
        let (taken, missing) = (self.taken(), self.decoder.bytes_missing(&self.input));
        let (step, known) = (missing.clamp(STEP_BYTES_MIN, STEP_BYTES_MAX), self.decoder.is_in_last_arguments());
        let least = taken + missing;
        Claim { bytes: taken + step, least, known, arrived: arrived(self.wire.arrived(), missing, known) }
    }

    /// What it takes now.
    fn taken(&self) -> usize {
        self.input.len() + self.decoder.memory_bytes()
    }

    /// How much the next read may add: what there is room for. `None`: nothing, until there is.
    fn may_read(&mut self) -> Option<usize> {
        if self.session.identity.is_stranger() {
            return Some(usize::MAX);
        }
        let taken = self.taken();
        let most = without_room(&self.shared, &self.decoder);
        if taken <= most {
            return Some(most + UNHELD_BYTES - taken);
        }
        if taken >= self.place.bytes() && !self.place.grow(self.claim()) {
            return None;
        }
        Some(self.place.bytes() - taken)
    }

    /// Writes what the socket takes now; what is left waits, within its limits.
    fn write(&mut self) -> io::Result<()> {
        let out = self.session.replies.ready_mut();
        let (before, mut written) = (out.len(), 0);
        while !out.is_empty() {
            match self.wire.try_write(out) {
                Ok(count) => {
                    out.advance(count);
                    written += count;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        let left = out.len();
        if written > 0 {
            self.session.replies.written(written);
            self.session.open.replies_written();
            self.shared.figures.bytes_out.fetch_add(written as u64, Ordering::Relaxed);
        }
        if left > 0 || before > buffer_bytes(&self.shared) || self.session.counted.bytes() > 0 {
            self.session.replies.compact();
        }
        let grows = left > self.session.counted.bytes();
        self.session.counted.settle(left);
        let all = self.shared.figures.reply_bytes.load(Ordering::Relaxed);
        let limits = &self.shared.limits;
        let limit = if left > limits.client_reply_bytes_max && self.session.is_shown_others() {
            "client_reply_bytes_max"
        } else if left > STRANGER_REPLY_BYTES_MAX && self.session.identity.is_stranger() {
            "stranger_reply_bytes_max"
        } else if grows && all / 2 > limits.replies_bytes_max && left > limits.replies_bytes_share() {
            // What transactions and writes answer is not asked for again.
            "replies_bytes_max"
        } else {
            return Ok(());
        };
        tracing::warn!(
            client = self.client.id,
            left,
            all,
            "closing a client that does not read its replies in time: {limit}"
        );
        Err(io::Error::other(limit))
    }

    /// Counts what the server holds of this client's requests; past the limit of all the connection is closed.
    fn hold(&mut self) -> io::Result<()> {
        let (large, left) = (self.held.max(self.input.capacity()) > INPUT_BYTES_MAX, self.input.len());
        let shrank = self.held > LARGE_INPUT_BYTES && left <= self.held / 2;
        if shrank || (large && left < HELD_BYTES_MIN) {
            // What is left is a piece of the large request's memory, and keeps all of it.
            self.input = BytesMut::from(&self.input[..]);
        }
        let kept = self.session.held_bytes();
        let held = self.input.len() + self.decoder.memory_bytes() + kept;
        if self.session.identity.is_stranger() {
            let waiting = self.session.counted.bytes();
            return self.hold_as_stranger(held.max(self.input.capacity()) + waiting);
        }
        self.forget_stranger();
        if self.lent.is_none() {
            self.lent = Some(self.shared.engine.cache().lend_while(CONNECTION_BYTES));
        }
        let received = Some(self.input.len()).filter(|_| self.taken() > without_room(&self.shared, &self.decoder));
        self.place.settle(received);
        // What is unfinished waits for room before it is read.
        let grows = kept > std::mem::replace(&mut self.kept, kept);
        let small = held <= HELD_BYTES_MIN;
        self.count_held(match small {
            true if kept <= KEPT_BYTES_MIN => 0,
            true => kept,
            false => held,
        });
        self.session.settle_kept(if self.held == 0 { 0 } else { kept });
        let (all, limit) = (self.shared.figures.held_bytes.load(Ordering::Relaxed), self.shared.limits.held_bytes_max);
        // What TXN is about to keep is refused before.
        let spare = if small || self.session.open.is_open() { limit / SMALL_HOLDERS_PART } else { 0 };
        if grows && self.held > 0 && all > limit.saturating_add(spare) {
            let client = self.client.id;
            let why = "closing a client whose MULTI or TXN takes too much memory: held_bytes_max";
            tracing::warn!(client, held, all, "{why}");
            self.session.answer(&Reply::error(format!("LIMIT held_bytes_max {limit}")));
            self.session.closing = true;
            self.give_up_input();
        }
        Ok(())
    }

    /// Nothing of what the client has sent is served any more.
    fn give_up_input(&mut self) {
        self.place.leave();
        self.input = BytesMut::new();
    }

    /// Of a stranger all is counted, in a pool that nobody else needs.
    fn hold_as_stranger(&mut self, held: usize) -> io::Result<()> {
        self.count_held(0);
        self.held_as_stranger = held;
        let limit = self.shared.limits.stranger_bytes_max;
        for other in self.shared.strangers.hold(&self.client, held, limit) {
            self.shared.figures.strangers_closed.fetch_add(1, Ordering::Relaxed);
            tracing::info!(client = other.id, address = other.address, "closing a stranger: stranger_bytes_max");
            if other.id == self.client.id {
                return Err(io::Error::other("stranger_bytes_max"));
            }
            other.kill();
        }
        Ok(())
    }

    fn forget_stranger(&mut self) {
        if std::mem::take(&mut self.held_as_stranger) > 0 {
            let gone = self.shared.strangers.hold(&self.client, 0, usize::MAX);
            debug_assert!(gone.is_empty());
        }
    }

    fn count_held(&mut self, held: usize) {
        if held != self.held {
            self.shared.figures.held_bytes.fetch_add(held, Ordering::Relaxed);
            self.shared.figures.held_bytes.fetch_sub(self.held, Ordering::Relaxed);
            self.lend(held, self.held);
            self.held = held;
        }
    }

    /// Has the cache make way for what this client holds now.
    fn lend(&self, now: usize, before: usize) {
        let cache = self.shared.engine.cache();
        match now.checked_sub(before) {
            Some(more) => cache.lend(more),
            None => cache.give_back(before - now),
        }
    }

    /// Writes the last replies, then ends.
    async fn close(&mut self) -> io::Result<()> {
        let shared = self.shared.clone();
        let (runtime, mut stopped) = (shared.engine.runtime(), pin!(shared.stopping.wait()));
        let mut patience = Patience::new(runtime.elapsed(), !self.session.identity.is_stranger());
        while !self.session.replies.ready_mut().is_empty() || !self.wire.flush()? {
            let Some(left) = patience.left(runtime.elapsed()) else { return Ok(()) };
            let before = self.session.replies.ready_mut().len();
            tokio::select! {
                biased;
                () = self.client.killed() => return Ok(()),
                () = stopped.as_mut(), if patience.is_steady() => patience.stop(runtime.elapsed()),
                () = runtime.sleep(left) => {}
                writable = self.wire.writable() => writable.and_then(|()| self.write())?,
            }
            if self.session.replies.ready_mut().len() < before {
                patience.took(runtime.elapsed());
            }
        }
        self.wire.end();
        self.give_up_input();
        if !self.session.identity.is_stranger() {
            let Connection { wire, decoder, input, client, .. } = self;
            closing::read_out(wire, (decoder, input), &shared, client).await;
        }
        Ok(())
    }
}
