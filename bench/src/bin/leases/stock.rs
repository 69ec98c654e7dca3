//! Transactions of a plain client: without a cache, or with CLIENT TRACKING and a cache that it keeps.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::rc::Rc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::{Count, Draw, KNOWN_AT_ONCE, Timed, Window, Work, known};
use crate::{Failed, Load};

/// A reply, as far as it matters here.
#[derive(Clone, Debug, PartialEq)]
enum Reply {
    Bulk(Option<Vec<u8>>),
    Other,
    Nil,
    Error(String),
    Array(Vec<Reply>),
    Push(Vec<Reply>),
}

/// The bytes of a request.
pub fn command(parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", parts.len()).into_bytes();
    for part in parts {
        bytes.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
        bytes.extend_from_slice(part);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Reads so many replies of one line.
pub fn skip_replies(stream: &mut std::net::TcpStream, mut replies: usize) -> io::Result<()> {
    let mut bytes = [0; 4096];
    while replies > 0 {
        let read = stream.read(&mut bytes)?;
        if read == 0 || bytes[0] == b'-' {
            return Err(io::Error::other("the server took not all documents"));
        }
        replies = replies.saturating_sub(bytes[..read].iter().filter(|byte| **byte == b'\n').count());
    }
    Ok(())
}

/// A connection, and its copies if it tracks.
struct Connection {
    stream: TcpStream,
    read: Vec<u8>,
    at: usize,
    copies: Option<HashMap<Vec<u8>, Vec<u8>>>,
}

impl Connection {
    async fn open(address: SocketAddr, tracks: bool) -> Result<Connection, Failed> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut open = Connection { stream, read: Vec::new(), at: 0, copies: tracks.then(HashMap::new) };
        if tracks {
            let asked = [command(&[b"HELLO", b"3"]), command(&[b"CLIENT", b"TRACKING", b"ON"])].concat();
            open.ask(&asked, 2).await?;
        }
        Ok(open)
    }

    /// Sends requests, and returns so many replies.
    async fn ask(&mut self, requests: &[u8], replies: usize) -> Result<Vec<Reply>, Failed> {
        self.stream.write_all(requests).await?;
        let mut all = Vec::with_capacity(replies);
        while all.len() < replies {
            match self.reply().await? {
                Reply::Push(push) => self.forget(&push),
                reply => all.push(reply),
            }
        }
        Ok(all)
    }

    /// Takes the invalidations that are there, without a wait.
    fn hear(&mut self) -> Result<(), Failed> {
        let mut bytes = [0; 16 << 10];
        while let Ok(read @ 1..) = self.stream.try_read(&mut bytes) {
            self.read.extend_from_slice(&bytes[..read]);
        }
        while let Some(reply) = self.parse()? {
            if let Reply::Push(push) = reply {
                self.forget(&push);
            }
        }
        Ok(())
    }

    fn forget(&mut self, push: &[Reply]) {
        let Some(copies) = &mut self.copies else { return };
        match push.get(1) {
            Some(Reply::Array(keys)) => keys.iter().for_each(|key| {
                if let Reply::Bulk(Some(key)) = key {
                    copies.remove(key);
                }
            }),
            _ => copies.clear(),
        }
    }

    async fn reply(&mut self) -> Result<Reply, Failed> {
        loop {
            if let Some(reply) = self.parse()? {
                return Ok(reply);
            }
            let mut bytes = [0; 16 << 10];
            match self.stream.read(&mut bytes).await? {
                0 => return Err("the server closed the connection".into()),
                read => self.read.extend_from_slice(&bytes[..read]),
            }
        }
    }

    /// The next whole reply of what was read.
    fn parse(&mut self) -> Result<Option<Reply>, Failed> {
        let mut at = self.at;
        let reply = parse(&self.read, &mut at)?;
        if reply.is_some() {
            self.at = at;
        }
        if self.at == self.read.len() {
            self.read.clear();
            self.at = 0;
        }
        Ok(reply)
    }

    /// Runs a transaction; the documents that it fetched, and whether it went without a message, or none: it has to be
    /// run again.
    async fn run(&mut self, work: &Work, one_by_one: bool) -> Result<Option<(u64, bool)>, Failed> {
        self.hear()?;
        let missing: Vec<&[u8]> = match (&self.copies, work.only_reads) {
            (Some(copies), true) => {
                work.keys.iter().map(|key| key.as_bytes()).filter(|key| !copies.contains_key(*key)).collect()
            }
            _ => work.keys.iter().map(|key| key.as_bytes()).collect(),
        };
        if missing.is_empty() {
            return Ok(Some((0, true)));
        }
        let with = |name: &'static [u8]| std::iter::once(name).chain(missing.iter().copied()).collect::<Vec<&[u8]>>();
        if work.only_reads {
            let levels = if one_by_one { missing.chunks(1) } else { missing.chunks(missing.len()) };
            for level in levels {
                self.fetch(level).await?;
            }
            return Ok(Some((missing.len() as u64, false)));
        }
        let seen = [command(&with(b"WATCH")), command(&with(b"MGET"))].concat();
        let got = self.ask(&seen, 2).await?.remove(1);
        self.keep(&missing, got)?;
        let mut commit = command(&[b"MULTI"]);
        work.keys.iter().for_each(|key| commit.extend(command(&[b"SET", key.as_bytes(), &work.document])));
        commit.extend(command(&[b"EXEC"]));
        let ended = self.ask(&commit, work.keys.len() + 2).await?.pop();
        match ended {
            Some(Reply::Array(_)) => Ok(Some((missing.len() as u64, false))),
            Some(Reply::Nil | Reply::Error(_)) => Ok(None),
            other => Err(format!("EXEC answers {other:?}").into()),
        }
    }

    async fn fetch(&mut self, keys: &[&[u8]]) -> Result<(), Failed> {
        let asked: Vec<&[u8]> = std::iter::once(&b"MGET"[..]).chain(keys.iter().copied()).collect();
        let got = self.ask(&command(&asked), 1).await?.remove(0);
        self.keep(keys, got)
    }

    fn keep(&mut self, keys: &[&[u8]], got: Reply) -> Result<(), Failed> {
        let Reply::Array(documents) = got else { return Err(format!("MGET answers {got:?}").into()) };
        let Some(copies) = &mut self.copies else { return Ok(()) };
        for (key, document) in keys.iter().zip(documents) {
            if let Reply::Bulk(Some(document)) = document {
                copies.insert(key.to_vec(), document);
            }
        }
        Ok(())
    }
}

/// The reply at `at`, which moves on; none: it is not whole yet.
fn parse(bytes: &[u8], at: &mut usize) -> Result<Option<Reply>, Failed> {
    let rest = bytes.get(*at..).unwrap_or_default();
    let Some(end) = rest.windows(2).position(|two| two == b"\r\n") else { return Ok(None) };
    let (kind, text) = (rest[0], std::str::from_utf8(&rest[1..end])?);
    *at += end + 2;
    let items = |at: &mut usize| -> Result<Option<Vec<Reply>>, Failed> {
        (0..text.parse::<usize>()?).map(|_| parse(bytes, at)).collect()
    };
    Ok(match kind {
        b'$' | b'*' if text == "-1" => Some(Reply::Nil),
        b'$' => {
            let length: usize = text.parse()?;
            let body = bytes.get(*at..*at + length + 2);
            *at += length + 2;
            body.map(|body| Reply::Bulk(Some(body[..length].to_vec())))
        }
        b'*' => items(at)?.map(Reply::Array),
        b'>' => items(at)?.map(Reply::Push),
        b'%' => {
            let pairs: usize = text.parse()?;
            let all: Result<Option<Vec<Reply>>, Failed> = (0..2 * pairs).map(|_| parse(bytes, at)).collect();
            all?.map(|_| Reply::Other)
        }
        b'_' => Some(Reply::Nil),
        b'-' => Some(Reply::Error(text.to_owned())),
        b'+' | b':' => Some(Reply::Other),
        other => return Err(format!("a reply of type {:?}", char::from(other)).into()),
    })
}

/// The sessions of one client process.
pub async fn run(load: &Load, address: SocketAddr, number: u64, tracks: bool, window: Window) -> Result<Count, Failed> {
    let one_by_one = load.one_by_one;
    let count = Rc::new(RefCell::new(Count::default()));
    let failed = Rc::new(RefCell::new(None));
    let sessions = tokio::task::LocalSet::new();
    for session in 0..load.sessions as u64 {
        let (count, failed) = (count.clone(), failed.clone());
        let mut draw = Draw::new(load, number << 32 | session)?;
        let mut connection = Connection::open(address, tracks).await?;
        for keys in known(load).chunks(KNOWN_AT_ONCE).filter(|_| tracks) {
            connection.fetch(&keys.iter().map(|key| key.as_bytes()).collect::<Vec<_>>()).await?;
        }
        sessions.spawn_local(async move {
            while let Some(counts) = window.counts() {
                let work = draw.next();
                let (timed, mut aborts) = (Timed::begin(), 0);
                let (fetched, alone) = loop {
                    match connection.run(&work, one_by_one).await {
                        Ok(Some(done)) => break done,
                        Ok(None) => aborts += 1,
                        Err(error) => {
                            *failed.borrow_mut() = Some(error);
                            return;
                        }
                    }
                };
                if counts {
                    let mut count = count.borrow_mut();
                    count.ended(work.only_reads, aborts, timed.took());
                    count.alone += u64::from(alone);
                    count.fetched += fetched;
                }
                if alone {
                    tokio::task::yield_now().await;
                }
            }
        });
    }
    sessions.run_until(window.ends()).await;
    if let Some(error) = failed.take() {
        return Err(error);
    }
    let count = count.borrow().clone();
    Ok(count)
}
