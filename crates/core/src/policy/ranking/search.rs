//! The search for a job that accepts a slot: in the order of rank, over the groups and jobs that may have it.

use super::job_queues::TypeSet;
use super::sorted_on_demand::SortedOnDemand;
use super::{Entry, GroupIndex, ROOT, Ranking};
use crate::policy::groups::Group;
use crate::state::JobKey;
use crate::state::bit_set::BitSet;
use std::ops::ControlFlow;

/// The jobs that a search visits.
#[derive(Clone, Copy)]
pub enum Visits<'a> {
    /// All jobs.
    All,
    /// Those that may accept a node.
    For {
        /// The type of the node: jobs that refuse it are left out.
        node_type: usize,
        /// The jobs that the node may be local to: of the delayed jobs only these.
        local: &'a BitSet,
        /// Jobs that keep paused reduces on the node, each with one of them: they do not refuse it.
        paused_here: &'a [(JobKey, u32)],
    },
}

impl Ranking {
    /// Visits the jobs in the order of their ranks, group by group, until `visit` breaks. Groups that may not grow, or that `allow` rejects,
    /// are skipped with all their jobs. `slots` is the number of all slots of the kind.
    pub fn search<B>(
        &self,
        slots: u32,
        allow: &impl Fn(&Group) -> bool,
        visits: Visits<'_>,
        visit: &mut impl FnMut(JobKey) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        self.search_group(ROOT, slots, allow, visits, visit)
    }

    fn search_group<B>(
        &self,
        at: GroupIndex,
        slots: u32,
        allow: &impl Fn(&Group) -> bool,
        visits: Visits<'_>,
        visit: &mut impl FnMut(JobKey) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let group = &self.groups[at as usize];
        for (_, child) in group.groups.iter() {
            let facts = &self.groups[child as usize].facts;
            if self.stage.admits(facts, slots) && allow(facts) {
                self.search_group(child, slots, allow, visits, visit)?;
            }
        }
        if at != ROOT && !self.stage.serves_jobs_of(&group.facts) {
            return ControlFlow::Continue(());
        }
        let limits_users = group.facts.limits_users();
        let mut visit_admitted = |number: u32| {
            let job = JobKey::from_number(number);
            let admitted = !limits_users || group.facts.admits_user(self.entries[job.index()].user, slots);
            if admitted { visit(job) } else { ControlFlow::Continue(()) }
        };
        let mut apart = SortedOnDemand::default();
        let types = match visits {
            Visits::All => {
                for job in group.delayed.iter() {
                    self.add_queued(job, &mut apart);
                }
                TypeSet::MAX
            }
            Visits::For { node_type, local, paused_here } => {
                let node_type = 1 << node_type;
                self.find_apart(at, node_type, local, paused_here, &mut apart);
                node_type
            }
        };
        group.jobs.visit(types, |rank, job| {
            while apart.first_rank().is_some_and(|sooner| sooner < rank) {
                apart.take_first().map_or(ControlFlow::Continue(()), &mut visit_admitted)?;
            }
            visit_admitted(job)
        })?;
        while let Some(job) = apart.take_first() {
            visit_admitted(job)?;
        }
        ControlFlow::Continue(())
    }

    /// Adds the jobs of a group that a search for a node visits although they are not in the queues that accept its type.
    fn find_apart(
        &self,
        at: GroupIndex,
        node_type: TypeSet,
        local: &BitSet,
        paused_here: &[(JobKey, u32)],
        apart: &mut SortedOnDemand,
    ) {
        let group = &self.groups[at as usize];
        if group.delayed_count > 0 {
            group.delayed.intersection(local).for_each(|job| {
                if self.entries[job as usize].refused & node_type == 0 {
                    self.add_queued(job, apart);
                }
            });
        }
        let refuses = |entry: &Entry| entry.group == at && entry.refused & node_type != 0;
        let mut last = None;
        for &(job, _) in paused_here.iter().filter(|(job, _)| refuses(&self.entries[job.index()])) {
            if last.replace(job) != Some(job) {
                self.add_queued(job.number(), apart);
            }
        }
    }

    #[inline]
    fn add_queued(&self, job: u32, to: &mut SortedOnDemand) {
        if let Some(rank) = self.entries[job as usize].queued {
            to.add(rank, job);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Kind;
    use crate::policy::groups::RoutingStage;
    use crate::policy::orders::Rank;
    use crate::tenants::Pool;
    use crate::tenants::Tenants;
    use proptest::prelude::*;

    const JOBS: u32 = 12;

    fn pool(name: &str, parent: Option<&str>, weight: f64, min: u32) -> Pool {
        Pool {
            name: name.into(),
            parent: parent.map(String::from),
            weight,
            min_maps: min,
            min_reduces: min,
            capacity: None,
            max_capacity: 100.0,
            user_limit: 100.0,
        }
    }

    fn tenants() -> Tenants {
        let pools = vec![
            pool("a", None, 1.0, 2),
            pool("b", None, 2.0, 0),
            pool("b1", Some("b"), 1.0, 1),
            pool("b2", Some("b"), 3.0, 0),
        ];
        Tenants { users: Vec::new(), pools }
    }

    fn key(number: u32) -> JobKey {
        JobKey::from_number(number)
    }

    /// The reference implementation: the jobs of a group and of those below it, sorted anew.
    fn sorted(ranking: &Ranking, at: GroupIndex, out: &mut Vec<JobKey>) {
        let mut inner: Vec<(Rank, u32)> = (1..ranking.groups.len() as u32)
            .filter(|&group| ranking.groups[group as usize].parent == at && group != at)
            .map(|group| (ranking.group_rank(group, 0), group))
            .collect();
        inner.sort();
        inner.into_iter().for_each(|(_, group)| sorted(ranking, group, out));
        let mut jobs: Vec<(Rank, JobKey)> = (0..)
            .zip(&ranking.entries)
            .filter(|(_, entry)| entry.group == at)
            .filter_map(|(job, entry)| Some((entry.queued?, key(job))))
            .collect();
        jobs.sort();
        out.extend(jobs.into_iter().map(|(_, job)| job));
    }

    fn visited(ranking: &Ranking, visits: Visits<'_>) -> Vec<JobKey> {
        let mut visited = Vec::new();
        let _ = ranking.search::<()>(1_000, &|_| true, visits, &mut |job| {
            visited.push(job);
            ControlFlow::Continue(())
        });
        visited
    }

    proptest! {
        /// Jobs come and go, gain and lose slots, are delayed: a search always visits them as sorting everything anew would order them.
        #[test]
        fn a_search_visits_jobs_in_order(
            stage in prop_oneof![
                Just(RoutingStage::Flat),
                Just(RoutingStage::FairPools),
                Just(RoutingStage::CapacityQueues)
            ],
            pools in prop::collection::vec(0..5usize, JOBS as usize),
            steps in prop::collection::vec((0..JOBS, 0..7u8, 0..50u64), 0..150),
        ) {
            let mut ranking = Ranking::new(stage, Kind::Map, &tenants());
            let mut held = [0i64; JOBS as usize];
            for (job, &pool) in pools.iter().enumerate() {
                ranking.add_job(key(job as u32), 0, "ann", ["a", "b", "b1", "b2", "new"][pool], None);
            }
            for (job, step, value) in steps {
                match step {
                    0 => ranking.set_rank(key(job), Some(Rank::from(value) << 32 | Rank::from(job))),
                    1 => ranking.set_rank(key(job), None),
                    4 => ranking.set_delayed(key(job), true),
                    5 => ranking.set_delayed(key(job), false),
                    6 => ranking.set_refused(key(job), value % 4),
                    2 => {
                        held[job as usize] += 1;
                        ranking.charge(key(job), 1);
                    }
                    _ if held[job as usize] > 0 => {
                        held[job as usize] -= 1;
                        ranking.charge(key(job), -1);
                    }
                    _ => {}
                }
                let mut even = BitSet::default();
                (0..JOBS).step_by(2).for_each(|job| even.insert(job));
                let mut expected = Vec::new();
                sorted(&ranking, ROOT, &mut expected);
                prop_assert_eq!(ranking.is_empty(), expected.is_empty());
                prop_assert_eq!(visited(&ranking, Visits::All), expected.clone());
                // A search for a node of type 1 that is local to the even jobs and keeps two paused reduces of job 4 visits all but the odd
                // jobs that are delayed and those that refuse the type.
                let paused_here = &[(key(4), 0), (key(4), 1)];
                let visits = Visits::For { node_type: 1, local: &even, paused_here };
                expected.retain(|&job| {
                    let entry = &ranking.entries[job.index()];
                    let accepts = entry.refused & 2 == 0 || job == key(4);
                    accepts && (job.number() % 2 == 0 || !entry.delayed)
                });
                prop_assert_eq!(visited(&ranking, visits), expected);
            }
        }

        /// A slot that was taken cannot be taken back by the same rule.
        #[test]
        fn preemption_does_not_cycle(
            stage in prop_oneof![Just(RoutingStage::FairPools), Just(RoutingStage::CapacityQueues)],
            pools in prop::collection::vec(0..5usize, 2),
            held in prop::collection::vec(0..20i64, 2),
            ranks in prop::collection::vec(0..1_000u64, 2),
        ) {
            let mut ranking = Ranking::new(stage, Kind::Map, &tenants());
            for job in 0..2 {
                ranking.add_job(key(job as u32), 0, "ann", ["a", "b", "b1", "b2", "new"][pools[job]], None);
                ranking.charge(key(job as u32), held[job]);
            }
            prop_assume!(held[1] > 0);
            // The jobs' own ranks stay the same here; the ranks of their groups change with the slot.
            let rank = |job: usize| (key(job as u32), Rank::from(ranks[job]) << 32 | job as Rank);
            if ranking.stays_before(rank(0), rank(1), 1_000) {
                ranking.charge(key(0), 1);
                ranking.charge(key(1), -1);
                prop_assert!(!ranking.stays_before(rank(1), rank(0), 1_000));
            }
        }
    }
}
