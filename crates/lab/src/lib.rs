//! The laboratory: commands that show and check what Giveway claims. Users who run jobs need none of it.
//!
//! | module | command | contents |
//! |---|---|---|
//! | [`demo`] | `giveway demo` | jobs on local clusters under several policies, every output compared with a sequential run |
//! | [`reproduce`] | `giveway reproduce` | the experiments of the papers, one file per paper, and the simulator's forecast of real clusters |
//! | [`compare`] | `giveway compare` | the policy `giveway` against all others, and without each of its parts |
//! | [`mod@bench`] | `giveway bench` | benchmarks on this machine |

pub mod args;
pub mod bench;
pub mod cluster_folder;
pub mod compare;
pub mod demo;
mod local_cluster;
pub mod reproduce;

use giveway_cli_common::{files, input, progress, report, signals, table, text_table};
