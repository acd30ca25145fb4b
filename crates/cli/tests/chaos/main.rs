//! Chaos tests with real processes that are killed and suspended, disks that are full, and power cuts: the output of every application must be identical to
//! that of a sequential reference run.
//!
//! Each test starts a cluster of `giveway` processes, submits every application at once, injects one kind of fault (or all kinds), and compares the
//! outputs. Fault times are drawn from a seed that is printed: `CHAOS_SEED=N cargo test -p giveway --test chaos NAME` repeats a run, and
//! `CHAOS_ROUNDS=N` runs N consecutive seeds.

mod cluster;
mod disks;
mod jobs;

use cluster::Cluster;
use disks::{DiskImage, SmallDisk};
use giveway_core::{JobId, Kind};
use jobs::Workload;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Records per second that let the test see a paused reduce even if it seldom gets a processor.
const SLOWLY: u64 = 2_000;

/// Runs a scenario for each seed, with tasks limited to 6,000 records per second.
fn rounds(name: &str, scenario: impl Fn(&mut ChaosRun)) {
    rounds_at(6_000, name, scenario);
}

/// Runs a scenario for each seed, with tasks limited to `records_per_s`.
fn rounds_at(records_per_s: u64, name: &str, scenario: impl Fn(&mut ChaosRun)) {
    rounds_in(records_per_s, name, |_| {}, |run, ()| scenario(run));
}

/// Runs a scenario for each seed, in a folder that was prepared before the cluster starts.
fn rounds_in<T>(
    records_per_s: u64,
    name: &str,
    prepare: impl Fn(&Path) -> T,
    scenario: impl Fn(&mut ChaosRun, &mut T),
) {
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
    };
    let first = number("CHAOS_SEED", 1);
    for seed in first..first + number("CHAOS_ROUNDS", 1) {
        println!("{name}: seed {seed}; repeat with CHAOS_SEED={seed}");
        // Dropped in reverse order: first the cluster, then its disks, then the folder.
        let folder = tempfile::tempdir().expect("cannot create a temporary directory");
        let mut prepared = prepare(folder.path());
        let mut run = ChaosRun::start(seed, records_per_s, folder.path());
        scenario(&mut run, &mut prepared);
        run.finish();
    }
}

/// A cluster on which every application was submitted.
struct ChaosRun {
    rng: Pcg64Mcg,
    cluster: Cluster,
    workload: Workload,
    jobs: Vec<JobId>,
}

impl ChaosRun {
    fn start(seed: u64, records_per_s: u64, folder: &Path) -> ChaosRun {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let workload = Workload::generate(folder, &mut rng, records_per_s);
        let cluster = Cluster::start(folder);
        let jobs = workload.submit_all(&mut cluster.client());
        ChaosRun { rng, cluster, workload, jobs }
    }

    /// Sleeps for a random time from a range in milliseconds.
    fn sleep(&mut self, ms: std::ops::Range<u64>) {
        std::thread::sleep(Duration::from_millis(self.rng.random_range(ms)));
    }

    /// Whether every job has ended, including all rounds of iterative applications.
    fn all_ended(&self) -> bool {
        self.cluster.jobs().iter().all(|job| job.outcome.is_some())
    }

    /// Waits until a condition holds (returns true) or all jobs have ended (returns false); panics after several minutes.
    fn wait_for(&mut self, description: &str, mut condition: impl FnMut(&Cluster) -> bool) -> bool {
        for _ in 0..18_000 {
            if condition(&self.cluster) {
                return true;
            }
            if self.all_ended() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("timeout waiting for {description}: {:#?}", self.cluster.jobs());
    }

    /// Requests the preemption of every running task.
    fn preempt_all(&self) {
        let mut client = self.cluster.client();
        for job in client.jobs().unwrap_or_default().iter().filter(|job| job.outcome.is_none()) {
            // Fails if the coordinator was just killed, which is acceptable.
            let _ = client.yield_job(job.job);
        }
    }

    fn kill_random_worker(&mut self) -> usize {
        let at = self.rng.random_range(0..cluster::NODES);
        self.cluster.kill_worker(at);
        at
    }

    /// Waits for all jobs, and verifies outputs and event log.
    fn finish(mut self) {
        self.wait_for("the end of all jobs", |_| false);
        self.workload.check(&self.cluster, &self.jobs);
        self.cluster.check_event_log();
    }
}

#[test]
fn without_faults() {
    rounds("without faults", |_| {});
}

#[test]
fn every_task_is_preempted_at_least_once() {
    // On a busy machine a task may end before a preemption reaches it: the run is then repeated with slower tasks.
    let never_preempted = RefCell::new(Vec::new());
    for records_per_s in [1_000, 250, 60] {
        never_preempted.borrow_mut().clear();
        rounds_at(records_per_s, "every task is preempted", |run| {
            while !run.all_ended() {
                run.sleep(5..50);
                if !run.cluster.tasks_never_preempted().is_empty() {
                    run.preempt_all();
                }
            }
            never_preempted.borrow_mut().extend(run.cluster.tasks_never_preempted());
        });
        if never_preempted.borrow().is_empty() {
            return;
        }
    }
    panic!("tasks never preempted: {:?}", never_preempted.borrow());
}

#[test]
fn a_worker_dies_while_maps_run() {
    rounds("a worker dies during maps", |run| {
        run.sleep(50..600);
        let at = run.kill_random_worker();
        run.wait_for("the loss of the worker", |cluster| cluster.is_lost(at));
    });
}

#[test]
fn a_worker_dies_while_reduces_fetch() {
    rounds("a worker dies during the shuffle", |run| {
        let fetching = |cluster: &Cluster| {
            cluster.jobs().iter().any(|job| job.reduces.running > 0 && job.maps.done < job.maps.total)
        };
        run.wait_for("a shuffle", fetching);
        run.sleep(0..200);
        let at = run.kill_random_worker();
        run.wait_for("the loss of the worker", |cluster| cluster.is_lost(at));
        run.cluster.start_worker(at);
    });
}

#[test]
fn a_worker_dies_while_it_reduces() {
    rounds("a worker dies during a reduce", |run| {
        let reducing = |cluster: &Cluster| {
            let done =
                |job: &giveway_engine::wire::JobStatus| job.maps.done == job.maps.total && job.reduces.running > 0;
            cluster.jobs().iter().any(done)
        };
        run.wait_for("a reduce", reducing);
        run.sleep(0..300);
        let nodes = run.cluster.nodes();
        let at = nodes.iter().position(|node| node.reduce_slots.1 > 0).unwrap_or(0);
        run.cluster.kill_worker(at);
        run.wait_for("the loss of the worker", |cluster| cluster.is_lost(at));
    });
}

#[test]
fn a_worker_dies_while_it_holds_a_paused_reduce() {
    rounds_at(SLOWLY, "a worker dies with a paused reduce", |run| {
        // A freed slot goes to the first-ranked task. With more reduces than slots, at least one stays paused.
        let mut killed = false;
        while !killed && !run.all_ended() {
            run.preempt_all();
            std::thread::sleep(Duration::from_millis(15));
            let nodes = run.cluster.nodes();
            if let Some(at) = nodes.iter().position(|node| node.paused > 0) {
                run.cluster.kill_worker(at);
                killed = true;
                run.wait_for("the loss of the worker", |cluster| cluster.is_lost(at));
            }
        }
        assert!(killed, "no reduce was paused");
    });
}

/// A worker that restarts before its heartbeat timeout still has its paused reduces.
#[test]
fn a_paused_reduce_survives_a_restart_of_its_worker() {
    rounds_at(SLOWLY, "a worker restarts with a paused reduce", |run| {
        let mut restarts = 0;
        while restarts < 3 && !run.all_ended() {
            run.preempt_all();
            std::thread::sleep(Duration::from_millis(15));
            let nodes = run.cluster.nodes();
            if let Some(at) = nodes.iter().position(|node| node.paused > 0) {
                run.cluster.kill_worker(at);
                run.cluster.start_worker(at);
                restarts += 1;
                run.sleep(100..300);
            }
        }
        assert!(restarts > 0, "no reduce was paused");
    });
}

#[test]
fn the_coordinator_dies_repeatedly() {
    rounds("the coordinator dies", |run| {
        for _ in 0..6 {
            run.sleep(50..700);
            run.cluster.kill_coordinator();
            run.sleep(0..300);
            run.cluster.start_coordinator();
            if run.all_ended() {
                break;
            }
        }
    });
}

/// A suspended worker is like a slow one at first, and like a lost one once its heartbeats are missing for too long. What it still sends and does when it
/// continues must not count.
#[test]
fn workers_are_suspended() {
    rounds("workers are suspended", |run| {
        for until_lost in [false, true, false] {
            run.sleep(20..300);
            let at = run.rng.random_range(0..cluster::NODES);
            let Some(pid) = run.cluster.pid(at) else { continue };
            cluster::signal("-STOP", pid);
            if until_lost {
                run.wait_for("the loss of the worker", |cluster| cluster.is_lost(at));
            } else {
                run.sleep(50..800);
            }
            cluster::signal("-CONT", pid);
        }
    });
}

/// For longer than the heartbeat timeout: workers must not be taken for lost because the coordinator did not look.
#[test]
fn the_coordinator_is_suspended() {
    rounds("the coordinator is suspended", |run| {
        for ms in [100..600, 1600..2200, 100..600] {
            run.sleep(20..300);
            run.cluster.signal_coordinator("-STOP");
            run.sleep(ms);
            run.cluster.signal_coordinator("-CONT");
        }
    });
}

/// Its tasks fail, and run elsewhere.
#[test]
fn the_disk_of_a_worker_is_full() {
    if !SmallDisk::can_mount() {
        return;
    }
    let prepare = |folder: &Path| SmallDisk::mount(&folder.join("cluster/node-1"));
    rounds_in(6_000, "the disk of a worker is full", prepare, |run, disk| {
        disk.fill();
        let failed = run.wait_for("a failed task", |cluster| cluster.jobs().iter().any(|job| !job.failures.is_empty()));
        assert!(failed, "no task failed on a full disk");
        run.sleep(0..500);
        disk.free();
    });
}

/// The coordinator ends, and continues with all jobs once there is space again.
#[test]
fn the_disk_of_the_journal_is_full() {
    if !SmallDisk::can_mount() {
        return;
    }
    let prepare = |folder: &Path| {
        let disk = SmallDisk::mount(&folder.join("cluster"));
        // The workers' folders are on another disk.
        for at in 0..cluster::NODES {
            let elsewhere = folder.join(format!("work-{at}"));
            fs::create_dir(&elsewhere).expect("create a folder");
            std::os::unix::fs::symlink(&elsewhere, folder.join(format!("cluster/node-{at}"))).expect("create a link");
        }
        disk
    };
    rounds_in(6_000, "the disk of the journal is full", prepare, |run, disk| {
        run.sleep(0..400);
        disk.fill();
        let status = run.cluster.wait_for_coordinator();
        assert!(!status.success(), "{status}");
        disk.free();
        run.cluster.start_coordinator();
    });
}

/// Everything that was written and not synced is gone, for all processes at once.
#[test]
fn the_power_is_cut() {
    if !DiskImage::can_mount() {
        return;
    }
    rounds_in(2_000, "the power is cut", DiskImage::mount, |run, disk| {
        for _ in 0..4 {
            run.sleep(50..1_500);
            run.cluster.kill_all();
            disk.cut_power();
            run.cluster.start_coordinator();
        }
    });
}

#[test]
fn all_faults_at_once() {
    rounds("all faults at once", |run| {
        let mut killed: Vec<usize> = Vec::new();
        while !run.all_ended() {
            run.sleep(20..250);
            match run.rng.random_range(0..10) {
                0..6 => run.preempt_all(),
                6..8 if killed.is_empty() => {
                    let at = run.kill_random_worker();
                    killed.push(at);
                }
                6..9 => {
                    if let Some(at) = killed.pop() {
                        run.cluster.start_worker(at);
                    }
                }
                _ => {
                    run.cluster.kill_coordinator();
                    run.sleep(0..200);
                    run.cluster.start_coordinator();
                }
            }
        }
    });
}

/// The task of a work-conserving preemption event. A map that ended early without any progress does not count.
fn preempted_task(event: &giveway_core::Event) -> Option<(JobId, Kind, u32)> {
    use giveway_core::Event;
    let attempt = match event {
        Event::AttemptPaused { attempt, .. } => attempt,
        Event::AttemptEndedEarly { attempt, done_bytes, .. } if *done_bytes > 0 => attempt,
        _ => return None,
    };
    Some((attempt.task.job, attempt.task.kind, attempt.task.index))
}
