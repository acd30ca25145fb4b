//! Which jobs must get no slot on which nodes, for a backend that grants slots itself: routing and the refusal of slow nodes as a table.

use super::Cluster;
use crate::ids::{JobId, Kind, NodeId};
use crate::policy::matching::Routing;
use crate::policy::placement::waiting_work_s;
use crate::policy::ranking::Visits;
use crate::state::{Job, JobKey};
use crate::units::Span;
use rustc_hash::FxHashSet;
use std::ops::ControlFlow;

/// A class of nodes among which a policy makes no difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRefusals {
    /// The number of the class; see [`Cluster::node_class`].
    pub class: u16,
    /// The jobs that must not get a slot there now, in the order in which they were submitted; also those that need none yet, because a slot may be
    /// granted before the backend has reported a request.
    pub refused: Vec<JobId>,
}

impl Cluster {
    /// The class of a node; nodes of one class are refused alike. Zero for a node that has not joined.
    pub fn node_class(&self, node: NodeId) -> u16 {
        self.policy.node_class(&self.matcher, &self.state, node)
    }

    /// For each class of nodes with one that is up, the jobs that must get no slot there now. Empty if there is only one such class, or if the
    /// policy makes no difference between nodes.
    ///
    /// A node is refused to a job of another class of jobs while a job that is suggested for it needs a slot, so no node idles for the sake of
    /// matching; with the fallback `strict` it is refused always. And a job refuses nodes that are too slow for it.
    pub fn node_refusals(&self) -> Vec<NodeRefusals> {
        if !self.policy.compares_nodes() {
            return Vec::new();
        }
        let nodes = self.policy.distinct_nodes(&self.matcher, &self.state);
        if nodes.len() < 2 {
            return Vec::new();
        }
        nodes.into_iter().map(|node| self.refusals_of(node)).collect()
    }

    /// How long a job is to be refused nodes while it gets no slot on others; none for ever.
    pub fn refusal_max_wait(&self) -> Option<Span> {
        self.policy.refusal_max_wait()
    }

    /// The classes of nodes for which a job's class is suggested, of those with a node that is up; none if the policy does not match jobs to nodes
    /// or the job has no class yet.
    pub fn suggested_node_classes(&self, job: JobId) -> Option<Vec<u16>> {
        let matcher = self.matcher()?;
        let job = self.state.job(self.state.find(job)?);
        job.classes()[1]?;
        let classes =
            self.policy.distinct_nodes(&self.matcher, &self.state).into_iter().map(|node| self.node_class(node));
        Some(classes.filter(|&class| matcher.suggests_for(job, class)).collect())
    }

    fn refusals_of(&self, node: NodeId) -> NodeRefusals {
        let class = self.node_class(node);
        let mut accepted: FxHashSet<JobKey> = FxHashSet::default();
        let mut too_slow: FxHashSet<JobKey> = FxHashSet::default();
        for kind in Kind::BOTH {
            self.visit_suggested(node, kind, &mut accepted);
            let placement = &self.policy.slots(kind).placement;
            let mut ahead_s = 0.0;
            for job in self.ranked(kind) {
                let ranked = self.state.job(job);
                let refuses = placement.refuses(ranked, job, kind, node, self.state.nodes(), ahead_s).is_some();
                ahead_s += waiting_work_s(ranked, kind);
                if refuses {
                    too_slow.insert(job);
                }
            }
        }
        accepted.retain(|job| !too_slow.contains(job));
        let matcher = self.matcher().filter(|matcher| matcher.is_strict() || !accepted.is_empty());
        let is_refused = |&(key, job): &(JobKey, &Job)| {
            let of_other_class = matcher.is_some_and(|matcher| !matcher.suggests_for(job, class));
            !job.is_closed() && (too_slow.contains(&key) || (of_other_class && !accepted.contains(&key)))
        };
        let mut refused: Vec<JobId> = self.state.jobs().iter().filter(is_refused).map(|(_, job)| job.id()).collect();
        refused.sort_unstable();
        NodeRefusals { class, refused }
    }

    /// Adds the jobs that a node would serve before those of the fallback.
    fn visit_suggested(&self, node: NodeId, kind: Kind, found: &mut FxHashSet<JobKey>) {
        let routing = Routing::new(&self.matcher, node);
        let stages = self.rankings.stages(kind);
        let slots = self.state.nodes().slots()[kind];
        for pass in 0..routing.passes(stages).min(2) {
            let allow = |group: &_| routing.allows(pass, group);
            let ranking = routing.ranking(stages, pass);
            let _ = ranking.search::<()>(slots, &allow, Visits::All, &mut |job| {
                found.insert(job);
                ControlFlow::Continue(())
            });
        }
    }
}
