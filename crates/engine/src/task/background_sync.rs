//! Writes a file to disk while it still grows.
//!
//! A large output that is synced only at its end keeps its slot for as long as the disk needs for all of it. A thread of its own
//! syncs what is there already, so that the last sync has little left to write.

use std::fs::File;
use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

/// A sync is started each time the file has grown by this much.
const STEP_BYTES: usize = 16 << 20;

/// The thread that syncs one file. Dropping this lets a sync that has begun finish, and starts no other.
#[derive(Debug, Default)]
pub(super) struct BackgroundSync {
    thread: Option<(SyncSender<()>, JoinHandle<io::Result<()>>)>,
    /// Bytes written since the last sync was started.
    unsynced_bytes: usize,
}

impl BackgroundSync {
    /// To be called after `bytes` bytes were written to the file.
    pub(super) fn on_written(&mut self, file: &File, bytes: usize) {
        self.unsynced_bytes += bytes;
        if self.unsynced_bytes < STEP_BYTES {
            return;
        }
        self.unsynced_bytes = 0;
        // Without a thread everything is written by the last sync.
        if self.thread.is_none() {
            self.thread = start(file).ok();
        }
        if let Some((requests, _)) = &self.thread {
            // If the channel is full, the disk is slower than the task, and the next sync will include this step.
            let _ = requests.try_send(());
        }
    }

    /// Makes the content of the file durable. An error of an earlier sync is returned here, because the system reports it only once.
    pub(super) fn finish(&mut self, file: &File) -> io::Result<()> {
        if let Some((requests, thread)) = self.thread.take() {
            drop(requests);
            thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that syncs the file panicked")))?;
        }
        file.sync_data()
    }
}

fn start(file: &File) -> io::Result<(SyncSender<()>, JoinHandle<io::Result<()>>)> {
    let file = file.try_clone()?;
    let (requests, due) = sync_channel(1);
    let sync = move || due.iter().try_for_each(|()| file.sync_data());
    let thread = thread::Builder::new().name("sync".to_owned()).spawn(sync)?;
    Ok((requests, thread))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_is_synced_in_steps_and_at_its_end() {
        let mut file = tempfile::tempfile().unwrap();
        let mut sync = BackgroundSync::default();
        let megabyte = vec![7; 1 << 20];
        for number in 1..=40 {
            file.write_all(&megabyte).unwrap();
            sync.on_written(&file, megabyte.len());
            assert_eq!(sync.thread.is_some(), number >= 16, "after {number} MiB");
        }
        sync.finish(&file).unwrap();
        assert!(sync.thread.is_none());
    }

    #[test]
    fn the_error_of_an_earlier_sync_is_not_lost() {
        // A pipe cannot be synced.
        let (_reader, writer) = io::pipe().unwrap();
        let pipe = File::from(std::os::fd::OwnedFd::from(writer));
        let mut sync = BackgroundSync::default();
        sync.on_written(&pipe, STEP_BYTES);
        let regular = tempfile::tempfile().unwrap();
        assert!(sync.finish(&regular).is_err(), "only the thread has tried to sync the pipe");
    }
}
