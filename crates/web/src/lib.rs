//! Giveway's dashboard and HTTP API.
//!
//! Everything shown is derived from an event log: of a recorded or simulated run, or of a running cluster, whose journal contains one and grows.
//! `giveway-analysis` makes tables, explanations and forecasts of it; [`server`] serves them on loopback, with the pages in `assets/`. Requests that change
//! something go to the coordinator, as those of the command line do.

#[cfg(test)]
#[path = "../../analysis/tests/fixture/mod.rs"]
mod fixture;
pub mod server;
