//! Giveway's virtual body: a MapReduce cluster that exists only in memory, driven by the same core as a real one.
//!
//! [`Simulation`] joins a [`cluster::Cluster`], a [`workload::Workload`] and a policy, and turns the clock until every
//! job is over. It feels (heartbeats, ends of tasks, failures) and acts (launches, pauses, kills); every choice is the
//! core's. One seed gives one run, bit for bit, and every policy meets the same jobs, the same data in the same places,
//! the same noise and the same accidents.
//!
//! What happens inside the machines is modelled in plain parts, each of which can be read alone: `tasks` (what maps and
//! reduces take), `shuffle` (fetching as a fluid), `layout` (where input lies), `faults` (who fails when), `draws`
//! (chance). `run` joins them: it keeps the line of things to come and talks to the core. Nothing here reads a clock or
//! knows a policy's name.

mod attempts;
pub mod bound;
pub mod cluster;
mod draws;
mod faults;
pub mod files;
#[cfg(test)]
mod fixture;
mod layout;
pub mod metrics;
mod nodes;
mod observe;
mod offers;
mod queue;
mod ring;
mod run;
mod shuffle;
mod tasks;
pub mod trial;
pub mod workload;

pub use observe::{Observer, Totals};
pub use run::Simulation;
