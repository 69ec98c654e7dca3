//! Behind PgBouncer. Without one on this machine the test says so, and tests nothing.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use forebay::Key;
use forebay::store::suite::block_on;
use forebay::store::{CommitOutcome, Store};
use forebay::version::Mint;
use forebay_drivers::postgres::{OpenError, setup};
use forebay_drivers::{Options, VersionMode};

use crate::opening::put;
use crate::server::{Server, USER, psql, user};
use crate::{open, options, tokio_runtime};

/// A PgBouncer, ended when dropped.
struct Pooler {
    process: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Pooler {
    fn start(server: &Server, mode: &str) -> Pooler {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("a mode");
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let address = free.expect("a free port");
        let users = folder.path().join("users");
        std::fs::write(&users, format!("\"{USER}\" \"\"\n")).expect("it can be written");
        let place = server.address();
        let (host, port, file) = (place.ip(), place.port(), folder.path().join("pgbouncer.ini"));
        let settings = format!(
            "[databases]\n* = host={host} port={port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {}\n\
             auth_type = trust\nauth_file = {}\nunix_socket_dir =\npool_mode = {mode}\ndefault_pool_size = 40\n{}",
            address.port(),
            users.display(),
            // It refuses to serve as root.
            if user().is_some() { "user = postgres\n" } else { "" },
        );
        std::fs::write(&file, settings).expect("it can be written");
        let process = Command::new(PROGRAM).arg("-q").arg(&file).stderr(Stdio::null()).spawn().expect("it starts");
        let (pooler, began) = (Pooler { process, address, _folder: folder }, Instant::now());
        while TcpStream::connect(address).is_err() {
            assert!(began.elapsed() < Duration::from_secs(20), "PgBouncer does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        pooler
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Where Debian has it: not in the PATH of every user.
const PROGRAM: &str = "/usr/sbin/pgbouncer";

/// Where a backend serves several sessions, all that uses one refuses it, and leaves no setting of ours behind it for
/// other programs. In session mode forebay works.
#[test]
fn a_pooler_is_refused_unless_a_session_keeps_its_backend() {
    if !std::path::Path::new(PROGRAM).exists() {
        eprintln!("NOT TESTED: there is no {PROGRAM}");
        return;
    }
    let (server, runtime) = (Server::start(), tokio_runtime());
    let database = server.database();
    let through = |pooler: &Pooler| {
        let address = server.url_through(&database, pooler.address).parse().expect("a URL");
        Options { address, ..options(&server, &database) }
    };
    for mode in ["transaction", "statement"] {
        let pooler = Pooler::start(&server, mode);
        let options = through(&pooler);
        let refused = open(&runtime, options.clone()).err();
        assert!(matches!(refused, Some(OpenError::Pooled { .. })), "{mode}: {refused:?}");
        let refused = runtime.block_on(setup::init(&options, VersionMode::None)).err();
        assert!(matches!(refused, Some(OpenError::Pooled { .. })), "{mode}: {refused:?}");
        let checked = runtime.block_on(setup::check(&options)).expect("it answers");
        assert!(checked.problems.concat().contains("pool_mode"), "{mode}: {:?}", checked.problems);
        for setting in ["enable_seqscan", "jit", "work_mem", "statement_timeout"] {
            let set = format!("SELECT count(*) FROM pg_settings WHERE source = 'session' AND name = '{setting}'");
            let set = psql(&server.url_through(&database, pooler.address), &set);
            assert_eq!(set.as_deref(), Ok("0"), "{mode}: {setting} is left behind");
        }
    }
    let pooler = Pooler::start(&server, "session");
    let store = open(&runtime, through(&pooler)).expect("a session has its backend");
    let mint = Mint::new(store.incarnation());
    let committed = block_on(store.commit(&[put(&mint, b"k")])).remove(0);
    assert!(matches!(committed, CommitOutcome::Committed(_)), "{committed:?}");
    let read = block_on(store.get(&[Key::new(0, b"k")]));
    assert!(matches!(&read, Ok(found) if found.len() == 1), "{read:?}");
    let checked = runtime.block_on(setup::check(&through(&pooler))).expect("it answers");
    assert!(!checked.problems.concat().contains("pool_mode"), "{:?}", checked.problems);
}
