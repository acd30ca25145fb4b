//! Jobs that hold out for a better node, noted so that a walk along the line can pass them by without looking at them.
//!
//! On a large cluster few nodes are good for a given job, and many jobs hold out at once. A note says until when a job takes nothing but a good
//! node, and a bit for each node and job whether the node may be good for it. A bit may be set for nothing, and is then taken back by whoever
//! looked in vain; it is never missing, so passing a job by changes no decision.

use super::JobIx;
use super::bits::Bits;
use crate::ids::NodeId;
use crate::units::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Who holds out, until when, and for which nodes.
#[derive(Debug, Default)]
pub struct Holdouts {
    until: Vec<Time>,
    /// By node: the jobs it may be good for.
    good: Vec<Bits>,
    /// When somebody's patience ends, soonest first. Notes that no longer hold are dropped when their turn comes.
    ends: BinaryHeap<Reverse<(Time, JobIx)>>,
    nobody: Bits,
}

impl Holdouts {
    /// Whether a job holds out.
    pub fn holds_out(&self, jx: JobIx, now: Time) -> bool {
        self.until.get(jx as usize).is_some_and(|&until| now < until)
    }

    /// The jobs a node may be good for.
    pub fn good_for(&self, node: NodeId) -> &Bits {
        self.good.get(node.0 as usize).unwrap_or(&self.nobody)
    }

    /// The job takes nothing but a good node until then; this one was not good.
    pub fn hold_out(&mut self, jx: JobIx, node: NodeId, until: Time) {
        if self.until.len() <= jx as usize {
            self.until.resize(jx as usize + 1, Time::ZERO);
        }
        if std::mem::replace(&mut self.until[jx as usize], until) != until {
            self.ends.push(Reverse((until, jx)));
        }
        if let Some(jobs) = self.good.get_mut(node.0 as usize) {
            jobs.remove(jx);
        }
    }

    /// A job whose patience has ended by now, if there is one that has not been named yet.
    pub fn next_ended(&mut self, now: Time) -> Option<JobIx> {
        while let Some(&Reverse((until, jx))) = self.ends.peek() {
            if until > now {
                return None;
            }
            self.ends.pop();
            if !self.holds_out(jx, now) {
                return Some(jx);
            }
        }
        None
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
            self.good.resize(node.0 as usize + 1, Bits::default());
        }
        self.good[node.0 as usize].add(jx);
    }
}
