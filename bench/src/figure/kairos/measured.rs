//! What the work of servers and clients costs: measured of forebay's server, and of its client library, in this run.
//! The simulation of the other figures takes the costs that were written down in `setting.rs`.

use std::io::{Read, Write};
use std::net::TcpStream;

use bytes::BytesMut;
use forebay_client::{Client, Error, Leases, Options, Transaction};
use forebay_protocol::{Reply, ReplyDecoder, ReplyLimits, encode_command};

use super::Failed;
use super::setting::Costs;
use crate::figures::Summary;
use crate::program::{Program, free_port, process_cpu_seconds};
use crate::replies::Protocol;

/// Connections that have one request each under way.
const CONNECTIONS: usize = 32;
/// Keys of the wide requests.
const WIDE: usize = 16;
/// Rounds, of which the median counts.
const ROUNDS: usize = 5;
/// What a reader of a packet costs, of what a request and its answer cost besides their keys.
const RECEIVED: f64 = 0.5;

/// Of the entry of a LEASE GET: type, document, version.
const VERSION_AT: usize = 2;

type Words = Vec<String>;

fn words(text: &str) -> Words {
    text.split(' ').map(str::to_owned).collect()
}

/// A command over the first so many keys, with `of_each` after each key.
fn over(command: &str, keys: usize, of_each: &str) -> Words {
    let each = (0..keys).flat_map(|key| [format!("cost:{key}"), of_each.to_owned()]);
    words(command).into_iter().chain(each.filter(|word| !word.is_empty())).collect()
}

/// A commit of its writes, after its checks.
fn commit(checks: usize, writes: usize, versions: &[String]) -> Vec<Words> {
    let mut batch = Vec::new();
    if checks > 0 {
        let each = (0..checks).flat_map(|key| [format!("cost:{key}"), versions[key].clone()]);
        batch.push(words("LEASE CHECK").into_iter().chain(each).collect());
    }
    batch.push(words("MULTI"));
    batch.extend((0..writes).map(|key| words(&format!("SET written:{key} 0123456789abcdef"))));
    batch.push(words("EXEC"));
    batch
}

/// A server, and connections to it.
struct Asked {
    program: Program,
    connections: Vec<(TcpStream, ReplyDecoder, BytesMut)>,
    requests: usize,
}

impl Asked {
    fn new(requests: usize) -> Result<Asked, Failed> {
        let binary = std::env::current_exe()?.with_file_name("forebay");
        if !binary.exists() {
            return Err(format!("no {}; build it first: make figure does", binary.display()).into());
        }
        let port = free_port()?;
        let args = ["serve", "--store", "memory", "--listen", &format!("127.0.0.1:{port}"), "--http", "off"];
        let program = Program::start(&binary, &args.map(str::to_owned), None, port, Protocol::Resp)?;
        let connect = |_| {
            let stream = TcpStream::connect(program.address)?;
            stream.set_nodelay(true)?;
            Ok((stream, ReplyDecoder::new(ReplyLimits::default()), BytesMut::new()))
        };
        let connections = (0..CONNECTIONS).map(connect).collect::<Result<_, std::io::Error>>()?;
        Ok(Asked { program, connections, requests })
    }

    /// Microseconds of the server's processor for one such batch.
    fn microseconds(&mut self, batch: &[Words]) -> Result<f64, Failed> {
        let mut bytes = BytesMut::new();
        batch.iter().for_each(|words| encode_command(&mut bytes, words));
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let before = self.program.cpu_seconds()?;
            for _ in 0..self.requests.div_ceil(CONNECTIONS) {
                for (stream, ..) in &mut self.connections {
                    stream.write_all(&bytes)?;
                }
                for (stream, decoder, input) in &mut self.connections {
                    read(stream, decoder, input, batch.len())?;
                }
            }
            let spent = self.program.cpu_seconds()? - before;
            rounds.push(1e6 * spent / self.requests.next_multiple_of(CONNECTIONS) as f64);
        }
        Ok(Summary::of(&rounds).median)
    }

    /// The versions of the first keys.
    fn versions(&mut self) -> Result<Vec<String>, Failed> {
        let mut bytes = BytesMut::new();
        encode_command(&mut bytes, &over(&format!("LEASE GET {WIDE}"), WIDE, ""));
        let (stream, decoder, input) = &mut self.connections[0];
        stream.write_all(&bytes)?;
        let mut replies = read(stream, decoder, input, 1)?;
        let Some(Reply::Array(entries)) = replies.pop() else { return Err("LEASE GET answers no array".into()) };
        let version = |entry: &Reply| match entry {
            Reply::Array(fields) => match fields.get(VERSION_AT) {
                Some(Reply::Bulk(version)) => Some(String::from_utf8_lossy(version).into_owned()),
                _ => None,
            },
            _ => None,
        };
        let versions = entries.iter().map(version).collect::<Option<_>>();
        versions.ok_or_else(|| format!("{:?} has no version", entries.first()).into())
    }
}

/// So many replies.
fn read(
    stream: &mut TcpStream,
    decoder: &mut ReplyDecoder,
    input: &mut BytesMut,
    count: usize,
) -> Result<Vec<Reply>, Failed> {
    let (mut replies, mut part) = (Vec::new(), [0; 16 * 1024]);
    while replies.len() < count {
        while let Some(reply) = decoder.decode(input)? {
            replies.push(reply);
        }
        if replies.len() < count {
            let length = stream.read(&mut part)?;
            if length == 0 {
                return Err("the server has closed a connection".into());
            }
            input.extend_from_slice(&part[..length]);
        }
    }
    Ok(replies)
}

/// Measures all costs, each by so many requests.
pub(super) fn costs(requests: usize) -> Result<Costs, Failed> {
    let mut asked = Asked::new(requests)?;
    asked.microseconds(&[over("MSET", WIDE, "0123456789abcdef")])?;
    let versions = asked.versions()?;
    let get = asked.microseconds(&[over("MGET", 1, "")])?;
    let each = |narrow: f64, wide: f64| ((wide - narrow) / (WIDE - 1) as f64).max(0.0);
    let read = each(get, asked.microseconds(&[over("MGET", WIDE, "")])?);
    let [narrow, wide] = [1, WIDE].map(|keys| commit(keys, 0, &versions));
    let check = each(asked.microseconds(&narrow)?, asked.microseconds(&wide)?);
    let [narrow, wide] = [1, WIDE].map(|keys| commit(0, keys, &versions));
    let write = each(asked.microseconds(&narrow)?, asked.microseconds(&wide)?);
    let packet = get - read;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let [client_packet, client_read, client_txn] =
        runtime.block_on(client(&asked.program.address.to_string(), requests))?;
    let (receive, send) = (packet * RECEIVED, packet * (1.0 - RECEIVED));
    Ok(Costs { receive, send, read, check, write, client_packet, client_read, client_txn })
}

/// Of the client library: a packet, a read from a copy, a transaction.
async fn client(address: &str, transactions: usize) -> Result<[f64; 3], Failed> {
    let keeps = Options::new(address).leases(Leases::Endless).connect().await?;
    let asks = Options::new(address).cache_bytes(0).connect().await?;
    spent(&keeps, WIDE, 1).await?;
    let one = spent(&keeps, 1, transactions).await?;
    let wide = spent(&keeps, WIDE, transactions).await?;
    let read = ((wide - one) / (WIDE - 1) as f64).max(0.0);
    // A read that is asked for, and a validation: two packets out, two in.
    let asked = spent(&asks, 1, transactions / 4).await?;
    Ok([((asked - one) / 4.0).max(0.0), read, (one - read).max(0.0)])
}

/// Microseconds of this process's processor for one transaction of so many reads.
async fn spent(client: &Client, keys: usize, transactions: usize) -> Result<f64, Failed> {
    let keys: Vec<String> = (0..keys).map(|key| format!("cost:{key}")).collect();
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let before = process_cpu_seconds()?;
        for _ in 0..transactions {
            let body = async |tx: Transaction| tx.get_many(&keys).await.map(drop);
            client.transaction::<_, Error, _>(body).await?;
        }
        rounds.push(1e6 * (process_cpu_seconds()? - before) / transactions as f64);
    }
    Ok(Summary::of(&rounds).median)
}
