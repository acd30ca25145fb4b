//! Contention: the tasks of a node share its cores and its disk.
//!
//! A task alternates between computing, using the disk and waiting for something else, in fixed proportions. If it computes for a fraction `c`
//! of its time alone on the node, and uses the disk for a fraction `d`, it advances at the rate `1 / (c x + d y + (1 - c - d))`. Here `x` is
//! the slowdown of computing and `y` that of the disk: the smallest factors of at least 1 with which the tasks use no more cores and disks than
//! there are. A task uses at most one of each. Rates change only when a task begins or ends to work.

use crate::cluster::Cluster;
use giveway_core::{AttemptId, Span, Time};
use smallvec::SmallVec;

/// The work of a task, alone on its node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskWork {
    /// Its duration.
    pub(crate) span: Span,
    /// Fraction (0-1) of the duration that it computes.
    pub(crate) cpu: f64,
    /// Fraction (0-1) of the duration that it uses the disk.
    pub(crate) disk: f64,
}

impl TaskWork {
    /// Work of this duration, with the time that it takes on the cores and on the disk.
    pub(crate) fn new(span: Span, cpu_us: f64, disk_us: f64) -> TaskWork {
        let whole = (span.0 as f64).max(cpu_us + disk_us).max(1.0);
        TaskWork { span, cpu: cpu_us / whole, disk: disk_us / whole }
    }
}

/// How far a task's work is: `spent` of `whole`, in time alone on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorkDone {
    pub(crate) spent: Span,
    pub(crate) whole: Span,
}

impl WorkDone {
    /// Of work without contention, which began at `from` and ends at `end`.
    pub(crate) fn between(from: Time, end: Time, now: Time) -> WorkDone {
        WorkDone { spent: now.since(from), whole: end.since(from) }
    }
}

/// The tasks that share a node.
#[derive(Debug, Default)]
pub(crate) struct SharedNode {
    /// Number of cores; zero if tasks do not contend here.
    cores: f64,
    disks: f64,
    /// Time up to which the tasks have advanced.
    advanced_to: Time,
    tasks: SmallVec<[SharedTask; 12]>,
}

#[derive(Clone, Copy, Debug)]
struct SharedTask {
    id: AttemptId,
    work: TaskWork,
    /// When it begins to work, after its process has started.
    begin: Time,
    /// Microseconds of its work that are done.
    done_us: f64,
    /// Progress of its work per unit of time; zero before it begins and after its end.
    rate: f64,
    /// When its work is done, if nothing changes on the node.
    end: Time,
}

impl SharedNode {
    /// The nodes of a cluster.
    pub(crate) fn of_nodes(cluster: &Cluster) -> Vec<SharedNode> {
        let shared = |node: &crate::cluster::NodeModel| SharedNode {
            cores: node.shared.map_or(0.0, |shared| f64::from(shared.cores)),
            disks: node.shared.map_or(0.0, |shared| f64::from(shared.disks)),
            ..SharedNode::default()
        };
        cluster.nodes.iter().map(shared).collect()
    }

    /// True if tasks contend here.
    pub(crate) fn is_shared(&self) -> bool {
        self.cores > 0.0
    }

    /// Adds a task that begins to work at `begin`, now or later.
    pub(crate) fn add(&mut self, now: Time, id: AttemptId, begin: Time, work: TaskWork) {
        self.advance(now);
        self.tasks.push(SharedTask { id, work, begin, done_us: 0.0, rate: 0.0, end: Time::NEVER });
        self.set_rates();
    }

    /// Removes a task, if it is here.
    pub(crate) fn remove(&mut self, now: Time, id: AttemptId) {
        if let Some(at) = self.tasks.iter().position(|task| task.id == id) {
            self.advance(now);
            self.tasks.swap_remove(at);
            self.set_rates();
        }
    }

    /// Removes all tasks.
    pub(crate) fn clear(&mut self) {
        self.tasks.clear();
    }

    /// Lets the tasks work until `now`, through the beginnings and ends in between.
    pub(crate) fn advance(&mut self, now: Time) {
        while let Some(change) = self.next_change().filter(|&change| change <= now) {
            self.work_until(change);
            self.set_rates();
        }
        self.work_until(now);
    }

    /// How far a task is, at the time of the last [`SharedNode::advance`].
    pub(crate) fn done(&self, id: AttemptId) -> Option<WorkDone> {
        let task = self.tasks.iter().find(|task| task.id == id)?;
        Some(WorkDone { spent: Span(task.done_us as u64).min(task.work.span), whole: task.work.span })
    }

    /// When a task's work is done, if nothing changes on the node.
    pub(crate) fn end(&self, id: AttemptId) -> Option<Time> {
        Some(self.tasks.iter().find(|task| task.id == id)?.end)
    }

    /// The next time at which a task begins or ends to work.
    fn next_change(&self) -> Option<Time> {
        let begins = self.tasks.iter().map(|task| task.begin).filter(|&begin| begin > self.advanced_to);
        let ends = self.tasks.iter().filter(|task| task.rate > 0.0).map(|task| task.end);
        begins.chain(ends).min()
    }

    fn work_until(&mut self, now: Time) {
        let spent_us = now.since(self.advanced_to).0 as f64;
        self.advanced_to = now.max(self.advanced_to);
        for task in &mut self.tasks {
            task.done_us += task.rate * spent_us;
            if task.rate > 0.0 && task.end <= now {
                (task.done_us, task.rate) = (task.work.span.0 as f64, 0.0);
            }
        }
    }

    /// Computes the rates and ends of all tasks that work now.
    fn set_rates(&mut self) {
        let now = self.advanced_to;
        let is_working = |task: &SharedTask| task.begin <= now && task.end > now;
        let working: SmallVec<[TaskWork; 12]> =
            self.tasks.iter().filter(|task| is_working(task)).map(|task| task.work).collect();
        let slowdowns = Slowdowns::of(&working, self.cores, self.disks);
        for task in self.tasks.iter_mut() {
            if is_working(task) {
                task.rate = slowdowns.rate(&task.work);
                let left_us = (task.work.span.0 as f64 - task.done_us).max(0.0) / task.rate;
                task.end = now + Span(left_us.ceil() as u64);
            } else if task.begin > now {
                // An early guess; it is corrected when the task begins.
                task.end = task.begin + task.work.span;
            }
        }
    }
}

/// Factors by which computing and disk accesses take longer than alone.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Slowdowns {
    cpu: f64,
    disk: f64,
}

impl Slowdowns {
    /// Rounds in which the two factors are adjusted to each other.
    const ROUNDS: u32 = 60;
    const TOLERANCE: f64 = 1e-9;

    fn of(tasks: &[TaskWork], cores: f64, disks: f64) -> Slowdowns {
        let mut found = Slowdowns { cpu: 1.0, disk: 1.0 };
        for _ in 0..Slowdowns::ROUNDS {
            let before = found;
            found.cpu = slowdown(tasks.iter().map(|task| (task.cpu, task.disk * found.disk + waits(task))), cores);
            found.disk = slowdown(tasks.iter().map(|task| (task.disk, task.cpu * found.cpu + waits(task))), disks);
            if (found.cpu - before.cpu).abs() + (found.disk - before.disk).abs() < Slowdowns::TOLERANCE {
                break;
            }
        }
        found
    }

    fn rate(self, task: &TaskWork) -> f64 {
        1.0 / (task.cpu * self.cpu + task.disk * self.disk + waits(task))
    }
}

/// Fraction of a task's time alone in which it uses neither core nor disk.
fn waits(task: &TaskWork) -> f64 {
    (1.0 - task.cpu - task.disk).max(0.0)
}

/// The smallest factor of at least 1 with which the tasks use at most the capacity of one resource. A task is given by the time that it uses
/// the resource alone and the time that it spends otherwise.
///
/// The use is convex and falls with the factor, so Newton's method approaches the solution from below and never passes it.
fn slowdown(tasks: impl Iterator<Item = (f64, f64)> + Clone, capacity: f64) -> f64 {
    let mut factor = 1.0;
    for _ in 0..100 {
        let (used, slope) = tasks.clone().fold((0.0, 0.0), |(used, slope), (own, rest)| {
            let part = own / (own * factor + rest);
            (used + part, slope + part * part)
        });
        if used <= capacity * (1.0 + 1e-12) {
            break;
        }
        factor += (used - capacity) / slope;
    }
    factor
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_core::{JobId, Kind};
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    fn id(index: u32) -> AttemptId {
        AttemptId::new(JobId(0), Kind::Map, index, 0)
    }

    fn node(cores: f64) -> SharedNode {
        SharedNode { cores, disks: 1.0, ..SharedNode::default() }
    }

    fn seconds(seconds: f64) -> Time {
        Time::from_secs_f64(seconds)
    }

    fn work(span_s: u64, cpu: f64, disk: f64) -> TaskWork {
        TaskWork { span: Span::from_secs(span_s), cpu, disk }
    }

    #[test]
    fn tasks_that_compute_share_the_cores() {
        let mut node = node(2.0);
        (0..4).for_each(|index| node.add(Time::ZERO, id(index), Time::ZERO, work(10, 1.0, 0.0)));
        assert_eq!(node.end(id(3)), Some(seconds(20.0)));
        node.remove(seconds(10.0), id(0));
        node.remove(seconds(10.0), id(1));
        assert_eq!(node.end(id(3)), Some(seconds(15.0)));
    }

    #[test]
    fn a_task_uses_at_most_one_core() {
        let mut node = node(4.0);
        node.add(Time::ZERO, id(0), Time::ZERO, work(10, 1.0, 0.0));
        assert_eq!(node.end(id(0)), Some(seconds(10.0)));
    }

    #[test]
    fn tasks_that_read_share_the_disk() {
        let mut node = node(4.0);
        (0..3).for_each(|index| node.add(Time::ZERO, id(index), Time::ZERO, work(10, 0.0, 1.0)));
        assert_eq!(node.end(id(0)), Some(seconds(30.0)));
        node.add(seconds(15.0), id(3), seconds(15.0), work(10, 1.0, 0.0));
        assert_eq!(node.end(id(0)), Some(seconds(30.0)), "a task that computes does not slow reads");
    }

    #[test]
    fn a_second_disk_serves_a_second_task() {
        let mut node = SharedNode { cores: 4.0, disks: 2.0, ..SharedNode::default() };
        (0..4).for_each(|index| node.add(Time::ZERO, id(index), Time::ZERO, work(10, 0.0, 1.0)));
        assert_eq!(node.end(id(0)), Some(seconds(20.0)));
        node.remove(seconds(10.0), id(0));
        node.remove(seconds(10.0), id(1));
        node.remove(seconds(10.0), id(2));
        assert_eq!(node.end(id(3)), Some(seconds(15.0)), "alone, it uses one disk");
    }

    #[test]
    fn the_end_of_one_task_speeds_up_the_others_without_a_call_in_between() {
        let mut node = node(1.0);
        node.add(Time::ZERO, id(0), Time::ZERO, work(2, 1.0, 0.0));
        node.add(Time::ZERO, id(1), Time::ZERO, work(10, 1.0, 0.0));
        node.advance(seconds(11.0));
        assert_eq!(node.end(id(0)), Some(seconds(4.0)));
        assert_eq!(node.end(id(1)), Some(seconds(12.0)));
        assert_eq!(node.done(id(1)), Some(WorkDone { spent: Span::from_secs(9), whole: Span::from_secs(10) }));
    }

    #[test]
    fn a_task_uses_nothing_before_its_process_has_started() {
        let mut node = node(1.0);
        node.add(Time::ZERO, id(0), Time::ZERO, work(10, 1.0, 0.0));
        node.add(Time::ZERO, id(1), seconds(4.0), work(10, 1.0, 0.0));
        node.advance(seconds(4.0));
        assert_eq!(node.done(id(0)).unwrap().spent, Span::from_secs(4));
        assert_eq!(node.end(id(0)), Some(seconds(16.0)));
        node.advance(seconds(20.0));
        assert_eq!(node.end(id(0)), Some(seconds(16.0)));
        assert_eq!(node.end(id(1)), Some(seconds(20.0)));
    }

    #[test]
    fn no_resource_is_used_beyond_its_capacity_and_none_is_slowed_down_without_need() {
        let mut rng = Pcg64Mcg::seed_from_u64(7);
        for _ in 0..2_000 {
            let cores = f64::from(rng.random_range(1..9u32));
            let tasks: Vec<TaskWork> = (0..rng.random_range(1..20))
                .map(|_| {
                    let cpu = rng.random_range(0.0..=1.0);
                    work(10, cpu, rng.random_range(0.0..=1.0 - cpu))
                })
                .collect();
            let disks = f64::from(rng.random_range(1..4u32));
            let slowdowns = Slowdowns::of(&tasks, cores, disks);
            let used = |part: fn(&TaskWork) -> f64| -> f64 {
                tasks.iter().map(|task| part(task) * slowdowns.rate(task)).sum()
            };
            for (used, capacity, factor) in
                [(used(|task| task.cpu), cores, slowdowns.cpu), (used(|task| task.disk), disks, slowdowns.disk)]
            {
                assert!(used <= capacity * (1.0 + 1e-6), "{used} of {capacity}");
                assert!(factor == 1.0 || used >= capacity * (1.0 - 1e-6), "{factor} at {used} of {capacity}");
            }
        }
    }
}
