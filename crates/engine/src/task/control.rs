//! What a task's thread and its worker share while the task runs: wishes go in, progress comes out.
//!
//! A task looks at [`Control::asked`] between records and between keys, so the look must cost next to nothing: one relaxed load. Whoever waits
//! instead of working (a shuffle with nothing to fetch) waits at the control's [`Bell`], which every wish and every new output rings.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a worker wants of a running task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ask {
    /// Keep what is done and free the slot: a map ends early, a reduce pauses.
    GiveWay,
    /// Give up; nothing of it is wanted any more. Outranks [`Ask::GiveWay`].
    Stop,
}

/// The strings and dials of one running task.
#[derive(Debug, Default)]
pub struct Control {
    ask: AtomicU8,
    progress_ppm: AtomicU32,
    ticks: AtomicU64,
    pace: Option<Pace>,
    bell: Arc<Bell>,
}

/// For a task that is to go slowly: how long each tick lasts at least.
#[derive(Debug)]
struct Pace {
    tick: Duration,
    began: Instant,
    /// When the next tick is due, in nanoseconds after the beginning.
    due_ns: AtomicU64,
}

impl Pace {
    /// What a task may catch up on at most. Time in which it had nothing to do is no credit for later.
    const CREDIT: Duration = Duration::from_millis(20);

    /// One tick more; how long it is too early for the next.
    fn tick(&self) -> Duration {
        let now = self.began.elapsed();
        let due = Duration::from_nanos(self.due_ns.load(Relaxed)).max(now.saturating_sub(Pace::CREDIT)) + self.tick;
        self.due_ns.store(due.as_nanos() as u64, Relaxed);
        due.saturating_sub(now)
    }
}

impl Control {
    /// Nothing asked, nothing done.
    pub fn new() -> Control {
        Control::default()
    }

    /// The same for a task that takes at most so many records a second.
    pub fn slowly(records_per_s: Option<u64>) -> Control {
        match records_per_s {
            None | Some(0) => Control::default(),
            Some(records) => {
                let tick = Duration::from_secs(1) / u32::try_from(records).unwrap_or(u32::MAX);
                let pace = Pace { tick, began: Instant::now(), due_ns: AtomicU64::new(0) };
                Control { pace: Some(pace), ..Control::default() }
            }
        }
    }

    /// Asks for something. A task that was asked to stop stays so.
    pub fn ask(&self, ask: Ask) {
        self.ask.fetch_max(1 + ask as u8, Relaxed);
        self.wake();
    }

    /// What was asked, if anything.
    #[inline]
    pub fn asked(&self) -> Option<Ask> {
        match self.ask.load(Relaxed) {
            0 => None,
            1 => Some(Ask::GiveWay),
            _ => Some(Ask::Stop),
        }
    }

    /// True once the task is to be given up.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.asked() == Some(Ask::Stop)
    }

    /// How far the task is, in parts per million.
    pub fn progress_ppm(&self) -> u32 {
        self.progress_ppm.load(Relaxed)
    }

    /// The task says how far it is.
    pub fn set_done_ppm(&self, progress_ppm: u32) {
        self.progress_ppm.store(progress_ppm.min(1_000_000), Relaxed);
    }

    /// A number that moves while the task lives. One that stands still for the job's time-out belongs to a task that hangs.
    pub fn ticks(&self) -> u64 {
        self.ticks.load(Relaxed)
    }

    /// The task lives. Only its own thread says so, hence no locked addition.
    #[inline]
    pub fn tick(&self) {
        let ticks = self.ticks.load(Relaxed).wrapping_add(1);
        self.ticks.store(ticks, Relaxed);
        if let Some(pace) = &self.pace {
            self.slow_down(pace);
        }
    }

    /// Waits until the next tick is due, or something is asked. Short waits are saved up: nobody wakes in time from them.
    #[cold]
    fn slow_down(&self, pace: &Pace) {
        let early = pace.tick();
        let until = Instant::now() + early;
        while early > Duration::from_millis(1)
            && self.asked().is_none()
            && let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
        {
            self.wait_for_news(left);
        }
    }

    /// Waits until something is new since the last wait, or until the time is over.
    pub fn wait_for_news(&self, timeout: Duration) {
        self.bell.wait(timeout);
    }

    /// Something is new: whoever waits looks again.
    pub fn wake(&self) {
        self.bell.ring();
    }

    /// What rings when something is new for this task.
    pub(super) fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }
}

/// A bell that remembers that it was rung, so that news between a look and a wait is not slept through.
#[derive(Debug, Default)]
pub(super) struct Bell {
    rung: Mutex<bool>,
    news: Condvar,
}

impl Bell {
    pub(super) fn ring(&self) {
        *self.rung() = true;
        self.news.notify_all();
    }

    fn wait(&self, timeout: Duration) {
        let waited = self.news.wait_timeout_while(self.rung(), timeout, |rung| !*rung);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }

    /// A thread that panicked cannot have left a lone `bool` in disorder.
    fn rung(&self) -> MutexGuard<'_, bool> {
        self.rung.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_stop_outranks_a_wish_to_give_way() {
        let control = Control::new();
        assert_eq!(control.asked(), None);
        control.ask(Ask::GiveWay);
        assert_eq!(control.asked(), Some(Ask::GiveWay));
        control.ask(Ask::Stop);
        control.ask(Ask::GiveWay);
        assert_eq!(control.asked(), Some(Ask::Stop));
    }

    #[test]
    fn news_before_the_wait_is_not_slept_through() {
        let control = Control::new();
        let began = Instant::now();
        control.wake();
        control.wait_for_news(Duration::from_secs(60));
        assert!(began.elapsed() < Duration::from_secs(30));
        control.wait_for_news(Duration::from_millis(5));
        assert!(began.elapsed() >= Duration::from_millis(5));
    }

    #[test]
    fn a_slow_task_keeps_its_pace_and_gets_no_credit_for_idle_time() {
        let control = Control::slowly(Some(1_000));
        std::thread::sleep(Duration::from_millis(200));
        let began = Instant::now();
        (0..200).for_each(|_| control.tick());
        assert!(began.elapsed() >= Duration::from_millis(170), "{:?}", began.elapsed());
    }

    #[test]
    fn a_wish_ends_a_wait() {
        let control = Arc::new(Control::new());
        let other = Arc::clone(&control);
        let asker = std::thread::spawn(move || other.ask(Ask::GiveWay));
        while control.asked().is_none() {
            control.wait_for_news(Duration::from_secs(60));
        }
        asker.join().unwrap();
    }
}
