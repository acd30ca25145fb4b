//! The sequential twin of the engine: slow, obvious, and right.
//!
//! It reads all files whole, maps line after line, sorts all records, reduces key after key, and writes nothing but what comes out. It
//! shares no code with the data path, so that a job's output can be compared with it byte for byte.

use crate::apps::{App, part_name};
use crate::input::{self, StoreAccess};
use crate::job::{Packing, Plan, SplitAt};
use crate::record::{Emit, Failure, Record, Values};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Output files: names and bytes, in order.
pub type Parts = Vec<(String, Vec<u8>)>;

/// What a job's output must be: the files of its last round, by name.
pub fn run(app: &dyn App, plan: &Plan, stored: &dyn StoreAccess) -> Result<Parts, Failure> {
    in_rounds(app, plan, |plan| round(app, plan, stored))
}

/// What a job has left in its output folder, to be compared with [`run`]: the pieces of a split whose map ended early are put together.
pub fn found(output: &Path) -> io::Result<Parts> {
    let mut names = Vec::new();
    for entry in fs::read_dir(output)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    let mut parts = Parts::new();
    for name in names.iter().filter(|name| name.starts_with("part-")) {
        let bytes = fs::read(output.join(name))?;
        let part: String = name.chars().take("part-r-00000".len()).collect();
        match parts.last_mut().filter(|(last, _)| *last == part) {
            Some((_, whole)) => whole.extend(bytes),
            None => parts.push((part, bytes)),
        }
    }
    Ok(parts)
}

/// Runs rounds until the last one. Rounds before it leave their output in a folder of our own, where the application finds it.
pub(crate) fn in_rounds(
    app: &dyn App,
    plan: &Plan,
    mut round: impl FnMut(&Plan) -> Result<Parts, Failure>,
) -> Result<Parts, Failure> {
    let scratch = Scratch::new()?;
    let mut plan = plan.clone();
    loop {
        let parts = round(&plan)?;
        if plan.output == plan.request.output {
            return Ok(parts);
        }
        plan.output = scratch.folder(plan.round)?;
        for (name, bytes) in parts {
            fs::write(plan.output.join(name), bytes).map_err(cannot_write(&plan.output))?;
        }
        plan = app.next_round(&plan)?.ok_or_else(|| {
            Failure(format!(
                "{} ends with round {}, which does not write the output of the job",
                app.name(),
                plan.round
            ))
        })?;
    }
}

fn round(app: &dyn App, plan: &Plan, stored: &dyn StoreAccess) -> Result<Parts, Failure> {
    let mut parts = Parts::new();
    let mut all = Records::default();
    let mut texts = Texts { plan, stored, last: None };
    for (split, part) in plan.splits.iter().zip(0..) {
        let mut mapper = app.mapper(plan)?;
        let text = texts.of(split.file)?;
        for (offset, line) in lines(plan, *split, text) {
            mapper.map(Record { file: &plan.files[split.file as usize].name, offset, line }, &mut all)?;
        }
        mapper.finish(&mut all)?;
        if plan.reduces == 0 {
            parts.push((part_name(plan, part), std::mem::take(&mut all).written(plan)));
        }
    }
    let mut sorted: Vec<_> = all.iter().collect();
    sorted.sort_unstable();
    for part in 0..plan.reduces {
        let mut out = Records::default();
        let mut reducer = app.reducer(plan)?.ok_or_else(|| Failure(format!("{} has no reducer", app.name())))?;
        for group in sorted.chunk_by(|a, b| a.0 == b.0) {
            let key = group[0].0;
            if plan.partition.of(key, plan.reduces) == part {
                reducer.reduce(key, &mut OneByOne(group.iter()), &mut out)?;
            }
        }
        reducer.finish(&mut out)?;
        parts.push((part_name(plan, part), out.written(plan)));
    }
    Ok(parts)
}

/// The unpacked texts of the files; the last one is kept, since splits of a file are neighbours.
struct Texts<'a> {
    plan: &'a Plan,
    stored: &'a dyn StoreAccess,
    last: Option<(u32, Vec<u8>)>,
}

impl Texts<'_> {
    fn of(&mut self, file: u32) -> Result<&[u8], Failure> {
        let text = match self.last.take() {
            Some((last, text)) if last == file => text,
            _ => input::read_text(&self.plan.files[file as usize], self.stored)?,
        };
        Ok(&self.last.insert((file, text)).1)
    }
}

/// The lines that begin in a split, and where.
fn lines<'a>(plan: &Plan, split: SplitAt, text: &'a [u8]) -> impl Iterator<Item = (u64, &'a [u8])> {
    let mine = match plan.files[split.file as usize].packing {
        Packing::Plain => split.offset..split.offset + split.bytes,
        _ => 0..u64::MAX,
    };
    let mut next = 0;
    let all = text.split_inclusive(|byte| *byte == b'\n').map(move |line| {
        let at = next;
        next += line.len() as u64;
        (at, line.strip_suffix(b"\n").unwrap_or(line))
    });
    all.filter(move |(at, _)| mine.contains(at))
}

/// Records in the order they came, without an allocation for each.
#[derive(Default)]
pub(crate) struct Records {
    bytes: Vec<u8>,
    /// Where each one's key and value begin.
    at: Vec<(usize, usize)>,
}

impl Emit for Records {
    fn emit(&mut self, key: &[u8], value: &[u8]) {
        self.at.push((self.bytes.len(), self.bytes.len() + key.len()));
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
    }

    fn count(&mut self, _counter: &'static str, _by: u64) {}
}

impl Records {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let ends = self.at.iter().skip(1).map(|(next, _)| *next).chain([self.bytes.len()]);
        self.at.iter().zip(ends).map(|(&(key, value), end)| (&self.bytes[key..value], &self.bytes[value..end]))
    }

    /// As the bytes of an output file.
    pub(crate) fn written(&self, plan: &Plan) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (key, value) in self.iter() {
            plan.format.write(key, value, &mut bytes);
        }
        bytes
    }
}

/// The values of records.
pub(crate) struct OneByOne<'a>(pub(crate) std::slice::Iter<'a, (&'a [u8], &'a [u8])>);

impl Values for OneByOne<'_> {
    fn next(&mut self) -> Option<&[u8]> {
        self.0.next().map(|(_, value)| *value)
    }
}

/// A folder for the rounds, gone at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Scratch, Failure> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("giveway-reference-{}-{count}", std::process::id()));
        fs::create_dir_all(&folder).map_err(cannot_write(&folder))?;
        Ok(Scratch(folder))
    }

    fn folder(&self, round: u32) -> Result<PathBuf, Failure> {
        let folder = self.0.join(format!("round-{round}"));
        fs::create_dir_all(&folder).map_err(cannot_write(&folder))?;
        Ok(folder)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn cannot_write(folder: &Path) -> impl FnOnce(io::Error) -> Failure {
    let folder = folder.display().to_string();
    move |error| Failure(format!("the reference cannot write to {folder}: {error}"))
}
