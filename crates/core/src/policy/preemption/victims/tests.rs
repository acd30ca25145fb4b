use super::*;
use crate::event::{NodeSpec, Split};
use crate::ids::{PerKind, RackId};
use crate::policy::orders::JobValue;
use crate::policy::ranking::Rankings;
use crate::policy::test_state::{at, job, submit};
use crate::policy::{View, catalog};
use crate::state::{Estimate, Job, State};
use crate::tenants::Tenants;
use crate::units::{Span, WHOLE_PPM};
use proptest::prelude::*;

const NODES: u32 = 20;

/// The job that was submitted last.
struct Latest;

impl JobValue for Latest {
    fn value(&self, _: View<'_>, job: &Job, _: Kind, _: i32) -> f64 {
        f64::from(job.sequence())
    }
}

/// Nodes with four map slots, every third one slow.
fn nodes() -> State {
    let mut state = State::default();
    for node in 0..NODES {
        let speed_ppm = if node % 3 == 0 { WHOLE_PPM / 4 } else { WHOLE_PPM };
        let (name, rack) = (String::new(), RackId(0));
        let spec =
            NodeSpec { name, rack, map_slots: 4, reduce_slots: 1, speed_ppm, disk_bytes_per_s: 1, disk_bytes: 1 };
        state.add_node(NodeId(node), &spec);
    }
    state
}

/// Launches a map of a job on the first node from this one on that has a free slot.
fn launch(state: &mut State, key: JobKey, map: u32, from: u32, launched_s: f64) {
    let nodes = (from..from + NODES).map(|node| NodeId(node % NODES));
    let node = nodes.into_iter().find(|&node| state.node(node).free(Kind::Map) > 0).unwrap();
    state.launch(key, TaskKey::map(map), node, at(launched_s));
}

fn set_work(state: &mut State, key: JobKey, task_work_s: f64) {
    let task_work_s = PerKind::new(task_work_s, task_work_s);
    let remaining_area = Span(u64::from(key.number() * 7 % 5) * 1_000_000);
    let remaining_time = Span(u64::from(key.number() * 5 % 7) * 1_000_000);
    let estimate = Estimate { task_work_s, remaining_area, remaining_time, ..Estimate::default() };
    state.job_mut(key).set_estimate(estimate);
}

proptest! {
    /// The reference: before each choice all attempts that the beneficiary may take are sorted.
    #[test]
    fn attempts_are_chosen_as_if_all_were_sorted(
        launched in prop::collection::vec((0..NODES, 0..20u32, 0..1_000_000u32), 30..60),
        hosts in prop::collection::vec(0..NODES, 1..7),
        order in prop_oneof![
            1 => Just(AttemptOrder::LeastProgress), 1 => Just(AttemptOrder::Newest), 2 => Just(AttemptOrder::NearData)
        ],
        min_runtime_s in 0..10u64,
    ) {
        let (mut state, kind) = (nodes(), Kind::Map);
        let victim = submit(&mut state, &job(0, launched.len() as u32, 0));
        let mut launched: Vec<_> = launched;
        launched.sort_by_key(|&(_, launched_s, _)| launched_s);
        for (map, &(node, launched_s, progress_ppm)) in (0..).zip(&launched) {
            launch(&mut state, victim, map, node, f64::from(launched_s));
            state.set_progress(state.job(victim).attempt(TaskKey::map(map)), progress_ppm);
        }
        let mut spec = job(1, 0, 0);
        let split = |hosts: &[u32]| Split { bytes: 1, hosts: hosts.iter().map(|&host| NodeId(host)).collect() };
        spec.splits = hosts.chunks(3).map(split).collect();
        let beneficiary = submit(&mut state, &spec);
        set_work(&mut state, beneficiary, 30.0);

        let policy = catalog::by_name("giveway").unwrap();
        let mut rule = policy.map.preempt[0].clone();
        (rule.attempts, rule.by_work, rule.guards.min_runtime) = (order, false, Span::from_secs(min_runtime_s));
        let rankings = Rankings::new(&policy, &Tenants::default());
        let mut candidate = VictimJob { job: victim, near: None, preemptable: None };
        loop {
            let view = View { now: at(20.0), state: &state };
            let jobs = Comparison { view, policy: &policy, rankings: &rankings, slots_stay_in_pool: false };
            let preference = Preference::new(&rule, kind, jobs, beneficiary);
            let task = |index: u32| state.job(victim).task(TaskKey::map(index));
            let is_near = |index: u32| hosts.contains(&task(index).node().0);
            let key = |&index: &u32| {
                let (progress_ppm, newest) = (task(index).progress_ppm(), Reverse(task(index).launched()));
                match order {
                    AttemptOrder::LeastProgress => (false, progress_ppm, newest, index),
                    AttemptOrder::Newest => (false, 0, newest, index),
                    AttemptOrder::NearData => (!is_near(index), progress_ppm, newest, index),
                }
            };
            let may_take = |&index: &u32| {
                is_preemptable(state.job(victim), TaskKey::map(index), &rule.guards, view.now)
                    && preference.accepts(task(index).node(), kind, jobs)
            };
            let mut sorted: Vec<u32> = (0..launched.len() as u32).filter(may_take).collect();
            sorted.sort_by_key(key);
            let next = candidate.next_attempt(&rule, kind, jobs, &preference);
            prop_assert_eq!(next, sorted.first().copied());
            let Some(index) = next else { break };
            state.request_stop(victim, TaskKey::map(index), rule.action);
        }
    }

    /// The reference: the jobs with running attempts, sorted.
    #[test]
    fn victims_come_in_the_order_of_all_sorted(
        running in prop::collection::vec(0..3u32, 0..20),
        order in prop_oneof![
            Just(VictimOrder::LowestRank), Just(VictimOrder::LongestRemainingTime), Just(VictimOrder::MostOverShare),
            Just(VictimOrder::Custom(CustomOrder::new("latest", "1", Latest)))
        ],
    ) {
        let (mut state, kind) = (nodes(), Kind::Map);
        let policy = catalog::by_name("giveway").unwrap();
        let mut rankings = Rankings::new(&policy, &Tenants::default());
        let mut owners = Vec::new();
        for (id, &count) in (0..).zip(&running) {
            let key = submit(&mut state, &job(id, 3, 0));
            set_work(&mut state, key, 1.0);
            state.job_mut(key).set_fair_share(kind, f64::from(id * 3 % 4));
            rankings.all_mut().for_each(|ranking| ranking.add_job(key, 0, "", "", None));
            (0..count).for_each(|map| launch(&mut state, key, map, id, 0.0));
            owners.extend((count > 0).then_some(key));
        }
        let mut rule = policy.map.preempt[0].clone();
        rule.victims = order.clone();
        let view = View { now: at(20.0), state: &state };
        owners.iter().for_each(|&key| rankings.set_victim(key, kind, Some(policy.rank(view, state.job(key), kind, 0))));
        let jobs = Comparison { view, policy: &policy, rankings: &rankings, slots_stay_in_pool: false };
        let estimate = |key: JobKey| (state.job(key).estimate().remaining_time, state.job(key).sequence());
        let over = |key: JobKey| {
            let counts = state.job(key).counts(kind);
            let over = (f64::from(counts.allocated()) - counts.fair_share) * 1e3;
            (over as i64, state.job(key).sequence())
        };
        match order {
            VictimOrder::LowestRank => owners.sort_by_key(|&key| Reverse(jobs.standing(key, kind))),
            VictimOrder::LongestRemainingTime => owners.sort_by_key(|&key| Reverse(estimate(key))),
            VictimOrder::MostOverShare => owners.sort_by_key(|&key| Reverse(over(key))),
            VictimOrder::Custom(_) => owners.sort_by_key(|&key| Reverse(state.job(key).sequence())),
        }
        let mut victims = Victims::of(&rule, kind, jobs);
        let read: Vec<JobKey> = (0..victims.len()).map(|at| victims.get(at).job).collect();
        prop_assert_eq!(read, owners);
    }
}
