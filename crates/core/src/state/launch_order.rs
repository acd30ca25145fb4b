//! The running tasks of a job in the order in which their attempts were launched, so that those that have run for long are found without a look at the others.
//!
//! An attempt that has ended stays in the list until it is the oldest, or until half of the list has ended.

use super::task::Task;
use crate::units::Time;
use std::collections::VecDeque;

/// A list with up to so many ended attempts more than running ones is left alone.
const ENDED_MIN: usize = 16;

/// Attempts, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct LaunchOrder(VecDeque<Launch>);

#[derive(Clone, Copy, Debug)]
struct Launch {
    at: Time,
    task: u32,
    number: u16,
}

impl Launch {
    /// True if it is the present attempt of its task, and runs.
    fn runs(&self, tasks: &[Task]) -> bool {
        let task = &tasks[self.task as usize];
        task.number == self.number && task.state.holds_slot()
    }
}

impl LaunchOrder {
    /// That of these running tasks.
    pub(super) fn of(running: &[u32], tasks: &[Task]) -> LaunchOrder {
        let mut order = LaunchOrder::default();
        let mut sorted = running.to_vec();
        sorted.sort_by_key(|&task| tasks[task as usize].launched);
        sorted.into_iter().for_each(|task| order.add(task, &tasks[task as usize]));
        order
    }

    /// Adds the present attempt of a task, which is mostly the youngest.
    pub(super) fn add(&mut self, index: u32, task: &Task) {
        let launch = Launch { at: task.launched, task: index, number: task.number };
        if self.0.back().is_none_or(|youngest| youngest.at <= launch.at) {
            self.0.push_back(launch);
        } else {
            self.0.insert(self.0.partition_point(|other| other.at <= launch.at), launch);
        }
    }

    /// Drops attempts that have ended, given how many run.
    pub(super) fn drop_ended(&mut self, running: usize, tasks: &[Task]) {
        while self.0.front().is_some_and(|oldest| !oldest.runs(tasks)) {
            self.0.pop_front();
        }
        if self.0.len() > 2 * running + ENDED_MIN {
            self.0.retain(|launch| launch.runs(tasks));
        }
    }

    /// The tasks whose present attempts run, oldest attempt first.
    pub(super) fn running<'a>(&'a self, tasks: &'a [Task]) -> impl Iterator<Item = u32> + 'a {
        self.0.iter().filter(|launch| launch.runs(tasks)).map(|launch| launch.task)
    }
}

#[cfg(test)]
mod tests {
    use super::super::task::TaskState;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The reference: the running tasks sorted by the launch of their present attempts. Some attempts begin earlier than the one before: those that were
        /// speculative and become their tasks' present ones.
        #[test]
        fn running_tasks_come_oldest_first(
            steps in prop::collection::vec((0..30usize, 0..5u64, any::<bool>()), 0..300),
        ) {
            let mut tasks = vec![Task::new(0); 30];
            let (mut order, mut now) = (LaunchOrder::default(), 10);
            for (at, passed, replaces) in steps {
                now += passed;
                let task = &mut tasks[at];
                let runs = task.state.holds_slot();
                task.state = if runs && !replaces { TaskState::Done } else { TaskState::Running };
                if task.state.holds_slot() {
                    task.launched = Time(if runs { now - 10 } else { now });
                    task.number += 1;
                    order.add(at as u32, task);
                }
                let mut expected: Vec<u32> = (0..30).filter(|&at| tasks[at as usize].state.holds_slot()).collect();
                order.drop_ended(expected.len(), &tasks);
                let launched = |&task: &u32| tasks[task as usize].launched;
                let running: Vec<u32> = order.running(&tasks).collect();
                prop_assert!(running.is_sorted_by_key(launched));
                let rebuilt: Vec<u32> = LaunchOrder::of(&expected, &tasks).running(&tasks).collect();
                prop_assert!(rebuilt.is_sorted_by_key(launched));
                prop_assert!(order.0.len() <= 2 * expected.len() + ENDED_MIN);
                for mut found in [running, rebuilt] {
                    found.sort_unstable();
                    expected.sort_unstable();
                    prop_assert_eq!(&found, &expected);
                }
            }
        }
    }
}
