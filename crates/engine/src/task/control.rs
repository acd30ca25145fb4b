//! State shared between a task's thread and its worker while the task runs: requests in, progress out.
//!
//! A task checks [`Control::requested`] between records and between keys, so the check is a single relaxed load. A thread that waits instead of
//! working (a shuffle with nothing to fetch) blocks on the control's [`Notifier`], which every request and every new map output signals.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A request to a running task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Request {
    /// Free the slot without losing finished work: a map ends early, a reduce pauses.
    Preempt,
    /// Abort and discard all results. Overrides [`Request::Preempt`].
    Stop,
}

/// Control block of one running task.
#[derive(Debug, Default)]
pub struct Control {
    /// 0: no request; otherwise 1 + the [`Request`].
    request: AtomicU8,
    progress_ppm: AtomicU32,
    ticks: AtomicU64,
    timed_out: AtomicBool,
    throttle: Option<Throttle>,
    notifier: Arc<Notifier>,
    /// Checks of [`Control::requested`] left before the control requests a preemption itself; 0: never.
    #[cfg(test)]
    checks_to_preemption: AtomicU64,
}

/// Limits the rate of ticks.
#[derive(Debug)]
struct Throttle {
    /// Minimum time between two ticks.
    tick_interval: Duration,
    /// Set by the first tick.
    started: OnceLock<Instant>,
    /// When the next tick is due, in nanoseconds after `started`.
    due_ns: AtomicU64,
}

impl Throttle {
    /// How far a task may run ahead of its rate to catch up, after its thread or the whole machine was held up.
    const CATCH_UP_MAX: Duration = Duration::from_secs(1);

    /// Waits are accumulated up to this: a thread cannot sleep more precisely than 1 ms, and each wait costs a context switch.
    const WAIT_MIN: Duration = Duration::from_millis(5);

    /// The time since the first tick.
    fn elapsed(&self) -> Duration {
        self.started.get_or_init(Instant::now).elapsed()
    }

    /// Counts one tick at `now`, the time since `started`. Returns how long the task must wait before the next one.
    fn tick(&self, now: Duration) -> Duration {
        let due = Duration::from_nanos(self.due_ns.load(Relaxed)).max(now.saturating_sub(Throttle::CATCH_UP_MAX))
            + self.tick_interval;
        self.due_ns.store(due.as_nanos() as u64, Relaxed);
        due.saturating_sub(now)
    }

    /// Time until `now` in which the task had nothing to do is not caught up.
    fn skip_idle_time(&self, now: Duration) {
        self.due_ns.fetch_max(now.as_nanos() as u64, Relaxed);
    }
}

impl Control {
    /// A control without a request, at progress 0, without a rate limit.
    pub fn new() -> Control {
        Control::default()
    }

    /// A control that limits the task to `records_per_s` ticks per second. `None` and 0 mean no limit.
    pub fn throttled(records_per_s: Option<u64>) -> Control {
        match records_per_s {
            None | Some(0) => Control::default(),
            Some(records) => {
                let tick_interval = Duration::from_secs(1) / u32::try_from(records).unwrap_or(u32::MAX);
                let throttle = Throttle { tick_interval, started: OnceLock::new(), due_ns: AtomicU64::new(0) };
                Control { throttle: Some(throttle), ..Control::default() }
            }
        }
    }

    /// Sends a request to the task. A request to stop cannot be taken back.
    pub fn request(&self, request: Request) {
        self.request.fetch_max(1 + request as u8, Relaxed);
        self.notify();
    }

    /// The pending request, if any.
    #[inline]
    pub fn requested(&self) -> Option<Request> {
        #[cfg(test)]
        self.count_check();
        match self.request.load(Relaxed) {
            0 => None,
            1 => Some(Request::Preempt),
            _ => Some(Request::Stop),
        }
    }

    /// True once the task is requested to stop.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.requested() == Some(Request::Stop)
    }

    /// Requests a task to stop that makes no progress.
    pub(crate) fn time_out(&self) {
        self.timed_out.store(true, Relaxed);
        self.request(Request::Stop);
    }

    /// True if the task was requested to stop because it made no progress.
    pub(crate) fn is_timed_out(&self) -> bool {
        self.timed_out.load(Relaxed)
    }

    /// The task's progress in parts per million.
    pub fn progress_ppm(&self) -> u32 {
        self.progress_ppm.load(Relaxed)
    }

    /// Sets the task's progress in parts per million, capped at 1,000,000. Called by the task.
    pub fn set_progress_ppm(&self, progress_ppm: u32) {
        self.progress_ppm.store(progress_ppm.min(1_000_000), Relaxed);
    }

    /// Liveness counter. If it does not change for the job's task timeout, the task hangs.
    pub fn ticks(&self) -> u64 {
        self.ticks.load(Relaxed)
    }

    /// Advances the liveness counter and applies the rate limit. Only the task's own thread may call this, so a plain load and store suffice.
    #[inline]
    pub fn tick(&self) {
        let ticks = self.ticks.load(Relaxed).wrapping_add(1);
        self.ticks.store(ticks, Relaxed);
        if let Some(throttle) = &self.throttle {
            self.wait_for_tick(throttle);
        }
    }

    /// Waits until the next tick is due or a request arrives.
    #[cold]
    fn wait_for_tick(&self, throttle: &Throttle) {
        let wait = throttle.tick(throttle.elapsed());
        if wait >= Throttle::WAIT_MIN {
            self.wait_for_request(wait);
        }
    }

    /// Waits until a request arrives, at most for this long.
    pub(crate) fn wait_for_request(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        while self.requested().is_none()
            && let Some(remaining) = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
        {
            self.notifier.wait(remaining);
        }
    }

    /// Blocks until a notification arrives or the timeout expires. Returns at once if one has arrived since the previous wait.
    pub fn wait_for_notification(&self, timeout: Duration) {
        self.notifier.wait(timeout);
        if let Some(throttle) = &self.throttle {
            throttle.skip_idle_time(throttle.elapsed());
        }
    }

    /// Wakes the task if it is blocked in [`Control::wait_for_notification`].
    pub fn notify(&self) {
        self.notifier.notify();
    }

    /// Takes over the liveness counter and the progress of a task that runs in another process.
    pub(crate) fn mirror(&self, ticks: u64, progress_ppm: u32) {
        self.ticks.store(ticks, Relaxed);
        self.set_progress_ppm(progress_ppm);
    }

    /// The notifier, for other sources of notifications.
    pub(crate) fn notifier(&self) -> &Arc<Notifier> {
        &self.notifier
    }
}

/// A condition variable with a flag, so that a notification between a check and the following wait is not lost.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    is_notified: Mutex<bool>,
    condvar: Condvar,
}

impl Notifier {
    pub(crate) fn notify(&self) {
        *self.is_notified() = true;
        self.condvar.notify_all();
    }

    fn wait(&self, timeout: Duration) {
        let waited = self.condvar.wait_timeout_while(self.is_notified(), timeout, |is_notified| !*is_notified);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }

    /// A panic cannot leave a single `bool` in an invalid state, so poisoning is ignored.
    fn is_notified(&self) -> MutexGuard<'_, bool> {
        self.is_notified.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
impl Control {
    /// A control that requests a preemption at the given check for a request, counted from 1: a random moment that does not depend on the clock.
    pub(super) fn preempted_at_check(check: u64) -> Control {
        Control { checks_to_preemption: AtomicU64::new(check), ..Control::default() }
    }

    fn count_check(&self) {
        if self.checks_to_preemption.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)) == Ok(1) {
            self.request(Request::Preempt);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn stop_overrides_preempt() {
        let control = Control::new();
        assert_eq!(control.requested(), None);
        control.request(Request::Preempt);
        assert_eq!(control.requested(), Some(Request::Preempt));
        control.request(Request::Stop);
        control.request(Request::Preempt);
        assert_eq!(control.requested(), Some(Request::Stop));
    }

    #[test]
    fn a_notification_before_the_wait_is_not_lost() {
        let control = Control::new();
        let began = Instant::now();
        control.notify();
        control.wait_for_notification(Duration::from_secs(60));
        assert!(began.elapsed() < Duration::from_secs(30));
        control.wait_for_notification(Duration::from_millis(5));
        assert!(began.elapsed() >= Duration::from_millis(5));
    }

    #[test]
    fn a_throttled_task_catches_up_after_a_stall_but_not_after_idle_time() {
        let control = Control::throttled(Some(1_000));
        let throttle = control.throttle.as_ref().unwrap();
        let run = |ticks: u32, from: Duration| (0..ticks).fold(from, |now, _| now + throttle.tick(now));
        let ms = Duration::from_millis;
        assert_eq!(run(200, ms(0)), ms(200));
        // A stall of 100 ms, and one that is longer than what may be caught up.
        assert_eq!(run(200, ms(300)), ms(400));
        assert_eq!(run(2_000, ms(400) + 2 * Throttle::CATCH_UP_MAX), ms(2_400) + Throttle::CATCH_UP_MAX);
        throttle.skip_idle_time(ms(5_000));
        assert_eq!(run(200, ms(5_000)), ms(5_200));
    }

    #[test]
    fn a_request_ends_a_wait() {
        let control = Arc::new(Control::new());
        let other = Arc::clone(&control);
        let requester = std::thread::spawn(move || other.request(Request::Preempt));
        while control.requested().is_none() {
            control.wait_for_notification(Duration::from_secs(60));
        }
        requester.join().unwrap();
    }
}
