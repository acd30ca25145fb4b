//! Tasks on a few pretended nodes in one process: each has its folder and a real server on loopback. Outputs are compared with those of a
//! sequential twin, byte for byte.

mod maps;
mod moments;
mod reduces;
mod trouble;

use super::*;
use crate::apps::App;
use crate::input::LocalOnly;
use crate::job::{Codec, FileLocation, InputFile, InputSplit, OutputFormat, Partitioning, Plan, Request};
use crate::record::{Emit, Mapper, Record, Reducer, Values};
use crate::wire::{self, Token};
use giveway_core::{AttemptId, JobId, Kind, NodeId, Priority, Start};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

const JOB: JobId = JobId(7);

type AtKey = Box<dyn FnMut(u64) + Send>;

/// For every word, where it stands; and how many lines there are, by a counter. What a key gives is said only when the next key comes or when
/// there is none, as a program in a process of its own would do.
#[derive(Default)]
struct Places {
    control: Mutex<Arc<Control>>,
    /// Ask for this at a record or key with this number, counted over all tasks.
    ask: Mutex<Option<(u64, Ask)>>,
    seen: AtomicU64,
    /// Do this at every key.
    at_key: Mutex<Option<AtKey>>,
}

impl Places {
    fn saw_one(&self) {
        let seen = self.seen.fetch_add(1, SeqCst) + 1;
        if let Some((at, ask)) = *self.ask.lock().unwrap()
            && at == seen
        {
            self.control.lock().unwrap().ask(ask);
        }
    }
}

/// The same app for tasks, which want to own it.
struct Shared(Arc<Places>);

impl App for Shared {
    fn name(&self) -> &'static str {
        "places"
    }

    fn about(&self) -> &'static str {
        "for every word, where it stands"
    }

    fn mapper(&self, _plan: &Plan) -> Result<Box<dyn Mapper>, Failure> {
        Ok(Box::new(PlacesMapper { app: Arc::clone(&self.0), lines: 0 }))
    }

    fn reducer(&self, plan: &Plan) -> Result<Option<Box<dyn Reducer>>, Failure> {
        let reducer = PlacesReducer { app: Arc::clone(&self.0), held: None };
        Ok((plan.reduces > 0).then(|| Box::new(reducer) as Box<dyn Reducer>))
    }
}

struct PlacesMapper {
    app: Arc<Places>,
    lines: u64,
}

impl Mapper for PlacesMapper {
    fn map(&mut self, record: Record<'_>, out: &mut dyn Emit) -> Result<(), Failure> {
        for word in record.line.split(|byte| *byte == b' ').filter(|word| !word.is_empty()) {
            match word {
                b"PANIC" => panic!("no such word: {}", record.offset),
                b"FAIL" => return Err(Failure(format!("cannot map the line at {}", record.offset))),
                _ => out.emit(word, format!("{}@{:08}", record.file, record.offset).as_bytes()),
            }
        }
        self.lines += 1;
        self.app.saw_one();
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Emit) -> Result<(), Failure> {
        out.count("lines", self.lines);
        Ok(())
    }
}

struct PlacesReducer {
    app: Arc<Places>,
    held: Option<(Vec<u8>, Vec<u8>)>,
}

impl Reducer for PlacesReducer {
    fn reduce(&mut self, key: &[u8], values: &mut dyn Values, out: &mut dyn Emit) -> Result<(), Failure> {
        self.finish(out)?;
        let mut places = Vec::new();
        while let Some(value) = values.next() {
            places.extend_from_slice(value);
            places.push(b',');
        }
        if key == b"REDUCEPANIC" {
            panic!("cannot stand this key");
        }
        out.count("words", 1);
        self.held = Some((key.to_vec(), places));
        self.app.saw_one();
        if let Some(at_key) = &mut *self.app.at_key.lock().unwrap() {
            at_key(self.app.seen.load(SeqCst));
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Emit) -> Result<(), Failure> {
        if let Some((key, places)) = self.held.take() {
            out.emit(&key, &places);
        }
        Ok(())
    }
}

/// A few nodes, and a job.
struct Cluster {
    folder: tempfile::TempDir,
    plan: Arc<Plan>,
    app: Arc<Places>,
    token: Token,
    outputs: Arc<Outputs>,
    shuffles: Vec<Arc<Shuffle>>,
    bad: Arc<Mutex<Vec<AttemptId>>>,
    text: String,
}

/// What a cluster is made of.
#[derive(Clone)]
struct Setup {
    text: String,
    split_bytes: u64,
    reduces: u32,
    nodes: u32,
    memory_bytes: u64,
}

impl Setup {
    /// Some lines of some words.
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
        // A file without a line has a split too.
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
        let request = Request {
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
        };
        let plan = Plan {
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
        let token_path = folder.path().join("token");
        let token = Token::read_or_create(&token_path).unwrap();
        let bad = Arc::new(Mutex::new(Vec::new()));
        let shuffles: Vec<Arc<Shuffle>> = (0..self.nodes)
            .map(|node| {
                std::fs::create_dir(folder.path().join(format!("node-{node}"))).unwrap();
                let bad = Arc::clone(&bad);
                let report = move |map| bad.lock().unwrap().push(map);
                Arc::new(Shuffle::new(NodeId(node), token.clone(), report))
            })
            .collect();
        let cluster = Cluster {
            folder,
            plan: Arc::new(plan),
            app: Arc::default(),
            token,
            outputs: Arc::new(Outputs::new()),
            shuffles,
            bad,
            text: self.text,
        };
        (0..self.nodes).for_each(|node| cluster.serve(node));
        cluster
    }
}

impl Cluster {
    /// A data server for a node, of which all learn.
    fn serve(&self, node: u32) {
        self.serve_briefly(node, usize::MAX);
    }

    /// A data server that hangs up after so many requests of a caller.
    fn serve_briefly(&self, node: u32, requests: usize) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (dir, token) = (self.dir(node), self.token.clone());
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let (dir, token) = (dir.clone(), token.clone());
                std::thread::spawn(move || {
                    wire::accept(&mut stream, &token)?;
                    for _ in 0..requests {
                        let wire::DataRequest::Segment(request) =
                            wire::receive(&mut stream, SEGMENT_MESSAGE_BYTES_MAX)?
                        else {
                            break;
                        };
                        serve_segment(request, &dir, &mut stream)?;
                    }
                    Ok::<(), wire::WireError>(())
                });
            }
        });
        self.shuffles.iter().for_each(|shuffle| shuffle.set_address(NodeId(node), Some(address.clone())));
    }

    fn dir(&self, node: u32) -> PathBuf {
        self.folder.path().join(format!("node-{node}"))
    }

    /// Asks for something at the record or key with this number from now.
    fn ask_at(&self, at: u64, ask: Ask) {
        self.app.seen.store(0, SeqCst);
        *self.app.ask.lock().unwrap() = Some((at, ask));
    }

    fn control(&self) -> Arc<Control> {
        let control = Arc::new(Control::new());
        *self.app.control.lock().unwrap() = Arc::clone(&control);
        control
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
            stored: Arc::new(LocalOnly),
        }
    }

    /// Runs every split's map on one node or another, and tells of the outputs.
    fn run_maps(&self) {
        for split in 0..self.plan.splits.len() as u32 {
            self.run_map(split, 0, split % self.shuffles.len() as u32);
        }
    }

    fn run_map(&self, split: u32, number: u16, node: u32) {
        let bytes = self.plan.splits[split as usize].bytes;
        let end = run_map(&self.map_task(split, number, node, split, 0, bytes), &self.control()).unwrap();
        assert!(matches!(end, MapEnd::Finished { .. }), "{end:?}");
        self.outputs.add(OutputAt { map: split, number, node: NodeId(node), split, start_bytes: 0, bytes });
    }

    fn reduce_task(&self, index: u32, number: u16, node: u32, start: Start) -> ReduceTask {
        ReduceTask {
            plan: Arc::clone(&self.plan),
            app: Arc::new(Shared(Arc::clone(&self.app))),
            attempt: AttemptId::new(JOB, Kind::Reduce, index, number),
            start,
            dir: self.dir(node),
            outputs: Arc::clone(&self.outputs),
            shuffle: Arc::clone(&self.shuffles[node as usize]),
        }
    }

    fn reduce(&self, index: u32, number: u16, node: u32, start: Start) -> Result<ReduceEnd, Failure> {
        run_reduce(&self.reduce_task(index, number, node, start), &self.control())
    }

    /// Runs all reduces undisturbed.
    fn run_reduces(&self) {
        for reduce in 0..self.plan.reduces {
            let end = self.reduce(reduce, 0, reduce % self.shuffles.len() as u32, Start::Fresh).unwrap();
            assert!(matches!(end, ReduceEnd::Finished { .. }), "{end:?}");
        }
    }

    fn part(&self, reduce: u32) -> String {
        std::fs::read_to_string(reduce_part(&self.plan, reduce)).unwrap()
    }

    /// What a reduce should write, by the shortest way.
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

    /// Everything there is of this reduce, apart from its output, is gone.
    fn check_is_clean(&self, reduce: u32) {
        let name = format!("reduce-{reduce}.");
        let dirs = (0..self.shuffles.len() as u32).map(|node| self.dir(node));
        for dir in dirs.chain([self.plan.output.join(TEMPORARY)]) {
            for entry in std::fs::read_dir(dir).unwrap() {
                let entry = entry.unwrap();
                assert!(!entry.file_name().to_str().unwrap().starts_with(&name), "{:?} is left", entry.path());
            }
        }
    }
}

fn attempt(reduce: u32, number: u16) -> AttemptId {
    AttemptId::new(JOB, Kind::Reduce, reduce, number)
}

fn counter(end: &ReduceEnd, name: &str) -> u64 {
    match end {
        ReduceEnd::Finished { counters, .. } => counters.get(name).copied().unwrap_or(0),
        other => panic!("not finished: {other:?}"),
    }
}
