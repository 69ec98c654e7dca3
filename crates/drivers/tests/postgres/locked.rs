//! What some reads run into, others are none the worse for: tables that somebody else has locked, replies that get
//! lost.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use forebay::store::suite::block_on;
use forebay::store::{Outside, ReadError, Store};
use forebay_drivers::postgres::{OpenError, Postgres, setup};
use forebay_drivers::{Options, VersionMode};

use crate::mapping::{World, key, until_told};
use crate::open;
use crate::proxy::Proxy;

const TABLES: &str = "\
CREATE TABLE free (id integer PRIMARY KEY, n integer); INSERT INTO free SELECT n, n FROM generate_series(1, 100) AS n;
CREATE TABLE held (id integer PRIMARY KEY, n integer); INSERT INTO held SELECT n, n FROM generate_series(1, 100) AS n;";

const LOCK: &str = "LOCK TABLE held IN ACCESS EXCLUSIVE MODE";

/// Few connections, over which all reads go, and a timeout that a busy machine keeps.
fn world() -> (World, Postgres) {
    let mut world = World::new(TABLES, &["free:{id} -> free(id) version(column)", "held:{id} -> held(id)"]);
    world.options = Options { timeout: Duration::from_millis(1_500), readers: 2, ..world.options };
    let (store, _) = world.open();
    (world, store)
}

fn connections(world: &World) -> u64 {
    let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'forebay%'";
    world.sql(count).parse().expect("a number")
}

/// Its triggers want a lock for which it would wait behind any open transaction, and everybody else behind it.
#[test]
fn a_table_in_use_is_not_waited_for_without_end() {
    let world = World::new(TABLES, &["held:{id} -> held(id) version(column)"]);
    let refused = world.server.while_locked(&world.database, "LOCK TABLE held IN ACCESS SHARE MODE", || {
        world.runtime.block_on(setup::init(&world.options, VersionMode::None)).expect_err("it is in use")
    });
    assert!(matches!(refused, OpenError::InUse { .. }), "{refused}");
    assert_eq!(world.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'forebay'"), "0", "all or nothing");
    world.runtime.block_on(setup::init(&world.options, VersionMode::None)).expect("it is free");
}

#[test]
fn a_locked_table_keeps_reads_of_others_from_nothing() {
    let (world, store) = world();
    let before = connections(&world);
    let (stop, others, refused) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    world.server.while_locked(&world.database, LOCK, || {
        std::thread::scope(|scope| {
            for _ in 0..40 {
                scope.spawn(|| {
                    while !stop.load(Ordering::SeqCst) {
                        match block_on(store.get(&[key("held:1")])) {
                            Err(ReadError::Locked(_)) => refused.fetch_add(1, Ordering::SeqCst),
                            other => panic!("{other:?}"),
                        };
                    }
                });
            }
            for client in 1..5 {
                let (stop, others, store) = (&stop, &others, &store);
                scope.spawn(move || {
                    while !stop.load(Ordering::SeqCst) {
                        let read = block_on(store.get(&[key(&format!("free:{client}"))]));
                        assert!(matches!(read.as_deref(), Ok([_])), "{read:?}");
                        others.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            std::thread::sleep(Duration::from_secs(4));
            // One connection for reads of the locked table, whatever their number.
            let more = connections(&world) - before;
            stop.store(true, Ordering::SeqCst);
            assert!(more <= 3, "{more} connections more");
        });
    });
    let (others, refused) = (others.into_inner(), refused.into_inner());
    assert!(others > 100 && refused >= 40, "{others} of others, {refused} refused");
    let began = Instant::now();
    while block_on(store.get(&[key("held:1")])).is_err() {
        assert!(began.elapsed() < Duration::from_secs(20), "it is locked no more");
    }
    // And not over one connection any more.
    assert!(block_on(store.get(&[key("held:2"), key("free:2")])).is_ok());
}

/// A lock that goes in time is waited for.
#[test]
fn a_table_that_is_locked_for_a_moment_is_read_then() {
    let (world, store) = world();
    std::thread::scope(|scope| {
        let mut reads = Vec::new();
        world.server.while_locked(&world.database, LOCK, || {
            let read = || scope.spawn(|| block_on(store.get(&[key("held:1"), key("free:1")])));
            reads = (0..8).map(|_| read()).collect();
            std::thread::sleep(Duration::from_millis(500));
        });
        for read in reads {
            let read = read.join().expect("it ends well");
            assert!(matches!(read.as_deref(), Ok([_, _])), "{read:?}");
        }
    });
}

/// A network that is slow, and in time all the same, does not make an outage of a lock. What was waited for the lock
/// does not count as time that the server took, neither while it is held nor once it is gone.
#[test]
fn a_locked_table_behind_a_slow_network_is_no_outage() {
    let (world, store) = world();
    drop(store);
    let network = Proxy::to_postgres(world.server.address());
    let address = world.server.url_through(&world.database, network.address).parse().expect("a URL");
    let store = open(&world.runtime, Options { address, ..world.options.clone() }).expect("it opens");
    let refused = AtomicU64::new(0);
    let read = || loop {
        match block_on(store.get(&[key("held:1")])) {
            Err(ReadError::Locked(_)) => refused.fetch_add(1, Ordering::SeqCst),
            Ok(_) => return,
            other => panic!("{other:?}"),
        };
    };
    std::thread::scope(|scope| {
        let mut readers = Vec::new();
        world.server.while_locked(&world.database, LOCK, || {
            readers.extend((0..8).map(|_| scope.spawn(read)));
            while refused.load(Ordering::SeqCst) == 0 {
                std::thread::sleep(Duration::from_millis(5));
            }
            // Each shared connection is there again: to make one takes many replies.
            (0..4).for_each(|_| assert!(block_on(store.get(&[key("free:1")])).is_ok()));
            network.delay(Duration::from_millis(150));
            let began = Instant::now();
            while began.elapsed() < Duration::from_secs(8) && !readers.iter().any(|reader| reader.is_finished()) {
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        for reader in readers {
            reader.join().expect("it is refused until it is answered");
        }
    });
    assert!(refused.into_inner() >= 16);
}

/// Where all is cached nothing but looks at what others write goes over the shared connections: one that gets no reply
/// gives its connection up all the same, or nobody would ever look over a good one.
#[test]
fn looks_whose_replies_get_lost_go_on_over_other_connections() {
    let (world, store) = world();
    drop(store);
    let network = Proxy::to_postgres(world.server.address());
    let address = world.server.url_through(&world.database, network.address).parse().expect("a URL");
    let options = Options { address, timeout: Duration::from_millis(1_000), readers: 4, ..world.options.clone() };
    let store = open(&world.runtime, options).expect("it opens");
    while block_on(store.outside()).expect("it is looked") != Outside::Everything {}
    // Each connection has one.
    for _ in 0..8 {
        while block_on(store.get(&[key("free:1")])).is_err() {}
    }
    network.drop_replies();
    // Until each has lost one.
    let dropped = network.dropped();
    while network.dropped() < dropped + 4 {
        assert_eq!(block_on(store.outside()), Some(Outside::OutOfSight));
    }
    network.pass();
    let mut told = Vec::new();
    while told.last() != Some(&Outside::Everything) {
        assert!(told.len() < 3, "{told:?}");
        told.push(block_on(store.outside()).expect("it is looked"));
    }
    world.sql("UPDATE free SET n = 0 WHERE id = 7");
    assert!(until_told(&store, "free:7").contains(&key("free:7")));
}
