//! Requests as a browser, or someone else, sends them to the HTTP address.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// Only so that a test that waits for what never comes fails.
const PATIENCE: Duration = Duration::from_secs(20);

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// An answer: status, head, body.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    /// The session's cookie that it sets, as it is sent back.
    pub fn cookie(&self) -> String {
        let line = self.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
        line.split(';').next().expect("its value").to_owned()
    }
}

/// Sends `request` with its lines' ends and no more; the answer.
pub fn send(address: &str, request: &str) -> Answer {
    let mut stream = connect(address);
    // One that is refused may not be read to its end.
    let _ = stream.write_all(request.as_bytes());
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text);
    let text = String::from_utf8(text).expect("UTF-8");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

/// `GET path` with more headers, a line each.
pub fn get(address: &str, path: &str, headers: &str) -> Answer {
    send(address, &format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n{headers}\r\n"))
}

/// A form sent to `path`.
pub fn post(address: &str, path: &str, headers: &str, form: &str) -> Answer {
    let kind = "Content-Type: application/x-www-form-urlencoded";
    let length = form.len();
    let lines = format!("Host: {address}\r\n{kind}\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}");
    send(address, &format!("POST {path} HTTP/1.1\r\n{lines}\r\n{form}"))
}

/// A stream of events.
pub struct Events {
    reader: BufReader<TcpStream>,
    /// All that came.
    pub text: String,
    names: Vec<String>,
}

impl Events {
    /// Asks for it, and reads nothing.
    pub fn ask(address: &str, headers: &str) -> TcpStream {
        let mut stream = connect(address);
        // HTTP/1.0, so that the events come as they are, not in chunks.
        let request = format!("GET /events HTTP/1.0\r\nHost: {address}\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).expect("written");
        stream
    }

    /// Asks for it, and reads the head; the answer's status.
    pub fn open(address: &str, headers: &str) -> (Events, String) {
        let mut events =
            Events { reader: BufReader::new(Events::ask(address, headers)), text: String::new(), names: Vec::new() };
        while !events.text.ends_with("\r\n\r\n") {
            assert!(events.reader.read_line(&mut events.text).expect("a head") > 0, "{}", events.text);
        }
        let status = events.text.split(' ').nth(1).expect("a status").to_owned();
        (events, status)
    }

    /// The name and the data of the next event; `None` at the end.
    pub fn next(&mut self) -> Option<(String, Value)> {
        let mut name = String::new();
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line).expect("it goes on, or ends") == 0 {
                return None;
            }
            self.text.push_str(&line);
            if let Some(of) = line.strip_prefix("event: ") {
                name = of.trim().to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                let data: Value = serde_json::from_str(data).expect("JSON");
                if name == "names" {
                    self.names = serde_json::from_value(data.clone()).expect("names");
                }
                return Some((name, data));
            }
        }
    }

    /// The figure of this name in a row.
    pub fn figure(&self, row: &Value, name: &str) -> f64 {
        let at = self.names.iter().position(|known| known == name).unwrap_or_else(|| panic!("no column {name}"));
        row[at + 1].as_f64().unwrap_or_else(|| panic!("{name} has no number"))
    }

    /// The next record of what is true now, with the row before it.
    pub fn record(&mut self) -> (Value, Value) {
        let mut row = Value::Null;
        loop {
            match self.next().expect("the stream goes on") {
                (name, data) if name == "rows" => {
                    row = data.as_array().and_then(|rows| rows.last()).cloned().expect("a row")
                }
                (name, data) if name == "now" => return (row, data),
                _ => {}
            }
        }
    }
}
