//! One run of the demo's mix under one policy, on a cluster of its own.

use super::mix::{GROUPS, Mix};
use crate::report::{self, Chart};
use anyhow::{Context, Result, ensure};
use giveway_core::tape::TapeReader;
use giveway_core::{JobId, JobSpec, Outcome, Policy, Tenants};
use giveway_engine::apps::Apps;
use giveway_engine::cluster::{self, Cluster};
use giveway_engine::coordinator;
use giveway_engine::reference::{self, Parts};
use giveway_sim::Observer;
use giveway_sim::metrics::{Grouping, Metrics};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Worker processes.
pub const NODES: u32 = 4;

/// When one of them is killed.
const KILL_AT: Duration = Duration::from_millis(2_500);

/// Runs the mix, checks every output, and reads the figures off the journal.
pub fn tell(folder: &Path, policy: Policy, mix: &Mix, apps: &Apps) -> Result<report::Run> {
    let name = policy.name.clone();
    let mut cluster = Cluster::start(options(folder, policy, apps))?;
    let jobs = run(&mut cluster, folder, mix)?;
    drop(cluster);
    let mut by_job = vec![0_u16; jobs.iter().map(|job| job.0 as usize + 1).max().unwrap_or(0)];
    for (job, of) in jobs.iter().zip(&mix.jobs) {
        by_job[job.0 as usize] = of.group;
    }
    figures(&fs::read(folder.join("journal").join("tape")).context("the journal")?, &name, by_job)
}

fn options(folder: &Path, policy: Policy, apps: &Apps) -> cluster::Options {
    let coordinator = coordinator::Options {
        folder: folder.to_owned(),
        listen: "127.0.0.1:0".into(),
        policy,
        tenants: Tenants::default(),
        seed: 1,
        beat: Duration::from_millis(75),
        timeout: Duration::from_millis(750),
        slowstart_ppm: 50_000,
        apps: apps.clone(),
    };
    cluster::Options { coordinator, nodes: NODES, map_slots: 3, reduce_slots: 2, patience: Duration::from_secs(10) }
}

/// Submits the jobs at their times, kills a worker on the way, and waits.
fn run(cluster: &mut Cluster, folder: &Path, mix: &Mix) -> Result<Vec<JobId>> {
    let began = Instant::now();
    let mut client = cluster.client()?;
    let mut jobs = Vec::new();
    let mut killed = false;
    let kill = |cluster: &mut Cluster| cluster.kill_worker(NODES as usize - 1).context("killing a worker");
    for job in &mix.jobs {
        let at = Duration::from_millis(job.at_ms);
        if at > KILL_AT && !killed {
            sleep_until(began + KILL_AT);
            kill(cluster)?;
            killed = true;
        }
        sleep_until(began + at);
        let mut request = job.request.clone();
        request.output = folder.join(format!("out-{}", jobs.len()));
        jobs.push(client.submit(request)?);
    }
    for (at, (job, of)) in jobs.iter().zip(&mix.jobs).enumerate() {
        let status = client.follow(*job, |_| {})?;
        ensure!(status.outcome == Some(Outcome::Succeeded), "{job} did not succeed: {:?}", status.problems);
        check(&folder.join(format!("out-{at}")), &of.expected).with_context(|| format!("{job}, {}", of.request.app))?;
    }
    Ok(jobs)
}

fn sleep_until(then: Instant) {
    std::thread::sleep(then.saturating_duration_since(Instant::now()));
}

/// Compares an output with what must be there.
fn check(output: &Path, expected: &Parts) -> Result<()> {
    let found = reference::found(output).with_context(|| output.display().to_string())?;
    let names = |parts: &Parts| parts.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    ensure!(
        names(&found) == names(expected),
        "{} has {:?}, not {:?}",
        output.display(),
        names(&found),
        names(expected)
    );
    for ((name, bytes), (_, wanted)) in found.iter().zip(expected) {
        ensure!(bytes == wanted, "{name} in {} is not what a sequential run gives", output.display());
    }
    Ok(())
}

/// What the tape says. Figures and pictures are those of a simulated run: a tape does not say who wrote it.
fn figures(tape: &[u8], policy: &str, by_job: Vec<u16>) -> Result<report::Run> {
    let groups = Grouping::listed(GROUPS.map(String::from).into(), by_job.clone());
    let mut metrics = Metrics::new(&Tenants::default(), groups, Vec::new());
    let group_of = move |spec: &JobSpec| by_job.get(spec.id.0 as usize).copied().unwrap_or(0);
    let mut chart = Chart::new(group_of, GROUPS.len());
    for record in TapeReader::open(tape)? {
        // The journal of a cluster that may be started again is not closed.
        let Ok(record) = record else { break };
        metrics.saw(record.now, &record.event, &record.actions);
        chart.saw(record.now, &record.event, &record.actions);
    }
    Ok(report::Run { summary: metrics.summary(policy, 1, None), jobs: metrics.jobs().to_vec(), chart })
}
