//! Timer events: what is computed periodically.

use super::Scheduler;
use crate::action::{Action, PreemptAction};
use crate::ids::{Kind, PerKind};
use crate::policy::ageing::Lateness;
use crate::policy::orders::Order;
use crate::policy::shares::Share;
use crate::policy::speculation::FreeNodes;
use crate::policy::{ageing, estimates};
use crate::reason::Reason;
use crate::state::Estimate;
use crate::timer::Timer;
use crate::units::Time;

/// A late job catches up within this many updates.
const LATE_HORIZON: u64 = 6;

impl Scheduler {
    pub(super) fn timer_fired(&mut self, timer: Timer, out: &mut Vec<Action>) {
        // A timer that was not set, or not for now, is ignored: a backend may report it late or twice.
        if self.timers.expiry(timer).is_none_or(|at| self.now < at) {
            return;
        }
        self.timers.clear(timer);
        match timer {
            Timer::Estimates => self.update_estimates(),
            Timer::Preemption => {
                self.preempt_both(out);
                self.recover_again(out);
            }
            Timer::Speculation => self.find_stragglers(out),
            Timer::Retry => self.retry(out),
        }
        self.set_timers(out);
    }

    /// Sets the timers that the policy needs and that are not set. Without jobs there is nothing to compute.
    pub(super) fn set_timers(&mut self, out: &mut Vec<Action>) {
        if self.state.jobs().is_empty() {
            return;
        }
        let preempts = !self.policy.map.preempt.is_empty()
            || !self.policy.reduce.preempt.is_empty()
            || self.policy.recovery.retries();
        let needed = [self.needs.anything(), preempts, self.policy.speculation.is_some()];
        for (timer, needed) in Timer::ALL.into_iter().zip(needed) {
            if needed && self.timers.expiry(timer).is_none() {
                let at = self.now + self.policy.update_interval;
                self.timers.set(timer, at);
                out.push(Action::SetTimer { timer, at });
            }
        }
    }

    /// Lets the preemption timer fire at this time at the latest.
    pub(super) fn preempt_by(&mut self, at: Time, out: &mut Vec<Action>) {
        let timer = Timer::Preemption;
        if self.timers.expiry(timer).is_none_or(|expiry| at < expiry) {
            self.timers.set(timer, at);
            out.push(Action::SetTimer { timer, at });
        }
    }

    /// Advances the virtual fair cluster, computes estimates and shares, and ranks all jobs by them.
    fn update_estimates(&mut self) {
        self.add_credits();
        self.compute_estimates();
    }

    /// Computes estimates and shares from what is known now, and ranks all jobs by them.
    pub(super) fn compute_estimates(&mut self) {
        let (estimates, averages) = estimates::update_all(self.view(), self.needs, self.averages);
        self.averages = averages;
        let (jobs, _) = self.state.jobs_and_nodes();
        jobs.iter_mut().zip(estimates).for_each(|((_, job), estimate)| job.set_estimate(estimate));
        self.update_lateness();
        for kind in Kind::BOTH {
            self.compute_shares(kind);
        }
        for job in self.state.jobs().keys() {
            self.rerank_both(job);
        }
        Kind::BOTH.into_iter().for_each(|kind| self.update_refusals(kind));
    }

    /// Adds the work that the virtual fair cluster has done for each job since the last update.
    fn add_credits(&mut self) {
        let Some(ageing) = self.policy.ageing else { return };
        let since = std::mem::replace(&mut self.credited_until, self.now);
        let mut efficiency = self.efficiency;
        efficiency.update(self.view(), self.now.since(since));
        self.efficiency = efficiency;
        // Both kinds from the same credits: reduces begin after the update in which the maps were completed.
        let of_kind =
            |kind| ageing.credits(self.view(), kind, self.rankings.groups(kind), &self.ended_jobs, &efficiency, since);
        for (kind, credits) in Kind::BOTH.into_iter().zip(Kind::BOTH.map(of_kind)) {
            let Some(credits) = credits else { continue };
            for (job, credit_s) in credits.live {
                let estimate = ageing::with_credit(self.state.job(job), kind, credit_s);
                self.state.job_mut(job).set_estimate(estimate);
            }
            ageing::credit_ended(&mut self.ended_jobs, kind, &credits.ended);
        }
        ageing::drop_complete(&mut self.ended_jobs);
    }

    fn update_lateness(&mut self) {
        let Some(ageing) = self.policy.ageing else { return };
        let horizon = self.policy.update_interval.times(LATE_HORIZON);
        let of_kind = |kind| {
            ageing.late(self.view(), kind, self.rankings.groups(kind), &self.ended_jobs, &self.efficiency, horizon)
        };
        let late = Kind::BOTH.map(of_kind);
        for job in self.state.jobs().keys() {
            let estimate = Estimate { late_slots: PerKind::default(), ..*self.state.job(job).estimate() };
            self.state.job_mut(job).set_estimate(estimate);
        }
        for (kind, late) in Kind::BOTH.into_iter().zip(late) {
            for Lateness { job, slots, position } in late {
                let mut estimate = *self.state.job(job).estimate();
                (estimate.late_slots[kind], estimate.late_position[kind]) = (slots, position);
                self.state.job_mut(job).set_estimate(estimate);
            }
        }
    }

    /// Computes the shares of slots of a kind, if anything depends on them.
    pub(super) fn compute_shares(&mut self, kind: Kind) {
        let Some(shares) = Share::compute(self.view(), kind, &self.policy, self.rankings.groups(kind)) else { return };
        let changes_ranks = self.policy.slots(kind).order.needs().fair_share;
        if let Some(level) = shares.level {
            self.water_levels[kind] = level;
        }
        for &(job, share) in &shares.of {
            self.state.job_mut(job).set_fair_share(kind, share);
        }
        if changes_ranks {
            shares.of.into_iter().for_each(|(job, _)| self.rerank(job, kind));
        }
    }

    /// Finds stragglers: maps end early if the policy keeps their work, the others may get a speculative attempt.
    fn find_stragglers(&mut self, out: &mut Vec<Action>) {
        let Some(speculation) = self.policy.speculation else { return };
        self.stragglers = PerKind::from_fn(|kind| speculation.stragglers(self.view(), kind));
        if !speculation.end_early || !self.decides {
            return;
        }
        let mut free = FreeNodes::of(self.view());
        for straggler in speculation.straggling_maps(self.view()) {
            let placement = &self.policy.map.placement;
            let Some(rescue) = speculation.rescue(self.view(), straggler, placement, &mut free) else { continue };
            let reason = Reason::StragglerEnded(Box::new(rescue.reason));
            self.stop_attempt(straggler.job, straggler.task, PreemptAction::EndEarly, reason, out);
            self.reserve(rescue.node, Kind::Map, straggler.job, None);
        }
    }
}
