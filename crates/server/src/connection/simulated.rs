//! A connection of a simulated network as a wire, so that whole connections run in a seeded world.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::BytesMut;
use forebay::runtime::simulated::network::{Listener, Stream};

use super::wire::{Ready, Wire};
use crate::state::Shared;

/// Bytes that one read takes.
const READ_BYTES: usize = 4 << 10;

/// Accepts connections and serves each to its end, as a listener of the machine's does. For ever, or until the server
/// is full.
pub async fn serve(listener: Listener, shared: Arc<Shared>) {
    let runtime = shared.engine.runtime().clone();
    loop {
        let stream = listener.accept().await;
        let (name, clients_max) = (stream.connection().to_string(), shared.limits.clients_max);
        let Some(client) = shared.clients.add(name, String::new(), runtime.now_ms(), clients_max) else { return };
        let shared = shared.clone();
        runtime.spawn(async move {
            let id = client.id;
            super::serve(stream, shared.clone(), client).await;
            shared.clients.remove(id);
        });
    }
}

impl Wire for Stream {
    async fn ready(&mut self, input: &mut BytesMut, most: usize, writing: bool) -> io::Result<Ready> {
        loop {
            match self.try_read(input, most) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read.map(Ready::Read),
            }
            let is_writable = std::future::poll_fn(|context| match Stream::poll_readable(self, context) {
                Poll::Pending if writing => Stream::poll_writable(self, context).map(|()| true),
                readable => readable.map(|()| false),
            });
            if is_writable.await {
                return Ok(Ready::Write);
            }
        }
    }

    fn try_read(&mut self, input: &mut BytesMut, most: usize) -> io::Result<usize> {
        let mut bytes = [0; READ_BYTES];
        let count = Stream::try_read(self, &mut bytes[..most.min(READ_BYTES)])?;
        input.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn arrived(&self) -> usize {
        0
    }

    fn try_write(&mut self, out: &[u8]) -> io::Result<usize> {
        Stream::try_write(self, out)
    }

    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Stream::poll_readable(self, context).map(Ok)
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Stream::poll_writable(self, context).map(Ok)
    }

    async fn writable(&self) -> io::Result<()> {
        Stream::writable(self).await;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    fn end(&mut self) {
        self.shutdown();
    }
}
