//! The controller against a modelled cluster: API server, Job controller, scheduler and kubelets, with faults, from a seed.
//!
//! The oracle (`cluster.rs`, `Cluster::check`) holds after every step: a pod whose request is zero has an annotation with what it had, and no node promises
//! more CPU than it has. At the end of a run every Job is complete, no pod was deleted, and nothing is squeezed or annotated.

mod cluster;

use cluster::{Cluster, Faults};
use giveway_core::policy::catalog;
use giveway_kube::{Controller, Mode, Options};

fn controller(policy: &str) -> Controller {
    let policy = giveway_kube::adapt(catalog::by_name(policy).unwrap(), true).0;
    Controller::new(Options { policy, mode: Mode::Schedule, name: "giveway".into() }).unwrap()
}

/// Runs a long Job on two nodes, and short ones that arrive while it runs.
fn run(policy: &'static str, seed: u64, faults: Faults) -> Cluster {
    let mut cluster = Cluster::new(seed, faults, move || controller(policy));
    cluster.add_node("n1", 2000);
    cluster.add_node("n2", 2000);
    cluster.submit("long", 4, 4, 3000, false);
    cluster.run(300);
    cluster.submit("short-1", 1, 1, 50, false);
    cluster.run(100);
    cluster.submit("short-2", 2, 3, 50, false);
    cluster.submit("held", 2, 2, 100, true);
    cluster.run_until_complete(20_000);
    cluster
}

#[test]
fn a_long_job_gives_way_and_gets_its_cpu_back() {
    let cluster = run("fcs", 1, Faults::default());
    assert!(cluster.squeezes > 0, "nothing was squeezed");
    let [short, long] = ["short-1", "long"].map(|name| cluster.completed_at(name));
    assert!(short < long, "the short Job ended at {short}, the long one at {long}");
    assert!(
        cluster.squeezed_wait_max("short-1") < 50,
        "the short pod waited {} steps",
        cluster.squeezed_wait_max("short-1")
    );
}

#[test]
fn without_preemption_the_short_job_waits() {
    let cluster = run("fifo", 1, Faults::default());
    assert_eq!(cluster.squeezes, 0);
    assert!(cluster.completed_at("short-1") > 3000);
}

/// Every fault at once: conflicts, throttling, lost answers, watch gaps, late status, and restarts of the controller at any step.
#[test]
fn nothing_stays_squeezed_and_nothing_is_lost_under_faults() {
    let mut squeezes = 0;
    for seed in 0..150 {
        let policy = ["fcs", "giveway", "hsrtf-pup-pause"][seed as usize % 3];
        squeezes += run(policy, seed, Faults::ALL).squeezes;
    }
    assert!(squeezes > 150, "only {squeezes} squeezes");
}

/// The controller is restarted after exactly so many of its requests: every step of a pause and of a resumption is among them.
#[test]
fn a_restart_after_any_request_continues() {
    for request in 0..40 {
        let faults = Faults { restart_after: Some(request), ..Faults::default() };
        let cluster = run("fcs", 7, faults);
        assert!(cluster.squeezes > 0);
    }
}

#[test]
fn runs_repeat() {
    let log = |seed| run("giveway", seed, Faults::ALL).journal;
    assert!(log(3) == log(3));
    assert!(log(3) != log(4));
}

/// Giving everything back ends, whatever state a controller left.
#[test]
fn restore_gives_every_request_back() {
    let mut restored = 0;
    for stop_at in (310..700).step_by(13) {
        let mut cluster = Cluster::new(stop_at, Faults::default(), || controller("fcs"));
        cluster.add_node("n1", 2000);
        cluster.submit("long", 2, 2, 3000, false);
        cluster.run(300);
        cluster.submit("short", 1, 1, 200, false);
        cluster.run(stop_at - 300);
        restored += u32::from(cluster.is_anything_squeezed());
        cluster.replace_controller(|| {
            let policy = catalog::by_name("fifo").unwrap();
            Controller::new(Options { policy, mode: Mode::Restore, name: "giveway".into() }).unwrap()
        });
        cluster.run(100);
        assert!(!cluster.is_anything_squeezed(), "stopped at step {stop_at}");
    }
    assert!(restored > 3, "only {restored} runs had something to restore");
}
