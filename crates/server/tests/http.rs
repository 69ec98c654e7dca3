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
    exchange(address, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")).await
}

#[tokio::test]
async fn metrics_and_health_are_served_until_the_server_stops() {
    let shared = server(|_| {});
    let reserved = Reserved::http((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let http = Http::bind(reserved, &["figures.example".to_owned()], shared.clone()).unwrap();
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
    let posted = exchange(address, "POST /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
    assert!(posted.starts_with("HTTP/1.1 405 ") && posted.contains("allow: GET, HEAD\r\n"), "{posted}");
    let head = exchange(address, "HEAD /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
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

/// A page that has its own name stand for this server's address reads no figures.
#[tokio::test]
async fn figures_are_shown_by_known_names_alone() {
    let shared = server(|_| {});
    let reserved = Reserved::http((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let http = Http::bind(reserved, &["figures.example".to_owned()], shared.clone()).unwrap();
    let address = http.address();
    tokio::spawn(http.run());
    let ask = async |path: &str, host: &str| {
        let answer =
            exchange(address, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).await;
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    for host in ["127.0.0.1:7379", "[::1]:7379", "10.1.2.3", "LocalHost:7379", "figures.example", "Figures.Example.:80"]
    {
        assert_eq!(ask("/metrics", host).await, "200", "{host}");
    }
    for host in ["evil.example", "evil.example:7379", "localhost.evil.example", "127.0.0.1.evil.example", "x", ""] {
        assert_eq!((ask("/metrics", host).await, ask("/", host).await), ("421".into(), "421".into()), "{host}");
        assert_eq!((ask("/healthz", host).await, ask("/readyz", host).await), ("200".into(), "200".into()), "{host}");
    }
    for second in ["evil.example", "localhost"] {
        let twice = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: {second}\r\nConnection: close\r\n\r\n");
        let answer = exchange(address, &twice).await;
        assert_eq!(answer.starts_with("HTTP/1.1 421"), second != "localhost", "{second}: {answer}");
    }
    let absolute = "GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert!(exchange(address, absolute).await.starts_with("HTTP/1.1 421 "));
    shared.stopping.set();
}

/// Nobody has to wait for connections that others keep.
#[tokio::test]
async fn health_is_answered_beside_connections_that_are_kept() {
    let shared = server(|_| {});
    let http = Http::bind(Reserved::http((Ipv4Addr::LOCALHOST, 0).into()).unwrap(), &[], shared.clone()).unwrap();
    let address = http.address();
    tokio::spawn(http.run());
    let mut kept = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        assert!(stream.read(&mut [0; 200]).await.unwrap() > 0);
        kept.push(stream);
    }
    assert!(get(address, "/healthz").await.ends_with("\r\n\r\nok\n"));
    // The last ones are still there.
    let last = kept.last_mut().unwrap();
    last.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    assert!(last.read(&mut [0; 200]).await.unwrap() > 0);
    shared.stopping.set();
}
