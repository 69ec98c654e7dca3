//! The suite that every store must pass.

use forebay::store::Store;
use forebay::store::suite::{self, Subject};
use forebay_drivers::Options;
use forebay_drivers::postgres::Postgres;

use crate::server::Server;
use crate::{open, options, tokio_runtime};

struct Database<'a> {
    runtime: &'a tokio::runtime::Runtime,
    options: Options,
    store: Option<Postgres>,
}

impl Database<'_> {
    fn open(&mut self) {
        self.store = Some(open(self.runtime, self.options.clone()).expect("it opens"));
    }
}

impl Subject for Database<'_> {
    fn store(&self) -> &dyn Store {
        self.store.as_ref().expect("it is open")
    }

    fn reopen(&mut self) -> bool {
        self.store = None;
        self.open();
        true
    }
}

#[test]
fn postgres_passes() {
    let server: &'static Server = Box::leak(Box::new(Server::start()));
    let runtime: &'static tokio::runtime::Runtime = Box::leak(Box::new(tokio_runtime()));
    let name = server.database();
    let passed = std::panic::catch_unwind(|| {
        suite::run(&|| {
            // Quicker than a database for each case.
            server.sql(&name, "SET client_min_messages = error; DROP SCHEMA IF EXISTS forebay CASCADE");
            // One of each, for every opening of every case has to connect them.
            let options = Options { readers: 1, writers: 1, ..options(server, &name) };
            let mut database = Database { runtime, options, store: None };
            database.open();
            Box::new(database)
        })
    });
    // Both live as long as the process, for the suite wants subjects without borrows: so they are stopped here.
    server.stop(crate::server::Stop::Immediate);
    if let Err(panic) = passed {
        std::panic::resume_unwind(panic);
    }
}
