//! The network between: what a client sends arrives later.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::Failed;

/// Forwards connections to `target`, from the address that it returns, each request `delay` later. It goes on until the
/// process ends.
pub fn start(target: SocketAddr, delay: Duration) -> Result<SocketAddr, Failed> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            let Ok(listener) = TcpListener::from_std(listener) else { return };
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, target, delay));
            }
        })
    });
    Ok(address)
}

async fn forward(client: TcpStream, target: SocketAddr, delay: Duration) {
    let Ok(server) = TcpStream::connect(target).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut asked, mut answers) = client.into_split();
    let (mut answered, mut requests) = server.into_split();
    let (later, mut due) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    tokio::spawn(async move {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(read @ 1..) = asked.read(&mut bytes).await {
            let _ = later.send((Instant::now() + delay, bytes[..read].to_vec()));
        }
    });
    tokio::spawn(async move {
        while let Some((at, bytes)) = due.recv().await {
            tokio::time::sleep_until(at).await;
            if requests.write_all(&bytes).await.is_err() {
                return;
            }
        }
    });
    let _ = tokio::io::copy(&mut answered, &mut answers).await;
}
