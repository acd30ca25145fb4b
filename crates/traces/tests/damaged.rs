//! Damaged traces: cut at every byte, with bytes changed, and each real sample cut at random places. Whatever is left is read without a panic.

use giveway_sim::cluster;
use giveway_traces::{Options, from_bytes, to_workload};
use rand::RngExt;
use std::fs;
use std::path::{Path, PathBuf};

/// A small trace of every format.
const TRACES: [&str; 12] = [
    "job0\t49\t49\t740773\t2339561\t627471\njob1\t101\t52\t736346\t0\t432269\tinputPath1\t\t\n",
    r#"{"num.nodes":3} {"job.start.ms":0,"job.end.ms":9000,"job.id":"a","job.queue.name":"q","job.tasks":[
       {"container.start.ms":10,"container.end.ms":90,"container.type":"map","count":2},{"container.duration.ms":7,"container.type":"reduce"}]}"#,
    r#"{"jobID":"j","submitTime":1000,"finishTime":9000,"outcome":"SUCCESS","mapTasks":[{"taskID":"m","startTime":2000,"attempts":[
       {"startTime":1500,"finishTime":5000,"result":"SUCCESS","hdfsBytesRead":70}]}],"reduceTasks":[{"attempts":[{"startTime":3000,
       "finishTime":8000,"result":"SUCCESS"}]}]}"#,
    r#"{"apps":{"app":[{"id":"application_1_1","user":"u","startedTime":5000,"vcoreSeconds":90},{"id":"application_1_2","startedTime":6000}]}}"#,
    "; Version: 2\n1 10 5 100 4 -1 -1 4 200 -1 1 3 1 -1 -1 1 -1 -1\n2 20 5 9.5 -1 -1 -1 8 200 -1 0 3 1 -1 2 1 -1 -1\n",
    r#"Avro-Json
{"type":"record","name":"Event"}
{"type":"JOB_SUBMITTED","event":{"x":{"jobid":"job_1","userName":"ann","submitTime":1000,"jobQueueName":{"string":"q"}}}}
{"type":"MAP_ATTEMPT_STARTED","event":{"x":{"attemptId":"a1","startTime":3000}}}
{"type":"MAP_ATTEMPT_FINISHED","event":{"x":{"attemptId":"a1","finishTime":7000,"counters":{"groups":[{"counts":[{"name":"HDFS_BYTES_READ","value":7}]}]}}}}
{"type":"JOB_FINISHED","event":{"x":{"jobid":"job_1","finishTime":9500}}}
"#,
    "Avro-Binary\n\
{\"type\":\"record\",\"name\":\"Event\",\"fields\":[{\"name\":\"type\",\"type\":{\"type\":\"enum\",\"name\":\"T\",\"symbols\":[\"JOB_SUBMITTED\",\"MAP_ATTEMPT_STARTED\",\"MAP_ATTEMPT_FINISHED\",\"JOB_FINISHED\"]}},{\"name\":\"event\",\"type\":[{\"type\":\"record\",\"name\":\"S\",\"fields\":[{\"name\":\"jobid\",\"type\":\"string\"},{\"name\":\"submitTime\",\"type\":\"long\"},{\"name\":\"jobQueueName\",\"type\":[\"null\",\"string\"]}]},{\"type\":\"record\",\"name\":\"A\",\"fields\":[{\"name\":\"attemptId\",\"type\":\"string\"},{\"name\":\"startTime\",\"type\":\"long\"}]},{\"type\":\"record\",\"name\":\"F\",\"fields\":[{\"name\":\"attemptId\",\"type\":\"string\"},{\"name\":\"finishTime\",\"type\":\"long\"},{\"name\":\"counters\",\"type\":{\"type\":\"record\",\"name\":\"C\",\"fields\":[{\"name\":\"name\",\"type\":\"string\"},{\"name\":\"groups\",\"type\":{\"type\":\"array\",\"items\":{\"type\":\"record\",\"name\":\"G\",\"fields\":[{\"name\":\"counts\",\"type\":{\"type\":\"array\",\"items\":{\"type\":\"record\",\"name\":\"N\",\"fields\":[{\"name\":\"name\",\"type\":\"string\"},{\"name\":\"value\",\"type\":\"long\"}]}}}]}}}]}}]},{\"type\":\"record\",\"name\":\"J\",\"fields\":[{\"name\":\"jobid\",\"type\":\"string\"},{\"name\":\"finishTime\",\"type\":\"long\"}]}]}]}\n\
\x00\x00\x0ajob_1\x02\x02\x02q\
\x02\x02\x04a1\x06\
\x04\x04\x04a1\x0e\x02c\x02\x02\x1eHDFS_BYTES_READ\x0e\x00\x00\
\x06\x06\x0ajob_1\x12",
    r#"{"Event":"SparkListenerApplicationStart","App ID":"app-1","User":"ann"}
{"Event":"SparkListenerJobStart","Job ID":0,"Submission Time":1000,"Stage Infos":[{"Stage ID":0,"Parent IDs":[]},{"Stage ID":1,"Parent IDs":[0]}]}
{"Event":"SparkListenerTaskEnd","Stage ID":0,"Task End Reason":{"Reason":"Success"},"Task Info":{"Launch Time":5,"Finish Time":9}}
{"Event":"SparkListenerJobEnd","Job ID":0,"Completion Time":7000,"Job Result":{"Result":"JobSucceeded"}}
"#,
    "700000000,,7,0,9,0,u=,1,9,0.1,0.1,0.1,0\n701000000,,7,0,9,1,u=,1,9,0.1,0.1,0.1,0\n711000000,,7,0,9,4,u=,1,9,0.1,0.1,0.1,0\n",
    "700000000,,7,0,u=,1,n=,l=\n701000000,,7,1,u=,1,n=,l=\n721000000,,7,4,u=,1,n=,l=\n",
    "submit_ms,start_ms,end_ms,end_event,user_ix,sched_class,job_id\n700000,701000,711000,4,1,0,6\n",
    "task_name,instance_num,job_name,status,start_time,end_time,plan_cpu,plan_mem\nM1,4,j_1,Terminated,100,110,100,0.5\nR2_1,3,j_1,Terminated,110,130,100,0.5\n",
];

/// Reads whatever the bytes are, and makes a workload of it.
fn read(bytes: &[u8]) -> Option<usize> {
    let mut trace = from_bytes("trace", bytes.into(), &Options::default()).ok()?;
    // A given cluster, because one that is made for wrong numbers may have very many nodes.
    to_workload(&mut trace, cluster::by_name("fcs").ok()).ok().map(|trace| trace.workload.jobs.len())
}

#[test]
fn every_small_trace_is_read_and_cut_at_every_byte() {
    for text in TRACES {
        assert!(read(text.as_bytes()).is_some(), "{text}");
        for end in 0..text.len() {
            read(&text.as_bytes()[..end]);
        }
    }
}

#[test]
fn changed_bytes_do_not_cause_a_panic() {
    let mut rng = giveway_sim::workload::random::rng(1, "damage");
    let interesting = b"0123456789-+.eE,\"\\{}[]:\t\n \x00\xff";
    for text in TRACES {
        for _ in 0..500 {
            let mut bytes = text.as_bytes().to_vec();
            for _ in 0..rng.random_range(1..6) {
                let at = rng.random_range(0..bytes.len());
                let byte = interesting[rng.random_range(0..interesting.len())];
                if rng.random::<bool>() { bytes[at] = byte } else { bytes.insert(at, byte) }
            }
            read(&bytes);
        }
    }
}

/// Files below a folder, without those over 2 MB, which take too long in a test.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.metadata().unwrap().len() < 2 << 20 {
            found.push(path);
        }
    }
}

#[test]
fn samples_are_cut_at_random_places() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Some(samples) = here.ancestors().map(|folder| folder.join("shared/traces")).find(|folder| folder.is_dir())
    else {
        println!("no folder shared/traces beside the project: nothing checked");
        return;
    };
    let places: usize = std::env::var("TRACE_CUTS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let mut all = Vec::new();
    for folder in ["swim", "hadoop", "google2011", "alibaba", "swf"] {
        files(&samples.join(folder), &mut all);
    }
    let mut rng = giveway_sim::workload::random::rng(2, "cuts");
    for path in all {
        let bytes = fs::read(&path).unwrap();
        for _ in 0..places {
            read(&bytes[..rng.random_range(0..bytes.len())]);
        }
    }
}
