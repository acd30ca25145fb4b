//! Log output of the engine's processes.

/// Writes log messages of this level and above to stderr, with date and time in UTC. A worker process that a cluster starts has its log file there.
pub fn init(level: tracing::Level) {
    let subscriber = tracing_subscriber::fmt()
        // Otherwise an event that cannot be written, because the disk of a log is full, panics.
        .log_internal_errors(false)
        .with_writer(std::io::stderr)
        .with_max_level(level)
        .with_target(false);
    // Fails if the program that calls `main_with` has installed a subscriber of its own. Then that one is used.
    let _ = tracing::subscriber::set_global_default(subscriber.finish());
}
