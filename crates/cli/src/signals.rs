//! What happens when somebody presses Ctrl-C, or the process is asked to stop.

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::PathBuf;

/// What a shell reports of a program that was interrupted.
const INTERRUPTED: i32 = 130;

/// Does this when the process is asked to stop; asked a second time, it stops at once.
pub fn on_stop(then: impl FnOnce() + Send + 'static) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot wait for signals")?;
    std::thread::spawn(move || {
        let mut asked = signals.forever();
        if asked.next().is_some() {
            then();
        }
        if asked.next().is_some() {
            std::process::exit(INTERRUPTED);
        }
    });
    Ok(())
}

/// Takes a temporary folder away when the process is asked to stop, and stops.
pub fn remove_on_stop(folder: PathBuf) -> Result<()> {
    on_stop(move || {
        // Workers may still write there; what is left is in the system's folder for such things.
        let _ = std::fs::remove_dir_all(folder);
        std::process::exit(INTERRUPTED);
    })
}
