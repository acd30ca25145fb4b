//! Baselines: other programs that do the same work on the same input.

use super::median;
use super::throughput::Measurement;
use anyhow::{Context, Result};
use rustc_hash::FxHashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// A simple parallel word count: two threads take files in turn and count into a hash map each; the maps are merged and sorted at the end.
pub fn count_words(files: &[PathBuf], repeat: u32) -> Result<Measurement> {
    let mut seconds = Vec::new();
    for _ in 0..repeat {
        let start = Instant::now();
        let next = AtomicUsize::new(0);
        let counted: Vec<Result<FxHashMap<Vec<u8>, u64>>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..2).map(|_| scope.spawn(|| count_files(files, &next))).collect();
            threads.into_iter().map(|thread| thread.join().expect("counting thread panicked")).collect()
        });
        let mut all: FxHashMap<Vec<u8>, u64> = FxHashMap::default();
        for counts in counted {
            counts?.into_iter().for_each(|(word, count)| *all.entry(word).or_default() += count);
        }
        let mut sorted: Vec<_> = all.into_iter().collect();
        sorted.sort_unstable();
        std::hint::black_box(sorted);
        seconds.push(start.elapsed().as_secs_f64());
    }
    Ok(Some((median(seconds), None)))
}

fn count_files(files: &[PathBuf], next: &AtomicUsize) -> Result<FxHashMap<Vec<u8>, u64>> {
    let mut counts: FxHashMap<Vec<u8>, u64> = FxHashMap::default();
    while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
        let text = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        for word in text.split(|byte| *byte <= b' ').filter(|word| !word.is_empty()) {
            match counts.get_mut(word) {
                Some(count) => *count += 1,
                None => {
                    counts.insert(word.to_vec(), 1);
                }
            }
        }
    }
    Ok(counts)
}

/// GNU sort with two threads; `None` if it is not installed or fails.
pub fn gnu_sort(folder: &Path, files: &[PathBuf], repeat: u32) -> Result<Measurement> {
    let output = folder.join("sorted");
    let mut seconds = Vec::new();
    for _ in 0..repeat {
        let start = Instant::now();
        let sorted = Command::new("sort")
            .args(["--parallel=2", "-S", "4G", "-o"])
            .arg(&output)
            .arg("-T")
            .arg(folder)
            .args(files)
            .env("LC_ALL", "C")
            .stderr(Stdio::null())
            .status();
        if !sorted.is_ok_and(|status| status.success()) {
            return Ok(None);
        }
        seconds.push(start.elapsed().as_secs_f64());
        let _ = fs::remove_file(&output);
    }
    Ok(Some((median(seconds), None)))
}
