//! Single situations, with objects as the API server sends them.

use giveway_core::policy::catalog;
use giveway_core::{Span, Time};
use giveway_kube::{Answer, Change, Controller, Failure, Input, Mode, Operation, Options, Pod, Request};
use serde_json::{Value, json};

struct Cluster {
    controller: Controller,
    now: Time,
    version: u64,
    /// The long Job's pods.
    pods: Vec<Value>,
}

fn controller(policy: &str, mode: Mode) -> Controller {
    let policy = catalog::by_name(policy).unwrap();
    Controller::new(Options { policy, mode, name: "giveway".into() }).unwrap()
}

fn job(name: &str, labels: Value, suspend: bool, version: u64) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": version.to_string(), "labels": labels},
        "spec": {"parallelism": 1, "completions": 1, "suspend": suspend, "backoffLimit": 6},
        "status": {},
    })
}

fn pod(name: &str, job: &str, version: u64) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "default", "uid": name, "resourceVersion": version.to_string(),
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": job, "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": {"containers": [{"name": "c", "image": "work", "resources": {"requests": {"cpu": "1", "memory": "32Mi"}}}]},
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    })
}

fn running(name: &str, job: &str, version: u64) -> Value {
    let mut pod = pod(name, job, version);
    pod["spec"]["nodeName"] = "n1".into();
    pod["status"] = json!({
        "phase": "Running", "qosClass": "Burstable",
        "containerStatuses": [{"name": "c", "restartCount": 0, "resources": {"requests": {"cpu": "1", "memory": "32Mi"}}}],
    });
    pod
}

fn read<T: serde::de::DeserializeOwned>(object: &Value) -> T {
    serde_json::from_value(object.clone()).unwrap()
}

impl Cluster {
    /// A node of two slots, filled by two pods of a long Job; `change` may change them.
    fn new(mode: Mode, change: impl Fn(&mut Value)) -> Cluster {
        let mut pods = vec![running("long-0", "long", 1), running("long-1", "long", 2)];
        pods.iter_mut().for_each(change);
        let node = json!({
            "metadata": {"name": "n1"}, "spec": {},
            "status": {"allocatable": {"cpu": "2", "memory": "8Gi"}, "conditions": [{"type": "Ready", "status": "True"}]},
        });
        let long = job("long", json!({"giveway.dev/queue": "batch"}), false, 3);
        let policy = if mode == Mode::Schedule { "fcs" } else { "fifo" };
        let mut cluster = Cluster { controller: controller(policy, mode), now: Time::ZERO, version: 100, pods };
        assert_eq!(cluster.send(Input::Node(Change::Listed(vec![read(&node)]))), []);
        assert_eq!(cluster.send(Input::Job(Change::Listed(vec![read(&long)]))), []);
        let listed = cluster.pods.iter().map(read).collect();
        cluster.send(Input::Pod(Change::Listed(listed)));
        cluster
    }

    fn send(&mut self, input: Input) -> Vec<Request> {
        self.controller.handle(self.now, input)
    }

    fn pod(&mut self, pod: &mut Value) -> Vec<Request> {
        self.version += 1;
        pod["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.send(Input::Pod(Change::Applied(read(pod))))
    }

    /// Lets time pass; returns what was requested meanwhile.
    fn wait(&mut self, seconds: u64) -> Vec<Request> {
        let end = self.now + Span::from_secs(seconds);
        let mut requests = Vec::new();
        while let Some(at) = self.controller.wake_at().filter(|&at| at <= end) {
            self.now = at.max(self.now);
            requests.extend(self.send(Input::TimerFired));
        }
        self.now = end;
        requests
    }

    /// A short Job waits for CPU, after the long one's pods may be squeezed.
    fn short_job(&mut self) -> Vec<Request> {
        self.wait(20);
        let mut requests = self.send(Input::Job(Change::Applied(read(&job(
            "short",
            json!({"giveway.dev/queue": "batch"}),
            false,
            50,
        )))));
        requests.extend(self.pod(&mut pod("short-0", "short", 0)));
        requests
    }

    /// Answers a patch of a pod as the API server does; returns the pod.
    fn accept(&mut self, request: &Request) -> (Value, Vec<Request>) {
        self.version += 1;
        let mut pod = self.pods.iter().find(|pod| pod["metadata"]["name"] == request.name).unwrap().clone();
        pod["metadata"]["resourceVersion"] = self.version.to_string().into();
        match &request.operation {
            Operation::AnnotatePod { annotations, .. } => pod["metadata"]["annotations"] = json!(annotations),
            Operation::ResizePod { cpu, .. } => {
                pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu["c"].clone().into();
            }
            other => panic!("{other:?}"),
        }
        *self.pods.iter_mut().find(|known| known["metadata"]["name"] == request.name).unwrap() = pod.clone();
        let answer = Answer::Pod(Box::new(read::<Pod>(&pod)));
        let requests = self.send(Input::Answered { request: request.number, answer });
        (pod, requests)
    }

    /// Up to the point where a pod's request is zero and the kubelet has not applied it.
    fn squeeze(&mut self) -> Value {
        let requests = self.short_job();
        let [annotate] = &requests[..] else { panic!("{requests:?}") };
        assert!(
            matches!(&annotate.operation, Operation::AnnotatePod { annotations, .. } if annotations["giveway.dev/cpu-was"] == Some(r#"{"c":"1"}"#.into()))
        );
        let (_, requests) = self.accept(annotate);
        let [resize] = &requests[..] else { panic!("{requests:?}") };
        assert!(matches!(&resize.operation, Operation::ResizePod { cpu, .. } if cpu["c"] == "0"));
        let (pod, requests) = self.accept(resize);
        assert_eq!(requests, []);
        pod
    }

    /// Takes a pod's zero as applied.
    fn freed(&mut self, pod: &mut Value) -> Vec<Request> {
        pod["status"]["containerStatuses"][0]["resources"]["requests"]["cpu"] = "0".into();
        self.pod(pod)
    }
}

fn is_event(request: &Request, reason: &str, text: &str) -> bool {
    matches!(&request.operation, Operation::RecordEvent { reason: of, message, .. } if *of == reason && message.contains(text))
}

fn resizes_to(request: &Request, quantity: &str) -> bool {
    matches!(&request.operation, Operation::ResizePod { cpu, .. } if cpu["c"] == quantity)
}

#[test]
fn a_pod_is_squeezed_and_gets_its_cpu_back() {
    let mut cluster = Cluster::new(Mode::Schedule, |_| {});
    let mut long = cluster.squeeze();
    assert_eq!(cluster.freed(&mut long), []);
    let mut short = running("short-0", "short", 0);
    assert_eq!(cluster.pod(&mut short), []);
    assert_eq!(cluster.wait(30), []);
    short["status"]["phase"] = "Succeeded".into();
    let mut requests = cluster.pod(&mut short);
    requests.extend(cluster.wait(2));
    let [grow] = &requests[..] else { panic!("{requests:?}") };
    assert!(resizes_to(grow, "1") && grow.name == long["metadata"]["name"]);
    let (_, requests) = cluster.accept(grow);
    let [clear] = &requests[..] else { panic!("{requests:?}") };
    assert!(
        matches!(&clear.operation, Operation::AnnotatePod { annotations, .. } if annotations.values().all(Option::is_none))
    );
    assert_eq!(cluster.controller.take_warnings(), [""; 0]);
}

#[test]
fn a_resize_that_the_kubelet_refuses_is_taken_back() {
    let mut cluster = Cluster::new(Mode::Schedule, |_| {});
    let mut long = cluster.squeeze();
    long["status"]["conditions"] = json!([{"type": "PodResizePending", "status": "True", "reason": "Infeasible", "message": "static CPU manager"}]);
    let requests = cluster.pod(&mut long);
    assert!(requests.iter().any(|request| is_event(request, "CannotSqueeze", "static CPU manager")), "{requests:?}");
    assert!(
        requests.iter().any(|request| resizes_to(request, "1") && request.name == long["metadata"]["name"]),
        "{requests:?}"
    );
}

#[test]
fn a_pod_whose_resize_is_rejected_keeps_its_cpu() {
    let mut cluster = Cluster::new(Mode::Schedule, |_| {});
    let requests = cluster.short_job();
    let (_, requests) = cluster.accept(&requests[0]);
    let rejected = Answer::Failed(Failure::Rejected("minimum cpu usage per Container is 100m".into()));
    let requests = cluster.send(Input::Answered { request: requests[0].number, answer: rejected });
    assert!(requests.iter().any(|request| is_event(request, "CannotSqueeze", "minimum cpu")), "{requests:?}");
    assert_eq!(cluster.controller.take_warnings().len(), 1);
}

#[test]
fn a_pause_that_is_never_applied_is_given_up() {
    let mut cluster = Cluster::new(Mode::Schedule, |_| {});
    let long = cluster.squeeze();
    let requests = cluster.wait(32);
    assert!(
        requests.iter().any(|request| resizes_to(request, "1") && request.name == long["metadata"]["name"]),
        "{requests:?}"
    );
}

#[test]
fn a_pod_that_somebody_else_resizes_is_left_alone() {
    let mut cluster = Cluster::new(Mode::Schedule, |_| {});
    let mut long = cluster.squeeze();
    cluster.freed(&mut long);
    let mut short = running("short-0", "short", 0);
    cluster.pod(&mut short);
    long["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "500m".into();
    let mut requests = cluster.pod(&mut long);
    requests.extend(cluster.wait(60));
    let annotations = |request: &&Request| matches!(request.operation, Operation::AnnotatePod { .. });
    assert!(requests.iter().all(|request| annotations(&request)), "{requests:?}");
    assert_eq!(requests.len(), 1);
}

#[test]
fn pods_that_cannot_be_squeezed_are_not_tried() {
    let changes: [fn(&mut Value); 4] = [
        |pod| pod["status"]["qosClass"] = "Guaranteed".into(),
        |pod| pod["metadata"]["annotations"] = json!({"giveway.dev/squeeze": "never"}),
        |pod| {
            pod["spec"]["containers"][0]["resizePolicy"] =
                json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}])
        },
        |pod| drop(pod["spec"]["containers"][0]["resources"]["requests"].as_object_mut().unwrap().remove("memory")),
    ];
    for change in changes {
        let mut cluster = Cluster::new(Mode::Schedule, change);
        assert_eq!(cluster.short_job(), []);
        assert_eq!(cluster.wait(60), []);
        assert!(read::<Pod>(&cluster.pods[0]).squeeze_refusal().is_some());
    }
}

/// Half a core is free, and the pod that waits needs a whole one.
#[test]
fn a_pod_that_does_not_fit_into_what_is_free_causes_a_squeeze() {
    for (cpu, is_squeezed) in [("1", true), ("500m", false)] {
        let mut cluster = Cluster::new(Mode::Schedule, |_| {});
        let node = json!({
            "metadata": {"name": "n1"}, "spec": {},
            "status": {"allocatable": {"cpu": "2500m", "memory": "8Gi"}, "conditions": [{"type": "Ready", "status": "True"}]},
        });
        cluster.send(Input::Node(Change::Applied(read(&node))));
        cluster.wait(20);
        let job = job("short", json!({"giveway.dev/queue": "batch"}), false, 50);
        cluster.send(Input::Job(Change::Applied(read(&job))));
        let mut short = pod("short-0", "short", 0);
        short["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu.into();
        let mut requests = cluster.pod(&mut short);
        requests.extend(cluster.wait(3));
        assert_eq!(!requests.is_empty(), is_squeezed, "{cpu}: {requests:?}");
    }
}

#[test]
fn a_pod_that_waits_for_memory_causes_no_squeeze() {
    let mut cluster = Cluster::new(Mode::Schedule, |_| {});
    cluster.wait(20);
    cluster.send(Input::Job(Change::Applied(read(&job("short", json!({"giveway.dev/queue": "batch"}), false, 50)))));
    let mut short = pod("short-0", "short", 0);
    short["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available: 1 Insufficient memory."}]);
    assert_eq!(cluster.pod(&mut short), []);
    assert_eq!(cluster.wait(60), []);
}

#[test]
fn a_damaged_annotation_is_reported() {
    let damage = |pod: &mut Value| {
        pod["metadata"]["annotations"] = json!({"giveway.dev/paused-by": "giveway", "giveway.dev/cpu-was": "?"});
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "0".into();
    };
    let mut cluster = Cluster::new(Mode::Schedule, damage);
    assert_eq!(cluster.wait(10), []);
    let warnings = cluster.controller.take_warnings();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("cpu-was is not valid"), "{warnings:?}");
}

#[test]
fn a_recording_requests_nothing() {
    let mut cluster = Cluster::new(Mode::RecordOnly, |_| {});
    assert_eq!(cluster.short_job(), []);
    let held = job("held", json!({"giveway.dev/queue": "batch"}), true, 60);
    assert_eq!(cluster.send(Input::Job(Change::Applied(read(&held)))), []);
    assert_eq!(cluster.wait(60), []);
    assert_eq!(cluster.controller.counts(), [1, 3, 2]);
    let log = [cluster.controller.take_log(), cluster.controller.close()].concat();
    let records = giveway_core::event_log::EventLogReader::open(&log).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    assert!(records.len() > 6);
}

#[test]
fn a_held_job_is_told_its_place_and_released() {
    let mut cluster = Cluster::new(Mode::Schedule, |pod| {
        pod["metadata"]["annotations"] = json!({"giveway.dev/squeeze": "never"});
    });
    let held = job("held", json!({"giveway.dev/queue": "batch"}), true, 60);
    let kueue = job("kueue", json!({"giveway.dev/queue": "batch", "kueue.x-k8s.io/queue-name": "a"}), true, 61);
    cluster.send(Input::Job(Change::Applied(read(&kueue))));
    cluster.send(Input::Job(Change::Applied(read(&held))));
    let requests = cluster.wait(5);
    let [told] = &requests[..] else { panic!("{requests:?}") };
    assert!(
        told.name == "held"
            && is_event(told, "Waiting", "place 1 of 1 in the queue; 0 Jobs before it under policy fcs"),
        "{told:?}"
    );
    let mut long = cluster.pods[0].clone();
    long["status"]["phase"] = "Succeeded".into();
    let mut requests = cluster.pod(&mut long);
    requests.extend(cluster.wait(2));
    let [release] = &requests[..] else { panic!("{requests:?}") };
    assert!(release.name == "held" && matches!(release.operation, Operation::ReleaseJob { .. }));
}
