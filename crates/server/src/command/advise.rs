//! CACHE ADVISE: which policy and how much memory would do better.

use forebay::store::figures::Times;
use forebay_protocol::{Frame, Reply, errors};
use futures_util::future::BoxFuture;

use super::family::{is, text};
use crate::command::{Sub, SubRun};
use crate::session::Session;
use crate::shadow::advice;

pub(super) const ADVISE: Sub = Sub {
    name: "advise",
    syntax: "[RESET]",
    summary: "What the policies of --shadow would save at half, one, two and four times the memory, and which to take; \
              RESET: then counts from zero",
    arity: -2,
    flags: &[],
    run: SubRun::Engine(advise),
};

fn advise<'a>(session: &'a mut Session, frame: Frame<'a>) -> BoxFuture<'a, Reply> {
    Box::pin(async move {
        let begins_again = match frame.get(2) {
            None => false,
            Some(word) if frame.len() == 3 && is(word, "reset") => true,
            Some(_) => return errors::wrong_arguments("cache|advise"),
        };
        let shared = session.shared.clone();
        let Some(figures) = shared.shadows.figures(begins_again).await else {
            return Reply::error(
                "ERR no shadows; start the server with --shadow POLICY,.. such as --shadow lru,s3-fifo,detox",
            );
        };
        let commit_us = shared.engine.store().figures().and_then(|figures| mean_us(&figures.groups));
        Reply::Array(advice(&figures, commit_us).into_iter().map(text).collect())
    })
}

/// The mean of what was measured.
fn mean_us(times: &Times) -> Option<f64> {
    let count: u64 = times.buckets.iter().sum();
    (count > 0).then(|| times.sum_us as f64 / count as f64)
}
