//! A disk that is full, and files that can't be used: what the operator is told, and that nothing acknowledged is lost.
//!
//! The full disk is a real one: a tmpfs, mounted for the server alone. (`unshare -rm` needs no root where user
//! namespaces are allowed. Elsewhere the test says that it skips. `store_damage.rs` of the library does this with a
//! disk that fails.)

mod common;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::Connection;
use common::process::{Disk, Forebay, can_mount, forebay_command, forebay_command_in};
use forebay_protocol::Reply;

/// How long the server may take to find out that there is room again.
const PATIENCE: Duration = Duration::from_secs(20);

/// Writes until the disk is full; what was acknowledged.
fn fill(address: std::net::SocketAddr, writer: usize) -> (BTreeMap<String, String>, String) {
    let mut connection = Connection::new(address);
    let mut acknowledged = BTreeMap::new();
    for number in 0..100_000 {
        let (key, value) = (format!("{writer}:{number}"), format!("{writer} {number} ").repeat(300));
        match connection.call(&["SET", &key, &value]) {
            Reply::Simple(_) => drop(acknowledged.insert(key, value)),
            Reply::Error(text) => return (acknowledged, String::from_utf8_lossy(&text).into_owned()),
            other => panic!("{other:?}"),
        }
    }
    panic!("the disk never fills");
}

fn all_there(forebay: &Forebay, acknowledged: &BTreeMap<String, String>, when: &str) {
    let mut connection = Connection::new(forebay.address);
    for (key, value) in acknowledged {
        let reply = connection.call(&["GET", key]);
        assert!(reply == Reply::bulk(value.as_bytes()), "{when}: {key} was acknowledged, and is {reply:?}");
    }
}

#[test]
fn a_full_disk_loses_nothing_and_room_mends_it() {
    let arguments = ["--memory", "4MiB", "--durability", "always"];
    let Some(disk) = Disk::mount(12 * 1024) else { return };
    let forebay = Forebay::start_on(disk, &arguments);
    let ballast = forebay.file("ballast");
    let mut file = std::fs::File::create(&ballast).expect("the server's disk can be reached");
    file.write_all(&vec![1; 4 << 20]).expect("room for a ballast");
    let mut acknowledged = BTreeMap::new();
    let writers: Vec<_> = (0..4).map(|writer| (writer, forebay.address)).collect();
    let errors: Vec<String> = std::thread::scope(|scope| {
        let fill = |(writer, address)| scope.spawn(move || fill(address, writer));
        let writers: Vec<_> = writers.into_iter().map(fill).collect();
        let ended = writers.into_iter().map(|writer| writer.join().expect("a writer"));
        let ended: Vec<_> = ended.map(|(some, error)| (acknowledged.extend(some), error).1).collect();
        ended
    });
    eprintln!("{} acknowledged, then {errors:?}", acknowledged.len());
    assert!(acknowledged.len() > 100, "only {} writes fit", acknowledged.len());
    for error in &errors {
        let clear = error.starts_with("STOREDOWN") && error.contains("No space left on device");
        assert!(clear, "what a client is told: {error}");
    }
    assert!(forebay.log().contains("No space left on device"), "the log does not say why");
    all_there(&forebay, &acknowledged, "while the disk is full");
    drop(file);
    std::fs::remove_file(&ballast).expect("it can be removed");
    let began = Instant::now();
    let mut connection = Connection::new(forebay.address);
    while connection.call(&["SET", "room", "again"]) != Reply::Simple("OK".into()) {
        assert!(began.elapsed() < PATIENCE, "there is room, and the server does not go on");
        std::thread::sleep(Duration::from_millis(50));
    }
    acknowledged.insert("room".into(), "again".into());
    all_there(&forebay, &acknowledged, "with room again");
    let copy = tempfile::tempdir().expect("a temporary folder");
    let copied = copy.path().join("store.redb");
    std::fs::copy(forebay.file("store.redb"), &copied).expect("a copy as a crash would leave it");
    let mut again = forebay_command();
    again.args(["check"]).arg(&copied);
    let checked = again.output().expect("the binary runs");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

/// With a flush now and then, what was acknowledged before the disk was found full may be lost, as in a crash. From
/// then on nothing is acknowledged that is not on the disk.
#[test]
fn a_full_disk_is_not_written_to_in_memory_only() {
    let arguments = ["--memory", "4MiB", "--durability", "interval", "--sync-ms", "200"];
    let Some(disk) = Disk::mount(6 * 1024) else { return };
    let forebay = Forebay::start_on(disk, &arguments);
    let ballast = forebay.file("ballast");
    std::fs::write(&ballast, vec![1; 2 << 20]).expect("room for a ballast");
    let mut connection = Connection::new(forebay.address);
    let mut put = |key: String, bytes: usize, pause_ms: u64| {
        std::thread::sleep(Duration::from_millis(pause_ms));
        let value = format!("{key} ").repeat(bytes / key.len());
        (connection.call(&["SET", &key, &value]) == Reply::Simple("OK".into())).then_some((key, value))
    };
    let full = (0..100_000).find(|number| put(format!("before:{number}"), 5_000, 0).is_none());
    assert!(full.is_some(), "the disk never fills");
    // Twice what a flush and the pause after a failure take, many times.
    let after = (0..160).filter_map(|number| put(format!("after:{number}"), 5_000, 25)).collect();
    std::thread::sleep(Duration::from_millis(1_000));
    std::fs::remove_file(&ballast).expect("it can be removed");
    let began = Instant::now();
    while put("room".into(), 10, 50).is_none() {
        assert!(began.elapsed() < PATIENCE, "there is room, and the server does not go on");
    }
    all_there(&forebay, &after, "acknowledged while the disk was full");
}

/// The one line with which a start on `store` is refused, by a server in `script` if there is one.
fn refusal(script: Option<&str>, store: &Path) -> String {
    let mut command = match script {
        None => forebay_command(),
        Some(script) => forebay_command_in(script),
    };
    let store = format!("embedded:{}", store.display());
    command.args(["serve", "--listen", "127.0.0.1:0", "--http", "off", "--store", &store]).stdout(Stdio::piped());
    let output = command.output().expect("the binary runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("forebay: ")).collect();
    assert!(lines.len() == 1 && text.ends_with(&format!("{}\n", lines[0])), "not one line at the end:\n{text}");
    assert!(lines[0].contains(';'), "it says nothing to do: {}", lines[0]);
    lines[0].to_owned()
}

/// A file as a server leaves it.
fn stored(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("made.redb");
    let mut forebay = Forebay::start("embedded", &["--memory", "4MiB"]);
    let mut connection = Connection::new(forebay.address);
    for number in 0..50 {
        connection.call(&["SET", &format!("key:{number}"), &"value ".repeat(200)]);
    }
    let file = forebay.file("store.redb");
    let held = std::fs::File::open(file).expect("the store's file");
    drop(connection);
    forebay.terminate();
    std::io::copy(&mut &held, &mut std::fs::File::create(&path).expect("a file")).expect("a copy");
    path
}

#[test]
fn files_that_can_not_be_used_are_refused_in_one_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sound = stored(folder.path());
    let bytes = std::fs::read(&sound).expect("the file");
    let with = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("a file");
        path
    };
    let cut = with("cut.redb", &bytes[..bytes.len() / 2]);
    let text = refusal(None, &cut);
    assert!(text.contains("is damaged") && text.contains("restore it from a backup"), "{text}");
    assert_eq!(std::fs::read(&cut).expect("the file"), &bytes[..bytes.len() / 2], "it was changed");
    let text = refusal(None, &with("garbage.redb", b"no store at all, but a text"));
    assert!(text.contains("is not a forebay store"), "{text}");
    let text = refusal(None, &with("empty.redb", b""));
    assert!(text.contains("it is empty; restore it from a backup, or remove it"), "{text}");
    let text = refusal(None, &folder.path().join("missing/store.redb"));
    assert!(text.contains("make the folder first"), "{text}");
    let text = refusal(None, folder.path());
    assert!(text.contains("name a file, not a folder"), "{text}");
    let running = Forebay::start("embedded", &["--memory", "4MiB"]);
    let text = refusal(None, &running.file("store.redb"));
    assert!(text.contains("open in another process") && text.contains("stop that one first"), "{text}");
}

/// What no start would find is not acknowledged. Reads go on, and a file that is put back takes writes again.
#[test]
fn a_file_that_was_moved_takes_no_writes_until_it_is_put_back() {
    let mut forebay = Forebay::start("embedded", &["--memory", "4MiB", "--durability", "always"]);
    let mut connection = Connection::new(forebay.address);
    let mut until = |expected: &str| {
        let began = Instant::now();
        loop {
            let reply = said(&connection.call(&["SET", "k", "value"]));
            if reply.starts_with(expected) {
                return reply;
            }
            assert!(began.elapsed() < PATIENCE, "{reply}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    until("OK");
    let (file, aside) = (forebay.file("store.redb"), forebay.file("aside.redb"));
    std::fs::rename(&file, &aside).expect("it is moved");
    let refused = until("STOREDOWN");
    assert!(refused.contains("was moved or removed") && refused.contains("until it is put back"), "{refused}");
    assert!(forebay.log().contains("was moved or removed"), "{}", forebay.log());
    assert_eq!(Connection::new(forebay.address).call(&["GET", "k"]), Reply::bulk(b"value"));
    std::fs::rename(&aside, &file).expect("it is put back");
    until("OK");
    forebay.restart();
    assert_eq!(Connection::new(forebay.address).call(&["GET", "k"]), Reply::bulk(b"value"));
}

fn said(reply: &Reply) -> String {
    match reply {
        Reply::Simple(text) => text.to_string(),
        Reply::Error(text) => String::from_utf8_lossy(text).into_owned(),
        other => format!("{other:?}"),
    }
}

#[test]
fn what_can_not_be_written_is_refused_in_one_line() {
    if !can_mount() {
        eprintln!("skipped: `unshare -rm mount` is not allowed here");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sound = stored(folder.path());
    let read_only = |place: &Path| {
        let place = place.display();
        format!("mount --bind '{place}' '{place}' && mount -o remount,ro,bind '{place}' && exec \"$@\"")
    };
    for (script, store) in [
        (read_only(&sound), sound.clone()),
        (read_only(folder.path()), folder.path().join("new.redb")),
        (read_only(folder.path()), sound.clone()),
    ] {
        let text = refusal(Some(&script), &store);
        assert!(text.contains("the right to read and write the file and its folder"), "{text}");
    }
    let full = format!("mount -t tmpfs -o size=4k none '{}' && exec \"$@\"", folder.path().display());
    let text = refusal(Some(&full), &folder.path().join("store.redb"));
    assert!(text.contains("make room on the disk"), "{text}");
}

#[test]
fn a_check_finds_what_has_rotted() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sound = stored(folder.path());
    let check = |path: &Path| {
        let mut command = forebay_command();
        let output = command.arg("check").arg(path).output().expect("the binary runs");
        let texts = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.code(), format!("{}{}", texts.0, texts.1))
    };
    let bytes = std::fs::read(&sound).expect("the file");
    let (code, text) = check(&sound);
    assert!(code == Some(0) && text.contains("is sound: 50 documents"), "{code:?} {text}");
    assert_eq!(std::fs::read(&sound).expect("the file"), bytes, "a check changes nothing");
    let at = bytes.windows(12).position(|window| window == b"value value ").expect("a value");
    let mut rotten = bytes;
    rotten[at] ^= 1;
    std::fs::write(&sound, &rotten).expect("the file");
    let (code, text) = check(&sound);
    assert!(code == Some(2) && text.contains("is damaged") && text.lines().count() == 1, "{code:?} {text}");
    let (code, text) = check(&folder.path().join("missing"));
    assert!(code == Some(2) && text.contains("there is no such file"), "{code:?} {text}");
}
