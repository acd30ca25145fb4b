//! A temporary folder for the clusters that a command starts. SIGINT and SIGTERM stop the clusters, which ends the command; the folder is removed as
//! at any other end.

use crate::signals;
use anyhow::{Context, Result};
use giveway_engine::client::Client;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// Interval at which clusters are looked for after a signal: the command may be about to start one.
const STOP_INTERVAL: Duration = Duration::from_millis(100);

/// How often in a row no cluster is found before the process exits. A cluster has 3 s to end.
const TRIES_WITHOUT_CLUSTER: u32 = 40;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Creates the folder. After SIGINT or SIGTERM the clusters in it are stopped, so that the command fails; [`is_interrupted`] then tells why.
pub fn create(prefix: &str) -> Result<TempDir> {
    let folder = tempfile::Builder::new()
        .prefix(prefix)
        .tempdir()
        .context("cannot create a temporary directory for the runs")?;
    let path = folder.path().to_owned();
    signals::on_stop(move || {
        INTERRUPTED.store(true, Ordering::Relaxed);
        let mut tries = 0;
        while tries < TRIES_WITHOUT_CLUSTER {
            tries = if stop_clusters(&path) { 0 } else { tries + 1 };
            std::thread::sleep(STOP_INTERVAL);
        }
        // The command does something else than waiting for a cluster.
        let _ = fs::remove_dir_all(&path);
        std::process::exit(signals::EXIT_INTERRUPTED.into());
    })?;
    Ok(folder)
}

/// True after a signal: a failure of the command is then no error.
pub fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Stops the cluster in this folder, or those in the folders below. False if none is running.
fn stop_clusters(folder: &Path) -> bool {
    if folder.join("address").exists() {
        return Client::connect(folder).and_then(|mut client| client.stop()).is_ok();
    }
    let below = fs::read_dir(folder).into_iter().flatten().flatten();
    below.filter(|entry| entry.path().is_dir() && stop_clusters(&entry.path())).count() > 0
}
