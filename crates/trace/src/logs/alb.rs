//! Access logs of AWS' Application Load Balancer.

use std::collections::VecDeque;

use bytes::Bytes;

use super::access::Asked;
use super::clients::{Clients, without_port};
use super::left_out::LeftOut;
use super::tokens::{Token, Tokens};
use super::{Log, most_lines, open};
use crate::Format;
use crate::date::iso_us;
use crate::input::{decimal, unexpected};
use crate::lines::Wrong;
use crate::record::{Record, TraceKey};

/// See the module.
pub(crate) const FORMAT: Format = Format {
    name: "aws-alb",
    summary: "AWS Application Load Balancer: `type time elb client:port target:port ..`, as it puts them into S3",
    endings: &[],
    recognises: |head| most_lines(head, |line| parse(line).is_ok()),
    open: |source| Ok(open(source, Alb::default())),
};

/// Columns up to the request's line, the last that counts.
const COLUMNS: [&str; 13] = [
    "type",
    "time",
    "elb",
    "client:port",
    "target:port",
    "request_processing_time",
    "target_processing_time",
    "response_processing_time",
    "elb_status_code",
    "target_status_code",
    "received_bytes",
    "sent_bytes",
    "request",
];

#[derive(Default)]
struct Alb {
    clients: Clients,
    left_out: LeftOut,
}

/// What a line says.
struct Entry<'a> {
    time_us: u64,
    client: &'a [u8],
    cost_us: Option<u32>,
    status: Option<u64>,
    sent: u64,
    request: &'a [u8],
}

impl Log for Alb {
    fn entry(&mut self, text: &[u8], due: &mut VecDeque<Record>) -> Result<(), Wrong> {
        let entry = parse(text)?;
        let asked = match entry.status {
            None => Err("no status".to_owned()),
            Some(status) => Asked::of(entry.request, status, Some(entry.sent)),
        };
        match asked {
            Err(reason) => self.left_out.count(&reason),
            Ok(asked) => due.push_back(Record {
                time_us: Some(entry.time_us),
                kind: asked.kind,
                key: TraceKey::Bytes(Bytes::copy_from_slice(asked.target)),
                size: asked.size,
                cost_us: entry.cost_us,
                client: self.clients.number(without_port(entry.client)),
                ..Record::default()
            }),
        }
        Ok(())
    }

    fn left_out(&self) -> &LeftOut {
        &self.left_out
    }
}

fn parse(line: &[u8]) -> Result<Entry<'_>, Wrong> {
    let mut tokens = Tokens(line);
    let mut fields: [&[u8]; COLUMNS.len()] = [b""; COLUMNS.len()];
    for (field, column) in fields.iter_mut().zip(COLUMNS) {
        *field = match tokens.next() {
            Some(Token::Plain(text)) if column != "request" => text,
            Some(Token::Quoted(text)) if column == "request" => text,
            Some(Token::Open) => return Err((column, "a quote that does not end in its line".into())),
            _ => return Err((column, "missing, expected what an Application Load Balancer logs".into())),
        };
    }
    let [kind, time, _, client, _, _, takes, _, status, _, _, sent, request] = fields;
    if ![&b"http"[..], b"https", b"h2", b"grpcs", b"ws", b"wss"].contains(&kind) {
        return Err(("type", unexpected(kind, "http, https, h2, grpcs, ws or wss")));
    }
    let time_us = iso_us(time).ok_or_else(|| ("time", unexpected(time, "a date as 2026-01-31T12:30:00.25Z")))?;
    let status = match status {
        b"-" => None,
        status => Some(decimal(status).map_err(|reason| ("elb_status_code", reason))?),
    };
    let sent = decimal(sent).map_err(|reason| ("sent_bytes", reason))?;
    // -1 where no target answered.
    let seconds = std::str::from_utf8(takes).ok().and_then(|text| text.parse::<f64>().ok());
    let cost_us = seconds.filter(|seconds| (0.0..4000.0).contains(seconds)).map(|seconds| (seconds * 1e6) as u32);
    Ok(Entry { time_us, client, cost_us, status, sent, request })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::tests::read;
    use crate::record::Kind;

    #[test]
    fn lines_become_requests() {
        let line = |takes: &str, status: &str, request: &str| {
            format!(
                "https 2026-07-02T22:23:00.186641Z app/lb/50dc6c495c0c9188 192.168.131.39:2817 10.0.0.1:80 0.000 \
                 {takes} 0.000 {status} 200 34 366 \"{request}\" \"curl/7.46.0\" - - - \"Root=1\" \"a\" \"-\" 0\n"
            )
        };
        let text = line("0.086", "200", "GET https://shop.example:443/a?b=1 HTTP/1.1")
            + &line("-1", "502", "GET https://shop.example:443/a HTTP/1.1")
            + &line("-1", "-", "- - -")
            + &line("0.1", "201", "POST https://shop.example:443/a HTTP/1.1");
        let (records, error) = read(&FORMAT, &text);
        assert_eq!((records.len(), error), (2, None));
        assert_eq!(records[0].key.to_bytes(), "https://shop.example:443/a?b=1");
        let of = |record: &Record| (record.kind, record.size, record.cost_us, record.client);
        assert_eq!(of(&records[0]), (Kind::Read, Some(366), Some(86_000), 1));
        assert_eq!(of(&records[1]), (Kind::Write, None, Some(100_000), 1));
        assert!((FORMAT.recognises)(text.as_bytes()));
        let error = read(&FORMAT, "http 2026-07-02 a b c\n").1.expect("short");
        assert!(error.starts_with("line 1, column request_processing_time: missing"), "{error}");
    }
}
