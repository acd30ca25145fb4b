//! Synthetic workloads: heavy-tailed jobs of several users, arriving steadily or in bursts, at a given load.
//!
//! Sizes are drawn first. Their work relative to the cluster's slots gives the time span over which they must arrive for the given load, so a seed
//! that happens to draw a very large job gets a longer span, not a higher load. Arrivals are drawn over that span last.

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

/// Parameters of a synthetic workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Generate {
    /// Number of jobs.
    pub jobs: u32,
    /// Number of users, each with a pool of the same name.
    pub users: u32,
    /// Arriving work per available slot time, for the kind of slot with more work; 1 keeps every slot busy.
    pub load: f64,
    /// Distribution of the number of maps.
    pub sizes: Sizes,
    /// Arrival process.
    pub arrivals: Arrivals,
    /// Applications with relative frequencies.
    pub apps: Vec<(&'static App, f64)>,
    /// Input bytes of one map; the cluster's block size if absent.
    pub map_bytes: Option<u64>,
    /// Maps for each reduce; every job has at least one reduce.
    pub maps_per_reduce: f64,
    /// Reduces may start once this fraction of the maps is done, in millionths.
    pub slowstart_ppm: u32,
}

/// Distribution of the number of maps of a job, truncated at `max` by drawing again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sizes {
    /// Bounded Pareto: the fraction of jobs above x falls as x to the power of minus `shape`.
    Pareto {
        /// Smaller values give a heavier tail; traces have about 1.
        shape: f64,
        /// The smallest job.
        min: u32,
        /// The largest job.
        max: u32,
    },
    /// Log-normal.
    LogNormal {
        /// Median number of maps.
        median: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
        /// The largest job.
        max: u32,
    },
}

/// Arrival process of the jobs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// A Poisson process.
    Poisson,
    /// A Poisson process whose rate alternates between two states, quiet and burst, of exponential duration (MMPP).
    Bursty {
        /// Ratio of the arrival rates in a burst and outside.
        factor: f64,
        /// Fraction (0-1) of the time in bursts.
        share: f64,
        /// Mean duration of a burst, in seconds.
        length_s: f64,
    },
}

impl Default for Generate {
    fn default() -> Generate {
        let apps = ["wordcount", "sort", "grep", "invertedindex", "kmeans"]
            .map(|name| App::by_name(name).expect("the application is in the table"));
        Generate {
            jobs: 200,
            users: 4,
            load: 0.7,
            // Half of the jobs have fewer than eleven maps, one in fifteen more than a hundred, one in a hundred more than a thousand.
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

/// Names of the size groups of generated jobs, and of jobs in files without a group.
pub(crate) const GROUPS: [&str; 3] = ["small", "medium", "large"];

/// The index in [`GROUPS`] of a job with this many maps: up to ten, up to a hundred, more.
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

    /// The users, each with a pool, all with the same weight.
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

    /// The jobs in the order of their arrival.
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
        // Weights that define no distribution (none, all zero) select the first application.
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

/// Draws until the size is at most `max`; gives `max` after a hundred draws.
fn draw_up_to(max: u32, mut draw: impl FnMut() -> f64) -> u32 {
    let max = max.max(1);
    (0..100).map(|_| draw()).find(|size| *size <= f64::from(max)).map_or(max, |size| size.max(1.0) as u32)
}

impl Arrivals {
    /// `count` instants whose mean interval tends to `mean_gap_s`.
    pub(crate) fn draw(self, count: usize, mean_gap_s: f64, rng: &mut Pcg64) -> Vec<Time> {
        // A load of zero gives an infinite interval; then all jobs arrive at once.
        let mean_gap_s = if mean_gap_s.is_finite() { mean_gap_s } else { 0.0 };
        match self {
            Arrivals::Poisson => poisson(mean_gap_s, rng).take(count).collect(),
            Arrivals::Bursty { factor, share, length_s } => {
                let cycle_s = length_s / share;
                // Bursts that alternate many times between two jobs have no effect, and drawing all of them would take too long.
                if cycle_s.is_nan() || cycle_s < mean_gap_s / 1_000.0 {
                    return poisson(mean_gap_s, rng).take(count).collect();
                }
                bursty(count, mean_gap_s, factor, share, length_s, rng)
            }
        }
    }
}

fn bursty(count: usize, mean_gap_s: f64, factor: f64, share: f64, length_s: f64, rng: &mut Pcg64) -> Vec<Time> {
    // The mean rate over both states is 1 / gap: quiet rate x (1 - share) + quiet rate x factor x share = 1 / gap.
    let quiet_gap_s = mean_gap_s * (1.0 - share + share * factor);
    let gap_s = [quiet_gap_s, quiet_gap_s / factor];
    let mean_duration_s = [length_s * (1.0 - share) / share, length_s];
    let mut exponential = |mean: f64| -> f64 {
        let draw: f64 = Exp1.sample(rng);
        draw * mean
    };
    let (mut times, mut at_s, mut state) = (Vec::with_capacity(count), 0.0, 0);
    let mut state_ends_s = exponential(mean_duration_s[0]);
    while times.len() < count {
        // Exponential times have no memory, so an interval that is cut short by a change of state is drawn again at the new rate.
        let next_s = at_s + exponential(gap_s[state]);
        if next_s < state_ends_s {
            at_s = next_s;
            times.push(Time::from_secs_f64(at_s));
        } else {
            at_s = state_ends_s;
            state = 1 - state;
            state_ends_s = at_s + exponential(mean_duration_s[state]);
        }
    }
    times
}

/// The time span over which these jobs must arrive to put this load on the kind of slot with more work.
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

/// The average slot of a kind.
struct MeanSlot {
    kind: Kind,
    speed: f64,
    /// Transfer rate: of the disk for a map, the share of a link for a reduce.
    bytes_per_s: f64,
}

impl MeanSlot {
    fn of(cluster: &Cluster, kind: Kind) -> MeanSlot {
        let rate = |node: &NodeModel| match kind {
            Kind::Map => node.spec.disk_bytes_per_s as f64,
            Kind::Reduce => node.net_bytes_per_s as f64 / f64::from(node.spec.reduce_slots.max(1)),
        };
        let total_rate: f64 = cluster.nodes.iter().map(rate).sum();
        MeanSlot {
            kind,
            speed: cluster.speed_slots(kind) / f64::from(cluster.slots(kind).max(1)),
            bytes_per_s: (total_rate / cluster.nodes.len().max(1) as f64).max(1.0),
        }
    }

    /// Approximate time for which a task occupies the slot: launching, transferring, sorting and computing. A reduce is assumed to start after the
    /// last map.
    fn task_s(&self, job: &JobPlan, costs: &Costs) -> f64 {
        let transfer_s = match self.kind {
            Kind::Map => job.map_bytes as f64 / self.bytes_per_s,
            Kind::Reduce => {
                let sort: Span = costs.sort_per_gb.scaled(job.partition_bytes() as f64 / GB as f64);
                job.partition_bytes() as f64 / self.bytes_per_s + sort.as_secs_f64()
            }
        };
        costs.launch.as_secs_f64() + transfer_s + job.compute(self.kind).as_secs_f64() / self.speed.max(1e-6)
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
    fn the_load_is_as_configured() {
        let cluster = cluster::by_name("fcs").unwrap();
        for load in [0.3, 0.9] {
            let generate = Generate { jobs: 5_000, load, ..Generate::default() };
            let measured = load_of(&generate.jobs(&cluster, 3), &cluster);
            assert!((measured / load - 1.0).abs() < 0.05, "{measured}");
        }
    }

    #[test]
    fn sizes_have_a_heavy_tail_and_a_maximum() {
        let cluster = cluster::by_name("fcs").unwrap();
        let generate = Generate { jobs: 5_000, ..Generate::default() };
        let mut maps: Vec<u32> = generate.jobs(&cluster, 3).iter().map(|job| job.maps).collect();
        maps.sort_unstable();
        assert!((9..=12).contains(&maps[2_500]), "half of the jobs are small");
        let top: u32 = maps[4_750..].iter().sum();
        assert!(f64::from(top) > 0.4 * f64::from(maps.iter().sum::<u32>()), "5 % of the jobs have much of the work");
        assert!(*maps.last().unwrap() <= 5_000);
        let log_normal = Sizes::LogNormal { median: 20.0, sigma: 1.5, max: 1_000 };
        let mut maps: Vec<u32> = (0..2_001).map(|i| log_normal.draw(&mut rng(i, "test"))).collect();
        maps.sort_unstable();
        assert!((15..=25).contains(&maps[1_000]), "{}", maps[1_000]);
    }

    #[test]
    fn bursts_keep_the_rate_and_add_variance() {
        let bursty = Arrivals::Bursty { factor: 20.0, share: 0.1, length_s: 300.0 };
        let interval_and_dispersion = |arrivals: Arrivals| {
            let times = arrivals.draw(50_000, 10.0, &mut rng(5, "test"));
            let end_s = times.last().unwrap().as_secs_f64();
            let mut per_minute = vec![0.0; (end_s / 60.0) as usize + 1];
            times.iter().for_each(|time| per_minute[(time.as_secs_f64() / 60.0) as usize] += 1.0);
            let mean = per_minute.iter().sum::<f64>() / per_minute.len() as f64;
            let variance = per_minute.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / per_minute.len() as f64;
            (end_s / 50_000.0, variance / mean)
        };
        let (gap_s, dispersion) = interval_and_dispersion(bursty);
        assert!((gap_s / 10.0 - 1.0).abs() < 0.15, "{gap_s}");
        assert!(dispersion > 3.0, "{dispersion}");
        assert!(
            (interval_and_dispersion(Arrivals::Poisson).1 - 1.0).abs() < 0.1,
            "a Poisson count has variance = mean"
        );
    }

    #[test]
    fn every_user_has_jobs() {
        let cluster = cluster::by_name("fcs").unwrap();
        let workload = Generate::default().workload("w", &cluster, 1);
        workload.tenants.check().unwrap();
        for user in &workload.tenants.users {
            assert!(workload.jobs.iter().filter(|job| job.user == user.name).count() > 25, "{}", user.name);
        }
    }

    #[test]
    fn generation_ends_for_degenerate_parameters() {
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
