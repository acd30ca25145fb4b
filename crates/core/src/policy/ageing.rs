//! Ageing: no job falls far behind fair sharing, so that none waits for ever behind smaller ones.
//!
//! A *virtual fair cluster* (FSP: Friedman and Henderson, 2003; HFSP: Pastorelli et al., 2013; PSBS: Dell'Amico et al., 2016) divides all
//! slots among the jobs: among pools, queues or users by their rights, then among jobs by weight, reduces after maps, and no job more than it
//! has tasks. Its slots are as efficient as the real ones (`efficiency.rs`). The work that it does for a job is the job's *credit*. A job that has ended stays in the virtual cluster until its credit is
//! complete there too.
//!
//! Sort the jobs by when the virtual cluster will complete them, and let R be the work that the first k of them have left and V what they have
//! left in the virtual cluster. While R <= (1 + `late_after`) V for every k, the policy's order is free. Where that does not hold, the first k
//! jobs are *late*: they rank before all others, in this order, up to the slots with which R falls as fast as it has to. `docs/giveway.md` proves
//! what follows from this for the completion of a job.
//!
//! Credits and lateness are computed with the estimates. Between two updates a decision only reads a number, so that its cost stays that of
//! the ranking.

use super::efficiency::Efficiency;
use super::orders::{Rank, milli};
use super::ranking::Ranking;
use super::shares::{Claimant, divide, weighted};
use super::{Needs, View, area};
use crate::ids::{Kind, PerKind};
use crate::reason::Measure;
use crate::state::{Estimate, Job, JobKey};
use crate::units::{Span, Time};
use serde::{Deserialize, Serialize};

/// When a job is late.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ageing {
    /// How far jobs may fall behind fair sharing, as a fraction of the work that fair sharing would have left; 0 or more.
    pub late_after: f64,
}

/// Ranks of jobs that are not due are above all ranks of those that are. No order uses this bit.
const NOT_DUE: Rank = 1 << 127;

/// A job that has ended, but not yet in the virtual cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EndedJob {
    left_s: PerKind<f64>,
    tasks: PerKind<u32>,
    weight: f64,
}

/// The slots that jobs have in the virtual cluster.
struct VirtualShares {
    live: Vec<(JobKey, f64)>,
    /// In the order of the ended jobs.
    ended: Vec<f64>,
}

/// The work that the virtual cluster has done for each job.
pub struct Credits {
    /// Of the live jobs.
    pub live: Vec<(JobKey, f64)>,
    /// Of the ended ones, in their order.
    pub ended: Vec<f64>,
}

/// What a late job needs to catch up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lateness {
    /// The late job.
    pub job: JobKey,
    /// It ranks first up to this many slots.
    pub slots: f64,
    /// Its position in the order in which the virtual cluster will complete the jobs.
    pub position: u32,
}

/// A job in the order in which the virtual cluster completes the jobs.
struct Entry {
    /// None if it has ended.
    job: Option<JobKey>,
    sequence: u32,
    /// When the virtual cluster completes it at its present share, from now.
    completed_in_s: f64,
    /// Work left in the virtual cluster, and what that does of it per second.
    left_s: f64,
    rate: f64,
    /// Work really left, and the most slots it can use.
    really_left_s: f64,
    usable: f64,
}

impl Ageing {
    pub(super) fn needs(&self) -> Needs {
        Needs { attempt_progress: true, remaining_time: true, remaining_area: true, ..Needs::NOTHING }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.late_after.is_finite() && self.late_after >= 0.0 {
            return Ok(());
        }
        Err("late_after is a fraction of at least 0; write for example 0.5".into())
    }

    /// The rank of a job, given its rank by the order alone.
    pub(super) fn rank(&self, job: &Job, kind: Kind, extra: i32, by_order: Rank) -> Rank {
        if is_due(job, kind, extra) {
            Rank::from(job.estimate().late_position[kind]) << 32 | Rank::from(job.sequence())
        } else {
            NOT_DUE | by_order
        }
    }

    /// Why a job that is due ranks first; none if it is not due.
    pub(super) fn measure(&self, job: &Job, kind: Kind) -> Option<Measure> {
        let share_milli = milli(job.estimate().late_slots[kind]);
        is_due(job, kind, 0).then(|| Measure::Late { allocated: job.counts(kind).allocated(), share_milli })
    }

    /// What is left of a job in the virtual cluster when it ends; none if it is complete there.
    pub fn ended(&self, job: &Job) -> Option<EndedJob> {
        let left_s = PerKind::from_fn(|kind| virtually_left_s(job, kind));
        let tasks = PerKind::from_fn(|kind| area::whole_tasks(job, kind));
        let weight = job.priority().weight();
        (left_s.iter().sum::<f64>() > 0.0).then_some(EndedJob { left_s, tasks, weight })
    }

    /// The work that the virtual cluster does for each job from `since` until now, by kind.
    pub fn credits(
        &self,
        view: View<'_>,
        kind: Kind,
        groups: &Ranking,
        ended: &[EndedJob],
        efficiency: &Efficiency,
        since: Time,
    ) -> Option<Credits> {
        if view.now <= since {
            return None;
        }
        let speed = mean_speed(view, kind)? * efficiency.of(kind);
        let shares = shares(view, kind, groups, ended);
        let credit = |(key, share): (JobKey, f64)| {
            // A job that was submitted since then was not there all the time.
            let from = since.max(view.state.job(key).submitted());
            (key, share * speed * view.now.since(from).as_secs_f64())
        };
        let elapsed_s = view.now.since(since).as_secs_f64();
        Some(Credits {
            live: shares.live.into_iter().map(credit).collect(),
            ended: shares.ended.into_iter().map(|share| share * speed * elapsed_s).collect(),
        })
    }

    /// The late jobs. Work that is behind is caught up within about `horizon`.
    pub fn late(
        &self,
        view: View<'_>,
        kind: Kind,
        groups: &Ranking,
        ended: &[EndedJob],
        efficiency: &Efficiency,
        horizon: Span,
    ) -> Vec<Lateness> {
        let Some(speed) = mean_speed(view, kind) else { return Vec::new() };
        let speed = speed * efficiency.of(kind);
        let slots = f64::from(view.state.nodes().slots()[kind]);
        let order = completion_order(view, kind, groups, ended, speed);
        let catch_up = self.catch_up(&order, slots, speed, horizon.as_secs_f64());
        let late = (0..).zip(&order).zip(catch_up).filter(|&(_, slots)| slots > 0.0);
        late.filter_map(|((position, entry), slots)| Some(Lateness { job: entry.job?, slots, position })).collect()
    }

    /// The slots that each job of the order needs, so that none falls further behind.
    fn catch_up(&self, order: &[Entry], slots: f64, speed: f64, horizon_s: f64) -> Vec<f64> {
        let mut given = vec![0.0; order.len()];
        let (mut all_given, mut with_room) = (0.0, 0);
        let (mut really_left_s, mut left_s, mut rate) = (0.0, 0.0, 0.0);
        for (at, entry) in order.iter().enumerate() {
            really_left_s += entry.really_left_s;
            left_s += entry.left_s;
            rate += entry.rate;
            let allowed_s = (1.0 + self.late_after) * left_s;
            if really_left_s <= allowed_s + 1e-9 {
                continue;
            }
            // Without anything left in the virtual cluster, all slots. Otherwise as many as keep up with it, and some to catch up.
            let needed = if left_s <= 0.0 {
                slots
            } else {
                let keep_up = (1.0 + self.late_after) * rate;
                let catch_up = (really_left_s - allowed_s) / horizon_s.max(1e-3);
                ((keep_up + catch_up) / speed).min(slots)
            };
            // Jobs that the virtual cluster completes sooner come first.
            while all_given < needed && with_room <= at {
                let part = (order[with_room].usable - given[with_room]).min(needed - all_given).max(0.0);
                given[with_room] += part;
                all_given += part;
                if given[with_room] >= order[with_room].usable {
                    with_room += 1;
                }
            }
        }
        given
    }
}

/// The order in which the virtual cluster completes the jobs, at their present shares; ended jobs included. Reduces that wait for maps there
/// are not considered.
fn completion_order(view: View<'_>, kind: Kind, groups: &Ranking, ended: &[EndedJob], speed: f64) -> Vec<Entry> {
    let shares = shares(view, kind, groups, ended);
    let entry = |left_s: f64, share: f64| Entry {
        job: None,
        sequence: 0,
        completed_in_s: if left_s > 0.0 { left_s / (share * speed) } else { 0.0 },
        left_s,
        rate: share * speed,
        really_left_s: 0.0,
        usable: 0.0,
    };
    let of_live = |(key, share): (JobKey, f64)| {
        let job = view.state.job(key);
        let counts = job.counts(kind);
        Entry {
            job: Some(key),
            sequence: job.sequence(),
            really_left_s: area::tasks_left(job, kind) * job.estimate().task_work_s[kind],
            usable: f64::from(counts.allocated() + counts.demand()),
            ..entry(virtually_left_s(job, kind), share)
        }
    };
    let done = |job: &Job| virtually_left_s(job, kind) <= 0.0 && !waits_for_maps(job, kind);
    let known = view.state.jobs().iter().filter(|(_, job)| !job.is_closed() && !area::is_unknown(job));
    let completed = known.filter(|(_, job)| done(job) && job.left(kind) > 0).map(|(key, _)| (key, 0.0));
    let sharing = shares.live.into_iter().filter(|&(key, share)| share > 0.0 && !area::is_unknown(view.state.job(key)));
    let mut order: Vec<Entry> = completed.chain(sharing).map(of_live).collect();
    let with_share = ended.iter().zip(shares.ended).filter(|&(_, share)| share > 0.0);
    order.extend(with_share.map(|(ended, share)| entry(ended.left_s[kind], share)));
    order.sort_by(|a, b| a.completed_in_s.total_cmp(&b.completed_in_s).then(a.sequence.cmp(&b.sequence)));
    order
}

/// The division of the virtual cluster. Ended jobs share with all others by weight; what is left is divided by the rights of groups.
fn shares(view: View<'_>, kind: Kind, groups: &Ranking, ended: &[EndedJob]) -> VirtualShares {
    let slots = f64::from(view.state.nodes().slots()[kind]);
    let need = |job: &Job| {
        let needs_slots = virtually_left_s(job, kind) > 0.0 && !waits_for_maps(job, kind);
        if needs_slots { f64::from(area::whole_tasks(job, kind)) } else { 0.0 }
    };
    let of_ended = |ended: &EndedJob| {
        let waits = kind == Kind::Reduce && ended.left_s[Kind::Map] > 0.0;
        let needs_slots = ended.left_s[kind] > 0.0 && !waits;
        let need = if needs_slots { f64::from(ended.tasks[kind]) } else { 0.0 };
        Claimant { weight: ended.weight, min: 0.0, need }
    };
    let mut claimants: Vec<Claimant> = ended.iter().map(of_ended).collect();
    if claimants.iter().any(|ended| ended.need > 0.0) {
        let live = view.state.jobs().iter().filter(|(_, job)| !job.is_closed());
        claimants.extend(live.map(|(_, job)| Claimant { weight: job.priority().weight(), min: 0.0, need: need(job) }));
        let mut divided = divide(slots, &claimants).shares;
        divided.truncate(ended.len());
        let part = 1.0 - divided.iter().sum::<f64>() / slots.max(1.0);
        VirtualShares { live: weighted::shares_by(view, kind, groups, &need, &need, part.max(0.0)), ended: divided }
    } else {
        VirtualShares {
            live: weighted::shares_by(view, kind, groups, &need, &need, 1.0),
            ended: vec![0.0; ended.len()],
        }
    }
}

/// Work that a slot of a kind does per second; none without slots.
fn mean_speed(view: View<'_>, kind: Kind) -> Option<f64> {
    let nodes = view.state.nodes();
    let slots = nodes.slots()[kind];
    (slots > 0).then(|| nodes.capacity(kind) / f64::from(slots))
}

/// The work of a job that its credit does not cover.
fn virtually_left_s(job: &Job, kind: Kind) -> f64 {
    let size_s = f64::from(area::whole_tasks(job, kind)) * job.estimate().task_work_s[kind];
    (size_s - job.estimate().fair_credit_s[kind]).max(0.0)
}

/// In the virtual cluster reduces begin after maps.
fn waits_for_maps(job: &Job, kind: Kind) -> bool {
    kind == Kind::Reduce && virtually_left_s(job, Kind::Map) > 0.0
}

/// True if a job is late and the slot in question is one of those that it needs to catch up: its next one or, if it is about to lose one, one
/// that it has.
pub fn is_due(job: &Job, kind: Kind, extra: i32) -> bool {
    f64::from(job.counts(kind).allocated()) + f64::from(extra.min(0)) < job.estimate().late_slots[kind]
}

/// Adds credit to a job's estimate.
pub fn with_credit(job: &Job, kind: Kind, credit_s: f64) -> Estimate {
    let mut fair_credit_s: PerKind<f64> = job.estimate().fair_credit_s;
    fair_credit_s[kind] += credit_s;
    Estimate { fair_credit_s, ..*job.estimate() }
}

/// Adds credits to the ended jobs.
pub fn credit_ended(jobs: &mut [EndedJob], kind: Kind, credits_s: &[f64]) {
    for (job, credit_s) in jobs.iter_mut().zip(credits_s) {
        job.left_s[kind] = (job.left_s[kind] - credit_s).max(0.0);
    }
}

/// Drops the jobs that are complete in the virtual cluster.
pub fn drop_complete(jobs: &mut Vec<EndedJob>) {
    jobs.retain(|job| job.left_s.iter().any(|&left_s| left_s > 0.0));
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

    const AGEING: Ageing = Ageing { late_after: 0.5 };

    fn with_work(state: &mut State, spec: &JobSpec, map_s: f64, reduce_s: f64) -> JobKey {
        let key = submit(state, spec);
        let estimate = Estimate { task_work_s: PerKind::new(map_s, reduce_s), ..Estimate::default() };
        state.job_mut(key).set_estimate(estimate);
        key
    }

    fn advance(state: &mut State, groups: &Ranking, ended: &mut [EndedJob], from_s: f64, to_s: f64) {
        let view = View { now: at(to_s), state };
        let credits =
            Kind::BOTH.map(|kind| AGEING.credits(view, kind, groups, ended, &Efficiency::default(), at(from_s)));
        for (kind, credits) in Kind::BOTH.into_iter().zip(credits) {
            let credits = credits.unwrap();
            for (key, credit_s) in credits.live {
                let estimate = with_credit(state.job(key), kind, credit_s);
                state.job_mut(key).set_estimate(estimate);
            }
            credit_ended(ended, kind, &credits.ended);
        }
    }

    fn flat(jobs: &[JobKey]) -> Ranking {
        let mut ranking = Ranking::new(RoutingStage::Flat, Kind::Map, &Tenants::default());
        jobs.iter().for_each(|&key| ranking.add_job(key, 0, "", "", None));
        ranking
    }

    fn late(state: &State, kind: Kind, groups: &Ranking, ended: &[EndedJob]) -> Vec<(JobKey, f64)> {
        let (view, full) = (View { now: at(99.0), state }, Efficiency::default());
        let late = AGEING.late(view, kind, groups, ended, &full, Span::from_secs(10));
        late.into_iter().map(|late| (late.job, late.slots)).collect()
    }

    #[test]
    fn a_job_is_late_once_it_has_half_as_much_again_left_as_under_fair_sharing() {
        let mut state = cluster(1, 4, 2);
        let keys = [0, 1].map(|id| with_work(&mut state, &job(id, 4, 2), 10.0, 5.0));
        let groups = flat(&keys);
        // Each has 2 of 4 map slots: after 6 s, 28 of 40 s are left; half as much again is 42 s.
        advance(&mut state, &groups, &mut [], 0.0, 6.0);
        assert_eq!(late(&state, Kind::Map, &groups, &[]), []);
        // After 8 s, 24 s are left: the first job has 40 s, allowed are 36 s. To keep up takes 3 slots, to catch up 0.4; both jobs together need
        // all slots, and the first can use them.
        advance(&mut state, &groups, &mut [], 6.0, 8.0);
        assert_eq!(late(&state, Kind::Map, &groups, &[]), [(keys[0], 4.0)]);
        assert_eq!(late(&state, Kind::Reduce, &groups, &[]), [], "reduces wait for maps");
        // After 20 s the maps are complete in the virtual cluster, and after 25 s the reduces: everything is late.
        advance(&mut state, &groups, &mut [], 8.0, 20.0);
        advance(&mut state, &groups, &mut [], 20.0, 30.0);
        assert_eq!(late(&state, Kind::Map, &groups, &[]), [(keys[0], 4.0)]);
        assert_eq!(late(&state, Kind::Reduce, &groups, &[]), [(keys[0], 2.0)]);
    }

    #[test]
    fn a_late_job_ranks_first_only_up_to_the_slots_it_needs() {
        let mut state = cluster(1, 4, 2);
        let key = with_work(&mut state, &job(0, 4, 0), 10.0, 1.0);
        let rank = |state: &State, extra| AGEING.rank(state.job(key), Kind::Map, extra, 7);
        assert_eq!(rank(&state, 0), NOT_DUE | 7, "not late");
        let estimate = Estimate { late_slots: PerKind::new(0.5, 0.0), ..*state.job(key).estimate() };
        state.job_mut(key).set_estimate(estimate);
        assert!(rank(&state, 0) < NOT_DUE && rank(&state, 1) < NOT_DUE);
        state.launch(key, TaskKey::map(0), NodeId(0), at(0.0));
        assert_eq!(rank(&state, 0), NOT_DUE | 7, "it has what it needs");
        assert!(rank(&state, -1) < NOT_DUE, "it would lose a slot that it needs");
    }

    #[test]
    fn an_ended_job_takes_part_until_it_is_complete_in_the_virtual_cluster() {
        let mut state = cluster(1, 4, 2);
        let keys = [0, 1].map(|id| with_work(&mut state, &job(id, 4, 0), 10.0, 5.0));
        let mut ended = vec![AGEING.ended(state.job(keys[1])).unwrap()];
        state.close_job(keys[1]);
        state.remove_job(keys[1]);
        let groups = flat(&keys[..1]);
        advance(&mut state, &groups, &mut ended, 0.0, 10.0);
        assert_eq!(state.job(keys[0]).estimate().fair_credit_s[Kind::Map], 20.0);
        assert_eq!(ended[0].left_s[Kind::Map], 20.0);
        advance(&mut state, &groups, &mut ended, 10.0, 20.0);
        drop_complete(&mut ended);
        assert_eq!(ended, []);
        assert_eq!(AGEING.ended(state.job(keys[0])), None);
    }

    /// The reference: each second, slots go one part after the other to the job with the fewest for its weight.
    fn credits_by_steps(jobs: &[(u32, f64, f64)], slots: u32, seconds: u32, parts: u32) -> Vec<f64> {
        let mut credit = vec![0.0; jobs.len()];
        for _ in 0..seconds {
            let mut held = vec![0u32; jobs.len()];
            for _ in 0..slots * parts {
                let open = (0..jobs.len()).filter(|&j| {
                    let (maps, work_s, _) = jobs[j];
                    credit[j] < f64::from(maps) * work_s && held[j] < maps * parts
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

    /// A job of the fluid model: it can use all slots.
    #[derive(Clone, Copy, Debug)]
    struct FluidJob {
        submitted: u32,
        left: f64,
        really_left: f64,
        /// Completion under fair sharing and under the policy.
        fair: Option<f64>,
        done: Option<f64>,
    }

    /// Runs the fluid model in short steps: one slot of speed 1, fair sharing in the virtual cluster, least work left first in the real one,
    /// late jobs before that. Returns the completion times since submission under fair sharing and under the policy.
    fn fluid(jobs: &[(u32, u32)], late_after: f64) -> Vec<(f64, f64)> {
        const STEPS: u32 = 50;
        const STEP: f64 = 1.0 / STEPS as f64;
        let ageing = Ageing { late_after };
        let new = |&(submitted, size): &(u32, u32)| {
            let size = f64::from(size);
            FluidJob { submitted, left: size, really_left: size, fair: None, done: None }
        };
        let mut jobs: Vec<FluidJob> = jobs.iter().map(new).collect();
        let mut step = 0;
        while jobs.iter().any(|job| job.fair.is_none() || job.done.is_none()) {
            let here = |job: &FluidJob| job.submitted * STEPS <= step;
            let sharing = jobs.iter().filter(|job| here(job) && job.left > 0.0).count() as f64;
            let present = (0u32..).zip(&jobs).filter(|(_, job)| here(job) && (job.left > 0.0 || job.really_left > 0.0));
            let mut order: Vec<Entry> = present
                .map(|(sequence, job)| Entry {
                    job: None,
                    sequence,
                    completed_in_s: job.left,
                    left_s: job.left,
                    rate: if job.left > 0.0 { 1.0 / sharing } else { 0.0 },
                    really_left_s: job.really_left,
                    usable: if job.really_left > 0.0 { 1.0 } else { 0.0 },
                })
                .collect();
            order.sort_by(|a, b| a.completed_in_s.total_cmp(&b.completed_in_s).then(a.sequence.cmp(&b.sequence)));
            let mut free = STEP;
            let mut serve = |job: &mut FluidJob, most: f64| {
                let part = most.min(free).min(job.really_left);
                job.really_left -= part;
                free -= part;
            };
            for (entry, slots) in order.iter().zip(ageing.catch_up(&order, 1.0, 1.0, 10.0 * STEP)) {
                serve(&mut jobs[entry.sequence as usize], slots * STEP);
            }
            let mut shortest: Vec<u32> = order.iter().map(|entry| entry.sequence).collect();
            shortest.sort_by(|&a, &b| jobs[a as usize].really_left.total_cmp(&jobs[b as usize].really_left));
            shortest.into_iter().for_each(|job| serve(&mut jobs[job as usize], STEP));
            for job in jobs.iter_mut().filter(|job| here(job)) {
                job.left = if job.left <= STEP / sharing + 1e-9 { 0.0 } else { job.left - STEP / sharing };
                let since = f64::from(step + 1 - job.submitted * STEPS) * STEP;
                if job.left <= 0.0 {
                    job.fair.get_or_insert(since);
                }
                if job.really_left <= 1e-9 {
                    job.really_left = 0.0;
                    job.done.get_or_insert(since);
                }
            }
            step += 1;
        }
        jobs.iter().map(|job| (job.fair.unwrap(), job.done.unwrap())).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// The theorem of `docs/giveway.md`: completion <= fair completion + late_after * the longest fair completion. Without allowance,
        /// no job is later than under fair sharing.
        #[test]
        fn no_job_is_later_than_fair_sharing_and_the_allowance(
            jobs in prop::collection::vec((0u32..40, prop_oneof![1u32..4, 1u32..30]), 1..10),
            late_after in prop_oneof![Just(0.0), Just(0.25), Just(1.0)],
        ) {
            let ends = fluid(&jobs, late_after);
            let longest = ends.iter().map(|&(fair, _)| fair).fold(0.0, f64::max);
            for (&(fair, done), job) in ends.iter().zip(&jobs) {
                // Steps are short against the work of any job.
                prop_assert!(done <= fair + late_after * longest + 0.5, "{job:?}: {done} and {fair}, {ends:?}");
            }
        }

        /// Jobs that are submitted together need no more than 1 + late_after times their fair completion.
        #[test]
        fn a_batch_takes_at_most_one_and_the_allowance_times_fair_sharing(
            sizes in prop::collection::vec(1u32..30, 1..10),
            late_after in prop_oneof![Just(0.0), Just(0.5), Just(1.5)],
        ) {
            let jobs: Vec<(u32, u32)> = sizes.iter().map(|&size| (0, size)).collect();
            for (fair, done) in fluid(&jobs, late_after) {
                prop_assert!(done <= (1.0 + late_after) * fair + 0.5, "{done} and {fair}");
            }
        }

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
            (0..seconds).for_each(|second| advance(&mut state, &groups, &mut [], f64::from(second), f64::from(second + 1)));
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
