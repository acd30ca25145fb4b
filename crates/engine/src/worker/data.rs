//! This worker's data for other workers: segments of its map outputs.

use super::Worker;
use crate::task::{SegmentRequest, serve_segment};
use crate::wire::{self, Role, WireError};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// A request is small.
const REQUEST_BYTES_MAX: usize = 64 << 10;

/// Begins to serve, and says where.
pub(super) fn listen(worker: &Arc<Worker>) -> io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    let worker = Arc::clone(worker);
    thread::Builder::new().name("data".into()).spawn(move || {
        for stream in listener.incoming().flatten() {
            let worker = Arc::clone(&worker);
            let _ = thread::Builder::new().name("data-line".into()).spawn(move || {
                if let Err(error) = serve(&worker, stream)
                    && !error.is_goodbye()
                {
                    crate::say(&format!("a caller for data was turned away: {error}"));
                }
            });
        }
    })?;
    Ok(address)
}

fn serve(worker: &Worker, mut stream: TcpStream) -> Result<(), WireError> {
    if wire::accept(&mut stream, &worker.token)? != Role::Data {
        return Err(WireError::Stranger);
    }
    loop {
        let request: SegmentRequest = wire::receive(&mut stream, REQUEST_BYTES_MAX)?;
        serve_segment(request, &worker.job_folder(request.map.task.job), &mut stream)?;
    }
}
