//! The stream that keeps a page up to date, as server-sent events.
//!
//! | event | data |
//! |---|---|
//! | `names` | the names of columns, as in `/metrics`; again when there are more |
//! | `rows` | rows of numbers: ms since the Unix epoch, then one per column, null for none; its id is the last time |
//! | `now` | names and what is true now: `record.rs` |
//!
//! An event is made when the browser has taken the one before it. So one that reads nothing makes the server hold one
//! event. Rows that it misses for longer than the history has are gone. Before each event it is asked again whether the
//! visitor may see it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forebay::mutation::{self, Fault};
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::StatusCode;
use hyper::body::Frame;
use hyper::header::HeaderValue;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::assets::{Answer, with_body};
use super::history::Sent;
use super::places::Place;
use super::record;
use super::site::{Busy, Site};
use crate::metrics::View;

/// Time between two rows.
const EVERY: Duration = Duration::from_secs(1);

/// A browser asks again so many ms after its stream has ended.
const RETRY: &str = "retry: 1000\n\n";

/// Takes rows until the server stops.
pub(super) async fn take_rows(site: Arc<Site>) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = site.shared.stopping.wait() => return,
        }
        site.history.take(&View::of(&site.shared), site.shared.engine.runtime().now_ms());
    }
}

struct Stream {
    site: Arc<Site>,
    token: Option<String>,
    sent: Sent,
    news: watch::Receiver<()>,
    begun: bool,
    _place: Place,
    _busy: Busy,
}

impl Stream {
    async fn next(mut self) -> Option<(Result<Frame<Bytes>, std::convert::Infallible>, Stream)> {
        loop {
            let user = match self.site.admits(self.token.as_deref()) {
                Ok(user) => user,
                Err(_) if mutation::on(Fault::ToldByOldRights) => None,
                Err(_) => return None,
            };
            if let Some((mut text, all)) = self.site.history.next(&mut self.sent) {
                if !std::mem::replace(&mut self.begun, true) {
                    text.insert_str(0, RETRY);
                }
                if all {
                    text.push_str(&format!(
                        "event: now\ndata: {}\n\n",
                        record::now(&self.site.shared, user.as_deref())
                    ));
                }
                return Some((Ok(Frame::data(text.into())), self));
            }
            self.news.changed().await.ok()?;
        }
    }
}

/// The stream of rows later than `after_ms`, in `place`.
pub(super) fn stream(site: &Arc<Site>, token: Option<String>, after_ms: u64, place: Place, busy: Busy) -> Answer {
    let news = site.history.news();
    let sent = Sent { at_ms: after_ms, names: 0 };
    let stream = Stream { site: site.clone(), token, sent, news, begun: false, _place: place, _busy: busy };
    let body = StreamBody::new(stream::unfold(stream, Stream::next)).boxed_unsync();
    let mut answer = with_body(StatusCode::OK, "text/event-stream; charset=utf-8", body);
    // Some proxies gather what they pass on.
    answer.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    answer
}
