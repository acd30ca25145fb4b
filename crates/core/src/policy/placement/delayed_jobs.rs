//! An index of the jobs that wait for a local node, so that the search for a job for another node skips them.
//!
//! On a large cluster few nodes are local to a job, and many jobs wait at once. The index keeps until when a job accepts only a local node,
//! and a bit for each node and job that tells whether the node may be local. A bit may be set although the node is not local; it is cleared
//! when the job launches its last map with input there, or has refused an offer of the node. No bit is missing, so skipping a job changes no
//! decision.

use crate::ids::NodeId;
use crate::state::JobKey;
use crate::state::bit_set::BitSet;
use crate::units::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Which jobs are delayed, until when, and which nodes may be local to them.
#[derive(Debug, Default)]
pub struct DelayedJobs {
    until: Vec<Time>,
    /// By node: the jobs it may be local to.
    local: Vec<BitSet>,
    /// Ends of delays, soonest first. Outdated entries are dropped when their time comes.
    ends: BinaryHeap<Reverse<(Time, JobKey)>>,
    none: BitSet,
}

impl DelayedJobs {
    /// True if a job is delayed.
    pub fn is_delayed(&self, job: JobKey, now: Time) -> bool {
        self.until.get(job.index()).is_some_and(|&until| now < until)
    }

    /// Until when a job is or was delayed.
    pub fn until(&self, job: JobKey) -> Time {
        self.until.get(job.index()).copied().unwrap_or(Time::ZERO)
    }

    /// The jobs that a node may be local to.
    pub fn local_to(&self, node: NodeId) -> &BitSet {
        self.local.get(node.0 as usize).unwrap_or(&self.none)
    }

    /// A job refused an offer of a node, which is therefore not local, and accepts only local nodes until `until`.
    pub fn delay(&mut self, job: JobKey, node: NodeId, until: Time) {
        self.restore(job, until);
        self.remove_local(job, node);
    }

    /// A job accepts only local nodes until `until`.
    pub fn restore(&mut self, job: JobKey, until: Time) {
        if self.until.len() <= job.index() {
            self.until.resize(job.index() + 1, Time::ZERO);
        }
        if std::mem::replace(&mut self.until[job.index()], until) != until {
            self.ends.push(Reverse((until, job)));
        }
    }

    /// A node is no longer local to a job.
    pub fn remove_local(&mut self, job: JobKey, node: NodeId) {
        if let Some(jobs) = self.local.get_mut(node.0 as usize) {
            jobs.remove(job.number());
        }
    }

    /// A job whose delay has ended by `now`; each is returned once.
    pub fn next_ended(&mut self, now: Time) -> Option<JobKey> {
        while let Some(&Reverse((until, job))) = self.ends.peek() {
            if until > now {
                return None;
            }
            self.ends.pop();
            if !self.is_delayed(job, now) {
                return Some(job);
            }
        }
        None
    }

    /// Ends a job's delay; false if there was none.
    pub fn end(&mut self, job: JobKey) -> bool {
        let until = self.until.get_mut(job.index());
        until.is_some_and(|until| std::mem::take(until) != Time::ZERO)
    }

    /// Records that a node may be local to a job.
    pub fn add_local(&mut self, job: JobKey, node: NodeId) {
        if self.local.len() <= node.0 as usize {
            self.local.resize(node.0 as usize + 1, BitSet::default());
        }
        self.local[node.0 as usize].insert(job.number());
    }
}
