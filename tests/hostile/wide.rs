//! Requests that take long, where one thread polls all sockets: another thread works on them.

use std::fs;

use forebay_protocol::Reply;

use crate::common::Connection;
use crate::common::process::Forebay;

/// Keys, members or commands of one request.
const MANY: usize = 15_000;

/// Nanoseconds that the thread `name` of the server has worked so far; 0 if there is none.
fn work_of(forebay: &Forebay, name: &str) -> u64 {
    let threads = fs::read_dir(format!("/proc/{}/task", forebay.id())).expect("its threads");
    let mut work = 0;
    for thread in threads.map(|thread| thread.expect("a thread").path()) {
        let is_it = fs::read_to_string(thread.join("comm")).is_ok_and(|comm| comm.trim() == name);
        if let (true, Ok(stat)) = (is_it, fs::read_to_string(thread.join("schedstat"))) {
            work += stat.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).expect("a number");
        }
    }
    work
}

fn request(name: &str, arguments: impl Iterator<Item = String>) -> Vec<String> {
    std::iter::once(name.to_owned()).chain(arguments).collect()
}

fn pairs(prefix: &str) -> impl Iterator<Item = String> {
    (0..MANY).flat_map(move |n| [format!("{prefix}{n}"), "value".to_owned()])
}

/// Of the work on each of these most is done by the second thread, and it does none for small requests.
#[test]
fn one_thread_leaves_long_work_to_another() {
    let forebay = Forebay::start("memory", &["--threads", "1", "--memory", "64MiB"]);
    let mut connection = Connection::new(forebay.address);
    for n in 0..100 {
        assert_eq!(connection.call(&["SET", "few", &n.to_string()]), Reply::Simple("OK".into()));
        connection.call(&["GET", "few"]);
    }
    assert_eq!(work_of(&forebay, "forebay-aside"), 0, "small requests need no second thread");
    let hash = request("HSET", std::iter::once("hash".to_owned()).chain(pairs("a-field-of-some-length-")));
    assert_eq!(connection.pipeline(&[hash]), [Reply::Integer(MANY as i64)]);
    let keys = || (0..MANY).map(|n| format!("k{n}"));
    let sets = || (0..MANY / 4).map(|n| vec!["SET".to_owned(), format!("e{n}"), "1".to_owned()]);
    let rows = [
        ("MSET", vec![request("MSET", pairs("k"))]),
        ("EXISTS", vec![request("EXISTS", keys())]),
        ("DEL", vec![request("DEL", keys())]),
        ("HGETALL", vec![request("HGETALL", std::iter::once("hash".to_owned()))]),
        ("HSET", vec![request("HSET", ["hash", "f", "v"].map(str::to_owned).into_iter())]),
    ];
    for (row, requests) in rows {
        let (aside, all) = (work_of(&forebay, "forebay-aside"), work_of(&forebay, "forebay"));
        let replies = connection.pipeline(&requests);
        assert!(!matches!(replies.last(), Some(Reply::Error(_)) | None), "{row}: {replies:?}");
        let (aside, rest) = (work_of(&forebay, "forebay-aside") - aside, work_of(&forebay, "forebay") - all);
        println!("{row}: {} us aside, {} us where the sockets are", aside / 1000, rest / 1000);
        assert!(aside > 0, "{row} is worked on where the sockets are polled");
    }
    connection.pipeline(&[request("HSET", std::iter::once("small".to_owned()).chain(pairs("f").take(2 * 1500)))]);
    // Each command of the second is over soon; all of them are not.
    let looks = || (0..60).map(|_| vec!["HGETALL".to_owned(), "small".to_owned()]);
    for commands in [sets().collect::<Vec<_>>(), looks().collect()] {
        let name = commands[0][0].clone();
        connection.pipeline(&std::iter::once(vec!["MULTI".to_owned()]).chain(commands).collect::<Vec<_>>());
        let aside = work_of(&forebay, "forebay-aside");
        assert!(matches!(connection.call(&["EXEC"]), Reply::Array(_)));
        assert!(work_of(&forebay, "forebay-aside") > aside, "EXEC of {name} is done where the sockets are polled");
    }
}
