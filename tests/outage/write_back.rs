//! Write-back under more load than the database can take.

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::postgres::Server;
use crate::state::{calm, figure, mode, said};
use crate::{ok, start};

/// Connections, requests that each sends at once, and how often.
const CLIENTS: usize = 8;
const PIPELINE: usize = 64;
const ROUNDS: usize = 12;

/// More is on its way at once than there is room for, and the database takes what it is given: nobody is refused, the
/// mode stays, and all is in the table in the end.
#[test]
fn a_database_that_is_there_leaves_nobody_without_room() {
    let server = Server::start();
    let database = server.database();
    let more = ["--write-back-ms", "1000", "--outage-bytes-max", "256KiB", "--drain-per-second-max", "100"];
    // However busy the machine is, that is no outage.
    let patient = ["--store-timeout-ms", "20000", "--lock-wait-ms-min", "30000", "--lock-wait-ms-max", "40000"];
    let forebay = start(&server, &database, &[more, patient].concat());
    let value = "x".repeat(1_000);
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (address, value) = (forebay.address, &value);
            scope.spawn(move || {
                let mut connection = Connection::new(address);
                for round in 0..ROUNDS {
                    let set = |at: usize| vec!["SET".to_owned(), format!("{client}:{round}:{at}"), value.clone()];
                    let requests: Vec<Vec<String>> = (0..PIPELINE).map(set).collect();
                    for reply in connection.pipeline(&requests) {
                        assert_eq!(reply, ok(), "{}", said(&reply));
                    }
                }
            });
        }
    });
    let mut client = Connection::new(forebay.address);
    assert_eq!((mode(&mut client), figure(&mut client, "full")), ("normal".into(), 0));
    let told = said(&client.call(&["INFO", "outage"]));
    assert!(!told.contains("outage_buffered_total:0\r"), "{told}");
    calm(forebay.address);
    let rows = server.sql(&database, "SELECT count(*) FROM forebay.documents WHERE length(value) >= 1000");
    assert_eq!(rows, (CLIENTS * PIPELINE * ROUNDS).to_string());
    assert_eq!(client.call(&["DBSIZE"]), Reply::Integer((CLIENTS * PIPELINE * ROUNDS) as i64));
}
