//! Lag: how far jobs and groups of jobs are behind their fair share of slot time, and which of them are served first because of it (as in EEVDF: Stoica
//! and Abdel-Wahab, 1995).
//!
//! All of it for each kind of slots by itself, in seconds on a slot of speed 1:
//!
//! * The *share* of a job is the number of slots that fair sharing among the jobs present would give it now: among pools by weight and min share,
//!   then among jobs by weight, and to no job more than it has or can use.
//! * The job is *entitled* to the integral of the share that it would have if it had always been given its share, and has *received* that of the slots it has
//!   held.
//! * Its *work* is what it has received and what its remaining tasks will take.
//!
//! **Jobs.** A job's *deadline* is the time at which it will have been entitled to `1 +` [`MaxLag::of_work`] times its work, at its present share; that
//! is when fair sharing would complete it on a cluster that is as many times slower. Sort the jobs by deadline. If the first k need as many slots to
//! meet the k-th deadline as their shares are together, they are *late*: they rank before all others, up to these slots and earliest deadline first.
//! Late jobs together are never due more than their shares, so that a job that is not late finds its own share free. A job that would miss its deadline even with
//! all slots is late by itself, and due its own share.
//!
//! **Groups** (pools, queues). The lag of a group is the slot time that its share entitled it to and that it has not received, whatever the speed of the slots;
//! of its jobs' shares, only the fraction of the slots that they do not refuse as too slow counts. It never goes below zero. If it exceeds the fraction [`MaxLag::of_work`] of the work of the group's largest job and [`MaxLag::time`] at its share, the
//! group's share is guaranteed to it, like a min share, until it has caught up.
//!
//! **Small jobs.** A job whose whole work is at most [`MaxLag::exempt_work`] is due its share from its submission, within its group's share.
//!
//! `docs/giveway.md` has what follows for the completion of jobs. Lags are computed with the estimates. Between two updates a decision only reads a number.

use super::orders::{Rank, milli};
use super::ranking::{GroupNumbers, Ranking, TypeSet};
use super::shares::weighted;
use super::{Needs, Policy, View, area};
use crate::ids::{Kind, PerKind, TaskKey};
use crate::reason::Measure;
use crate::state::{Estimate, Job, JobKey, JobLag};
use crate::units::{Span, Time};
use serde::{Deserialize, Serialize};

/// How far jobs and groups of jobs may fall behind fair sharing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaxLag {
    /// Fraction of a job's work, at least 0.
    #[serde(alias = "late_after")]
    pub of_work: f64,
    /// Time without any slot, in addition.
    #[serde(default = "default_time")]
    pub time: Span,
    /// Jobs of at most this much work, in slot time, may not fall behind at all.
    #[serde(default = "default_exempt_work")]
    pub exempt_work: Span,
}

fn default_time() -> Span {
    Span::from_secs(5)
}

fn default_exempt_work() -> Span {
    Span::from_secs(2)
}

/// Ranks of jobs that are not due are above all ranks of those that are. No order uses this bit.
const NOT_DUE: Rank = 1 << 127;
/// The shortest time to a deadline that is reckoned with, in seconds.
const LEAST_DEADLINE_S: f64 = 0.1;
/// Shares are sums of quotients.
const ROUNDING: f64 = 1e-6;

/// What is kept of lags beside each job's own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lags {
    /// Until when all lags are computed.
    until: Time,
    /// By kind, the groups in the order of their numbers. Groups are never removed.
    groups: PerKind<Vec<GroupLag>>,
}

/// How far a group is behind its fair share.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct GroupLag {
    /// Slot time that it was entitled to and has not received, in seconds.
    lag_s: f64,
    /// Slots of its share that small jobs may have at once until the next update.
    for_small_jobs: f64,
}

/// A group that had no jobs until now: it may have a slot of its share for a small job.
const NEW_GROUP: GroupLag = GroupLag { lag_s: 0.0, for_small_jobs: 1.0 };

/// The slots that jobs and groups are due.
#[derive(Debug, Default, PartialEq)]
pub struct Due {
    /// The jobs that are due slots, and how many: small ones first, then by deadline.
    pub jobs: Vec<(JobKey, f64)>,
    /// Slots that are guaranteed to each group, by its number.
    pub groups: Vec<u32>,
}

/// A job that has a share.
struct Sharer {
    key: JobKey,
    share: f64,
    work_s: f64,
    left_s: f64,
    /// When it has to be done, from now.
    deadline_s: f64,
    due: f64,
    /// True if it is due slots because it is small.
    is_exempt: bool,
}

impl MaxLag {
    pub(super) fn needs(&self) -> Needs {
        Needs {
            attempt_progress: true,
            remaining_time: true,
            remaining_work: true,
            remaining_area: true,
            ..Needs::NOTHING
        }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.of_work.is_finite() && self.of_work >= 0.0 {
            return Ok(());
        }
        Err("of_work is a fraction of at least 0; write for example 0.3".into())
    }

    pub(super) fn spans_mut(&mut self) -> [&mut Span; 2] {
        [&mut self.time, &mut self.exempt_work]
    }

    /// The rank of a job, given its rank by the order alone.
    pub(super) fn rank(&self, job: &Job, kind: Kind, extra: i32, by_order: Rank) -> Rank {
        if is_due(job, kind, extra) {
            Rank::from(job.estimate().lag[kind].due_position) << 32 | Rank::from(job.sequence())
        } else {
            NOT_DUE | by_order
        }
    }

    /// Why a job that is due ranks first; none if it is not due.
    pub(super) fn measure(&self, job: &Job, kind: Kind) -> Option<Measure> {
        if !is_due(job, kind, 0) {
            return None;
        }
        if self.is_exempt(job) {
            return Some(Measure::Small { left: Span::from_secs_f64(work_left_s(job)) });
        }
        let share_milli = milli(job.estimate().lag[kind].due_slots);
        Some(Measure::Late { allocated: job.counts(kind).allocated(), share_milli })
    }

    /// True if a job is so small that it may not fall behind at all.
    fn is_exempt(&self, job: &Job) -> bool {
        !area::is_unknown(job) && work_left_s(job) <= self.exempt_work.as_secs_f64()
    }

    /// The slots that a job has or can use now. Reduces claim slots once the last map is so near that they would fetch its output.
    fn need(&self, job: &Job, kind: Kind) -> f64 {
        let counts = job.counts(kind);
        let near_last_map = || job.maps_done() || area::time_to_last_map(job) <= self.time.times(2);
        let claims = kind == Kind::Map || (job.may_start(kind) && near_last_map());
        if claims { f64::from(counts.allocated() + counts.demand()) } else { 0.0 }
    }

    /// The slots that a job could use now if it had received what it was entitled to: if it has received more, it has fewer tasks left than it would have then.
    fn need_if_fair(&self, job: &Job, kind: Kind) -> f64 {
        let need = self.need(job, kind);
        if need <= 0.0 || area::is_unknown(job) {
            return need;
        }
        let Estimate { lag, task_work_s, .. } = job.estimate();
        let work_s = lag[kind].received_s + work_left_of_kind_s(job, kind);
        let tasks_left = (work_s - lag[kind].entitled_s / (1.0 + self.of_work)) / task_work_s[kind].max(1e-3);
        need.max(tasks_left.ceil().min(f64::from(area::whole_tasks(job, kind))))
    }

    /// The lags of all live jobs now, as new estimates: what they were entitled to at their shares, and received, since the last update.
    pub fn advance(&self, view: View<'_>, groups: PerKind<&Ranking>, lags: &mut Lags) -> Vec<(JobKey, Estimate)> {
        let since = std::mem::replace(&mut lags.until, view.now);
        let live = view.state.jobs().iter().filter(|(_, job)| !job.is_closed());
        let mut all: Vec<(JobKey, Estimate)> = live.map(|(key, job)| (key, *job.estimate())).collect();
        let mut position = vec![usize::MAX; all.iter().map(|(key, _)| key.index() + 1).max().unwrap_or(0)];
        (0..).zip(&all).for_each(|(at, (key, _))| position[key.index()] = at);
        let elapsed_s = |key: JobKey| view.now.since(since.max(view.state.job(key).submitted())).as_secs_f64();
        for kind in Kind::BOTH {
            let need = |job: &Job| self.need(job, kind);
            for (key, estimate) in &mut all {
                let job = view.state.job(*key);
                let lag = &mut estimate.lag[kind];
                let held = if need(job) > 0.0 { held_speed(view, job, kind) } else { 0.0 };
                lag.received_s += 0.5 * (held + lag.held_speed) * elapsed_s(*key);
                (lag.held_speed, lag.share, lag.share_if_fair) = (held, 0.0, 0.0);
            }
            let speed = mean_speed(view, kind);
            for (key, share) in weighted::shares_by(view, kind, groups[kind], &need, &need) {
                all[position[key.index()]].1.lag[kind].share = share;
            }
            let fair_need = |job: &Job| self.need_if_fair(job, kind);
            for (key, share) in weighted::shares_by(view, kind, groups[kind], &fair_need, &fair_need) {
                let lag = &mut all[position[key.index()]].1.lag[kind];
                lag.entitled_s += share * speed * elapsed_s(key);
                lag.share_if_fair = share;
            }
            lags.advance_groups(view, kind, groups[kind], &all, view.now.since(since));
        }
        all
    }

    /// Who is due slots.
    pub fn due(&self, view: View<'_>, kind: Kind, groups: &Ranking, lags: &mut Lags) -> Due {
        let mut jobs = self.sharers(view, kind);
        let groups = self.due_of_groups(view, kind, groups, lags, &mut jobs);
        self.add_due_of_late(view, kind, &mut jobs);
        jobs.retain(|job| job.due > 0.0);
        // Stable: late jobs stay in the order of their deadlines.
        jobs.sort_by_key(|job| !job.is_exempt);
        Due { jobs: jobs.into_iter().map(|job| (job.key, job.due)).collect(), groups }
    }

    /// The jobs that have a share, earliest deadline first.
    fn sharers(&self, view: View<'_>, kind: Kind) -> Vec<Sharer> {
        let speed = mean_speed(view, kind);
        let sharer = |(key, job): (JobKey, &Job)| {
            let lag = &job.estimate().lag[kind];
            let left_s = if area::is_unknown(job) { 0.0 } else { work_left_of_kind_s(job, kind) };
            let work_s = lag.received_s + left_s;
            let entitled_until_s = (1.0 + self.of_work) * work_s - lag.entitled_s;
            let deadline_s = entitled_until_s / (lag.share_if_fair * speed) + self.time.as_secs_f64();
            // When an open job will be done is not known: once it is late, it needs its share.
            let left_s =
                if area::is_unknown(job) { lag.share * speed * deadline_s.max(LEAST_DEADLINE_S) } else { left_s };
            let is_late = deadline_s <= LEAST_DEADLINE_S || !area::is_unknown(job);
            Sharer {
                key,
                share: lag.share,
                work_s,
                left_s: if is_late { left_s } else { 0.0 },
                deadline_s,
                due: 0.0,
                is_exempt: false,
            }
        };
        let live = view.state.jobs().iter().filter(|(_, job)| !job.is_closed());
        let mut jobs: Vec<Sharer> = live.filter(|(_, job)| job.estimate().lag[kind].share > 0.0).map(sharer).collect();
        let sequence = |job: &Sharer| view.state.job(job.key).sequence();
        jobs.sort_by(|x, y| x.deadline_s.total_cmp(&y.deadline_s).then(sequence(x).cmp(&sequence(y))));
        jobs
    }

    /// Wherever the first jobs need their shares to meet their deadlines, they are due as many slots, the first ones as many as they can use. A job that would miss
    /// its deadline even with all slots is due its own share: more would only make the others miss theirs.
    fn add_due_of_late(&self, view: View<'_>, kind: Kind, jobs: &mut [Sharer]) {
        let all_slots = f64::from(view.state.nodes().slots()[kind]);
        let speed = mean_speed(view, kind);
        let needed = |left_s: f64, deadline_s: f64| left_s / speed / deadline_s.max(LEAST_DEADLINE_S);
        let is_missed = |job: &Sharer| needed(job.left_s, job.deadline_s) >= all_slots;
        let usable = |job: &Sharer| self.need(view.state.job(job.key), kind);
        jobs.iter_mut().filter(|job| is_missed(job)).for_each(|job| job.due = job.due.max(job.share));
        let (mut left_s, mut shares, mut due, mut first) = (0.0, 0.0, 0.0, 0);
        for at in 0..jobs.len() {
            left_s += jobs[at].left_s;
            shares += jobs[at].share;
            due += jobs[at].due;
            while needed(left_s, jobs[at].deadline_s) >= shares && due < shares && first <= at {
                let job = &mut jobs[first];
                let more = if is_missed(job) { 0.0 } else { (usable(job) - job.due).min(shares - due).max(0.0) };
                job.due += more;
                due += more;
                first += usize::from(due < shares);
            }
        }
    }

    /// What small jobs are due, within the shares of their groups; and the slots that are guaranteed to late groups.
    fn due_of_groups(
        &self,
        view: View<'_>,
        kind: Kind,
        groups: &Ranking,
        lags: &mut Lags,
        jobs: &mut [Sharer],
    ) -> Vec<u32> {
        let speed = mean_speed(view, kind);
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); groups.group_count()];
        for (at, job) in jobs.iter().enumerate() {
            groups.groups_of(job.key).for_each(|group| members[group].push(at));
        }
        lags.follow(kind, groups);
        lags.groups[kind].iter_mut().for_each(|group| group.for_small_jobs = 0.0);
        let mut guaranteed = vec![0; members.len()];
        for (group, members) in members.iter().enumerate().filter(|(_, members)| !members.is_empty()) {
            let share: f64 = members.iter().map(|&at| jobs[at].share).sum();
            let mut left = share;
            for &at in members {
                if left > ROUNDING && jobs[at].due <= 0.0 && self.is_exempt(view.state.job(jobs[at].key)) {
                    (jobs[at].due, jobs[at].is_exempt) = (jobs[at].share, true);
                    left -= jobs[at].share.max(1.0);
                }
            }
            lags.groups[kind][group].for_small_jobs = left.max(0.0);
            let lag_s = lags.groups[kind][group].lag_s;
            let largest_s = members.iter().map(|&at| jobs[at].work_s).fold(0.0, f64::max);
            if lag_s > self.of_work * largest_s / speed + self.time.as_secs_f64() * share {
                guaranteed[group] = (share - ROUNDING).ceil().max(1.0) as u32;
            }
        }
        guaranteed
    }

    /// What a job that was just submitted is due until the next update, in slots: one, if it is small and its groups have a slot of their share left.
    pub fn due_at_once(&self, key: JobKey, job: &Job, kind: Kind, groups: &Ranking, lags: &mut Lags) -> f64 {
        if job.counts(kind).pending == 0 || !self.is_exempt(job) {
            return 0.0;
        }
        lags.follow(kind, groups);
        let has_left = groups.groups_of(key).all(|group| lags.groups[kind][group].for_small_jobs > 0.0);
        if !has_left {
            return 0.0;
        }
        groups.groups_of(key).for_each(|group| lags.groups[kind][group].for_small_jobs -= 1.0);
        1.0
    }
}

impl Policy {
    /// Advances the lags of jobs and groups to now; returns the jobs' estimates with their lags.
    pub fn advance_lags(&self, view: View<'_>, groups: PerKind<&Ranking>, lags: &mut Lags) -> Vec<(JobKey, Estimate)> {
        self.max_lag.map_or(Vec::new(), |max_lag| max_lag.advance(view, groups, lags))
    }

    /// The slots of a kind that jobs and groups are due because they are late; none if lags have no limit.
    pub fn due_slots(&self, view: View<'_>, kind: Kind, groups: &Ranking, lags: &mut Lags) -> Option<Due> {
        self.max_lag.map(|max_lag| max_lag.due(view, kind, groups, lags))
    }

    /// The slots of a kind that a job which was just submitted is due until the next update.
    pub fn due_at_once(&self, key: JobKey, job: &Job, kind: Kind, groups: &Ranking, lags: &mut Lags) -> f64 {
        self.max_lag.map_or(0.0, |max_lag| max_lag.due_at_once(key, job, kind, groups, lags))
    }
}

impl Lags {
    /// Adds groups that are new.
    fn follow(&mut self, kind: Kind, groups: &Ranking) {
        self.groups[kind].resize(groups.group_count(), NEW_GROUP);
    }

    /// The same for groups with other numbers.
    pub fn renumbered(&self, numbers: &PerKind<GroupNumbers>) -> Lags {
        let groups = PerKind::from_fn(|kind| numbers[kind].renumber(&self.groups[kind], &NEW_GROUP));
        Lags { until: self.until, groups }
    }

    /// Adds what groups were entitled to beyond what they held. A surplus is forgotten, and so is the lag of a group that can use no slot.
    fn advance_groups(
        &mut self,
        view: View<'_>,
        kind: Kind,
        groups: &Ranking,
        jobs: &[(JobKey, Estimate)],
        elapsed: Span,
    ) {
        let mut rates = vec![(0.0, 0.0); groups.group_count()];
        for (key, estimate) in jobs {
            let JobLag { share, held_speed, .. } = estimate.lag[kind];
            let held = if held_speed > 0.0 { f64::from(view.state.job(*key).counts(kind).allocated()) } else { 0.0 };
            let entitled = share * accepted(view, kind, groups.refused(*key));
            for group in groups.groups_of(*key) {
                rates[group].0 += entitled;
                rates[group].1 += held;
            }
        }
        self.follow(kind, groups);
        for (group, (entitled, held)) in self.groups[kind].iter_mut().zip(rates) {
            let lag_s = group.lag_s + (entitled - held) * elapsed.as_secs_f64();
            group.lag_s = if entitled > 0.0 { lag_s.max(0.0) } else { 0.0 };
        }
    }
}

/// True if a job is due the slot in question: its next one or, if it is about to lose one, one that it has.
pub fn is_due(job: &Job, kind: Kind, extra: i32) -> bool {
    f64::from(job.counts(kind).allocated()) + f64::from(extra.min(0)) < job.estimate().lag[kind].due_slots
}

/// Slot time that a job's remaining tasks will take, as of its last estimate, in seconds at speed 1.
pub fn work_left_s(job: &Job) -> f64 {
    Kind::BOTH.into_iter().map(|kind| work_left_of_kind_s(job, kind)).sum()
}

fn work_left_of_kind_s(job: &Job, kind: Kind) -> f64 {
    job.estimate().tasks_left[kind] * job.estimate().task_work_s[kind]
}

/// Fraction of the slots of a kind that are on other nodes than those of the refused types.
fn accepted(view: View<'_>, kind: Kind, refused: TypeSet) -> f64 {
    if refused == 0 {
        return 1.0;
    }
    let slots = |types: TypeSet| -> u32 {
        let all = view.state.nodes().types().iter().enumerate();
        all.filter(|&(at, _)| types >> at & 1 == 1).map(|(_, of)| of.slots[kind]).sum()
    };
    f64::from(slots(!refused)) / f64::from(slots(TypeSet::MAX).max(1))
}

/// Work that a slot of a kind does per second, on average.
fn mean_speed(view: View<'_>, kind: Kind) -> f64 {
    let nodes = view.state.nodes();
    match nodes.slots()[kind] {
        0 => 1.0,
        slots => nodes.capacity(kind) / f64::from(slots),
    }
}

/// The speed of the slots that a job holds, in sum.
fn held_speed(view: View<'_>, job: &Job, kind: Kind) -> f64 {
    let nodes = view.state.nodes();
    let counts = job.counts(kind);
    let speed = |&index: &u32| nodes.types()[nodes.type_of(job.task(TaskKey { kind, index }).node())].speed;
    let others = (f64::from(counts.allocated()) - counts.running.len() as f64).max(0.0);
    counts.running.iter().map(speed).sum::<f64>() + others * mean_speed(view, kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::JobSpec;
    use crate::ids::NodeId;
    use crate::policy::groups::RoutingStage;
    use crate::policy::test_state::{at, cluster, job, submit};
    use crate::state::State;
    use crate::tenants::Tenants;
    use proptest::prelude::*;

    const MAX_LAG: MaxLag = MaxLag { of_work: 0.5, time: Span::ZERO, exempt_work: Span::ZERO };

    fn with_work(state: &mut State, spec: &JobSpec, map_s: f64) -> JobKey {
        let key = submit(state, spec);
        estimate(state, key, map_s);
        key
    }

    fn estimate(state: &mut State, key: JobKey, map_s: f64) {
        let tasks_left = PerKind::from_fn(|kind| area::tasks_left(state.job(key), kind));
        let task_work_s = PerKind::new(map_s, 1.0);
        state.job_mut(key).set_estimate(Estimate { task_work_s, tasks_left, ..Estimate::default() });
    }

    /// A ranking with each job in the pool of its name.
    fn pools(state: &State, jobs: &[(JobKey, &str)]) -> Ranking {
        let mut ranking = Ranking::new(RoutingStage::PoolsBelowMinShare, Kind::Map, &Tenants::default());
        jobs.iter().for_each(|&(key, pool)| ranking.add_job(key, state.job(key).user(), "", pool, None));
        ranking
    }

    fn advance(state: &mut State, ranking: &Ranking, lags: &mut Lags, now_s: f64) {
        let view = View { now: at(now_s), state };
        for (key, estimate) in MAX_LAG.advance(view, PerKind::new(ranking, ranking), lags) {
            state.job_mut(key).set_estimate(estimate);
        }
    }

    fn due(state: &State, max_lag: MaxLag, ranking: &Ranking, lags: &mut Lags) -> Due {
        max_lag.due(View { now: at(99.0), state }, Kind::Map, ranking, lags)
    }

    #[test]
    fn a_job_is_late_once_it_needs_its_share_to_meet_its_deadline() {
        // Two jobs of 4 maps of 10 s share 4 slots; neither gets any.
        let mut state = cluster(1, 4, 1);
        let keys = [0, 1].map(|id| with_work(&mut state, &job(id, 4, 0), 10.0));
        let ranking = pools(&state, &keys.map(|key| (key, "")));
        let mut lags = Lags::default();
        // Each is entitled to 2 slots; its deadline is when that makes 1.5 x 40 s, after 30 s. From 10 s on, 40 s in 20 s is its share.
        advance(&mut state, &ranking, &mut lags, 9.0);
        assert_eq!(due(&state, MAX_LAG, &ranking, &mut lags).jobs, []);
        advance(&mut state, &ranking, &mut lags, 11.0);
        // Both have the same deadline: the first gets all that the two are due together.
        assert_eq!(due(&state, MAX_LAG, &ranking, &mut lags).jobs, [(keys[0], 4.0)]);
    }

    #[test]
    fn late_jobs_leave_the_share_of_a_new_job_free() {
        let mut state = cluster(1, 4, 1);
        let old = with_work(&mut state, &job(0, 40, 0), 10.0);
        let mut ranking = pools(&state, &[(old, "")]);
        let mut lags = Lags::default();
        advance(&mut state, &ranking, &mut lags, 500.0);
        assert_eq!(due(&state, MAX_LAG, &ranking, &mut lags).jobs, [(old, 4.0)]);
        let new = state.add_job(&job(1, 40, 0), 0, false, at(500.0));
        estimate(&mut state, new, 10.0);
        ranking.add_job(new, 0, "", "", None);
        advance(&mut state, &ranking, &mut lags, 501.0);
        assert_eq!(due(&state, MAX_LAG, &ranking, &mut lags).jobs, [(old, 2.0)]);
    }

    #[test]
    fn a_late_job_ranks_first_only_up_to_the_slots_it_is_due() {
        let mut state = cluster(1, 4, 2);
        let key = with_work(&mut state, &job(0, 4, 0), 10.0);
        let rank = |state: &State, extra| MAX_LAG.rank(state.job(key), Kind::Map, extra, 7);
        assert_eq!(rank(&state, 0), NOT_DUE | 7, "not late");
        state.job_mut(key).set_due(Kind::Map, 0.5, 1);
        assert!(rank(&state, 0) < NOT_DUE && rank(&state, 1) < NOT_DUE);
        state.launch(key, TaskKey::map(0), NodeId(0), at(0.0));
        assert_eq!(rank(&state, 0), NOT_DUE | 7, "it has what it is due");
        assert!(rank(&state, -1) < NOT_DUE, "it would lose a slot that it is due");
    }

    #[test]
    fn a_pool_that_gets_less_than_its_share_is_guaranteed_it() {
        // Bob's job holds all slots; ann's is small against what she has missed after 10 s.
        let mut state = cluster(1, 4, 1);
        let (ann, bob) = (with_work(&mut state, &job(0, 4, 0), 2.0), with_work(&mut state, &job(1, 40, 0), 10.0));
        for map in 0..4 {
            state.launch(bob, TaskKey::map(map), NodeId(0), at(0.0));
        }
        let ranking = pools(&state, &[(ann, "ann"), (bob, "bob")]);
        let mut lags = Lags::default();
        advance(&mut state, &ranking, &mut lags, 1.0);
        assert_eq!(due(&state, MAX_LAG, &ranking, &mut lags).groups, [0, 0, 0]);
        advance(&mut state, &ranking, &mut lags, 10.0);
        assert_eq!(due(&state, MAX_LAG, &ranking, &mut lags).groups, [0, 2, 0]);
        // Her lag is forgotten once she can use nothing.
        state.close_job(ann);
        advance(&mut state, &ranking, &mut lags, 11.0);
        assert_eq!(due(&state, MAX_LAG, &ranking, &mut lags).groups, [0, 0, 0]);
    }

    #[test]
    fn small_jobs_are_due_slots_at_once_up_to_the_share_of_their_pool() {
        let mut state = cluster(1, 4, 1);
        let large = with_work(&mut state, &job(0, 40, 0), 100.0);
        let small: Vec<JobKey> = (1..6).map(|id| with_work(&mut state, &job(id, 1, 0), 0.5)).collect();
        let mut members = vec![(large, "ann")];
        members.extend(small.iter().map(|&key| (key, "bob")));
        let ranking = pools(&state, &members);
        let max_lag = MaxLag { exempt_work: Span::from_secs(1), ..MAX_LAG };
        let mut lags = Lags::default();
        advance(&mut state, &ranking, &mut lags, 0.1);
        let due: Vec<JobKey> = due(&state, max_lag, &ranking, &mut lags).jobs.into_iter().map(|(key, _)| key).collect();
        assert_eq!(due, small[..2], "bob's share is 2 of 4 slots");
        let at_once = max_lag.due_at_once(small[2], state.job(small[2]), Kind::Map, &ranking, &mut lags);
        assert_eq!(at_once, 0.0, "and they are taken");
    }

    #[test]
    fn lags_keep_their_pools_when_those_are_numbered_anew() {
        let mut state = cluster(1, 4, 1);
        let keys = [0, 1].map(|id| with_work(&mut state, &job(id, 40, 0), 10.0));
        let ranking = pools(&state, &[(keys[0], "ann"), (keys[1], "bob")]);
        let mut lags = Lags::default();
        (0..4).for_each(|map| {
            state.launch(keys[0], TaskKey::map(map), NodeId(0), at(0.0));
        });
        advance(&mut state, &ranking, &mut lags, 0.0);
        advance(&mut state, &ranking, &mut lags, 10.0);
        let mut other = pools(&state, &[(keys[1], "bob")]);
        let numbers = PerKind::from_fn(|_| other.restore(&ranking.memory()).unwrap());
        let renumbered = lags.renumbered(&numbers);
        let [before, after] = [&lags, &renumbered].map(|lags| lags.groups[Kind::Map].clone());
        assert_ne!(before[1], before[2]);
        assert_eq!((&after[1], &after[2]), (&before[2], &before[1]));
    }

    /// Jobs that are present in the model: their numbers, the work they have left, and what they were entitled to.
    type Present = [(usize, f64, f64)];

    /// One slot of speed 1 that can be divided at will. Shares are equal among the jobs present; late jobs are served first and up to their shares, the rest
    /// goes to the smallest job. Returns when each job is done, and when under fair sharing of a cluster `1 + of_work` times slower.
    fn fluid(jobs: &[(u32, u32)], of_work: f64) -> Vec<(f64, f64)> {
        const STEP: f64 = 0.02;
        let size = |job: usize| f64::from(jobs[job].1);
        let simulate = |is_served: &dyn Fn(&Present) -> Vec<f64>, slower: f64| {
            let (mut left, mut entitled) = (Vec::from_iter((0..jobs.len()).map(size)), vec![0.0; jobs.len()]);
            let mut done = vec![None; jobs.len()];
            for step in 0.. {
                let now = f64::from(step) * STEP;
                let present: Vec<usize> =
                    (0..jobs.len()).filter(|&job| f64::from(jobs[job].0) <= now && left[job] > 0.0).collect();
                if done.iter().all(Option::is_some) {
                    break;
                }
                if present.is_empty() {
                    continue;
                }
                let known: Vec<(usize, f64, f64)> =
                    present.iter().map(|&job| (job, left[job], entitled[job])).collect();
                for (&job, part) in present.iter().zip(is_served(&known)) {
                    left[job] -= part * STEP / slower;
                    entitled[job] += STEP / slower / present.len() as f64;
                    if left[job] <= 1e-9 {
                        left[job] = 0.0;
                        done[job].get_or_insert(now + STEP);
                    }
                }
            }
            done.into_iter().map(Option::unwrap).collect::<Vec<f64>>()
        };
        let equal = |known: &Present| vec![1.0 / known.len() as f64; known.len()];
        let ours = |known: &Present| {
            let share = 1.0 / known.len() as f64;
            let mut by_deadline: Vec<usize> = (0..known.len()).collect();
            let deadline = |at: usize| ((1.0 + of_work) * size(known[at].0) - known[at].2) / share;
            by_deadline.sort_by(|&x, &y| deadline(x).total_cmp(&deadline(y)).then(x.cmp(&y)));
            let (mut served, mut left, mut shares, mut given) = (vec![0.0; known.len()], 0.0, 0.0, 0.0);
            let is_missed = |at: usize| known[at].1 / deadline(at).max(1e-6) >= 1.0 - 1e-9;
            (0..known.len()).filter(|&at| is_missed(at)).for_each(|at| served[at] = share);
            for (position, &at) in by_deadline.iter().enumerate() {
                left += known[at].1;
                shares += share;
                given += served[at];
                let first = by_deadline[..=position].iter().find(|&&at| !is_missed(at));
                if let Some(&first) = first
                    && left / deadline(at).max(1e-6) >= shares - 1e-9
                {
                    // It can use everything.
                    served[first] += shares - given;
                    given = shares;
                }
            }
            let given: f64 = served.iter().sum();
            let smallest = (0..known.len()).min_by(|&x, &y| known[x].1.total_cmp(&known[y].1)).unwrap_or(0);
            served[smallest] += 1.0 - given;
            served
        };
        simulate(&ours, 1.0).into_iter().zip(simulate(&equal, 1.0 + of_work)).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// The guarantee of `docs/giveway.md`: no job is done later than under fair sharing on a cluster that is `1 + of_work` times slower.
        #[test]
        fn no_job_is_later_than_under_fair_sharing_on_a_slower_cluster(
            jobs in prop::collection::vec((0u32..60, prop_oneof![4 => 1u32..4, 1 => 10u32..30]), 1..40),
            of_work in prop_oneof![Just(0.25), Just(0.5), Just(1.0)],
        ) {
            for (at, (done, slower)) in fluid(&jobs, of_work).into_iter().enumerate() {
                // Steps are short against the work of any job.
                prop_assert!(done <= slower + 1.0, "job {at} of {jobs:?}: {done} s, {slower} s");
            }
        }
    }
}
