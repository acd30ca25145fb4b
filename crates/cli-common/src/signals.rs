//! Handling of SIGINT (Ctrl-C), SIGTERM and SIGHUP.

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::IsTerminal;

/// Exit code of a process ended by SIGINT, as shells report it (128 + 2).
pub const EXIT_INTERRUPTED: u8 = 130;

/// Runs `handler` on a separate thread at the first SIGINT or SIGTERM; the second one exits the process immediately, also if the handler still runs.
pub fn on_stop(handler: impl FnOnce() + Send + 'static) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot install signal handlers")?;
    std::thread::spawn(move || {
        let mut received = signals.forever();
        if received.next().is_some() {
            std::thread::spawn(handler);
        }
        if received.next().is_some() {
            std::process::exit(EXIT_INTERRUPTED.into());
        }
    });
    Ok(())
}

/// SIGHUPs that wait to be handled. From its creation on they do not end the process any more.
pub struct Hangups {
    signals: Signals,
    had_terminal: bool,
}

impl Hangups {
    /// Collects SIGHUPs from now on.
    pub fn collect() -> Result<Hangups> {
        let signals = Signals::new([SIGHUP]).context("cannot install signal handlers")?;
        Ok(Hangups { signals, had_terminal: std::io::stdin().is_terminal() })
    }

    /// Runs `handler` on a separate thread at each SIGHUP, and once if some have arrived already. It gets true if the terminal that the program
    /// was started in has been closed.
    pub fn handle(mut self, handler: impl Fn(bool) + Send + 'static) {
        std::thread::spawn(move || {
            self.signals.forever().for_each(|_| handler(self.had_terminal && !std::io::stdin().is_terminal()))
        });
    }
}
