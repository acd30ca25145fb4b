//! What happened in a cluster, what is expected to happen, and what would have happened otherwise. Everything is derived from event logs.
//!
//! [`feed`] reads an event log, or the journal of a running cluster as it grows. [`model`] folds the records into tables of jobs, nodes, attempts and
//! decisions, and keeps a replica of the scheduler, which can be asked what the scheduler itself would answer. [`explain`] and [`forecast`] answer questions
//! about one job: why it runs or waits, and when it is expected to start and end. [`what_if`] compares runs of the same jobs under other policies and on other
//! clusters. Nothing here decides, serves or prints.

mod arrivals;
pub mod calibration;
pub mod explain;
pub mod feed;
#[cfg(test)]
#[path = "../tests/fixture/mod.rs"]
mod fixture;
pub mod forecast;
mod live;
pub mod model;
mod remaining;
mod task_times;
pub mod what_if;
