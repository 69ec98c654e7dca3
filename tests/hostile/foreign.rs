//! What is no Redis client: TLS on the plain port, a browser. Nothing that it carries is served.

use std::io::Write;

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::{Scene, to_the_end};

/// A ClientHello whose session ticket, which a server may have given to the client, has commands on lines of their own.
fn client_hello() -> Vec<u8> {
    let ticket: &[u8] = b"\r\nSET stolen 1\r\n*3\r\n$3\r\nSET\r\n$6\r\nstolen\r\n$1\r\n1\r\nINCR stolen\n";
    let mut hello = vec![0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    hello.extend((0..32).map(|byte| byte * 7 + 33));
    [hello.as_slice(), b"\n", ticket, ticket].concat()
}

#[test]
fn what_speaks_another_protocol_is_not_served() {
    let scene = Scene::new(&[]);
    let set = "SET stolen 1\r\n";
    let mut cases = vec![client_hello(), client_hello()[1..].to_vec(), format!("PING\0\r\n{set}").into_bytes()];
    for line in ["Host:127.0.0.1", "hOsT: x", "  Host:", "Host:x y", "POST / HTTP/1.1", "post", "PI\u{1}NG", "\u{7f}"] {
        cases.push(format!("{line}\r\n{set}").into_bytes());
        cases.push(format!("GET / HTTP/1.1\r\n{line}\r\n\r\n{set}").into_bytes());
    }
    for case in cases {
        let mut stream = scene.connect();
        // The server may close before all is sent.
        let _ = stream.write_all(&case);
        let said = to_the_end(&mut stream);
        assert!(!said.contains("+OK") && !said.contains(":1"), "{}: {said}", case.escape_ascii());
    }
    assert_eq!(Connection::new(scene.address()).call(&["GET", "stolen"]), Reply::Nil);
    scene.others_are_served("a client broke the protocol");
    scene.others_are_served("a web page may try to send commands");
}
