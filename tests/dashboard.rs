//! The dashboard, through the real binary: its files, its stream of figures, who may see them, and a real browser.

mod common;

#[path = "dashboard/ask.rs"]
mod ask;
#[path = "dashboard/browser.rs"]
mod browser;
#[allow(dead_code, reason = "it is shared with the tests of access")]
#[path = "access/serving.rs"]
mod serving;

use std::fs;
use std::io::Read;
use std::net::TcpStream;

use ask::{Events, get, post, send};
use browser::Browser;
use common::Connection;
use forebay_protocol::Reply;
use serving::{Serving, hash_of};

/// In each key and value that a test writes, and nowhere else.
const MARK: &str = "mArKeD";

/// A server with these settings more, and its HTTP address.
fn serving(line: &[&str]) -> (tempfile::TempDir, Serving, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    serving_in(folder, line)
}

fn serving_in(folder: tempfile::TempDir, line: &[&str]) -> (tempfile::TempDir, Serving, String) {
    let line = [&["--http", "127.0.0.1:0", "--measure-thr", "true"], line].concat();
    let serving = Serving::start(folder.path(), &line);
    let address = serving.banner.lines().find_map(|line| line.strip_prefix("browser  http://")).expect("a page");
    let address = address.split_whitespace().next().expect("an address").to_owned();
    (folder, serving, address)
}

/// One with three users: `default` and `ops` may see figures, `al` may not. Their passwords are their names and ` &1`.
fn serving_users() -> (tempfile::TempDir, Serving, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let hash = |name: &str| hash_of(&format!("{name} &1"));
    let users = format!(
        "user default on #{} ~* &* +@all\nuser ops on #{} +info +cache|stats\nuser al on #{} ~* +@all -@dangerous\n",
        hash("default").trim_end(),
        hash("ops").trim_end(),
        hash("al").trim_end()
    );
    fs::write(folder.path().join("users"), users).expect("written");
    serving_in(folder, &["--users-file", "users"])
}

fn form(user: &str) -> String {
    format!("user={user}&password={user}+%261")
}

#[test]
fn the_page_and_its_files_are_served_under_a_strict_policy() {
    let (_folder, _serving, address) = serving(&[]);
    for (path, kind, part) in [
        ("/", "text/html", "src=\"/dashboard.js\""),
        ("/login", "text/html", "type=\"password\""),
        ("/dashboard.js", "text/javascript", "EventSource"),
        ("/charts.js", "text/javascript", "forebay_cache_hits_total"),
        ("/dashboard.css", "text/css", "prefers-color-scheme"),
        ("/uplot.js", "text/javascript", "uPlot"),
        ("/uplot.css", "text/css", ".uplot"),
        ("/icon.svg", "image/svg+xml", "<svg"),
    ] {
        let answer = get(&address, path, "");
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.head.contains(&format!("content-type: {kind}")), "{}", answer.head);
        assert!(answer.body.contains(part), "{path}");
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self';",
            "frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "cross-origin-resource-policy: same-origin",
        ] {
            assert!(answer.head.contains(header), "{path}: {}", answer.head);
        }
        assert!(!answer.head.contains("access-control"), "{path}");
    }
    for path in ["/", "/events", "/metrics", "/dashboard.js"] {
        assert_eq!(post(&address, path, "", "").status, 405, "{path}");
    }
    assert_eq!(get(&address, "/assets/..%2f", "").status, 404);
}

/// Page and /metrics read the same declarations; no key and no value is in the stream.
#[test]
fn events_have_the_figures_of_the_metrics_and_no_data() {
    let (_folder, serving, address) = serving(&[]);
    let mut client = Connection::new(serving.address);
    client.call(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    for n in 0..7 {
        client.call(&["SET", &format!("{MARK}{n}"), &format!("{MARK}-value")]);
        client.call(&["GET", &format!("{MARK}{n}")]);
        client.call(&["LPOP", &format!("{MARK}{n}")]);
    }
    // A secret in the place of a command.
    client.call(&[&format!("{MARK}-password")]);
    client.call(&["PING"]);
    let metrics = get(&address, "/metrics", "").body;
    let metric = |name: &str| -> f64 {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).expect(name);
        line.parse().expect("a number")
    };
    let (mut events, status) = Events::open(&address, "");
    assert_eq!(status, "200");
    assert!(events.text.contains("content-type: text/event-stream"), "{}", events.text);
    // The last row may be older than what was just done.
    let (row, now) = loop {
        let (row, now) = events.record();
        if events.figure(&row, "forebay_cache_hits_total") >= metric("forebay_cache_hits_total") {
            break (row, now);
        }
    };
    for name in [
        "forebay_cache_entries",
        "forebay_cache_hits_total",
        "forebay_cache_bytes",
        "forebay_cache_budget_bytes",
        "forebay_store_mode{mode=\"normal\"}",
        "forebay_command_wait_seconds_count",
        "forebay_command_wait_seconds_bucket{le=\"+Inf\"}",
        "forebay_critical_length_total",
        "forebay_transactional_hits_total",
    ] {
        assert_eq!(events.figure(&row, name), metric(name), "{name}");
    }
    let calls: f64 = metrics.lines().filter(|line| line.starts_with("forebay_command_calls_total{")).map(number).sum();
    assert_eq!(events.figure(&row, "forebay_command_calls_total"), calls, "the sum of all commands");
    assert_eq!(now["commands"]["forebay_command_calls_total"]["set"], 7);
    assert_eq!(now["commands"]["forebay_command_errors_total"]["lpop"], 7);
    assert_eq!((&now["mode"], &now["user"]), (&"normal".into(), &serde_json::Value::Null));
    let slow: Vec<_> = now["slow"].as_array().expect("a list").iter().map(|slow| slow["name"].as_str()).collect();
    assert!(slow.iter().all(|name| name.is_some_and(|name| name.chars().all(|c| c.is_ascii_lowercase()))), "{slow:?}");
    assert!(!events.text.contains(MARK), "{}", events.text);
    // One that was cut off is sent what came since.
    let last = row[0].to_string();
    let (mut again, _) = Events::open(&address, &format!("Last-Event-ID: {last}\r\n"));
    let (row, _) = again.record();
    let count = again.text.matches(&format!("[{last},")).count();
    assert!(row[0].as_u64() > last.parse().ok() && count == 0, "{}", again.text);
}

fn number(line: &str) -> f64 {
    line.rsplit(' ').next().and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn a_password_is_asked_for_where_clients_need_one() {
    let (_folder, serving, address) = serving_users();
    let page = get(&address, "/", "");
    assert!(page.status == 303 && page.head.contains("location: /login"), "{}", page.head);
    assert_eq!(get(&address, "/events", "").status, 403);
    assert_eq!(get(&address, "/events", "Cookie: forebay-1=x\r\n").status, 403);
    // As they were.
    for path in ["/metrics", "/healthz", "/readyz", "/login", "/dashboard.js"] {
        assert_eq!(get(&address, path, "").status, 200, "{path}");
    }
    for wrong in ["password=x", "user=ops&password=default+%261", "user=none&password=x"] {
        let refused = post(&address, "/login", "", wrong);
        assert!(refused.status == 403 && !refused.head.contains("set-cookie"), "{wrong}: {}", refused.head);
        assert!(refused.body.contains("not the password"), "{}", refused.body);
    }
    serving.logs("refused a password at the HTTP address");
    let login = post(&address, "/login", &format!("Origin: http://{address}\r\n"), &form("ops"));
    assert!(login.status == 303 && login.head.contains("location: /\r\n"), "{}", login.head);
    assert!(login.head.contains("; Path=/; HttpOnly; SameSite=Strict\r\n"), "{}", login.head);
    let cookie = format!("Cookie: other=1; {}\r\n", login.cookie());
    assert_eq!(get(&address, "/", &cookie).status, 200);
    let (mut events, status) = Events::open(&address, &cookie);
    assert_eq!((status.as_str(), &events.record().1["user"]), ("200", &"ops".into()));
    let by_tls = post(&address, "/login", &format!("Origin: https://{address}\r\n"), &form("ops"));
    assert!(by_tls.head.contains("; Secure\r\n"), "{}", by_tls.head);
    // Who has not the rights is told so.
    let few = post(&address, "/login", "", &form("al"));
    let few = get(&address, "/", &format!("Cookie: {}\r\n", few.cookie()));
    assert!(few.status == 403 && few.body.contains("CACHE STATS"), "{}", few.body);
    // The end of it.
    let out = post(&address, "/logout", &cookie, "");
    assert!(out.status == 303 && out.head.contains("Max-Age=0"), "{}", out.head);
    assert_eq!(get(&address, "/events", &cookie).status, 403);
    assert!(std::iter::from_fn(|| events.next()).last().is_some() || events.next().is_none(), "an open one ends too");
    let mut client = Connection::new(serving.address);
    client.call(&["AUTH", "default &1"]);
    let refusals = format!("{:?}", client.call(&["ACL", "LOG"]));
    for word in ["login", "http"] {
        assert!(refusals.contains(&format!("{:?}", Reply::bulk(word.as_bytes()))), "{refusals}");
    }
}

/// A session has no right that its user has lost.
#[test]
fn a_changed_user_is_logged_out() {
    let (_folder, serving, address) = serving_users();
    let mut client = Connection::new(serving.address);
    client.call(&["AUTH", "default &1"]);
    for change in [&["ACL", "SETUSER", "ops", "+ping"][..], &["ACL", "DELUSER", "ops"]] {
        let cookie = format!("Cookie: {}\r\n", post(&address, "/login", "", &form("ops")).cookie());
        let (mut events, _) = Events::open(&address, &cookie);
        events.record();
        client.call(change);
        assert_eq!(get(&address, "/events", &cookie).status, 403, "{change:?}");
        while events.next().is_some() {}
    }
    assert_eq!(post(&address, "/login", "", &form("ops")).status, 403);
}

#[test]
fn other_pages_and_other_names_are_refused() {
    let (_folder, _serving, address) = serving(&[]);
    let foreign = [
        "Origin: http://evil.example\r\n",
        "Origin: null\r\n",
        "Origin: http://127.0.0.1:1\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
    ];
    for headers in foreign {
        assert_eq!(get(&address, "/events", headers).status, 403, "{headers}");
        assert_eq!(post(&address, "/login", headers, "password=x").status, 403, "{headers}");
        assert_eq!(post(&address, "/logout", headers, "").status, 403, "{headers}");
    }
    for path in ["/", "/login", "/events", "/dashboard.js"] {
        let answer = send(&address, &format!("GET {path} HTTP/1.0\r\nHost: evil.example\r\n\r\n"));
        assert_eq!(answer.status, 421, "{path}");
    }
}

#[test]
fn bad_logins_are_refused_in_one_line() {
    let (_folder, serving, address) = serving_users();
    for (bad, status) in [("", 400), ("password", 400), ("password=%4", 400), ("password=a&password=b", 400)] {
        assert_eq!(post(&address, "/login", "", bad).status, status, "{bad}");
    }
    let large = format!("password={}", "x".repeat(64 << 10));
    assert_eq!(post(&address, "/login", "", &large).status, 413);
    let chunks = format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len());
    let kind = "Content-Type: application/x-www-form-urlencoded\r\nTransfer-Encoding: chunked\r\nConnection: close";
    assert_eq!(
        send(&address, &format!("POST /login HTTP/1.1\r\nHost: {address}\r\n{kind}\r\n\r\n{chunks}")).status,
        413
    );
    let json =
        format!("POST /login HTTP/1.0\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: 2");
    assert_eq!(send(&address, &format!("{json}\r\n\r\n{{}}")).status, 415);
    assert!(!serving.log().contains("refused a password"), "nothing of it was checked");
}

/// Streams have their places, and leave those of others alone, also where their browsers read nothing.
#[test]
fn streams_are_bounded_and_health_is_answered_beside_them() {
    const STREAMS_MAX: usize = 16;
    let (_folder, _serving, address) = serving(&[]);
    let mut reading: Vec<_> = (0..STREAMS_MAX / 2).map(|_| Events::open(&address, "")).collect();
    let mut silent: Vec<_> = (0..STREAMS_MAX / 2).map(|_| Events::ask(&address, "")).collect();
    for stream in &mut silent {
        stream.read_exact(&mut [0; 1]).expect("it has begun");
    }
    assert!(reading.iter().all(|(_, status)| status == "200"));
    let refused = get(&address, "/events", "");
    assert!(refused.status == 503 && refused.body.starts_with("LIMIT http_streams_max 16"), "{}", refused.body);
    // A crowd of others takes none of their places, and finds its own.
    let idle: Vec<_> = (0..200).map(|_| TcpStream::connect(&address).expect("it listens")).collect();
    for _ in 0..3 {
        for path in ["/healthz", "/metrics", "/"] {
            assert_eq!(get(&address, path, "").status, 200, "{path}");
        }
    }
    drop(idle);
    for (events, _) in &mut reading {
        events.record();
    }
    drop(silent);
    // Noticed when the next event is written.
    loop {
        let (mut events, status) = Events::open(&address, "");
        if status == "200" {
            events.record();
            break;
        }
        reading[0].0.record();
    }
}

#[test]
fn a_browser_logs_in_and_shows_the_charts() {
    let (_folder, serving, address) = serving_users();
    let Some(mut browser) = Browser::start() else {
        eprintln!("skipped: there is no program `chromium`");
        return;
    };
    let mut client = Connection::new(serving.address);
    client.call(&["AUTH", "default &1"]);
    for n in 0..50 {
        client.call(&["SET", &format!("{MARK}{n}"), MARK]);
        client.call(&["GET", &format!("{MARK}{n}")]);
    }
    browser.go(&format!("http://{address}/"));
    browser.wait("location.pathname === '/login' && document.querySelector('button') !== null");
    browser.evaluate("document.querySelector('[name=password]').value = 'default &1'");
    browser.evaluate("document.querySelector('form').requestSubmit()");
    browser.wait("location.pathname === '/' && document.querySelector('#link').textContent === 'live'");
    browser.wait("document.querySelectorAll('figure canvas').length === 12");
    assert_eq!(browser.evaluate("document.querySelector('#strip .value').textContent"), "normal");
    assert_eq!(browser.evaluate("document.querySelector('#user').textContent"), "default");
    browser.wait("document.querySelector('#tables').textContent.includes('get')");
    // Each chart says how to read it, and each series its metric.
    let told = "[...document.querySelectorAll('figure')].every((figure) => figure.querySelector('.how').textContent)";
    assert_eq!(browser.evaluate(told), true);
    let titled = "[...document.querySelectorAll('.legend li')].every((item) => item.title.includes('_'))";
    assert_eq!(browser.evaluate(titled), true);
    // By keyboard.
    browser.evaluate("document.querySelector('.plot').focus()");
    browser.key("ArrowLeft");
    browser.wait("/, \\d+:\\d+:\\d+: commands/.test(document.querySelector('.plot').getAttribute('aria-label'))");
    browser.key("p");
    browser.wait("document.querySelector('#pause').getAttribute('aria-pressed') === 'true'");
    browser.key("p");
    for width in [390, 800, 1600] {
        browser.resize(width);
        browser.wait("document.documentElement.scrollWidth <= innerWidth");
        browser.wait(&format!("innerWidth === {width}"));
    }
    assert_eq!(browser.evaluate(&format!("document.body.textContent.includes('{MARK}')")), false);
    // Who is no more is sent back to the login.
    client.call(&["ACL", "SETUSER", "default", ">another"]);
    browser.wait("location.pathname === '/login'");
    assert!(browser.complaints.is_empty(), "{:?}", browser.complaints);
}
