//! What a matcher has learned and cannot compute again: it goes into snapshots. A snapshot may come from a damaged file, so it is checked.

use super::predict::{Predictor, TaskTimes};
use super::{CLASSIFIED_JOBS_MAX, Class, Classes, ClassifiedJob, Matcher, NodeType, UserRights};
use crate::ids::{JobId, NodeId};
use crate::units::Time;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// What a matcher has learned. Users are known by their numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MatcherMemory {
    predictor: Predictor,
    /// The types of node, in the order in which classes have their rates.
    node_types: Vec<NodeType>,
    recent: VecDeque<ClassifiedJob>,
    arrivals: Vec<u32>,
    first_arrival: Option<Time>,
    classes: [Vec<Class>; 2],
    suggested: [Vec<Vec<bool>>; 2],
    classifications: u32,
}

impl MatcherMemory {
    /// Gives each job another id.
    pub(crate) fn renumber(&mut self, number: &mut impl FnMut(&mut JobId)) {
        self.recent.iter_mut().for_each(|classified| number(&mut classified.job));
    }
}

fn is_time(time_s: f64) -> bool {
    time_s.is_finite() && time_s >= 0.0
}

impl MatcherMemory {
    fn is_consistent(&self) -> bool {
        let is_rate = |rate: f64| rate.is_finite() && rate > 0.0;
        let is_type = |of: &NodeType| is_rate(of.speed) && is_rate(of.disk_bytes_per_s);
        let types = self.node_types.len();
        let has_suggestions = |c: usize| {
            let of_types = &self.suggested[c];
            let is_row = |of: &Vec<bool>| of.len() == self.classes[c].len();
            of_types.is_empty() || (of_types.len() == types && of_types.iter().all(is_row))
        };
        let is_job = |job: &ClassifiedJob| {
            let TaskTimes { map_s, reduce_s, map_bytes } = job.times;
            let has_arrived = self.arrivals.get(job.user as usize).is_some_and(|&jobs| jobs > 0);
            has_arrived && [map_s, reduce_s, map_bytes].into_iter().all(is_time) && is_rate(job.bias)
        };
        let is_class = |of: &Class| {
            let is_centre = of.centre.len() == self.node_types.len() + 2 && of.centre.iter().all(|at| at.is_finite());
            is_centre && is_time(of.radius) && is_time(of.arrivals_per_s)
        };
        self.predictor.is_consistent()
            && self.node_types.len() <= usize::from(u16::MAX)
            && self.node_types.iter().all(is_type)
            && self.recent.len() <= CLASSIFIED_JOBS_MAX
            && self.recent.iter().all(is_job)
            && (0..2).all(has_suggestions)
            && self.classes.iter().all(|of| of.len() <= CLASSIFIED_JOBS_MAX && of.iter().all(is_class))
    }
}

impl MatcherMemory {
    /// True if each of this many nodes is of one type.
    fn has_nodes(&self, count: usize) -> bool {
        let mut nodes: Vec<NodeId> = self.node_types.iter().flat_map(|of| of.nodes.iter().copied()).collect();
        nodes.sort_unstable();
        nodes.into_iter().eq((0..count as u32).map(NodeId))
    }
}

impl Matcher {
    /// What it has learned; none if nothing is matched.
    pub fn memory(&self) -> Option<MatcherMemory> {
        self.is_used().then(|| MatcherMemory {
            predictor: self.predictor.clone(),
            node_types: self.node_types.clone(),
            recent: self.recent.clone(),
            arrivals: self.arrivals.clone(),
            first_arrival: self.first_arrival,
            classes: self.classes.clone(),
            suggested: self.suggested.clone(),
            classifications: self.classifications,
        })
    }

    /// Continues with what another has learned, given the rights of all users by number. The nodes must have joined. False if that contradicts itself.
    pub fn restore(&mut self, memory: MatcherMemory, mut users: Vec<UserRights>) -> bool {
        if !memory.is_consistent() || memory.arrivals.len() > users.len() || !memory.has_nodes(self.type_of.len()) {
            return false;
        }
        users.truncate(memory.arrivals.len());
        let MatcherMemory { predictor, node_types, recent, arrivals, first_arrival, classes, .. } = memory;
        for (number, of) in (0..).zip(&node_types) {
            of.nodes.iter().for_each(|node| self.type_of[node.0 as usize] = number);
        }
        (self.suggested, self.classifications) = (memory.suggested, memory.classifications);
        self.predictor = predictor.with_interval(self.rules.unwrap_or_default().history_interval_jobs);
        (self.node_types, self.recent, self.arrivals) = (node_types, recent, arrivals);
        (self.users, self.first_arrival, self.classes) = (users, first_arrival, classes);
        true
    }

    /// True if a user has submitted jobs, and these classes are among those that there are.
    pub fn knows(&self, user: u32, classes: Classes) -> bool {
        let is_known = |c: usize| classes[c].is_none_or(|class| usize::from(class) < self.classes[c].len());
        let has_arrived = self.arrivals.get(user as usize).is_some_and(|&jobs| jobs > 0);
        has_arrived && is_known(0) && is_known(1)
    }
}
