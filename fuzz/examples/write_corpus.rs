//! Writes the files of the corpus that are not text: messages, a segment and an event log. To be run after a change of these formats:
//!
//! ```sh
//! cargo run -p giveway-fuzz --example write_corpus
//! ```

use giveway_core::event_log::EventLogWriter;
use giveway_core::policy::catalog;
use giveway_core::{Action, AttemptId, Capabilities, Event, JobId, Kind, NodeId, Priority, Setup, TaskId, Time};
use giveway_engine::wire::{
    self, FromClient, FromWorker, Join, NodeFolder, Rejection, RejectionCode, Report, ToClient, ToWorker,
    WorkerIdentity,
};
use giveway_mapreduce::data::{Compression, SegmentWriter};
use giveway_mapreduce::job::Request;
use giveway_sim::cluster::Cluster;
use giveway_sim::workload::Workload;
use giveway_sim::{Observer, Simulation};
use std::error::Error;
use std::fs;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    fs::write(corpus.join("event_log/two-jobs"), event_log()?)?;
    let text = [b"a".as_slice(), b"key", b"key", &[b'x'; 300]];
    for (name, compression) in [("plain", Compression::None), ("lz4", Compression::Lz4)] {
        let mut writer = SegmentWriter::new(Vec::new(), compression);
        for key in text {
            writer.push(key, b"value")?;
        }
        fs::write(corpus.join("segment").join(name), writer.finish()?.0)?;
    }
    for (name, bytes) in messages()? {
        fs::write(corpus.join("wire").join(name), bytes)?;
    }
    Ok(())
}

fn messages() -> Result<Vec<(&'static str, Vec<u8>)>, wire::WireError> {
    let attempt = AttemptId { task: TaskId { job: JobId(1), kind: Kind::Map, index: 2 }, number: 0 };
    let join = Join {
        worker: WorkerIdentity {
            name: "worker-1".into(),
            incarnation: 7,
            rack: 0,
            host: "localhost".into(),
            map_slots: 2,
            reduce_slots: 1,
            folder: "/cluster/node-1".into(),
            pid: 42,
        },
        running: vec![attempt],
        outputs: vec![attempt],
        jobs: vec![JobId(1)],
    };
    let counters = [("MAP_INPUT_RECORDS".to_string(), 10)].into();
    let request = Request {
        app: "wordcount".into(),
        options: [("combiner".to_string(), "custom".to_string())].into(),
        input: vec!["input".into()],
        output: "output".into(),
        reduces: Some(2),
        split_bytes: 1 << 20,
        memory_bytes: 1 << 20,
        name: "count".into(),
        user: "ann".into(),
        pool: "reports".into(),
        priority: Priority::High,
        task_timeout_ms: 1000,
        records_per_s: None,
        compress: true,
        sync_output: true,
    };
    let mut files = Vec::new();
    let mut worker = Vec::new();
    wire::send(&mut worker, &FromWorker::Join(Box::new(join)))?;
    wire::send(&mut worker, &FromWorker::Heartbeat { progress: Vec::new() })?;
    wire::send(
        &mut worker,
        &FromWorker::Report { seq: 1, report: Report::Finished { attempt, output_bytes: 100, counters } },
    )?;
    files.push(("from-worker", worker));
    let mut to_worker = Vec::new();
    wire::send(
        &mut to_worker,
        &ToWorker::JoinAccepted { node: NodeId(0), keep_state: true, heartbeat_interval_ms: 200 },
    )?;
    let folder = NodeFolder { node: NodeId(1), folder: "/cluster/node-2".into() };
    wire::send(&mut to_worker, &ToWorker::NodeFolders { folders: vec![folder] })?;
    wire::send(&mut to_worker, &ToWorker::Kill { attempt })?;
    files.push(("to-worker", to_worker));
    let mut client = Vec::new();
    wire::send(&mut client, &FromClient::Submit { request: Box::new(request), shipped: false })?;
    wire::send(&mut client, &FromClient::Jobs { after: Some(JobId(3)) })?;
    wire::send(&mut client, &FromClient::Nodes)?;
    files.push(("from-client", client));
    let mut to_client = Vec::new();
    wire::send(&mut to_client, &ToClient::Submitted { job: JobId(1) })?;
    wire::send(
        &mut to_client,
        &ToClient::Rejected(Rejection { code: RejectionCode::NotFound, reason: "no such job".into() }),
    )?;
    files.push(("to-client", to_client));
    Ok(files)
}

struct Log(EventLogWriter, Vec<u8>);

impl Observer for Log {
    fn observe(&mut self, now: Time, event: &Event, actions: &[Action]) {
        self.0.record(now, event, actions, &mut self.1).expect("written to memory");
    }
}

/// A run of two jobs on two nodes.
fn event_log() -> Result<Vec<u8>, Box<dyn Error>> {
    let cluster = Cluster::from_toml("[[nodes]]\ncount = 2\nmap_slots = 1\nreduce_slots = 1\n", "cluster.toml")?;
    let jobs = "[[jobs]]\napp = 'wordcount'\nmaps = 2\nreduces = 1\ncount = 2\nevery = '5s'\n";
    let workload = Workload::from_toml(jobs, "workload.toml", &cluster, 1)?;
    let policy = catalog::by_name("hsrtf-prp-pause").ok_or("a policy of the catalogue")?;
    let setup =
        Setup { policy: policy.clone(), tenants: workload.tenants.clone(), capabilities: Capabilities::ALL, seed: 1 };
    let (writer, bytes) = EventLogWriter::begin(&setup)?;
    let mut log = Log(writer, bytes);
    Simulation::new(&cluster, &workload, policy, 1)?.run(&mut log);
    let Log(writer, mut bytes) = log;
    writer.close(&mut bytes);
    Ok(bytes)
}
