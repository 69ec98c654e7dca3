//! What a connection does while its session waits. It writes what is ready, so that no reply waits for a later request.
//! It reads a little ahead, which tells whether the client is still there. It ends at once if it is sent away.

use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, BytesMut};
use forebay::txn::Caller;
use forebay_protocol::Batch;

use super::wire::Wire;
use crate::clients::Client;
use crate::crowd::Counted;
use crate::replies::Outlet;
use crate::session::Session;

/// A connection without its session.
pub(super) struct Meanwhile<'a, W> {
    pub wire: &'a mut W,
    pub input: &'a mut BytesMut,
    pub client: &'a Client,
    /// What waits for the client, as all know it.
    pub counted: Arc<Counted>,
    /// The client, as its transactions know it.
    pub caller: Arc<Caller>,
    /// Nothing is read ahead of a stranger.
    pub stranger: bool,
    /// So much is read ahead.
    pub most: usize,
    /// Its client sends no more.
    pub ended: bool,
    /// Bytes read and written.
    pub read: usize,
    pub written: usize,
}

impl<W: Wire> Meanwhile<'_, W> {
    /// Serves `batch`, to where all its replies are ready. An error ends the connection, and what is being served with
    /// it: a transaction whose commit was not handed over is rolled back.
    pub(super) async fn serve(&mut self, session: &mut Session, batch: &Batch) -> io::Result<()> {
        let outlet = session.replies.outlet().clone();
        let mut killed = pin!(self.client.killed());
        let mut serving = pin!(async {
            session.serve(batch).await;
            session.replies.settle().await;
        });
        std::future::poll_fn(|context| {
            if serving.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(()));
            }
            if killed.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(io::Error::other("killed by CLIENT KILL")));
            }
            match self.go_on(&outlet, context) {
                Ok(()) => Poll::Pending,
                Err(error) => Poll::Ready(Err(error)),
            }
        })
        .await
    }

    fn go_on(&mut self, outlet: &Outlet, context: &mut Context<'_>) -> io::Result<()> {
        let before = self.written;
        outlet.poll(context, |ready, context| self.write(ready, context))?;
        // What was not written may not be lent.
        if self.written > before && self.counted.bytes() > 0 {
            self.counted.set(outlet.bytes());
        }
        self.read(context)
    }

    fn write(&mut self, ready: &mut BytesMut, context: &mut Context<'_>) -> io::Result<()> {
        while !ready.is_empty() {
            match self.wire.try_write(ready) {
                Ok(count) => {
                    ready.advance(count);
                    self.written += count;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => match self.wire.poll_writable(context) {
                    Poll::Ready(writable) => writable?,
                    Poll::Pending => break,
                },
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn read(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        while !self.stranger && !self.ended && self.input.len() < self.most {
            let Poll::Ready(readable) = self.wire.poll_readable(context) else { break };
            readable?;
            if self.input.capacity() - self.input.len() < self.most / 4 {
                // A buffer behind a large request would be given as much memory as that had.
                let mut apart = BytesMut::with_capacity(self.input.len() + self.most);
                apart.extend_from_slice(self.input);
                *self.input = apart;
            }
            match self.wire.try_read(self.input, self.most) {
                Ok(0) => {
                    self.ended = true;
                    self.client.end();
                    self.caller.leave();
                }
                Ok(count) => self.read += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
