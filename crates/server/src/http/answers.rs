//! What is answered to each path.

use std::time::Duration;

use bytes::Bytes;
use forebay::key::Key;
use futures_util::future::{Either, select};
use http_body_util::Full;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use crate::metrics;
use crate::state::Shared;

/// How long the store may take to answer before the server is not ready.
const READY_WAIT: Duration = Duration::from_secs(1);

const TEXT: &str = "text/plain; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";

/// The answer to one request.
pub(super) async fn answer<B>(request: &Request<B>, shared: &Shared) -> Response<Full<Bytes>> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut refused = response(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD\n".into());
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    match request.uri().path() {
        "/" => response(StatusCode::OK, HTML, index(shared)),
        "/metrics" => response(StatusCode::OK, PROMETHEUS, metrics::prometheus(shared)),
        "/healthz" => response(StatusCode::OK, TEXT, "ok\n".into()),
        "/readyz" => match ready(shared).await {
            Ok(()) => response(StatusCode::OK, TEXT, "ready\n".into()),
            Err(why) => response(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{why}\n")),
        },
        _ => response(StatusCode::NOT_FOUND, TEXT, "nothing here; see /\n".into()),
    }
}

fn response(status: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Whether requests would be served: the store answers a read, in time.
async fn ready(shared: &Shared) -> Result<(), String> {
    if shared.stopping.is_set() {
        return Err("the server is stopping".into());
    }
    let engine = &shared.engine;
    let key = [Key::new(0, b"")];
    let read = engine.store().get(&key);
    match select(read, engine.runtime().sleep(READY_WAIT)).await {
        Either::Left((Ok(_), _)) => Ok(()),
        Either::Left((Err(error), _)) => Err(error.to_string()),
        Either::Right(_) => Err(format!("the store has not answered for {} ms", READY_WAIT.as_millis())),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn index(shared: &Shared) -> String {
    let policy = escaped(shared.engine.cache().policy().name);
    let store = escaped(&shared.engine.store().name());
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>forebay</title>\n\
         <h1>forebay {version}</h1>\n<p>policy {policy}, store {store}</p>\n\
         <ul><li><a href=\"/metrics\">metrics</a><li><a href=\"/healthz\">health</a>\
         <li><a href=\"/readyz\">readiness</a></ul>\n</html>\n"
    )
}
