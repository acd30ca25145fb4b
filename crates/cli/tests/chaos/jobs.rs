//! The workload of the chaos tests: one job per application on generated input, with its expected output.

use crate::cluster::Cluster;
use giveway_core::{JobId, Outcome, Priority};
use giveway_engine::client::Client;
use giveway_mapreduce::apps::{self, Apps};
use giveway_mapreduce::job::Request;
use giveway_mapreduce::reference;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Lines per input file.
const LINES: usize = 1_500;

pub struct Workload {
    requests: Vec<Request>,
}

impl Workload {
    /// Generates the input in a folder. `records_per_s` throttles the tasks, so that faults can hit them while they run.
    pub fn generate(dir: &Path, rng: &mut Pcg64Mcg, records_per_s: u64) -> Workload {
        let text: Vec<String> = (0..3).map(|n| file(dir, &format!("text-{n}"), || words(rng))).collect();
        let records = file(dir, "records", || record(rng));
        let points = file(dir, "points", || point(rng));
        let items = file(dir, "items", || items(rng));
        let job = |app: &str, options: &[(&str, &str)], input: &[String]| Request {
            records_per_s: Some(records_per_s),
            ..request(dir, app, options, input)
        };
        let requests = vec![
            job("wordcount", &[], &text),
            job("grep", &[("pattern", "w1[0-4] ")], &text),
            job("sort", &[], &text),
            job("terasort", &[], &[records]),
            job("termvector", &[], &text),
            job("invertedindex", &[], &text),
            job("sequencecount", &[], &text[..2]),
            job("rankedinvertedindex", &[], &text[..1]),
            job("selfjoin", &[], &[items]),
            job("kmeans", &[("k", "3"), ("iterations", "2")], &[points]),
            job("streaming", &[("mapper", "tr ' ' '\\n'"), ("reducer", "uniq -c"), ("dir", "/")], &text[..1]),
        ];
        Workload { requests }
    }

    pub fn submit_all(&self, client: &mut Client) -> Vec<JobId> {
        self.requests.iter().map(|request| client.submit(request.clone()).expect("cannot submit")).collect()
    }

    /// Checks that every job succeeded and that its output is identical to that of a sequential reference run.
    pub fn check(&self, cluster: &Cluster, jobs: &[JobId]) {
        let apps = Apps::builtin();
        for status in cluster.jobs() {
            assert_eq!(status.outcome, Some(Outcome::Succeeded), "{status:#?}");
        }
        for (request, job) in self.requests.iter().zip(jobs) {
            let app = apps.find(&request.app).expect("unknown application");
            let plan = apps::plan(app.as_ref(), *job, request.clone()).expect("cannot plan the job");
            let expected = reference::run(app.as_ref(), &plan).expect("reference run failed");
            let found = parts(&request.output);
            let names = |parts: &BTreeMap<String, Vec<u8>>| parts.keys().cloned().collect::<Vec<_>>();
            let expected: BTreeMap<String, Vec<u8>> = expected.into_iter().collect();
            assert_eq!(names(&found), names(&expected), "{}", request.app);
            for (name, bytes) in &expected {
                assert!(
                    found[name] == *bytes,
                    "{} {name} of {job} differs in {}",
                    request.app,
                    request.output.display()
                );
            }
        }
    }
}

/// The files of a committed output.
fn parts(output: &Path) -> BTreeMap<String, Vec<u8>> {
    assert!(output.join("_SUCCESS").exists() && !output.join("_temporary").exists(), "{}", output.display());
    reference::read_output(output).expect("cannot read the output").into_iter().collect()
}

fn request(folder: &Path, app: &str, options: &[(&str, &str)], input: &[String]) -> Request {
    let bytes: u64 = input.iter().map(|path| fs::metadata(path).expect("missing input").len()).sum();
    Request {
        app: app.into(),
        options: options.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        input: input.iter().map(Into::into).collect(),
        output: folder.join(format!("out-{app}")),
        reduces: Some(2),
        split_bytes: bytes.div_ceil(6).max(1),
        memory_bytes: 256 << 10,
        name: app.into(),
        user: "chaos".into(),
        pool: String::new(),
        priority: Priority::Normal,
        task_timeout_ms: 60_000,
        records_per_s: None,
        compress: true,
        sync_output: true,
    }
}

fn file(folder: &Path, name: &str, mut line: impl FnMut() -> String) -> String {
    let path: PathBuf = folder.join(name);
    let text: String = (0..LINES).map(|_| line() + "\n").collect();
    let mut file = fs::File::create_new(&path).expect("cannot create the input");
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).expect("cannot write the input");
    path.to_string_lossy().into_owned()
}

fn words(rng: &mut Pcg64Mcg) -> String {
    let count = rng.random_range(0..6);
    let word = |rng: &mut Pcg64Mcg| {
        let rank = rng.random_range(0..40_u32) * rng.random_range(0..8_u32);
        format!("w{rank}")
    };
    (0..count).map(|_| word(rng)).collect::<Vec<_>>().join(" ")
}

fn record(rng: &mut Pcg64Mcg) -> String {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    (0..40).map(|_| letters[rng.random_range(0..letters.len())] as char).collect()
}

fn point(rng: &mut Pcg64Mcg) -> String {
    let centre = f64::from(rng.random_range(0..3_u32)) * 10.0;
    let mut text = String::new();
    for _ in 0..3 {
        let _ = write!(text, "{:.3} ", centre + rng.random_range(-1.0..1.0));
    }
    text.trim_end().to_string()
}

fn items(rng: &mut Pcg64Mcg) -> String {
    let mut item = |count: u32| rng.random_range(0..count);
    format!("a{},b{},c{}", item(12), item(12), item(30))
}
