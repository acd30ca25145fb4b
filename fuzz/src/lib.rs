//! Fuzz targets: functions that read arbitrary bytes as one of Giveway's formats. None may panic.
//!
//! `tests/corpus.rs` runs each of them on its corpus and on changed copies of it, as part of `cargo test`. An input that once caused a panic stays in
//! the corpus (`corpus/TARGET/`).

use giveway_core::policy::catalog;
use giveway_core::{Policy, Setup, Span, Time};
use giveway_kube::{Change, Controller, Input, Mode, Options};
use giveway_sim::cluster::{self, Cluster};
use giveway_sim::workload::{self, Workload};
use giveway_traces::{Options as TraceOptions, Stats, from_bytes, sorted_jobs, workload_of, workload_toml};
use serde_json::Value;

/// A function that reads bytes of one format.
pub type Target = fn(&[u8]);

/// All targets by name.
pub const TARGETS: [(&str, Target); 19] = [
    ("cluster", cluster_file),
    ("event_log", event_log),
    ("glob", giveway_mapreduce::fuzz::glob),
    ("journal", giveway_engine::fuzz::journal),
    ("kube", kube),
    ("policy", policy),
    ("segment", giveway_mapreduce::fuzz::segment),
    ("trace_alibaba", |bytes| trace(bytes, "Alibaba")),
    ("trace_google", |bytes| trace(bytes, "Google")),
    ("trace_job_history", |bytes| trace(bytes, "JobHistory")),
    ("trace_rumen", |bytes| trace(bytes, "Rumen")),
    ("trace_sls", |bytes| trace(bytes, "SLS")),
    ("trace_spark", |bytes| trace(bytes, "Spark")),
    ("trace_swf", |bytes| trace(bytes, "SWF")),
    ("trace_swim", |bytes| trace(bytes, "SWIM")),
    ("trace_yarn_apps", |bytes| trace(bytes, "YARN")),
    ("wire", giveway_engine::fuzz::wire),
    ("workload", workload_file),
    ("yarn", giveway_yarn::fuzz::frames),
];

/// Objects of a Kubernetes API server, one in each line, as a controller gets them. What does not fit its kind is left out.
fn kube(bytes: &[u8]) {
    let Some(policy) = catalog::by_name("fcs") else { return };
    let options = Options { policy, mode: Mode::Schedule, name: "giveway".into() };
    let Ok(mut controller) = Controller::new(options) else { return };
    let mut now = Time::ZERO;
    for line in bytes.split(|&byte| byte == b'\n') {
        let (Some((kind, object)), read) = (line.split_first(), serde_json::from_slice::<Value>) else { continue };
        let Ok(object) = read(object) else { continue };
        now = now + Span::from_millis(700);
        let input = match kind {
            b'N' => serde_json::from_value(object).map(|node| Input::Node(Change::Applied(node))),
            b'J' => serde_json::from_value(object).map(|job| Input::Job(Change::Applied(job))),
            b'P' => serde_json::from_value(object).map(|pod| Input::Pod(Change::Applied(pod))),
            b'n' => serde_json::from_value(object).map(|nodes| Input::Node(Change::Listed(nodes))),
            b'j' => serde_json::from_value(object).map(|jobs| Input::Job(Change::Listed(jobs))),
            b'p' => serde_json::from_value(object).map(|pods| Input::Pod(Change::Listed(pods))),
            b'd' => serde_json::from_value(object).map(|pod| Input::Pod(Change::Deleted(pod))),
            _ => Ok(Input::TimerFired),
        };
        if let Ok(input) = input {
            controller.handle(now, input);
        }
    }
}

fn policy(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(policy) = toml::from_str::<Policy>(text) else { return };
    let _ = Setup::new(policy).check();
}

fn cluster_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(cluster) = Cluster::from_toml(text, "cluster.toml") else { return };
    // Writing many nodes takes long, and shows nothing that few do not.
    if cluster.nodes.len() < 1000 {
        let written = cluster.to_toml();
        let again = Cluster::from_toml(&written, "cluster.toml")
            .unwrap_or_else(|error| panic!("a written cluster is not read: {error}\n{written}"));
        assert_eq!(again.nodes.len(), cluster.nodes.len());
    }
}

fn workload_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(cluster) = cluster::by_name("fcs") else { return };
    let _ = Workload::from_toml(text, "workload.toml", &cluster, 1);
}

/// An event log, as the engine and `giveway replay` read it and as a workload.
fn event_log(bytes: &[u8]) {
    giveway_engine::fuzz::event_log(bytes);
    let _ = workload::from_event_log(bytes, "event log");
}

/// A trace whose format has a name that begins with this.
fn trace(bytes: &[u8], format: &str) {
    let Ok(mut trace) = from_bytes("trace", bytes.into(), &TraceOptions::default()) else { return };
    if !trace.format().to_string().starts_with(format) {
        return;
    }
    let (Ok(jobs), Ok(cluster)) = (sorted_jobs(&mut trace), cluster::by_name("fcs")) else { return };
    let _ = Stats::of(&jobs);
    let workload = workload_of("trace", jobs, &cluster, &mut |_| {});
    let _ = workload_toml(&workload);
}
