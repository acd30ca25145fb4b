//! Generated input: text with Zipf-distributed words, and records with random keys. Files that exist are reused.

use anyhow::{Context, Result};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

const FILES: u64 = 8;
const WORDS: usize = 100_000;

/// Eight files of text with `bytes` in total: words drawn from Zipf(1) over a vocabulary of 100,000.
pub fn text(folder: &Path, bytes: u64) -> Result<Vec<PathBuf>> {
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let words: Vec<String> = (0..WORDS).map(|_| word(&mut rng)).collect();
    let mut total = 0.0;
    let cumulative: Vec<f64> = (1..=WORDS)
        .map(|rank| {
            total += 1.0 / rank as f64;
            total
        })
        .collect();
    files(folder, "text", bytes, |out, rng| {
        let mut line_bytes = 0;
        while line_bytes < 80 {
            let point = rng.random_range(0.0..total);
            let word = &words[cumulative.partition_point(|&upto| upto < point).min(WORDS - 1)];
            out.extend_from_slice(word.as_bytes());
            out.push(b' ');
            line_bytes += word.len() + 1;
        }
        out.pop();
        out.push(b'\n');
    })
}

/// Eight files with `bytes` in total: records of 100 bytes that begin with a random printable key of 10 bytes.
pub fn records(folder: &Path, bytes: u64) -> Result<Vec<PathBuf>> {
    let mut number = 0_u64;
    files(folder, "records", bytes, move |out, rng| {
        out.extend((0..10).map(|_| rng.random_range(b' ' + 1..=b'~')));
        number += 1;
        let rest = format!(" {number:032x} ");
        out.extend_from_slice(rest.as_bytes());
        let filler = b'A' + (number % 26) as u8;
        out.resize(out.len() + 100 - 10 - rest.len() - 1, filler);
        out.push(b'\n');
    })
}

/// One file of 1 MiB of text.
pub fn small(folder: &Path) -> Result<Vec<PathBuf>> {
    let text = text(&folder.join("small"), 1 << 20)?;
    let path = folder.join("small.txt");
    let mut all = Vec::new();
    for file in text {
        all.extend(fs::read(file)?);
    }
    fs::write(&path, all)?;
    Ok(vec![path])
}

fn word(rng: &mut Pcg64Mcg) -> String {
    let length = rng.random_range(3..9);
    (0..length).map(|_| rng.random_range(b'a'..=b'z') as char).collect()
}

/// Writes [`FILES`] files of lines, each under a temporary name until it is complete.
fn files(
    folder: &Path,
    name: &str,
    bytes: u64,
    mut line: impl FnMut(&mut Vec<u8>, &mut Pcg64Mcg),
) -> Result<Vec<PathBuf>> {
    let folder = folder.join(format!("{name}-{bytes}"));
    fs::create_dir_all(&folder).with_context(|| format!("cannot create directory {}", folder.display()))?;
    let mut paths = Vec::new();
    for number in 0..FILES {
        let path = folder.join(format!("{name}-{number}"));
        let mut rng = Pcg64Mcg::seed_from_u64(number);
        if !path.exists() {
            let temporary = folder.join(".incomplete");
            let mut out = BufWriter::with_capacity(1 << 20, File::create(&temporary)?);
            let (mut written, mut buffer) = (0, Vec::new());
            while written < bytes / FILES {
                buffer.clear();
                line(&mut buffer, &mut rng);
                out.write_all(&buffer).with_context(|| format!("cannot write {}", temporary.display()))?;
                written += buffer.len() as u64;
            }
            out.flush()?;
            drop(out);
            fs::rename(&temporary, &path)?;
        }
        paths.push(path);
    }
    Ok(paths)
}
