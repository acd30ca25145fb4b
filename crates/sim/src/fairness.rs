//! How much later jobs and users finish under a policy than under `fair`, on workloads made to expose it: floods of small jobs, identical jobs at full load,
//! small jobs behind many large ones, reduces, unequal nodes, outages, and random mixes of these.

use crate::cluster::Cluster;
use crate::comparison::Comparison;
use crate::workload::{Workload, random};
use giveway_core::policy::catalog;
use giveway_core::{JobId, Policy};
use rand::RngExt;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A workload and the cluster that it is made for, as files.
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// The workload file.
    pub workload: String,
    /// The cluster file.
    pub cluster: String,
}

/// How much later jobs finish than under `fair`: completion times divided by those under `fair`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Delays {
    /// The mean over all jobs, divided by the mean under `fair`.
    pub mean: f64,
    /// The largest quotient of a job.
    pub worst_job: f64,
    /// The same after the time of its longest task is subtracted.
    pub worst_job_less_a_task: f64,
    /// The largest quotient of a user's mean.
    pub worst_user: f64,
}

const TWENTY_NODES: &str = "heartbeat = '3s'\nnoise = 0.1\n[[nodes]]\ncount = 20\nmap_slots = 4\nreduce_slots = 2\n";
const TEN_NODES: &str = "heartbeat = '3s'\nnoise = 0.1\n[[nodes]]\ncount = 10\nmap_slots = 4\nreduce_slots = 2\n";
const UNEQUAL_NODES: &str = "heartbeat = '3s'\nnoise = 0.1\n\
    [[nodes]]\nname = 'slow'\ncount = 10\nmap_slots = 4\nreduce_slots = 2\nspeed = 0.5\n\
    [[nodes]]\nname = 'middle'\ncount = 6\nmap_slots = 4\nreduce_slots = 2\n\
    [[nodes]]\nname = 'fast'\ncount = 4\nmap_slots = 4\nreduce_slots = 2\nspeed = 2\n";
const NO_OVERHEAD: &str = "reporting = 'immediate'\nreplicas = 10\n\
    [[nodes]]\ncount = 10\nmap_slots = 4\nreduce_slots = 2\ndisk_mb_s = 100000\nnet_mbit_s = 1000000\n[costs]\nlaunch = '0s'\n";
const OUTAGES: &str = "[faults.random]\nmean_up = '1h'\nmean_down = '3m'\n";
/// As [`OUTAGES`], where a backend notices a failed node as soon as the policy `giveway` asks for, also under `fair`.
const NOTICED: &str = "lost_after = '10s'\n";

/// A line of `[[jobs]]`: a user's jobs of one size, submitted at a fixed interval.
fn sorts(user: &str, maps: u32, reduces: u32, count: u32, every_s: u32) -> String {
    format!(
        "[[jobs]]\nname = '{user}'\nuser = '{user}'\napp = 'sort'\nmaps = {maps}\nreduces = {reduces}\ncount = {count}\nevery = {every_s}\n"
    )
}

fn maps(user: &str, maps: u32, seconds: u32, count: u32, every_s: u32) -> String {
    format!(
        "[[jobs]]\nname = '{user}'\nuser = '{user}'\nmaps = {maps}\nmap_mb = 64\nmap_seconds = {seconds}\nreduces = 0\ncount = {count}\nevery = {every_s}\n"
    )
}

/// The scenarios that were made by hand.
pub fn scenarios() -> Vec<Scenario> {
    let new = |name: &str, workload: String, cluster: &[&str]| Scenario {
        name: name.into(),
        workload,
        cluster: cluster.concat(),
    };
    let flood = || sorts("ann", 160, 40, 10, 240) + &sorts("bob", 40, 20, 170, 14);
    let three = || sorts("ann", 160, 40, 8, 300) + &sorts("bob", 40, 20, 150, 16) + &sorts("cat", 80, 10, 12, 200);
    let rights = "[[pools]]\nname = 'ann'\nweight = 2.0\n[[pools]]\nname = 'cat'\nmin_maps = 10\nmin_reduces = 5\n";
    let identical = "[[jobs]]\nname = 'same'\nmaps = 40\nmap_mb = 64\nmap_seconds = 4\nreduces = 20\nreduce_seconds = 9\n\
        map_output_mb = 64\ncount = 120\nevery = 12\n";
    let fast_network = "heartbeat = '3s'\nnoise = 0.1\n[[nodes]]\ncount = 10\nmap_slots = 4\nreduce_slots = 2\ndisk_mb_s = 1000\nnet_mbit_s = 10000\n";
    // Twenty large jobs, and once these have fallen behind, a job of one task every second.
    let large = "[[jobs]]\nname = 'large'\nmaps = 2000\nmap_mb = 0.01\nmap_seconds = 2\nreduces = 0\ncount = 20\n";
    let tiny = "[[jobs]]\nname = 'tiny'\nmaps = 1\nmap_mb = 0.005\nmap_seconds = 1\nreduces = 0\ncount = 600\nevery = 3\nsubmit = 100\n";
    let short = "[[jobs]]\nname = 'short'\nmaps = 40\nmap_mb = 0.01\nmap_seconds = 2\nreduces = 0\ncount = 600\nevery = 3\nsubmit = 1\n";
    vec![
        new("flood of smaller jobs", flood(), &[TWENTY_NODES]),
        new("flood of maps", maps("ann", 400, 20, 8, 300) + &maps("bob", 60, 15, 200, 12), &[TWENTY_NODES]),
        new("three users", three(), &[TWENTY_NODES]),
        new("three users, weights", three() + rights, &[TWENTY_NODES]),
        new("identical jobs, load 1", identical.into(), &[fast_network]),
        new("identical sorts, overload", sorts("ann", 40, 20, 150, 24), &[TEN_NODES]),
        new("tiny among large", [large, short, tiny].concat(), &[NO_OVERHEAD]),
        new("flood, unequal nodes", flood(), &[UNEQUAL_NODES]),
        new("sorts, unequal nodes", sorts("ann", 40, 20, 150, 24), &[UNEQUAL_NODES]),
        new("flood, outages", flood(), &[TWENTY_NODES, OUTAGES]),
        new("flood, outages, soon noticed", flood(), &[NOTICED, TWENTY_NODES, OUTAGES]),
    ]
}

/// One to four users, each with jobs of one size at a fixed interval, at 0.8 to 1.15 times what the slots could do without overhead. Every third cluster has nodes
/// of two speeds, every seventh outages.
pub fn random_scenario(number: u64) -> Scenario {
    let mut rng = random::rng(number, "fairness");
    let mut pick = |of: &[f64]| of[rng.random_range(0..of.len())];
    let nodes = pick(&[8.0, 12.0, 20.0]);
    let map_slots = pick(&[2.0, 4.0]);
    let reduce_slots = pick(&[1.0, 2.0]);
    let heartbeat = pick(&[1.0, 3.0]);
    let slots = |speed: f64, count: f64| {
        format!(
            "[[nodes]]\nname = 'speed-{speed}'\ncount = {count}\nmap_slots = {map_slots}\nreduce_slots = {reduce_slots}\nspeed = {speed}\n"
        )
    };
    let mut cluster = format!("heartbeat = '{heartbeat}s'\nnoise = 0.1\n");
    cluster +=
        &if number.is_multiple_of(3) { slots(0.5, nodes / 2.0) + &slots(1.5, nodes / 2.0) } else { slots(1.0, nodes) };
    if number.is_multiple_of(7) {
        cluster += OUTAGES;
    }
    let users = pick(&[1.0, 2.0, 3.0, 4.0]) as u32;
    let load = pick(&[0.8, 0.9, 1.0, 1.05, 1.1, 1.15]);
    struct Jobs {
        maps: f64,
        map_s: f64,
        reduces: f64,
        reduce_s: f64,
        output_mb: f64,
        part: f64,
    }
    let jobs: Vec<Jobs> = (0..users)
        .map(|_| Jobs {
            maps: (nodes * map_slots * pick(&[0.1, 0.5, 1.0, 2.0, 4.0])).ceil(),
            map_s: pick(&[3.0, 8.0, 20.0]),
            reduces: (nodes * reduce_slots * pick(&[0.0, 0.1, 0.5, 1.0, 2.0])).floor(),
            reduce_s: pick(&[2.0, 8.0, 30.0]),
            output_mb: pick(&[8.0, 32.0, 64.0]),
            part: pick(&[0.2, 0.5, 1.0]),
        })
        .collect();
    // Seconds that a job keeps all slots of a kind busy.
    let busy_s =
        |job: &Jobs| (job.maps * job.map_s / (nodes * map_slots), job.reduces * job.reduce_s / (nodes * reduce_slots));
    let longer_s = |job: &Jobs| busy_s(job).0.max(busy_s(job).1);
    let sum =
        |of: fn((f64, f64)) -> f64| jobs.iter().map(|job| job.part * of(busy_s(job)) / longer_s(job)).sum::<f64>();
    let scale = load / sum(|busy| busy.0).max(sum(|busy| busy.1));
    let mut workload = String::new();
    for (user, job) in jobs.iter().enumerate() {
        let every_s = longer_s(job) / (job.part * scale);
        let count = (2000.0 / every_s).clamp(1.0, 250.0).floor();
        let Jobs { maps, map_s, reduces, reduce_s, output_mb, .. } = job;
        let _ =
            writeln!(workload, "[[jobs]]\nname = 'jobs-of-{user}'\nuser = 'user-{user}'\nmaps = {maps}\nmap_mb = 64");
        let _ = writeln!(workload, "map_seconds = {map_s}\nreduces = {reduces}\ncount = {count}\nevery = {every_s:.2}");
        if *reduces > 0.0 {
            let _ = writeln!(workload, "reduce_seconds = {reduce_s}\nmap_output_mb = {output_mb}");
        }
    }
    Scenario { name: format!("random {number}"), workload, cluster }
}

impl Scenario {
    /// Compares a policy with `fair` under a seed. A job that did not succeed under both policies is left out.
    pub fn delays(&self, policy: &Policy, seed: u64) -> Delays {
        let cluster = Cluster::from_toml(&self.cluster, &self.name).expect("the cluster of a scenario is valid");
        let workload = Workload::from_toml(&self.workload, &self.name, &cluster, seed);
        let workload = workload.expect("the workload of a scenario is valid");
        let comparison = Comparison::without_bound(cluster, workload, seed);
        let fair = catalog::by_name("fair").expect("`fair` is in the catalogue");
        let completions_s = |policy: &Policy| -> BTreeMap<JobId, f64> {
            let result = comparison.run(policy, &mut ()).expect("the simulator can do all that a policy needs");
            result.jobs.iter().map(|job| (job.job, job.completion_s)).collect()
        };
        let [fair, ours] = [&fair, policy].map(completions_s);
        let mut delays = Delays::default();
        let mut users: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        for plan in &comparison.workload.jobs {
            let (Some(fair_s), Some(ours_s)) = (fair.get(&plan.id), ours.get(&plan.id)) else { continue };
            let sums = users.entry(&plan.user).or_default();
            *sums = (sums.0 + fair_s, sums.1 + ours_s);
            let task_s = plan.map_compute.max(plan.reduce_compute).as_secs_f64();
            delays.worst_job = delays.worst_job.max(ours_s / fair_s);
            delays.worst_job_less_a_task = delays.worst_job_less_a_task.max((ours_s - task_s) / fair_s);
        }
        delays.worst_user = users.values().map(|(fair_s, ours_s)| ours_s / fair_s).fold(0.0, f64::max);
        let (fair_s, ours_s) = users.values().fold((0.0, 0.0), |sums, of| (sums.0 + of.0, sums.1 + of.1));
        delays.mean = ours_s / fair_s;
        delays
    }
}
