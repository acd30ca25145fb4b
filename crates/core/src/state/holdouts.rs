//! Jobs that hold out for a better node, noted so that a walk along the line can pass them by without looking at them.
//!
//! On a large cluster few nodes are good for a given job, and many jobs hold out at once. A note says until when a job takes nothing but a good
//! node, and a bit for each node and job whether the node may be good for it. A bit may be set for nothing, and is then taken back by whoever
//! looked in vain; it is never missing, so passing a job by changes no decision.

use super::JobIx;
use crate::ids::NodeId;
use crate::units::Time;

/// Who holds out, until when, and for which nodes.
#[derive(Debug, Default)]
pub struct Holdouts {
    until: Vec<Time>,
    good: Vec<Vec<u64>>,
}

impl Holdouts {
    /// True if the job would refuse an offer of this node.
    pub fn refuses(&self, jx: JobIx, node: NodeId, now: Time) -> bool {
        self.until.get(jx as usize).is_some_and(|&until| now < until) && !self.is_good(jx, node)
    }

    /// The job takes nothing but a good node until then; this one was not good.
    pub fn hold_out(&mut self, jx: JobIx, node: NodeId, until: Time) {
        if self.until.len() <= jx as usize {
            self.until.resize(jx as usize + 1, Time::ZERO);
        }
        self.until[jx as usize] = until;
        if let Some(word) = self.good.get_mut(node.0 as usize).and_then(|words| words.get_mut(jx as usize / 64)) {
            *word &= !(1 << (jx % 64));
        }
    }

    /// The job wants to be asked again by every node.
    pub fn ask_again(&mut self, jx: JobIx) {
        if let Some(until) = self.until.get_mut(jx as usize) {
            *until = Time::ZERO;
        }
    }

    /// A node may be good for a job.
    pub fn note_good(&mut self, jx: JobIx, node: NodeId) {
        if self.good.len() <= node.0 as usize {
            self.good.resize(node.0 as usize + 1, Vec::new());
        }
        let words = &mut self.good[node.0 as usize];
        if words.len() <= jx as usize / 64 {
            words.resize(jx as usize / 64 + 1, 0);
        }
        words[jx as usize / 64] |= 1 << (jx % 64);
    }

    fn is_good(&self, jx: JobIx, node: NodeId) -> bool {
        let word = self.good.get(node.0 as usize).and_then(|words| words.get(jx as usize / 64));
        word.is_some_and(|word| word >> (jx % 64) & 1 == 1)
    }
}
