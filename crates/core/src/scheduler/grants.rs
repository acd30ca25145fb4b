//! News of a body that grants slots itself.
//!
//! A YARN cluster is asked for slots by its applications, gives them as its own scheduler sees fit, and lets the application decide what to run in
//! them. Such a body cannot be told what to launch; it tells what was asked for and what was given, and asks for the order of jobs. Its jobs are *open*:
//! their tasks become known as they ask. What it grants is bound to a waiting task here, so that all counts and estimates are those of any other body.

use super::Scheduler;
use super::news::MOST_REDUCES;
use crate::action::{Action, Outcome, Reason, Refusal};
use crate::event::JobSpec;
use crate::ids::{AttemptId, JobId, Kind, NodeId, TaskId};
use crate::policy::order::HoldingOut;
use crate::policy::{estimate, failure};
use crate::state::JobIx;
use std::ops::ControlFlow;

/// A node that seems to run more tasks at once than this is taken for a mistake.
const MOST_SLOTS: u16 = u16::MAX / 2;

impl Scheduler {
    /// The jobs that wait for a slot of either kind, first to be served first: for a body whose slots are of no kind. The order of either kind
    /// is kept; between the two, the ranks decide where both kinds are ranked alike, and otherwise the places in line.
    pub fn rank_jobs(&self) -> Vec<JobId> {
        let [maps, reduces] = Kind::BOTH.map(|kind| {
            let mut line = Vec::new();
            let _ = self.line(kind).walk::<()>(&self.limits(kind), &|_| true, HoldingOut::All, &mut |jx| {
                line.push(jx);
                ControlFlow::Continue(())
            });
            line
        });
        let (map, reduce) = (self.slot_policy(Kind::Map), self.slot_policy(Kind::Reduce));
        let alike = (map.order, map.groups) == (reduce.order, reduce.groups);
        let standing = |kind: Kind, jx: JobIx| failure::standing(self.line(kind), map.order, &self.state, jx, kind);
        let mut at = [0, 0];
        let mut ranked = Vec::new();
        loop {
            let maps_first = match (maps.get(at[0]), reduces.get(at[1])) {
                (Some(&map), Some(&reduce)) if alike => standing(Kind::Map, map) <= standing(Kind::Reduce, reduce),
                (Some(_), Some(_)) => at[0] <= at[1],
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => break,
            };
            let kind = if maps_first { 0 } else { 1 };
            ranked.push(self.state.job([&maps, &reduces][kind][at[kind]]).id);
            at[kind] += 1;
        }
        let mut seen = rustc_hash::FxHashSet::default();
        ranked.retain(|&job| seen.insert(job));
        ranked
    }

    pub(super) fn job_opened(&mut self, spec: &JobSpec, out: &mut Vec<Action>) -> Result<(), Refusal> {
        self.admit(spec, true, out)
    }

    pub(super) fn tasks_asked(&mut self, job: JobId, asked: [u32; 2], out: &mut Vec<Action>) -> Result<(), Refusal> {
        let jx = self.open_job(job)?;
        if asked.iter().any(|&slots| slots > MOST_REDUCES) {
            return Err(Refusal::InvalidJob(job));
        }
        let job = self.state.job_mut(jx);
        for kind in Kind::BOTH {
            let (asked, waiting) = (asked[kind.ix()], job.facts(kind).waiting);
            (waiting..asked).for_each(|_| job.add_task(kind));
            (asked..waiting).for_each(|_| job.drop_task(kind));
        }
        // How much it has to do has only now become known, so what is believed of it is not left for the next renewal.
        let job = self.state.job(jx);
        let estimate = estimate::estimate(job, estimate::observed(job, self.now), self.state.slots, self.averages);
        self.state.job_mut(jx).estimate = estimate;
        for kind in Kind::BOTH {
            self.renew_shares(kind);
            self.touch(jx, kind);
        }
        for kind in Kind::BOTH {
            self.demand_slots(kind, out);
        }
        Ok(())
    }

    pub(super) fn slot_taken(
        &mut self,
        job: JobId,
        kind: Kind,
        node: NodeId,
        out: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        let jx = self.open_job(job)?;
        let slots = self.state.up(node).ok_or(Refusal::UnknownNode(node))?.spec.slots(kind);
        let full = self.state.node(node).free[kind.ix()] == 0;
        if full && slots >= MOST_SLOTS {
            return Err(Refusal::InvalidNode(node));
        }
        let choice = self.claimed_task(jx, None, node, kind).ok_or(Refusal::NothingPending(job))?;
        if full {
            self.state.grow(node, kind);
        }
        self.launch(jx, node, choice, Reason::GrantedByCluster, out);
        Ok(())
    }

    pub(super) fn job_ended(&mut self, job: JobId, outcome: Outcome, out: &mut Vec<Action>) -> Result<(), Refusal> {
        let jx = self.open_job(job)?;
        self.abandon(jx, outcome, out);
        self.bury(jx);
        Ok(())
    }

    pub(super) fn resynced(&mut self, out: &mut Vec<Action>) {
        let mut running = Vec::new();
        for node in &self.state.nodes {
            for kind in Kind::BOTH {
                running.extend(node.running[kind.ix()].iter().map(|&(jx, index, number)| {
                    let task = TaskId { job: self.state.job(jx).id, kind, index };
                    AttemptId { task, number }
                }));
            }
        }
        for attempt in running {
            self.attempt_over(attempt, false, out).expect("an attempt that holds a slot is live");
        }
    }

    fn open_job(&self, job: JobId) -> Result<JobIx, Refusal> {
        let jx = self.state.find(job).filter(|&jx| !self.state.job(jx).closed).ok_or(Refusal::UnknownJob(job))?;
        if self.state.job(jx).open { Ok(jx) } else { Err(Refusal::NotOpen(job)) }
    }
}
