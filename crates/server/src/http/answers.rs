//! What is answered to each path.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use forebay::outage::Mode;
use futures_util::future::{Either, select};
use http_body_util::Full;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use crate::metrics;
use crate::outage::summary;
use crate::state::Shared;

/// How long the store may take to answer before the server is not ready.
const READY_WAIT: Duration = Duration::from_secs(1);

const TEXT: &str = "text/plain; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";

/// The answer to one request.
pub(super) async fn answer<B>(request: &Request<B>, shared: &Shared, hosts: &[String]) -> Response<Full<Bytes>> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut refused = response(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD\n".into());
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    let path = request.uri().path();
    if !matches!(path, "/healthz" | "/readyz") && !is_ours(request, hosts) {
        let text = "this server is not known by that name; ask by its address, or give the name with --http-host\n";
        return response(StatusCode::MISDIRECTED_REQUEST, TEXT, text.into());
    }
    match path {
        "/" => response(StatusCode::OK, HTML, index(shared)),
        "/metrics" => response(StatusCode::OK, PROMETHEUS, metrics::prometheus(shared)),
        "/healthz" => response(StatusCode::OK, TEXT, "ok\n".into()),
        "/readyz" => match ready(shared, is_strict(request.uri().query())).await {
            Ok(how) => response(StatusCode::OK, TEXT, format!("{how}\n")),
            Err(why) => response(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{why}\n")),
        },
        _ => response(StatusCode::NOT_FOUND, TEXT, "nothing here; see /\n".into()),
    }
}

/// Whether a request asks for an address, `localhost` or a name that the operator gave, and for nothing else beside it.
/// One without a host comes from no browser.
fn is_ours<B>(request: &Request<B>, hosts: &[String]) -> bool {
    let headers = request.headers().get_all(HOST).iter().map(|host| host.to_str().unwrap_or_default());
    headers.chain(request.uri().authority().map(|authority| authority.as_str())).all(|host| {
        let name = match host.strip_prefix('[') {
            Some(address) => address.split(']').next().unwrap_or_default(),
            None => host.rsplit_once(':').map_or(host, |(name, _)| name),
        };
        let known = |known: &str| known.eq_ignore_ascii_case(name.trim_end_matches('.'));
        name.parse::<IpAddr>().is_ok() || known("localhost") || hosts.iter().any(|host| known(host))
    })
}

fn response(status: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Whether a query has `strict`, or `strict=1`.
fn is_strict(query: Option<&str>) -> bool {
    query.is_some_and(|query| query.split('&').any(|option| matches!(option, "strict" | "strict=1")))
}

/// Whether requests would be served, and how. Where the store's absence is bridged, they are in any mode; else, and if
/// `strict`, the store has to answer, in time.
async fn ready(shared: &Shared, strict: bool) -> Result<String, String> {
    if shared.stopping.is_set() {
        return Err("the server is stopping".into());
    }
    if let Some(why) = shared.engine.store().fenced() {
        return Err(format!("not the owner: {why}"));
    }
    let Some(gate) = &shared.gate else {
        return answers(shared).await.map(|()| "ready".to_owned());
    };
    let state = gate.state();
    let how = summary(Some(&state));
    match (strict, state.mode) {
        (false, _) => Ok(format!("ready, {how}")),
        (true, Mode::Normal) => answers(shared).await.map(|()| format!("ready, {how}")),
        (true, _) => Err(how),
    }
}

/// Whether the store answers, in time.
async fn answers(shared: &Shared) -> Result<(), String> {
    let engine = &shared.engine;
    match select(engine.store().ping(), engine.runtime().sleep(READY_WAIT)).await {
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
