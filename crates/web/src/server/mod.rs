//! The HTTP server: dashboard, API, metrics. It listens on loopback only and runs in threads of its own.
//!
//! A thread follows the journal and keeps the model ([`giveway_analysis::model`]) current; another renews the forecasts while somebody watches. Requests read the model.
//! Requests that change something go to the coordinator over its socket, as those of the command line do.

mod api;
mod assets;
mod auth;
mod extract;
mod logs;
mod metrics;
mod serve;
mod stream;
mod tokens;
mod usage;
mod what_if;

pub use auth::Access;
pub use tokens::{Purpose, Token, TokenError, TokenFile};

use axum::Router;
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware;
use axum::routing::{get, post};
use giveway_analysis::feed::{self, Feed, FeedError, JournalFeed};
use giveway_analysis::forecast::{Forecasts, Present};
use giveway_analysis::model::Model;
use giveway_engine::coordinator::{Timings, journal_path};
use giveway_engine::wire::SocketFile;
use giveway_mapreduce::apps::Apps;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};
use thiserror::Error;
use tokio::sync::{Semaphore, watch};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::set_header::SetResponseHeaderLayer;

/// How often the journal is read while somebody watches, and otherwise.
const POLL_WATCHED: Duration = Duration::from_millis(200);
const POLL_IDLE: Duration = Duration::from_secs(1);

/// How long a log that cannot be read is left alone before it is read again from its beginning.
const POLL_DAMAGED: Duration = Duration::from_secs(10);

/// How often forecasts are renewed while somebody watches, and how long that may take.
const FORECAST_INTERVAL: Duration = Duration::from_secs(5);
const FORECAST_LIMIT: Duration = Duration::from_secs(1);

/// The niceness of all threads here; that of the scheduler and of tasks is 0.
const NICENESS: i32 = 10;

/// Threads that serve requests, and the most that wait for files and for the coordinator.
const THREADS: usize = 2;
const BLOCKING_THREADS_MAX: usize = 32;

/// The description of the API, in the OpenAPI format. Tests compare it with the routes and with the answers.
const OPENAPI: &str = include_str!("openapi.json");

/// Scripts and styles only from here, nothing from anywhere else, no frames.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Why the server cannot start.
#[derive(Debug, Error)]
pub enum ServerError {
    /// The address cannot be listened on.
    #[error("cannot serve the dashboard on {address}: {error}; choose another address with --http")]
    Listen { address: SocketAddr, error: io::Error },
    /// The port that a cluster had before is in use.
    #[error(
        "cannot serve the dashboard on {address}, where it was before: {error}; enter no token there, look who listens (`ss -ltnp`), and stop that program or choose another port with --http 127.0.0.1:0"
    )]
    Taken { address: SocketAddr, error: io::Error },
    /// The address is not a loopback address.
    #[error(
        "cannot serve the dashboard on {address}: it can be reached from other machines and is not encrypted; use 127.0.0.1"
    )]
    Exposed { address: SocketAddr },
    /// A file that belongs to the server cannot be used.
    #[error("cannot use {}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    /// The event log cannot be read.
    #[error(transparent)]
    Feed(#[from] FeedError),
    /// The tokens cannot be read or written.
    #[error(transparent)]
    Tokens(#[from] TokenError),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// A log that is served.
pub(crate) struct Source {
    /// Shown to users: the name of the file, or the cluster directory.
    name: String,
    /// The event log or journal.
    path: PathBuf,
    model: RwLock<Option<Model>>,
    forecasts: RwLock<Arc<Forecasts>>,
}

/// What all requests share.
pub(crate) struct Shared {
    /// One log, or two that are compared.
    sources: Vec<Source>,
    /// True if the log grows.
    is_live: bool,
    /// The cluster directory; none for event logs, whose writer answers no requests.
    folder: Option<PathBuf>,
    /// The applications that the cluster knows.
    apps: Apps,
    /// Times of the coordinator's loop; none for recorded logs.
    timings: Option<Arc<Timings>>,
    access: Access,
    /// Changes with every change of the model.
    changes: watch::Sender<u64>,
    watchers: AtomicUsize,
    updates: Mutex<stream::UpdateCache>,
    /// The error of the last attempt to read the journal, and when the journal was last read without one.
    feed_error: Mutex<Option<String>>,
    /// Held by the comparison that runs.
    what_if: Arc<Semaphore>,
    started: Instant,
}

/// A running server. It serves until the process ends; its Unix socket only while this exists.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    /// None if it serves its Unix socket alone.
    address: Option<SocketAddr>,
    _socket: Option<SocketFile>,
}

impl Server {
    /// Serves recorded logs.
    pub fn view(logs: &[PathBuf], address: SocketAddr) -> Result<Server, ServerError> {
        let mut sources = Vec::new();
        for path in logs {
            let name =
                path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into());
            sources.push(Source::new(name, path.clone(), Some(feed::read(path)?)));
        }
        let (listener, address) = bind(address)?;
        let shared = Shared::new(sources, None, Access::random(address.port()));
        Server::start(shared, None, Some((listener, address)), None)
    }

    /// Serves an event log or journal that a program is writing, as it grows. It need not exist yet.
    pub fn follow(log: &Path, address: SocketAddr) -> Result<Server, ServerError> {
        let feed = feed::follow(log)?;
        let (listener, address) = bind(address)?;
        let source = Source::new(log.display().to_string(), log.to_owned(), None);
        let shared = Shared::new(vec![source], None, Access::random(address.port()));
        Server::start(shared, Some(feed), Some((listener, address)), None)
    }

    /// Serves the cluster in a folder, on a loopback port and on a Unix socket in the private folder `sockets`. Without a port ([`cluster_port`]) it serves the
    /// socket alone. `apps` are the applications that the cluster knows, `timings` those of its coordinator.
    pub fn live(
        folder: &Path,
        sockets: &Path,
        port: Option<(TcpListener, SocketAddr)>,
        apps: Apps,
        timings: Arc<Timings>,
    ) -> Result<Server, ServerError> {
        let at = |name: &str| {
            let path = folder.join(name);
            (path.clone(), move |error| ServerError::File { path, error })
        };
        let tokens = TokenFile::new(folder);
        tokens.renew_owner()?;
        // Of earlier releases: it never expired.
        let _ = std::fs::remove_file(folder.join("read-token"));
        if let Some((_, address)) = &port {
            let (remembered, failed) = at(ADDRESS);
            write_atomically(&remembered, address.to_string().as_bytes()).map_err(failed)?;
        }
        let socket = sockets.join("http");
        let _ = std::fs::remove_file(&socket);
        let failed = |error| ServerError::File { path: socket.clone(), error };
        let unix = UnixListener::bind(&socket).map_err(failed)?;
        std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        let (path, failed) = at("http-socket");
        write_atomically(&path, socket.as_os_str().as_bytes()).map_err(failed)?;
        let journal = journal_path(folder);
        let feed = Box::new(JournalFeed::new(&journal));
        let source = Source::new(folder.display().to_string(), journal, None);
        let cluster = Some((folder.to_owned(), apps, timings));
        let access = Access::of_cluster(tokens, port.as_ref().map_or(0, |(_, address)| address.port()));
        let shared = Shared::new(vec![source], cluster, access);
        Server::start(shared, Some(feed), port, Some((unix, socket)))
    }

    fn start(
        mut shared: Shared,
        feed: Option<Box<dyn Feed>>,
        port: Option<(TcpListener, SocketAddr)>,
        unix: Option<(UnixListener, PathBuf)>,
    ) -> Result<Server, ServerError> {
        shared.is_live = feed.is_some();
        let shared = Arc::new(shared);
        if let Some(feed) = feed {
            let follower = Arc::clone(&shared);
            spawn("http-feed", move || follow(&follower, feed))?;
            let forecaster = Arc::clone(&shared);
            spawn("http-forecast", move || forecast(&forecaster))?;
        }
        let (listener, address) = port.unzip();
        if let (Some(listener), Some(address)) = (&listener, address) {
            listener.set_nonblocking(true).map_err(|error| ServerError::Listen { address, error })?;
        }
        let (unix, socket) = unix.unzip();
        if let Some(unix) = &unix {
            unix.set_nonblocking(true).map_err(ServerError::Thread)?;
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .thread_name("http")
            .on_thread_start(lower_priority)
            .enable_all()
            .build()
            .map_err(ServerError::Thread)?;
        let router = router(Arc::clone(&shared));
        spawn("http-accept", move || {
            runtime.block_on(async move {
                let owner = async {
                    match unix.map(tokio::net::UnixListener::from_std) {
                        Some(Ok(unix)) => serve::serve_owner(unix, router.clone()).await,
                        Some(Err(error)) => tracing::warn!("the HTTP API has no Unix socket: {error}"),
                        None => {}
                    }
                };
                let everybody = async {
                    match listener.map(tokio::net::TcpListener::from_std) {
                        Some(Ok(listener)) => serve::serve_port(listener, router.clone()).await,
                        Some(Err(error)) => tracing::warn!("the HTTP API has no port: {error}"),
                        None => {}
                    }
                };
                futures::future::join(owner, everybody).await
            });
        })?;
        Ok(Server { shared, address, _socket: socket.map(SocketFile::new) })
    }

    /// The address it listens on; none if it serves its Unix socket alone.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// A link to open in a browser; it contains a token for reading.
    pub fn link(&self) -> Result<Option<String>, ServerError> {
        let Some(address) = self.address else { return Ok(None) };
        Ok(Some(link(address, &self.shared.access.link_token()?)))
    }
}

/// The file in the cluster directory with the address of the port.
const ADDRESS: &str = "http-address";

fn link(address: SocketAddr, token: &str) -> String {
    format!("http://{address}/?token={token}")
}

/// A new link to the dashboard of the cluster in a folder; it contains a token for reading. None if the cluster has never had a port.
pub fn cluster_link(folder: &Path) -> Result<Option<String>, ServerError> {
    let Some(address) = remembered(folder) else { return Ok(None) };
    Ok(Some(link(address, &TokenFile::new(folder).create_for_link()?)))
}

/// The address that a cluster's port had the last time.
fn remembered(folder: &Path) -> Option<SocketAddr> {
    std::fs::read_to_string(folder.join(ADDRESS)).ok()?.trim().parse().ok()
}

/// Replaces a file in one step: after a kill in between, another port would be used.
fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    std::fs::write(&new, content)?;
    std::fs::rename(&new, path)
}

/// Listens on the port that the cluster in a folder had the last time, or on any if it had none. If it is taken, that is an error: whoever has it may be waiting
/// for tokens that are meant for the cluster.
pub fn cluster_port(folder: &Path) -> Result<(TcpListener, SocketAddr), ServerError> {
    let Some(address) = remembered(folder) else { return bind(SocketAddr::from(([127, 0, 0, 1], 0))) };
    bind(address).map_err(|error| match error {
        ServerError::Listen { address, error } => ServerError::Taken { address, error },
        error => error,
    })
}

/// Listens on an address, which must be loopback. Returns it with the port that the system chose if it has port 0.
pub fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServerError> {
    if !address.ip().is_loopback() {
        return Err(ServerError::Exposed { address });
    }
    let listened = TcpListener::bind(address).and_then(|listener| listener.local_addr().map(|local| (listener, local)));
    listened.map_err(|error| ServerError::Listen { address, error })
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), ServerError> {
    let run = move || {
        lower_priority();
        run();
    };
    std::thread::Builder::new().name(name.into()).spawn(run).map(drop).map_err(ServerError::Thread)
}

/// Lets the scheduler and the tasks run before this thread if the cores are busy. (On Linux, priorities are those of threads.)
fn lower_priority() {
    // Without the right to do so, it runs as they do.
    let _ = rustix::process::setpriority_process(None, NICENESS);
}

impl Source {
    fn new(name: String, path: PathBuf, model: Option<Model>) -> Source {
        Source { name, path, model: RwLock::new(model), forecasts: RwLock::default() }
    }

    /// Calls `read` with the model and the forecasts; none if there is no model yet.
    fn read<T>(&self, read: impl FnOnce(&Model, &Forecasts) -> T) -> Option<T> {
        let forecasts = self.forecasts.read().map(|forecasts| Arc::clone(&forecasts)).unwrap_or_default();
        let model = self.model.read().ok()?;
        model.as_ref().map(|model| read(model, &forecasts))
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared(..)")
    }
}

impl Shared {
    fn new(sources: Vec<Source>, cluster: Option<(PathBuf, Apps, Arc<Timings>)>, access: Access) -> Shared {
        let (folder, apps, timings) = match cluster {
            Some((folder, apps, timings)) => (Some(folder), apps, Some(timings)),
            None => (None, Apps::none(), None),
        };
        Shared {
            sources,
            is_live: false,
            folder,
            apps,
            timings,
            access,
            changes: watch::Sender::new(0),
            watchers: AtomicUsize::new(0),
            updates: Mutex::default(),
            feed_error: Mutex::new(None),
            what_if: Arc::new(Semaphore::new(1)),
            started: Instant::now(),
        }
    }

    fn is_watched(&self) -> bool {
        self.watchers.load(Ordering::Relaxed) > 0
    }
}

/// Keeps the model of a growing log current.
fn follow(shared: &Shared, mut feed: Box<dyn Feed>) {
    let Some(source) = shared.sources.first() else { return };
    loop {
        let polled = match source.model.write() {
            Ok(mut model) => feed.poll(&mut model),
            Err(_) => return,
        };
        if let Ok(mut last) = shared.feed_error.lock() {
            *last = polled.as_ref().err().map(ToString::to_string);
        }
        if let Ok(true) = polled {
            shared.changes.send_modify(|version| *version += 1);
        }
        let watched = if shared.is_watched() { POLL_WATCHED } else { POLL_IDLE };
        std::thread::sleep(if polled.is_err() { POLL_DAMAGED } else { watched });
    }
}

/// Keeps the forecasts current while somebody watches.
fn forecast(shared: &Shared) {
    let Some(source) = shared.sources.first() else { return };
    loop {
        if shared.is_watched() {
            let present = source.model.read().ok().and_then(|model| model.as_ref().and_then(Present::of));
            let forecasts =
                present.map(|present| present.forecast(&present.policy, FORECAST_LIMIT)).unwrap_or_default();
            if let Ok(mut model) = source.model.write()
                && let Some(model) = model.as_mut()
            {
                model.remember(&forecasts);
            }
            if let Ok(mut current) = source.forecasts.write() {
                *current = Arc::new(forecasts);
            }
        }
        std::thread::sleep(FORECAST_INTERVAL);
    }
}

/// All routes. `openapi.rs` describes those below `/api`; a test compares the two.
fn router(shared: Arc<Shared>) -> Router {
    let set = |name: HeaderName, value: &'static str| {
        SetResponseHeaderLayer::overriding(name, HeaderValue::from_static(value))
    };
    let protected = Router::new()
        .route("/api/v1/info", get(api::info))
        .route("/api/v1/timeline", get(api::timeline))
        .route("/api/v1/updates", get(stream::updates))
        .route("/api/v1/reasons", get(api::reasons))
        .route("/api/v1/jobs", get(api::jobs).post(api::submit))
        .route("/api/v1/jobs/{id}", get(api::job))
        .route("/api/v1/jobs/{id}/explain", get(api::explain))
        .route("/api/v1/jobs/{id}/forecast", get(api::forecast))
        .route("/api/v1/jobs/{id}/kill", post(api::kill))
        .route("/api/v1/jobs/{id}/yield", post(api::yield_job))
        .route("/api/v1/jobs/{id}/logs", get(logs::list))
        .route("/api/v1/jobs/{id}/logs/{attempt}", get(logs::read))
        .route("/api/v1/nodes", get(api::nodes))
        .route("/api/v1/nodes/{name}/drain", post(async |a, b, c| api::set_drained(a, b, c, true).await))
        .route("/api/v1/nodes/{name}/include", post(async |a, b, c| api::set_drained(a, b, c, false).await))
        .route("/api/v1/reload", post(api::reload))
        .route("/api/v1/what-if", get(what_if::what_if))
        .route("/metrics", get(metrics::metrics))
        .route_layer(middleware::from_fn_with_state(Arc::clone(&shared), auth::check));
    Router::new()
        .route("/", get(assets::index))
        .route("/assets/{name}", get(assets::asset))
        .route("/healthz", get(api::healthz))
        .route("/api/v1/openapi.json", get(async || ([(header::CONTENT_TYPE, "application/json")], OPENAPI)))
        .merge(protected)
        .fallback(api::not_found)
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), auth::check_host))
        .layer(set(header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY))
        .layer(set(header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .layer(set(header::X_FRAME_OPTIONS, "DENY"))
        .layer(set(header::REFERRER_POLICY, "no-referrer"))
        .layer(set(HeaderName::from_static("cross-origin-resource-policy"), "same-origin"))
        .layer(CatchPanicLayer::new())
        .with_state(shared)
}

#[cfg(test)]
mod tests;
