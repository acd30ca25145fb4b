//! `giveway` with an order of jobs and a filter of nodes of its own. It has all commands of `giveway`:
//!
//! ```sh
//! cargo run --release -p giveway-custom-parts -- sim --workload fcs-map-heavy --policy all,examples/custom-parts/policy.toml
//! ```

use giveway_mapreduce::apps::Apps;
use std::process::ExitCode;

fn main() -> ExitCode {
    giveway_custom_parts::register_parts().expect("the only call, with names of their own");
    giveway::main_with(Apps::builtin())
}
