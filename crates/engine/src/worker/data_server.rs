//! The worker's data server: segments of its map outputs and blocks of stored files, for other processes.

use super::Worker;
use crate::cluster_id::ClusterId;
use crate::store;
use crate::task::serve_segment;
use crate::wire::{self, DataRequest, Handshaking, Listener, Role, SocketFile, Stream, WireError, run_folder};
use rustix::process::{Pid, test_kill_process};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Maximum size of a request message.
const REQUEST_BYTES_MAX: usize = 64 << 10;

/// Name of a worker's socket up to its process id.
const SOCKET_PREFIX: &str = "worker-";

/// Starts the server on a Unix socket in the cluster's run folder. Returns its address, and its file, which the caller keeps until the worker ends.
pub(super) fn start(worker: &Arc<Worker>, cluster: &ClusterId) -> io::Result<(String, SocketFile)> {
    let folder = run_folder::create(cluster.short())?;
    remove_sockets_of_ended_workers(&folder);
    let path = folder.join(format!("{SOCKET_PREFIX}{}", std::process::id()));
    let listener = Listener::bind_unix(&path)?;
    let address = listener.address().to_owned();
    let worker = Arc::clone(worker);
    listener.serve("data", move |stream, handshaking| {
        if let Err(error) = serve(&worker, stream, handshaking)
            && !error.is_disconnect()
        {
            tracing::warn!(%error, "closed a data connection");
        }
    })?;
    Ok((address, SocketFile(path)))
}

/// Workers that were killed leave their sockets.
fn remove_sockets_of_ended_workers(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(SOCKET_PREFIX)?.parse().ok()).and_then(Pid::from_raw);
        if pid.is_some_and(|pid| test_kill_process(pid) == Err(rustix::io::Errno::SRCH)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn serve(worker: &Worker, mut stream: Stream, handshaking: Handshaking) -> Result<(), WireError> {
    if wire::accept(&mut stream, &worker.token)? != Role::Data {
        return Err(WireError::UnknownPeer);
    }
    drop(handshaking);
    let blocks = &worker.blocks;
    loop {
        match wire::receive(&mut stream, REQUEST_BYTES_MAX)? {
            DataRequest::Segment(request) => {
                serve_segment(request, &worker.job_folder(request.map.task.job), &mut stream)?;
            }
            DataRequest::ReadBlock { block, from, bytes } => {
                store::serve_read(blocks, block, from, bytes, &mut stream)?;
            }
            DataRequest::WriteBlock { block, bytes } => store::serve_write(blocks, block, bytes, &mut stream)?,
            DataRequest::CheckBlocks => store::serve_verify(blocks, &mut stream)?,
        }
    }
}
