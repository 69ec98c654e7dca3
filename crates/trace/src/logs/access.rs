//! Access logs of nginx, Apache and others: the common format, and the combined one with what stands behind it.

use std::collections::VecDeque;

use bytes::Bytes;

use super::clients::Clients;
use super::left_out::LeftOut;
use super::tokens::{Token, Tokens};
use super::{Log, most_lines, open};
use crate::Format;
use crate::date::clf_us;
use crate::input::{decimal, unexpected};
use crate::lines::Wrong;
use crate::record::{Kind, Record, TraceKey};

/// See the module.
pub(crate) const FORMAT: Format = Format {
    name: "access-log",
    summary: "nginx, Apache: `host ident user [time] \"request\" status bytes ..`, also behind `vhost:port`",
    endings: &[],
    recognises: |head| most_lines(head, |line| parse(line).is_ok()),
    open: |source| Ok(open(source, AccessLog::default())),
};

#[derive(Default)]
struct AccessLog {
    clients: Clients,
    left_out: LeftOut,
}

/// What a line says.
struct Entry<'a> {
    /// Where the log is one of several sites.
    site: &'a [u8],
    host: &'a [u8],
    time_us: u64,
    request: &'a [u8],
    status: u64,
    /// None where the log has `-`.
    bytes: Option<u64>,
}

impl Log for AccessLog {
    fn entry(&mut self, text: &[u8], due: &mut VecDeque<Record>) -> Result<(), Wrong> {
        let entry = parse(text)?;
        let asked = match Asked::of(entry.request, entry.status, entry.bytes) {
            Ok(asked) => asked,
            Err(reason) => {
                self.left_out.count(&reason);
                return Ok(());
            }
        };
        let key = Bytes::from([entry.site, asked.target].concat());
        due.push_back(Record {
            time_us: Some(entry.time_us),
            kind: asked.kind,
            key: TraceKey::Bytes(key),
            size: asked.size,
            client: self.clients.number(entry.host),
            ..Record::default()
        });
        Ok(())
    }

    fn left_out(&self) -> &LeftOut {
        &self.left_out
    }
}

/// What a request of HTTP asks of a cache.
pub(super) struct Asked<'a> {
    pub kind: Kind,
    /// What stands behind the method.
    pub target: &'a [u8],
    pub size: Option<u32>,
}

impl<'a> Asked<'a> {
    /// Of a request's line, with its status and the bytes of its answer. An error says why it asks for nothing.
    pub fn of(request: &'a [u8], status: u64, bytes: Option<u64>) -> Result<Asked<'a>, String> {
        let mut words = request.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
        let (Some(method), Some(target)) = (words.next(), words.next()) else {
            return Err("no request of HTTP".into());
        };
        let reads = method == b"GET" || method == b"HEAD";
        let kind = match method {
            _ if reads => Kind::Read,
            b"POST" | b"PUT" | b"PATCH" => Kind::Write,
            b"DELETE" => Kind::Delete,
            _ if method.iter().all(u8::is_ascii_uppercase) => {
                return Err(format!("method {}", String::from_utf8_lossy(method)));
            }
            _ => return Err("no request of HTTP".into()),
        };
        // A redirect is no answer to a read. A write that is answered by one may have changed something.
        let counts = matches!(status, 200..=299) || if reads { status == 304 } else { matches!(status, 300..=399) };
        if !counts {
            return Err(format!("status {status}"));
        }
        // Only a full answer says how large the thing is.
        let full = method == b"GET" && matches!(status, 200 | 203);
        let size = bytes.filter(|_| full).map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
        Ok(Asked { kind, target, size })
    }
}

fn parse(line: &[u8]) -> Result<Entry<'_>, Wrong> {
    let mut tokens = Tokens(line);
    let mut names: Vec<&[u8]> = Vec::new();
    let time = loop {
        match tokens.next() {
            Some(Token::Plain(name)) => names.push(name),
            Some(Token::Bracketed(time)) => break time,
            _ => return Err(("time", "missing, expected [day/month/year:hour:minute:second zone]".into())),
        }
    };
    let time_us = clf_us(time).ok_or_else(|| ("time", unexpected(time, "a time as 10/Oct/2000:13:55:36 -0700")))?;
    let (site, host): (&[u8], &[u8]) = match names[..] {
        // `vhost_combined` of Apache has the site first.
        [site, host, ident, _, ..] if site.contains(&b':') && ident == b"-" && host != b"-" => (site, host),
        [host, ..] => (b"", host),
        [] => return Err(("host", "missing, expected who asked".into())),
    };
    let request = match tokens.next() {
        Some(Token::Quoted(request)) => request,
        Some(Token::Open) => return Err(("request", "a quote that does not end in its line".into())),
        _ => return Err(("request", "missing, expected \"METHOD URL PROTOCOL\"".into())),
    };
    let status = number("status", tokens.next())?;
    let status = status.filter(|status| (100..1000).contains(status));
    let status = status.ok_or(("status", "expected a status of HTTP, 100 to 999".to_owned()))?;
    let bytes = number("bytes", tokens.next())?;
    Ok(Entry { site, host, time_us, request, status, bytes })
}

/// A number, or none for `-`.
fn number(column: &'static str, token: Option<Token<'_>>) -> Result<Option<u64>, Wrong> {
    match token {
        Some(Token::Plain(b"-")) => Ok(None),
        Some(Token::Plain(text)) => decimal(text).map(Some).map_err(|reason| (column, reason)),
        _ => Err((column, "missing, expected a number".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::tests::read;

    const TIME: &str = "[10/Oct/2000:13:55:36 -0700]";

    #[test]
    fn lines_become_requests() {
        let combined =
            format!("::1 - frank smith {TIME} \"GET /a?b=1 HTTP/1.1\" 200 2326 \"-\" \"a \\\"b\\\" c\" 0.01\n");
        let rest = format!(
            "10.0.0.1 - - {TIME} \"HEAD /a?b=1 HTTP/1.1\" 304 -\n10.0.0.1 - - {TIME} \"POST /a HTTP/1.1\" 302 5\n\
             shop.example:443 10.0.0.1 - - {TIME} \"DELETE /a HTTP/2.0\" 204 0 \"-\" \"-\"\n\
             10.0.0.1 - - {TIME} \"GET /gone HTTP/1.1\" 404 10\n10.0.0.1 - - {TIME} \"\\x16\\x03\" 400 157\n\
             10.0.0.1 - - {TIME} \"GET /part HTTP/1.1\" 206 10\n"
        );
        let (records, error) = read(&FORMAT, &(combined.clone() + &rest));
        assert_eq!(error, None);
        let told: Vec<(Kind, Bytes, Option<u32>, u32)> =
            records.iter().map(|r| (r.kind, r.key.to_bytes(), r.size, r.client)).collect();
        let expected = [
            (Kind::Read, "/a?b=1", Some(2326), 1),
            (Kind::Read, "/a?b=1", None, 2),
            (Kind::Write, "/a", None, 2),
            (Kind::Delete, "shop.example:443/a", None, 2),
            (Kind::Read, "/part", None, 2),
        ];
        assert_eq!(told, expected.map(|(kind, key, size, client)| (kind, Bytes::from(key), size, client)));
        assert_eq!(records[0].time_us, Some(971_211_336_000_000));
        assert!((FORMAT.recognises)(combined.as_bytes()) && !(FORMAT.recognises)(b"a b c\nd e f\n"));
    }

    #[test]
    fn malformed_lines_are_named_and_half_a_line_at_the_end_is_none() {
        for (line, column) in [
            ("10.0.0.1 - - \"GET / HTTP/1.1\" 200 1", "time"),
            ("10.0.0.1 - - [yesterday] \"GET / HTTP/1.1\" 200 1", "time"),
            ("10.0.0.1 - - [10/Oct/2000:13:55:36 -0700] GET / 200 1", "request"),
            ("10.0.0.1 - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.1\" OK 1", "status"),
            ("10.0.0.1 - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.1\" 200", "bytes"),
        ] {
            let error = read(&FORMAT, &format!("{line}\n")).1.expect(line);
            assert!(error.starts_with(&format!("line 1, column {column}: ")), "{line}: {error}");
            assert_eq!(read(&FORMAT, line), (vec![], None), "{line}");
        }
    }
}
