//! What memcached tells a connection that has said `watch fetchers mutations deletions`.

use std::collections::VecDeque;

use bytes::Bytes;

use super::left_out::LeftOut;
use super::tokens::hex;
use super::{Log, most_lines, open};
use crate::Format;
use crate::input::{decimal, seconds};
use crate::lines::Wrong;
use crate::record::{Kind, Record, TraceKey};

/// See the module.
pub(crate) const FORMAT: Format = Format {
    name: "memcached-watch",
    summary: "memcached's `watch fetchers mutations deletions`: `ts=.. gid=.. type=item_get key=.. status=.. size=..`",
    endings: &[],
    recognises: |head| most_lines(head, |line| line == b"OK" || Fields::of(line).is_ok()),
    open: |source| Ok(open(source, Watch::default())),
};

#[derive(Default)]
struct Watch {
    left_out: LeftOut,
}

/// The fields of a line that count.
#[derive(Default)]
struct Fields<'a> {
    ts: &'a [u8],
    of_type: &'a [u8],
    key: Option<&'a [u8]>,
    status: &'a [u8],
    size: Option<&'a [u8]>,
    connection: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    fn of(line: &'a [u8]) -> Result<Fields<'a>, Wrong> {
        let mut fields = Fields::default();
        for word in line.split(|&byte| byte == b' ').filter(|word| !word.is_empty()) {
            let Some(at) = word.iter().position(|&byte| byte == b'=') else { continue };
            let value = &word[at + 1..];
            match &word[..at] {
                b"ts" => fields.ts = value,
                b"type" => fields.of_type = value,
                b"key" => fields.key = Some(value),
                b"status" => fields.status = value,
                b"size" => fields.size = Some(value),
                b"cfd" => fields.connection = Some(value),
                _ => {}
            }
        }
        match fields {
            Fields { ts: b"", .. } => Err(("ts", "missing, expected ts=seconds".into())),
            Fields { of_type: b"", .. } => Err(("type", "missing, expected type=item_get or the like".into())),
            fields => Ok(fields),
        }
    }
}

impl Log for Watch {
    fn entry(&mut self, text: &[u8], due: &mut VecDeque<Record>) -> Result<(), Wrong> {
        // The answer to `watch`, and that lines were lost because the watcher was slow.
        if text == b"OK" || text.starts_with(b"[") {
            if text != b"OK" {
                self.left_out.count("lines that memcached itself skipped");
            }
            return Ok(());
        }
        let fields = Fields::of(text)?;
        let time_us = seconds(fields.ts).map_err(|reason| ("ts", reason))?;
        let kind = match fields.of_type {
            b"item_get" => Kind::Read,
            b"item_store" => Kind::Write,
            b"deleted" => Kind::Delete,
            other => {
                self.left_out.count(&format!("type {}", String::from_utf8_lossy(other)));
                return Ok(());
            }
        };
        let key = fields.key.filter(|key| !key.is_empty()).ok_or(("key", "missing, expected key=..".to_owned()))?;
        if kind == Kind::Write && fields.status != b"stored" {
            self.left_out.count("what was not stored");
            return Ok(());
        }
        let number = |column: &'static str, text: Option<&[u8]>| -> Result<Option<u32>, Wrong> {
            let number = text.map(decimal).transpose().map_err(|reason| (column, reason))?;
            Ok(number.map(|number| u32::try_from(number).unwrap_or(u32::MAX)))
        };
        // What was not found has no size.
        let found = kind == Kind::Write || fields.status == b"found";
        let size = number("size", fields.size.filter(|_| found))?;
        // Connections are numbered from 0, and client 0 stands for an unknown one.
        let client = number("cfd", fields.connection)?.map_or(0, |connection| connection.saturating_add(1));
        let key = TraceKey::Bytes(Bytes::from(decoded(key)));
        due.push_back(Record { time_us: Some(time_us), kind, key, size, client, ..Record::default() });
        Ok(())
    }

    fn left_out(&self) -> &LeftOut {
        &self.left_out
    }
}

/// A key without the percent signs that keep it in one word.
fn decoded(text: &[u8]) -> Vec<u8> {
    let (mut bytes, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(&byte) = text.get(at) {
        match hex(&text[at + 1..]).filter(|_| byte == b'%') {
            Some(value) => {
                bytes.push(value);
                at += 3;
            }
            None => {
                bytes.push(byte);
                at += 1;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::tests::read;

    #[test]
    fn lines_become_requests() {
        let text = "OK\nts=1455239180.118415 gid=1 type=item_get key=a%20b status=not_found clsid=0 cfd=24 size=0\n\
                    ts=1455239180.2 gid=2 type=item_store key=a%20b status=stored cmd=set ttl=0 clsid=1 cfd=24 size=3\n\
                    ts=1455239181.0 gid=3 type=item_get key=a%20b status=found clsid=1 cfd=25 size=3\n\
                    ts=1455239181.0 gid=4 type=conn_new rip=127.0.0.1 rport=1 transport=tcp cfd=26\n\
                    ts=1455239182.0 gid=5 type=deleted key=a%20b cmd=delete clsid=1 cfd=25 size=3\n";
        let (records, error) = read(&FORMAT, text);
        assert_eq!(error, None);
        let told: Vec<_> = records.iter().map(|r| (r.kind, r.size, r.client)).collect();
        let expected =
            [(Kind::Read, None, 25), (Kind::Write, Some(3), 25), (Kind::Read, Some(3), 26), (Kind::Delete, None, 26)];
        assert_eq!(told, expected);
        assert!(records.iter().all(|record| record.key == TraceKey::Bytes("a b".into())));
        assert_eq!(records[0].time_us, Some(1_455_239_180_118_415));
        assert!((FORMAT.recognises)(text.as_bytes()));
        for (line, column) in [("a b", "ts"), ("ts=1 a", "type"), ("ts=1 type=item_get", "key"), ("ts=x type=a", "ts")]
        {
            let error = read(&FORMAT, &format!("{line}\n")).1.expect(line);
            assert!(error.starts_with(&format!("line 1, column {column}: ")), "{line}: {error}");
        }
    }
}
