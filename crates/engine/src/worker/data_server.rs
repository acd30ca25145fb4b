//! The worker's data server: segments of its map outputs and blocks of stored files, for other processes.

use super::Worker;
use crate::cluster_id::ClusterId;
use crate::store;
use crate::task::serve_segment;
use crate::wire::{self, DataRequest, Handshaking, Listener, Role, SocketFile, Stream, WireError, run_folder};
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
            DataRequest::CheckBlocks { quarantine } => store::serve_verify(blocks, quarantine, &mut stream)?,
        }
    }
}
