//! redis-cli and redis-benchmark, as people use them at a shell.

use std::fmt::Write;
use std::process::Command;

use crate::server::{Kind, Server};
use crate::tools::{Outcome, Tool, run};

fn redis_cli(server: &Server, args: &[&str], input: &str) -> Outcome {
    let outcome = run(Command::new("redis-cli").args(["-p", &server.port().to_string()]).args(args), input);
    outcome.expect_success(server);
    outcome
}

fn prints(server: &Server, args: &[&str], expected: &str) {
    let printed = redis_cli(server, args, "").stdout;
    assert_eq!(printed.trim_end(), expected, "redis-cli {args:?}");
}

/// One command in RESP.
fn encoded(command: &[&str]) -> String {
    let mut text = format!("*{}\r\n", command.len());
    for arg in command {
        write!(text, "${}\r\n{arg}\r\n", arg.len()).expect("a string takes all");
    }
    text
}

#[test]
fn redis_cli_with_commands_as_arguments() {
    if !Tool::RedisCli.present() {
        return;
    }
    let server = Server::start();
    prints(&server, &["PING"], "PONG");
    prints(&server, &["SET", "greeting", "hello"], "OK");
    prints(&server, &["--no-raw", "GET", "greeting"], "\"hello\"");
    prints(&server, &["--no-raw", "GET", "absent"], "(nil)");
    prints(&server, &["--no-raw", "HSET", "session:1", "user", "17"], "(integer) 1");
    prints(&server, &["--no-raw", "HGETALL", "session:1"], "1) \"user\"\n2) \"17\"");
    prints(&server, &["-3", "--no-raw", "HGETALL", "session:1"], "1# \"user\" => \"17\"");
    prints(&server, &["-3", "--json", "HGETALL", "session:1"], "{\"user\":\"17\"}");
    prints(&server, &["-3", "--no-raw", "GET", "absent"], "(nil)");
    prints(&server, &["-3", "--csv", "LRANGE", "absent", "0", "-1"], "");
    prints(&server, &["-n", "3", "EXISTS", "greeting"], "0");
    assert_eq!(redis_cli(&server, &["-x", "SET", "piped"], "from stdin").stdout, "OK\n");
    prints(&server, &["GET", "piped"], "from stdin");
    prints(&server, &["-r", "3", "INCR", "n"], "1\n2\n3");
    let refused = run(Command::new("redis-cli").args(["-p", &server.port().to_string(), "-e", "NOSUCH", "a"]), "");
    assert_eq!(refused.status.and_then(|status| status.code()), Some(1), "{}", refused.stdout);
    let printed = refused.stdout + &refused.stderr;
    assert!(printed.starts_with("ERR unknown command 'NOSUCH', with args beginning with: 'a'"), "{printed}");
    server.stop();
}

#[test]
fn redis_cli_at_its_prompt() {
    if !Tool::RedisCli.present() {
        return;
    }
    let server = Server::start();
    let script = "MULTI\nSET stock 5\nDECR stock\nRPUSH orders first\nEXEC\nMULTI\nDECR stock\nDISCARD\nGET stock\n";
    let expected = "OK\nQUEUED\nQUEUED\nQUEUED\nOK\n4\n1\nOK\nQUEUED\nOK\n4\n";
    assert_eq!(redis_cli(&server, &[], script).stdout, expected);

    // Its help comes from the server, by COMMAND DOCS.
    for (command, summary) in [("hset", "key field value"), ("set", "key value"), ("watch", "key [key")] {
        let help = redis_cli(&server, &[], &format!("help {command}\n")).stdout;
        let (title, rest) = (command.to_uppercase(), help.to_lowercase());
        assert!(help.contains(&title) && rest.contains(summary) && rest.contains("summary:"), "{help}");
    }
    if server.kind() == Kind::Forebay {
        let help = redis_cli(&server, &[], "help txn\n").stdout;
        assert!(help.contains("TXN") && help.contains("COMMIT"), "{help}");
        let script = "TXN BEGIN\nGET stock\nSET stock 3\nGET stock\nTXN COMMIT\nGET stock\n";
        let printed = redis_cli(&server, &[], script).stdout;
        let lines: Vec<_> = printed.lines().collect();
        assert!(matches!(lines[..], ["OK", "4", "OK", "3", commit, "3"] if commit.starts_with("OK ")), "{printed}");
        let failing = redis_cli(&server, &[], "MULTI\nSET stock 9\nINCR orders\nEXEC\nGET stock\n").stdout;
        assert!(failing.contains("EXECABORT rolled back: command 2 (INCR orders): WRONGTYPE"), "{failing}");
        assert_eq!(failing.lines().rfind(|line| !line.is_empty()), Some("3"), "{failing}");
    }
    server.stop();
}

#[test]
fn redis_cli_pipes_and_scans() {
    if !Tool::RedisCli.present() {
        return;
    }
    let server = Server::start();
    let mut commands = String::new();
    for n in 0..10_000 {
        commands += &encoded(&["SET", &format!("bulk:{n}"), &format!("value {n}")]);
    }
    let piped = redis_cli(&server, &["--pipe"], &commands).stdout;
    assert!(piped.contains("errors: 0, replies: 10000"), "{piped}");
    prints(&server, &["DBSIZE"], "10000");
    let failing = encoded(&["SET", "text", "x"]) + &encoded(&["INCR", "text"]) + &encoded(&["SET", "text", "y"]);
    let piped = run(Command::new("redis-cli").args(["-p", &server.port().to_string(), "--pipe"]), &failing);
    assert!(piped.stdout.contains("errors: 1, replies: 3"), "{}", piped.stdout);
    prints(&server, &["GET", "text"], "y");

    let scanned = redis_cli(&server, &["--scan", "--pattern", "bulk:99*"], "").stdout;
    let mut found: Vec<_> = scanned.lines().collect();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), 111, "bulk:99, bulk:990.., bulk:9900..\n{scanned}");
    let biggest = redis_cli(&server, &["--bigkeys"], "").stdout;
    assert!(biggest.contains("10001 strings with"), "{biggest}");
    let biggest = redis_cli(&server, &["--memkeys"], "").stdout;
    assert!(biggest.contains("10001 strings with"), "{biggest}");
    server.stop();
}

#[test]
fn redis_benchmark() {
    if !Tool::RedisBenchmark.present() {
        return;
    }
    let server = Server::start();
    let port = server.port().to_string();
    for pipeline in ["1", "16"] {
        let args = ["-p", &port, "-t", "ping,set,get,incr,mset,hset", "-n", "20000", "-q", "-P", pipeline];
        let outcome = run(Command::new("redis-benchmark").args(args), "");
        outcome.expect_success(&server);
        let printed = outcome.stdout.replace('\r', "\n");
        for test in ["PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "HSET", "MSET (10 keys)"] {
            let done = |line: &str| line.starts_with(&format!("{test}: ")) && line.contains("requests per second");
            assert!(printed.lines().any(done), "{test} with -P {pipeline} is missing:\n{printed}");
        }
        let complaint = |line: &&str| {
            let line = line.to_lowercase();
            ["error", "warning", "could not", "unexpected"].iter().any(|word| line.contains(word))
        };
        let complaints: Vec<_> = printed.lines().chain(outcome.stderr.lines()).filter(complaint).collect();
        assert!(complaints.is_empty(), "{complaints:?}");
    }
    server.stop();
}
