//! Paths, who may see them, and the headers of answers. No DSN, target or path is ever taken from a request.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

use super::auth::Credentials;
use super::http::{Arrival, Shared, current};
use super::pieces::Pieces;
use super::world::{Page, World};
use super::{pages, process};
use crate::render::metrics::{Format, process_page};

/// What the pages need.
#[derive(Clone)]
pub(super) struct Site {
    pub world: Arc<World>,
    pub config: Shared,
    pub telemetry_path: Arc<str>,
    /// The host that people reach a proxy under.
    pub external_host: Option<Arc<str>>,
    /// Pages may be seen by everybody on every address.
    pub pages_without_auth: bool,
}

const HTML: &str = "text/html; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// All paths.
pub(super) fn router(site: Site, with_pages: bool) -> Router {
    let mut router = Router::new()
        .route(&site.telemetry_path, get(metrics))
        .route("/-/healthy", get(async || answer(TEXT, "pglockwatch is healthy.\n")))
        .route("/-/ready", get(ready));
    if with_pages {
        let guarded = Router::new()
            .route("/findings", get(findings))
            .route("/runbook", get(runbook))
            .route("/runbook/{rule}", get(rule))
            .layer(middleware::from_fn_with_state(site.clone(), guard_pages));
        router = router.merge(guarded);
        if &*site.telemetry_path != "/" {
            router = router.route("/", get(landing));
        }
    }
    router
        .fallback(async || refuse(StatusCode::NOT_FOUND, "Not found", "There is no such page."))
        .layer(middleware::from_fn_with_state(site.clone(), at_the_door))
        .with_state(site)
}

async fn metrics(State(site): State<Site>, headers: HeaderMap) -> Response {
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let format = Format::accepted(&accept.collect::<Vec<_>>().join(","));
    let mut page = site.world.page(&Page::Metrics(format));
    page.push(process::metrics().map(|process| process_page(format, process)).unwrap_or_default());
    page.push(format.end());
    answer_in(format.content_type(), page)
}

async fn ready(State(site): State<Site>) -> Response {
    if site.world.is_ready() {
        return answer(TEXT, "pglockwatch is ready.\n");
    }
    let waiting = "The first poll of a target has not ended yet.\n";
    (StatusCode::SERVICE_UNAVAILABLE, [(header::CONTENT_TYPE, TEXT)], waiting).into_response()
}

async fn landing(State(site): State<Site>) -> Response {
    answer(HTML, pages::landing(&site.telemetry_path))
}

async fn findings(State(site): State<Site>) -> Response {
    answer_in("application/json", site.world.page(&Page::Findings))
}

async fn runbook(State(site): State<Site>) -> Response {
    answer_in(HTML, site.world.page(&Page::Runbook))
}

async fn rule(State(site): State<Site>, Path(name): Path<String>) -> Response {
    match pages::known_rule(&name) {
        Some(rule) => answer_in(HTML, site.world.page(&Page::Rule(rule))),
        None => refuse(StatusCode::NOT_FOUND, "Not found", "There is no rule of that name: see /runbook."),
    }
}

fn answer(kind: &'static str, whole: impl Into<Bytes>) -> Response {
    answer_in(kind, Pieces::of(whole))
}

fn answer_in(kind: &'static str, pieces: Pieces) -> Response {
    ([(header::CONTENT_TYPE, kind)], Body::new(pieces)).into_response()
}

fn refuse(status: StatusCode, title: &str, sentence: &str) -> Response {
    (status, [(header::CONTENT_TYPE, HTML)], pages::notice(title, sentence)).into_response()
}

/// Methods, passwords, and the headers that every answer has.
async fn at_the_door(State(site): State<Site>, request: Request, next: Next) -> Response {
    let config = current(&site.config);
    let mut response = if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, "Not allowed", "Only GET and HEAD are.");
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        response
    } else if config.users.is_empty() || is_accepted(&config.users, request.headers()).await {
        next.run(request).await
    } else {
        let mut response = refuse(StatusCode::UNAUTHORIZED, "Unauthorized", "A name and a password are needed.");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic"));
        response
    };
    let headers = response.headers_mut();
    let policy = HeaderValue::from_str(&pages::POLICY).unwrap_or(HeaderValue::from_static("default-src 'none'"));
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    for (name, value) in &config.headers {
        headers.insert(name, value.clone());
    }
    response
}

async fn is_accepted(users: &Arc<super::auth::Users>, headers: &HeaderMap) -> bool {
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some(given) = given.and_then(Credentials::of_header) else { return false };
    if users.remembers(&given) {
        return true;
    }
    let users = Arc::clone(users);
    tokio::task::spawn_blocking(move || users.accept(&given)).await.unwrap_or(false)
}

/// Pages show users and addresses: who is not known sees them on this machine only, and there under its own name only,
/// so that no web site can have a browser read them.
async fn guard_pages(State(site): State<Site>, request: Request, next: Next) -> Response {
    let config = current(&site.config);
    let arrival = request.extensions().get::<Arrival>().copied();
    let is_known = !config.users.is_empty() || arrival.is_some_and(|arrival| arrival.client_certificate);
    let on_loopback = arrival.is_some_and(|arrival| is_loopback(arrival.local.ip()));
    if !is_known && !on_loopback && !site.pages_without_auth {
        let sentence = "This page shows users and addresses. It needs a web config that authenticates \
                        (--web.config.file), or --web.pages-without-auth.";
        return refuse(StatusCode::FORBIDDEN, "Forbidden", sentence);
    }
    if !is_known && on_loopback && !is_own_host(request.headers(), site.external_host.as_deref()) {
        return refuse(StatusCode::MISDIRECTED_REQUEST, "Misdirected", "This machine has no such name here.");
    }
    next.run(request).await
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Whether the Host header names this machine as itself, or as the proxy in front. HTTP/1.0 may have none.
fn is_own_host(headers: &HeaderMap, external: Option<&str>) -> bool {
    let Some(host) = headers.get(header::HOST) else { return true };
    let Ok(host) = host.to_str() else { return false };
    let name = host_without_port(host);
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(is_loopback)
        || external.is_some_and(|external| external.eq_ignore_ascii_case(name))
}

/// `[::1]:80`, `127.0.0.1:80` and `localhost` without port and brackets.
pub(super) fn host_without_port(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    host.split(':').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_its_own() {
        let own = |host: &'static str, external| {
            is_own_host(&[(header::HOST, HeaderValue::from_static(host))].into_iter().collect(), external)
        };
        for host in
            ["localhost", "LOCALHOST:10187", "127.0.0.1:10187", "127.9.9.9", "[::1]:10187", "[::ffff:127.0.0.1]"]
        {
            assert!(own(host, None), "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:10187", "10.0.0.1", "", "[::2]"]
        {
            assert!(!own(host, None), "{host}");
        }
        assert!(own("Monitoring.example:443", Some("monitoring.example")));
        assert!(is_own_host(&HeaderMap::new(), None));
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

        /// Whatever stands in Host: a foreign name never passes for our own.
        #[test]
        fn no_host_is_too_strange(host in proptest::collection::vec(0_u8.., 0..40)) {
            if let Ok(value) = HeaderValue::from_bytes(&host)
                && is_own_host(&[(header::HOST, value)].into_iter().collect(), None)
            {
                let text = String::from_utf8_lossy(&host).to_ascii_lowercase();
                proptest::prop_assert!(text.contains("localhost") || text.contains("127.") || text.contains("::"), "{}", text);
            }
        }
    }
}
