//! Lets the system write a growing file to disk early.
//!
//! A large output that is synced at its end keeps its slot until the disk has written all of it. If writing is started while the output
//! grows, the sync has little left to do. The call only starts it: it does not wait, and an error is reported by the sync.
//!
//! `sync_file_range` is a system call without a safe wrapper. It is sound: it takes integers only.

#![allow(unsafe_code)]

use std::fs::File;

/// Writing is started each time the file has grown by this much.
pub(super) const STEP_BYTES: u64 = 16 << 20;

/// Starts writing a part of a file to disk.
pub(super) fn start(file: &File, offset: u64, bytes: u64) {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        let (Ok(offset), Ok(bytes)) = (offset.try_into(), bytes.try_into()) else { return };
        // SAFETY: the file is open for the time of the call, and no memory is passed.
        let _ = unsafe { libc::sync_file_range(file.as_raw_fd(), offset, bytes, libc::SYNC_FILE_RANGE_WRITE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, offset, bytes);
}
