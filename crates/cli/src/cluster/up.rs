//! `giveway up`, `down` and `worker`: start and stop the processes of a cluster.

use super::args::{ClusterDir, ClusterOptions, Up, Worker, default_dir};
use crate::{
    input,
    signals::{self, Hangups},
};
use anyhow::{Context, Result, bail, ensure};
use giveway_core::{Tenants, plural};
use giveway_engine::client::{Client, ClientError};
use giveway_engine::cluster::{self, Cluster};
use giveway_engine::coordinator::{JournalError, JournalLock, ReloadSource, Reloadable, StopHandle};
use giveway_engine::wire::Reload;
use giveway_engine::{Access, coordinator, is_root, worker as process};
use giveway_mapreduce::apps::Apps;
use giveway_web::server::{self, Server, TokenFile};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long workers try to reconnect to a lost coordinator before they exit. Long enough for a manual restart.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(60);

/// The policy, the tenants and who has access, by the arguments of a cluster.
fn read_setup(args: &ClusterOptions) -> Result<Reloadable> {
    let (tenants, access) = match &args.tenants {
        Some(file) => input::tenants(file)?,
        None => (Tenants::default(), Access::default()),
    };
    ensure!(
        access.is_empty() || !is_root(),
        "a cluster of root admits no other users, because their jobs would run as root; empty [access] in the tenants file, or run the cluster as a user of its own, as the Debian package does"
    );
    Ok(Reloadable { policy: input::policy(&args.policy)?, tenants, access })
}

/// Reads policy and tenants again, from the files that were given at the start. The owner's token is renewed: programs of a user who is not admitted any more
/// may have read it.
fn reload_source(folder: &Path, args: &ClusterOptions) -> ReloadSource {
    let (folder, args) = (folder.to_owned(), args.clone());
    ReloadSource::new(move || {
        let setup = read_setup(&args).map_err(|error| format!("{error:#}"))?;
        if folder.join("token").exists() {
            TokenFile::new(&folder)
                .renew_owner()
                .map_err(|error| format!("cannot renew the owner's token: {error}"))?;
        }
        Ok(setup)
    })
}

/// What becomes of workers that end or lose their coordinator.
pub struct WorkerSettings {
    /// Whether the cluster restarts those that end.
    pub restart: bool,
    /// How long they try to reconnect to a lost coordinator before they exit.
    pub reconnect_timeout: Duration,
}

/// Starts a cluster with its state in `folder`; fails if the heartbeat interval is not less than half of the timeout.
pub fn start(folder: &Path, args: &ClusterOptions, workers: &WorkerSettings, apps: &Apps) -> Result<Cluster> {
    let Reloadable { policy, tenants, access } = read_setup(args)?;
    ensure!(
        args.heartbeat < args.timeout / 2,
        "invalid --heartbeat {:?}: must be less than half of --timeout {:?}, or one missed heartbeat loses a worker; lower --heartbeat or raise --timeout",
        args.heartbeat,
        args.timeout
    );
    let folder =
        std::path::absolute(folder).with_context(|| format!("cannot resolve the directory {}", folder.display()))?;
    let reload = Some(reload_source(&folder, args));
    let coordinator = coordinator::Options {
        folder,
        policy,
        tenants,
        seed: 1,
        heartbeat_interval: args.heartbeat,
        heartbeat_timeout: args.timeout,
        slowstart_ppm: 50_000,
        apps: apps.clone(),
        access,
        on_job_end: args.on_job_end.clone(),
        archive_bytes: args.archive_budget,
        reload,
    };
    let (map_slots, reduce_slots) = args.slots();
    let options = cluster::Options {
        coordinator,
        nodes: args.nodes,
        map_slots,
        reduce_slots,
        reconnect_timeout: workers.reconnect_timeout,
        log_bytes: args.log_budget,
        restart_workers: workers.restart,
    };
    Ok(Cluster::start(options)?)
}

/// How long a cluster that was stopped may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(60);

/// Interval at which a start looks whether the cluster that has the directory serves clients.
const SERVED_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Waits for the last start of a cluster if that is ending. Fails if it runs.
fn wait_for_ending(folder: &Path) -> Result<()> {
    let started = Instant::now();
    let mut is_waiting = false;
    while folder.join("lock").exists()
        && let Err(error @ JournalError::Locked { .. }) = JournalLock::wait_until_free(folder, SERVED_POLL_INTERVAL)
    {
        if started.elapsed() > END_TIMEOUT || Client::is_served(folder) {
            return Err(error.into());
        }
        if !std::mem::replace(&mut is_waiting, true) {
            tracing::info!("waiting until the processes of the last start have ended");
        }
    }
    Ok(())
}

/// `giveway up`
pub fn up(args: &Up, apps: &Apps) -> Result<()> {
    wait_for_ending(&args.cluster.dir)?;
    // Before any process is started.
    let listener = args.http.map(giveway_web::server::bind).transpose()?;
    // A SIGHUP during the start is a reload after it.
    let hangups = Hangups::collect()?;
    let workers = WorkerSettings { restart: !args.no_restart, reconnect_timeout: RECONNECT_TIMEOUT };
    let cluster = start(&args.cluster.dir, &args.options, &workers, apps)?;
    let mut out = std::io::stdout();
    let (nodes, (map_slots, reduce_slots)) = (args.options.nodes, args.options.slots());
    let workers = if nodes == 1 { "1 worker is up".into() } else { format!("{nodes} workers are up") };
    writeln!(
        out,
        "{workers}, with {} and {} in all. Directory {}, policy {}, coordinator {}.",
        plural(nodes * u32::from(map_slots), "map slot"),
        plural(nodes * u32::from(reduce_slots), "reduce slot"),
        cluster.folder().display(),
        cluster.policy(),
        cluster.socket().display()
    )?;
    let wanted = input::policy(&args.options.policy)?.name;
    // Commands without --dir are for another cluster.
    let is_usual = cluster.folder() == default_dir();
    let dir = if is_usual { String::new() } else { format!(" --dir {}", cluster.folder().display()) };
    if wanted != cluster.policy() {
        writeln!(
            out,
            "The cluster has jobs left from its last start and keeps the policy of that, {}; `giveway reload{dir}` changes it to {wanted}.",
            cluster.policy()
        )?;
    }
    // Its socket is removed when the cluster has stopped.
    let mut dashboard = None;
    if !args.no_http {
        let sockets = cluster.socket().parent().unwrap_or(Path::new("/"));
        let port = match listener {
            Some(port) => Some(port),
            // The cluster and its Unix socket are worth more than the port.
            None => server::cluster_port(cluster.folder()).inspect_err(|error| tracing::error!("{error}")).ok(),
        };
        match Server::live(cluster.folder(), sockets, port, apps.clone(), cluster.timings()) {
            Ok(server) => {
                if let Some(address) = server.address() {
                    let token = cluster.folder().join("token");
                    // A link has a token, which does not belong into a log.
                    let link = if out.is_terminal() { server.link()? } else { None };
                    match link {
                        Some(link) => writeln!(out, "Dashboard: {link}")?,
                        None => writeln!(
                            out,
                            "Dashboard: http://{address}/ - `giveway token link --dir {}` prints a link that opens it.",
                            cluster.folder().display()
                        )?,
                    }
                    writeln!(out, "To kill a job there, paste the owner's token from {}.", token.display())?;
                }
                dashboard = Some(server);
            }
            // Without an address it is a convenience, and the cluster is worth more.
            Err(error) if args.http.is_none() => tracing::warn!("no dashboard: {error}"),
            Err(error) => return Err(error.into()),
        }
    }
    writeln!(
        out,
        "Submit jobs with `giveway submit APP --input ... --output ...{dir}`; stop the cluster with `giveway down{dir}` or Ctrl-C."
    )?;
    out.flush()?;
    // Same as `giveway down`, and without a connection: a cleaner of temporary files may have removed the socket.
    let stop = cluster.stop_handle();
    let stop_on_close = stop.clone();
    signals::on_stop(move || stop.iter().for_each(StopHandle::stop))?;
    let folder = cluster.folder().to_owned();
    hangups.handle(move |is_closed| {
        if is_closed {
            stop_on_close.iter().for_each(StopHandle::stop);
            return;
        }
        match Client::connect(&folder).and_then(|mut client| client.reload()) {
            Ok(reload) => {
                tracing::info!("reloaded on SIGHUP; policy {}", reload.policy);
                reload.changes.iter().for_each(|change| tracing::info!("{change}"));
            }
            Err(error) => tracing::error!("cannot reload on SIGHUP: {error}"),
        }
    });
    let lock = cluster.lock();
    let stopped = cluster.wait();
    drop(dashboard);
    // The port is open until this process has ended: until then the cluster cannot be started again.
    std::mem::forget(lock);
    Ok(stopped?)
}

/// `giveway reload`
pub fn reload(cluster: &ClusterDir) -> Result<()> {
    let Reload { policy, changed, changes } = Client::connect(&cluster.dir)?.reload()?;
    let what = if changed { "loaded" } else { "unchanged" };
    let mut out = std::io::stdout();
    writeln!(out, "policy, tenants and access {what}; policy {policy}")?;
    changes.iter().try_for_each(|change| writeln!(out, "  {change}"))?;
    Ok(())
}

/// `giveway down`
pub fn down(cluster: &ClusterDir) -> Result<()> {
    let mut client = match Client::connect(&cluster.dir) {
        Err(ClientError::NoCluster { folder }) => bail!("no cluster is running in {}; check --dir", folder.display()),
        connected => connected?,
    };
    let unfinished = client.jobs()?.iter().filter(|job| job.outcome.is_none()).count() as u32;
    client.stop()?;
    JournalLock::wait_until_free(&cluster.dir, END_TIMEOUT).with_context(|| {
        let (folder, waited) = (cluster.dir.display(), END_TIMEOUT.as_secs());
        format!("the cluster in {folder} is stopping, but its processes have not ended within {waited} s")
    })?;
    let jobs = match unfinished {
        0 => String::new(),
        1 => "; 1 job continues at the next `giveway up`".to_owned(),
        many => format!("; {many} jobs continue at the next `giveway up`"),
    };
    Ok(writeln!(std::io::stdout(), "the cluster in {} has stopped{jobs}", cluster.dir.display())?)
}

/// `giveway worker`
pub fn worker(args: &Worker, apps: &Apps) -> Result<()> {
    let absolute = |path: &Path| {
        std::path::absolute(path).with_context(|| format!("cannot resolve the directory {}", path.display()))
    };
    let cluster: PathBuf = absolute(&args.join)?;
    let folder = match &args.work_dir {
        Some(folder) => absolute(folder)?,
        None => cluster.join(file_name(&args.name)?),
    };
    let options = process::Options {
        cluster,
        folder,
        name: args.name.clone(),
        rack: args.rack,
        host: args.host.clone(),
        map_slots: args.map_slots,
        reduce_slots: args.reduce_slots,
        reconnect_timeout: RECONNECT_TIMEOUT,
        log_bytes: args.log_budget,
    };
    Ok(process::run(&options, apps.clone())?)
}

/// Checks that a worker's name can be used as the name of a subdirectory of the cluster directory.
fn file_name(name: &str) -> Result<&str> {
    let plain =
        !name.is_empty() && name.chars().all(|character| character.is_ascii_alphanumeric() || "-_".contains(character));
    ensure!(plain, "invalid worker name `{name}`: use only letters, digits, `-` and `_`, or add --work-dir");
    Ok(name)
}
