//! The `giveway` executable with the built-in applications.

use giveway_mapreduce::apps::Apps;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    giveway::main_with(Apps::builtin())
}
