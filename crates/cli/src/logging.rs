//! Log output of the engine's processes.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

/// Writes log messages of this level and above to stderr. A worker process that a cluster starts has its log file there.
pub fn init(level: tracing::Level) {
    let subscriber = tracing_subscriber::fmt()
        // Otherwise an event that cannot be written, because the disk of a log is full, panics.
        .log_internal_errors(false)
        .with_writer(std::io::stderr)
        .with_max_level(level)
        .with_target(false)
        .with_timer(TimeOfDay);
    // Fails if the program that calls `main_with` has installed a subscriber of its own. Then that one is used.
    let _ = tracing::subscriber::set_global_default(subscriber.finish());
}

/// Time of day in UTC, with milliseconds.
struct TimeOfDay;

impl FormatTime for TimeOfDay {
    fn format_time(&self, w: &mut Writer<'_>) -> fmt::Result {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (seconds, millis) = (now.as_secs() % 86_400, now.subsec_millis());
        write!(w, "{:02}:{:02}:{:02}.{millis:03}", seconds / 3600, seconds / 60 % 60, seconds % 60)
    }
}
