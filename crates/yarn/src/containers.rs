//! The containers of an application as attempts of the scheduler core, and the orders to the plug-in that follow from the core's actions.
//!
//! A container that is paused keeps its id while the core sees one attempt end and another start. In YARN's terms a pause is a *demotion*: the
//! container becomes opportunistic, its resources are free for others, and its NodeManager pauses it only while they are used.

use giveway_core::{Action, AttemptId, Kind, NodeId, Reason, Span, Start, Time, WHOLE_PPM, Work};

/// A demotion that the plug-in has not confirmed for this long is given up: the application master does not send heartbeats.
pub const PAUSE_TIMEOUT: Span = Span::from_secs(30);

/// A container that could not be paused so many times is not tried again: another one is paused instead.
pub const PAUSES_TRIED: u8 = 2;

/// Largest progress of a task that still runs.
pub const TASK_PROGRESS_PPM_MAX: u32 = WHOLE_PPM - WHOLE_PPM / 100;

/// A container of an application that the core knows as an attempt.
#[derive(Clone, Copy, Debug)]
pub struct Container {
    pub attempt: AttemptId,
    pub node: NodeId,
    pub state: ContainerState,
    /// What its request said; in one pool of slots the core does not know.
    pub kind: Kind,
    /// The container of an application master runs no task.
    pub is_master: bool,
    /// Progress of its task, if the plug-in reports it.
    pub progress_ppm: Option<u32>,
    /// How many times it was not paused when it should have been.
    pub failed_pauses: u8,
}

/// Where a container is between guaranteed and demoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerState {
    Running,
    /// Ordered to be demoted at this time.
    Pausing {
        since: Time,
    },
    /// Demoted; the core's attempt is paused.
    Paused,
    /// Ordered to be promoted; the core's attempt runs.
    Resuming,
}

/// What an action of the core means for a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Demote the container of this attempt.
    Pause(AttemptId),
    /// Promote the container of the paused attempt `from`, which is the attempt `to` from now on.
    Resume { from: AttemptId, to: AttemptId },
    /// Kill the container of this attempt.
    Kill(AttemptId),
}

impl Order {
    /// The order that follows from an action; none if nothing happens to a container.
    pub fn of(action: &Action) -> Option<Order> {
        match action {
            Action::Pause { attempt, .. } => Some(Order::Pause(*attempt)),
            Action::Launch { attempt, work: Work::Reduce { start: Start::Resumed { from } }, .. } => {
                Some(Order::Resume { from: *from, to: *attempt })
            }
            // The application master ends the containers of its own application.
            Action::Kill { reason: Reason::JobEnded, .. } => None,
            Action::Kill { attempt, .. } => Some(Order::Kill(*attempt)),
            _ => None,
        }
    }
}

/// Tasks of one kind of an application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskTally {
    /// Containers whose task is done.
    pub finished: u64,
    /// Containers that hold a task.
    pub running: u64,
    pub pending: u64,
}

impl TaskTally {
    fn total(self) -> u64 {
        self.finished + self.running + self.pending
    }

    /// Progress of each running task if all tasks together have done `done_ppm` of one task's work, up to [`TASK_PROGRESS_PPM_MAX`]; none if that is not positive.
    fn of_each(self, done_ppm: u64) -> Option<u32> {
        let whole = u64::from(WHOLE_PPM);
        let each = done_ppm.saturating_sub(self.finished * whole).checked_div(self.running)?;
        (each > 0).then(|| each.min(TASK_PROGRESS_PPM_MAX.into()) as u32)
    }
}

/// Progress of each running map and reduce, from the one value that an application reports.
///
/// MapReduce counts 5 % for the setup of a job, 45 % each for maps and reduces, and 5 % for its commit. So once all maps are done, the progress of
/// the reduces is known; until then, and for applications without reduces, the progress that exceeds the share of finished tasks is divided evenly.
pub fn task_progress(app_ppm: u32, [maps, reduces]: [TaskTally; 2]) -> [Option<u32>; 2] {
    let maps_done = maps.finished > 0 && maps.running + maps.pending == 0;
    if maps_done && reduces.total() > 0 {
        let reduce_ppm = u64::from(app_ppm).saturating_sub(500_000) * 100 / 45;
        return [None, reduces.of_each(of_reduce(reduce_ppm) * reduces.total())];
    }
    let all = TaskTally {
        finished: maps.finished + reduces.finished,
        running: maps.running + reduces.running,
        pending: maps.pending + reduces.pending,
    };
    let each = all.of_each(u64::from(app_ppm) * all.total());
    [each, each]
}

/// Progress of a task whose own progress MapReduce reports.
pub fn reported_progress(kind: Kind, reported_ppm: u32) -> u32 {
    let ppm = match kind {
        Kind::Map => reported_ppm.into(),
        Kind::Reduce => of_reduce(reported_ppm.into()),
    };
    ppm.min(TASK_PROGRESS_PPM_MAX.into()) as u32
}

/// Progress of a reduce, given that of MapReduce, for which it is at 67 % when it has fetched and merged its input and reduced nothing. Here it is then
/// at a third: guards of policies that spare nearly finished tasks would otherwise spare nearly every reduce.
fn of_reduce(mapreduce_ppm: u64) -> u64 {
    let merged_ppm = 2 * u64::from(WHOLE_PPM) / 3;
    mapreduce_ppm.min(merged_ppm) / 2 + 2 * mapreduce_ppm.saturating_sub(merged_ppm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_divided_among_running_tasks() {
        let tally = |finished, running, pending| TaskTally { finished, running, pending };
        // Half of four tasks: one is done, so the two that run are half done each.
        assert_eq!(task_progress(500_000, [tally(1, 2, 1), tally(0, 0, 0)]), [Some(500_000), Some(500_000)]);
        // All maps are done; the reduces have merged their input: 5 % + 45 % + 30 %.
        assert_eq!(task_progress(800_000, [tally(3, 0, 0), tally(0, 5, 0)])[1], Some(333_333));
        // One of two reduces is done, the other one has reduced half: 5 % + 45 % + (100 % + 83 %) / 2 * 45 %.
        assert_eq!(task_progress(912_500, [tally(3, 0, 0), tally(1, 1, 0)])[1].map(|ppm| ppm / 1_000), Some(666));
        assert_eq!(task_progress(1_000_000, [tally(1, 1, 0), tally(0, 0, 0)])[0], Some(990_000));
        assert_eq!(task_progress(100_000, [tally(0, 0, 0), tally(0, 0, 0)]), [None, None]);
        assert_eq!(task_progress(100_000, [tally(1, 0, 0), tally(0, 4, 0)]), [None, None]);
    }

    #[test]
    fn a_reduce_that_has_merged_its_input_is_at_a_third() {
        let reduce = [0, 666_666, 833_333, 2_000_000].map(|ppm| reported_progress(Kind::Reduce, ppm));
        assert_eq!(reduce, [0, 333_333, 666_667, 990_000]);
        assert_eq!([500_000, 1_000_000].map(|ppm| reported_progress(Kind::Map, ppm)), [500_000, 990_000]);
    }
}
