//! Timer events: what is computed periodically.

use super::{Cluster, Decision, Decisions};
use crate::action::Action;
use crate::ids::{Kind, PerKind};
use crate::policy::estimates;
use crate::policy::orders::Order;
use crate::policy::shares::Share;
use crate::timer::Timer;
use crate::units::Time;
use std::sync::Arc;

impl Cluster {
    pub(super) fn timer_fired(&mut self, timer: Timer, out: &mut Vec<Action>, due: &mut Decisions) {
        // A timer that was not set, or not for now, is ignored: a backend may report it late or twice.
        if self.timers.expiry(timer).is_none_or(|at| self.now < at) {
            return;
        }
        self.timers.clear(timer);
        match timer {
            Timer::Estimates => self.update_estimates(),
            Timer::Preemption => {
                due.extend(Kind::BOTH.map(Decision::Preempt));
                due.push(Decision::RecoverAgain);
            }
            Timer::Speculation => {
                self.find_stragglers();
                due.push(Decision::EndStragglers);
            }
            Timer::Retry => self.retry(out),
        }
        due.push(Decision::SetTimers);
    }

    /// Sets the timers that the policy needs and that are not set. Without jobs there is nothing to compute.
    pub(crate) fn set_timers(&mut self, out: &mut Vec<Action>) {
        if self.state.jobs().is_empty() {
            return;
        }
        for timer in Arc::clone(&self.policy).timers() {
            if self.timers.expiry(timer).is_none() {
                let at = self.now + self.policy.update_interval;
                self.timers.set(timer, at);
                out.push(Action::SetTimer { timer, at });
            }
        }
    }

    /// Lets the preemption timer fire at this time at the latest.
    pub(crate) fn preempt_by(&mut self, at: Time, out: &mut Vec<Action>) {
        let timer = Timer::Preemption;
        if self.timers.expiry(timer).is_none_or(|expiry| at < expiry) {
            self.timers.set(timer, at);
            out.push(Action::SetTimer { timer, at });
        }
    }

    /// Advances the lags, computes estimates and shares, and ranks all jobs by them.
    fn update_estimates(&mut self) {
        self.advance_lags();
        self.compute_estimates();
    }

    /// Computes estimates and shares from what is known now, and ranks all jobs by them.
    pub(super) fn compute_estimates(&mut self) {
        let mut learned = std::mem::take(&mut self.memory.task_times);
        let estimates = estimates::update_all(self.view(), self.needs, &mut learned);
        self.memory.task_times = learned;
        let (jobs, _) = self.state.jobs_and_nodes();
        jobs.iter_mut().zip(estimates).for_each(|((_, job), estimate)| job.set_estimate(estimate));
        self.update_due();
        for kind in Kind::BOTH {
            self.compute_shares(kind);
        }
        for job in self.state.jobs().keys() {
            self.rerank_both(job);
        }
        Kind::BOTH.into_iter().for_each(|kind| self.update_refusals(kind));
    }

    /// Advances the lags of jobs and groups to now.
    fn advance_lags(&mut self) {
        let mut lags = std::mem::take(&mut self.memory.lags);
        let groups = PerKind::from_fn(|kind| self.rankings.groups(kind));
        for (job, estimate) in self.policy.advance_lags(self.view(), groups, &mut lags) {
            self.state.job_mut(job).set_estimate(estimate);
        }
        self.memory.lags = lags;
    }

    /// Sets how many slots jobs and groups are due because they are late.
    fn update_due(&mut self) {
        let mut lags = std::mem::take(&mut self.memory.lags);
        for kind in Kind::BOTH {
            let groups = self.rankings.groups(kind);
            let Some(due) = self.policy.due_slots(self.view(), kind, groups, &mut lags) else { continue };
            let (jobs, _) = self.state.jobs_and_nodes();
            jobs.iter_mut().for_each(|(_, job)| job.set_due(kind, 0.0, 0));
            for (position, &(job, slots)) in (1..).zip(&due.jobs) {
                jobs.get_mut(job).set_due(kind, slots, position);
            }
            let charged = self.state.jobs().iter().map(|(key, job)| (key, job.counts(kind).charged()));
            if let Some(ranking) = self.rankings.guarantee_mut(kind) {
                ranking.set_due_shares(&due.groups, charged);
            }
        }
        self.memory.lags = lags;
    }

    /// Computes the shares of slots of a kind, if anything depends on them.
    pub(super) fn compute_shares(&mut self, kind: Kind) {
        let Some(shares) = Share::compute(self.view(), kind, &self.policy, self.rankings.groups(kind)) else { return };
        let changes_ranks = self.policy.slots(kind).order.needs().fair_share;
        if let Some(level) = shares.level {
            self.memory.water_levels[kind] = level;
        }
        for &(job, share) in &shares.of {
            self.state.job_mut(job).set_fair_share(kind, share);
        }
        if changes_ranks {
            shares.of.into_iter().for_each(|(job, _)| self.rerank(job, kind));
        }
    }

    /// Finds stragglers that may get a speculative attempt.
    fn find_stragglers(&mut self) {
        self.memory.stragglers = PerKind::from_fn(|kind| self.policy.stragglers(self.view(), kind));
    }
}
