//! A simulation of the whole engine: the real coordinator with its journal and its work on output folders, the real workers and the messages between them
//! as they are encoded, and models of tasks, clients, connections, clocks and a disk, on one scheduler with virtual time. Everything follows from a seed.
//!
//! | file | contents |
//! |---|---|
//! | `scenario.rs` | what happens: jobs, faults, their times |
//! | `world.rs` | the scheduler, and what faults do |
//! | `coordinator_process.rs`, `worker_process.rs` | processes that are started, suspended and killed, and their connections |
//! | `clients.rs` | clients that submit, follow and kill jobs |
//! | `task.rs` | a model of a task and of what it leaves on disk |
//! | `disk.rs` | a model of a disk that loses and tears what is not synced |
//! | `oracle.rs`, `event_logs.rs` | what must hold |
//!
//! `long_journal.rs` uses the same models, without faults and on a real disk, to measure recovery.
//!
//! Not simulated: the execution of tasks, and planning.

mod clients;
mod coordinator_process;
mod disk;
mod event_logs;
mod figures;
mod long_journal;
mod oracle;
mod random;
mod scenario;
mod task;
mod worker_process;
mod world;

pub use figures::Figures;
pub use long_journal::{LongJournal, Started, Written, start};
pub use oracle::Violation;
pub use scenario::Scenario;

/// Runs a scenario.
pub fn run(scenario: &Scenario) -> Result<Figures, Violation> {
    world::World::new(scenario.clone()).run()
}

/// Removes faults and jobs from a failing scenario as long as it still fails. Returns the smallest one found and how it fails; `None` if the scenario
/// does not fail.
pub fn minimize(scenario: &Scenario) -> Option<(Scenario, Violation)> {
    let mut smallest = (scenario.clone(), run(scenario).err()?);
    while let Some(smaller) =
        smallest.0.smaller().into_iter().find_map(|smaller| run(&smaller).err().map(|violation| (smaller, violation)))
    {
        smallest = smaller;
    }
    Some(smallest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `SIMULATION_SEEDS` sets the number of seeds.
    #[test]
    fn random_faults_break_no_promise() {
        let seeds = std::env::var("SIMULATION_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(200);
        for seed in 0..seeds {
            if let Some((smallest, violation)) = minimize(&Scenario::random(seed)) {
                panic!("seed {seed}: {violation}\n{smallest}");
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_run() {
        let scenario = Scenario::random(3);
        assert_eq!(run(&scenario).unwrap(), run(&scenario).unwrap());
    }

    /// A sample of what the example `simulate --crash-points` enumerates.
    #[test]
    fn a_crash_at_a_file_operation_breaks_no_promise() {
        let operations = run(&Scenario::crash_at(4, None, false)).unwrap().file_operations;
        for operation in (1..=operations).step_by(11) {
            for cuts_power in [false, true] {
                let scenario = Scenario::crash_at(4, Some(operation), cuts_power);
                if let Err(violation) = run(&scenario) {
                    panic!("{violation}\n{scenario}");
                }
            }
        }
    }
}
