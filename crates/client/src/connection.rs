//! One connection: a batch of requests goes out in one piece, and as many replies come back.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use forebay_protocol::{Reply, ReplyDecoder, ReplyLimits, encode_command};

use crate::answer::error_of;
use crate::error::{CommitId, Error};
use crate::ground::Ground;
use crate::options::{Options, Secret};
use crate::wire::Wire;

/// Aggregates within one another: EXEC's answer has two, and commands in it may answer a list.
const DEPTH_MAX: usize = 8;

/// Elements of one answer: the documents of a LEASE GET, with their fields.
const ELEMENTS_MAX: u64 = 16 << 20;

/// Requests that go out together.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: BytesMut,
    count: usize,
}

impl Batch {
    /// Adds a request.
    pub fn add<A: AsRef<[u8]>>(&mut self, words: &[A]) {
        encode_command(&mut self.bytes, words);
        self.count += 1;
    }
}

/// Why a batch has no replies; what it asked for may have been done.
#[derive(Debug)]
pub struct Broken(pub String);

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Broken {
        Broken(error.to_string())
    }
}

/// A connection that has said hello.
pub struct Connection {
    wire: Wire,
    decoder: ReplyDecoder,
    input: BytesMut,
    ground: Ground,
    reply_time_max: Duration,
}

impl Connection {
    /// Connects, and agrees on RESP3, user and key space.
    pub async fn open(options: &Options) -> Result<Connection, Error> {
        let failed = |why: String| Error::Connect { address: options.address.clone(), why };
        let ground = options.ground.clone();
        let connecting = Wire::connect(&ground, &options.address, options.tls.clone());
        let wire = match ground.timeout(options.reply_time_max, connecting).await {
            Some(wire) => wire.map_err(|error| failed(error.to_string()))?,
            None => return Err(failed(format!("no answer within {:?}", options.reply_time_max))),
        };
        let bytes_max = options.reply_bytes_max as u64;
        let limits = ReplyLimits {
            depth_max: DEPTH_MAX,
            elements_max: ELEMENTS_MAX,
            bulk_bytes_max: bytes_max,
            reply_bytes_max: bytes_max,
            ..ReplyLimits::default()
        };
        let (decoder, input) = (ReplyDecoder::new(limits), BytesMut::new());
        let mut connection = Connection { wire, decoder, input, ground, reply_time_max: options.reply_time_max };
        let mut hello = Batch::default();
        match &options.password {
            None => hello.add(&["HELLO", "3"]),
            Some(Secret(password)) => hello.add(&["HELLO", "3", "AUTH", &options.user, password]),
        }
        hello.add(&["SELECT", &options.space.to_string()]);
        let needed = hello.count;
        // So that what it writes over another of its connections does not count as others'. It goes on without.
        if let Some(id) = options.id {
            hello.add(&["LEASE", "CLIENT", &CommitId(id).to_string()]);
        }
        let replies = connection.ask(&hello).await.map_err(|Broken(why)| failed(why))?;
        match replies.iter().take(needed).find_map(error_of) {
            Some(reply) => Err(Error::Refused { what: "HELLO", reply }),
            None => Ok(connection),
        }
    }

    /// Sends a batch; a reply to each of its requests. Dropped or failed, it leaves a connection of no more use.
    pub async fn ask(&mut self, batch: &Batch) -> Result<Vec<Reply>, Broken> {
        let ground = self.ground.clone();
        match ground.timeout(self.reply_time_max, self.exchange(batch)).await {
            Some(replies) => replies,
            None => Err(Broken(format!("no answer within {:?}", self.reply_time_max))),
        }
    }

    async fn exchange(&mut self, batch: &Batch) -> Result<Vec<Reply>, Broken> {
        let (mut sent, mut replies) = (0, Vec::with_capacity(batch.count));
        loop {
            while let Some(reply) = self.decoder.decode(&mut self.input).map_err(|error| Broken(error.to_string()))? {
                // What answers no request is no reply.
                if !matches!(reply, Reply::Push(_)) {
                    replies.push(reply);
                }
            }
            if replies.len() >= batch.count {
                return Ok(replies);
            }
            match self.wire.try_write(&batch.bytes[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
            match self.wire.try_read(&mut self.input) {
                Ok(0) => return Err(Broken("the server has closed it".into())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wire.ready(sent < batch.bytes.len()).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether it can't be used any more.
    pub fn is_spoiled(&mut self) -> bool {
        !self.input.is_empty() || self.wire.is_spoiled()
    }
}
