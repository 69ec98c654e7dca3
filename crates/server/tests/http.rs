//! Metrics and health over a real socket.

mod support;

use std::net::{Ipv4Addr, SocketAddr};

use forebay_server::{Http, Reserved};
use support::{Peer, server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn get(address: SocketAddr, path: &str) -> String {
    exchange(address, &format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")).await
}

#[tokio::test]
async fn metrics_and_health_are_served_until_the_server_stops() {
    let shared = server(|_| {});
    let http = Http::bind(Reserved::http((Ipv4Addr::LOCALHOST, 0).into()).unwrap(), shared.clone()).unwrap();
    let address = http.address();
    let taken = Reserved::http(address).unwrap_err().to_string();
    assert!(taken.contains("--http"), "{taken}");
    let running = tokio::spawn(http.run());
    Peer::new(&shared).say("SET k v").await;

    let metrics = get(address, "/metrics").await;
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
    assert!(metrics.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    assert!(metrics.contains("\nforebay_command_calls_total{command=\"set\"} 1\n"));
    assert!(get(address, "/healthz").await.ends_with("\r\n\r\nok\n"));
    assert!(get(address, "/readyz").await.ends_with("\r\n\r\nready\n"));
    assert!(get(address, "/").await.contains("<a href=\"/metrics\">"));
    assert!(get(address, "/nothing").await.starts_with("HTTP/1.1 404 "));
    let posted = exchange(address, "POST /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    assert!(posted.starts_with("HTTP/1.1 405 ") && posted.contains("allow: GET, HEAD\r\n"), "{posted}");
    let head = exchange(address, "HEAD /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    assert!(head.contains("content-length: 3\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    assert!(exchange(address, "NONSENSE\r\n\r\n").await.starts_with("HTTP/1.1 400 "));
    let long = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "a".repeat(64 << 10));
    assert!(!exchange_lossy(address, &long).await.starts_with("HTTP/1.1 200"));

    shared.stopping.set();
    running.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

/// The server may close before it has read all.
async fn exchange_lossy(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}
