//! The suite that every store must pass.

use std::rc::Rc;

use forebay::store::Store;
use forebay::store::suite::{self, Subject};
use forebay_drivers::sqlite::Sqlite;

use crate::Place;

struct Subjected {
    place: Rc<Place>,
    store: Option<Sqlite>,
}

impl Subject for Subjected {
    fn store(&self) -> &dyn Store {
        self.store.as_ref().expect("it is open")
    }

    fn validate(&self) {
        let checked: String =
            self.place.other().query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("it is checked");
        assert_eq!(checked, "ok");
    }

    fn reopen(&mut self) -> bool {
        self.store = None;
        self.store = Some(self.place.open(self.place.options()).expect("it opens again"));
        true
    }
}

#[test]
fn sqlite_passes() {
    suite::run(&|| {
        let place = Rc::new(Place::new());
        let store = Some(place.open(place.options()).expect("it opens"));
        Box::new(Subjected { place, store })
    });
}
