//! The demo's jobs, their input, and what must come out of them.

use anyhow::{Context, Result};
use giveway_core::{JobId, Priority};
use giveway_engine::apps::{self, Apps};
use giveway_engine::input::LocalOnly;
use giveway_engine::job::Request;
use giveway_engine::reference::{self, Parts};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// Groups of jobs by size, smallest first.
pub const GROUPS: [&str; 3] = ["small", "medium", "large"];

/// Lines for one map.
const LINES_A_MAP: usize = 800;

/// Lines a task takes in a second.
const RECORDS_PER_S: u64 = 2_000;

/// One job of the mix.
pub struct Job {
    /// When it is submitted, in milliseconds.
    pub at_ms: u64,
    /// Its place in [`GROUPS`].
    pub group: u16,
    /// What is asked for, but for the output.
    pub request: Request,
    /// What must come out.
    pub expected: Parts,
}

/// The mix.
pub struct Mix {
    /// In the order of submission.
    pub jobs: Vec<Job>,
}

impl Mix {
    /// Makes input files and works out what each job must give.
    pub fn make(folder: &Path, known: &Apps) -> Result<Mix> {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut input = |name: &str, maps: usize| text(folder, name, maps, &mut random);
        let (large, medium, small) = (input("large", 72)?, input("medium", 8)?, input("small", 2)?);
        let mut jobs = Vec::new();
        let mut add = |at_ms, group, app: &str, input: &Path, reduces| -> Result<()> {
            let request = request(app, input, reduces)?;
            let app = known.find(app)?;
            let plan = apps::plan(app.as_ref(), JobId(0), request.clone(), &LocalOnly)?;
            let expected = reference::run(app.as_ref(), &plan, &LocalOnly)?;
            jobs.push(Job { at_ms, group, request, expected });
            Ok(())
        };
        add(0, 2, "sort", &large, 4)?;
        for (at_ms, app) in [(300, "invertedindex"), (1_000, "sequencecount"), (1_700, "sort")] {
            add(at_ms, 1, app, &medium, 2)?;
        }
        for number in 0..10 {
            let app = ["wordcount", "grep", "termvector"][number % 3];
            add(600 + 350 * number as u64, 0, app, &small, 1)?;
        }
        jobs.sort_by_key(|job| job.at_ms);
        Ok(Mix { jobs })
    }

    /// How many jobs are of a size.
    pub fn count(&self, group: &str) -> usize {
        self.jobs.iter().filter(|job| GROUPS[usize::from(job.group)] == group).count()
    }
}

fn request(app: &str, input: &Path, reduces: u32) -> Result<Request> {
    let input_bytes = fs::metadata(input)?.len();
    let lines = fs::read(input)?.iter().filter(|&&byte| byte == b'\n').count() as u64;
    let options = if app == "grep" { vec![("pattern", "river|stone")] } else { Vec::new() };
    Ok(Request {
        app: app.into(),
        options: options.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        input: vec![input.to_string_lossy().into_owned()],
        output: PathBuf::from("/nowhere"),
        reduces: (app != "grep").then_some(reduces),
        split_bytes: (input_bytes * LINES_A_MAP as u64).div_ceil(lines.max(1)),
        memory_bytes: 8 << 20,
        name: app.into(),
        user: "demo".into(),
        pool: "default".into(),
        priority: Priority::Normal,
        task_timeout_ms: 60_000,
        records_per_s: Some(RECORDS_PER_S),
        compress: false,
    })
}

/// A file of so many maps' lines of words.
fn text(folder: &Path, name: &str, maps: usize, random: &mut Pcg64Mcg) -> Result<PathBuf> {
    const WORDS: [&str; 24] = [
        "river", "stone", "light", "paper", "green", "small", "large", "night", "house", "water", "cloud", "field",
        "glass", "sound", "wheel", "table", "north", "south", "bread", "plant", "chair", "smoke", "brick", "grain",
    ];
    let mut text = String::new();
    for line in 0..maps * LINES_A_MAP {
        let count = random.random_range(1..4);
        for _ in 0..count {
            let word = WORDS[random.random_range(0..WORDS.len())];
            write!(text, "{word}{} ", random.random_range(0..30))?;
        }
        writeln!(text, "{line}")?;
    }
    let path = folder.join(name);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}
