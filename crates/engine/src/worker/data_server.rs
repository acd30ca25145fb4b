//! The worker's data server: segments of its map outputs, for reduces of other processes.

use super::Worker;
use crate::cluster_id::ClusterId;
use crate::task::{SegmentRequest, serve_segment};
use crate::wire::{self, Handshaking, Listener, Role, SocketFile, Stream, WireError, run_folder};
use std::io;
use std::sync::Arc;

/// Maximum size of a request message.
const REQUEST_BYTES_MAX: usize = 64 << 10;

/// Starts the server on a Unix socket in the cluster's run folder. Returns its address, and its file, which the caller keeps until the worker ends.
pub(super) fn start(worker: &Arc<Worker>, cluster: &ClusterId) -> io::Result<(String, SocketFile)> {
    let folder = run_folder::create(cluster.short())?;
    run_folder::remove_sockets_of_ended_workers(&folder);
    let path = folder.join(run_folder::worker_socket(std::process::id()));
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

fn serve(worker: &Worker, mut stream: Stream, handshaking: Handshaking) -> Result<(), WireError> {
    if wire::accept(&mut stream, &worker.token)? != Role::Data {
        return Err(WireError::UnknownPeer);
    }
    drop(handshaking);
    loop {
        let request: SegmentRequest = wire::receive(&mut stream, REQUEST_BYTES_MAX)?;
        serve_segment(request, &worker.job_folder(request.map.task.job), &mut stream)?;
    }
}
