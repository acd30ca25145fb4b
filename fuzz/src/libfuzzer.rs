//! The program that libFuzzer drives. `FUZZ_TARGET` is the name of the target.
#![no_main]
// The macro exports the function that libFuzzer calls.
#![allow(unsafe_code, missing_docs)]

use giveway_fuzz::{Target, target};
use std::sync::LazyLock;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    target(&name).unwrap_or_else(|| panic!("FUZZ_TARGET must be the name of a target, and is `{name}`"))
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| TARGET(bytes));
