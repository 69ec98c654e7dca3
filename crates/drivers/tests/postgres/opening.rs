//! Who may open a database, and what it finds.

use std::time::Duration;

use forebay::change::Change;
use forebay::store::suite::{block_on, write};
use forebay::store::{Commit, CommitOutcome, Store};
use forebay::version::Mint;
use forebay::{Key, TxnId, Value};
use forebay_drivers::postgres::OpenError;
use forebay_drivers::{Known, Options};

use crate::proxy::Proxy;
use crate::server::{Server, Stop};
use crate::{PATIENT, open, options, tokio_runtime};

pub fn put(mint: &Mint, name: &[u8]) -> Commit {
    let writes = vec![write(&Key::new(0, name), None, vec![Change::Put(Value::bytes(*b"x"))])];
    Commit::new(TxnId(mint.next()), mint.next(), writes)
}

#[test]
fn one_forebay_per_database() {
    let server = Server::start();
    let (first, second) = (server.database(), server.database());
    let runtime = tokio_runtime();
    let store = open(&runtime, options(&server, &first)).expect("it opens");
    let other = open(&runtime, options(&server, &second)).expect("another database is another matter");
    let refused = open(&runtime, options(&server, &first)).err().expect("one is enough");
    assert!(matches!(refused, OpenError::Taken { .. }), "{refused}");
    assert!(!refused.to_string().contains('\n'));
    drop((store, other));
    open(&runtime, options(&server, &first)).expect("it is free again");
}

#[test]
fn what_is_wrong_is_one_line_with_the_fix() {
    let server = Server::start();
    let database = server.database();
    let runtime = tokio_runtime();
    let error = |url: &str| {
        let options = Options::new(url.parse().expect("a URL"));
        open(&runtime, options).err().expect("it can't be opened").to_string()
    };
    let text = error(&server.url("nowhere"));
    assert!(text.contains("does not let role app in") && text.contains("does not exist"), "{text}");
    let text = error("postgres://app@127.0.0.1:1/shop");
    assert!(text.contains("127.0.0.1:1/shop") && text.contains("start it"), "{text}");
    // A role that may not make a schema.
    server.sql(&database, "CREATE ROLE poor LOGIN");
    let text = error(&server.url(&database).replace("app@", "poor@"));
    assert!(text.contains("forebay store init --print"), "{text}");
    let text = error(&format!("{}?sslmode=require", server.url(&database)));
    assert!(text.contains("TLS"), "{text}");
}

/// A database that was restored to an earlier state begins a new incarnation, so that nothing cached is believed.
#[test]
fn a_restored_database_is_recognised() {
    let server = Server::start();
    let database = server.database();
    let runtime = tokio_runtime();
    let store = open(&runtime, options(&server, &database)).expect("it opens");
    let (mint, before) = (Mint::new(store.incarnation()), store.incarnation());
    let lost = put(&mint, b"lost");
    assert_eq!(block_on(store.commit(std::slice::from_ref(&lost))), [CommitOutcome::Committed(Vec::new())]);
    server.stop(Stop::Fast);
    server.start_again();
    block_on(store.get(&[Key::new(0, b"lost")])).ok();
    assert_eq!(store.incarnation(), before, "a restart loses nothing");
    // As a restored backup has it: neither the document nor the id.
    server.sql(&database, "TRUNCATE forebay.applied, forebay.documents");
    server.stop(Stop::Fast);
    server.start_again();
    let read = (0..100).find_map(|_| block_on(store.get(&[Key::new(0, b"lost")])).ok());
    assert_eq!(read.expect("it can be read").remove(0).value, None);
    assert!(store.incarnation() > before);
}

/// The last answer that came need not be to what stands last in the log: whatever is missing of what was acknowledged
/// lately says that it is an earlier state; and so does the next opening, by what it is told.
#[test]
fn an_older_commit_that_is_missing_is_noticed() {
    let server = Server::start();
    let database = server.database();
    let runtime = tokio_runtime();
    let store = open(&runtime, options(&server, &database)).expect("it opens");
    let (mint, before) = (Mint::new(store.incarnation()), store.incarnation());
    let commits = [put(&mint, b"a"), put(&mint, b"b"), put(&mint, b"c")];
    for commit in &commits {
        assert_eq!(block_on(store.commit(std::slice::from_ref(commit))), [CommitOutcome::Committed(Vec::new())]);
    }
    let known = Known { incarnation: before, acknowledged: store.acknowledged(), ..Known::default() };
    assert_eq!(known.acknowledged, commits.each_ref().map(|commit| commit.id));
    drop(store);
    let again = |known: &Known| {
        let options = Options { known: known.clone(), ..options(&server, &database) };
        open(&runtime, options).expect("it opens again")
    };
    let store = again(&known);
    assert_eq!((store.went_back(), store.incarnation()), (false, before + 1), "all of it is there");
    assert_eq!(store.acknowledged(), known.acknowledged, "it is still by these that it is recognised");
    let first = "DELETE FROM forebay.applied WHERE id = (SELECT id FROM forebay.applied ORDER BY id LIMIT 1)";
    server.sql(&database, first);
    server.stop(Stop::Fast);
    server.start_again();
    (0..100).find_map(|_| block_on(store.get(&[Key::new(0, b"a")])).ok()).expect("it can be read");
    assert!(store.incarnation() > before + 1 && store.acknowledged().is_empty());
    drop(store);
    let store = again(&known);
    assert!(store.went_back() && store.acknowledged().is_empty());
    drop(store);
    // One that was opened less often than is known is older; nothing is minted again.
    let future = Known { incarnation: 1_000, ..Known::default() };
    let store = again(&future);
    assert!(store.went_back() && store.incarnation() == 1_001);
}

/// More commits than ids are remembered: the last answer as before, the first are refused, never applied anew.
#[test]
fn ids_are_forgotten_below_a_floor() {
    let server = Server::start();
    let database = server.database();
    let runtime = tokio_runtime();
    let store = open(&runtime, options(&server, &database)).expect("it opens");
    let mint = Mint::new(store.incarnation());
    let commits: Vec<Commit> = (0..80_000).map(|_| put(&mint, b"a")).collect();
    for group in commits.chunks(2_000) {
        assert!(block_on(store.commit(group)).iter().all(|outcome| matches!(outcome, CommitOutcome::Committed(_))));
    }
    let ids = || server.sql(&database, "SELECT count(*) FROM forebay.applied").parse::<u64>().expect("a number");
    while ids() > 76_000 {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let first = block_on(store.commit(&commits[..1])).remove(0);
    assert!(matches!(first, CommitOutcome::Refused(_)), "{first:?}");
    assert!(block_on(store.outcome(commits[0].id)).is_err(), "what became of it is not known any more");
    assert_eq!(block_on(store.commit(&commits[79_999..])), [CommitOutcome::Committed(Vec::new())]);
    drop(store);
    let known = Known { incarnation: 1, acknowledged: vec![commits[0].id, commits[79_999].id], ..Known::default() };
    let store = open(&runtime, Options { known, ..options(&server, &database) }).expect("it opens again");
    assert!(!store.went_back(), "what is forgotten was there");
    let first = block_on(store.commit(&commits[..1])).remove(0);
    assert!(matches!(first, CommitOutcome::Refused(_)), "{first:?}");
}

/// TLS with a root of one's own, and never without checking it.
#[test]
fn tls_checks_the_server() {
    let server = Server::start();
    let database = server.database();
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
    server.use_tls(&made.cert.pem(), &made.signing_key.serialize_pem());
    server.stop(Stop::Fast);
    server.start_again();
    let roots = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(roots.path(), made.cert.pem()).expect("it can be written");
    let runtime = tokio_runtime();
    let at = |query: &str| {
        let address = format!("{}?sslmode=require{query}", server.url(&database)).parse().expect("a URL");
        open(&runtime, Options { address, ..options(&server, &database) })
    };
    let store = at(&format!("&sslrootcert={}", roots.path().display())).expect("its root is known");
    assert_eq!(block_on(store.commit(&[put(&Mint::new(store.incarnation()), b"a")])).len(), 1);
    let encrypted = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
        WHERE application_name LIKE 'forebay %' AND NOT ssl";
    assert_eq!(server.sql(&database, encrypted), "0");
    drop(store);
    let refused = at("").err().expect("nobody vouches for it").to_string();
    assert!(refused.contains("certificate"), "{refused}");
}

/// What stands under our names may be somebody else's: that is an error, never a panic.
#[test]
fn objects_of_other_types_are_an_error() {
    let server = Server::start();
    let runtime = tokio_runtime();
    let meta = |columns: &str, values: &str| {
        let database = server.database();
        let tables = format!(
            "CREATE SCHEMA forebay; CREATE TABLE forebay.applied (id bytea, applied boolean);
             CREATE TABLE forebay.given (x bytea);
             CREATE TABLE forebay.meta ({columns}); INSERT INTO forebay.meta VALUES ({values})"
        );
        server.sql(&database, &tables);
        open(&runtime, options(&server, &database)).err().expect("it can't be opened").to_string()
    };
    assert!(meta("format text, incarnation bigint, floor bytea", "'1', 0, ''").contains("column 0"));
    assert!(meta("format integer, incarnation bigint, floor text", "1, 0, ''").contains("column 1"));
    assert!(meta("format integer, incarnation integer, floor bytea", "1, 0, ''").contains("column 2"));
    let database = server.database();
    let store = open(&runtime, options(&server, &database)).expect("it opens");
    let mint = Mint::new(store.incarnation());
    let committed = block_on(store.commit(&[put(&mint, b"k")])).remove(0);
    assert!(matches!(committed, CommitOutcome::Committed(_)), "{committed:?}");
    server.sql(&database, "ALTER TABLE forebay.documents ALTER COLUMN value TYPE text USING 'x'");
    for keys in [&[Key::new(0, b"k")][..], &[Key::new(0, b"k"), Key::new(0, b"l")]] {
        assert!(block_on(store.get(keys)).is_err());
    }
    server.sql(&database, "ALTER TABLE forebay.documents ALTER COLUMN name TYPE text USING 'x'");
    assert!(block_on(store.scan(0, None, 10)).is_err());
}

/// At the start a database that is slower than a call may be is waited for; one that lets us in and hangs then is not
/// waited for without end.
#[test]
fn a_slow_database_is_opened_and_one_that_hangs_is_told_of() {
    let server = Server::start();
    let database = server.database();
    let runtime = tokio_runtime();
    let network = Proxy::to_postgres(server.address());
    let address = server.url_through(&database, network.address).parse().expect("a URL");
    let timeout = Duration::from_millis(50);
    let options = Options { timeout, first: PATIENT, ..Options::new(address) };
    network.delay(Duration::from_millis(200));
    drop(open(&runtime, options.clone()).expect("it is slow, and there"));
    let impatient = Options { first: timeout, ..options.clone() };
    let refused = open(&runtime, impatient).err().expect("no more time than for any later connection");
    assert!(matches!(refused, OpenError::Unreachable { .. }), "{refused}");
    network.pass();
    let refused = server.while_locked(&database, "LOCK TABLE forebay.meta", || {
        let options = Options { opening: Duration::from_secs(1), ..options.clone() };
        open(&runtime, options).err().expect("it does not answer")
    });
    assert!(matches!(refused, OpenError::Hangs { seconds: 1, .. }), "{refused}");
    open(&runtime, options).expect("nothing of it is left");
}
