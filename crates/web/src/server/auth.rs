//! Who may read and who may change something.
//!
//! On the Unix socket everything is allowed: only the owner's processes can connect to it. Local programs use that one, so that they never send a token to
//! whoever has taken the port of a cluster that has died.
//!
//! On the loopback port, which every user of the machine can connect to, a request needs a token (`tokens.rs`) in the header `Authorization: Bearer TOKEN`. The token
//! of a printed link is turned into a cookie, which is enough to read and never to change something, so no other page can use a browser's cookie to kill a
//! job. Requests whose `Host` is not this machine are refused, so no other page can reach the server under a name of its own (DNS rebinding).

use super::Shared;
use super::api::Problem;
use super::serve::Connection;
use super::tokens::{Purpose, TokenError, TokenFile, random_secret};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use giveway_engine::current_user;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;

/// How long browsers keep the cookie. Its token may expire before.
const COOKIE_LIFETIME: Duration = Duration::from_secs(12 * 3600);

/// The tokens of a server.
pub struct Access {
    tokens: Tokens,
    port: u16,
    turns: Turns,
}

/// Requests with one token that are handled at a time; others with it wait. So no token takes all threads of the server, nor the time of the coordinator.
const REQUESTS_OF_TOKEN_MAX: usize = 4;

/// Who may go ahead, by the name of the token.
#[derive(Default)]
struct Turns(Mutex<HashMap<String, Arc<Semaphore>>>);

impl Turns {
    fn of(&self, name: &str) -> Arc<Semaphore> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Tokens come and go. Those that nobody waits for are not kept.
        all.retain(|_, turns| Arc::strong_count(turns) > 1);
        let turns = all.entry(name.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(REQUESTS_OF_TOKEN_MAX)));
        Arc::clone(turns)
    }
}

enum Tokens {
    /// Of a cluster.
    File(TokenFile),
    /// Recorded logs have one for each start, which may read.
    Fixed(String),
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Access(..)")
    }
}

/// What a request may do.
#[derive(Clone, Debug)]
pub(super) enum Caller {
    /// It came over the Unix socket.
    Owner,
    /// It has a token of this name.
    Token { name: String, purpose: Purpose },
}

impl Caller {
    /// The only user whose jobs it may submit and change; none if it may do so for all.
    pub(super) fn limited_to(&self) -> Option<&str> {
        match self {
            Caller::Owner | Caller::Token { purpose: Purpose::Administer, .. } => None,
            Caller::Token { name, .. } => Some(name),
        }
    }

    /// The user whose jobs are the caller's own: the token's, if it may submit, otherwise the one who runs this.
    pub(super) fn user(&self) -> String {
        match self {
            Caller::Token { name, purpose: Purpose::Submit } => name.clone(),
            _ => current_user(),
        }
    }
}

impl Access {
    pub(super) fn of_cluster(tokens: TokenFile, port: u16) -> Access {
        Access { tokens: Tokens::File(tokens), port, turns: Turns::default() }
    }

    /// For recorded logs.
    pub(super) fn random(port: u16) -> Access {
        // Without random numbers nothing may be read: an empty token matches nothing.
        Access { tokens: Tokens::Fixed(random_secret().unwrap_or_default()), port, turns: Turns::default() }
    }

    /// A token for a link.
    pub(super) fn link_token(&self) -> Result<String, TokenError> {
        match &self.tokens {
            Tokens::File(tokens) => tokens.create_for_link(),
            Tokens::Fixed(secret) => Ok(secret.clone()),
        }
    }

    /// The token with this secret, if it is valid.
    fn find(&self, secret: &str) -> Option<Caller> {
        match &self.tokens {
            Tokens::File(tokens) => {
                tokens.find(secret).map(|token| Caller::Token { name: token.name, purpose: token.purpose })
            }
            Tokens::Fixed(expected) => {
                equal(secret, expected).then(|| Caller::Token { name: "link".into(), purpose: Purpose::Read })
            }
        }
    }

    /// The cookie's name has the port: cookies are shared by all ports of a host.
    fn cookie_name(&self) -> String {
        format!("giveway-{}", self.port)
    }

    /// The cookie for the token of a link, if that may read and nothing else.
    pub(super) fn cookie(&self, secret: &str) -> Option<String> {
        let Some(Caller::Token { purpose: Purpose::Read, .. }) = self.find(secret) else { return None };
        let seconds = COOKIE_LIFETIME.as_secs();
        Some(format!("{}={secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}", self.cookie_name()))
    }

    /// Whose cookie this is. It may read, whatever its token may do.
    fn cookies_caller(&self, headers: &HeaderMap) -> Option<Caller> {
        let name = self.cookie_name();
        let values = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        values
            .flat_map(|value| value.split(';'))
            .filter_map(|cookie| cookie.trim().split_once('='))
            .filter(|(found, _)| *found == name)
            .find_map(|(_, secret)| self.find(secret))
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ").map(str::trim)
}

/// Takes the same time wherever the two differ. An empty token matches nothing.
fn equal(found: &str, expected: &str) -> bool {
    !expected.is_empty() && bool::from(found.as_bytes().ct_eq(expected.as_bytes()))
}

/// Refuses requests without the token they need, and adds a [`Caller`] to the others.
pub(super) async fn check(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    match caller(&shared, &request) {
        Ok(caller) => {
            // Held until the answer is known.
            let _turn = match &caller {
                Caller::Token { name, .. } => Some(shared.access.turns.of(name).acquire_owned().await),
                Caller::Owner => None,
            };
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

fn caller(shared: &Shared, request: &Request) -> Result<Caller, Problem> {
    let connection = request.extensions().get::<Connection>();
    if connection.is_some_and(Connection::is_from_owner) {
        return Ok(Caller::Owner);
    }
    let headers = request.headers();
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    if !is_read && shared.folder.is_none() {
        return Err(Problem::conflict("a recorded log cannot be changed"));
    }
    if !is_read && !is_same_origin(headers) {
        return Err(Problem::forbidden("requests of other pages are refused"));
    }
    let with_header = bearer(headers).and_then(|secret| shared.access.find(secret));
    let found = with_header.or_else(|| shared.access.cookies_caller(headers).filter(|_| is_read));
    if let (Some(Caller::Token { name, .. }), Some(connection)) = (&found, connection) {
        connection.trust(name);
    }
    match found {
        Some(Caller::Token { purpose: Purpose::Read, .. }) if !is_read => {
            Err(Problem::forbidden("this token may only read; `giveway token create NAME --may submit` makes another"))
        }
        Some(caller) => Ok(caller),
        None if is_read => Err(Problem::unauthorized(
            "the token is missing, wrong or expired; open the link that was printed last, or make a new one with `giveway token link`",
        )),
        None => Err(Problem::unauthorized(
            "changing something needs a token that may do so (such as that in the file `token` of the cluster directory, new with each start) in the header `Authorization: Bearer TOKEN`",
        )),
    }
}

/// True if the request does not come from another page. Programs send neither header.
fn is_same_origin(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value: &axum::http::HeaderValue| value.to_str().unwrap_or("?"));
    let site_is_own = text(header::HeaderName::from_static("sec-fetch-site"))
        .is_none_or(|site| site == "same-origin" || site == "none");
    let host = text(header::HOST).unwrap_or_default();
    let origin_is_own = text(header::ORIGIN).is_none_or(|origin| origin.strip_prefix("http://") == Some(host));
    site_is_own && origin_is_own
}

/// Refuses requests to another host name than this machine's own.
pub(super) async fn check_host(State(_): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let is_from_owner = request.extensions().get::<Connection>().is_some_and(Connection::is_from_owner);
    if !is_from_owner && !is_loopback_name(host) {
        return Problem::misdirected("use http://127.0.0.1 or http://localhost").into_response();
    }
    next.run(request).await
}

fn is_loopback_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_accepted() {
        for host in ["127.0.0.1", "127.0.0.1:8080", "localhost:1", "LOCALHOST", "[::1]:80", "[::1]"] {
            assert!(is_loopback_name(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example:80",
            "10.0.0.1",
            "[::2]:80",
            "[",
            ":",
        ] {
            assert!(!is_loopback_name(host), "{host}");
        }
    }

    #[test]
    fn a_token_has_few_requests_at_a_time_and_others_go_ahead() {
        let turns = Turns::default();
        let held: Vec<_> = (0..REQUESTS_OF_TOKEN_MAX).map(|_| turns.of("ann").try_acquire_owned().unwrap()).collect();
        assert!(turns.of("ann").try_acquire_owned().is_err());
        assert!(turns.of("bob").try_acquire_owned().is_ok());
        drop(held);
        assert!(turns.of("ann").try_acquire_owned().is_ok());
        assert_eq!(turns.0.lock().unwrap().len(), 1, "tokens without requests are not kept");
    }

    #[test]
    fn an_empty_token_matches_nothing() {
        assert!(!equal("", ""));
    }
}
