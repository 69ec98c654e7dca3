//! The page's files, all in the binary, and the headers of every answer.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Response, StatusCode};

pub(super) const TEXT: &str = "text/plain; charset=utf-8";
pub(super) const HTML: &str = "text/html; charset=utf-8";

/// Nothing but our own files, and nothing that stands in the page itself.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The page of the dashboard.
pub(super) const DASHBOARD: &str = include_str!("assets/dashboard.html");

/// The page that asks for a password, with a mark where it says what went wrong.
const LOGIN: &str = include_str!("assets/login.html");
const MESSAGE: &str = "<!--message-->";

/// The other files: path, type, contents.
const FILES: &[(&str, &str, &str)] = &[
    ("/dashboard.js", "text/javascript; charset=utf-8", include_str!("assets/dashboard.js")),
    ("/charts.js", "text/javascript; charset=utf-8", include_str!("assets/charts.js")),
    ("/dashboard.css", "text/css; charset=utf-8", include_str!("assets/dashboard.css")),
    ("/uplot.js", "text/javascript; charset=utf-8", include_str!("assets/uplot/uPlot.iife.min.js")),
    ("/uplot.css", "text/css; charset=utf-8", include_str!("assets/uplot/uPlot.min.css")),
    ("/icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
];

/// An answer: text, or a stream of events.
pub(super) type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// An answer of one text.
pub(super) fn response(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    with_body(status, kind, Full::new(body.into()).boxed_unsync())
}

/// An answer of one line of text.
pub(super) fn line(status: StatusCode, text: &str) -> Answer {
    response(status, TEXT, format!("{text}\n"))
}

/// An answer with any body.
pub(super) fn with_body(status: StatusCode, kind: &'static str, body: UnsyncBoxBody<Bytes, Infallible>) -> Answer {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        // Not `no-referrer`: the login would come from the origin `null`.
        (REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// A file of the page.
pub(super) fn file(path: &str) -> Option<Answer> {
    let (_, kind, contents) = FILES.iter().find(|(known, ..)| *known == path)?;
    Some(response(StatusCode::OK, kind, *contents))
}

/// The page that asks for a password. `message` is one of our own texts, so nothing of it is escaped.
pub(super) fn login_page(status: StatusCode, message: &'static str) -> Answer {
    response(status, HTML, LOGIN.replace(MESSAGE, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics;

    /// Words of the page's scripts that look like a metric's name.
    fn named(script: &str) -> impl Iterator<Item = &str> {
        let words = script.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
        words.filter(|word| word.starts_with("forebay_") || word.starts_with("process_"))
    }

    #[test]
    fn the_page_names_metrics_that_are_declared() {
        let script = include_str!("assets/charts.js");
        assert!(named(script).count() > 30, "the charts are there");
        let of = |name: &str| metrics::all().any(|metric| metric.name == name);
        let unknown: Vec<_> =
            named(script).chain(named(include_str!("assets/dashboard.js"))).filter(|n| !of(n)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    #[test]
    fn pages_have_nothing_that_their_policy_forbids() {
        assert!(LOGIN.contains(MESSAGE));
        for page in [DASHBOARD, LOGIN] {
            for forbidden in ["<style", "style=", "onclick", "onload", "<script>", "http:", "https:", "//"] {
                assert!(!page.contains(forbidden), "{forbidden}");
            }
            for part in page.split("src=\"").skip(1).chain(page.split("<link ").skip(1)) {
                let path = part.split('"').find(|part| part.starts_with('/')).unwrap_or_default();
                assert!(FILES.iter().any(|(known, ..)| *known == path), "{part}");
            }
        }
    }
}
