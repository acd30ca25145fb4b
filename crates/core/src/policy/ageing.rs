//! Ageing: a job that fair sharing would have finished by now ranks first, so that no job waits for ever behind smaller ones.
//!
//! A *virtual fair cluster* (FSP: Friedman and Henderson, 2003; HFSP: Pastorelli et al., 2013; PSBS: Dell'Amico et al., 2016) divides all
//! slots among the jobs: among pools, queues or users by their rights, then among jobs by weight, reduces after maps, and no job more than it
//! has tasks. The work that it does for a job is the job's *credit*. A job is *late* once its credit reaches `late_after` times its size. A late
//! job ranks before all others, but only while it has less than its fair share of the real slots: with more, one late large job would block all
//! small ones for as long as it runs.
//!
//! Credits advance when estimates are computed, by one division of the slots. Between two updates a decision only reads a flag, so that its
//! cost stays that of the ranking. A job that has ended leaves the virtual cluster at once, which lets the others age sooner.
//!
//! `late_after` must exceed the inverse of the fraction of slot time that is work, or every job is late and the order decays to fair
//! sharing.

use super::orders::{Rank, allocated, milli, ratio};
use super::ranking::Ranking;
use super::shares::weighted;
use super::{Needs, SlotPolicy, View, area};
use crate::ids::{Kind, PerKind};
use crate::reason::Measure;
use crate::state::{Estimate, Job, JobKey};
use crate::units::Time;
use serde::{Deserialize, Serialize};

/// When a job is late.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ageing {
    /// A job is late once fair sharing would have done this many times its work; at least 1.
    pub late_after: f64,
}

/// Ranks of jobs that are not due are above all ranks of those that are. No order uses this bit.
const NOT_DUE: Rank = 1 << 127;

/// A late job stays late until its credit is below this fraction of what made it late, so that it does not change with every estimate.
const STAYS_LATE: f64 = 0.8;

impl Ageing {
    pub(super) fn needs(&self) -> Needs {
        Needs { attempt_progress: true, remaining_time: true, remaining_area: true, fair_share: true, ..Needs::NOTHING }
    }

    pub(super) fn check(&self, map: &SlotPolicy, reduce: &SlotPolicy) -> Result<(), String> {
        if !(self.late_after.is_finite() && self.late_after >= 1.0) {
            return Err("late_after must be a number of at least 1; write for example 1.5".into());
        }
        if map.share.is_none() || reduce.share.is_none() {
            return Err("a late job is served up to its share; set share = \"weighted\" for maps and reduces".into());
        }
        Ok(())
    }

    /// The rank of a job, given its rank by the order alone.
    pub(super) fn rank(&self, job: &Job, kind: Kind, extra: i32, by_order: Rank) -> Rank {
        if is_due(job, kind, extra) {
            let share = job.counts(kind).fair_share.max(1e-3);
            ratio(allocated(job, kind, extra), share) << 32 | Rank::from(job.sequence())
        } else {
            NOT_DUE | by_order
        }
    }

    /// Why a job that is due ranks first; none if it is not due.
    pub(super) fn measure(&self, job: &Job, kind: Kind) -> Option<Measure> {
        let counts = job.counts(kind);
        is_due(job, kind, 0)
            .then(|| Measure::Late { allocated: counts.allocated(), share_milli: milli(counts.fair_share) })
    }

    /// The work that the virtual cluster does for each job from `since` until now, by kind.
    pub fn credits(&self, view: View<'_>, kind: Kind, groups: &Ranking, since: Time) -> Vec<(JobKey, f64)> {
        let slots = view.state.nodes().slots()[kind];
        if slots == 0 || view.now <= since {
            return Vec::new();
        }
        let speed = view.state.nodes().capacity(kind) / f64::from(slots);
        let need = |job: &Job| self.need(job, kind);
        let shares = weighted::shares_by(view, kind, groups, &need, &need);
        let credit = |(key, share): (JobKey, f64)| {
            // A job that was submitted since then was not there all the time.
            let from = since.max(view.state.job(key).submitted());
            (key, share * speed * view.now.since(from).as_secs_f64())
        };
        shares.into_iter().map(credit).collect()
    }

    /// The slots that a job can use in the virtual cluster: one for each of its tasks until its credit is complete.
    fn need(&self, job: &Job, kind: Kind) -> f64 {
        let complete = |kind: Kind| job.estimate().fair_credit_s[kind] >= self.late_after * size_s(job, kind);
        let waits_for_maps = kind == Kind::Reduce && !complete(Kind::Map);
        if complete(kind) || waits_for_maps { 0.0 } else { f64::from(area::whole_tasks(job, kind)) }
    }

    /// The estimate with whether the job is late.
    pub fn with_lateness(&self, job: &Job) -> Estimate {
        let mut estimate = *job.estimate();
        let enough = if estimate.late { STAYS_LATE } else { 1.0 } * self.late_after;
        estimate.late = Kind::BOTH.into_iter().all(|kind| estimate.fair_credit_s[kind] >= enough * size_s(job, kind));
        estimate
    }
}

/// The work of a whole job.
fn size_s(job: &Job, kind: Kind) -> f64 {
    f64::from(area::whole_tasks(job, kind)) * job.estimate().task_work_s[kind]
}

/// True if a job is late and the slot in question is within its fair share: its next one or, if it is about to lose one, one that it has.
pub fn is_due(job: &Job, kind: Kind, extra: i32) -> bool {
    let counts = job.counts(kind);
    job.estimate().late && f64::from(counts.allocated()) + f64::from(extra.min(0)) < counts.fair_share
}

/// Adds credits to a job's estimate.
pub fn with_credit(job: &Job, kind: Kind, credit_s: f64) -> Estimate {
    let mut fair_credit_s: PerKind<f64> = job.estimate().fair_credit_s;
    fair_credit_s[kind] += credit_s;
    Estimate { fair_credit_s, ..*job.estimate() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{JobSpec, Priority};
    use crate::ids::{NodeId, TaskKey};
    use crate::policy::groups::RoutingStage;
    use crate::policy::test_state::{at, cluster, job, submit};
    use crate::state::State;
    use crate::tenants::Tenants;
    use proptest::prelude::*;

    const AGEING: Ageing = Ageing { late_after: 1.5 };

    fn with_work(state: &mut State, spec: &JobSpec, map_s: f64, reduce_s: f64) -> JobKey {
        let key = submit(state, spec);
        let estimate = Estimate { task_work_s: PerKind::new(map_s, reduce_s), ..Estimate::default() };
        state.job_mut(key).set_estimate(estimate);
        key
    }

    fn advance(state: &mut State, groups: &Ranking, from_s: f64, to_s: f64) {
        let credits = Kind::BOTH.map(|kind| AGEING.credits(View { now: at(to_s), state }, kind, groups, at(from_s)));
        for (kind, credits) in Kind::BOTH.into_iter().zip(credits) {
            for (key, credit) in credits {
                let estimate = with_credit(state.job(key), kind, credit);
                state.job_mut(key).set_estimate(estimate);
            }
        }
        for key in state.jobs().keys() {
            let estimate = AGEING.with_lateness(state.job(key));
            state.job_mut(key).set_estimate(estimate);
        }
    }

    fn flat(jobs: &[JobKey]) -> Ranking {
        let mut ranking = Ranking::new(RoutingStage::Flat, Kind::Map, &Tenants::default());
        jobs.iter().for_each(|&key| ranking.add_job(key, 0, "", "", None));
        ranking
    }

    #[test]
    fn a_job_is_late_once_fair_sharing_would_have_done_late_after_times_its_work() {
        let mut state = cluster(1, 4, 2);
        let keys = [0, 1].map(|id| with_work(&mut state, &job(id, 4, 2), 10.0, 5.0));
        let groups = flat(&keys);
        // Each has 2 of 4 map slots: 40 s of maps, 1.5 times, take 30 s; then 10 s of reduces on one slot take 15 s.
        let late = |state: &State| state.job(keys[0]).estimate().late;
        for (from, to, expected) in [(0.0, 29.0, false), (29.0, 30.0, false), (30.0, 44.0, false), (44.0, 45.0, true)] {
            advance(&mut state, &groups, from, to);
            assert_eq!(late(&state), expected, "at {to} s");
        }
    }

    #[test]
    fn a_late_job_ranks_first_only_below_its_fair_share() {
        let mut state = cluster(1, 4, 2);
        let key = with_work(&mut state, &job(0, 4, 0), 10.0, 1.0);
        state.job_mut(key).set_fair_share(Kind::Map, 1.0);
        let rank = |state: &State, extra| AGEING.rank(state.job(key), Kind::Map, extra, 7);
        assert_eq!(rank(&state, 0), NOT_DUE | 7, "not late");
        let estimate = Estimate { late: true, ..*state.job(key).estimate() };
        state.job_mut(key).set_estimate(estimate);
        assert!(rank(&state, 0) < NOT_DUE && rank(&state, 1) < NOT_DUE, "the slot that completes its share is due");
        state.launch(key, TaskKey::map(0), NodeId(0), at(0.0));
        assert_eq!(rank(&state, 0), NOT_DUE | 7, "it has its share");
        assert!(rank(&state, -1) < NOT_DUE, "it would lose a slot of its share");
    }

    /// The reference: seconds of `step` in which each job in turn gets slots one by one, always the one with the fewest for its weight.
    fn credits_by_steps(jobs: &[(u32, f64, f64)], slots: u32, seconds: u32, parts: u32) -> Vec<f64> {
        let mut credit = vec![0.0; jobs.len()];
        for _ in 0..seconds {
            // Slots in small parts approximate the division.
            let mut held = vec![0u32; jobs.len()];
            for _ in 0..slots * parts {
                let open = (0..jobs.len()).filter(|&j| {
                    let (maps, work_s, _) = jobs[j];
                    credit[j] < AGEING.late_after * f64::from(maps) * work_s && held[j] < maps * parts
                });
                let next = open.min_by(|&a, &b| {
                    let level = |j: usize| f64::from(held[j]) / jobs[j].2;
                    level(a).total_cmp(&level(b))
                });
                match next {
                    Some(next) => held[next] += 1,
                    None => break,
                }
            }
            credit.iter_mut().zip(held).for_each(|(credit, held)| *credit += f64::from(held) / f64::from(parts));
        }
        credit
    }

    proptest! {
        #[test]
        fn credits_match_a_division_slot_by_slot(
            jobs in prop::collection::vec((1u32..12, 1u32..6, 0usize..3), 1..6),
            slots in 1u16..9,
            seconds in 1u32..40,
        ) {
            let priorities = [Priority::Low, Priority::Normal, Priority::High];
            let mut state = cluster(1, slots, 1);
            let keys: Vec<JobKey> = (0..).zip(&jobs).map(|(id, &(maps, work, priority))| {
                let spec = JobSpec { priority: priorities[priority], ..job(id, maps, 0) };
                with_work(&mut state, &spec, f64::from(work), 1.0)
            }).collect();
            let groups = flat(&keys);
            (0..seconds).for_each(|second| advance(&mut state, &groups, f64::from(second), f64::from(second + 1)));
            let by_steps: Vec<(u32, f64, f64)> =
                jobs.iter().map(|&(maps, work, priority)| (maps, f64::from(work), priorities[priority].weight())).collect();
            let parts = 64;
            let expected = credits_by_steps(&by_steps, u32::from(slots), seconds, parts);
            for (&key, expected) in keys.iter().zip(&expected) {
                let credit = state.job(key).estimate().fair_credit_s[Kind::Map];
                // Each second, rounding to parts of a slot moves at most one part per job; jobs that complete a second sooner or later
                // move what they held.
                let tolerance = f64::from(seconds) * jobs.len() as f64 / f64::from(parts) + 2.0 * f64::from(slots);
                prop_assert!((credit - expected).abs() <= tolerance, "{credit} and {expected}");
            }
        }
    }
}
