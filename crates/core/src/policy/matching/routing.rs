//! Routing: which groups of jobs an offer of a node may serve, pass by pass (COSHH, Algorithm 2).
//!
//! Without matching there is one pass for each routing stage. With it, the first pass serves users below their min share and the second all users, both
//! only with jobs of the classes suggested for the node. If the fallback is backfill, a third pass serves any job.

use super::Matcher;
use crate::ids::NodeId;
use crate::policy::groups::Group;
use crate::policy::ranking::Ranking;
use crate::reason::NodeMatch;
use crate::state::Job;

/// The passes of an offer of one node.
#[derive(Clone, Copy)]
pub struct Routing<'a> {
    matcher: Option<(&'a Matcher, u16)>,
}

impl<'a> Routing<'a> {
    /// The routing for a node.
    #[inline]
    pub fn new(matcher: &'a Matcher, node: NodeId) -> Routing<'a> {
        Routing { matcher: matcher.is_used().then(|| (matcher, matcher.type_of(node))) }
    }

    /// Number of passes over the rankings of these routing stages.
    pub fn passes(self, stages: &[Ranking]) -> usize {
        match self.matcher {
            None => stages.len(),
            Some((matcher, _)) if matcher.is_strict() => 2,
            Some(_) => 3,
        }
    }

    /// The ranking that a pass searches: the third pass uses that of the second again.
    pub fn ranking(self, stages: &[Ranking], pass: usize) -> &Ranking {
        &stages[pass.min(stages.len() - 1)]
    }

    /// True if a pass may serve the jobs of a group.
    #[inline]
    pub fn allows(self, pass: usize, group: &Group) -> bool {
        match (self.matcher, group.classes) {
            (Some((matcher, node_type)), Some(classes)) if pass < 2 => matcher.suggests(pass, node_type, classes[pass]),
            _ => true,
        }
    }

    /// How the node suits a job that a pass chose.
    pub fn node_match(self, pass: usize, job: &Job) -> Option<NodeMatch> {
        self.matcher?;
        let class = job.classes().get(pass).copied().flatten();
        Some(class.map_or(NodeMatch::Fallback, |class| NodeMatch::Suggested { class }))
    }
}
