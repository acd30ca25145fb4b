//! `giveway` with two more applications. It has all commands of `giveway`:
//!
//! ```sh
//! cargo run -p giveway-custom-app -- run extremes --input readings.txt --output extremes
//! ```
//!
//! `submit` ships this program to a running cluster, which need not have been started by it.

use giveway_custom_app::{CountWords, Extremes};
use giveway_mapreduce::apps::Apps;
use std::process::ExitCode;

fn main() -> ExitCode {
    giveway::main_with(Apps::builtin().with(Extremes).with(CountWords))
}
