//! COSHH: jobs and machines that differ are matched (sections 2.2, 3 and 4 of the paper).
//!
//! A job's time on each type of node is predicted ([`predict`]); jobs are put into classes twice, once those whose users have a min share and
//! once all ([`kmeans`]); a linear program suggests classes to each type of node ([`lp`]). A job that fits no class makes all of this
//! anew; any other job costs a look at the class list. Routing itself is an order like any other (see `order.rs`).

pub mod kmeans;
pub mod lp;
pub mod predict;

use super::Matching;
use crate::event::NodeSpec;
use crate::ids::{Kind, NodeId};
use crate::state::{Job, JobIx, State};
use crate::units::Time;
use predict::{Predictor, TaskTimes};
use std::collections::VecDeque;

/// A type of node: nodes with the same slots, speed and disk share one column of the linear program.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    slots: [u16; 2],
    speed: f64,
    disk_bytes_per_s: f64,
    disk_bytes: u64,
    /// Nodes of this type that are up.
    pub up: u32,
    /// All nodes of this type that ever joined.
    pub nodes: Vec<NodeId>,
}

/// A class of jobs that take about the same time on every type of node and come about as often.
#[derive(Clone, Debug)]
struct Class {
    centre: Vec<f64>,
    radius: f64,
    arrivals_per_s: f64,
}

/// Jobs that are remembered for classification; older ones are forgotten.
const REMEMBERED: usize = 512;

/// What classification remembers of a job, also when it is over: classes outlive their jobs, or each next one would need them anew.
#[derive(Clone, Copy, Debug)]
struct Seen {
    user: u32,
    tasks: [u32; 2],
    times: TaskTimes,
}

/// Predictor, classes and suggestions.
#[derive(Debug)]
pub struct Matcher {
    rules: Matching,
    predictor: Predictor,
    profiles: Vec<Profile>,
    users: Vec<UserRights>,
    /// The last jobs that came.
    seen: VecDeque<Seen>,
    /// Jobs of each user so far.
    arrivals: Vec<u32>,
    /// When the first job of all came.
    first_arrival: Option<Time>,
    classes: [Vec<Class>; 2],
    /// For each classification and type of node, which classes it is suggested.
    suggested: [Vec<Vec<bool>>; 2],
    /// How often classes and suggestions were made anew.
    pub solved: u32,
}

/// What a user is entitled to.
#[derive(Clone, Copy, Debug)]
pub struct UserRights {
    /// Importance beside other users.
    pub weight: f64,
    /// Slots guaranteed.
    pub min_share: u32,
}

impl Matcher {
    /// A matcher that has seen nothing yet.
    pub fn new(rules: Matching) -> Matcher {
        Matcher {
            rules,
            predictor: Predictor::new(rules.history_interval_jobs),
            profiles: Vec::new(),
            users: Vec::new(),
            seen: VecDeque::new(),
            arrivals: Vec::new(),
            first_arrival: None,
            classes: Default::default(),
            suggested: Default::default(),
            solved: 0,
        }
    }

    /// The rules it works by.
    pub fn rules(&self) -> Matching {
        self.rules
    }

    /// All types of node.
    pub fn profiles(&self) -> &[Profile] {
        &self.profiles
    }

    /// A node came up, for the first time or again; returns its type.
    pub fn node_up(&mut self, node: NodeId, spec: &NodeSpec, is_back: bool) -> u16 {
        let profile = Profile {
            slots: [spec.map_slots, spec.reduce_slots],
            speed: f64::from(spec.speed_ppm) / 1e6,
            disk_bytes_per_s: spec.disk_bytes_per_s as f64,
            disk_bytes: spec.disk_bytes,
            up: 0,
            nodes: Vec::new(),
        };
        let same = |other: &Profile| Profile { up: 0, nodes: Vec::new(), ..other.clone() } == profile;
        let at = self.profiles.iter().position(same).unwrap_or_else(|| {
            self.profiles.push(profile);
            self.profiles.len() - 1
        });
        self.profiles[at].up += 1;
        if is_back {
            // It may come back as another type of node than it was.
            self.profiles.iter_mut().for_each(|profile| profile.nodes.retain(|&other| other != node));
        }
        self.profiles[at].nodes.push(node);
        at as u16
    }

    /// A node went down.
    pub fn node_down(&mut self, profile: u16) {
        self.profiles[profile as usize].up -= 1;
    }

    /// Nodes came or went: solves both linear programs again, and says whether a new type of node made the classes change too (section 4:
    /// decisions follow any variation in the resources).
    pub fn nodes_changed(&mut self, state: &mut State, now: Time) -> bool {
        let [_, all_jobs] = &self.classes;
        let Some(class) = all_jobs.first() else { return false };
        let new_type = class.centre.len() != self.features_count();
        if new_type {
            self.make_anew(state, now);
        } else {
            self.suggested = [self.suggest(0), self.suggest(1)];
        }
        new_type
    }

    /// A job arrived: notes it, finds its classes, and says whether all classes were made anew (then every job's may have changed).
    pub fn job_arrived(&mut self, jx: JobIx, rights: UserRights, state: &mut State, now: Time) -> bool {
        let user = state.job(jx).user as usize;
        if self.arrivals.len() <= user {
            self.arrivals.resize(user + 1, 0);
            self.users.resize(user + 1, UserRights { weight: 1.0, min_share: 0 });
        }
        self.users[user] = rights;
        self.first_arrival.get_or_insert(now);
        self.arrivals[user] += 1;
        let job = self.seen(state.job(jx));
        if self.seen.len() == REMEMBERED {
            self.seen.pop_front();
        }
        self.seen.push_back(job);
        let features = self.features(&job, now);
        let primary = self.fitting(0, &features).filter(|_| rights.min_share > 0);
        let secondary = self.fitting(1, &features);
        state.job_mut(jx).classes = [primary, secondary];
        let fits = secondary.is_some() && (primary.is_some() || rights.min_share == 0);
        if !fits {
            self.make_anew(state, now);
        }
        !fits
    }

    /// A job finished: its task times go into the history.
    pub fn job_finished(&mut self, job: &Job) {
        self.predictor.learn(job);
    }

    /// Whether nodes of a type are suggested a class. With no suggestions yet, everything is.
    pub fn suggests(&self, classification: usize, profile: u16, class: Option<u16>) -> bool {
        let Some(row) = self.suggested[classification].get(profile as usize) else { return true };
        class.and_then(|class| row.get(class as usize).copied()).unwrap_or(classification == 1)
    }

    /// Nodes whose disk can hold a block and whose type is suggested the classes of this job.
    pub fn suggested_nodes(&self, job: &Job, block_bytes: u64, state: &State) -> Vec<NodeId> {
        let mut nodes = Vec::new();
        for (index, profile) in self.profiles.iter().enumerate() {
            let suits = (0..2).any(|c| job.classes[c].is_some() && self.suggests(c, index as u16, job.classes[c]));
            if suits && profile.disk_bytes >= block_bytes {
                nodes.extend(profile.nodes.iter().filter(|&&node| state.up(node).is_some()));
            }
        }
        nodes
    }

    /// The class a job fits into: the nearest one, if it is near enough.
    fn fitting(&self, classification: usize, features: &[f64]) -> Option<u16> {
        let (class, distance) = nearest(&self.classes[classification], features)?;
        let reach = self.rules.fit.ln().max(self.classes[classification][class].radius);
        (distance <= reach).then_some(class as u16)
    }

    fn seen(&self, job: &Job) -> Seen {
        let tasks = Kind::BOTH.map(|kind| job.total(kind));
        Seen { user: job.user, tasks, times: self.predictor.predict(job) }
    }

    /// Priority, execution rate on each type of node, and arrival rate (section 3.1), all as logarithms so that a factor is a distance.
    fn features(&self, job: &Seen, now: Time) -> Vec<f64> {
        let mut features: Vec<f64> = self.profiles.iter().map(|profile| rate(job, profile).ln()).collect();
        features.push(self.users[job.user as usize].weight.ln());
        features.push(self.arrival_rate(job.user as usize, now).ln());
        features
    }

    fn features_count(&self) -> usize {
        self.profiles.len() + 2
    }

    /// Mean arrivals of a user's jobs per second, over the time that all users have been watched. Counted from her own first job, a user
    /// who has sent one job would seem to send one a minute, and the program would give her nearly everything.
    fn arrival_rate(&self, user: usize, now: Time) -> f64 {
        let watched_s = self.first_arrival.map_or(0.0, |first| now.since(first).as_secs_f64());
        f64::from(self.arrivals[user]) / watched_s.max(60.0)
    }

    /// Algorithm 1, else branch: classify all jobs, then solve both linear programs.
    fn make_anew(&mut self, state: &mut State, now: Time) {
        self.solved += 1;
        for classification in 0..2 {
            let members: Vec<Seen> =
                self.seen.iter().filter(|job| self.belongs(classification, job.user)).copied().collect();
            let points: Vec<Vec<f64>> = members.iter().map(|job| self.features(job, now)).collect();
            let mut users: Vec<u32> = members.iter().map(|job| job.user).collect();
            users.sort_unstable();
            users.dedup();
            // Section 3.1: k is the number of users.
            let clusters = kmeans::kmeans(&points, users.len());
            self.classes[classification] = self.describe(&clusters, &points, &members, now);
            self.suggested[classification] = self.suggest(classification);
        }
        let jobs: Vec<JobIx> = state.live().map(|(jx, _)| jx).collect();
        for jx in jobs {
            let job = state.job(jx);
            let features = self.features(&self.seen(job), now);
            let class = |c: usize| nearest(&self.classes[c], &features).map(|(class, _)| class as u16);
            let classes = [self.belongs(0, job.user).then(|| class(0)).flatten(), class(1)];
            state.job_mut(jx).classes = classes;
        }
    }

    fn belongs(&self, classification: usize, user: u32) -> bool {
        classification == 1 || self.users[user as usize].min_share > 0
    }

    fn describe(&self, clusters: &kmeans::Clusters, points: &[Vec<f64>], members: &[Seen], now: Time) -> Vec<Class> {
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

    /// Section 3.2: solves the linear program of one classification.
    fn suggest(&self, classification: usize) -> Vec<Vec<bool>> {
        let classes = &self.classes[classification];
        let alpha: Vec<f64> = classes.iter().map(|class| class.arrivals_per_s.max(1e-9)).collect();
        let mu: Vec<Vec<f64>> =
            classes.iter().map(|class| (0..self.profiles.len()).map(|j| class.centre[j].exp()).collect()).collect();
        let counts: Vec<f64> = self.profiles.iter().map(|profile| f64::from(profile.up)).collect();
        let Some(allocation) = lp::solve(&lp::Problem { alpha: &alpha, mu: &mu, counts: &counts }) else {
            return Vec::new();
        };
        (0..self.profiles.len())
            .map(|j| (0..classes.len()).map(|i| allocation.delta[i][j] > lp::NOTHING).collect())
            .collect()
    }
}

/// Jobs per second that a node of a type does, if it does nothing else: the inverse of the mean execution time (section 2.1).
fn rate(job: &Seen, profile: &Profile) -> f64 {
    let times = job.times;
    let per_map_s = times.map_s / profile.speed + times.map_bytes / profile.disk_bytes_per_s;
    let per_reduce_s = times.reduce_s / profile.speed;
    let lane_s = |kind: Kind, per_task_s: f64| {
        let slots = f64::from(profile.slots[kind.ix()]);
        // A node without slots of a kind can only hand such tasks on; a very long time says so.
        f64::from(job.tasks[kind.ix()]) * per_task_s / if slots > 0.0 { slots } else { 1e-3 }
    };
    1.0 / (lane_s(Kind::Map, per_map_s) + lane_s(Kind::Reduce, per_reduce_s)).max(1e-6)
}

fn nearest(classes: &[Class], features: &[f64]) -> Option<(usize, f64)> {
    let distances = classes.iter().enumerate().map(|(i, class)| (i, distance(&class.centre, features)));
    distances.min_by(|a, b| a.1.total_cmp(&b.1))
}

/// The largest factor by which two jobs differ in anything, as a logarithm.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    if a.len() != b.len() {
        // A type of node joined since: nothing known about the class holds any more.
        return f64::INFINITY;
    }
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}
