//! `giveway up`, `down` and `worker`: processes come and go.

use super::args::{Shape, Up, Which, Worker};
use crate::{input, signals};
use anyhow::{Context, Result, ensure};
use giveway_core::Tenants;
use giveway_engine::apps::Apps;
use giveway_engine::client::Client;
use giveway_engine::cluster::{self, Cluster};
use giveway_engine::{coordinator, worker as process};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long workers look for a coordinator that was killed. Long enough to start it again by hand.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster of this shape in this folder.
pub fn start(folder: &Path, shape: &Shape, listen: &str, apps: &Apps) -> Result<Cluster> {
    let tenants = match &shape.tenants {
        Some(file) => input::tenants(file)?,
        None => Tenants::default(),
    };
    ensure!(
        shape.heartbeat < shape.timeout / 2,
        "--heartbeat {:?} is too long for --timeout {:?}: a worker that misses one beat would be lost; let the time-out be several beats",
        shape.heartbeat,
        shape.timeout
    );
    let folder = std::path::absolute(folder).with_context(|| format!("the folder {}", folder.display()))?;
    let coordinator = coordinator::Options {
        folder,
        listen: listen.to_owned(),
        policy: input::policy(&shape.policy)?,
        tenants,
        seed: 1,
        beat: shape.heartbeat,
        timeout: shape.timeout,
        slowstart_ppm: 50_000,
        apps: apps.clone(),
    };
    let options = cluster::Options {
        coordinator,
        nodes: shape.nodes,
        map_slots: shape.map_slots,
        reduce_slots: shape.reduce_slots,
        patience: PATIENCE,
    };
    Ok(Cluster::start(options)?)
}

/// `giveway up`
pub fn up(args: &Up, apps: &Apps) -> Result<()> {
    let cluster = start(&args.which.dir, &args.shape, &args.listen, apps)?;
    let mut out = std::io::stdout();
    writeln!(
        out,
        "{} workers are up in {}, policy {}, coordinator at {}.",
        args.shape.nodes,
        cluster.folder().display(),
        cluster.policy(),
        cluster.address()
    )?;
    if input::policy(&args.shape.policy)?.name != cluster.policy() {
        writeln!(out, "Unfinished jobs were found: their policy stays until the cluster is started without any.")?;
    }
    writeln!(out, "Submit with `giveway submit APP --input ... --output ...`, stop with `giveway down` or Ctrl-C.")?;
    out.flush()?;
    // As `giveway down`: workers are told, and what is unfinished goes on when the cluster is started again.
    let folder = cluster.folder().to_owned();
    signals::on_stop(move || {
        let _ = Client::connect(&folder).and_then(|mut client| client.stop());
    })?;
    Ok(cluster.wait()?)
}

/// `giveway down`
pub fn down(which: &Which) -> Result<()> {
    Ok(Client::connect(&which.dir)?.stop()?)
}

/// `giveway worker`
pub fn worker(args: &Worker, apps: &Apps) -> Result<()> {
    let absolute = |path: &Path| std::path::absolute(path).with_context(|| format!("the folder {}", path.display()));
    let cluster: PathBuf = absolute(&args.join)?;
    let folder = match &args.folder {
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
        reconnect_timeout: PATIENCE,
    };
    Ok(process::run(&options, apps.clone())?)
}

/// A worker's name is also a folder's name, and may not lead out of the cluster's folder.
fn file_name(name: &str) -> Result<&str> {
    let plain = !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter));
    ensure!(plain, "the name `{name}` has more than letters, digits, `-` and `_`; choose another, or add --folder");
    Ok(name)
}
