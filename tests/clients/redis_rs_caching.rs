//! redis-rs' own cache, on a connection that tasks share: no read is stale behind an invalidation, whatever has changed
//! the key.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::caching::CacheConfig;
use redis::{AsyncCommands, AsyncConnectionConfig, Client, RedisResult};

use crate::server::Server;

const ROUNDS: usize = 60;

fn client(server: &Server) -> Client {
    let url = format!("redis://127.0.0.1:{}/?protocol=resp3", server.port());
    Client::open(url).expect("the address is sound")
}

/// A connection that keeps what it reads.
async fn caching(client: &Client) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_cache_config(CacheConfig::new());
    client.get_multiplexed_async_connection_with_config(&config).await
}

/// What was read without a request.
fn hits(of: &MultiplexedConnection) -> usize {
    of.get_cache_statistics().map_or(0, |statistics| statistics.hit)
}

async fn told(reader: &mut MultiplexedConnection) -> RedisResult<()> {
    redis::cmd("PING").query_async(reader).await
}

/// Changes `key` by one of several ways, and says what it holds then.
async fn change(writer: &mut MultiplexedConnection, key: &str, round: usize) -> RedisResult<Option<String>> {
    let value = format!("v{round}");
    let beside = format!("{key}:beside");
    match round % 6 {
        0 => writer.mset::<_, _, ()>(&[(key, &value), (&beside, &value)]).await?,
        1 => redis::pipe().atomic().set(key, "between").set(key, &value).exec_async(writer).await?,
        2 => writer.del(key).await?,
        3 => {
            writer.pset_ex::<_, _, ()>(key, &value, 20).await?;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        4 => redis::cmd("FLUSHDB").exec_async(writer).await?,
        _ => writer.append(key, &value).await?,
    }
    Ok((!matches!(round % 6, 2..=4)).then_some(value))
}

async fn each_write_is_seen(client: &Client) -> RedisResult<()> {
    let (mut reader, mut writer) = (caching(client).await?, client.get_multiplexed_async_connection().await?);
    for round in 0..ROUNDS {
        let key = format!("k{}", round % 5);
        let _: Option<String> = reader.get(&key).await?;
        let wanted = change(&mut writer, &key, round).await?;
        told(&mut reader).await?;
        assert_eq!(reader.get::<_, Option<String>>(&key).await?, wanted, "round {round}");
        let before = hits(&reader);
        assert_eq!(reader.get::<_, Option<String>>(&key).await?, wanted, "round {round}");
        assert_eq!(hits(&reader), before + 1, "round {round}: it was asked for again");
    }
    Ok(())
}

/// Reads counters as long as others write; they must never go back. What is read last may be old: redis-rs 1.8 keeps a
/// reply after its task has woken, and forgets what it was told until then. So it does with redis-server.
async fn read_on(mut reader: MultiplexedConnection, keys: &[&str], writing: Arc<AtomicBool>) -> RedisResult<()> {
    let mut last = vec![0; keys.len()];
    while writing.load(Ordering::SeqCst) {
        for (key, last) in keys.iter().zip(&mut last) {
            let value = reader.get::<_, Option<i64>>(key).await?.unwrap_or(0);
            assert!(value >= *last, "{key}: {value} after {last}");
            *last = value;
        }
        // Hits need no turn of the loop, in which messages are taken.
        tokio::task::yield_now().await;
    }
    Ok(())
}

async fn readers_never_go_back(client: &Client) -> RedisResult<()> {
    const KEYS: [&str; 3] = ["a", "b", "c"];
    let writing = Arc::new(AtomicBool::new(true));
    let mut readers = Vec::new();
    for _ in 0..3 {
        readers.push(tokio::spawn(read_on(caching(client).await?, &KEYS, writing.clone())));
    }
    let mut writer = client.get_multiplexed_async_connection().await?;
    for _ in 0..60 {
        for key in KEYS {
            writer.incr::<_, _, ()>(key, 1).await?;
        }
    }
    writing.store(false, Ordering::SeqCst);
    for reader in readers {
        reader.await.expect("a reader does not panic")?;
    }
    Ok(())
}

#[test]
fn redis_rs_caches() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let server = Server::start();
    let client = client(&server);
    let ran = runtime.block_on(async {
        each_write_is_seen(&client).await?;
        readers_never_go_back(&client).await
    });
    ran.unwrap_or_else(|error| panic!("{error}\n{}", server.log()));
    server.stop();
}
