//! Giveway's dashboard and HTTP API.
//!
//! Everything shown is derived from an event log: of a recorded or simulated run, or of a running cluster, whose journal contains one and grows.
//! [`model`] folds the records into tables of jobs, nodes, attempts and decisions, and keeps a replica of the scheduler, which can be asked what the
//! scheduler itself would answer. [`explain`] and [`forecast`] answer questions about one job. [`server`] serves all of it on loopback, with the pages in
//! `assets/`. Requests that change something go to the coordinator, as those of the command line do.

mod arrivals;
pub mod explain;
pub mod feed;
#[cfg(test)]
mod fixture;
pub mod forecast;
pub mod model;
pub mod server;
mod task_times;
