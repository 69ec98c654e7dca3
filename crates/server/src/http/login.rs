//! POST /login and /logout: a password once, then a cookie.
//!
//! A password is checked by the code that checks AUTH's. A guess waits for its turn, costs as many hashes, and is in
//! the log and in ACL LOG. The answers of one connection come later and later, and the 16th wrong one ends it.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderValue, LOCATION, ORIGIN, SET_COOKIE};
use hyper::{HeaderMap, Request, StatusCode};
use tokio::time::timeout;

use super::assets::{Answer, line, login_page};
use super::site::{Caller, HTTP_HEADER_WAIT, HTTP_LOGINS_MAX, Site};
use crate::access::Refused;
use crate::access::denials::Denial;
use crate::access::password::{PASSWORD_WAITING_MAX, WRONG_PASSWORDS_MAX, source_of, wrong_wait};
use crate::access::user::DEFAULT;

/// Bytes of a login; each of a password's may take three.
pub const HTTP_LOGIN_BYTES_MAX: usize = 48 << 10;

const FORM: &str = "application/x-www-form-urlencoded";

/// Whether a request comes from our own page, or from no page, as far as its browser tells. Browsers tell the origin of
/// a POST, and of a stream that another page asks for.
pub(super) fn is_from_here(headers: &HeaderMap) -> bool {
    let texts = |name: &str| -> Vec<String> {
        headers.get_all(name).iter().map(|value| value.to_str().unwrap_or("?").to_ascii_lowercase()).collect()
    };
    let host = texts(HOST.as_str());
    let is_host = |origin: &String| {
        let named = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        named.is_some_and(|named| host.iter().any(|host| host == named))
    };
    let site = texts("sec-fetch-site");
    texts(ORIGIN.as_str()).iter().all(is_host)
        && site.iter().all(|site| matches!(site.as_str(), "same-origin" | "none"))
}

/// What a form has under the names that it may have; `None` if it is none.
struct Form {
    user: Vec<u8>,
    password: Vec<u8>,
}

fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, more @ ..] = rest {
        rest = more;
        match first {
            b'+' => out.push(b' '),
            b'%' => {
                let digit = |at: usize| Some(char::from(*rest.get(at)?).to_digit(16)? as u8);
                out.push(digit(0)? << 4 | digit(1)?);
                rest = &rest[2..];
            }
            byte => out.push(*byte),
        }
    }
    Some(out)
}

impl Form {
    fn read(body: &[u8]) -> Option<Form> {
        let mut form = (None, None);
        for pair in body.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
            let equals = pair.iter().position(|byte| *byte == b'=')?;
            let place = match &pair[..equals] {
                b"user" => &mut form.0,
                b"password" => &mut form.1,
                _ => return None,
            };
            if place.replace(decoded(&pair[equals + 1..])?).is_some() {
                return None;
            }
        }
        let user = form.0.filter(|user| !user.is_empty()).unwrap_or_else(|| DEFAULT.into());
        Some(Form { user, password: form.1? })
    }
}

/// The body of a form, or the answer that refuses it. While it comes the connection makes room for others.
async fn body(request: Request<Incoming>, caller: &Caller) -> Result<Bytes, Answer> {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(FORM)) {
        return Err(line(StatusCode::UNSUPPORTED_MEDIA_TYPE, &format!("a login is a form: {FORM}")));
    }
    let large = || line(StatusCode::PAYLOAD_TOO_LARGE, &format!("a login has at most {HTTP_LOGIN_BYTES_MAX} bytes"));
    if request.body().size_hint().lower() > HTTP_LOGIN_BYTES_MAX as u64 {
        return Err(large());
    }
    caller.busy.store(false, Ordering::SeqCst);
    let read = timeout(HTTP_HEADER_WAIT, Limited::new(request.into_body(), HTTP_LOGIN_BYTES_MAX).collect()).await;
    caller.busy.store(true, Ordering::SeqCst);
    match read {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(_)) => Err(large()),
        Err(_) => Err(line(StatusCode::REQUEST_TIMEOUT, "the form did not come in time")),
    }
}

/// Sends the browser to `path`, with a cookie that it keeps or, empty, forgets.
fn goes_on(site: &Site, path: &'static str, token: &str, by_tls: bool) -> Answer {
    let mut answer = line(StatusCode::SEE_OTHER, "see the page");
    let age = if token.is_empty() { "; Max-Age=0" } else { "" };
    let secure = if by_tls { "; Secure" } else { "" };
    let cookie = format!("{}={token}; Path=/; HttpOnly; SameSite=Strict{age}{secure}", site.cookie);
    let headers = answer.headers_mut();
    headers.insert(LOCATION, HeaderValue::from_static(path));
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        headers.insert(SET_COOKIE, cookie);
    }
    answer
}

/// Whether the browser speaks TLS, with a proxy: its cookie should then go nowhere else.
fn is_by_tls(headers: &HeaderMap) -> bool {
    headers.get(ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"https://"))
}

/// POST /login.
pub(super) async fn log_in(request: Request<Incoming>, site: &Site, caller: &Caller) -> Answer {
    let by_tls = is_by_tls(request.headers());
    let form = match body(request, caller).await {
        Ok(body) => Form::read(&body),
        Err(refused) => return refused,
    };
    let Some(form) = form else { return line(StatusCode::BAD_REQUEST, "a login has a password, and may have a user") };
    let source = source_of(&caller.address.to_string());
    let place = site.logins.take(&source);
    // A password that was right before does not wait behind guesses.
    if place.is_none() && site.shared.access.known(&form.user, &form.password).is_none() {
        return line(StatusCode::SERVICE_UNAVAILABLE, &format!("LIMIT http_logins_max {HTTP_LOGINS_MAX}"));
    }
    let (shared, access) = (&site.shared, &site.shared.access);
    let runtime = shared.engine.runtime();
    match access.authenticate(runtime, &source, &form.user, &form.password).await {
        Ok(user) => {
            caller.wrong.store(0, Ordering::SeqCst);
            match site.sessions.open(access, user, runtime.elapsed()) {
                Some(token) => goes_on(site, "/", &token, by_tls),
                None => line(StatusCode::INTERNAL_SERVER_ERROR, "the machine has no randomness for a session"),
            }
        }
        Err(Refused::Busy) => {
            line(StatusCode::SERVICE_UNAVAILABLE, &format!("LIMIT password_waiting_max {PASSWORD_WAITING_MAX}"))
        }
        Err(Refused::Wrong) => wrong(site, caller, &form.user).await,
    }
}

/// Logs it, and has the browser wait: the longer, the more often it was wrong.
async fn wrong(site: &Site, caller: &Caller, name: &[u8]) -> Answer {
    let shared = &site.shared;
    let wrong = caller.wrong.fetch_add(1, Ordering::SeqCst) + 1;
    // What is no user's name may be a password that was typed in the wrong place.
    let known = shared.access.user(name).map(|user| user.name.to_string());
    let user = known.unwrap_or_else(|| "(unknown)".into());
    let address = caller.address;
    tracing::warn!(%address, user, wrong, "refused a password at the HTTP address");
    let denial = Denial { reason: "auth", context: "http", object: b"login".to_vec(), user };
    shared.access.denials.add(denial, format!("addr={address}"), shared.engine.runtime().now_ms());
    shared.engine.runtime().sleep(wrong_wait(wrong)).await;
    let mut answer = login_page(StatusCode::FORBIDDEN, "This is not the password of that user.");
    if wrong >= WRONG_PASSWORDS_MAX {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// POST /logout.
pub(super) fn log_out(headers: &HeaderMap, site: &Site) -> Answer {
    if let Some(token) = site.token(headers) {
        site.sessions.close(&token);
    }
    goes_on(site, "/login", "", is_by_tls(headers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let read = |text: &str| Form::read(text.as_bytes()).map(|form| (form.user, form.password));
        let of = |user: &str, password: &str| Some((user.into(), password.into()));
        assert_eq!(read("password=a+b%26%c3%A4"), of("default", "a b&\u{e4}"));
        assert_eq!(read("user=al&password="), of("al", ""));
        assert_eq!(read("user=&password=x&"), of("default", "x"));
        for wrong in ["", "user=al", "password", "password=%", "password=%4", "password=%zz", "password=%-1"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!((read("password=a&password=b"), read("password=a&more=b")), (None, None));
    }

    #[test]
    fn other_pages_are_told_apart() {
        let from = |pairs: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in [("host", "Localhost:7379")].iter().chain(pairs) {
                headers.append(*name, HeaderValue::from_static(value));
            }
            is_from_here(&headers)
        };
        assert!(from(&[]) && from(&[("origin", "http://localhost:7379"), ("sec-fetch-site", "same-origin")]));
        assert!(from(&[("origin", "https://localhost:7379")]) && from(&[("sec-fetch-site", "none")]));
        for origin in ["null", "http://localhost", "http://localhost:80", "http://evil.example", "localhost:7379", ""] {
            assert!(!from(&[("origin", origin)]), "{origin}");
        }
        assert!(!from(&[("origin", "http://localhost:7379"), ("origin", "http://evil.example")]));
        assert!(!from(&[("sec-fetch-site", "cross-site")]) && !from(&[("sec-fetch-site", "same-site")]));
    }
}
