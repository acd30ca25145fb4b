//! Tables of what happened, with a row for each job, attempt or change of used slots: what commands write with `--jobs`, `--attempts` and `--slots`, and what
//! Python gets. Column names do not change; docs/rows.md describes them.

use crate::Observer;
use crate::metrics::JobMetrics;
use crate::workload::{RecordedRun, Workload};
use giveway_core::state::State;
use giveway_core::{
    Action, Change, End, Event, Kind, Lifecycle, Locality, NodeId, NodeSpec, PerKind, RunningAttempt, Start, Time, Work,
};
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// A table of columns of equal length.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The columns, from left to right.
    pub columns: Vec<Column>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// A value for each row.
    pub values: Values,
}

/// The values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Words of which many are equal.
    Text(Vec<Arc<str>>),
    /// Numbers and counts.
    Integer(Vec<u64>),
    /// Times and ratios; NaN where there is none.
    Real(Vec<f64>),
}

impl Table {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| match &column.values {
            Values::Text(values) => values.len(),
            Values::Integer(values) => values.len(),
            Values::Real(values) => values.len(),
        })
    }

    /// The values of the column of this name.
    pub fn column(&self, name: &str) -> Option<&Values> {
        self.columns.iter().find(|column| column.name == name).map(|column| &column.values)
    }
}

/// Defines a struct with a vector for each column, and its conversion to a [`Table`].
macro_rules! columns {
    ($(#[$doc:meta])* $table:ident { $($column:ident: $type:ident($value:ty)),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default)]
        pub struct $table {
            $($column: Vec<$value>,)*
        }

        impl $table {
            /// Adds the rows of another table.
            pub fn append(&mut self, mut other: $table) {
                $(self.$column.append(&mut other.$column);)*
            }
        }

        impl From<$table> for Table {
            fn from(table: $table) -> Table {
                Table {
                    columns: vec![$(Column { name: stringify!($column), values: Values::$type(table.$column) }),*],
                }
            }
        }
    };
}

columns! {
    /// The jobs of runs that succeeded, in the order of their submission.
    JobRows {
        policy: Text(Arc<str>),
        seed: Integer(u64),
        job: Integer(u64),
        name: Text(Arc<str>),
        user: Text(Arc<str>),
        pool: Text(Arc<str>),
        group: Text(Arc<str>),
        maps: Integer(u64),
        reduces: Integer(u64),
        submit_s: Real(f64),
        wait_s: Real(f64),
        execution_s: Real(f64),
        completion_s: Real(f64),
        slowdown: Real(f64),
        pauses: Integer(u64),
        kills: Integer(u64),
        early_ends: Integer(u64),
    }
}

impl JobRows {
    /// Adds the jobs of a run.
    pub fn add(&mut self, policy: &str, seed: u64, workload: &Workload, jobs: &[JobMetrics]) {
        let policy: Arc<str> = policy.into();
        let mut words = Words::default();
        let mut jobs: Vec<&JobMetrics> = jobs.iter().collect();
        jobs.sort_unstable_by_key(|job| job.job);
        for job in jobs {
            let plan = &workload.jobs[job.job.0 as usize];
            self.policy.push(Arc::clone(&policy));
            self.seed.push(seed);
            self.job.push(u64::from(job.job.0));
            self.name.push(words.get(&plan.name));
            self.user.push(words.get(&plan.user));
            self.pool.push(words.get(&plan.pool));
            self.group.push(words.get(workload.groups.get(usize::from(job.group)).map_or("", String::as_str)));
            self.maps.push(u64::from(plan.maps));
            self.reduces.push(u64::from(plan.reduces));
            self.submit_s.push(job.submit_s);
            self.wait_s.push(job.wait_s);
            self.execution_s.push(job.execution_s);
            self.completion_s.push(job.completion_s);
            self.slowdown.push(job.slowdown.unwrap_or(f64::NAN));
            self.pauses.push(u64::from(job.pauses));
            self.kills.push(u64::from(job.kills));
            self.early_ends.push(u64::from(job.early_ends));
        }
    }
}

/// Words that are stored once.
#[derive(Clone, Debug, Default)]
struct Words(FxHashSet<Arc<str>>);

impl Words {
    fn get(&mut self, word: &str) -> Arc<str> {
        if let Some(known) = self.0.get(word) {
            return Arc::clone(known);
        }
        let new: Arc<str> = word.into();
        self.0.insert(Arc::clone(&new));
        new
    }
}

columns! {
    /// The jobs of a workload before any run.
    PlanRows {
        job: Integer(u64),
        name: Text(Arc<str>),
        user: Text(Arc<str>),
        pool: Text(Arc<str>),
        group: Text(Arc<str>),
        submit_s: Real(f64),
        maps: Integer(u64),
        reduces: Integer(u64),
        map_input_bytes: Integer(u64),
        map_output_bytes: Integer(u64),
        map_s: Real(f64),
        reduce_s: Real(f64),
        recorded_completion_s: Real(f64),
        recorded_job: Integer(u64),
    }
}

impl PlanRows {
    /// The jobs of a record or of a workload.
    pub fn of(run: &RecordedRun) -> PlanRows {
        let mut rows = PlanRows::default();
        let mut words = Words::default();
        for (at, plan) in run.workload.jobs.iter().enumerate() {
            rows.job.push(u64::from(plan.id.0));
            rows.name.push(words.get(&plan.name));
            rows.user.push(words.get(&plan.user));
            rows.pool.push(words.get(&plan.pool));
            rows.group.push(words.get(run.workload.groups.get(usize::from(plan.group)).map_or("", String::as_str)));
            rows.submit_s.push(plan.submit.as_secs_f64());
            rows.maps.push(u64::from(plan.maps));
            rows.reduces.push(u64::from(plan.reduces));
            rows.map_input_bytes.push(plan.map_bytes);
            rows.map_output_bytes.push(plan.map_output_bytes);
            rows.map_s.push(plan.compute(Kind::Map).as_secs_f64());
            rows.reduce_s.push(plan.compute(Kind::Reduce).as_secs_f64());
            let recorded = run.jobs.get(at).and_then(|job| job.completion_s);
            rows.recorded_completion_s.push(recorded.unwrap_or(f64::NAN));
            let number = run.jobs.get(at).and_then(|job| job.number).unwrap_or(plan.id.0);
            rows.recorded_job.push(u64::from(number));
        }
        rows
    }
}

columns! {
    /// The attempts of runs that ended, in the order of their end.
    AttemptRows {
        policy: Text(Arc<str>),
        seed: Integer(u64),
        job: Integer(u64),
        kind: Text(Arc<str>),
        task: Integer(u64),
        attempt: Integer(u64),
        node: Text(Arc<str>),
        launch_s: Real(f64),
        end_s: Real(f64),
        start: Text(Arc<str>),
        end: Text(Arc<str>),
    }
}

columns! {
    /// The slots of runs: a row for each kind whenever their number or use changes.
    SlotRows {
        policy: Text(Arc<str>),
        seed: Integer(u64),
        time_s: Real(f64),
        kind: Text(Arc<str>),
        slots: Integer(u64),
        running: Integer(u64),
    }
}

/// Collects the attempts of a run, the use of its slots, or both.
#[derive(Clone, Debug, Default)]
pub struct RunRows {
    policy: Arc<str>,
    seed: u64,
    lifecycle: Lifecycle,
    words: Words,
    /// By node, its name, and its slots while it is up.
    nodes: Vec<(Arc<str>, PerKind<u32>)>,
    attempts: Option<AttemptRows>,
    slots: Option<SlotRows>,
    /// The present slots, and the running attempts.
    used: PerKind<[u32; 2]>,
    /// When they last changed, and what they were then.
    last: Option<(Time, PerKind<[u32; 2]>)>,
}

impl RunRows {
    /// Of a run under a policy with a seed.
    pub fn new(policy: &str, seed: u64, with_attempts: bool, with_slots: bool) -> RunRows {
        let attempts = with_attempts.then(AttemptRows::default);
        let slots = with_slots.then(SlotRows::default);
        RunRows { policy: policy.into(), seed, attempts, slots, ..RunRows::default() }
    }

    /// False if it collects nothing, so that it need not observe.
    pub fn is_wanted(&self) -> bool {
        self.attempts.is_some() || self.slots.is_some()
    }

    /// The attempts that have ended, and the use of slots.
    pub fn into_rows(mut self) -> (Option<AttemptRows>, Option<SlotRows>) {
        self.add_slots();
        (self.attempts, self.slots)
    }

    fn add_attempt(&mut self, attempt: &RunningAttempt, end: End, now: Time) {
        let task = attempt.id.task;
        let kind = self.words.get(kind_word(task.kind));
        let (start, end) = (self.words.get(start_word(attempt.work)), self.words.get(end_word(end)));
        let Some(rows) = &mut self.attempts else { return };
        rows.policy.push(Arc::clone(&self.policy));
        rows.seed.push(self.seed);
        rows.job.push(u64::from(task.job.0));
        rows.kind.push(kind);
        rows.task.push(u64::from(task.index));
        rows.attempt.push(u64::from(attempt.id.number));
        rows.node.push(self.nodes.get(attempt.node.0 as usize).map(|(name, _)| Arc::clone(name)).unwrap_or_default());
        rows.launch_s.push(attempt.launched.as_secs_f64());
        rows.end_s.push(now.as_secs_f64());
        rows.start.push(start);
        rows.end.push(end);
    }

    /// Adds rows for what changed at the last instant.
    fn add_slots(&mut self) {
        let Some((then, before)) = self.last else { return };
        for kind in Kind::BOTH.into_iter().filter(|&kind| before[kind] != self.used[kind]) {
            let word = self.words.get(kind_word(kind));
            let Some(rows) = &mut self.slots else { return };
            let [slots, running] = self.used[kind];
            rows.policy.push(Arc::clone(&self.policy));
            rows.seed.push(self.seed);
            rows.time_s.push(then.as_secs_f64());
            rows.kind.push(word);
            rows.slots.push(u64::from(slots));
            rows.running.push(u64::from(running));
        }
    }

    fn add_node(&mut self, node: NodeId, spec: &NodeSpec) {
        let at = node.0 as usize;
        if self.nodes.len() <= at {
            self.nodes.resize(at + 1, Default::default());
        }
        let slots = PerKind::new(u32::from(spec.map_slots), u32::from(spec.reduce_slots));
        self.nodes[at] = (self.words.get(&spec.name), slots);
        Kind::BOTH.into_iter().for_each(|kind| self.used[kind][0] += slots[kind]);
    }

    /// Goes on from a snapshot, with which the logs of some restarted clusters begin.
    fn restore(&mut self, state: &State) {
        self.nodes.clear();
        self.used = PerKind::default();
        for (id, node) in state.nodes().iter().filter(|(_, node)| node.is_up()) {
            self.add_node(id, node.spec());
            Kind::BOTH.into_iter().for_each(|kind| self.used[kind][1] += node.running(kind).len() as u32);
        }
    }

    fn follow(&mut self, change: Change<'_>, now: Time) {
        match change {
            Change::NodeJoined { node, spec } => self.add_node(node, spec),
            Change::SlotsSet { node, slots } => {
                let Some((_, known)) = self.nodes.get_mut(node.0 as usize) else { return };
                let had = std::mem::replace(known, slots.map(u32::from));
                Kind::BOTH.into_iter().for_each(|kind| {
                    self.used[kind][0] = self.used[kind][0] - had[kind] + u32::from(slots[kind]);
                });
            }
            Change::NodeLost { node } => {
                let Some((_, slots)) = self.nodes.get_mut(node.0 as usize) else { return };
                let lost = std::mem::take(slots);
                Kind::BOTH.into_iter().for_each(|kind| self.used[kind][0] -= lost[kind]);
            }
            Change::Launched { attempt, .. } => self.used[attempt.id.task.kind][1] += 1,
            Change::Ended { attempt, end } => {
                let running = &mut self.used[attempt.id.task.kind][1];
                *running = running.saturating_sub(1);
                self.add_attempt(&attempt, end, now);
            }
            _ => {}
        }
    }
}

impl Observer for RunRows {
    fn observe(&mut self, now: Time, event: &Event, actions: &[Action]) {
        if self.last.is_none_or(|(then, _)| then < now) {
            self.add_slots();
            self.last = Some((now, self.used));
        }
        if let Event::Restored(snapshot) = event {
            self.restore(&snapshot.state);
        }
        let mut lifecycle = std::mem::take(&mut self.lifecycle);
        lifecycle.observe(event, actions, now, &mut |change| self.follow(change, now));
        self.lifecycle = lifecycle;
    }
}

fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Map => "map",
        Kind::Reduce => "reduce",
    }
}

/// How far a map is from its input, or where a reduce starts.
fn start_word(work: Work) -> &'static str {
    match work {
        Work::Map { locality: Locality::Node, .. } => "node-local",
        Work::Map { locality: Locality::Rack, .. } => "rack-local",
        Work::Map { locality: Locality::Remote, .. } => "remote",
        Work::Reduce { start: Start::Fresh } => "fresh",
        Work::Reduce { start: Start::Resumed { .. } } => "resumed",
        Work::Reduce { start: Start::Migrated { .. } } => "migrated",
    }
}

fn end_word(end: End) -> &'static str {
    match end {
        End::Finished { .. } => "finished",
        End::Paused => "paused",
        End::EndedEarly { .. } => "ended-early",
        End::Killed { preempted: true } => "preempted",
        End::Killed { preempted: false } => "killed",
        End::Failed => "failed",
        End::NodeLost => "node-lost",
        End::Resynced => "resynced",
    }
}
