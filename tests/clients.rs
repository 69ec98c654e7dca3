//! Real, unmodified clients against the real program: redis-cli, redis-benchmark, redis-py, node-redis, ioredis,
//! go-redis, rueidis and redis-rs. Each makes its default handshake, and each is a small application. That is a shop
//! that must sell each piece once, counters, sessions in hashes, and a queue in a list. Clients that have a cache
//! inside read through it while others write.
//!
//! A client whose toolchain is missing is skipped, and says on stderr how to get it; with `FOREBAY_CLIENTS_REQUIRED=1`
//! that is a failure. `FOREBAY_CLIENTS_SERVER=redis` runs the same against redis-server, which shows that what the
//! tests ask is what Redis does. Installed libraries are kept in `target/clients`.

mod common;
#[path = "clients/redis_rs.rs"]
mod redis_rs;
#[path = "clients/redis_rs_caching.rs"]
mod redis_rs_caching;
#[path = "clients/redis_tools.rs"]
mod redis_tools;
#[path = "clients/server.rs"]
mod server;
#[path = "clients/tools.rs"]
mod tools;

use std::path::Path;
use std::process::Command;

use server::Server;
use tools::{Tool, run};

/// A client's process, told where the server is.
fn client(program: impl AsRef<Path>, server: &Server) -> Command {
    let mut command = Command::new(program.as_ref());
    command.env("FOREBAY_CLIENTS_PORT", server.port().to_string()).env("FOREBAY_CLIENTS_SERVER", server.kind().name());
    command
}

fn redis_py(protocol: u8) {
    let Some(python) = tools::python() else { return };
    let server = Server::start();
    let mut tests = client(python, &server);
    tests.args(["-B", "-m", "unittest", "discover", "--verbose"]).current_dir(tools::source("python"));
    run(tests.env("FOREBAY_CLIENTS_PROTOCOL", protocol.to_string()), "").expect_success(&server);
    server.stop();
}

#[test]
fn redis_py_with_protocol_2() {
    redis_py(2);
}

#[test]
fn redis_py_with_protocol_3() {
    redis_py(3);
}

#[test]
fn node_redis_and_ioredis() {
    let Some(folder) = tools::node() else { return };
    let server = Server::start();
    let mut tests = client("node", &server);
    tests.args(["--test", "--test-reporter=spec"]).args(tools::NODE_TESTS).current_dir(folder);
    run(&mut tests, "").expect_success(&server);
    server.stop();
}

#[test]
fn go_redis() {
    let Some(tests) = tools::go() else { return };
    let server = Server::start();
    run(client(tests, &server).args(["-test.v", "-test.count=1"]), "").expect_success(&server);
    server.stop();
}

/// What is skipped where a tool is missing has to be seen, whatever the test runner hides.
#[test]
fn each_tool_says_how_to_get_it() {
    for tool in Tool::ALL {
        assert!(tool.missing().contains(tool.program()), "{}", tool.missing());
    }
}
