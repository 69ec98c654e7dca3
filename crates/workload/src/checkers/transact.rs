//! The ways in which a client runs a transaction, and what its replies mean for the outcome.

use forebay_protocol::Reply;

use super::Op;
use crate::client::{Client, ClientError, Says, refused};

/// How a client runs a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// `TXN BEGIN` .. `TXN COMMIT`: reads inside, locks.
    Txn,
    /// `WATCH`, reads, `MULTI` .. `EXEC`: as with Redis.
    Multi,
}

/// What a client notes of a transaction while it runs.
#[derive(Debug, Default)]
pub struct Attempt {
    /// What kind of transaction: `transfer`.
    pub name: &'static str,
    /// What it did and saw; writes are noted before they are sent.
    pub ops: Vec<Op>,
    /// Set before anything is sent that may make it take effect. Until then a lost connection means no effect.
    pub submitted: bool,
    /// What to send after it ended without committing, so that the connection is clean again.
    cleanup: Option<[&'static str; 2]>,
}

/// Why a transaction did not commit.
#[derive(Debug)]
pub enum Stopped {
    /// It surely had no effect.
    Aborted(String),
    /// The server says that it does not know.
    Unknown(String),
    /// The connection broke, or the server answered what it never should.
    Client(ClientError),
}

impl From<ClientError> for Stopped {
    fn from(error: ClientError) -> Stopped {
        Stopped::Client(error)
    }
}

/// An error reply as what it means for the transaction; any other reply as it is.
pub fn judge(command: &str, reply: Reply) -> Result<Reply, Stopped> {
    let Some(text) = reply.error_text() else { return Ok(reply) };
    match text.split_whitespace().next() {
        Some("TXCONFLICT" | "TXABORTED" | "EXECABORT" | "STOREDOWN" | "BUFFERFULL") => Err(Stopped::Aborted(text)),
        Some("TXUNKNOWN") => Err(Stopped::Unknown(text)),
        _ => Err(refused(command, &reply).into()),
    }
}

/// Sends one command; an error reply ends the transaction.
pub async fn call<A: AsRef<[u8]>>(client: &mut Client, args: &[A]) -> Result<Reply, Stopped> {
    let name = args.first().map_or_else(String::new, |name| String::from_utf8_lossy(name.as_ref()).into_owned());
    judge(&name, client.call(args).await?)
}

/// `TXN BEGIN` with these options.
pub async fn begin(client: &mut Client, attempt: &mut Attempt, options: &[&str]) -> Result<(), Stopped> {
    let args: Vec<&str> = ["TXN", "BEGIN"].into_iter().chain(options.iter().copied()).collect();
    call(client, &args).await?;
    attempt.cleanup = Some(["TXN", "ABORT"]);
    Ok(())
}

/// `TXN COMMIT`.
pub async fn commit(client: &mut Client, attempt: &mut Attempt) -> Result<(), Stopped> {
    attempt.submitted = true;
    attempt.cleanup = None;
    call(client, &["TXN", "COMMIT"]).await.map(|_| ())
}

/// `WATCH` of these keys.
pub async fn watch(client: &mut Client, attempt: &mut Attempt, keys: &[String]) -> Result<(), Stopped> {
    let args: Vec<&str> = std::iter::once("WATCH").chain(keys.iter().map(String::as_str)).collect();
    call(client, &args).await?;
    attempt.cleanup = Some(["UNWATCH", ""]);
    Ok(())
}

/// Begins a transaction in this style: of this type, where the style tells the server, over these keys, where it must
/// be told.
pub async fn open(
    client: &mut Client,
    attempt: &mut Attempt,
    style: Style,
    txn_type: &str,
    keys: &[String],
) -> Result<(), Stopped> {
    match style {
        Style::Txn => begin(client, attempt, &["TYPE", txn_type]).await,
        Style::Multi => watch(client, attempt, keys).await,
    }
}

/// Ends a transaction in this style with these writes.
pub async fn close(
    client: &mut Client,
    attempt: &mut Attempt,
    style: Style,
    writes: &[Vec<String>],
) -> Result<(), Stopped> {
    match style {
        Style::Txn => {
            for write in writes {
                call(client, write).await?;
            }
            commit(client, attempt).await
        }
        Style::Multi => script(client, attempt, writes).await.map(|_| ()),
    }
}

/// `MULTI`, the commands, `EXEC`, all sent at once; the replies that EXEC gives.
pub async fn script(
    client: &mut Client,
    attempt: &mut Attempt,
    commands: &[Vec<String>],
) -> Result<Vec<Reply>, Stopped> {
    attempt.submitted = true;
    client.queue(&["MULTI"]);
    for command in commands {
        client.queue(command);
    }
    client.queue(&["EXEC"]);
    let mut replies = client.replies().await?;
    attempt.cleanup = None;
    match replies.pop() {
        Some(Reply::Array(items)) if items.len() == commands.len() => {
            for (item, command) in items.iter().zip(commands) {
                if item.is_error() {
                    return Err(refused(&command[0], item).into());
                }
            }
            Ok(items)
        }
        Some(reply) if reply.is_nil() => Err(Stopped::Aborted("WATCHED a key that changed".to_owned())),
        Some(reply) => {
            // What made EXEC fail was said when the command was queued.
            for early in replies {
                judge("MULTI", early)?;
            }
            judge("EXEC", reply).and_then(|reply| Err(refused("EXEC", &reply).into()))
        }
        None => Err(refused("EXEC", &Reply::Nil).into()),
    }
}

/// Leaves whatever transaction is half open on the connection.
pub async fn clean_up(client: &mut Client, attempt: &mut Attempt) -> Result<(), ClientError> {
    match attempt.cleanup.take() {
        // A refusal says that the server has ended it already.
        Some([name, ""]) => client.call(&[name]).await.map(|_| ()),
        Some(command) => client.call(&command).await.map(|_| ()),
        None => Ok(()),
    }
}

/// The number in a reply to `command`; no value counts as 0.
pub fn number(command: &str, reply: &Reply) -> Result<i64, Stopped> {
    match reply.is_nil() {
        true => Ok(0),
        false => reply.number().ok_or_else(|| refused(command, reply).into()),
    }
}

/// The numbers in a list reply to `command`.
pub fn numbers(command: &str, reply: &Reply) -> Result<Vec<i64>, Stopped> {
    let items = reply.items().ok_or_else(|| refused(command, reply))?;
    items.into_iter().map(|item| number(command, item)).collect()
}

/// Where numbers lie: each in a string of its own, or in a field of a hash, as a column of a row is.
#[derive(Clone, Debug, Default)]
pub struct Place(Option<String>);

impl Place {
    /// In this field.
    pub fn field(name: &str) -> Place {
        Place(Some(name.to_owned()))
    }

    /// The command that reads the number of `key`.
    pub fn get(&self, key: &str) -> Vec<String> {
        match &self.0 {
            None => command(["GET", key]),
            Some(field) => command(["HGET", key, field]),
        }
    }

    /// The command that sets it.
    pub fn set(&self, key: &str, number: i64) -> Vec<String> {
        match &self.0 {
            None => command(["SET", key, &number.to_string()]),
            Some(field) => command(["HSET", key, field, &number.to_string()]),
        }
    }

    /// The command that adds to it.
    pub fn add(&self, key: &str, delta: i64) -> Vec<String> {
        match &self.0 {
            None => command(["INCRBY", key, &delta.to_string()]),
            Some(field) => command(["HINCRBY", key, field, &delta.to_string()]),
        }
    }

    /// Reads those of `keys` at one moment, by one command where there is one.
    pub async fn get_all(
        &self,
        client: &mut Client,
        attempt: &mut Attempt,
        keys: &[String],
    ) -> Result<Vec<i64>, Stopped> {
        if self.0.is_none() {
            let mget: Vec<&str> = std::iter::once("MGET").chain(keys.iter().map(String::as_str)).collect();
            return numbers("MGET", &call(client, &mget).await?);
        }
        let gets: Vec<Vec<String>> = keys.iter().map(|key| self.get(key)).collect();
        script(client, attempt, &gets).await?.iter().map(|reply| number("HGET", reply)).collect()
    }
}

/// A command from its words.
pub fn command<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}
