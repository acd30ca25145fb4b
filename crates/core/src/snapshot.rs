//! A snapshot: a cluster at one instant, as plain data.
//!
//! It has the state of the cluster, and what the policy has learned and computed ([`PolicyState`]). A scheduler that continues from it decides exactly as the
//! one that it was taken of.
//!
//! [`Cluster::snapshot`](crate::Cluster::snapshot) takes one, and [`Event::Restored`](crate::Event::Restored) continues from one. Snapshots are
//! stored in journals and event logs: the order of all fields is part of those formats.

use crate::ids::{JobId, PerKind, TaskId};
use crate::policy::PolicyState;
use crate::state::{JobKey, State};
use crate::timer::Timers;
use crate::units::Time;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// A cluster at one instant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Nodes, live jobs and their tasks.
    pub state: State,
    /// What the policy has learned and computed.
    pub policy: PolicyState,
    /// The jobs that wait for a node with their input, or that ran maps of them, and until when other nodes do not ask them.
    pub delayed_until: PerKind<Vec<(JobKey, Time)>>,
    /// Work of the jobs that ranked before each job when that was last computed, in seconds.
    pub work_ahead_s: PerKind<Vec<(JobKey, f64)>>,
    /// The timers that are set. None if estimates and all that follows from them are to be computed anew.
    pub timers: Option<TimersSnapshot>,
}

/// The timers that are set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimersSnapshot {
    /// When each expires.
    pub expiries: Timers,
    /// When the retry timer has to fire, and the tasks that may run again then.
    pub retries: Vec<(Time, Option<TaskId>)>,
}

impl Snapshot {
    /// The facts and what was learned, without what the policy computed and reserved: for a scheduler of another setup, which computes that anew.
    pub fn for_other_setup(mut self) -> Snapshot {
        self.state.forget_decisions();
        self.policy.groups = PerKind::default();
        Snapshot { state: self.state, policy: self.policy, ..Snapshot::default() }
    }

    /// The same for a backend that numbers jobs from zero: its live jobs are numbered in the order of their submission. Also returns the ids that they had.
    /// Ended jobs that are remembered get the highest numbers.
    pub fn numbered(mut self) -> (Snapshot, Vec<JobId>) {
        let jobs = self.state.jobs();
        let live: Vec<JobId> = jobs.by_submission().into_iter().map(|key| jobs.get(key).id()).collect();
        let mut numbers: FxHashMap<JobId, JobId> = live.iter().copied().zip((0..).map(JobId)).collect();
        let mut ended = (0..u32::MAX).rev().map(JobId);
        let mut number = |id: &mut JobId| {
            *id = *numbers.entry(*id).or_insert_with(|| ended.next().expect("fewer than four billion jobs"));
        };
        self.state.renumber(&mut number);
        self.policy.renumber(&mut number);
        let retries = self.timers.iter_mut().flat_map(|timers| &mut timers.retries);
        retries.filter_map(|(_, task)| task.as_mut()).for_each(|task| number(&mut task.job));
        (self, live)
    }

    /// The same for a backend that launches tasks itself: open jobs have the tasks that they run or request now, and end when these are done.
    pub fn with_known_tasks(mut self) -> Snapshot {
        self.state.close_task_lists();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, JobSpec, NodeSpec, Split};
    use crate::ids::{Kind, NodeId, RackId};
    use crate::policy::catalog;
    use crate::{Action, Scheduler, Setup, WHOLE_PPM};

    fn scheduler() -> Scheduler {
        Scheduler::new(Setup::new(catalog::by_name("giveway").unwrap())).unwrap()
    }

    fn handle(scheduler: &mut Scheduler, at_s: u64, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        scheduler.handle(Time(at_s * 1_000_000), &event, &mut actions);
        assert!(crate::refusal(&actions).is_none(), "{event:?}: {actions:?}");
        actions
    }

    fn job(id: u32, maps: usize) -> Box<JobSpec> {
        Box::new(JobSpec {
            id: JobId(id),
            name: format!("job {id}"),
            external_id: None,
            user: "user".into(),
            pool: "default".into(),
            priority: Default::default(),
            splits: vec![Split { bytes: 1 << 20, hosts: Default::default() }; maps].into(),
            reduces: 1,
            slowstart_ppm: 0,
            hint: None,
            estimate_bias_ppm: WHOLE_PPM,
        })
    }

    /// Two nodes, the jobs 5 and 9, and an open job 12 with a map that runs and two that it requests.
    fn busy() -> Scheduler {
        let mut scheduler = scheduler();
        for node in 0..2 {
            let spec = NodeSpec {
                name: format!("node {node}"),
                rack: RackId(0),
                map_slots: 2,
                reduce_slots: 1,
                speed_ppm: WHOLE_PPM,
                disk_bytes_per_s: 1 << 26,
                disk_bytes: 1 << 40,
            };
            handle(&mut scheduler, 0, Event::NodeJoined { node: NodeId(node), spec });
        }
        let open = JobSpec { splits: [].into(), reduces: 0, ..*job(12, 1) };
        handle(&mut scheduler, 1, Event::JobSubmitted(job(9, 3)));
        handle(&mut scheduler, 2, Event::JobSubmitted(job(5, 3)));
        handle(&mut scheduler, 3, Event::JobOpened(Box::new(open)));
        handle(&mut scheduler, 3, Event::SlotsRequested { job: JobId(12), maps: 3, reduces: 0 });
        handle(&mut scheduler, 3, Event::SlotGranted { job: JobId(12), kind: Kind::Map, node: NodeId(0) });
        handle(&mut scheduler, 3, Event::SlotsRequested { job: JobId(12), maps: 2, reduces: 0 });
        handle(&mut scheduler, 4, Event::SlotsOffered { node: NodeId(1), progress: Vec::new() });
        scheduler
    }

    #[test]
    fn live_jobs_are_numbered_in_the_order_of_their_submission() {
        let (snapshot, ids) = busy().snapshot().numbered();
        assert_eq!(ids, [9, 5, 12].map(JobId));
        let mut restored = scheduler();
        handle(&mut restored, 5, Event::Restored(Box::new(snapshot)));
        let mut running: Vec<JobId> = restored.running_jobs().collect();
        running.sort_unstable();
        assert_eq!(running, [0, 1, 2].map(JobId));
        let launched = handle(&mut restored, 6, Event::SlotsOffered { node: NodeId(0), progress: Vec::new() });
        let of_original = handle(&mut busy(), 6, Event::SlotsOffered { node: NodeId(0), progress: Vec::new() });
        assert_eq!(launched.len(), of_original.len());
    }

    #[test]
    fn an_open_job_has_the_tasks_that_it_runs_and_requests() {
        let snapshot = busy().snapshot().with_known_tasks();
        snapshot.state.check().unwrap();
        let open = snapshot.state.job(snapshot.state.find(JobId(12)).unwrap());
        assert!(!open.is_open() && open.total(Kind::Map) == 3 && open.left(Kind::Map) == 3);
        assert_eq!((open.counts(Kind::Map).pending, open.counts(Kind::Map).running.len()), (2, 1));
    }
}
