//! What waits while nothing is applied, since another forebay had the database: an operator decides about each
//! ticket.

use std::time::{Duration, Instant};

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::Forebay;
use crate::postgres::Server;
use crate::proxy::Proxy;
use crate::state::{PATIENCE, calm, entry, figure, mode, said};
use crate::{ok, start, start_through};

/// Names and values as they stand in the table: of a string the bytes are among the value's.
const DOCUMENTS: &str = "\
SELECT string_agg(convert_from(name, 'UTF8') || ':' || encode(value, 'escape'), ' ' ORDER BY name)
FROM forebay.documents";

/// A forebay that buffered while another had the database, and is started again.
struct Suspended {
    server: Server,
    database: String,
    network: Proxy,
    forebay: Forebay,
}

impl Suspended {
    /// What it writes before the network is cut and behind that, and what the other one writes then. What it writes is
    /// taken unseen.
    fn by(before: &[&str], own: &[&str], others: &[&str]) -> Suspended {
        let server = Server::start();
        let database = server.database();
        let network = Proxy::to_postgres(server.address());
        let mut forebay = start_through(&network, &server, &database, &[]);
        let write = |forebay: &Forebay, commands: &[&str]| {
            let mut client = Connection::new(forebay.address);
            assert_eq!(client.call(&["CACHE", "BLIND", "ON"]), ok());
            for command in commands {
                let reply = client.call(&command.split(' ').collect::<Vec<_>>());
                assert!(!matches!(reply, Reply::Error(_)), "{command}: {reply:?}");
            }
        };
        write(&forebay, before);
        network.close();
        write(&forebay, own);
        let mut second = start(&server, &database, &[]);
        write(&second, others);
        second.terminate();
        forebay.kill9();
        network.pass();
        forebay.restart();
        let first = Suspended { server, database, network, forebay };
        first.is_suspended(own.len() as i64);
        first
    }

    fn client(&self) -> Connection {
        Connection::new(self.forebay.address)
    }

    fn is_suspended(&self, pending: i64) {
        let mut client = self.client();
        assert_ne!(entry(&mut client, "suspended"), Reply::Nil);
        assert_eq!(figure(&mut client, "pending"), pending);
    }

    fn restart(&mut self) {
        self.forebay.restart();
    }

    fn documents(&self) -> String {
        self.server.sql(&self.database, DOCUMENTS)
    }
}

fn decide(client: &mut Connection, action: &str, ticket: &str) -> String {
    said(&client.call(&["CACHE", "QUARANTINE", action, ticket, "looked at by hand"]))
}

fn is_applied(client: &mut Connection, ticket: &str) {
    let told = said(&client.call(&["CACHE", "WAIT", ticket, "60000"]));
    assert!(told.starts_with("APPLIED "), "{told}");
}

fn shown(client: &mut Connection, ticket: &str) -> String {
    said(&client.call(&["CACHE", "QUARANTINE", "SHOW", ticket]))
}

/// Each ticket by itself: what it would overwrite is shown, one is applied, the others wait; behind the last one all is
/// as ever.
#[test]
fn each_ticket_is_decided_by_itself() {
    let before = ["SET both old", "SET same old"];
    let own = ["SET both first", "SET mine first", "MSET both again same again", "SET last first"];
    let first = Suspended::by(&before, &own, &["SET both second"]);
    let mut client = first.client();
    let both = shown(&mut client, "1");
    assert!(both.contains("now string 32 B then string 32 B since changed since by another owner"), "{both}");
    let mine = shown(&mut client, "2");
    assert!(mine.contains("now nothing then string 32 B since not known"), "{mine}");
    let more = shown(&mut client, "3");
    assert!(more.contains("now string 32 B then string 32 B since not changed since by another owner"), "{more}");
    let behind = decide(&mut client, "APPLY", "3");
    assert!(behind.starts_with("ERR ticket 3 goes behind ticket 1,"), "{behind}");
    assert_eq!(decide(&mut client, "APPLY", "1"), "OK");
    is_applied(&mut client, "1");
    first.is_suspended(3);
    let documents = first.documents();
    assert!(documents.contains("both:") && documents.contains("first") && !documents.contains("mine"), "{documents}");
    assert_eq!(client.call(&["GET", "both"]), Reply::bulk(b"again"), "the other ticket is shown on top");
    assert!(decide(&mut client, "APPLY", "1").starts_with("ERR ticket 1 is already applied"));
    assert_eq!([decide(&mut client, "DROP", "2"), decide(&mut client, "APPLY", "3")], ["OK", "OK"]);
    is_applied(&mut client, "3");
    first.is_suspended(1);
    assert_eq!(decide(&mut client, "DROP", "4"), "OK");
    assert_eq!([said(&entry(&mut client, "suspended")), mode(&mut client)], ["Nil", "normal"]);
    assert_eq!(client.call(&["SET", "new", "1"]), ok());
    assert!(said(&client.call(&["CACHE", "OUTCOME"])).starts_with("COMMITTED "));
    let documents = first.documents();
    assert!(!documents.contains("mine") && !documents.contains("last") && documents.contains("new"), "{documents}");
    assert_eq!(documents.matches("again").count(), 2, "{documents}");
}

/// The reply to an APPLY is lost and the process killed: it is in the table once, though it is sent again.
#[test]
fn an_apply_that_was_killed_is_done_once() {
    let mut first = Suspended::by(&[], &["INCRBY n 5"], &["SET n 10"]);
    let mut client = first.client();
    // Over the connection that this leaves the ticket goes, and its reply is lost.
    assert_eq!(client.call(&["SET", "warm", "1"]), ok());
    first.network.drop_ends();
    assert_eq!(decide(&mut client, "APPLY", "1"), "OK");
    let began = Instant::now();
    while !first.documents().contains("15") {
        assert!(began.elapsed() < PATIENCE, "{}", first.documents());
        std::thread::sleep(Duration::from_millis(10));
    }
    first.forebay.kill9();
    first.network.pass();
    first.restart();
    // What the operator was answered stands: it is sent again, and found there.
    calm(first.forebay.address);
    let mut client = first.client();
    assert_eq!(said(&entry(&mut client, "suspended")), "Nil");
    assert!(first.documents().contains("15"), "{}", first.documents());
    first.restart();
    assert_eq!(first.client().call(&["GET", "n"]), Reply::bulk(b"15"));
}
