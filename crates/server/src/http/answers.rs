//! What is answered to each path.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use forebay::outage::Mode;
use futures_util::future::{Either, select};
use hyper::body::Incoming;
use hyper::header::{ALLOW, HOST, HeaderValue, LOCATION};
use hyper::{HeaderMap, Method, Request, StatusCode};

use super::assets::{Answer, DASHBOARD, HTML, TEXT, file, line, login_page, response};
use super::events::stream;
use super::login::{is_from_here, log_in, log_out};
use super::site::{Busy, Caller, Closed, HTTP_STREAMS_MAX, Site};
use crate::access::password::source_of;
use crate::metrics;
use crate::outage::summary;
use crate::state::Shared;

/// How long the store may take to answer before the server is not ready.
const READY_WAIT: Duration = Duration::from_secs(1);

const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

const NO_RIGHT: &str = "This user may not see figures: that takes the rights to run INFO and CACHE STATS.";

/// The answer to one request.
pub(super) async fn answer(request: Request<Incoming>, site: &Arc<Site>, caller: &Caller) -> Answer {
    // A stream keeps it.
    let busy = Busy::new(&caller.busy);
    let path = request.uri().path().to_owned();
    let posts = matches!(&*path, "/login" | "/logout");
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let permitted = reads || posts && request.method() == Method::POST;
    if !permitted {
        let mut refused = line(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD");
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    if !matches!(&*path, "/healthz" | "/readyz") && !is_ours(&request, &site.hosts) {
        let text = "this server is not known by that name; ask by its address, or give the name with --http-host";
        return line(StatusCode::MISDIRECTED_REQUEST, text);
    }
    if (path == "/events" || !reads) && !is_from_here(request.headers()) {
        return line(StatusCode::FORBIDDEN, "asked for by a page from elsewhere");
    }
    if !reads {
        return match &*path {
            "/login" => log_in(request, site, caller).await,
            _ => log_out(request.headers(), site),
        };
    }
    match &*path {
        "/" => page(request.headers(), site),
        "/login" => login_page(StatusCode::OK, ""),
        "/events" => events(request, site, caller, busy),
        "/metrics" => response(StatusCode::OK, PROMETHEUS, metrics::prometheus(&site.shared)),
        "/healthz" => response(StatusCode::OK, TEXT, "ok\n"),
        "/readyz" => match ready(&site.shared, is_strict(request.uri().query())).await {
            Ok(how) => line(StatusCode::OK, &how),
            Err(why) => line(StatusCode::SERVICE_UNAVAILABLE, &why),
        },
        path => file(path).unwrap_or_else(|| line(StatusCode::NOT_FOUND, "nothing here; see /")),
    }
}

/// The page, or what asks for a password.
fn page(headers: &HeaderMap, site: &Site) -> Answer {
    match site.admits(site.token(headers).as_deref()) {
        Ok(_) => response(StatusCode::OK, HTML, DASHBOARD),
        Err(Closed::NoRight) => login_page(StatusCode::FORBIDDEN, NO_RIGHT),
        Err(Closed::LogIn) => {
            let mut answer = line(StatusCode::SEE_OTHER, "log in at /login");
            answer.headers_mut().insert(LOCATION, HeaderValue::from_static("/login"));
            answer
        }
    }
}

/// The stream of a page. One that was cut off asks for what came after the last event that it has.
fn events(request: Request<Incoming>, site: &Arc<Site>, caller: &Caller, busy: Busy) -> Answer {
    let token = site.token(request.headers());
    match site.admits(token.as_deref()) {
        Ok(_) => {}
        Err(Closed::LogIn) => return line(StatusCode::FORBIDDEN, "log in at /login"),
        Err(Closed::NoRight) => return line(StatusCode::FORBIDDEN, NO_RIGHT),
    }
    let Some(place) = site.streams.take(&source_of(&caller.address.to_string())) else {
        let text = format!("LIMIT http_streams_max {HTTP_STREAMS_MAX}: close one of the pages that are open");
        return line(StatusCode::SERVICE_UNAVAILABLE, &text);
    };
    let last = request.headers().get("last-event-id").and_then(|last| last.to_str().ok()?.parse().ok());
    let mut options = request.uri().query().unwrap_or_default().split('&');
    let after = options.find_map(|option| option.strip_prefix("after=")?.parse().ok());
    stream(site, token, last.or(after).unwrap_or(0), place, busy)
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
