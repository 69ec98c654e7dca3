//! Logical decoding: what others write is read out of the server's log, and costs them nothing.
//!
//! * `slot`: where in the log we are, kept by the server. `line`: the texts in which it says what was written.
//!
//! Three things are not as with notes of triggers, which are rows like others.
//!
//! *The log is ahead.* It has a transaction before any snapshot sees it, for as long as the server waits for its disk
//! or for a standby. Told at once, its keys would leave the cache, be read as they were, and stay. So they are told
//! when a later snapshot sees the transaction ([`Decoder::held`]).
//!
//! *A beginning is not sharp*, for the same reason: what the log had before we began may not be visible yet. So those
//! that are open at the beginning are remembered until they are decoded, or have ended without ([`Decoder::open`]).
//!
//! *A look may take long*: it reads the log again from where the oldest open transaction began. So it runs in a task of
//! its own, and while it goes on for longer than [`SUSPECT`], all that is cached is dropped again and again. The pause
//! behind it is longer the longer it took.

pub(super) mod decoder;
mod line;
pub(super) mod slot;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use forebay::Key;
use forebay::store::Outside;
use futures_util::TryStreamExt;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error};

use self::decoder::{Decoded, Decoder, Decoding, Snapshot};
use self::line::Said;
use self::slot::{NotMade, Source};
use super::classify::told;
use super::database::Inner;
use crate::sql::watching::{LOOK_AGAIN, SUSPECT, told_keys};

/// Most time for one look; then the connection is given up, and what the log has by then is passed over.
const LOOK_TIME_MAX: Duration = Duration::from_secs(120);

/// So much of its time at most the backend that decodes is at work: one of these.
const LOOKS_SHARE: u32 = 5;

/// Pause between two looks whether the log is written.
const FLUSH_LOOK: Duration = Duration::from_millis(10);

/// Characters of a line that are read; it begins with the row, whose key mostly comes first.
const LINE_CHARS_MAX: i32 = 65_536;

/// Changes of some tables `$2`, and ends of transactions if `$4`, since the last time; `$1` is the slot.
const CHANGES: &str = "\
SELECT xid::text, left(data, $3::int) FROM pg_logical_slot_get_changes($1::text, NULL, NULL,
    'include-xids', '0', 'skip-empty-xacts', CASE WHEN $4::boolean THEN '0' ELSE '1' END)
WHERE ($4 AND data = 'COMMIT') OR data LIKE 'table %: TRUNCATE: %' OR EXISTS (
    SELECT FROM unnest($2::text[]) AS n(name) WHERE starts_with(data, 'table ' || n.name || ': '))";

impl Inner {
    /// Waits for something that the log says; everything, for as long as it can't be read.
    pub(super) async fn decoded(self: &Arc<Self>, decoding: &mut Decoding) -> Outside {
        let asked = self.watch.asked();
        loop {
            if let Some(told) = asked.told() {
                return told;
            }
            if let Decoding::Idle(decoder) = decoding {
                let mut decoder = std::mem::take(decoder);
                if decoder.session.is_some() {
                    // Who asks shortens the pause, and not the share of its time that the backend may be at work.
                    let least = decoder.took * (LOOKS_SHARE - 1);
                    sleep(least).await;
                    asked.rest(self.watch.pause().saturating_sub(least)).await;
                }
                let inner = self.clone();
                *decoding = Decoding::AtWork(tokio::spawn(async move {
                    let looked = timeout(LOOK_TIME_MAX, inner.decode(&mut decoder)).await;
                    (decoder, looked.unwrap_or_else(|_| Err("reading the log took too long".into())))
                }));
            }
            let Decoding::AtWork(task) = decoding else { continue };
            let (decoder, looked) = match timeout(SUSPECT, task).await {
                Err(_) => return Outside::OutOfSight,
                Ok(Ok(ended)) => ended,
                Ok(Err(error)) => (Box::default(), Err(format!("the task that decodes ended: {error}"))),
            };
            if looked.is_ok() {
                asked.answered(decoder.asked);
            }
            *decoding = Decoding::Idle(decoder);
            match looked {
                Ok(Outside::Keys(keys)) if keys.is_empty() => {}
                Ok(outside) => return outside,
                Err(why) => {
                    // What the connection has of the log, it has taken.
                    *decoding = Decoding::default();
                    if !self.watch.failed(&why) {
                        sleep(self.timeout.min(SUSPECT)).await;
                    }
                    sleep(LOOK_AGAIN).await;
                    return Outside::OutOfSight;
                }
            }
        }
    }

    /// One look, or the beginning.
    async fn decode(&self, decoder: &mut Decoder) -> Result<Outside, String> {
        let asked = self.watch.asked().newest();
        let outside = self.decode_since(decoder, self.watch.asked().is_wanted(asked)).await?;
        decoder.asked = asked;
        Ok(outside)
    }

    /// The same; where it is `wanted`, with all that is committed by now. What was committed without a wait for the
    /// disk is seen by others at once, and is in the log that can be read up to three times `wal_writer_delay` later.
    async fn decode_since(&self, decoder: &mut Decoder, wanted: bool) -> Result<Outside, String> {
        let Some(session) = decoder.session.as_ref().filter(|session| session.is_good()) else {
            return self.begin(decoder).await.map(|()| Outside::Everything);
        };
        let (began, client) = (Instant::now(), &session.client);
        if wanted {
            flushed(client).await.map_err(|error| told(&error))?;
        }
        // Somebody may have dropped it, made it anew, or read it in our place: what that took we shall never see.
        if self.place(client, &decoder.slot).await? != decoder.place {
            return Err(format!("another program has read or made the replication slot {}", decoder.slot));
        }
        let sources = self.sources(client).await?;
        // Rows may have come and gone with a table, and lines may have been read as what they no longer are.
        let moved = sources != decoder.sources;
        if moved {
            decoder.held.iter_mut().for_each(|written| written.keys = None);
        }
        decoder.sources = sources;
        let decoded = self.read_log(decoder).await?;
        let now = snapshot(client).await?;
        let place = self.place(client, &decoder.slot).await?;
        let outside = decoder.take(decoded, now, &self.watch.own());
        decoder.place = place;
        decoder.took = began.elapsed();
        let outside = if moved { Outside::Everything } else { outside };
        self.watch.looked(began, told_keys(&outside));
        Ok(outside)
    }

    /// Where the slot stands, of which something is known then.
    async fn place(&self, client: &Client, slot: &str) -> Result<String, String> {
        let state = slot::state(client, slot).await.map_err(|error| told(&error))?;
        let state = state.ok_or_else(|| format!("another session has dropped the replication slot {slot}"))?;
        if state.lost {
            return Err(format!("the server gave up the log that it kept for the replication slot {slot}"));
        }
        self.watch.retains(state.retained_bytes);
        Ok(state.place)
    }

    /// Where rows lie now, all of it in the log.
    async fn sources(&self, client: &Client) -> Result<Vec<Source>, String> {
        let rows = self.rows();
        let sources = slot::sources(client, rows.as_ref().map_or(&[], |rows| &rows.tables))
            .await
            .map_err(|error| told(&error))?;
        sources.iter().find_map(Source::unlogged).map_or(Ok(sources), Err)
    }

    async fn read_log(&self, decoder: &Decoder) -> Result<Decoded, String> {
        let Some(session) = &decoder.session else { return Err("there is no connection".into()) };
        let mapped = self.rows();
        let names: Vec<&str> = decoder.sources.iter().map(|source| source.name.as_str()).collect();
        let commits = !decoder.open.is_empty();
        let parameters: [&(dyn ToSql + Sync); 4] = [&decoder.slot, &names, &LINE_CHARS_MAX, &commits];
        let rows = session.client.query_raw(CHANGES, parameters).await.map_err(|error| told(&error))?;
        let (mut rows, mut decoded) = (pin!(rows), Decoded::default());
        while let Some(row) = rows.try_next().await.map_err(|error| told(&error))? {
            let (number, line): (&str, &str) = (row.get(0), row.get(1));
            let number: u32 = number.parse().map_err(|_| format!("{number} is no number of a transaction"))?;
            if line == "COMMIT" {
                decoded.ended.insert(number);
                continue;
            }
            let truncated = line::truncated(line);
            if truncated.iter().any(|name| names.contains(name)) {
                decoded.add(number, None);
            }
            for source in decoder.sources.iter().filter(|_| truncated.is_empty()) {
                for table in mapped.iter().flat_map(|rows| &rows.tables).filter(|table| source.is_of(table)) {
                    match line::said(line, &source.name, &table.mapping.key, source.identified(table)) {
                        Some(Said::Keys(keys)) => {
                            let named = keys.iter().filter_map(|key| table.mapping.pattern.join(key));
                            decoded.add(number, Some(named.map(|name| Key::new(0, name.as_bytes())).collect()));
                        }
                        Some(Said::Unclear) => decoded.add(number, None),
                        None => {}
                    }
                }
            }
        }
        Ok(decoded)
    }

    /// Goes on from what the log has now: what it had before, a cache that is dropped need not know.
    async fn begin(&self, decoder: &mut Decoder) -> Result<(), String> {
        *decoder = Decoder::default();
        let began = Instant::now();
        let name = format!("{}decoding", self.identity.prefix());
        let session = timeout(self.timeout, self.pool.connect_again(name)).await;
        let session = session.unwrap_or_else(|_| Err(self.no_connection()))?;
        let client = &session.client;
        decoder.slot = slot::name(client).await.map_err(|error| told(&error))?;
        slot::make(client, &decoder.slot).await.map_err(|not| match not {
            NotMade::Waits(why) | NotMade::Never(why) => why,
        })?;
        let advance =
            "SELECT pg_replication_slot_advance(slot_name, greatest(confirmed_flush_lsn, pg_current_wal_lsn()))
            FROM pg_replication_slots WHERE slot_name = $1::text";
        client.execute(advance, &[&decoder.slot]).await.map_err(|error| told(&error))?;
        decoder.place = self.place(client, &decoder.slot).await?;
        decoder.sources = self.sources(client).await?;
        decoder.snapshot = snapshot(client).await?;
        decoder.open = decoder.snapshot.open.iter().copied().collect();
        decoder.session = Some(session);
        self.watch.looked(began, 0);
        Ok(())
    }
}

/// Waits until the server has written the log that it has by now.
async fn flushed(client: &Client) -> Result<(), Error> {
    let until: String = client.query_one("SELECT pg_current_wal_insert_lsn()::text", &[]).await?.try_get(0)?;
    let is_there = "SELECT pg_current_wal_flush_lsn() >= $1::text::pg_lsn";
    while !client.query_one(is_there, &[&until]).await?.try_get::<_, bool>(0)? {
        sleep(FLUSH_LOOK).await;
    }
    Ok(())
}

async fn snapshot(client: &Client) -> Result<Snapshot, String> {
    let row = client.query_one("SELECT pg_current_snapshot()::text", &[]).await.map_err(|error| told(&error))?;
    Snapshot::parse(row.get(0)).ok_or_else(|| "the server's snapshot has another form".into())
}
