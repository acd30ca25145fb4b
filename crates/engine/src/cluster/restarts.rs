//! When a worker that ended is restarted.

use std::time::{Duration, Instant};

/// Delay before the first restart. Doubled after each further one.
const DELAY_MIN: Duration = Duration::from_millis(500);

/// Maximum delay.
const DELAY_MAX: Duration = Duration::from_secs(30);

/// A worker that ran for this long is considered healthy: its next restart has the minimum delay again.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);

/// The restarts of one worker. The caller passes the time.
#[derive(Clone, Copy, Debug)]
pub(super) struct RestartTimer {
    started: Instant,
    delay: Duration,
    restart_at: Instant,
}

impl RestartTimer {
    /// The timer of a worker that was just started.
    pub(super) fn new(now: Instant) -> RestartTimer {
        RestartTimer { started: now, delay: DELAY_MIN, restart_at: now }
    }

    /// The worker ended. Returns the delay until its restart.
    pub(super) fn on_exit(&mut self, now: Instant) -> Duration {
        if now.saturating_duration_since(self.started) >= HEALTHY_AFTER {
            self.delay = DELAY_MIN;
        }
        let delay = self.delay;
        self.restart_at = now + delay;
        self.delay = (delay * 2).min(DELAY_MAX);
        delay
    }

    /// True once the delay is over.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.restart_at
    }

    /// The worker was started, or found running. It is looked at again after the current delay.
    pub(super) fn on_start(&mut self, now: Instant) {
        self.started = now;
        self.restart_at = now + self.delay;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_until_the_worker_stays_up() {
        let mut now = Instant::now();
        let mut timer = RestartTimer::new(now);
        let mut delays = Vec::new();
        for _ in 0..9 {
            now += Duration::from_secs(1);
            let delay = timer.on_exit(now);
            delays.push(delay.as_secs_f64());
            assert!(!timer.is_due(now + delay - Duration::from_millis(1)));
            now += delay;
            assert!(timer.is_due(now));
            timer.on_start(now);
        }
        assert_eq!(delays, [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]);
        now += HEALTHY_AFTER;
        assert_eq!(timer.on_exit(now), DELAY_MIN);
    }
}
