//! Where lists lie that many append to: in the table that forebay owns, or in rows of a table that was there before.

use crate::appends::{Appends, Told};
use crate::common::Connection;
use crate::common::process::{Forebay, forebay_command};
use crate::postgres::Server;
use crate::state::calm;

/// Where they lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// Documents of forebay's own table.
    Documents,
    /// Rows of a table that the database's owner has made.
    Rows,
}

/// Rows without an array yet, and with one; others are made.
const TABLE: &str = "\
CREATE TABLE lists (id integer PRIMARY KEY, elements text[], note text NOT NULL DEFAULT 'ours');
INSERT INTO lists VALUES (0, NULL), (1, '{}')";

const MAP: [&str; 2] = ["--map", "list{id} -> lists(id).elements as list"];

impl Ground {
    /// Both.
    pub const ALL: [Ground; 2] = [Ground::Documents, Ground::Rows];

    /// Makes the table, if it takes one; what forebay is to be told of it.
    pub fn prepare(self, server: &Server, database: &str) -> &'static [&'static str] {
        if self == Ground::Documents {
            return &[];
        }
        server.sql(database, TABLE);
        let mut init = forebay_command();
        init.args(["store", "init", "--store", &server.url(database)]).args(MAP);
        assert!(init.status().expect("the binary runs").success());
        &MAP
    }

    /// The statement that locks the first list for a while.
    pub fn lock(self) -> String {
        let row = match self {
            Ground::Documents => "forebay.documents WHERE name = 'list0'",
            Ground::Rows => "lists WHERE id = 0",
        };
        format!("SELECT pg_sleep(0.6) FROM (SELECT FROM {row} FOR UPDATE) AS locked")
    }

    /// Waits until all is applied. Panics if anything acknowledged is missing in the tables, or anything at all is
    /// there twice or out of its client's order.
    pub fn check(self, appends: &Appends, told: &[Told], forebay: &mut Forebay, (server, database): (&Server, &str)) {
        calm(forebay.address);
        match self {
            // Of its own encoding: by forebay, with nothing cached.
            Ground::Documents => {
                forebay.restart();
                appends.check(told, &mut Connection::new(forebay.address));
            }
            Ground::Rows => appends.judge(told, |list| {
                let asked = format!("SELECT unnest(elements) FROM lists WHERE id = {list}");
                server.sql(database, &asked).lines().map(|element| element.as_bytes().to_vec()).collect()
            }),
        }
    }
}
