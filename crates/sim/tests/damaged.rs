//! Damaged policy files and event logs: bytes changed, inserted, removed, repeated or cut off. Whatever is left is read or refused without a
//! panic. `files.rs` does the same with cluster and workload files.
//!
//! `DAMAGE_CASES` sets the number of cases for each file.

use giveway_core::event_log::EventLogWriter;
use giveway_core::policy::catalog;
use giveway_core::{Action, Capabilities, Event, Policy, Setup, Time};
use giveway_sim::cluster;
use giveway_sim::comparison::Comparison;
use giveway_sim::workload::{self, from_event_log};
use giveway_sim::{Observer, Simulation};
use rand::{Rng, RngExt};

const INTERESTING: &[u8] = b"0123456789-+.eE\"'[]{}=,:#\n \x00\x7f\x80\xff";

fn cases() -> usize {
    std::env::var("DAMAGE_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(300)
}

/// Changes a few bytes: replaced, inserted, removed, repeated, or everything after a place removed.
fn damaged(bytes: &[u8], rng: &mut impl Rng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..rng.random_range(1..6) {
        if bytes.is_empty() {
            break;
        }
        let at = rng.random_range(0..bytes.len());
        let byte = INTERESTING[rng.random_range(0..INTERESTING.len())];
        match rng.random_range(0..10) {
            0..=3 => bytes[at] = byte,
            4..=6 => bytes.insert(at, byte),
            7 => drop(bytes.remove(at)),
            8 => {
                let end = (at + rng.random_range(1..40)).min(bytes.len());
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            _ if rng.random_range(0..4) == 0 => bytes.truncate(at),
            _ => bytes[at] = rng.random(),
        }
    }
    bytes
}

#[test]
fn policy_files() {
    for (seed, name) in (0..).zip(["fair", "giveway", "coshh"]) {
        let policy = catalog::by_name(name).expect("built-in policy");
        let original = toml::to_string(&policy).expect("a policy is TOML");
        assert_eq!(toml::from_str::<Policy>(&original).expect("the undamaged file is valid"), policy);
        let mut rng = workload::random::rng(seed, "damage");
        for _ in 0..cases() {
            let Ok(text) = String::from_utf8(damaged(original.as_bytes(), &mut rng)) else { continue };
            if let Ok(policy) = toml::from_str::<Policy>(&text) {
                // Valid, or refused with a message.
                let _ = Setup::new(policy).check().map_err(|error| error.to_string());
            }
        }
    }
}

struct Log(EventLogWriter, Vec<u8>);

impl Observer for Log {
    fn observe(&mut self, now: Time, event: &Event, actions: &[Action]) {
        self.0.record(now, event, actions, &mut self.1).expect("an event log is written to memory");
    }
}

#[test]
fn event_logs() {
    let policy = catalog::by_name("hsrtf-prp-pause").expect("built-in policy");
    let cluster = cluster::by_name("fcs").expect("built-in cluster");
    let mut workload = workload::by_name("hsrtf-table2", 1).expect("built-in workload");
    workload.jobs.truncate(3);
    let setup =
        Setup { policy: policy.clone(), tenants: workload.tenants.clone(), capabilities: Capabilities::ALL, seed: 1 };
    let (writer, bytes) = EventLogWriter::begin(&setup).expect("an event log is written to memory");
    let mut log = Log(writer, bytes);
    Simulation::new(&cluster, &workload, policy, 1).expect("valid setup").run(&mut log);
    let Log(writer, mut bytes) = log;
    writer.close(&mut bytes);
    let recorded = from_event_log(&bytes, "whole").expect("a whole event log is a workload");
    assert_eq!(recorded.jobs.len(), 3);
    let mut rng = workload::random::rng(3, "damage");
    for _ in 0..cases().div_ceil(4) {
        if let Ok(recorded) = from_event_log(&damaged(&bytes, &mut rng), "damaged") {
            assert!(recorded.workload.jobs.len() <= 3 + 6, "{}", recorded.workload.jobs.len());
        }
        let _ = from_event_log(&bytes[..rng.random_range(0..bytes.len())], "cut");
    }
}

/// The results of policies do not depend on how many run at the same time.
#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let cluster = cluster::by_name("hsrtf").expect("built-in cluster");
    let workload = workload::by_name("hsrtf-table2", 1).expect("built-in workload");
    let comparison = Comparison::new(cluster, workload, 1);
    let run = |name: &str| {
        let policy = catalog::by_name(name).expect("built-in policy");
        comparison.run(&policy, &mut ()).expect("valid setup").summary
    };
    let names = ["fair", "giveway", "fcs", "las"];
    let alone: Vec<_> = names.iter().map(|name| run(name)).collect();
    let together = std::thread::scope(|scope| {
        let threads: Vec<_> = names.iter().map(|name| scope.spawn(|| run(name))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
    });
    assert_eq!(alone, together);
}
