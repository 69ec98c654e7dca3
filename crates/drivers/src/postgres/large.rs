//! Large documents. Those of the generic table go to the server and come from it a piece at a time; rows go and come
//! whole, and few at a time.
//!
//! What is sent as a parameter is in memory four times: encoded, in the message, in the connection's buffer, and in
//! what these have grown out of; what is received as one row is there three times. And connections keep the buffers
//! that they have grown. So a group of commits whose documents are large is sent by COPY, and a large document is read
//! as rows of pieces: both are [`PIECE_BYTES`] at a time, and wait for each other.

use std::io::Cursor;
use std::mem;
use std::pin::pin;

use forebay::runtime::tokio::aside;
use forebay::store::ReadError;
use forebay::value::pieces::{Decoder, PIECE_BYTES, Pieces, encoded_bytes};
use forebay::{Key, Read, TxnId, Value, Version};
use futures_util::future::join;
use futures_util::{SinkExt, TryStreamExt};
use tokio_postgres::types::ToSql;
use tokio_postgres::{CopyInSink, Error};

use super::get_error::GetError;
use super::session::Session;
use super::sql::{LARGE_BYTES, Prepared};
use crate::sql::ids;

/// Reads the document of `key` in pieces, and which of `ids` are applied.
pub(super) async fn get(
    session: &Session,
    key: &Key,
    absence: Version,
    ids: &[Vec<u8>],
) -> Result<(Read, Vec<TxnId>), GetError> {
    let damaged = |why: String| ReadError::Damaged { key: key.clone(), why };
    let (space, name) = (i16::from(key.space()), key.name());
    let parameters: [&(dyn ToSql + Sync); 3] = [&space, &name, &ids];
    let rows = session.client.query_raw(session.statement(Prepared::GetWithIds), parameters).await?;
    let mut rows = pin!(rows);
    let (mut coming, mut applied): (Option<(Version, usize, Decoder)>, _) = (None, Vec::new());
    while let Some(row) = rows.try_next().await? {
        let version =
            ids::version(row.try_get(0)?).ok_or_else(|| damaged("a version or an id has not 16 bytes".into()))?;
        let Some(piece) = row.try_get::<_, Option<&[u8]>>(2)? else {
            applied.push(TxnId(version));
            continue;
        };
        let (_, _, decoder) = match &mut coming {
            Some(coming) => coming,
            None => {
                let len = usize::try_from(row.try_get::<_, i32>(1)?).unwrap_or_default();
                coming.insert((version, len, Decoder::new(len)))
            }
        };
        decoder.feed(piece).map_err(|error| damaged(error.to_string()))?;
    }
    let Some((version, len, decoder)) = coming else { return Ok((Read { value: None, version: absence }, applied)) };
    let value = if len > LARGE_BYTES { aside(|| decoder.end()) } else { decoder.end() };
    Ok((Read { value: Some(value.map_err(|error| damaged(error.to_string()))?), version }, applied))
}

/// A document that is to be written.
pub(super) struct Row<'a> {
    pub(super) key: &'a Key,
    pub(super) version: Version,
    pub(super) value: &'a Value,
}

/// What COPY in its binary form begins with: its name, flags, and the length of what may follow them.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// And ends with, in the place of a count of columns.
const TRAILER: i16 = -1;

const COLUMNS: i16 = 5;

/// Removes `removed`, and adds `rows`, whose keys are among these, in an open transaction.
pub(super) async fn put(
    session: &Session,
    removed: (&[i16], &[&[u8]]),
    rows: impl Iterator<Item = Row<'_>>,
) -> Result<(), Error> {
    let parameters: [&(dyn ToSql + Sync); 2] = [&removed.0, &removed.1];
    let (client, remove, add) =
        (&session.client, session.statement(Prepared::Remove), session.statement(Prepared::Add));
    // Sent together; behind an error nothing is executed.
    let (removed, sink) = join(client.execute(remove, &parameters), client.copy_in(add)).await;
    removed?;
    let sink: CopyInSink<Cursor<Vec<u8>>> = sink?;
    let mut sink = pin!(sink);
    let mut piece = HEADER.to_vec();
    for row in rows {
        begin(&row, &mut piece);
        let mut pieces = Pieces::of(row.value);
        loop {
            if piece.len() >= PIECE_BYTES {
                sink.feed(Cursor::new(mem::take(&mut piece))).await?;
            }
            if !pieces.fill(&mut piece) {
                break;
            }
        }
    }
    piece.extend_from_slice(&TRAILER.to_be_bytes());
    sink.feed(Cursor::new(piece)).await?;
    sink.as_mut().finish().await.map(|_| ())
}

/// Appends all of a row but the value itself, which comes last.
fn begin(row: &Row<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(&COLUMNS.to_be_bytes());
    let mut field = |bytes: &[u8]| {
        out.extend_from_slice(&length(bytes.len()));
        out.extend_from_slice(bytes);
    };
    let space = i16::from(row.key.space()).to_be_bytes();
    let expiry = row.value.expires_at_ms.map(|at_ms| i64::try_from(at_ms).unwrap_or(i64::MAX).to_be_bytes());
    field(&space);
    field(row.key.name());
    field(&row.version.to_bytes());
    match expiry {
        Some(at_ms) => field(&at_ms),
        None => out.extend_from_slice(&(-1i32).to_be_bytes()),
    }
    out.extend_from_slice(&length(encoded_bytes(row.value)));
}

fn length(bytes: usize) -> [u8; 4] {
    i32::try_from(bytes).unwrap_or(i32::MAX).to_be_bytes()
}
