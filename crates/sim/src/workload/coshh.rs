//! COSHH's two workloads: the classes of Table 4, from traces of Facebook and Yahoo!, submitted by the users of Table 5 (section 5.2).
//!
//! **Sizes.** The jobs of the table ran on hundreds of nodes; the paper runs them on six. All sizes here, bytes and task-seconds, are a tenth of
//! the table's. A hundred jobs then keep the fast slots of Table 3 busy for about 40,000 s (Facebook) and 470,000 s (Yahoo!): completion times
//! of the order of 10^4 and 10^5 s, as the paper reports (sections 5.3 and 6.2.2). Bytes and seconds are scaled together, so the ratio of
//! computation to data transfer is unchanged.
//!
//! **Tasks.** The table gives totals. A job has one map for each block of 128 MB of input, as in Hadoop and in the paper's simulator, and at
//! least one: the data loads of Facebook, with kilobytes of input, are one long map each. The paper does not give the number of reduces; here a
//! reduce takes one minute. The slow nodes are a hundred times slower, so a job whose only map runs there takes days. What map-only jobs write
//! is part of their seconds.
//!
//! **Arrivals.** The paper derives its rates from traces that it does not print. Here jobs arrive as one Poisson process, in random order. The
//! rate was chosen after runs, to match the paper's two baselines: with equal users the mean completion time of Fair is 26 % (Facebook) and 38 %
//! (Yahoo!) below that of FIFO (section 6.1), and at [`Trace::load`] it is about so here. The choice was not blind: COSHH's results came from
//! the same runs, and COSHH does worse under more load (`docs/papers/coshh.md`). More jobs arrive in the same time: the paper's rates depend on
//! the number of jobs, and its five jobs are an underloaded system (sections 5.2, 6.2.1). The set of jobs is not random: the classes have the
//! trace's proportions.
//!
//! **Users.** User i submits class i, into a pool of the same name. Priorities are weights. A min share counts slots of both kinds, while a
//! pool of the fair scheduler has one for each kind: it is split like the cluster's slots (31 to 23), or is all maps where there are no reduces.

use super::apps::SLOWSTART_PPM;
use super::random::{apportion, poisson, rng};
use super::{JobPlan, Workload};
use crate::cluster;
use crate::files::MB;
use giveway_core::{JobId, Kind, PerKind, Pool, Priority, Span, Tenants, Time, User};
use rand::seq::SliceRandom;

const BLOCK: u64 = 128 * MB;
/// Factor between the sizes of the table and those here.
const SCALE: f64 = 10.0;
/// Longest reduce at speed 1, in seconds.
const MAX_REDUCE_S: f64 = 60.0;
/// Number of jobs in the paper's main experiments, to which [`Trace::load`] refers.
const REFERENCE_JOBS: f64 = 100.0;
/// Jobs with at least this many task-seconds in the table belong to the large group.
const LARGE_TASK_S: f64 = 1e6;
/// Largest number of jobs in a workload name.
pub(super) const MAX_JOBS: u32 = 100_000;

const GROUPS: [&str; 3] = ["small", "medium", "large"];

/// Source of the job classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trace {
    Facebook,
    Yahoo,
}

impl Trace {
    fn classes(self) -> &'static [Class] {
        match self {
            Trace::Facebook => &FACEBOOK,
            Trace::Yahoo => &YAHOO,
        }
    }

    /// Load of the cluster of Table 3 (1 keeps it busy) with a hundred jobs.
    fn load(self) -> f64 {
        match self {
            Trace::Facebook => 0.3,
            Trace::Yahoo => 0.1,
        }
    }
}

/// Shares of the users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Users {
    /// The users of Table 5.
    Table5,
    /// Users with priority 1 and no min share (section 6.1, Tables 8 and 9).
    Even,
}

/// A row of Table 4 with its user of Table 5: class, jobs out of 200, bytes of input, shuffle and output, task-seconds of maps and of reduces,
/// min share, priority.
#[derive(Clone, Copy, Debug)]
struct Class {
    name: &'static str,
    jobs: f64,
    input: f64,
    shuffle: f64,
    output: f64,
    map_s: f64,
    reduce_s: f64,
    min_share: u32,
    priority: u32,
}

const FACEBOOK: [Class; 10] = [
    class("small-jobs", 126.0, [21e3, 0.0, 871e3], [20.0, 0.0], 5, 1),
    class("fast-data-load", 25.0, [381e3, 0.0, 1.9e9], [6_079.0, 0.0], 0, 2),
    class("slow-data-load", 3.0, [10e3, 0.0, 4.2e9], [26_321.0, 0.0], 0, 2),
    class("large-data-load", 10.0, [405e3, 0.0, 447e9], [66_657.0, 0.0], 5, 1),
    class("huge-data-load", 3.0, [446e3, 0.0, 1.1e12], [125_662.0, 0.0], 10, 2),
    class("fast-aggregate", 10.0, [230e9, 8.8e9, 491e6], [104_338.0, 66_760.0], 15, 1),
    class("aggregate-and-expand", 6.0, [1.9e12, 502e6, 2.6e9], [348_942.0, 76_736.0], 4, 2),
    class("expand-and-aggregate", 2.0, [418e9, 2.5e12, 45e9], [1_076_089.0, 974_395.0], 10, 1),
    class("data-transform", 14.0, [255e9, 788e9, 1.6e9], [384_562.0, 338_050.0], 10, 1),
    class("data-summary", 1.0, [7.6e12, 51e9, 104e3], [4_843_452.0, 853_911.0], 15, 1),
];

const YAHOO: [Class; 8] = [
    class("small-jobs", 114.0, [174e6, 73e6, 6e6], [412.0, 740.0], 5, 1),
    class("fast-aggregate", 23.0, [568e9, 76e9, 3.9e9], [270_376.0, 589_385.0], 0, 2),
    class("expand-and-aggregate", 10.0, [206e9, 1.5e12, 133e6], [983_998.0, 1_425_941.0], 10, 2),
    class("transform-expand", 5.0, [806e9, 235e9, 10e12], [257_567.0, 979_181.0], 15, 1),
    class("data-summary", 7.0, [4.9e12, 78e9, 775e6], [4_481_926.0, 1_663_358.0], 10, 1),
    class("large-data-summary", 4.0, [31e12, 937e9, 475e6], [33_606_055.0, 31_884_004.0], 15, 2),
    class("data-transform", 36.0, [36e9, 15e9, 4.0e9], [15_021.0, 13_614.0], 10, 1),
    class("large-data-transform", 1.0, [5.5e12, 10e12, 2.5e12], [7_729_409.0, 8_305_880.0], 15, 1),
];

const fn class(
    name: &'static str,
    jobs: f64,
    [input, shuffle, output]: [f64; 3],
    [map_s, reduce_s]: [f64; 2],
    min_share: u32,
    priority: u32,
) -> Class {
    Class { name, jobs, input, shuffle, output, map_s, reduce_s, min_share, priority }
}

impl Class {
    fn group(&self) -> u16 {
        match self.map_s + self.reduce_s {
            _ if self.name == "small-jobs" => 0,
            task_s if task_s < LARGE_TASK_S => 1,
            _ => 2,
        }
    }

    fn task_s(&self, kind: Kind) -> f64 {
        match kind {
            Kind::Map => self.map_s,
            Kind::Reduce => self.reduce_s,
        }
    }

    fn job(&self, name: String, user: String) -> JobPlan {
        let (map_s, reduce_s) = (self.map_s / SCALE, self.reduce_s / SCALE);
        let input = self.input / SCALE;
        let maps = (input / BLOCK as f64).ceil().max(1.0);
        let reduces = (reduce_s / MAX_REDUCE_S).ceil();
        let per_map = |total: f64| (total / maps) as u64;
        let per_reduce = |total: f64| if reduces > 0.0 { total / reduces } else { 0.0 };
        JobPlan {
            id: JobId(0),
            name,
            pool: user.clone(),
            user,
            priority: Priority::Normal,
            submit: Time::ZERO,
            group: self.group(),
            maps: maps as u32,
            map_bytes: per_map(input),
            map_compute: Span::from_secs_f64(map_s / maps),
            map_output_bytes: per_map(self.shuffle / SCALE),
            reduces: reduces as u32,
            reduce_compute: Span::from_secs_f64(per_reduce(reduce_s)),
            reduce_output_bytes: per_reduce(self.output / SCALE) as u64,
            slowstart_ppm: SLOWSTART_PPM,
            relative_ppm: PerKind::default(),
            input: None,
        }
    }
}

/// `count` jobs of a trace.
pub(super) fn coshh(name: &str, trace: Trace, users: Users, count: u32, seed: u64) -> Workload {
    let classes = trace.classes();
    let gap_s = mean_gap_s(classes, trace.load() * f64::from(count) / REFERENCE_JOBS);
    let weights: Vec<f64> = classes.iter().map(|class| class.jobs).collect();
    let mut jobs: Vec<JobPlan> = Vec::new();
    for (i, (class, count)) in classes.iter().zip(apportion(count, &weights)).enumerate() {
        jobs.extend((1..=count).map(|n| class.job(format!("{}-{n}", class.name), user_name(i))));
    }
    jobs.shuffle(&mut rng(seed, "coshh order"));
    for (job, at) in jobs.iter_mut().zip(poisson(gap_s, &mut rng(seed, "coshh arrivals"))) {
        job.submit = at;
    }
    Workload { hints: true, ..Workload::numbered(name, tenants(classes, users), &GROUPS, jobs) }
}

fn user_name(class: usize) -> String {
    format!("U{}", class + 1)
}

fn tenants(classes: &[Class], users: Users) -> Tenants {
    let mut tenants = Tenants::default();
    for (i, class) in classes.iter().enumerate() {
        let (min_share, weight) = match users {
            Users::Table5 => (class.min_share, f64::from(class.priority)),
            Users::Even => (0, 1.0),
        };
        let min_maps = if class.reduce_s == 0.0 { min_share } else { (min_share * 31).div_ceil(54) };
        tenants.users.push(User { name: user_name(i), weight, min_share });
        tenants.pools.push(Pool {
            name: user_name(i),
            parent: None,
            weight,
            min_maps,
            min_reduces: min_share - min_maps,
            capacity: None,
            max_capacity: 100.0,
            user_limit: 100.0,
        });
    }
    tenants
}

/// The mean time between arrivals that puts this load on the cluster of Table 3, whatever cluster the jobs run on.
fn mean_gap_s(classes: &[Class], load: f64) -> f64 {
    let cluster = cluster::by_name("coshh").expect("the cluster is in the catalogue");
    let jobs: f64 = classes.iter().map(|class| class.jobs).sum();
    let busy_s = |kind: Kind| {
        let work_s: f64 = classes.iter().map(|class| class.jobs * class.task_s(kind) / SCALE).sum();
        work_s / jobs / cluster.speed_slots(kind)
    };
    busy_s(Kind::Map).max(busy_s(Kind::Reduce)) / load
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hundred(trace: Trace) -> Workload {
        coshh("test", trace, Users::Table5, 100, 1)
    }

    #[test]
    fn each_table_has_200_jobs() {
        assert_eq!(FACEBOOK.iter().map(|class| class.jobs).sum::<f64>(), 200.0);
        assert_eq!(YAHOO.iter().map(|class| class.jobs).sum::<f64>(), 200.0);
    }

    #[test]
    fn every_class_and_user_has_jobs() {
        for (trace, users) in [(Trace::Facebook, 10), (Trace::Yahoo, 8)] {
            let workload = hundred(trace);
            assert_eq!(workload.jobs.len(), 100);
            workload.tenants.check().unwrap();
            assert_eq!(workload.tenants.users.len(), users);
            for user in &workload.tenants.users {
                assert!(
                    workload.jobs.iter().any(|job| job.user == user.name && job.pool == user.name),
                    "{}",
                    user.name
                );
            }
        }
    }

    #[test]
    fn tasks_add_up_to_the_totals_of_the_table() {
        for class in FACEBOOK.iter().chain(&YAHOO) {
            let job = class.job("j".into(), "u".into());
            for kind in Kind::BOTH {
                let task_s = job.compute_seconds(kind) * SCALE;
                assert!((task_s - class.task_s(kind)).abs() <= class.task_s(kind) * 1e-3, "{}: {task_s}", class.name);
            }
            assert!(job.compute(Kind::Reduce).as_secs_f64() <= MAX_REDUCE_S);
            assert!(job.map_bytes <= BLOCK);
            let shuffle = job.map_output_bytes as f64 * f64::from(job.maps) * SCALE;
            assert!((shuffle - class.shuffle).abs() <= class.shuffle * 1e-3 + f64::from(job.maps) * SCALE);
        }
    }

    #[test]
    fn a_job_without_a_block_of_input_is_one_map() {
        let maps = |class: &Class| class.job("j".into(), "u".into()).maps;
        assert_eq!(FACEBOOK[..5].iter().map(maps).collect::<Vec<_>>(), [1; 5], "small jobs and data loads");
        assert_eq!(maps(&FACEBOOK[5]), (23e9f64 / BLOCK as f64).ceil() as u32);
    }

    #[test]
    fn more_jobs_arrive_in_the_same_time() {
        let last_s = |count: u32| {
            let jobs = coshh("test", Trace::Yahoo, Users::Even, count, 1).jobs;
            jobs.last().unwrap().submit.as_secs_f64()
        };
        let ratio = last_s(2_000) / last_s(500);
        assert!((0.8..1.25).contains(&ratio), "{ratio}");
    }

    #[test]
    fn total_work_has_the_magnitude_of_the_paper() {
        for (trace, low, high) in [(Trace::Facebook, 1e4, 1e5), (Trace::Yahoo, 1e5, 1e6)] {
            let workload = hundred(trace);
            let map_s: f64 = workload.jobs.iter().map(|job| job.compute_seconds(Kind::Map)).sum();
            let busy_s = map_s / 28.03;
            assert!((low..high).contains(&busy_s), "{trace:?}: {busy_s}");
        }
    }

    #[test]
    fn minimum_shares_are_split_by_kind() {
        let tenants = hundred(Trace::Facebook).tenants;
        let pool = |i: usize| (tenants.pools[i].min_maps, tenants.pools[i].min_reduces);
        assert_eq!(pool(0), (5, 0), "a class without reduces");
        assert_eq!(pool(5), (9, 6));
        assert_eq!((tenants.users[4].min_share, tenants.users[4].weight), (10, 2.0));
    }

    #[test]
    fn even_users_have_equal_weights_and_no_minimum_shares() {
        let tenants = coshh("test", Trace::Yahoo, Users::Even, 10, 1).tenants;
        assert!(tenants.users.iter().all(|user| user.min_share == 0 && user.weight == 1.0));
    }
}
