//! A run with marked secrets, after which all that the server has shown anyone is searched for them.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use bytes::BytesMut;
use forebay_protocol::Protocol;

use super::serving::{Serving, hash_of};
use crate::common::Connection;
use crate::common::process::forebay_command;

/// In every secret of the run, and nowhere else.
const MARK: &str = "mArKeD";

fn http(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).expect("written");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text
}

/// All that clients do with secrets, wrongly and rightly.
fn use_secrets(serving: &Serving, secret: &str) {
    let mut client = Connection::new(serving.address);
    let wrong = format!("{MARK}-wrong");
    for request in [
        vec!["AUTH", &wrong],
        vec!["AUTH", "nobody", &wrong],
        // A password where the name should be.
        vec!["AUTH", &wrong, "default"],
        vec!["HELLO", "3", "AUTH", "default", &wrong],
        vec!["AUTH", secret],
        vec!["HELLO", "2", "AUTH", "default", secret, "SETNAME", "someone"],
        vec!["CONFIG", "SET", "slowlog-log-slower-than", "0"],
        vec!["CONFIG", "SET", "requirepass", secret],
        vec!["CONFIG", "SET", "masterauth", secret],
        vec!["AUTH", "default", secret],
        vec!["ACL", "SETUSER", "al", "on", &format!(">{MARK}-al"), "+@all", "~*"],
        vec!["ACL", "SETUSER", "al", &format!("<{MARK}-none")],
        vec!["ACL", "SETUSER", "al", &format!("#{MARK}")],
        vec!["ACL", "DRYRUN", "al", "AUTH", secret],
        vec!["ACL", "SAVE"],
        vec!["MULTI"],
        vec!["AUTH", "default", secret],
        vec!["EXEC"],
    ] {
        client.call(&request);
    }
    let mut al = Connection::new(serving.address);
    al.call(&["AUTH", "al", &format!("{MARK}-al")]);
    al.call(&["GET", "k"]);
}

#[test]
fn no_secret_is_shown_anywhere() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let secret = format!("{MARK}-password");
    let users = format!("user default on #{} ~* &* +@all\n", hash_of(&secret).trim_end());
    fs::write(folder.path().join("users"), users).expect("written");
    let serving = Serving::start(folder.path(), &["--users-file", "users", "--http", "127.0.0.1:0"]);
    let mut monitor = TcpStream::connect(serving.address).expect("it listens");
    monitor.write_all(format!("AUTH {secret}\r\nMONITOR\r\n").as_bytes()).expect("written");
    monitor.read_exact(&mut [0; 10]).expect("two times OK");

    use_secrets(&serving, &secret);

    let mut shown: Vec<(String, String)> = Vec::new();
    let mut client = Connection::new(serving.address);
    client.call(&["AUTH", &secret]);
    client.call(&["SET", "the", "end"]);
    for question in [
        "SLOWLOG GET -1",
        "CLIENT LIST",
        "CLIENT INFO",
        "ACL LIST",
        "ACL GETUSER default",
        "ACL GETUSER al",
        "ACL LOG 128",
        "CONFIG GET *",
        "INFO everything",
        "CACHE STATS",
        "LATENCY DOCTOR",
        "COMMAND DOCS auth",
        "CACHE EXPLAIN k",
    ] {
        let words: Vec<&str> = question.split(' ').collect();
        let mut answer = BytesMut::new();
        client.call(&words).encode(Protocol::Resp3, &mut answer);
        assert!(!answer.starts_with(b"-"), "{question}: {answer:?}");
        shown.push((question.into(), String::from_utf8_lossy(&answer).into_owned()));
    }
    let mut seen = Vec::new();
    let mut bytes = [0; 4096];
    while !seen.windows(5).any(|part| part == b"\"end\"") {
        let count = monitor.read(&mut bytes).expect("what happens");
        seen.extend_from_slice(&bytes[..count]);
    }
    let seen = String::from_utf8_lossy(&seen).into_owned();
    assert!(seen.contains("(redacted)"), "{seen}");
    shown.push(("MONITOR".into(), seen));
    let slow = &shown[0].1;
    assert!(slow.contains("SETUSER") && slow.contains("(redacted)"), "{slow}");
    let http_address = serving.banner.lines().find_map(|line| line.strip_prefix("browser  http://")).expect("a page");
    let http_address = http_address.split_whitespace().next().expect("a page");
    for path in ["/", "/metrics", "/healthz", "/readyz"] {
        shown.push((path.into(), http(http_address, path)));
    }
    let log = serving.log();
    assert!(log.contains("refused a password") && log.contains("changed a user"), "{log}");
    shown.push(("the log".into(), log));
    shown.push(("the banner".into(), serving.banner.clone()));
    let users = fs::read_to_string(folder.path().join("users")).expect("saved");
    assert!(users.contains("user al on #$argon2id$"), "{users}");
    shown.push(("the users' file".into(), users));
    shown.push(("forebay config".into(), config(folder.path())));
    for (what, text) in shown {
        assert!(!text.contains(MARK), "{what}:\n{text}");
    }
}

fn config(folder: &Path) -> String {
    let mut command = forebay_command();
    let output = command.current_dir(folder).args(["config", "--users-file", "users"]).output().expect("it runs");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// A password that was typed where none belongs is not quoted by the error that says so.
#[test]
fn an_error_does_not_quote_a_password() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let address = |password: &str| format!("postgres://root:{password}@localhost/shop");
    fs::write(folder.path().join("f.toml"), format!("store = '{}'\n", address(MARK))).expect("written");
    let (plain, odd) = (address(MARK), address(&format!("?{MARK}@/{MARK}")));
    let joined = format!("--store={plain}");
    let query = format!("postgres://root@localhost/shop?password={MARK}");
    let (shown, shown_query) = ("postgres://root:***@localhost/shop", "postgres://root@localhost/shop?password=***");
    for (line, variable, shown) in [
        (&["serve", "--store", &plain][..], None, shown),
        (&["config", &joined], None, shown),
        (&["config", "--store", &odd], None, shown),
        (&["store", "check", "--store", &query], None, shown_query),
        (&["config", "--config", "f.toml"], None, shown),
        (&["config"], Some(&plain), shown),
        (&["bench", "--workload", "ycsb-a", "--direct", &plain], None, shown),
        (&["bench", "--workload", "ycsb-a", "--direct", &odd], None, shown),
        (&["serve", &plain], None, shown),
    ] {
        let mut command = forebay_command();
        command.current_dir(folder.path()).args(line).envs(variable.map(|text| ("FOREBAY_STORE", text)));
        let output = command.output().expect("it runs");
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert_eq!(output.status.code(), Some(2), "{line:?}: {text}");
        assert!(!text.contains(MARK) && text.contains(shown), "{line:?}: {text}");
    }
}
