//! The two races of the paper's section 3.1, each with two sessions, before, in and after an outage. They also run
//! while the database is there again and has not got yet what was buffered.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::{Forebay, forebay_command};
use crate::postgres::Server;
use crate::proxy::Proxy;
use crate::start_through;
use crate::state::{calm, figure, mode, said};

/// What is done in each phase is done to rows of their own.
const PHASES: [&str; 4] = ["before", "in the outage", "before it is carried over", "after"];

struct World {
    server: Server,
    database: String,
    network: Proxy,
    forebay: Forebay,
}

fn world(tables: &str, maps: &[&str], more: &[&str]) -> World {
    let server = Server::start();
    let database = server.database();
    server.sql(&database, tables);
    let maps: Vec<&str> = maps.iter().flat_map(|map| ["--map", map]).collect();
    let url = server.url(&database);
    let mut init = forebay_command();
    init.args(["store", "init", "--store", &url, "--store-timeout-ms", "400"]).args(&maps);
    assert!(init.status().expect("the binary runs").success());
    let network = Proxy::to_postgres(server.address());
    let forebay = start_through(&network, &server, &database, &[&maps[..], more].concat());
    World { server, database, network, forebay }
}

impl World {
    /// Has `act` done in each phase while `look` looks on, again and again, from another session; true if it saw
    /// something. Between the outage and its end the database answers, but `table` is locked.
    fn through_an_outage(
        &self,
        table: &str,
        mut act: impl FnMut(usize),
        look: impl Fn(&mut Connection) -> bool + Sync,
    ) {
        let (stop, looked) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                let mut client = Connection::new(self.forebay.address);
                while !stop.load(Ordering::SeqCst) {
                    looked.fetch_add(look(&mut client).into(), Ordering::SeqCst);
                }
            });
            let ended = Ending(&stop);
            let mut client = Connection::new(self.forebay.address);
            act(0);
            self.network.close();
            act(1);
            assert_eq!(mode(&mut client), "failed");
            let lock = format!("LOCK TABLE {table} IN EXCLUSIVE MODE");
            self.server.while_locked(&self.database, &lock, || {
                self.network.pass();
                while mode(&mut client) != "recovery" {}
                let seen = looked.load(Ordering::SeqCst);
                act(2);
                assert!(figure(&mut client, "pending") > 0, "nothing was left to be carried over");
                while looked.load(Ordering::SeqCst) < seen + 3 && !looking.is_finished() {}
            });
            calm(self.forebay.address);
            act(3);
            assert_eq!(figure(&mut client, "quarantined"), 0);
            drop(ended);
            looking.join().expect("what another session saw");
        });
    }
}

/// Ends the onlooker, also if what happens before that panics.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// What two documents hold at one moment; none if they can't be read now.
fn both(client: &mut Connection, one: [&str; 2], two: [&str; 2]) -> Option<[Option<String>; 2]> {
    let requests = [vec!["MULTI"], [&["HGET"][..], &one].concat(), [&["HGET"][..], &two].concat(), vec!["EXEC"]];
    match client.pipeline(&requests).pop() {
        Some(Reply::Array(values)) => {
            let value = |value: &Reply| (*value != Reply::Nil).then(|| said(value));
            Some([value(&values[0]), value(&values[1])])
        }
        Some(Reply::Error(text)) if text.starts_with(b"STOREDOWN") || text.starts_with(b"EXECABORT") => None,
        other => panic!("{other:?}"),
    }
}

/// One request of a session of its own, which is acknowledged. It may have to wait for the database.
fn done(address: SocketAddr, requests: &[&str]) {
    let mut client = Connection::new(address);
    let requests: Vec<Vec<&str>> = requests.iter().map(|request| request.split(' ').collect()).collect();
    for _ in 0..200 {
        match client.pipeline(&requests).pop() {
            Some(Reply::Error(text)) if text.starts_with(b"STOREDOWN") || text.starts_with(b"EXECABORT") => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Some(Reply::Error(text)) => panic!("{requests:?}: {}", String::from_utf8_lossy(&text)),
            _ => return,
        }
    }
    panic!("{requests:?} was never taken");
}

/// Section 3.1, write and write: Bob makes an album, and another session of his adds a photo to it while the album is
/// only buffered. The photo is neither refused nor lost, and a reader sees both, or none.
#[test]
fn a_photo_is_added_to_an_album_that_is_only_buffered() {
    let tables = "CREATE TABLE albums (id integer PRIMARY KEY, name text NOT NULL, photos integer NOT NULL DEFAULT 0);
        CREATE TABLE photos (id integer PRIMARY KEY, album integer NOT NULL REFERENCES albums)";
    let world = world(tables, &["album:{id} -> albums(id)", "photo:{id} -> photos(id)"], &[]);
    let address = world.forebay.address;
    let keys: Vec<[String; 2]> =
        (0..PHASES.len()).map(|phase| [format!("album:{phase}"), format!("photo:{phase}")]).collect();
    let mut client = Connection::new(address);
    for key in keys.iter().flatten() {
        crate::tables::cache(&mut client, &[key]);
    }
    let act = |phase: usize| {
        done(address, &[&format!("HSET album:{phase} name {phase} photos 0")]);
        let photo = format!("HSET photo:{phase} album {phase}");
        done(address, &["MULTI", &photo, &format!("HINCRBY album:{phase} photos 1"), "EXEC"]);
    };
    let look = |client: &mut Connection| {
        let seen = keys.iter().zip(0..).map(|([album, photo], phase)| {
            let Some([photos, of]) = both(client, [album, "photos"], [photo, "album"]) else { return false };
            let fits = match (photos.as_deref(), of) {
                (None | Some("0"), None) => true,
                (Some("1"), Some(album)) => album == phase.to_string(),
                _ => false,
            };
            assert!(fits, "{}: {photos:?} photos in the album, and the photo is not what it should be", PHASES[phase]);
            true
        });
        seen.filter(|seen| *seen).count() > 0
    };
    world.through_an_outage("albums", act, look);
    let albums = "SELECT count(*) FROM albums JOIN photos ON album = albums.id AND photos.id = album WHERE photos = 1";
    assert_eq!(world.server.sql(&world.database, albums), PHASES.len().to_string());
}

/// Section 3.1, read and write: Bob hides his profile from Alice, and another session of his says there that he looks
/// for a job. Alice never sees that, neither through forebay nor in the database itself.
#[test]
fn a_profile_is_not_shown_before_the_permission_that_hides_it() {
    let tables = "CREATE TABLE permissions (id integer PRIMARY KEY, alice text NOT NULL);
        CREATE TABLE profiles (id integer PRIMARY KEY, status text NOT NULL);
        INSERT INTO permissions SELECT id, 'yes' FROM generate_series(0, 3) AS id;
        INSERT INTO profiles SELECT id, 'happy' FROM generate_series(0, 3) AS id";
    let maps = ["permission:{id} -> permissions(id)", "profile:{id} -> profiles(id)"];
    // What others see in the database is a prefix of what was acknowledged only if it is applied in one order.
    let world = world(tables, &maps, &["--drain", "serial"]);
    let address = world.forebay.address;
    let mut client = Connection::new(address);
    for phase in 0..PHASES.len() {
        client.call(&["HGETALL", &format!("profile:{phase}")]);
    }
    let act = |phase: usize| {
        // Taken although what is there is not known: the paper's race needs that.
        done(address, &[&format!("SET permission:{phase} {{\"alice\":\"no\"}}")]);
        done(address, &[&format!("SET profile:{phase} {{\"status\":\"looking\"}}")]);
    };
    let betrayed =
        "SELECT count(*) FROM permissions JOIN profiles USING (id) WHERE alice = 'yes' AND status <> 'happy'";
    let look = |client: &mut Connection| {
        assert_eq!(world.server.sql(&world.database, betrayed), "0", "who looks into the database sees it");
        let seen = (0..PHASES.len()).map(|phase| {
            let (permission, profile) = (format!("permission:{phase}"), format!("profile:{phase}"));
            let Some(seen) = both(client, [&permission, "alice"], [&profile, "status"]) else { return false };
            let [alice, status] = seen.map(|value| value.expect("the row is there"));
            assert!(alice == "no" || status == "happy", "{}: Alice sees {status}", PHASES[phase]);
            true
        });
        seen.filter(|seen| *seen).count() > 0
    };
    world.through_an_outage("permissions", act, look);
    let hidden = "SELECT count(*) FROM permissions JOIN profiles USING (id) WHERE alice = 'no' AND status = 'looking'";
    assert_eq!(world.server.sql(&world.database, hidden), PHASES.len().to_string());
}
