//! Shortest remaining processing time first on one machine, whose speed may change over time.

use giveway_core::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The speed of a machine over time, as a fraction of its full speed.
pub(super) struct SpeedProfile {
    /// From each of these times on, the speed; until the first, full speed.
    speeds: Vec<(f64, f64)>,
}

impl SpeedProfile {
    /// The speed of all nodes together, given what each contributes and when which node is down.
    pub(super) fn with_outages(by_node: &[f64], outages: &[(u32, Time, Time)]) -> SpeedProfile {
        let all: f64 = by_node.iter().sum();
        let mut changes = Vec::new();
        for &(node, from, to) in outages {
            let lost = by_node.get(node as usize).map_or(0.0, |lost| lost / all.max(1e-9));
            changes.push((from.as_secs_f64(), -lost));
            if to != Time::NEVER {
                changes.push((to.as_secs_f64(), lost));
            }
        }
        SpeedProfile::new(changes)
    }

    /// Full speed, with these changes: the time and the amount, in any order.
    fn new(mut changes: Vec<(f64, f64)>) -> SpeedProfile {
        changes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut speed = 1.0;
        let faster = |(at_s, change): (f64, f64)| {
            speed += change;
            // Rounding must not make the machine slower than it is.
            (at_s, (speed + 1e-9).clamp(0.0, 1.0))
        };
        SpeedProfile { speeds: changes.into_iter().map(faster).collect() }
    }

    /// When a machine that starts at `from` has worked for this long at full speed; infinite if it never will.
    fn end_s(&self, from: f64, mut work: f64) -> f64 {
        let mut next = self.speeds.partition_point(|&(at_s, _)| at_s <= from);
        let mut now = from;
        loop {
            let speed = if next == 0 { 1.0 } else { self.speeds[next - 1].1 };
            let until = self.speeds.get(next).map_or(f64::INFINITY, |&(at_s, _)| at_s);
            if speed > 0.0 && now + work / speed <= until {
                return now + work / speed;
            }
            if until == f64::INFINITY {
                return f64::INFINITY;
            }
            work -= (until - now) * speed;
            (now, next) = (until, next + 1);
        }
    }

    /// The work done between two times, in seconds at full speed.
    fn work_between(&self, from: f64, to: f64) -> f64 {
        let mut next = self.speeds.partition_point(|&(at_s, _)| at_s <= from);
        let (mut now, mut work) = (from, 0.0);
        while now < to {
            let speed = if next == 0 { 1.0 } else { self.speeds[next - 1].1 };
            let until = self.speeds.get(next).map_or(to, |&(at_s, _)| at_s.min(to));
            work += (until - now) * speed;
            (now, next) = (until, next + 1);
        }
        work
    }
}

/// The smallest possible sum of completion times on one machine, given arrival and processing time at full speed of each job: at every arrival
/// and completion, the machine continues with the job that has the least remaining time.
pub(super) fn srpt(jobs: impl Iterator<Item = (f64, f64)>, speed: &SpeedProfile) -> f64 {
    let mut jobs: Vec<(f64, f64)> = jobs.collect();
    jobs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut arrivals = jobs.into_iter().peekable();
    let mut ready: BinaryHeap<Reverse<Remaining>> = BinaryHeap::new();
    let (mut now, mut sum) = (0.0, 0.0);
    loop {
        while let Some((_, work)) = arrivals.next_if(|(from, _)| *from <= now) {
            ready.push(Reverse(Remaining(work)));
        }
        let next = arrivals.peek().map(|(from, _)| *from);
        let Some(Reverse(Remaining(remaining))) = ready.pop() else {
            match next {
                Some(next) => now = next,
                None => return sum,
            }
            continue;
        };
        let end = speed.end_s(now, remaining);
        match next {
            Some(next) if end > next => {
                ready.push(Reverse(Remaining(remaining - speed.work_between(now, next))));
                now = next;
            }
            _ => {
                // All nodes down for ever: the jobs never end, and the bound says nothing about them.
                if end == f64::INFINITY {
                    return sum + now * (1 + ready.len()) as f64;
                }
                now = end;
                sum += now;
            }
        }
    }
}

/// Remaining processing time, in seconds.
#[derive(PartialEq)]
struct Remaining(f64);

impl Eq for Remaining {}

impl PartialOrd for Remaining {
    fn partial_cmp(&self, other: &Remaining) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Remaining {
    fn cmp(&self, other: &Remaining) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// SRPT in steps of one second: each second goes to the job that has arrived and has the least remaining time.
    fn srpt_by_seconds(jobs: &[(u32, u32)]) -> u64 {
        let mut remaining: Vec<u32> = jobs.iter().map(|(_, work)| *work).collect();
        let mut sum: u64 = jobs.iter().filter(|(_, work)| *work == 0).map(|(from, _)| u64::from(*from)).sum();
        for now in 0.. {
            let arrived = (0..jobs.len()).filter(|job| jobs[*job].0 <= now && remaining[*job] > 0);
            if let Some(job) = arrived.min_by_key(|job| remaining[*job]) {
                remaining[job] -= 1;
                sum += if remaining[job] == 0 { u64::from(now) + 1 } else { 0 };
            }
            if remaining.iter().all(|remaining| *remaining == 0) {
                break;
            }
        }
        sum
    }

    proptest! {
        #[test]
        fn srpt_matches_the_one_second_reference(jobs in prop::collection::vec((0u32..30, 0u32..12), 0..12)) {
            let exact = srpt(jobs.iter().map(|(from, work)| (f64::from(*from), f64::from(*work))), &SpeedProfile::new(vec![]));
            prop_assert_eq!(exact, srpt_by_seconds(&jobs) as f64);
        }

        /// At half speed from the beginning, everything takes twice as long.
        #[test]
        fn srpt_follows_the_speed(jobs in prop::collection::vec((0u32..30, 0u32..12), 0..12)) {
            let jobs = || jobs.iter().map(|(from, work)| (f64::from(*from), f64::from(*work)));
            let half = srpt(jobs(), &SpeedProfile::new(vec![(0.0, -0.5)]));
            let double = srpt(jobs().map(|(from, work)| (from, 2.0 * work)), &SpeedProfile::new(vec![]));
            prop_assert!((half - double).abs() < 1e-4, "{half} and {double}");
            // A pause of ten seconds delays no job by more than that, and none is sooner.
            let pause = SpeedProfile::new(vec![(20.0, -1.0), (30.0, 1.0)]);
            let (paused, full) = (srpt(jobs(), &pause), srpt(jobs(), &SpeedProfile::new(vec![])));
            prop_assert!(full - 1e-4 <= paused && paused <= full + 10.0 * jobs().count() as f64 + 1e-4);
        }
    }
}
