//! What the tests of the embedded store share: a runtime without threads, and a generator.

#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use forebay::runtime::{Backend, Runtime};
use futures_util::future::BoxFuture;

/// Does blocking work at once and never runs a task; its clock is set by hand.
#[derive(Clone, Default)]
pub struct Inline(pub Arc<AtomicU64>);

impl Backend for Inline {
    fn now_us(&self) -> u64 {
        1000 * self.0.load(Ordering::SeqCst)
    }

    fn elapsed(&self) -> Duration {
        Duration::from_micros(self.now_us())
    }

    fn random(&self) -> u64 {
        4
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    fn spawn(&self, _: BoxFuture<'static, ()>) {}

    fn blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        work();
        Box::pin(std::future::ready(()))
    }
}

pub fn runtime() -> Runtime {
    Runtime::new(Inline::default())
}

/// splitmix64.
pub struct Random(pub u64);

impl Random {
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.draw() % limit
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
