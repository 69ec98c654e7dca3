//! The end of a connection: how long its client has for the last replies, and what it still sends.

use std::pin::pin;
use std::time::Duration;

use bytes::BytesMut;
use forebay::mutation::{self, Fault};
use forebay_protocol::Decoder;

use super::amounts::read_bytes;
use super::wire::{Ready, Wire};
use crate::clients::Client;
use crate::crowd::STALL_WAIT;
use crate::state::Shared;

/// How long the last replies of a stranger wait, and those of all when the server stops.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// How long a connection waits after that for its client to close its side.
const READ_OUT_WAIT: Duration = Duration::from_secs(1);

/// How long the last replies of a connection wait for its client.
///
/// **Invariant.** A client that takes some of them in each [`STALL_WAIT`] gets them all, unless others need the room or
/// the server stops. One that takes none is left after [`STALL_WAIT`].
pub(super) struct Patience {
    until: Duration,
    /// What it takes gives it more time.
    steady: bool,
}

impl Patience {
    /// From `now` on. Not `steady`: what its client takes gives it no more time.
    pub fn new(now: Duration, steady: bool) -> Patience {
        let steady = steady && !mutation::on(Fault::EndedCutShort);
        Patience { until: now + if steady { STALL_WAIT } else { CLOSE_WAIT }, steady }
    }

    /// How long it lasts; `None` if it is over.
    pub fn left(&self, now: Duration) -> Option<Duration> {
        self.until.checked_sub(now).filter(|left| !left.is_zero())
    }

    /// The client has taken some.
    pub fn took(&mut self, now: Duration) {
        if self.steady {
            self.until = now + STALL_WAIT;
        }
    }

    /// Whether the server's stop changes it.
    pub fn is_steady(&self) -> bool {
        self.steady
    }

    /// The server stops.
    pub fn stop(&mut self, now: Duration) {
        *self = Patience { until: self.until.min(now + CLOSE_WAIT), steady: false };
    }
}

/// Reads what the client still sends, until it has seen the end. A socket that is closed over unread bytes is reset.
/// The client would find an error where Redis shows it an end, and could lose the last replies.
pub(super) async fn read_out(
    wire: &mut impl Wire,
    (decoder, input): (&Decoder, &mut BytesMut),
    shared: &Shared,
    client: &Client,
) {
    let mut stopped = pin!(shared.stopping.wait());
    let mut time_up = pin!(shared.engine.runtime().sleep(READ_OUT_WAIT));
    loop {
        input.clear();
        decoder.reserve(input, read_bytes(shared));
        tokio::select! {
            biased;
            () = stopped.as_mut() => return,
            () = client.killed() => return,
            () = time_up.as_mut() => return,
            ready = wire.ready(input, usize::MAX, false) => match ready {
                Ok(Ready::Read(0)) | Err(_) => return,
                Ok(_) => {}
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For how long a client is waited for that takes some every so often, 20 times, and then nothing.
    fn lasts(steady: bool, every: Duration, stops: Option<Duration>) -> Duration {
        let (mut patience, tick) = (Patience::new(Duration::ZERO, steady), Duration::from_millis(500));
        let (mut now, mut taken) = (Duration::ZERO, 0);
        while patience.left(now).is_some() {
            now += tick;
            if taken < 20 && now >= every * (taken + 1) {
                taken += 1;
                patience.took(now);
            }
            if patience.is_steady() && stops.is_some_and(|stops| now >= stops) {
                patience.stop(now);
            }
        }
        now
    }

    #[test]
    fn who_reads_on_is_waited_for() {
        let seconds = Duration::from_secs;
        assert_eq!(lasts(true, seconds(8), None), 20 * seconds(8) + STALL_WAIT);
        assert_eq!(lasts(true, seconds(11), None), STALL_WAIT, "it takes nothing");
        assert_eq!(lasts(true, seconds(8), Some(seconds(25))), seconds(25) + CLOSE_WAIT, "the server stops");
        assert_eq!(lasts(false, seconds(1), None), CLOSE_WAIT, "a stranger");
        let _fault = mutation::put_back(Some(Fault::EndedCutShort));
        assert_eq!(lasts(true, seconds(1), None), CLOSE_WAIT, "the fault is found");
    }
}
