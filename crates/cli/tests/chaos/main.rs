//! Real processes, real kills: every application's output must be that of a sequential run, byte for byte, whatever happens on the way.
//!
//! Each test starts a cluster of the `giveway` binary, submits every application at once, disturbs it in one way (or all ways), and compares. The
//! moments are drawn from a seed that is printed; `CHAOS_SEED=N cargo test -p giveway --test chaos NAME` draws them again, and
//! `CHAOS_ROUNDS=N` repeats with the seeds that follow.

mod cluster;
mod jobs;

use cluster::Cluster;
use giveway_core::{JobId, Kind};
use jobs::Workload;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::time::Duration;

/// Runs a story for each seed.
fn rounds(name: &str, story: impl Fn(&mut Story)) {
    rounds_at(6_000, name, story);
}

/// The same with tasks that take so many records a second.
fn rounds_at(records_per_s: u64, name: &str, story: impl Fn(&mut Story)) {
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
    };
    let first = number("CHAOS_SEED", 1);
    for seed in first..first + number("CHAOS_ROUNDS", 1) {
        println!("{name}: seed {seed}; again with CHAOS_SEED={seed}");
        let mut told = Story::begin(seed, records_per_s);
        story(&mut told);
        told.end();
    }
}

/// A cluster with every application at work.
struct Story {
    random: Pcg64Mcg,
    /// Stopped before the workload's folder goes.
    cluster: Cluster,
    workload: Workload,
    jobs: Vec<JobId>,
}

impl Story {
    fn begin(seed: u64, records_per_s: u64) -> Story {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let workload = Workload::make(&mut random, records_per_s);
        let cluster = Cluster::start(workload.folder());
        let jobs = workload.submit_all(&mut cluster.client());
        Story { random, workload, cluster, jobs }
    }

    fn pause(&mut self, ms: std::ops::Range<u64>) {
        std::thread::sleep(Duration::from_millis(self.random.random_range(ms)));
    }

    /// True once every job is over, through all its rounds.
    fn is_over(&self) -> bool {
        self.cluster.jobs().iter().all(|job| job.outcome.is_some())
    }

    /// Waits until the cluster is in some state, or everything is over.
    fn wait_for(&mut self, what: &str, mut state: impl FnMut(&Cluster) -> bool) -> bool {
        for _ in 0..6_000 {
            if state(&self.cluster) {
                return true;
            }
            if self.is_over() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("never saw {what}: {:#?}", self.cluster.jobs());
    }

    /// Every running task is asked to give way.
    fn all_give_way(&self) {
        let mut client = self.cluster.client();
        for job in client.jobs().unwrap_or_default().iter().filter(|job| job.outcome.is_none()) {
            // A coordinator that has just been killed does not answer, and need not.
            let _ = client.yield_job(job.job);
        }
    }

    fn kill_some_worker(&mut self) -> usize {
        let at = self.random.random_range(0..cluster::NODES);
        self.cluster.kill_worker(at);
        at
    }

    fn end(mut self) {
        self.wait_for("the end", |_| false);
        self.workload.check(&self.cluster, &self.jobs);
        self.cluster.check_event_log();
    }
}

#[test]
fn undisturbed() {
    rounds("undisturbed", |_| {});
}

#[test]
fn every_task_gives_way_at_least_once() {
    // A map takes a quarter of a second, and is asked after fifty milliseconds at most.
    rounds_at(1_000, "every task gives way", |story| {
        while !story.is_over() {
            story.pause(5..50);
            if !story.cluster.tasks_that_never_gave_way().is_empty() {
                story.all_give_way();
            }
        }
        let spared = story.cluster.tasks_that_never_gave_way();
        assert!(spared.is_empty(), "these were never asked at a moment when they could: {spared:?}");
    });
}

#[test]
fn a_worker_dies_while_maps_run() {
    rounds("a worker dies in the maps", |story| {
        story.pause(50..600);
        let at = story.kill_some_worker();
        story.wait_for("the loss", |cluster| cluster.is_lost(at));
    });
}

#[test]
fn a_worker_dies_while_reduces_fetch() {
    rounds("a worker dies in the shuffle", |story| {
        let fetching = |cluster: &Cluster| {
            cluster.jobs().iter().any(|job| job.reduces.running > 0 && job.maps.done < job.maps.total)
        };
        story.wait_for("a shuffle", fetching);
        story.pause(0..200);
        let at = story.kill_some_worker();
        story.wait_for("the loss", |cluster| cluster.is_lost(at));
        story.cluster.start_worker(at);
    });
}

#[test]
fn a_worker_dies_while_it_reduces() {
    rounds("a worker dies in a reduce", |story| {
        let reducing = |cluster: &Cluster| {
            let done =
                |job: &giveway_engine::wire::JobStatus| job.maps.done == job.maps.total && job.reduces.running > 0;
            cluster.jobs().iter().any(done)
        };
        story.wait_for("a reduce", reducing);
        story.pause(0..300);
        let nodes = story.cluster.nodes();
        let at = nodes.iter().position(|node| node.reduce_slots.1 > 0).unwrap_or(0);
        story.cluster.kill_worker(at);
        story.wait_for("the loss", |cluster| cluster.is_lost(at));
    });
}

#[test]
fn a_worker_dies_while_it_holds_a_paused_reduce() {
    rounds("a worker dies with a paused reduce", |story| {
        // Slots freed by a pause go to whoever is first in line; with more reduces than slots, somebody stays paused.
        let mut held = false;
        while !held && !story.is_over() {
            story.all_give_way();
            std::thread::sleep(Duration::from_millis(15));
            let nodes = story.cluster.nodes();
            if let Some(at) = nodes.iter().position(|node| node.paused > 0) {
                story.cluster.kill_worker(at);
                held = true;
                story.wait_for("the loss", |cluster| cluster.is_lost(at));
            }
        }
        assert!(held, "no reduce was ever paused");
    });
}

/// A worker that comes back before it is missed still has what was paused there.
#[test]
fn a_paused_reduce_survives_a_restart_of_its_worker() {
    rounds("a worker restarts with a paused reduce", |story| {
        let mut restarts = 0;
        while restarts < 3 && !story.is_over() {
            story.all_give_way();
            std::thread::sleep(Duration::from_millis(15));
            let nodes = story.cluster.nodes();
            if let Some(at) = nodes.iter().position(|node| node.paused > 0) {
                story.cluster.kill_worker(at);
                story.cluster.start_worker(at);
                restarts += 1;
                story.pause(100..300);
            }
        }
        assert!(restarts > 0, "no reduce was ever paused");
    });
}

#[test]
fn the_coordinator_dies_again_and_again() {
    rounds("the coordinator dies", |story| {
        for _ in 0..6 {
            story.pause(50..700);
            story.cluster.kill_coordinator();
            story.pause(0..300);
            story.cluster.start_coordinator();
            if story.is_over() {
                break;
            }
        }
    });
}

#[test]
fn everything_at_once() {
    rounds("everything at once", |story| {
        let mut away: Vec<usize> = Vec::new();
        while !story.is_over() {
            story.pause(20..250);
            match story.random.random_range(0..10) {
                0..6 => story.all_give_way(),
                6..8 if away.is_empty() => {
                    let at = story.kill_some_worker();
                    away.push(at);
                }
                6..9 => {
                    if let Some(at) = away.pop() {
                        story.cluster.start_worker(at);
                    }
                }
                _ => {
                    story.cluster.kill_coordinator();
                    story.pause(0..200);
                    story.cluster.start_coordinator();
                }
            }
        }
    });
}

/// The kinds are named in messages; this keeps the list of what an event log can say in one place.
fn gave_way(event: &giveway_core::Event) -> Option<(JobId, Kind, u32)> {
    use giveway_core::Event;
    let attempt = match event {
        Event::AttemptPaused { attempt, .. } => attempt,
        Event::AttemptEndedEarly { attempt, done_bytes, .. } if *done_bytes > 0 => attempt,
        _ => return None,
    };
    Some((attempt.task.job, attempt.task.kind, attempt.task.index))
}
