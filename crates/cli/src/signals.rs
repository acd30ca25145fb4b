//! Handling of SIGINT (Ctrl-C), SIGTERM and SIGHUP.

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::IsTerminal;
use std::path::PathBuf;

/// Exit code of a process ended by SIGINT, as shells report it (128 + 2).
const EXIT_INTERRUPTED: i32 = 130;

/// Runs `handler` on a separate thread at the first SIGINT or SIGTERM; the second one exits the process immediately.
pub fn on_stop(handler: impl FnOnce() + Send + 'static) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot install signal handlers")?;
    std::thread::spawn(move || {
        let mut received = signals.forever();
        if received.next().is_some() {
            handler();
        }
        if received.next().is_some() {
            std::process::exit(EXIT_INTERRUPTED);
        }
    });
    Ok(())
}

/// Runs `handler` on a separate thread at each SIGHUP. It gets true if the terminal that the program was started in has been closed.
pub fn on_hangup(handler: impl Fn(bool) + Send + 'static) -> Result<()> {
    let had_terminal = std::io::stdin().is_terminal();
    let mut signals = Signals::new([SIGHUP]).context("cannot install signal handlers")?;
    std::thread::spawn(move || {
        signals.forever().for_each(|_| handler(had_terminal && !std::io::stdin().is_terminal()))
    });
    Ok(())
}

/// Removes a temporary directory at the first SIGINT or SIGTERM, then exits the process.
pub fn remove_on_stop(folder: PathBuf) -> Result<()> {
    on_stop(move || {
        // Best effort: workers may still be writing. Leftover files are in the system's temporary directory.
        let _ = std::fs::remove_dir_all(folder);
        std::process::exit(EXIT_INTERRUPTED);
    })
}
