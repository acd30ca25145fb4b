//! Who may read and who may change something.
//!
//! On the Unix socket everything is allowed: only the owner's processes can connect to it. Local programs use that one, so that they never send a token to
//! whoever has taken the port of a cluster that has died.
//!
//! On the loopback port, which every user of the machine can connect to, reading needs the *read token*: in the link that is printed at start, then in a cookie, or in
//! the header `Authorization: Bearer TOKEN`. Changing something needs the *cluster's token* in that header; a cookie is not enough, so no other page can use a browser's
//! cookie to kill a job. Each start has a new one, so that one that was sent to somebody else is worth nothing to the next cluster. Requests whose `Host` is not
//! this machine are refused, so no other page can reach the server under a name of its own (DNS rebinding).

use super::Shared;
use super::api::Problem;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// The tokens of a server.
pub struct Access {
    read: String,
    /// None where nothing can be changed.
    change: Option<String>,
    port: u16,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Access(..)")
    }
}

/// Creates a token of 64 hexadecimal digits in a file that only its owner can read. Replaces one that is there.
pub(super) fn new_token(path: &Path) -> io::Result<String> {
    let mut token = [0; 32];
    getrandom::fill(&mut token).map_err(io::Error::other)?;
    let text: String = token.iter().map(|byte| format!("{byte:02x}")).collect();
    let new = path.with_extension("new");
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(format!("{text}\n").as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    Ok(text)
}

/// The token in a file, or a new one if there is none. A file that others can access is refused.
pub(super) fn kept_token(path: &Path) -> io::Result<String> {
    let invalid = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidData, what.to_owned()));
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return new_token(path),
        Err(error) => return Err(error),
    };
    if file.metadata()?.mode() & 0o077 != 0 {
        return invalid(
            "other users can access this token file; run `chmod 600` on it, or remove it to create a new token",
        );
    }
    let mut text = String::new();
    Read::take(&mut file, 1024).read_to_string(&mut text)?;
    let text = text.trim();
    match text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => Ok(text.to_owned()),
        false => invalid("not a token file: expected 64 hexadecimal digits; remove it to create a new token"),
    }
}

/// Marks the requests of the owner's processes, which came over the Unix socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct FromOwner;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

impl Access {
    pub(super) fn new(read: String, change: String, address: SocketAddr) -> Access {
        Access { read, change: Some(change), port: address.port() }
    }

    /// For recorded logs: a token of its own for each start.
    pub(super) fn random(address: SocketAddr) -> Access {
        let mut bytes = [0; 16];
        // Without random numbers nothing may be read: an empty token matches nothing.
        let read = getrandom::fill(&mut bytes).map_or_else(|_| String::new(), |()| hex(&bytes));
        Access { read, change: None, port: address.port() }
    }

    pub(super) fn read_token(&self) -> &str {
        &self.read
    }

    /// The cookie's name has the port: cookies are shared by all ports of a host.
    fn cookie_name(&self) -> String {
        format!("giveway-{}", self.port)
    }

    pub(super) fn cookie(&self) -> String {
        format!("{}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age=31536000", self.cookie_name(), self.read)
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let name = self.cookie_name();
        let values = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        values
            .flat_map(|value| value.split(';'))
            .filter_map(|cookie| cookie.trim().split_once('='))
            .any(|(found, value)| found == name && equal(value, &self.read))
    }

    /// True if a token in a link is the one for reading.
    pub(super) fn may_read_with(&self, token: &str) -> bool {
        equal(token, &self.read)
    }

    fn may_read(&self, headers: &HeaderMap) -> bool {
        self.has_cookie(headers)
            || bearer(headers).is_some_and(|token| equal(token, &self.read))
            || self.may_change(headers)
    }

    fn may_change(&self, headers: &HeaderMap) -> bool {
        matches!((bearer(headers), &self.change), (Some(token), Some(change)) if equal(token, change))
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ").map(str::trim)
}

/// Takes the same time wherever the two differ. An empty token matches nothing.
fn equal(found: &str, expected: &str) -> bool {
    !expected.is_empty() && bool::from(found.as_bytes().ct_eq(expected.as_bytes()))
}

/// Refuses requests without the token they need.
pub(super) async fn check(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    if request.extensions().get::<FromOwner>().is_some() {
        return next.run(request).await;
    }
    let headers = request.headers();
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    if is_read {
        if !shared.access.may_read(headers) {
            return Problem::unauthorized(
                "open the link that `giveway up` or `giveway view` printed, or send its token",
            )
            .into_response();
        }
        return next.run(request).await;
    }
    if shared.access.change.is_none() {
        return Problem::conflict("a recorded log cannot be changed").into_response();
    }
    if !is_same_origin(headers) {
        return Problem::forbidden("requests of other pages are refused").into_response();
    }
    if !shared.access.may_change(headers) {
        let text = "changing something needs the cluster's token (the file `token` in its directory) in the header `Authorization: Bearer TOKEN`";
        return Problem::unauthorized(text).into_response();
    }
    next.run(request).await
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
    let is_from_owner = request.extensions().get::<FromOwner>().is_some();
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
    fn a_kept_token_stays_and_a_new_one_differs() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let created = kept_token(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(kept_token(&path).unwrap(), created);
        assert_ne!(new_token(&path).unwrap(), created);
        assert_ne!(kept_token(&path).unwrap(), created);
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(kept_token(&path).unwrap_err().to_string().contains("chmod"));
    }

    #[test]
    fn an_empty_token_matches_nothing() {
        assert!(!equal("", ""));
    }
}
