//! Input for the benchmark: words as often as Zipf says, and records with random keys.

use anyhow::{Context, Result};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

const FILES: u64 = 8;
const WORDS: usize = 100_000;

/// Eight files of text: Zipf(1) over 100,000 words.
pub fn text(folder: &Path, bytes: u64) -> Result<Vec<PathBuf>> {
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let words: Vec<String> = (0..WORDS).map(|_| word(&mut random)).collect();
    let mut reach = 0.0;
    let cumulative: Vec<f64> = (1..=WORDS)
        .map(|rank| {
            reach += 1.0 / rank as f64;
            reach
        })
        .collect();
    files(folder, "text", bytes, |out, random| {
        let mut line = 0;
        while line < 80 {
            let point = random.random_range(0.0..reach);
            let word = &words[cumulative.partition_point(|&upto| upto < point).min(WORDS - 1)];
            out.extend_from_slice(word.as_bytes());
            out.push(b' ');
            line += word.len() + 1;
        }
        out.pop();
        out.push(b'\n');
    })
}

/// Eight files of records of 100 bytes, a printable random key of ten in front.
pub fn records(folder: &Path, bytes: u64) -> Result<Vec<PathBuf>> {
    let mut number = 0_u64;
    files(folder, "records", bytes, move |out, random| {
        out.extend((0..10).map(|_| random.random_range(b' ' + 1..=b'~')));
        number += 1;
        let rest = format!(" {number:032x} ");
        out.extend_from_slice(rest.as_bytes());
        let filler = b'A' + (number % 26) as u8;
        out.resize(out.len() + 100 - 10 - rest.len() - 1, filler);
        out.push(b'\n');
    })
}

/// One megabyte of text.
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

fn word(random: &mut Pcg64Mcg) -> String {
    let length = random.random_range(3..9);
    (0..length).map(|_| random.random_range(b'a'..=b'z') as char).collect()
}

fn files(
    folder: &Path,
    name: &str,
    bytes: u64,
    mut line: impl FnMut(&mut Vec<u8>, &mut Pcg64Mcg),
) -> Result<Vec<PathBuf>> {
    let folder = folder.join(format!("{name}-{bytes}"));
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut paths = Vec::new();
    for at in 0..FILES {
        let path = folder.join(format!("{name}-{at}"));
        let mut random = Pcg64Mcg::seed_from_u64(at);
        if !path.exists() {
            let beside = folder.join(".making");
            let mut out = BufWriter::with_capacity(1 << 20, File::create(&beside)?);
            let (mut written, mut buffer) = (0, Vec::new());
            while written < bytes / FILES {
                buffer.clear();
                line(&mut buffer, &mut random);
                out.write_all(&buffer).with_context(|| format!("cannot write {}", beside.display()))?;
                written += buffer.len() as u64;
            }
            out.flush()?;
            drop(out);
            fs::rename(&beside, &path)?;
        }
        paths.push(path);
    }
    Ok(paths)
}
