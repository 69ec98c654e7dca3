//! Servers that answer what none should: each is an error that says so, never a panic, and never a commit that is told
//! as done.

use std::time::Duration;

use forebay_client::{Error, Options, Transaction};
use forebay_protocol::{Decoder, Limits};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Answers HELLO and SELECT, the first LEASE GET with `get`, and EXEC with `exec`.
async fn stranger(mut stream: TcpStream, get: &'static str, exec: &'static str) {
    let (mut decoder, mut input) = (Decoder::new(Limits::default()), bytes::BytesMut::new());
    loop {
        while let Ok(Some(request)) = decoder.decode(&mut input) {
            let frame = request.frame();
            let answer = match (frame.get(0), frame.get(1)) {
                (Some(b"HELLO"), _) => "%0\r\n",
                (Some(b"LEASE"), Some(b"GET")) => get,
                (Some(b"EXEC"), _) => exec,
                _ => "+OK\r\n",
            };
            if stream.write_all(answer.as_bytes()).await.is_err() || answer.is_empty() {
                return;
            }
        }
        if !matches!(stream.read_buf(&mut input).await, Ok(1..)) {
            return;
        }
    }
}

/// What a client makes of such a server.
async fn met(get: &'static str, exec: &'static str) -> Result<(), Error> {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("its address").to_string();
    let serving = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(stranger(stream, get, exec));
        }
    });
    let options = Options::new(address).reply_time_max(Duration::from_millis(500)).attempts_max(3);
    let client = options.reply_bytes_max(1000).connect().await.expect("it says hello");
    let body = async |tx: Transaction| {
        tx.get("a").await?;
        tx.set("a", "1")
    };
    let answer = client.transaction(body).await;
    serving.abort();
    answer
}

const ABSENT: &str = "*1\r\n*6\r\n+none\r\n_\r\n$4\r\n-1-0\r\n$3\r\n1-1\r\n$1\r\n0\r\n_\r\n";

#[tokio::test]
async fn answers_that_are_none() {
    for get in ["+OK\r\n", "*0\r\n", "*1\r\n_\r\n", "*1\r\n*1\r\n*1\r\n+x\r\n", ":1\r\n"] {
        let answer = met(get, "").await;
        assert!(matches!(answer, Err(Error::Malformed { .. })), "{get:?}: {answer:?}");
    }
    for get in [
        "",
        "HTTP/1.1 400\r\n",
        "$2000\r\n",
        "*99999999999\r\n",
        "$5\r\nab",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
    ] {
        let answer = met(get, "").await;
        assert!(matches!(answer, Err(Error::Lost { .. })), "{get:?}: {answer:?}");
    }
    let answer = met("-LOADING\r\n", "").await;
    assert!(matches!(answer, Err(Error::Refused { .. })), "{answer:?}");
}

#[tokio::test]
async fn commits_that_are_not_answered() {
    for exec in
        ["+OK\r\n", "*0\r\n", "_\r\n", "*3\r\n*0\r\n_\r\n_\r\n", "*3\r\n*1\r\n+OK\r\n$1\r\nx\r\n_\r\n", "", "nonsense"]
    {
        let answer = met(ABSENT, exec).await;
        assert!(matches!(answer, Err(Error::Unknown { .. })), "{exec:?}: {answer:?}");
    }
    for (exec, contended) in [("-TXCONFLICT x\r\n", true), ("-TXSTALE a 1-2\r\n", true), ("-STOREDOWN x\r\n", false)] {
        let answer = met(ABSENT, exec).await;
        let expected = match answer {
            Err(Error::Contention { attempts: 3 }) => contended,
            Err(Error::Refused { .. }) => !contended,
            _ => false,
        };
        assert!(expected, "{exec:?}: {answer:?}");
    }
}
