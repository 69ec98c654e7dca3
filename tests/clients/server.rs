//! The server under test: forebay's program, or redis-server for comparison, on a free port in a temporary folder.

#![allow(dead_code, reason = "each test uses its part")]

use crate::common::process::Forebay;
use crate::common::{Running, start_redis};

/// Which server is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Forebay,
    Redis,
}

impl Kind {
    fn chosen() -> Kind {
        match std::env::var("FOREBAY_CLIENTS_SERVER").as_deref() {
            Err(_) | Ok("" | "forebay") => Kind::Forebay,
            Ok("redis") => Kind::Redis,
            Ok(other) => panic!("FOREBAY_CLIENTS_SERVER={other}: forebay and redis are known"),
        }
    }

    /// As the clients' scripts know it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Forebay => "forebay",
            Kind::Redis => "redis",
        }
    }
}

/// A running server; dropped it is killed and its folder removed.
pub enum Server {
    Forebay(Forebay),
    Redis(Running),
}

impl Server {
    /// Starts one and waits until it answers.
    pub fn start() -> Server {
        match Kind::chosen() {
            Kind::Forebay => Server::Forebay(Forebay::start("embedded", &[])),
            Kind::Redis => Server::Redis(start_redis().expect("redis-server is in the PATH")),
        }
    }

    pub fn port(&self) -> u16 {
        match self {
            Server::Forebay(forebay) => forebay.address.port(),
            Server::Redis(redis) => redis.address.port(),
        }
    }

    pub fn kind(&self) -> Kind {
        match self {
            Server::Forebay(_) => Kind::Forebay,
            Server::Redis(_) => Kind::Redis,
        }
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        match self {
            Server::Forebay(forebay) => forebay.log(),
            Server::Redis(_) => String::new(),
        }
    }

    /// Stops it as an operator would, and expects that it ends well.
    pub fn stop(self) {
        if let Server::Forebay(mut forebay) = self {
            forebay.terminate();
            let log = forebay.log();
            assert!(!log.contains("panicked at"), "{log}");
        }
    }
}
