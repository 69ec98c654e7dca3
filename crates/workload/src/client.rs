//! A RESP client for our own tools and tests: one connection, commands out, replies in.
//!
//! It hides nothing. An error reply is a [`Reply::Error`] like any other reply. A lost connection is an error that
//! the caller has to interpret, since only it knows whether what it had sent may have taken effect.

use std::time::Duration;

use bytes::BytesMut;
use forebay_protocol::{Reply, ReplyDecoder, ReplyError, ReplyLimits, encode_command};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// A reply that does not come within this time counts as a lost connection, unless
/// [`Client::set_reply_time_max`] says otherwise.
pub const REPLY_TIME_MAX: Duration = Duration::from_secs(60);

/// Bytes that one read from the socket makes room for.
const READ_BYTES: usize = 64 * 1024;

/// Why a client got no reply.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Nobody listens there.
    #[error("can't connect to {address}: {source}; is the server running, and is the address right?")]
    Connect {
        /// Which server: `127.0.0.1:6379`.
        address: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The connection broke. What was sent and not answered may or may not have taken effect.
    #[error("the connection to {address} broke: {why}; reconnect, and check whether what was sent took effect")]
    Lost {
        /// Which server.
        address: String,
        /// What happened.
        why: String,
    },
    /// The server's bytes are no replies.
    #[error("{address} does not answer in RESP: {source}")]
    Protocol {
        /// Which server.
        address: String,
        /// What is wrong with them.
        source: ReplyError,
    },
    /// A reply that the caller can't go on with.
    #[error("{command} was answered by {reply}")]
    Refused {
        /// The command's name.
        command: String,
        /// The reply, shortened.
        reply: String,
    },
}

impl ClientError {
    /// True if the connection can't be used any more.
    pub fn broken(&self) -> bool {
        !matches!(self, ClientError::Refused { .. })
    }
}

/// One connection to a RESP server.
pub struct Client {
    address: String,
    reader: OwnedReadHalf,
    writer: OwnedWriteHalf,
    decoder: ReplyDecoder,
    input: BytesMut,
    output: BytesMut,
    waiting: usize,
    reply_time_max: Duration,
}

impl Client {
    /// Connects to `address` (`host:port`); RESP2 until [`Client::hello3`].
    pub async fn connect(address: &str) -> Result<Client, ClientError> {
        let refused = |source| ClientError::Connect { address: address.to_owned(), source };
        let stream = TcpStream::connect(address).await.map_err(refused)?;
        stream.set_nodelay(true).map_err(refused)?;
        let (reader, writer) = stream.into_split();
        Ok(Client {
            address: address.to_owned(),
            reader,
            writer,
            decoder: ReplyDecoder::new(ReplyLimits::default()),
            input: BytesMut::new(),
            output: BytesMut::new(),
            waiting: 0,
            reply_time_max: REPLY_TIME_MAX,
        })
    }

    /// Sets how long a reply may take.
    pub fn set_reply_time_max(&mut self, time: Duration) {
        self.reply_time_max = time;
    }

    /// Asks for RESP3.
    pub async fn hello3(&mut self) -> Result<(), ClientError> {
        match self.call(&["HELLO", "3"]).await? {
            Reply::Map(_) => Ok(()),
            other => Err(refused("HELLO 3", &other)),
        }
    }

    /// Commands that were queued or sent and whose replies were not received yet.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Puts a command behind those that wait to be sent; [`Client::exchange`] or [`Client::flush`] sends them.
    pub fn queue<A: AsRef<[u8]>>(&mut self, args: &[A]) {
        encode_command(&mut self.output, args);
        self.waiting += 1;
    }

    /// Sends what was queued.
    pub async fn flush(&mut self) -> Result<(), ClientError> {
        let sent = self.writer.write_all(&self.output).await;
        self.output.clear();
        sent.map_err(|error| lost(&self.address, error))
    }

    /// Queues a command and sends it with all that was queued before it. Its reply comes from [`Client::receive`].
    pub async fn send<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Result<(), ClientError> {
        self.queue(args);
        self.flush().await
    }

    /// The next reply. Push messages, which answer nothing, are passed over.
    pub async fn receive(&mut self) -> Result<Reply, ClientError> {
        let time = self.reply_time_max;
        let next = next_reply(&mut self.reader, &mut self.decoder, &mut self.input, &self.address, time).await;
        self.waiting = self.waiting.saturating_sub(usize::from(next.is_ok()));
        next
    }

    /// Sends one command and waits for its reply. Replies to earlier commands must have been received.
    pub async fn call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Result<Reply, ClientError> {
        debug_assert_eq!(self.waiting, 0, "replies to earlier commands were not received");
        self.send(args).await?;
        self.receive().await
    }

    /// Sends what was queued and receives the replies to all that waits, each given to `each` as it comes. Sends and
    /// receives at the same time, so that no batch is too large for the buffers on the way.
    pub async fn exchange(&mut self, mut each: impl FnMut(Reply)) -> Result<(), ClientError> {
        let Client { address, reader, writer, decoder, input, output, waiting, reply_time_max } = self;
        let send = async { writer.write_all(output).await.map_err(|error| lost(address, error)) };
        let receive = async {
            while *waiting > 0 {
                each(next_reply(reader, decoder, input, address, *reply_time_max).await?);
                *waiting -= 1;
            }
            Ok(())
        };
        let done = tokio::try_join!(send, receive).map(|_| ());
        output.clear();
        done
    }

    /// [`Client::exchange`] with the replies in a list.
    pub async fn replies(&mut self) -> Result<Vec<Reply>, ClientError> {
        let mut replies = Vec::with_capacity(self.waiting);
        self.exchange(|reply| replies.push(reply)).await?;
        Ok(replies)
    }

    /// As [`Client::call`], with an error reply as an error.
    pub async fn demand<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Result<Reply, ClientError> {
        let reply = self.call(args).await?;
        match reply {
            Reply::Error(_) => {
                let command = args.first().map_or("", |name| std::str::from_utf8(name.as_ref()).unwrap_or("?"));
                Err(refused(command, &reply))
            }
            reply => Ok(reply),
        }
    }
}

/// An error that says which reply a command got; the reply is cut to a readable length.
pub fn refused(command: &str, reply: &Reply) -> ClientError {
    let mut reply = match reply {
        Reply::Error(text) => String::from_utf8_lossy(text).into_owned(),
        other => format!("{other:?}"),
    };
    if reply.len() > 200 {
        reply = reply.chars().take(200).chain("..".chars()).collect();
    }
    ClientError::Refused { command: command.to_owned(), reply }
}

fn lost(address: &str, why: impl ToString) -> ClientError {
    ClientError::Lost { address: address.to_owned(), why: why.to_string() }
}

async fn next_reply(
    reader: &mut OwnedReadHalf,
    decoder: &mut ReplyDecoder,
    input: &mut BytesMut,
    address: &str,
    time: Duration,
) -> Result<Reply, ClientError> {
    loop {
        let decoded =
            decoder.decode(input).map_err(|source| ClientError::Protocol { address: address.to_owned(), source })?;
        match decoded {
            Some(Reply::Push(_)) => continue,
            Some(reply) => return Ok(reply),
            None => {}
        }
        input.reserve(READ_BYTES);
        let read = tokio::time::timeout(time, reader.read_buf(input)).await;
        match read {
            Ok(Ok(0)) => return Err(lost(address, "closed by the server")),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(lost(address, error)),
            Err(_) => return Err(lost(address, format!("no reply within {} s", time.as_secs()))),
        }
    }
}

/// What a reply says, for those who only look at some kinds.
pub trait Says {
    /// The bytes of a string reply.
    fn bytes(&self) -> Option<&[u8]>;
    /// The number of an integer reply, or of a string reply that holds one.
    fn number(&self) -> Option<i64>;
    /// The elements of a list, set or push; keys and values of a map in turn.
    fn items(&self) -> Option<Vec<&Reply>>;
    /// The text of an error reply.
    fn error_text(&self) -> Option<String>;
    /// True for no value and for no list.
    fn is_nil(&self) -> bool;
}

impl Says for Reply {
    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Reply::Bulk(bytes) => Some(bytes),
            Reply::Text(text) | Reply::Verbatim(_, text) => Some(text.as_bytes()),
            Reply::Simple(text) => Some(text.as_bytes()),
            _ => None,
        }
    }

    fn number(&self) -> Option<i64> {
        match self {
            Reply::Integer(number) => Some(*number),
            other => std::str::from_utf8(other.bytes()?).ok()?.parse().ok(),
        }
    }

    fn items(&self) -> Option<Vec<&Reply>> {
        match self {
            Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => Some(items.iter().collect()),
            Reply::Map(pairs) => Some(pairs.iter().flat_map(|(key, value)| [key, value]).collect()),
            _ => None,
        }
    }

    fn error_text(&self) -> Option<String> {
        match self {
            Reply::Error(text) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        }
    }

    fn is_nil(&self) -> bool {
        matches!(self, Reply::Nil | Reply::NilArray)
    }
}
