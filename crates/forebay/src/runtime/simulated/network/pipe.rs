//! One direction of a connection: pieces of bytes, and when each of them arrives.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::task::{Context, Waker};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::runtime::Runtime;

/// A piece that is under way, or was not read yet.
struct Piece {
    at_us: u64,
    bytes: VecDeque<u8>,
}

/// One direction of a connection.
#[derive(Default)]
pub(super) struct Pipe {
    pieces: VecDeque<Piece>,
    /// Nothing that is sent arrives before what was sent before it.
    last_us: u64,
    bytes: usize,
    /// When its end arrives.
    ends_us: Option<u64>,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// Wakes the reader when the next piece arrives.
    arrival: Option<BoxFuture<'static, ()>>,
}

impl Pipe {
    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether no more can be written.
    pub fn has_ended(&self) -> bool {
        self.ends_us.is_some()
    }

    /// Adds a piece.
    pub fn send(&mut self, bytes: &[u8], at_us: u64) {
        self.last_us = self.last_us.max(at_us);
        self.bytes += bytes.len();
        self.pieces.push_back(Piece { at_us: self.last_us, bytes: bytes.iter().copied().collect() });
        self.wake_reader();
    }

    /// Nothing is sent any more, which the reader sees then.
    pub fn end(&mut self, at_us: u64) {
        self.last_us = self.last_us.max(at_us);
        self.ends_us.get_or_insert(self.last_us);
        self.wake_reader();
    }

    /// Takes what has arrived, as much as `out` has room for; 0: there is no more.
    pub fn take(&mut self, out: &mut [u8], now_us: u64) -> io::Result<usize> {
        let mut count = 0;
        while let Some(piece) = self.pieces.front_mut().filter(|piece| piece.at_us <= now_us && count < out.len()) {
            let taken = piece.bytes.len().min(out.len() - count);
            for (place, byte) in out[count..].iter_mut().zip(piece.bytes.drain(..taken)) {
                *place = byte;
            }
            count += taken;
            if piece.bytes.is_empty() {
                self.pieces.pop_front();
            }
        }
        self.bytes -= count;
        if count > 0 {
            self.writer.take().into_iter().for_each(Waker::wake);
        }
        match count {
            0 if !self.is_readable(now_us) => Err(ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }

    /// Whether there are bytes, or their end.
    fn is_readable(&self, now_us: u64) -> bool {
        self.next_us().is_some_and(|at_us| at_us <= now_us)
    }

    /// When the next piece is there, or the end.
    fn next_us(&self) -> Option<u64> {
        self.pieces.front().map(|piece| piece.at_us).or(self.ends_us)
    }

    /// Has the reader woken when there is something to read, or when it is told of a cut. False: that is so already.
    pub fn await_bytes(&mut self, world: &Runtime, told_us: Option<u64>, context: &mut Context<'_>) -> bool {
        let (now_us, next_us) = (world.elapsed().as_micros() as u64, told_us.or(self.next_us()));
        if next_us.is_some_and(|at_us| at_us <= now_us) {
            return false;
        }
        self.reader = Some(context.waker().clone());
        self.arrival = next_us.map(|at_us| world.sleep(Duration::from_micros(at_us - now_us)));
        // It sleeps: the moment is to come.
        self.arrival.as_mut().is_none_or(|arrival| arrival.poll_unpin(context).is_pending())
    }

    /// Has the writer woken when there is room.
    pub fn await_room(&mut self, context: &mut Context<'_>) {
        self.writer = Some(context.waker().clone());
    }

    /// What is under way arrives then at the earliest; so many pieces have to wait.
    pub fn hold(&mut self, until_us: u64) -> u64 {
        let mut held = 0;
        for piece in self.pieces.iter_mut().filter(|piece| piece.at_us < until_us) {
            piece.at_us = until_us;
            held += 1;
        }
        self.ends_us = self.ends_us.map(|at_us| at_us.max(until_us));
        self.last_us = self.last_us.max(until_us);
        held
    }

    /// Gives up all that it holds, and wakes both ends; so many bytes are lost.
    pub fn lose(&mut self) -> usize {
        self.pieces.clear();
        self.wake_reader();
        self.writer.take().into_iter().for_each(Waker::wake);
        std::mem::take(&mut self.bytes)
    }

    fn wake_reader(&mut self) {
        self.arrival = None;
        self.reader.take().into_iter().for_each(Waker::wake);
    }
}
