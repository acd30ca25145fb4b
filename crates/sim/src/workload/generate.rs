//! Synthetic workloads: heavy-tailed jobs of a few users, arriving steadily or in bursts, at a chosen load.
//!
//! Sizes are drawn first. Their work against the cluster's slots gives the time span over which they must arrive to
//! load it as asked, so that a seed that happens to draw a giant gets a longer span, not a higher load. Arrivals are
//! drawn over that span last.

use super::apps::{APPS, App, SLOWSTART_PPM};
use super::random::{poisson, rng};
use super::{JobPlan, Workload};
use crate::cluster::{Cluster, Costs, NodeModel};
use crate::files::GB;
use giveway_core::{Kind, Pool, Span, Tenants, Time, User};
use rand::RngExt;
use rand_distr::weighted::WeightedIndex;
use rand_distr::{Distribution, Exp1, LogNormal, Pareto};
use rand_pcg::Pcg64;

/// What to draw.
#[derive(Clone, Debug, PartialEq)]
pub struct Generate {
    /// How many jobs.
    pub jobs: u32,
    /// How many users, each with a pool of the same name.
    pub users: u32,
    /// Work that arrives, of the slot time of the busier kind of slot; 1 keeps every slot busy.
    pub load: f64,
    /// How the number of maps is distributed.
    pub sizes: Sizes,
    /// How jobs arrive.
    pub arrivals: Arrivals,
    /// Applications and how often each is drawn, relative to the others.
    pub apps: Vec<(&'static App, f64)>,
    /// Input of one map; the cluster's block if left out.
    pub map_bytes: Option<u64>,
    /// Maps for each reduce; every job has at least one reduce.
    pub maps_per_reduce: f64,
    /// Reduces may start once this part of the maps is done.
    pub slowstart_ppm: u32,
}

/// How the number of maps of a job is distributed. Both are cut at `max` by drawing again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sizes {
    /// Bounded Pareto: the share of jobs over x falls as x to the power of minus `shape`.
    Pareto {
        /// Smaller means a heavier tail; traces have about 1.
        shape: f64,
        /// The smallest job.
        min: u32,
        /// The largest.
        max: u32,
    },
    /// Log-normal.
    LogNormal {
        /// Half of the jobs are smaller.
        median: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
        /// The largest.
        max: u32,
    },
}

/// How jobs arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// A Poisson process.
    Poisson,
    /// A Poisson process whose rate changes between two states, quiet and burst, each lasting an exponential time
    /// (MMPP).
    Bursty {
        /// How many times more jobs arrive in a burst than outside of one, in the same time.
        factor: f64,
        /// What part of the time is burst, of 1.
        share: f64,
        /// Mean length of a burst, seconds.
        length_s: f64,
    },
}

impl Default for Generate {
    fn default() -> Generate {
        let apps = ["wordcount", "sort", "grep", "invertedindex", "kmeans"]
            .map(|name| App::by_name(name).expect("an application of the table"));
        Generate {
            jobs: 200,
            users: 4,
            load: 0.7,
            // Half of the jobs are under eleven maps, one in fifteen over a hundred, one in a hundred over a thousand.
            sizes: Sizes::Pareto { shape: 0.9, min: 5, max: 5_000 },
            arrivals: Arrivals::Poisson,
            // Facebook's mix in Chronos, section IV: 70 % map-heavy, 30 % reduce-heavy.
            apps: apps.into_iter().zip([3.0, 3.0, 2.0, 1.0, 1.0]).collect(),
            map_bytes: None,
            maps_per_reduce: 8.0,
            slowstart_ppm: SLOWSTART_PPM,
        }
    }
}

/// Names of the groups that drawn jobs, and jobs in files without a group, fall into.
pub(crate) const GROUPS: [&str; 3] = ["small", "medium", "large"];

/// Which of [`GROUPS`] a job of so many maps belongs to: up to ten, up to a hundred, more.
pub(crate) fn group_of(maps: u32) -> u16 {
    match maps {
        0..=10 => 0,
        11..=100 => 1,
        _ => 2,
    }
}

impl Generate {
    /// Draws the workload for a cluster.
    pub fn workload(&self, name: &str, cluster: &Cluster, seed: u64) -> Workload {
        Workload::numbered(name, self.tenants(), &GROUPS, self.jobs(cluster, seed))
    }

    /// The users, each with a pool, all alike.
    pub(crate) fn tenants(&self) -> Tenants {
        let names = || (0..self.users).map(user_name);
        let users = names().map(|name| User { name, weight: 1.0, min_share: 0 }).collect();
        let pool = |name| Pool {
            name,
            parent: None,
            weight: 1.0,
            min_maps: 0,
            min_reduces: 0,
            capacity: None,
            max_capacity: 100.0,
            user_limit: 100.0,
        };
        Tenants { users, pools: names().map(pool).collect() }
    }

    /// The jobs, in the order of their arrival.
    pub(crate) fn jobs(&self, cluster: &Cluster, seed: u64) -> Vec<JobPlan> {
        let rng_sizes = &mut rng(seed, "generate sizes");
        let rng_apps = &mut rng(seed, "generate apps");
        let rng_users = &mut rng(seed, "generate users");
        let map_bytes = self.map_bytes.unwrap_or(cluster.block_bytes);
        let mut jobs: Vec<JobPlan> = (0..self.jobs)
            .map(|i| {
                let app = self.draw_app(rng_apps);
                let maps = self.sizes.draw(rng_sizes);
                let reduces = (f64::from(maps) / self.maps_per_reduce).ceil().max(1.0) as u32;
                let mut job = app.job(format!("{}-{}", app.name, i + 1), maps, map_bytes, reduces);
                job.user = user_name(rng_users.random_range(0..self.users.max(1)));
                job.pool = job.user.clone();
                job.group = group_of(maps);
                job.slowstart_ppm = self.slowstart_ppm;
                job
            })
            .collect();
        let mean_gap_s = span_at_load_s(&jobs, cluster, self.load) / f64::from(self.jobs.max(1));
        let arrivals = self.arrivals.draw(jobs.len(), mean_gap_s, &mut rng(seed, "generate arrivals"));
        for (job, at) in jobs.iter_mut().zip(arrivals) {
            job.submit = at;
        }
        jobs
    }

    fn draw_app(&self, rng: &mut Pcg64) -> &'static App {
        // Weights that cannot be drawn from (none, all zero) mean no preference.
        match WeightedIndex::new(self.apps.iter().map(|(_, weight)| *weight)) {
            Ok(index) => self.apps[index.sample(rng)].0,
            Err(_) => self.apps.first().map_or(&APPS[0], |(app, _)| app),
        }
    }
}

fn user_name(i: u32) -> String {
    format!("user-{}", i + 1)
}

impl Sizes {
    fn draw(self, rng: &mut Pcg64) -> u32 {
        match self {
            Sizes::Pareto { shape, min, max } => match Pareto::new(f64::from(min.max(1)), shape) {
                Ok(pareto) => draw_up_to(max, || pareto.sample(rng).floor()),
                Err(_) => min.max(1),
            },
            Sizes::LogNormal { median, sigma, max } => match LogNormal::new(median.max(1e-9).ln(), sigma) {
                Ok(log_normal) => draw_up_to(max, || log_normal.sample(rng).round()),
                Err(_) => 1,
            },
        }
    }
}

/// Draws until the size is at most `max`; a distribution that lies nearly all beyond it gives `max` in the end.
fn draw_up_to(max: u32, mut draw: impl FnMut() -> f64) -> u32 {
    let max = max.max(1);
    (0..100).map(|_| draw()).find(|size| *size <= f64::from(max)).map_or(max, |size| size.max(1.0) as u32)
}

impl Arrivals {
    /// So many instants with this mean gap in the long run.
    pub(crate) fn draw(self, count: usize, mean_gap_s: f64, rng: &mut Pcg64) -> Vec<Time> {
        // A load of nothing asks for an endless gap; all at once is as good an answer, and it ends.
        let mean_gap_s = if mean_gap_s.is_finite() { mean_gap_s } else { 0.0 };
        match self {
            Arrivals::Poisson => poisson(mean_gap_s, rng).take(count).collect(),
            Arrivals::Bursty { factor, share, length_s } => {
                let cycle_s = length_s / share;
                // Bursts that come and go many times between two jobs are no bursts; and drawing them all would take
                // for ever.
                if cycle_s.is_nan() || cycle_s < mean_gap_s / 1_000.0 {
                    return poisson(mean_gap_s, rng).take(count).collect();
                }
                bursty(count, mean_gap_s, factor, share, length_s, rng)
            }
        }
    }
}

fn bursty(count: usize, mean_gap_s: f64, factor: f64, share: f64, length_s: f64, rng: &mut Pcg64) -> Vec<Time> {
    // The mean over both states is one job a gap: quiet rate x (1 - share) + quiet rate x factor x share = 1 / gap.
    let quiet_gap_s = mean_gap_s * (1.0 - share + share * factor);
    let gap_s = [quiet_gap_s, quiet_gap_s / factor];
    let stay_s = [length_s * (1.0 - share) / share, length_s];
    let mut exponential = |mean: f64| -> f64 {
        let draw: f64 = Exp1.sample(rng);
        draw * mean
    };
    let (mut times, mut at_s, mut state) = (Vec::with_capacity(count), 0.0, 0);
    let mut state_ends_s = exponential(stay_s[0]);
    while times.len() < count {
        // Exponential times have no memory, so a gap cut short by a change of state is simply drawn again at the new
        // rate.
        let next_s = at_s + exponential(gap_s[state]);
        if next_s < state_ends_s {
            at_s = next_s;
            times.push(Time::from_secs_f64(at_s));
        } else {
            at_s = state_ends_s;
            state = 1 - state;
            state_ends_s = at_s + exponential(stay_s[state]);
        }
    }
    times
}

/// The time span over which these jobs must arrive to load the busier kind of slot as asked.
pub(crate) fn span_at_load_s(jobs: &[JobPlan], cluster: &Cluster, load: f64) -> f64 {
    let busy_s = |kind: Kind| {
        let slots = f64::from(cluster.slots(kind));
        if slots == 0.0 {
            return 0.0;
        }
        let slot = MeanSlot::of(cluster, kind);
        let work_s: f64 = jobs.iter().map(|job| slot.task_s(job, &cluster.costs) * f64::from(job.tasks(kind))).sum();
        work_s / slots
    };
    busy_s(Kind::Map).max(busy_s(Kind::Reduce)) / load
}

/// A slot as the slots of a kind are on the average.
struct MeanSlot {
    kind: Kind,
    speed: f64,
    /// What it moves: a map reads from its disk, a reduce has its share of a link.
    bytes_per_s: f64,
}

impl MeanSlot {
    fn of(cluster: &Cluster, kind: Kind) -> MeanSlot {
        let moves = |node: &NodeModel| match kind {
            Kind::Map => node.spec.disk_bytes_per_s as f64,
            Kind::Reduce => node.net_bytes_per_s as f64 / f64::from(node.spec.reduce_slots.max(1)),
        };
        let moved: f64 = cluster.nodes.iter().map(moves).sum();
        MeanSlot {
            kind,
            speed: cluster.speed_slots(kind) / f64::from(cluster.slots(kind).max(1)),
            bytes_per_s: (moved / cluster.nodes.len().max(1) as f64).max(1.0),
        }
    }

    /// What a task holds the slot for, about: starting, moving its bytes, sorting them, and computing. A reduce is counted as if it started
    /// when the last map is done.
    fn task_s(&self, job: &JobPlan, costs: &Costs) -> f64 {
        let move_s = match self.kind {
            Kind::Map => job.map_bytes as f64 / self.bytes_per_s,
            Kind::Reduce => {
                let sort: Span = costs.sort_per_gb.scaled(job.partition_bytes() as f64 / GB as f64);
                job.partition_bytes() as f64 / self.bytes_per_s + sort.as_secs_f64()
            }
        };
        costs.launch.as_secs_f64() + move_s + job.compute(self.kind).as_secs_f64() / self.speed.max(1e-6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster;

    fn load_of(jobs: &[JobPlan], cluster: &Cluster) -> f64 {
        span_at_load_s(jobs, cluster, 1.0) / jobs.last().unwrap().submit.as_secs_f64()
    }

    #[test]
    fn the_load_is_what_was_asked_for() {
        let cluster = cluster::by_name("fcs").unwrap();
        for load in [0.3, 0.9] {
            let generate = Generate { jobs: 5_000, load, ..Generate::default() };
            let found = load_of(&generate.jobs(&cluster, 3), &cluster);
            assert!((found / load - 1.0).abs() < 0.05, "{found}");
        }
    }

    #[test]
    fn sizes_have_a_heavy_tail_and_an_end() {
        let cluster = cluster::by_name("fcs").unwrap();
        let generate = Generate { jobs: 5_000, ..Generate::default() };
        let mut maps: Vec<u32> = generate.jobs(&cluster, 3).iter().map(|job| job.maps).collect();
        maps.sort_unstable();
        assert!((9..=12).contains(&maps[2_500]), "half of the jobs are small");
        let top: u32 = maps[4_750..].iter().sum();
        assert!(f64::from(top) > 0.4 * f64::from(maps.iter().sum::<u32>()), "one job in twenty holds much of the work");
        assert!(*maps.last().unwrap() <= 5_000);
        let log_normal = Sizes::LogNormal { median: 20.0, sigma: 1.5, max: 1_000 };
        let mut maps: Vec<u32> = (0..2_001).map(|i| log_normal.draw(&mut rng(i, "test"))).collect();
        maps.sort_unstable();
        assert!((15..=25).contains(&maps[1_000]), "{}", maps[1_000]);
    }

    #[test]
    fn bursts_keep_the_rate_and_add_variance() {
        let bursty = Arrivals::Bursty { factor: 20.0, share: 0.1, length_s: 300.0 };
        let spread = |arrivals: Arrivals| {
            let times = arrivals.draw(50_000, 10.0, &mut rng(5, "test"));
            let end_s = times.last().unwrap().as_secs_f64();
            let mut per_minute = vec![0.0; (end_s / 60.0) as usize + 1];
            times.iter().for_each(|time| per_minute[(time.as_secs_f64() / 60.0) as usize] += 1.0);
            let mean = per_minute.iter().sum::<f64>() / per_minute.len() as f64;
            let variance = per_minute.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / per_minute.len() as f64;
            (end_s / 50_000.0, variance / mean)
        };
        let (gap_s, dispersion) = spread(bursty);
        assert!((gap_s / 10.0 - 1.0).abs() < 0.15, "{gap_s}");
        assert!(dispersion > 3.0, "{dispersion}");
        assert!((spread(Arrivals::Poisson).1 - 1.0).abs() < 0.1, "a Poisson count varies as much as it amounts to");
    }

    #[test]
    fn users_share_the_jobs() {
        let cluster = cluster::by_name("fcs").unwrap();
        let workload = Generate::default().workload("w", &cluster, 1);
        workload.tenants.check().unwrap();
        for user in &workload.tenants.users {
            assert!(workload.jobs.iter().filter(|job| job.user == user.name).count() > 25, "{}", user.name);
        }
    }

    #[test]
    fn nonsense_parameters_still_end() {
        let cluster = cluster::by_name("fcs").unwrap();
        let generate = Generate {
            jobs: 50,
            users: 0,
            sizes: Sizes::Pareto { shape: 1e-3, min: 9, max: 3 },
            arrivals: Arrivals::Bursty { factor: 1e9, share: 1e-9, length_s: 1e-9 },
            apps: Vec::new(),
            ..Generate::default()
        };
        assert_eq!(generate.jobs(&cluster, 1).len(), 50);
    }
}
