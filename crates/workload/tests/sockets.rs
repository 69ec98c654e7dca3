//! The tools over real sockets, with redis-server in forebay's place where it is installed. It knows WATCH, MULTI and
//! EXEC, and it is known to be right.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use forebay_protocol::Reply;
use forebay_trace::{Kind, Record, TraceKey, fbt};
use forebay_workload::checkers::bank::Bank;
use forebay_workload::checkers::transact::{self, Attempt, Stopped, script, watch};
use forebay_workload::checkers::write_skew::WriteSkew;
use forebay_workload::checkers::{RunOptions, Style, Workload, run};
use forebay_workload::client::Says;
use forebay_workload::replay::{ReplayError, ReplayOptions, Silent, replay};
use forebay_workload::shop::{self, ShopOptions};
use forebay_workload::{Client, ClientError};

/// A redis-server of its own on a free port, killed at the end.
struct Server {
    address: String,
    child: Child,
    _folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    async fn start() -> Option<Server> {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = tempfile::tempdir().unwrap();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--dir"])
            .arg(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(child) = child else {
            eprintln!("skipped: redis-server is not installed");
            return None;
        };
        let server = Server { address: format!("127.0.0.1:{port}"), child, _folder: folder };
        for _ in 0..500 {
            if Client::connect(&server.address).await.is_ok() {
                return Some(server);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("redis-server does not listen on {}", server.address);
    }
}

#[tokio::test]
async fn a_client_calls_pipelines_and_says_what_went_wrong() {
    let Some(mut server) = Server::start().await else { return };
    let mut client = Client::connect(&server.address).await.unwrap();
    client.hello3().await.unwrap();
    assert_eq!(client.call(&["SET", "a", "1"]).await.unwrap(), Reply::OK);
    client.send(&["INCR", "a"]).await.unwrap();
    client.queue(&["GET", "a"]);
    client.queue(&["LPUSH", "a", "x"]);
    assert_eq!(client.waiting(), 3);
    let replies = client.replies().await.unwrap();
    assert_eq!(replies[..2], [Reply::Integer(2), Reply::bulk(b"2")]);
    assert!(replies[2].error_text().unwrap().starts_with("WRONGTYPE"));
    // More than the buffers on the way hold, both ways.
    let large = vec![b'x'; 1 << 20];
    for n in 0..32 {
        client.queue(&[&b"SET"[..], format!("large:{n}").as_bytes(), &large]);
        client.queue(&[&b"GET"[..], format!("large:{n}").as_bytes()]);
    }
    assert_eq!(client.replies().await.unwrap().len(), 64);
    let refused = client.demand(&["LPUSH", "a", "x"]).await.unwrap_err();
    assert!(!refused.broken() && refused.to_string().starts_with("LPUSH was answered by WRONGTYPE"), "{refused}");
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    assert!(matches!(client.call(&["PING"]).await, Err(ClientError::Lost { .. })));
    assert!(matches!(Client::connect(&server.address).await, Err(ClientError::Connect { .. })));
}

#[tokio::test]
async fn a_reply_that_does_not_come_is_a_lost_connection() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = Client::connect(&listener.local_addr().unwrap().to_string()).await.unwrap();
    client.set_reply_time_max(Duration::from_millis(1));
    let lost = client.call(&["PING"]).await.unwrap_err();
    assert!(lost.to_string().contains("no reply"), "{lost}");
}

#[tokio::test]
async fn scripts_tell_commits_from_aborts() {
    let Some(server) = Server::start().await else { return };
    let mut client = Client::connect(&server.address).await.unwrap();
    let mut other = Client::connect(&server.address).await.unwrap();
    let incr = [transact::command(["INCR", "n"])];
    assert_eq!(script(&mut client, &mut Attempt::default(), &incr).await.unwrap(), [Reply::Integer(1)]);
    let mut attempt = Attempt::default();
    watch(&mut client, &mut attempt, &["n".to_owned()]).await.unwrap();
    other.call(&["INCR", "n"]).await.unwrap();
    assert!(!attempt.submitted);
    let aborted = script(&mut client, &mut attempt, &incr).await;
    assert!(matches!(aborted, Err(Stopped::Aborted(_))) && attempt.submitted);
    let unknown = [transact::command(["NOSUCH"])];
    let refused = script(&mut client, &mut Attempt::default(), &unknown).await;
    assert!(matches!(&refused, Err(Stopped::Client(ClientError::Refused { .. }))), "{refused:?}");
    assert_eq!(client.call(&["GET", "n"]).await.unwrap(), Reply::bulk(b"2"));
}

fn options(address: &str) -> RunOptions {
    RunOptions { events_max: 4000, duration: Duration::from_secs(60), ..RunOptions::new(address) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bank_and_write_skew_pass_where_transactions_are_serial() {
    let Some(server) = Server::start().await else { return };
    let workloads: [Arc<dyn Workload>; 2] =
        [Arc::new(Bank::new("bank", 5, &[Style::Multi])), Arc::new(WriteSkew::new("skew", 2, &[Style::Multi]))];
    for workload in workloads {
        let history = run(workload.clone(), &options(&server.address)).await.unwrap();
        let summary = workload.check(&history).unwrap_or_else(|violation| panic!("{violation}"));
        assert!(summary.committed > 1000 && summary.unknown == 0, "{summary:?}");
        // Clients do get in each other's way, or nothing is shown.
        assert!(summary.failures.contains_key("WATCHED"), "{summary:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_goes_away_leaves_unknown_outcomes_and_a_history() {
    let Some(mut server) = Server::start().await else { return };
    let bank = Arc::new(Bank::new("bank", 5, &[Style::Multi]));
    let address = server.address.clone();
    let mut options = options(&address);
    options.reconnect_time_max = Duration::from_millis(100);
    options.duration = Duration::from_secs(1);
    options.events_max = usize::MAX;
    let running = tokio::spawn(async move { run(bank, &options).await });
    // Once transfers are under way.
    let mut client = Client::connect(&address).await.unwrap();
    while client.call(&["GET", "bank:0"]).await.unwrap().number().is_none_or(|balance| balance == 100) {}
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    // It stays away, so there is no last look; the run says so and does not hang.
    let error = running.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("can't connect"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_shop_keeps_its_books() {
    let Some(server) = Server::start().await else { return };
    let options =
        ShopOptions { visits_per_second: 100_000, products: 20, users: 30, ..ShopOptions::new(&server.address) };
    // Redis has no TXN: those purchases are errors here, the others must be right.
    let shop = shop::run(&options).await.unwrap();
    while shop.stats.bought.load(Ordering::Relaxed) < 200 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        shop.check().await.unwrap();
    }
    let stats = shop.stats.clone();
    let books = shop.close().await.unwrap();
    assert!(books.sold > 200 && stats.supplied.load(Ordering::Relaxed) > 0, "{books:?} {stats:?}");
    let mut client = Client::connect(&server.address).await.unwrap();
    client.call(&["HINCRBY", "product:3", "sold", "1"]).await.unwrap();
    let violation = shop::check(&options).await.unwrap_err();
    assert!(violation.to_string().contains("product 3"), "{violation}");
}

fn trace(folder: &std::path::Path) -> std::path::PathBuf {
    let mut writer = fbt::Writer::create(Vec::new(), 0).unwrap();
    for n in 0..1000u64 {
        let kind = [Kind::Read, Kind::Write, Kind::Prefetch, Kind::Read][n as usize % 4];
        let key = TraceKey::Number(n * n % 37);
        writer.append(&Record { key, kind, size: Some(n as u32 % 300), ..Record::default() }).unwrap();
    }
    let path = folder.join("small.fbt");
    std::fs::write(&path, writer.finish().unwrap()).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trace_is_replayed_and_reported() {
    let Some(server) = Server::start().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let options = ReplayOptions {
        trace: trace(folder.path()),
        format: None,
        address: server.address.clone(),
        clients: 1,
        pipeline: 16,
        limit: None,
        preload: true,
        writes_as_reads: false,
    };
    let report = replay(&options, Arc::new(Silent)).await.unwrap();
    assert_eq!((report.requests, report.gets, report.sets, report.skipped), (750, 500, 250, 250));
    // All keys are there from the start, so that everything asked for is found.
    assert_eq!((report.found, report.hits, report.misses), (500, Some(500), Some(0)));
    assert_eq!((report.errors, report.cache_reset, report.hit_ratio), (0, false, Some(1.0)));
    assert!(report.preloaded_keys > 5 && report.latency.p50_us > 0.0 && report.to_table().contains("1.000000"));
    let several = ReplayOptions { clients: 7, limit: Some(301), writes_as_reads: true, ..options.clone() };
    let report = replay(&several, Arc::new(Silent)).await.unwrap();
    assert_eq!((report.requests, report.gets, report.found), (301, 301, 301));
    let nothing = ReplayOptions { limit: Some(0), ..options };
    assert!(matches!(replay(&nothing, Arc::new(Silent)).await, Err(ReplayError::Empty(_))));
}
