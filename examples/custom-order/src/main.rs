//! `giveway` with one more order of jobs. It has all commands of `giveway`:
//!
//! ```sh
//! cargo run --release -p giveway-custom-order -- sim --workload fcs-map-heavy --policy all,examples/custom-order/policy.toml
//! ```

use giveway_core::policy::orders;
use giveway_custom_order::highest_response_ratio;
use giveway_mapreduce::apps::Apps;
use std::process::ExitCode;

fn main() -> ExitCode {
    orders::register([highest_response_ratio()]).expect("the only call, with a name of its own");
    giveway::main_with(Apps::builtin())
}
