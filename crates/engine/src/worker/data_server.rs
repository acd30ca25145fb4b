//! The worker's data server: segments of its map outputs and blocks of stored files, for other processes.

use super::Worker;
use crate::store;
use crate::task::serve_segment;
use crate::wire::{self, DataRequest, Role, WireError};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// Maximum size of a request message.
const REQUEST_BYTES_MAX: usize = 64 << 10;

/// Starts the server on a free port of the loopback interface. Returns its address.
pub(super) fn start(worker: &Arc<Worker>) -> io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    let worker = Arc::clone(worker);
    thread::Builder::new().name("data".into()).spawn(move || {
        for stream in listener.incoming().flatten() {
            let worker = Arc::clone(&worker);
            let _ = thread::Builder::new().name("data-conn".into()).spawn(move || {
                if let Err(error) = serve(&worker, stream)
                    && !error.is_disconnect()
                {
                    tracing::warn!(%error, "closed a data connection");
                }
            });
        }
    })?;
    Ok(address)
}

fn serve(worker: &Worker, mut stream: TcpStream) -> Result<(), WireError> {
    if wire::accept(&mut stream, &worker.token)? != Role::Data {
        return Err(WireError::UnknownPeer);
    }
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
