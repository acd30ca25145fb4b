//! Tasks on a few nodes in one process, each with its own folder. Their output is compared byte for byte with that of a sequential reference
//! implementation.

mod faults;
mod maps;
mod random_timing;
mod reduces;

use super::*;
use crate::apps::App;
use crate::job::{self, Codec, FileLocation, InputFile, InputSplit, OutputFormat, Partitioning, Plan};
use crate::record::{AppError, Emit, Mapper, Record, Reducer, Values};
use crate::wire::{Counters, Report};
use giveway_core::{AttemptId, JobId, Kind, NodeId, Priority, Start};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

const JOB: JobId = JobId(7);

type AtKey = Box<dyn FnMut(u64) + Send>;

/// An application that lists the positions of every word and counts lines. A key's result is emitted only with the next key or at the end, as an
/// application in an external process does.
#[derive(Default)]
struct Places {
    control: Mutex<Arc<Control>>,
    /// Send this request at the record or key with this number, counted over all tasks.
    request: Mutex<Option<(u64, Request)>>,
    seen: AtomicU64,
    /// Called at every key.
    at_key: Mutex<Option<AtKey>>,
}

impl Places {
    fn on_record(&self) {
        let seen = self.seen.fetch_add(1, SeqCst) + 1;
        if let Some((at, request)) = *self.request.lock().unwrap()
            && at == seen
        {
            self.control.lock().unwrap().request(request);
        }
    }
}

/// A shared [`Places`], because tasks own their application.
struct Shared(Arc<Places>);

impl App for Shared {
    fn name(&self) -> &'static str {
        "places"
    }

    fn about(&self) -> &'static str {
        "list the positions of every word"
    }

    fn mapper(&self, _plan: &Plan) -> Result<Box<dyn Mapper>, AppError> {
        Ok(Box::new(PlacesMapper { app: Arc::clone(&self.0), lines: 0 }))
    }

    fn reducer(&self, plan: &Plan) -> Result<Option<Box<dyn Reducer>>, AppError> {
        let reducer = PlacesReducer { app: Arc::clone(&self.0), pending: None };
        Ok((plan.reduces > 0).then(|| Box::new(reducer) as Box<dyn Reducer>))
    }
}

struct PlacesMapper {
    app: Arc<Places>,
    lines: u64,
}

impl Mapper for PlacesMapper {
    fn map(&mut self, record: Record<'_>, out: &mut dyn Emit) -> Result<(), AppError> {
        for word in record.line.split(|byte| *byte == b' ').filter(|word| !word.is_empty()) {
            match word {
                b"PANIC" => panic!("no such word: {}", record.offset),
                b"FAIL" => return Err(format!("cannot map the line at {}", record.offset).into()),
                _ => out.emit(word, format!("{}@{:08}", record.file.display(), record.offset).as_bytes()),
            }
        }
        self.lines += 1;
        self.app.on_record();
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Emit) -> Result<(), AppError> {
        out.count("lines", self.lines);
        Ok(())
    }
}

struct PlacesReducer {
    app: Arc<Places>,
    pending: Option<(Vec<u8>, Vec<u8>)>,
}

impl Reducer for PlacesReducer {
    fn reduce(&mut self, key: &[u8], values: &mut dyn Values, out: &mut dyn Emit) -> Result<(), AppError> {
        self.finish(out)?;
        let mut places = Vec::new();
        while let Some(value) = values.next() {
            places.extend_from_slice(value);
            places.push(b',');
        }
        if key == b"REDUCEPANIC" {
            panic!("unsupported key");
        }
        out.count("words", 1);
        self.pending = Some((key.to_vec(), places));
        self.app.on_record();
        if let Some(at_key) = &mut *self.app.at_key.lock().unwrap() {
            at_key(self.app.seen.load(SeqCst));
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Emit) -> Result<(), AppError> {
        if let Some((key, places)) = self.pending.take() {
            out.emit(&key, &places);
        }
        Ok(())
    }
}

/// A few nodes and one job.
struct Cluster {
    folder: tempfile::TempDir,
    plan: Arc<Plan>,
    app: Arc<Places>,
    outputs: Arc<MapOutputTracker>,
    nodes: u32,
    fetcher: Arc<Fetcher>,
    /// Outputs reported as lost or corrupt.
    bad: Arc<Mutex<Vec<AttemptId>>>,
    text: String,
}

/// Configuration of a [`Cluster`].
#[derive(Clone)]
struct Setup {
    text: String,
    split_bytes: u64,
    reduces: u32,
    nodes: u32,
    memory_bytes: u64,
}

impl Setup {
    /// Random text with `lines` lines and a vocabulary of `words` words.
    fn new(lines: usize, words: u32, seed: u64) -> Setup {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut text = String::new();
        for _ in 0..lines {
            for _ in 0..random.random_range(0..8) {
                text.push_str(&format!("word-{} ", random.random_range(0..words)));
            }
            text.push('\n');
        }
        Setup { text, split_bytes: 300, reduces: 2, nodes: 3, memory_bytes: 1 << 20 }
    }

    fn build(self) -> Cluster {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("input");
        std::fs::write(&input, &self.text).unwrap();
        let bytes = self.text.len() as u64;
        let mut splits: Vec<InputSplit> = (0..bytes.div_ceil(self.split_bytes))
            .map(|at| at * self.split_bytes)
            .map(|offset| InputSplit { file: 0, offset, bytes: self.split_bytes.min(bytes - offset) })
            .collect();
        // An empty file has a split too.
        splits.push(InputSplit { file: 1, offset: 0, bytes: 0 });
        let empty = folder.path().join("empty");
        std::fs::write(&empty, "").unwrap();
        let file = |name: &str, path: PathBuf, bytes| InputFile {
            name: name.into(),
            location: FileLocation::Local(path),
            codec: Codec::Plain,
            bytes,
        };
        let output = folder.path().join("out");
        std::fs::create_dir_all(output.join(TEMPORARY)).unwrap();
        std::fs::write(output.join(TEMPORARY).join(NONCE), nonce_text(0)).unwrap();
        let request = job::Request {
            app: "places".into(),
            options: BTreeMap::new(),
            input: vec![],
            output: output.clone(),
            reduces: Some(self.reduces),
            split_bytes: self.split_bytes,
            memory_bytes: self.memory_bytes,
            name: "places".into(),
            user: "me".into(),
            pool: "default".into(),
            priority: Priority::Normal,
            task_timeout_ms: 60_000,
            records_per_s: None,
            compress: true,
            sync_output: false,
        };
        let plan = Plan {
            nonce: 0,
            job: JOB,
            request,
            files: vec![file("in", input, bytes), file("empty", empty, 0)],
            splits,
            reduces: self.reduces,
            partitioning: Partitioning::Hash,
            format: OutputFormat::TabSeparated,
            app_data: vec![],
            round: 0,
            output,
        };
        let bad = Arc::new(Mutex::new(Vec::new()));
        let reported = Arc::clone(&bad);
        let cluster = Cluster {
            folder,
            plan: Arc::new(plan),
            app: Arc::default(),
            outputs: Arc::new(MapOutputTracker::new()),
            nodes: self.nodes,
            fetcher: Arc::new(Fetcher::new(move |map| reported.lock().unwrap().push(map))),
            bad,
            text: self.text,
        };
        for node in 0..self.nodes {
            std::fs::create_dir_all(cluster.dir(node)).unwrap();
            cluster.join(node);
        }
        cluster
    }
}

impl Cluster {
    /// Tells reduces where the map outputs of a node are.
    fn join(&self, node: u32) {
        self.fetcher.set_folder(NodeId(node), Some(self.worker_folder(node)));
    }

    fn worker_folder(&self, node: u32) -> PathBuf {
        self.folder.path().join(format!("node-{node}"))
    }

    /// The job's folder on a node.
    fn dir(&self, node: u32) -> PathBuf {
        job_folder(&self.worker_folder(node), JOB)
    }

    /// Sends a request at the record or key with this number, counted from now.
    fn request_at(&self, at: u64, request: Request) {
        self.app.seen.store(0, SeqCst);
        *self.app.request.lock().unwrap() = Some((at, request));
    }

    fn control(&self) -> Arc<Control> {
        let control = Arc::new(Control::new());
        self.use_control(&control);
        control
    }

    /// Lets the application send its requests to this control.
    fn use_control(&self, control: &Arc<Control>) {
        *self.app.control.lock().unwrap() = Arc::clone(control);
    }

    fn map_task(&self, index: u32, number: u16, node: u32, split: u32, start_bytes: u64, bytes: u64) -> MapTask {
        MapTask {
            plan: Arc::clone(&self.plan),
            app: Arc::new(Shared(Arc::clone(&self.app))),
            attempt: AttemptId::new(JOB, Kind::Map, index, number),
            split,
            start_bytes,
            bytes,
            dir: self.dir(node),
        }
    }

    /// Runs the maps of all splits, spread over the nodes, and adds their outputs to the tracker.
    fn run_maps(&self) {
        for split in 0..self.plan.splits.len() as u32 {
            self.run_map(split, 0, split % self.nodes);
        }
    }

    fn run_map(&self, split: u32, number: u16, node: u32) {
        let bytes = self.plan.splits[split as usize].bytes;
        let end = run_map(&self.map_task(split, number, node, split, 0, bytes), &self.control()).unwrap();
        assert!(matches!(end, Report::Finished { .. }), "{end:?}");
        self.outputs.add(MapOutputLocation { map: split, number, node: NodeId(node), split, start_bytes: 0, bytes });
    }

    fn reduce_task(&self, index: u32, number: u16, node: u32, start: Start) -> ReduceTask {
        ReduceTask {
            plan: Arc::clone(&self.plan),
            app: Arc::new(Shared(Arc::clone(&self.app))),
            attempt: AttemptId::new(JOB, Kind::Reduce, index, number),
            start,
            dir: self.dir(node),
            outputs: Arc::clone(&self.outputs),
            fetcher: Arc::clone(&self.fetcher),
        }
    }

    fn reduce(&self, index: u32, number: u16, node: u32, start: Start) -> Result<Report, ReduceError> {
        run_reduce(&self.reduce_task(index, number, node, start), &self.control())
    }

    /// Runs all reduces without interruption.
    fn run_reduces(&self) {
        for reduce in 0..self.plan.reduces {
            let end = self.reduce(reduce, 0, reduce % self.nodes, Start::Fresh).unwrap();
            assert!(matches!(end, Report::Finished { .. }), "{end:?}");
        }
    }

    fn part(&self, reduce: u32) -> String {
        std::fs::read_to_string(reduce_part_path(&self.plan, reduce)).unwrap()
    }

    /// The expected output of a reduce.
    fn expected(&self, reduce: u32) -> String {
        let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        let mut offset = 0;
        for line in self.text.split_inclusive('\n') {
            for word in line.split_whitespace() {
                places.entry(word).or_default().push(format!("in@{offset:08}"));
            }
            offset += line.len();
        }
        places.retain(|word, _| self.plan.partitioning.of(word.as_bytes(), self.plan.reduces) == reduce);
        places.values_mut().for_each(|places| places.sort());
        places.iter().map(|(word, places)| format!("{word}\t{},\n", places.join(","))).collect()
    }

    fn check(&self, reduce: u32) {
        assert_eq!(self.part(reduce), self.expected(reduce), "reduce {reduce}");
    }

    /// Asserts that no file of this reduce remains but its output.
    fn check_is_clean(&self, reduce: u32) {
        let name = format!("reduce-{reduce}.");
        let dirs = (0..self.nodes).map(|node| self.dir(node));
        for dir in dirs.chain([self.plan.output.join(TEMPORARY)]) {
            for entry in std::fs::read_dir(dir).unwrap() {
                let entry = entry.unwrap();
                assert!(!entry.file_name().to_str().unwrap().starts_with(&name), "{:?} remains", entry.path());
            }
        }
    }
}

fn attempt(reduce: u32, number: u16) -> AttemptId {
    AttemptId::new(JOB, Kind::Reduce, reduce, number)
}

/// The output and the counters of an attempt, which do not depend on which attempt of the task it is.
fn result(end: &Report) -> (u64, &Counters) {
    match end {
        Report::Finished { output_bytes, counters, .. } => (*output_bytes, counters),
        other => panic!("not finished: {other:?}"),
    }
}

fn counter(end: &Report, name: &str) -> u64 {
    result(end).1.get(name).copied().unwrap_or(0)
}
