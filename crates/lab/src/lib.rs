//! The laboratory: commands that show and check what Giveway claims. Users who run jobs need none of it.
//!
//! | module | command | contents |
//! |---|---|---|
//! | [`demo`] | `giveway demo` | jobs on local clusters under several policies, every output compared with a sequential run |
//! | [`reproduce`] | `giveway reproduce` | the experiments of the papers, one file per paper, and the simulator's forecast of real clusters |
//! | [`compare`] | `giveway compare` | the policy `giveway` against all others, and without each of its parts |
//! | [`sweep`] | `giveway sweep` | policies, their settings and seeds on workloads, with the statistics of the differences |
//! | [`mod@bench`] | `giveway bench` | benchmarks on this machine |
//!
//! `estimate.rs` averages figures over seeds; `variants.rs` derives policies from others by changing settings.

pub mod args;
pub mod bench;
pub mod cluster_folder;
pub mod compare;
pub mod demo;
mod estimate;
mod local_cluster;
pub mod reproduce;
pub mod sweep;
mod variants;

use giveway_cli_common::{files, input, progress, report, rows, signals, table, text_table};
