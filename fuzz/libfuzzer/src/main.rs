//! Runs the fuzz target named by `FUZZ_TARGET` under libFuzzer, which changes inputs guided by the code that they reach.

#![no_main]

use giveway_fuzz::{TARGETS, Target};
use std::sync::LazyLock;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET must name a target");
    let known = TARGETS.iter().find(|(known, _)| *known == name);
    known.unwrap_or_else(|| panic!("unknown target `{name}`: {:?}", TARGETS.map(|(known, _)| known))).1
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| TARGET(bytes));
