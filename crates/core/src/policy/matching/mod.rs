//! Matching: jobs and nodes that differ are matched by classes (COSHH, sections 2.2, 3 and 4).
//!
//! The execution time of a job on each type of node is predicted ([`predict`]). There are two classifications ([`kmeans`]): of the jobs
//! whose users have a min share, and of all jobs. For each, a linear program suggests classes to each type of node ([`lp`]). A job that
//! fits no class triggers a new classification; any other job costs a comparison with each class. Routing is an order of groups like any
//! other (`groups/users.rs`).

pub mod kmeans;
pub mod lp;
mod memory;
pub mod predict;
mod replicas;
mod routing;

pub use memory::MatcherMemory;
pub use replicas::choose_hosts;
pub use routing::Routing;

use super::Policy;
use crate::event::NodeSpec;
use crate::ids::{JobId, Kind, NodeId, PerKind};
use crate::state::{Job, JobKey, State};
use crate::tenants::Tenants;
use crate::units::{Span, Time};
use predict::{Predictor, TaskTimes};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Matching of job classes to node types.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Matching {
    /// What a node does when no job of its suggested classes needs a slot.
    #[serde(default)]
    pub fallback: Fallback,
    /// A job fits a class if its rates differ from the class's by at most this factor.
    #[serde(default = "default_max_rate_ratio")]
    pub max_rate_ratio: f64,
    /// The predictor's table is computed again each time this many jobs have finished.
    #[serde(default = "default_history_interval_jobs")]
    pub history_interval_jobs: u32,
    /// For experiments (COSHH, section 6.3): the predicted times of a job are wrong by up to this fraction (0 to below 1), differently on every
    /// type of node. The errors follow from the job's own bias, so they depend on the seed of the backend that drew it.
    #[serde(default, skip_serializing_if = "is_exact")]
    pub node_type_error: f64,
    /// Whether to request replicas on nodes that are suggested for the first job that uses them.
    #[serde(default = "default_place_replicas")]
    pub place_replicas: bool,
    /// Only on a cluster that grants slots itself, with the fallback `backfill`: a job that got no slot on its suggested nodes for this long may use
    /// any node, although jobs that are suggested for it need slots.
    #[serde(default = "default_max_wait", skip_serializing_if = "is_default_max_wait")]
    pub max_wait: Span,
}

/// What a node does when no job of its suggested classes needs a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fallback {
    /// It takes the next job.
    #[default]
    Backfill,
    /// It stays idle.
    Strict,
}

fn default_max_rate_ratio() -> f64 {
    2.0
}

fn default_history_interval_jobs() -> u32 {
    32
}

fn default_place_replicas() -> bool {
    true
}

fn is_exact(error: &f64) -> bool {
    *error == 0.0
}

/// The default of [`Matching::max_wait`].
pub const DEFAULT_MAX_WAIT: Span = Span::from_secs(10);

fn default_max_wait() -> Span {
    DEFAULT_MAX_WAIT
}

fn is_default_max_wait(wait: &Span) -> bool {
    *wait == DEFAULT_MAX_WAIT
}

impl Default for Matching {
    fn default() -> Matching {
        Matching {
            fallback: Fallback::Backfill,
            max_rate_ratio: default_max_rate_ratio(),
            history_interval_jobs: default_history_interval_jobs(),
            node_type_error: 0.0,
            place_replicas: default_place_replicas(),
            max_wait: default_max_wait(),
        }
    }
}

impl Matching {
    /// True if a node stays idle rather than take a job that is not suggested for it.
    pub fn is_strict(&self) -> bool {
        self.fallback == Fallback::Strict
    }

    /// Checks its numbers and that the policy ranks users; otherwise returns a key and what to change.
    pub(super) fn check(&self, policy: &Policy) -> Result<(), (&'static str, String)> {
        if !(self.max_rate_ratio > 1.0 && self.max_rate_ratio.is_finite()) {
            let problem = "must be over 1; 2 lets rates differ by a factor of two";
            return Err(("matching.max_rate_ratio", problem.into()));
        }
        if !(0.0..1.0).contains(&self.node_type_error) {
            return Err(("matching.node_type_error", "must be at least 0 and below 1".into()));
        }
        if self.history_interval_jobs == 0 {
            return Err(("matching.history_interval_jobs", "must be at least 1".into()));
        }
        if self.is_strict() && Kind::BOTH.iter().any(|&kind| policy.slots(kind).placement.refuse_slow.is_some()) {
            let problem =
                "\"strict\" leaves a job no node if it also refuses the slow ones; remove placement.refuse_slow";
            return Err(("matching.fallback", problem.into()));
        }
        if !Kind::BOTH.iter().all(|&kind| policy.slots(kind).groups.is_by_user()) {
            let problem = "matches the jobs of users; set groups = \"users\" for map and reduce";
            return Err(("matching", problem.into()));
        }
        Ok(())
    }
}

/// A job's class in each of the two classifications: of jobs whose users have a min share, and of all jobs.
pub type Classes = [Option<u16>; 2];

/// A type of node. Nodes with the same slots, speed and disk share one column of the linear program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeType {
    slots: PerKind<u16>,
    speed: f64,
    disk_bytes_per_s: f64,
    disk_bytes: u64,
    /// All nodes of this type that ever joined.
    pub nodes: Vec<NodeId>,
}

/// A class of jobs with about the same rate on every type of node and about the same arrival rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Class {
    centre: Vec<f64>,
    radius: f64,
    arrivals_per_s: f64,
}

/// Number of recent jobs that are classified.
const CLASSIFIED_JOBS_MAX: usize = 512;

/// What classification reads of a job. It is kept after the job has ended: a class outlives its jobs, or the next job would fit none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct ClassifiedJob {
    job: JobId,
    user: u32,
    tasks: PerKind<u32>,
    times: TaskTimes,
    /// Its bias without [`Matching::node_type_error`], which replaces it.
    bias: f64,
}

/// The predictor, the classes and the suggestions. Without rules nothing is matched: no job has a class, and no node is told apart.
#[derive(Debug)]
pub struct Matcher {
    rules: Option<Matching>,
    predictor: Predictor,
    node_types: Vec<NodeType>,
    /// The type of each node that has joined.
    type_of: Vec<u16>,
    users: Vec<UserRights>,
    /// Number of declared users, for each classification.
    declared_users: [usize; 2],
    /// The most recent jobs, oldest first.
    recent: VecDeque<ClassifiedJob>,
    /// Number of jobs submitted by each user.
    arrivals: Vec<u32>,
    /// When the first job was submitted.
    first_arrival: Option<Time>,
    classes: [Vec<Class>; 2],
    /// For each classification and type of node: whether each class is suggested.
    suggested: [Vec<Vec<bool>>; 2],
    classifications: u32,
}

/// What a user is entitled to.
#[derive(Clone, Copy, Debug)]
pub struct UserRights {
    /// Share in proportion to other users.
    pub weight: f64,
    /// Guaranteed slots.
    pub min_share: u32,
}

impl UserRights {
    /// Those of a user that is not declared.
    pub const UNDECLARED: UserRights = UserRights { weight: 1.0, min_share: 0 };

    /// Those of a user by name.
    pub fn of(user: &str, tenants: &Tenants) -> UserRights {
        let declared = tenants.users.iter().find(|declared| declared.name == user);
        declared.map_or(UserRights::UNDECLARED, |user| UserRights { weight: user.weight, min_share: user.min_share })
    }
}

impl Matcher {
    /// A matcher without nodes, jobs and classes.
    pub fn new(rules: Option<Matching>, tenants: &Tenants) -> Matcher {
        let with_min_share = tenants.users.iter().filter(|user| user.min_share > 0).count();
        Matcher {
            declared_users: [with_min_share, tenants.users.len()],
            rules,
            predictor: Predictor::new(rules.map_or(1, |rules| rules.history_interval_jobs)),
            node_types: Vec::new(),
            type_of: Vec::new(),
            users: Vec::new(),
            recent: VecDeque::new(),
            arrivals: Vec::new(),
            first_arrival: None,
            classes: Default::default(),
            suggested: Default::default(),
            classifications: 0,
        }
    }

    /// True if jobs are matched to nodes.
    pub fn is_used(&self) -> bool {
        self.rules.is_some()
    }

    /// True if a node stays idle rather than take a job that is not suggested for it.
    pub fn is_strict(&self) -> bool {
        self.rules.is_some_and(|rules| rules.is_strict())
    }

    /// The classes of a job, if jobs have some.
    pub fn classes_of(&self, job: &Job) -> Option<Classes> {
        self.is_used().then(|| job.classes())
    }

    /// How often classes and suggestions were computed.
    pub fn classifications(&self) -> u32 {
        self.classifications
    }

    /// All types of node.
    pub fn node_types(&self) -> &[NodeType] {
        &self.node_types
    }

    /// The index of a node's type; zero for a node that has not joined.
    pub fn type_of(&self, node: NodeId) -> u16 {
        self.type_of.get(node.0 as usize).copied().unwrap_or(0)
    }

    /// A node joined, for the first time or again.
    pub fn node_joined(&mut self, node: NodeId, spec: &NodeSpec) {
        if !self.is_used() {
            return;
        }
        let node_type = NodeType {
            slots: PerKind::new(spec.map_slots, spec.reduce_slots),
            speed: f64::from(spec.speed_ppm) / 1e6,
            disk_bytes_per_s: spec.disk_bytes_per_s as f64,
            disk_bytes: spec.disk_bytes,
            nodes: Vec::new(),
        };
        let same = |other: &NodeType| NodeType { nodes: Vec::new(), ..other.clone() } == node_type;
        let at = self.node_types.iter().position(same).unwrap_or_else(|| {
            self.node_types.push(node_type);
            self.node_types.len() - 1
        });
        match self.type_of.get_mut(node.0 as usize) {
            Some(before) => {
                // It may come back as another type of node than it was.
                self.node_types[*before as usize].nodes.retain(|&other| other != node);
                *before = at as u16;
            }
            None => self.type_of.push(at as u16),
        }
        self.node_types[at].nodes.push(node);
    }

    /// Solves both linear programs again after nodes joined, were lost, excluded or taken back (section 4: decisions follow any variation in the resources). A new
    /// type of node changes the classes too: then the new classes of all live jobs are returned.
    pub fn nodes_changed(&mut self, state: &State, now: Time) -> Option<Vec<(JobKey, Classes)>> {
        let [_, all_jobs] = &self.classes;
        let is_new_type = all_jobs.first()?.centre.len() != self.features_count();
        if is_new_type {
            return Some(self.classify_all(state, now));
        }
        self.suggested = [self.suggest(0, state), self.suggest(1, state)];
        None
    }

    /// Classifies a job that was just submitted. If it fits no class, all jobs are classified again. Returns the new classes, and whether
    /// they are those of all live jobs.
    pub fn job_submitted(
        &mut self,
        key: JobKey,
        rights: UserRights,
        state: &State,
        now: Time,
    ) -> (Vec<(JobKey, Classes)>, bool) {
        if !self.is_used() {
            return (Vec::new(), false);
        }
        let user = state.job(key).user() as usize;
        if self.arrivals.len() <= user {
            self.arrivals.resize(user + 1, 0);
            self.users.resize(user + 1, UserRights::UNDECLARED);
        }
        self.users[user] = rights;
        self.first_arrival.get_or_insert(now);
        self.arrivals[user] = self.arrivals[user].saturating_add(1);
        let job = self.describe_job(state.job(key));
        if job.tasks.iter().all(|&tasks| tasks == 0) {
            // An open job that has requested nothing yet: its rate is not known.
            return (vec![(key, [None, None])], false);
        }
        self.remember(job);
        self.classify(key, &job, state, now)
    }

    /// Classifies an open job again if it has at least twice as many tasks of a kind as when it was last classified. Returns the same as
    /// [`job_submitted`](Matcher::job_submitted); none if its classes stay.
    pub fn job_grew(&mut self, key: JobKey, state: &State, now: Time) -> Option<(Vec<(JobKey, Classes)>, bool)> {
        self.rules?;
        let job = self.describe_job(state.job(key));
        let known = self.recent.iter().rposition(|recent| recent.job == job.job);
        let before = known.map_or(PerKind::default(), |at| self.recent[at].tasks);
        let grew = |kind: &Kind| job.tasks[*kind] > 0 && job.tasks[*kind] >= 2 * before[*kind];
        if !Kind::BOTH.iter().any(grew) {
            return None;
        }
        match known {
            Some(at) => self.recent[at] = job,
            None => self.remember(job),
        }
        Some(self.classify(key, &job, state, now))
    }

    fn remember(&mut self, job: ClassifiedJob) {
        if self.recent.len() == CLASSIFIED_JOBS_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(job);
    }

    fn classify(
        &mut self,
        key: JobKey,
        job: &ClassifiedJob,
        state: &State,
        now: Time,
    ) -> (Vec<(JobKey, Classes)>, bool) {
        let rights = self.users[job.user as usize];
        let features = self.features(job, now);
        let primary = self.fitting_class(0, &features).filter(|_| rights.min_share > 0);
        let secondary = self.fitting_class(1, &features);
        if secondary.is_some() && (primary.is_some() || rights.min_share == 0) {
            (vec![(key, [primary, secondary])], false)
        } else {
            (self.classify_all(state, now), true)
        }
    }

    /// Adds the task times of a finished job to the predictor's history.
    pub fn job_finished(&mut self, job: &Job) {
        if self.is_used() {
            self.predictor.learn(job);
        }
    }

    /// True if a class is suggested for a type of node. Without suggestions every class is.
    pub fn suggests(&self, classification: usize, node_type: u16, class: Option<u16>) -> bool {
        let Some(row) = self.suggested[classification].get(node_type as usize) else { return true };
        class.and_then(|class| row.get(class as usize).copied()).unwrap_or(classification == 1)
    }

    /// True if a type of node is suggested for a job, or the job has no class yet.
    pub fn suggests_for(&self, job: &Job, node_type: u16) -> bool {
        let classes = job.classes();
        let suggested = |c: usize| classes[c].is_some() && self.suggests(c, node_type, classes[c]);
        classes[1].is_none() || (0..2).any(suggested)
    }

    /// True unless a node stays idle rather than run a job, whatever the job's user has.
    pub fn may_run(&self, job: &Job, node: NodeId) -> bool {
        let class = job.classes()[1];
        !self.is_strict() || class.is_none() || self.suggests(1, self.type_of(node), class)
    }

    /// The nodes that should hold replicas of a job's input: those whose disk can hold a block and for whose type a class of the job is suggested. None
    /// if the rules leave the input where it is, or if these are all nodes.
    pub fn replica_nodes(&self, job: &Job, state: &State) -> Vec<NodeId> {
        let mut nodes = Vec::new();
        if !self.rules.is_some_and(|rules| rules.place_replicas) {
            return nodes;
        }
        let block_bytes = job.splits().iter().map(|split| split.bytes).max().unwrap_or(0);
        for (index, node_type) in self.node_types.iter().enumerate() {
            let classes = job.classes();
            let suits = (0..2).any(|c| classes[c].is_some() && self.suggests(c, index as u16, classes[c]));
            if suits && node_type.disk_bytes >= block_bytes {
                nodes.extend(node_type.nodes.iter().filter(|&&node| state.nodes().up(node).is_some()));
            }
        }
        if nodes.len() as u32 == state.nodes().up_count() {
            nodes.clear();
        }
        nodes
    }

    fn node_type_error(&self) -> f64 {
        self.rules.map_or(0.0, |rules| rules.node_type_error)
    }

    /// The nearest class of a job, if it is near enough.
    fn fitting_class(&self, classification: usize, features: &[f64]) -> Option<u16> {
        let (class, distance) = nearest(&self.classes[classification], features)?;
        let reach = self.rules.unwrap_or_default().max_rate_ratio.ln().max(self.classes[classification][class].radius);
        (distance <= reach).then_some(class as u16)
    }

    fn describe_job(&self, job: &Job) -> ClassifiedJob {
        let tasks = PerKind::from_fn(|kind| job.total(kind));
        let bias = job.estimate_bias();
        // An error for each type of node replaces the one for all of them.
        let common = if self.node_type_error() > 0.0 { 1.0 } else { bias };
        ClassifiedJob { job: job.id(), user: job.user(), tasks, times: self.predictor.predict(job, common), bias }
    }

    /// Priority, execution rate on each type of node, and arrival rate (section 3.1), all as logarithms so that a factor is a distance.
    fn features(&self, job: &ClassifiedJob, now: Time) -> Vec<f64> {
        let error = |node_type: usize| type_error(self.node_type_error(), job, node_type);
        let rates = self.node_types.iter().enumerate().map(|(index, node_type)| rate(job, node_type) / error(index));
        let mut features: Vec<f64> = rates.map(f64::ln).collect();
        features.push(self.users[job.user as usize].weight.ln());
        features.push(self.arrival_rate(job.user as usize, now).ln());
        features
    }

    fn features_count(&self) -> usize {
        self.node_types.len() + 2
    }

    /// Mean arrivals of a user's jobs per second since the first job of any user. Counted from the user's own first job, a user with one job
    /// would appear to submit one a minute, and the linear program would suggest nearly every node to it.
    fn arrival_rate(&self, user: usize, now: Time) -> f64 {
        let observed_s = self.first_arrival.map_or(0.0, |first| now.since(first).as_secs_f64());
        f64::from(self.arrivals[user]) / observed_s.max(60.0)
    }

    /// Algorithm 1, else branch: classifies all recent jobs and solves both linear programs. Returns the classes of all live jobs.
    fn classify_all(&mut self, state: &State, now: Time) -> Vec<(JobKey, Classes)> {
        self.classifications += 1;
        for classification in 0..2 {
            let members: Vec<ClassifiedJob> =
                self.recent.iter().filter(|job| self.belongs(classification, job.user)).copied().collect();
            let points: Vec<Vec<f64>> = members.iter().map(|job| self.features(job, now)).collect();
            let mut users: Vec<u32> = members.iter().map(|job| job.user).collect();
            users.sort_unstable();
            users.dedup();
            // Section 3.1: k is the number of users, also of those who have not submitted a job yet.
            let clusters = kmeans::kmeans(&points, users.len().max(self.declared_users[classification]));
            self.classes[classification] = self.describe(&clusters, &points, &members, now);
            self.suggested[classification] = self.suggest(classification, state);
        }
        let classes_of = |(key, job): (JobKey, &Job)| {
            if Kind::BOTH.iter().all(|&kind| job.total(kind) == 0) {
                return (key, [None, None]);
            }
            let features = self.features(&self.describe_job(job), now);
            let class = |c: usize| nearest(&self.classes[c], &features).map(|(class, _)| class as u16);
            (key, [self.belongs(0, job.user()).then(|| class(0)).flatten(), class(1)])
        };
        state.jobs().iter().map(classes_of).collect()
    }

    fn belongs(&self, classification: usize, user: u32) -> bool {
        classification == 1 || self.users[user as usize].min_share > 0
    }

    fn describe(
        &self,
        clusters: &kmeans::Clusters,
        points: &[Vec<f64>],
        members: &[ClassifiedJob],
        now: Time,
    ) -> Vec<Class> {
        let mut classes: Vec<Class> = clusters
            .centroids
            .iter()
            .map(|centre| Class { centre: centre.clone(), radius: 0.0, arrivals_per_s: 0.0 })
            .collect();
        let mut jobs_of_user = vec![0.0; self.arrivals.len()];
        members.iter().for_each(|job| jobs_of_user[job.user as usize] += 1.0);
        for ((point, &class), job) in points.iter().zip(&clusters.assignment).zip(members) {
            let user = job.user as usize;
            let class = &mut classes[class];
            class.radius = class.radius.max(distance(&class.centre, point));
            class.arrivals_per_s += self.arrival_rate(user, now) / jobs_of_user[user];
        }
        classes
    }

    /// Section 3.2: solves the linear program of one classification. In the paper every node has slots of both kinds. Here, if no type
    /// suggested for a class has slots of a kind, all types with such slots are suggested, or its jobs would not end.
    fn suggest(&self, classification: usize, state: &State) -> Vec<Vec<bool>> {
        let classes = &self.classes[classification];
        let alpha: Vec<f64> = classes.iter().map(|class| class.arrivals_per_s.max(1e-9)).collect();
        let mu: Vec<Vec<f64>> =
            classes.iter().map(|class| (0..self.node_types.len()).map(|j| class.centre[j].exp()).collect()).collect();
        let usable = |of: &NodeType| of.nodes.iter().filter(|&&node| state.nodes().is_usable(node)).count();
        let counts: Vec<f64> = self.node_types.iter().map(|of| usable(of) as f64).collect();
        let Some(allocation) = lp::solve(&lp::Problem { alpha: &alpha, mu: &mu, counts: &counts }) else {
            return Vec::new();
        };
        let mut suggested: Vec<Vec<bool>> = (0..self.node_types.len())
            .map(|j| (0..classes.len()).map(|i| allocation.delta[i][j] > lp::DELTA_ZERO).collect())
            .collect();
        for kind in Kind::BOTH {
            let has_slots = |j: usize| counts[j] > 0.0 && self.node_types[j].slots[kind] > 0;
            let with_slots: Vec<usize> = (0..self.node_types.len()).filter(|&j| has_slots(j)).collect();
            let is_unserved = |class: &usize| !with_slots.iter().any(|&j| suggested[j][*class]);
            let unserved: Vec<usize> = (0..classes.len()).filter(is_unserved).collect();
            for &j in &with_slots {
                unserved.iter().for_each(|&class| suggested[j][class] = true);
            }
        }
        suggested
    }
}

/// Jobs per second that a node of a type executes alone: the inverse of the mean execution time (section 2.1).
fn rate(job: &ClassifiedJob, node_type: &NodeType) -> f64 {
    let times = job.times;
    let per_map_s = times.map_s / node_type.speed + times.map_bytes / node_type.disk_bytes_per_s;
    let per_reduce_s = times.reduce_s / node_type.speed;
    let phase_s = |kind: Kind, per_task_s: f64| {
        let slots = f64::from(node_type.slots[kind]);
        // A node without slots of a kind cannot run such tasks: that counts as a very long time.
        f64::from(job.tasks[kind]) * per_task_s / if slots > 0.0 { slots } else { 1e-3 }
    };
    1.0 / (phase_s(Kind::Map, per_map_s) + phase_s(Kind::Reduce, per_reduce_s)).max(1e-6)
}

/// The factor by which the predicted time of a job on a type of node is wrong: uniform from 1 - `error` to 1 + `error`.
fn type_error(error: f64, job: &ClassifiedJob, node_type: usize) -> f64 {
    if error == 0.0 {
        return 1.0;
    }
    // SplitMix64 of what tells the pair apart; the bias differs between seeds.
    let key = job.bias.to_bits() ^ (u64::from(job.job.0) << 32) ^ (node_type as u64 + 1);
    let mut bits = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let unit = ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64;
    1.0 + error * (2.0 * unit - 1.0)
}

fn nearest(classes: &[Class], features: &[f64]) -> Option<(usize, f64)> {
    let distances = classes.iter().enumerate().map(|(i, class)| (i, distance(&class.centre, features)));
    distances.min_by(|a, b| a.1.total_cmp(&b.1))
}

/// The largest factor by which two jobs differ in anything, as a logarithm.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    if a.len() != b.len() {
        // A node of a new type has joined since the class was computed.
        return f64::INFINITY;
    }
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_differ_between_node_types_and_stay_in_range() {
        let job = |number: u32| ClassifiedJob {
            job: JobId(number),
            user: 0,
            tasks: PerKind::default(),
            times: TaskTimes { map_s: 1.0, reduce_s: 1.0, map_bytes: 0.0 },
            bias: 0.9,
        };
        let errors: Vec<f64> = (0..200).map(|number| type_error(0.4, &job(number / 4), number as usize % 4)).collect();
        assert!(errors.iter().all(|error| (0.6..=1.4).contains(error)), "{errors:?}");
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        assert!((mean - 1.0).abs() < 0.05, "{mean}");
        assert!(errors.chunks(4).all(|types| types[0] != types[1] && types[1] != types[2] && types[2] != types[3]));
        assert_eq!(type_error(0.0, &job(1), 1), 1.0);
    }
}
