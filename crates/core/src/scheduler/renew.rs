//! What is believed is renewed: estimates, shares, laggards; and with them the right to demand slots.

use super::Scheduler;
use crate::action::Action;
use crate::ids::Kind;
use crate::policy::estimate::{self, Averages};
use crate::policy::share::{self, Alone, Claimant};
use crate::policy::{JobOrder, Share, Speculation};
use crate::state::{Job, JobIx, TaskState};
use crate::units::{Time, WHOLE_PPM};
use std::sync::Arc;

/// What a group of jobs is owed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GroupShare {
    /// Guaranteed.
    pub min: f64,
    /// Its fair share.
    pub fair: f64,
    /// The most that is of use to it.
    pub need: f64,
}

/// How far the slots went at the last renewal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    /// What each unit of weight was owed; without limit while there was plenty for all.
    per_weight: f64,
    /// What all jobs together needed, those that came since included.
    needed: f64,
}

impl Default for Level {
    fn default() -> Level {
        Level { per_weight: f64::INFINITY, needed: 0.0 }
    }
}

impl Scheduler {
    pub(super) fn woke(&mut self, out: &mut Vec<Action>) {
        if self.wake.is_none_or(|at| self.now < at) {
            return;
        }
        self.wake = None;
        self.renew_estimates();
        for kind in Kind::BOTH {
            self.renew_shares(kind);
        }
        let jobs: Vec<JobIx> = self.state.live().map(|(jx, _)| jx).collect();
        for jx in jobs {
            Kind::BOTH.into_iter().for_each(|kind| self.touch(jx, kind));
        }
        for kind in Kind::BOTH {
            self.demand_slots(kind, out);
        }
        if let Some(speculation) = self.policy.speculation {
            self.laggards = self.find_laggards(speculation);
        }
        self.wake_later(out);
    }

    /// Asks to be woken for the next renewal, if there is anything to renew.
    pub(super) fn wake_later(&mut self, out: &mut Vec<Action>) {
        if self.wake.is_none() && self.policy.renews() && self.state.live_count() > 0 {
            let at = self.now + self.policy.renew;
            self.wake = Some(at);
            out.push(Action::SetTimer { timer: crate::timer::Timer::Estimates, at });
        }
    }

    /// hSRTF, section 3.2: every job's estimate, and the averages from which new jobs start.
    fn renew_estimates(&mut self) {
        let observed: Vec<_> = self.state.live().map(|(_, job)| estimate::observed(job, self.now)).collect();
        let mut averages = Averages::default();
        observed.iter().for_each(|&observed| averages.add(observed));
        // While nothing runs that could teach anything, what was learnt last still holds.
        self.averages = averages.or(self.averages);
        let (now, slots, prior) = (self.now, self.state.slots, self.averages);
        let policy = Arc::clone(&self.policy);
        for (job, observed) in self.state.jobs.iter_mut().flatten().zip(observed) {
            job.estimate = estimate::estimate(job, observed, slots, prior);
            // The rest of what may be believed takes a look at every running task, so only those who rank by it pay for it.
            if policy.ranks_by(JobOrder::RemainingWork) {
                (job.estimate.shuffle, job.estimate.reduce_bytes) =
                    estimate::remaining_work(job, now, job.estimate.task[0]);
            }
            if policy.ranks_by(JobOrder::AttainedService) {
                job.estimate.attained = estimate::attained(job, now);
            }
        }
    }

    pub(super) fn renew_shares(&mut self, kind: Kind) {
        match self.slot_policy(kind).share {
            Share::None => {}
            Share::InverseRemainingTime => self.share_by_remaining(kind, Alone::OnItsShare),
            Share::InverseRemainingTimeLiteral => self.share_by_remaining(kind, Alone::OnTheCluster),
            Share::Weighted => {
                if !self.slot_policy(kind).preempt.is_empty() {
                    self.share_by_weight(kind);
                }
            }
        }
    }

    /// What a new job is owed until the next renewal: as much as its remaining time would have given it at the last one. Only the job
    /// that ends the plenty makes everybody's share anew; and any new job does where slots are taken by share, for then somebody's
    /// share must have become smaller before anybody can be over it.
    pub(super) fn share_of_new(&mut self, jx: JobIx, kind: Kind) {
        let slots = f64::from(self.state.slots[kind.ix()]);
        let level = &mut self.levels[kind.ix()];
        let job = self.state.jobs[jx as usize].as_mut().expect("just admitted");
        let need = f64::from(job.total(kind));
        let was_plenty = level.per_weight.is_infinite();
        level.needed += need;
        let takes = !self.policy.slot_policy(kind).preempt.is_empty();
        if takes || (was_plenty && level.needed > slots) {
            self.renew_shares(kind);
            return;
        }
        let by_remaining = level.per_weight / job.estimate.remaining.as_secs_f64().max(1e-3);
        job.facts[kind.ix()].owed = by_remaining.min(need);
    }

    fn share_by_remaining(&mut self, kind: Kind, alone: Alone) {
        let wants = |job: &&Job| !job.closed && (job.facts(kind).held() > 0 || job.wants(kind));
        let jobs = self.state.live().map(|(_, job)| job).filter(wants);
        let division = share::inverse_remaining(jobs, kind, self.state.slots, alone, self.now);
        let needed = jobs_need(self.state.live().map(|(_, job)| job).filter(wants), kind);
        self.levels[kind.ix()] = Level { per_weight: division.level, needed };
        let jobs: Vec<JobIx> = self.state.live().filter(|(_, job)| wants(job)).map(|(jx, _)| jx).collect();
        for (&jx, share) in jobs.iter().zip(division.shares) {
            self.state.job_mut(jx).facts[kind.ix()].owed = share;
        }
        if self.slot_policy(kind).order == JobOrder::SlotsOverShare {
            jobs.into_iter().for_each(|jx| self.touch(jx, kind));
        }
    }

    /// Hadoop's fair scheduler: slots to pools by weight, min shares first; a pool's slots to its jobs by weight.
    fn share_by_weight(&mut self, kind: Kind) {
        let groups = self.fair_shares_of_groups(kind);
        let line = self.line(kind);
        let mut members: Vec<Vec<JobIx>> = vec![Vec::new(); groups.len()];
        for (jx, job) in self.state.live().filter(|(_, job)| !job.closed) {
            let facts = job.facts(kind);
            if facts.held() + facts.demand() > 0 {
                members[line.group_of(jx) as usize].push(jx);
            }
        }
        for (group, members) in groups.into_iter().zip(members) {
            let claimants: Vec<Claimant> = members.iter().map(|&jx| job_claimant(self.state.job(jx), kind)).collect();
            for (jx, share) in members.into_iter().zip(share::divide(group.fair, &claimants).shares) {
                self.state.job_mut(jx).facts[kind.ix()].owed = share;
            }
        }
    }

    /// What each group is owed: a group's share is divided among the groups inside it and its own jobs together.
    pub(super) fn fair_shares_of_groups(&self, kind: Kind) -> Vec<GroupShare> {
        let groups = self.line(kind).groups();
        let mut own_need = vec![0.0; groups.len()];
        for (jx, job) in self.state.live().filter(|(_, job)| !job.closed && job.may_start(kind)) {
            let facts = job.facts(kind);
            own_need[self.line(kind).group_of(jx) as usize] += f64::from(facts.held() + facts.demand());
        }
        // Groups are made after their parents, so going backwards meets children first.
        let mut need = own_need.clone();
        for at in (1..groups.len()).rev() {
            need[groups[at].parent()] += need[at];
        }
        let guaranteed = groups.iter().map(|group| f64::from(group.min));
        let mut shares: Vec<GroupShare> =
            guaranteed.zip(&need).map(|(min, &need)| GroupShare { min, fair: 0.0, need }).collect();
        shares[0].fair = f64::from(self.state.slots[kind.ix()]);
        for at in 0..groups.len() {
            let inside: Vec<usize> = (at + 1..groups.len()).filter(|&child| groups[child].parent() == at).collect();
            let mut claimants = vec![Claimant { weight: 1.0, min: 0.0, need: own_need[at] }];
            let claimant = |&child: &usize| Claimant {
                weight: groups[child].weight,
                min: shares[child].min,
                need: shares[child].need,
            };
            claimants.extend(inside.iter().map(claimant));
            let division = share::divide(shares[at].fair, &claimants).shares;
            shares[at].fair = division[0];
            for (child, fair) in inside.into_iter().zip(&division[1..]) {
                shares[child].fair = *fair;
            }
        }
        shares
    }

    /// Running tasks whose pace is far below their job's mean pace.
    fn find_laggards(&self, rule: Speculation) -> Vec<(crate::ids::JobId, Kind, u32)> {
        let mut laggards = Vec::new();
        for (_, job) in self.state.live().filter(|(_, job)| !job.closed) {
            for kind in Kind::BOTH {
                // While tasks wait that never ran, a slot is better spent on them.
                if job.facts(kind).demand() > 0 {
                    continue;
                }
                let Some(mean) = estimate::observed_task_time(job, kind, self.now) else { continue };
                let lags = |&&index: &&u32| lags(job, kind, index, mean.as_secs_f64(), rule, self.now);
                laggards.extend(job.facts(kind).live.iter().filter(lags).map(|&index| (job.id, kind, index)));
            }
        }
        laggards
    }
}

fn jobs_need<'a>(jobs: impl Iterator<Item = &'a Job>, kind: Kind) -> f64 {
    jobs.map(|job| f64::from(job.facts(kind).held() + job.facts(kind).demand())).sum()
}

fn job_claimant(job: &Job, kind: Kind) -> Claimant {
    let facts = job.facts(kind);
    let need = if job.may_start(kind) { f64::from(facts.held() + facts.demand()) } else { f64::from(facts.held()) };
    Claimant { weight: job.priority.weight(), min: 0.0, need }
}

fn lags(job: &Job, kind: Kind, index: u32, mean_s: f64, rule: Speculation, now: Time) -> bool {
    let task = job.task(kind, index);
    let ran = now.since(task.launched);
    let twinned = job.twins.iter().any(|twin| (twin.kind, twin.task) == (kind, index));
    if task.state != TaskState::Running || twinned || ran < rule.after {
        return false;
    }
    let pace = f64::from(task.progress_ppm) / f64::from(WHOLE_PPM) / ran.as_secs_f64().max(1e-6);
    pace < rule.rate_below / mean_s.max(1e-6)
}
