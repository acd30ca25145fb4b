//! A node offers its free slots: first to those it was promised to, then along the line.

use super::Scheduler;
use crate::action::{Action, Locality, Reason, Start, Work};
use crate::ids::{Kind, NodeId};
use crate::policy::order::{self, HoldingOut};
use crate::policy::placement::{self, Offer, ReduceChoice};
use crate::state::waiting::locality;
use crate::state::{JobIx, TaskState, Twin};
use crate::units::Time;
use smallvec::SmallVec;
use std::ops::ControlFlow;

/// A task for an offered slot.
#[derive(Clone, Copy, Debug)]
pub(super) enum Choice {
    Map(u32, Locality),
    Reduce(ReduceChoice),
}

impl Scheduler {
    /// Fills a node's free slots as far as the policy wants them filled now.
    pub(super) fn offer(&mut self, node: NodeId, out: &mut Vec<Action>) {
        for kind in Kind::BOTH {
            self.serve_claims(node, kind, out);
            let placement = &self.policy.slot_policy(kind).placement;
            let most = placement.max_tasks_per_offer.unwrap_or(u32::MAX);
            let mut off_rack_left = placement.max_off_rack_per_offer.unwrap_or(u32::MAX);
            let mut given = 0;
            while given < most && off_rack_left > 0 && self.state.node(node).free[kind.ix()] > 0 {
                let Some((jx, choice)) = self.pick(node, kind) else { break };
                let reason = self.reason(jx, kind, choice);
                given += 1;
                off_rack_left -= u32::from(matches!(choice, Choice::Map(_, Locality::Remote)));
                self.launch(jx, node, choice, reason, out);
            }
            while given < most && self.state.node(node).free[kind.ix()] > 0 && self.copy_laggard(node, kind, out) {
                given += 1;
            }
        }
    }

    /// The first job in line that has a task for this node.
    fn pick(&mut self, node: NodeId, kind: Kind) -> Option<(JobIx, Choice)> {
        while let Some(jx) = self.state.holdouts[kind.ix()].next_ended(self.now) {
            self.lines[kind.ix()].iter_mut().for_each(|line| line.hold_out(jx, false));
        }
        (0..self.passes()).find_map(|pass| self.pick_in(pass, node, kind))
    }

    /// The first job that has a task for this node in one pass along the line.
    fn pick_in(&mut self, pass: usize, node: NodeId, kind: Kind) -> Option<(JobIx, Choice)> {
        let line = super::line_of_pass(&self.lines[kind.ix()], pass);
        if line.is_empty() {
            return None;
        }
        let limits = self.limits(kind);
        let placement = &self.policy.slot_policy(kind).placement;
        let nodes_up = self.state.nodes_up;
        let profile = self.state.node(node).profile;
        let offer = Offer { node, nodes: &self.state.nodes, racks: &self.state.racks, now: self.now };
        let (jobs, good) = (&mut self.state.jobs, self.state.holdouts[kind.ix()].good_for(node));
        let mut holding_out: SmallVec<[(JobIx, Time); 4]> = SmallVec::new();
        let mut ask = |jx: JobIx| {
            let job = jobs[jx as usize].as_mut().expect("a job in line is live");
            let choice = match kind {
                Kind::Map => placement::choose_map(job, offer, placement).map(|(task, near)| Choice::Map(task, near)),
                Kind::Reduce => placement::choose_reduce(job, jx, offer, placement, nodes_up).map(Choice::Reduce),
            };
            if let Some(choice) = choice {
                return ControlFlow::Break((jx, choice));
            }
            let until = placement::holds_out_until(job, kind, placement);
            holding_out.extend(until.filter(|&until| offer.now < until).map(|until| (jx, until)));
            ControlFlow::Continue(())
        };
        let matcher = self.matcher.as_ref();
        let found = line.walk(&limits, &super::allows(matcher, profile, pass), HoldingOut::Of(good), &mut ask);
        for (jx, until) in holding_out {
            self.hold_out(jx, kind, node, until);
        }
        let (jx, choice) = found.break_value()?;
        self.ask_again(jx, kind);
        Some((jx, choice))
    }

    fn reason(&self, jx: JobIx, kind: Kind, choice: Choice) -> Reason {
        let job = self.state.job(jx);
        let index = match choice {
            Choice::Map(task, _) => task,
            Choice::Reduce(ReduceChoice::Fresh(task) | ReduceChoice::Resumed(task) | ReduceChoice::Migrated(task)) => {
                task
            }
        };
        match job.lost_with(kind, index) {
            Some(lost) => Reason::Recovery { lost },
            None => order::reason(self.slot_policy(kind).order, job, kind),
        }
    }

    /// Slots freed on somebody's behalf go to them, if they still want them.
    fn serve_claims(&mut self, node: NodeId, kind: Kind, out: &mut Vec<Action>) {
        if self.state.claims[kind.ix()] == 0 {
            return;
        }
        while self.state.node(node).free[kind.ix()] > 0 && !self.state.node(node).claims[kind.ix()].is_empty() {
            let claim = self.state.node_mut(node).claims[kind.ix()].remove(0);
            self.state.claims[kind.ix()] -= 1;
            if self.state.find(claim.job) != Some(claim.jx) {
                continue;
            }
            self.state.job_mut(claim.jx).facts[kind.ix()].claimed -= 1;
            match self.claimed_task(claim.jx, claim.task, node, kind) {
                Some(choice) => {
                    let reason = match self.reason(claim.jx, kind, choice) {
                        recovers @ Reason::Recovery { .. } => recovers,
                        _ => Reason::Reserved,
                    };
                    self.launch(claim.jx, node, choice, reason, out);
                }
                None => self.touch(claim.jx, kind),
            }
        }
    }

    pub(super) fn claimed_task(&mut self, jx: JobIx, task: Option<u32>, node: NodeId, kind: Kind) -> Option<Choice> {
        let offer = Offer { node, nodes: &self.state.nodes, racks: &self.state.racks, now: self.now };
        let job = self.state.jobs[jx as usize].as_mut().expect("looked up above");
        if job.closed {
            return None;
        }
        let named = task.filter(|&task| job.task(kind, task).state == TaskState::Waiting);
        match (kind, named) {
            (Kind::Map, Some(task)) => {
                let split = &job.splits[job.task(kind, task).split as usize];
                Some(Choice::Map(task, locality(split, node, &self.state.racks)))
            }
            (Kind::Map, None) => placement::nearest_map(job, offer).map(|(task, near)| Choice::Map(task, near)),
            (Kind::Reduce, Some(task)) => Some(Choice::Reduce(ReduceChoice::Fresh(task))),
            (Kind::Reduce, None) => {
                let here = &self.state.nodes[node.0 as usize].paused;
                let resumed =
                    here.iter().find(|&&(owner, _)| owner == jx).map(|&(_, task)| ReduceChoice::Resumed(task));
                resumed
                    .or_else(|| job.waiting_reduces.last().map(|&task| ReduceChoice::Fresh(task)))
                    .map(Choice::Reduce)
            }
        }
    }

    pub(super) fn launch(&mut self, jx: JobIx, node: NodeId, choice: Choice, reason: Reason, out: &mut Vec<Action>) {
        let (kind, index, work) = match choice {
            Choice::Map(index, near) => (Kind::Map, index, self.state.job(jx).map_work(index, near)),
            Choice::Reduce(choice) => {
                let (index, start) = self.take_reduce(jx, choice);
                (Kind::Reduce, index, Work::Reduce { start })
            }
        };
        let now = self.now;
        let attempt = self.state.job_mut(jx).start(kind, index, node, now);
        self.state.take_slot(node, kind, jx, index, attempt.number);
        out.push(Action::Launch { attempt, node, work, reason });
        self.note_map_on(jx, kind, node);
        if matches!(choice, Choice::Reduce(ReduceChoice::Fresh(_) | ReduceChoice::Migrated(_))) {
            self.redo_gone_maps(jx);
        }
        self.touch(jx, kind);
    }

    /// A node that runs a map of a job is good for its reduces, where reduces hold out for that.
    fn note_map_on(&mut self, jx: JobIx, kind: Kind, node: NodeId) {
        if kind == Kind::Map && !self.policy.reduce.placement.colocate.is_zero() {
            self.state.holdouts[Kind::Reduce.ix()].note_good(jx, node);
        }
    }

    /// Takes a reduce off the list it waited in and says where it begins.
    fn take_reduce(&mut self, jx: JobIx, choice: ReduceChoice) -> (u32, Start) {
        match choice {
            ReduceChoice::Fresh(index) => {
                let waiting = &mut self.state.job_mut(jx).waiting_reduces;
                let at = waiting.iter().rposition(|&task| task == index).expect("a fresh reduce waits");
                waiting.remove(at);
                (index, Start::Fresh)
            }
            ReduceChoice::Resumed(index) | ReduceChoice::Migrated(index) => {
                let job = self.state.job_mut(jx);
                job.unpause(index);
                let (from, node) = (job.attempt(Kind::Reduce, index), job.task(Kind::Reduce, index).node);
                self.state.node_mut(node).paused.retain(|&kept| kept != (jx, index));
                if matches!(choice, ReduceChoice::Resumed(_)) {
                    return (index, Start::Resumed { from });
                }
                // Its input must be fetched again, so what it had fetched no longer counts as fetched.
                let task = &mut self.state.job_mut(jx).tasks[1][index as usize];
                task.progress_ppm = 0;
                (index, Start::Migrated { from, node })
            }
        }
    }

    /// Starts a second attempt of a task that lags behind, if one still does and runs elsewhere.
    fn copy_laggard(&mut self, node: NodeId, kind: Kind, out: &mut Vec<Action>) -> bool {
        let now: Time = self.now;
        let state = &self.state;
        let lags = |&(job, lagging, index): &(_, Kind, u32)| {
            let jx = state.find(job).filter(|_| lagging == kind)?;
            let task = state.job(jx).task(kind, index);
            (task.state == TaskState::Running && task.node != node).then_some(jx)
        };
        let Some(at) = self.laggards.iter().position(|entry| lags(entry).is_some()) else { return false };
        let (id, _, index) = self.laggards.remove(at);
        let jx = self.state.find(id).expect("found above");
        let job = self.state.job_mut(jx);
        let task = &mut job.tasks[kind.ix()][index as usize];
        let (number, progress_ppm) = (task.attempts, task.progress_ppm);
        task.attempts += 1;
        job.start_twin(Twin { kind, task: index, number, node, launched: now, dying: false });
        let attempt = crate::ids::AttemptId { number, ..job.attempt(kind, index) };
        let work = match kind {
            Kind::Map => {
                let job = self.state.job(jx);
                let split = &job.splits[job.task(kind, index).split as usize];
                job.map_work(index, locality(split, node, &self.state.racks))
            }
            Kind::Reduce => Work::Reduce { start: Start::Fresh },
        };
        self.state.take_slot(node, kind, jx, index, number);
        out.push(Action::Launch { attempt, node, work, reason: Reason::Speculative { progress_ppm } });
        self.note_map_on(jx, kind, node);
        if kind == Kind::Reduce {
            self.redo_gone_maps(jx);
        }
        self.touch(jx, kind);
        true
    }
}
