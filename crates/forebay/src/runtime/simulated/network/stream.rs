//! One end of a connection. Nothing here waits but [`Stream::readable`] and [`Stream::writable`].

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::task::{Context, Poll};

use super::{Connection, Network, State, Told};

/// One end of a connection. Dropped, it closes: what was written before still arrives.
pub struct Stream {
    network: Network,
    connection: u64,
    end: usize,
}

impl Stream {
    pub(super) fn new(network: Network, connection: u64, end: usize) -> Stream {
        Stream { network, connection, end }
    }

    /// Its connection, by which it can be cut.
    pub fn connection(&self) -> u64 {
        self.connection
    }

    /// Takes what has arrived, as much as `out` has room for; 0: there is no more, or no room.
    pub fn try_read(&self, out: &mut [u8]) -> io::Result<usize> {
        let now_us = self.network.now_us();
        let mut state = self.network.lock();
        let connection = self.of(&mut state)?;
        match connection.told(self.end, now_us) {
            Some(Told::Reset) => Err(ErrorKind::ConnectionReset.into()),
            Some(Told::Nothing) => Err(ErrorKind::WouldBlock.into()),
            None => connection.pipes[1 - self.end].take(out, now_us),
        }
    }

    /// Sends as much of `bytes` as there is room for.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let (now_us, mut state) = (self.network.now_us(), self.network.lock());
        let room_bytes = state.conditions.room_bytes;
        let (end, connection) = (self.end, self.of(&mut state)?);
        let (pipe, [from, to]) = (&connection.pipes[end], [connection.hosts[end], connection.hosts[1 - end]]);
        match connection.told(end, now_us) {
            Some(Told::Reset) => return Err(ErrorKind::ConnectionReset.into()),
            _ if pipe.has_ended() => return Err(ErrorKind::BrokenPipe.into()),
            // It is lost. Where the other end is closed, its end is under way.
            Some(Told::Nothing) => return Ok(bytes.len()),
            None if !connection.open[1 - end] => return Ok(bytes.len()),
            None if pipe.bytes() >= room_bytes => return Err(ErrorKind::WouldBlock.into()),
            None => {}
        }
        let count = bytes.len().min(room_bytes - pipe.bytes());
        let mut rest = &bytes[..count];
        let pieces = self.network.world.random() % state.conditions.pieces_max.max(1);
        for left in (0..=pieces).rev() {
            let whole = left == 0 || rest.is_empty();
            let length = if whole { rest.len() } else { self.network.world.random() as usize % (rest.len() + 1) };
            let (piece, others) = rest.split_at(length);
            rest = others;
            if !piece.is_empty() {
                let at_us = self.network.arrival_us(&mut state, from, to);
                self.of(&mut state)?.pipes[end].send(piece, at_us);
            }
        }
        Ok(count)
    }

    /// Done when [`Stream::try_read`] has something to tell.
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.network.lock();
        let Ok(connection) = self.of(&mut state) else { return Poll::Ready(()) };
        let told_us = connection.told_us[self.end];
        match connection.pipes[1 - self.end].await_bytes(&self.network.world, told_us, context) {
            true => Poll::Pending,
            false => Poll::Ready(()),
        }
    }

    /// Done when [`Stream::try_write`] takes something, or has an error to tell.
    pub fn poll_writable(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.network.lock();
        let room_bytes = state.conditions.room_bytes;
        let Ok(connection) = self.of(&mut state) else { return Poll::Ready(()) };
        let is_full = connection.pipes[self.end].bytes() >= room_bytes;
        if !is_full || connection.told_us[self.end].is_some() {
            return Poll::Ready(());
        }
        connection.pipes[self.end].await_room(context);
        Poll::Pending
    }

    /// Done when [`Stream::try_read`] has something to tell.
    pub async fn readable(&self) {
        poll_fn(|context| self.poll_readable(context)).await;
    }

    /// Done when [`Stream::try_write`] takes something, or has an error to tell.
    pub async fn writable(&self) {
        poll_fn(|context| self.poll_writable(context)).await;
    }

    /// Says that nothing more will be written.
    pub fn shutdown(&self) {
        let mut state = self.network.lock();
        let (end, Ok(connection)) = (self.end, self.of(&mut state)) else { return };
        if connection.pipes[end].has_ended() || connection.told_us[end].is_some() {
            return;
        }
        let [from, to] = [connection.hosts[end], connection.hosts[1 - end]];
        let at_us = self.network.arrival_us(&mut state, from, to);
        if let Ok(connection) = self.of(&mut state) {
            connection.pipes[end].end(at_us);
        }
    }

    /// Its connection; an error if none of its ends is there.
    fn of<'s>(&self, state: &'s mut State) -> io::Result<&'s mut Connection> {
        state.connections.get_mut(&self.connection).ok_or_else(|| ErrorKind::NotConnected.into())
    }
}

impl Connection {
    /// What an end knows of the cut; `None`: there was none.
    fn told(&self, end: usize, now_us: u64) -> Option<Told> {
        self.told_us[end].map(|at_us| if at_us <= now_us { Told::Reset } else { Told::Nothing })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shutdown();
        let mut state = self.network.lock();
        let Ok(connection) = self.of(&mut state) else { return };
        connection.open[self.end] = false;
        // What comes for it is read by none: there is room for more.
        connection.pipes[1 - self.end].lose();
        if connection.open == [false; 2] {
            state.connections.remove(&self.connection);
        }
    }
}
