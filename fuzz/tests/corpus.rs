//! Each target on its corpus, and on changed copies of each file of it. `FUZZ_CASES` sets the number of copies.

use giveway_fuzz::TARGETS;
use giveway_sim::workload::random;
use rand::{Rng, RngExt};
use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

const INTERESTING: &[u8] = b"0123456789-+.eE\"'[]{}=,:#\n\t \x00\x01\x7f\x80\xff";

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Replaces, inserts, removes or repeats bytes, or cuts the rest off.
fn changed(bytes: &[u8], rng: &mut impl Rng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..rng.random_range(1..5) {
        if bytes.is_empty() {
            break;
        }
        let at = rng.random_range(0..bytes.len());
        let byte = INTERESTING[rng.random_range(0..INTERESTING.len())];
        match rng.random_range(0..12) {
            0..=3 => bytes[at] = byte,
            4..=5 => bytes[at] = rng.random(),
            6..=7 => bytes.insert(at, byte),
            8 => drop(bytes.remove(at)),
            9 => {
                let end = (at + rng.random_range(1..40)).min(bytes.len());
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            10 => {
                let end = (at + rng.random_range(1..40)).min(bytes.len());
                bytes.drain(at..end);
            }
            _ if rng.random_range(0..4) == 0 => bytes.truncate(at),
            _ => bytes[at] ^= 1 << rng.random_range(0..8),
        }
    }
    bytes
}

#[test]
fn no_input_causes_a_panic() {
    let cases: u64 = std::env::var("FUZZ_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(200);
    for (name, target) in TARGETS {
        let files = files(&corpus().join(name));
        assert!(!files.is_empty(), "{name} has no corpus");
        for path in files {
            let bytes = fs::read(&path).unwrap();
            let run = |bytes: &[u8], what: &str| {
                if catch_unwind(AssertUnwindSafe(|| target(bytes))).is_err() {
                    let failing = std::env::temp_dir().join(format!("giveway-fuzz-{name}"));
                    fs::write(&failing, bytes).unwrap();
                    panic!("{name}: {}, {what}, causes a panic; the input is in {}", path.display(), failing.display());
                }
            };
            run(&bytes, "unchanged");
            for case in 0..cases {
                let mut rng = random::rng(case, "fuzz");
                run(&changed(&bytes, &mut rng), &format!("changed with seed {case}"));
            }
        }
    }
}

#[test]
fn every_corpus_has_its_target() {
    let folders: BTreeSet<String> =
        files(&corpus()).iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    assert_eq!(folders, TARGETS.iter().map(|(name, _)| (*name).to_string()).collect());
}
