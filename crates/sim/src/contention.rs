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
#[derive(Debug)]
pub(crate) struct SharedNode {
    /// Number of cores; zero if tasks do not contend here.
    cores: f64,
    disks: f64,
    /// Whether the cores and disks may not suffice for all tasks here at full rate. Otherwise tasks do not affect each other.
    is_contended: bool,
    /// While tasks contend, until when the rates hold: the next time at which a task begins or ends to work; otherwise `NEVER`.
    next_change: Time,
    /// Whether ends have changed since [`SharedNode::take_changed`].
    has_changed: bool,
    tasks: SmallVec<[SharedTask; 12]>,
}

#[derive(Clone, Copy, Debug)]
struct SharedTask {
    id: AttemptId,
    work: TaskWork,
    /// When it begins to work, after its process has started.
    begin: Time,
    /// Since when its rate holds, now or later.
    since: Time,
    /// Microseconds of its work that were done then.
    done_us: f64,
    /// Progress of its work per unit of time, while it works.
    rate: f64,
    /// When its work is done, if nothing changes on the node.
    end: Time,
}

impl SharedNode {
    fn new(cores: f64, disks: f64) -> SharedNode {
        let tasks = SmallVec::new();
        SharedNode { cores, disks, is_contended: false, next_change: Time::NEVER, has_changed: false, tasks }
    }

    /// The nodes of a cluster.
    pub(crate) fn of_nodes(cluster: &Cluster) -> Vec<SharedNode> {
        let hardware = cluster.nodes.iter().map(|node| node.shared);
        hardware
            .map(|shared| shared.map_or((0.0, 0.0), |shared| (f64::from(shared.cores), f64::from(shared.disks))))
            .map(|(cores, disks)| SharedNode::new(cores, disks))
            .collect()
    }

    /// True if tasks contend here.
    pub(crate) fn is_shared(&self) -> bool {
        self.cores > 0.0
    }

    /// Adds a task that begins to work at `begin`, now or later; returns its end, if nothing changes on the node.
    pub(crate) fn add(&mut self, now: Time, id: AttemptId, begin: Time, work: TaskWork) -> Time {
        self.advance(now);
        // While tasks contend an early guess, which is corrected when the task begins.
        let end = begin + work.span;
        self.tasks.push(SharedTask { id, work, begin, since: begin, done_us: 0.0, rate: 1.0, end });
        if !self.is_contended && self.suffices_for_all() {
            return end;
        }
        self.set_rates(now);
        self.tasks[self.tasks.len() - 1].end
    }

    /// Removes a task, if it is here.
    pub(crate) fn remove(&mut self, now: Time, id: AttemptId) {
        let Some(at) = self.tasks.iter().position(|task| task.id == id) else { return };
        self.advance(now);
        let removed = self.tasks.swap_remove(at);
        if self.is_contended && removed.is_working(now) {
            self.set_rates(now);
        }
    }

    /// Removes all tasks.
    pub(crate) fn clear(&mut self) {
        self.tasks.clear();
        (self.is_contended, self.next_change) = (false, Time::NEVER);
    }

    /// Passes the beginnings and ends of work until `now`.
    pub(crate) fn advance(&mut self, now: Time) {
        while self.next_change <= now {
            self.set_rates(self.next_change);
        }
    }

    /// True if ends have changed since the last call.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// How far a task is now. The node has advanced until now.
    pub(crate) fn done(&self, now: Time, id: AttemptId) -> Option<WorkDone> {
        let task = self.tasks.iter().find(|task| task.id == id)?;
        Some(WorkDone { spent: Span(task.done_us_at(now) as u64), whole: task.work.span })
    }

    /// When a task's work is done, if nothing changes on the node. The task is probably the one at index `likely`.
    pub(crate) fn end(&self, likely: usize, id: AttemptId) -> Option<Time> {
        let likely = self.tasks.get(likely).filter(|task| task.id == id);
        Some(likely.or_else(|| self.tasks.iter().find(|task| task.id == id))?.end)
    }

    /// Whether the cores and disks suffice for all tasks at full rate; then they suffice for slower ones, too.
    fn suffices_for_all(&self) -> bool {
        let (cpu, disk) = demand(self.tasks.iter().map(|task| &task.work));
        cpu <= self.cores && disk <= self.disks
    }

    /// Computes the rates and ends of all tasks from now on.
    fn set_rates(&mut self, now: Time) {
        for task in &mut self.tasks {
            (task.done_us, task.since) = (task.done_us_at(now), task.begin.max(now));
        }
        self.is_contended = !self.suffices_for_all();
        self.next_change = Time::NEVER;
        let working = self.tasks.iter().filter(|task| task.is_working(now)).map(|task| &task.work);
        let slowdowns = Slowdowns::of(working, self.cores, self.disks);
        for task in &mut self.tasks {
            if task.is_working(now) {
                let slowdown = slowdowns.of_task(&task.work);
                task.rate = 1.0 / slowdown;
                let end = now + Span(round_up((task.work.span.0 as f64 - task.done_us) * slowdown));
                self.has_changed |= end != task.end;
                task.end = end;
            } else if task.begin <= now {
                task.done_us = task.work.span.0 as f64;
            }
            if self.is_contended && task.end > now {
                self.next_change = self.next_change.min(if task.begin > now { task.begin } else { task.end });
            }
        }
    }
}

/// The smallest integer that is not below a number; `f64::ceil` is slower where the target CPU has no instruction for it.
fn round_up(number: f64) -> u64 {
    let below = number as u64;
    below + u64::from((below as f64) < number)
}

impl SharedTask {
    fn is_working(&self, now: Time) -> bool {
        self.begin <= now && now < self.end
    }

    /// Microseconds of its work that are done.
    fn done_us_at(&self, now: Time) -> f64 {
        (self.done_us + self.rate * now.since(self.since).0 as f64).min(self.work.span.0 as f64)
    }
}

/// Factors by which computing and disk accesses take longer than alone.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Slowdowns {
    cpu: f64,
    disk: f64,
}

impl Slowdowns {
    const NONE: Slowdowns = Slowdowns { cpu: 1.0, disk: 1.0 };
    /// Rounds in which the two factors are adjusted to each other.
    const ROUNDS: u32 = 60;
    const TOLERANCE: f64 = 1e-9;

    fn of<'a>(tasks: impl Iterator<Item = &'a TaskWork> + Clone, cores: f64, disks: f64) -> Slowdowns {
        let of_cpu = |disk: f64| slowdown(tasks.clone().map(|task| (task.cpu, task.disk * disk + waits(task))), cores);
        let of_disk = |cpu: f64| slowdown(tasks.clone().map(|task| (task.disk, task.cpu * cpu + waits(task))), disks);
        // A resource that suffices for all tasks at full rate also suffices for slower ones.
        let (cpu, disk) = demand(tasks.clone());
        match (cpu <= cores, disk <= disks) {
            (true, true) => return Slowdowns::NONE,
            (true, false) => return Slowdowns { cpu: 1.0, disk: of_disk(1.0) },
            (false, true) => return Slowdowns { cpu: of_cpu(1.0), disk: 1.0 },
            (false, false) => {}
        }
        let mut found = Slowdowns::NONE;
        for _ in 0..Slowdowns::ROUNDS {
            let before = found;
            found.cpu = of_cpu(found.disk);
            found.disk = of_disk(found.cpu);
            if (found.cpu - before.cpu).abs() + (found.disk - before.disk).abs() < Slowdowns::TOLERANCE {
                break;
            }
        }
        found
    }

    /// The factor by which a task takes longer than alone.
    fn of_task(self, task: &TaskWork) -> f64 {
        if self == Slowdowns::NONE {
            return 1.0;
        }
        task.cpu * self.cpu + task.disk * self.disk + waits(task)
    }
}

/// Cores and disks that tasks use at full rate.
fn demand<'a>(tasks: impl Iterator<Item = &'a TaskWork>) -> (f64, f64) {
    tasks.fold((0.0, 0.0), |(cpu, disk), task| (cpu + task.cpu, disk + task.disk))
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
        SharedNode::new(cores, 1.0)
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
        for index in 0..4 {
            node.add(Time::ZERO, id(index), Time::ZERO, work(10, 1.0, 0.0));
        }
        assert_eq!(node.end(0, id(3)), Some(seconds(20.0)));
        node.remove(seconds(10.0), id(0));
        node.remove(seconds(10.0), id(1));
        assert_eq!(node.end(0, id(3)), Some(seconds(15.0)));
    }

    #[test]
    fn a_task_uses_at_most_one_core() {
        let mut node = node(4.0);
        node.add(Time::ZERO, id(0), Time::ZERO, work(10, 1.0, 0.0));
        assert_eq!(node.end(0, id(0)), Some(seconds(10.0)));
    }

    #[test]
    fn tasks_that_read_share_the_disk() {
        let mut node = node(4.0);
        for index in 0..3 {
            node.add(Time::ZERO, id(index), Time::ZERO, work(10, 0.0, 1.0));
        }
        assert_eq!(node.end(0, id(0)), Some(seconds(30.0)));
        node.add(seconds(15.0), id(3), seconds(15.0), work(10, 1.0, 0.0));
        assert_eq!(node.end(0, id(0)), Some(seconds(30.0)), "a task that computes does not slow reads");
    }

    #[test]
    fn a_second_disk_serves_a_second_task() {
        let mut node = SharedNode::new(4.0, 2.0);
        for index in 0..4 {
            node.add(Time::ZERO, id(index), Time::ZERO, work(10, 0.0, 1.0));
        }
        assert_eq!(node.end(0, id(0)), Some(seconds(20.0)));
        node.remove(seconds(10.0), id(0));
        node.remove(seconds(10.0), id(1));
        node.remove(seconds(10.0), id(2));
        assert_eq!(node.end(0, id(3)), Some(seconds(15.0)), "alone, it uses one disk");
    }

    #[test]
    fn the_end_of_one_task_speeds_up_the_others_without_a_call_in_between() {
        let mut node = node(1.0);
        node.add(Time::ZERO, id(0), Time::ZERO, work(2, 1.0, 0.0));
        node.add(Time::ZERO, id(1), Time::ZERO, work(10, 1.0, 0.0));
        node.advance(seconds(11.0));
        assert_eq!(node.end(0, id(0)), Some(seconds(4.0)));
        assert_eq!(node.end(0, id(1)), Some(seconds(12.0)));
        assert_eq!(
            node.done(seconds(11.0), id(1)),
            Some(WorkDone { spent: Span::from_secs(9), whole: Span::from_secs(10) })
        );
    }

    #[test]
    fn a_task_uses_nothing_before_its_process_has_started() {
        let mut node = node(1.0);
        node.add(Time::ZERO, id(0), Time::ZERO, work(10, 1.0, 0.0));
        node.add(Time::ZERO, id(1), seconds(4.0), work(10, 1.0, 0.0));
        node.advance(seconds(4.0));
        assert_eq!(node.done(seconds(4.0), id(0)).unwrap().spent, Span::from_secs(4));
        assert_eq!(node.end(0, id(0)), Some(seconds(16.0)));
        node.advance(seconds(20.0));
        assert_eq!(node.end(0, id(0)), Some(seconds(16.0)));
        assert_eq!(node.end(0, id(1)), Some(seconds(20.0)));
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
            let slowdowns = Slowdowns::of(tasks.iter(), cores, disks);
            let used = |part: fn(&TaskWork) -> f64| -> f64 {
                tasks.iter().map(|task| part(task) / slowdowns.of_task(task)).sum()
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
