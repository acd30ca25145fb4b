//! A model of a cluster, in steps of 100 ms.

use giveway_core::{Span, Time};
use giveway_kube::{
    Answer, Change, Condition, Container, ContainerStatus, Controller, Failure, Input, Job, JobSpec, Metadata, Node,
    NodeStatus, Operation, OwnerReference, Pod, PodSpec, PodTemplate, Request, Resources, annotation, label, milli_cpu,
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::{BTreeMap, VecDeque};

const STEP: Span = Span::from_millis(100);

/// Which faults happen.
#[derive(Clone, Copy, Default)]
pub struct Faults {
    /// Chance per request that it is throttled, fails before, or succeeds without an answer.
    pub request: f64,
    /// Chance per step that changes are missed and all objects are listed again.
    pub gap: f64,
    /// Chance per step that the controller is restarted.
    pub restart: f64,
    /// Longest delay of watches and kubelets, in steps.
    pub delay_max: u64,
    /// Restarts the controller once, after so many requests.
    pub restart_after: Option<u64>,
}

impl Faults {
    pub const ALL: Faults = Faults { request: 0.25, gap: 0.005, restart: 0.01, delay_max: 8, restart_after: None };
}

struct SimulatedPod {
    object: Pod,
    /// What the kubelet has granted and what it has applied, in thousandths of a core.
    allocated: u64,
    actual: u64,
    /// When the kubelet looks at it next.
    kubelet_at: u64,
    work_left: u64,
    created_at: u64,
    bound_at: Option<u64>,
}

struct SimulatedJob {
    object: Job,
    work: u64,
    completed_at: Option<u64>,
    pods: u32,
}

/// The cluster and the controller.
pub struct Cluster {
    rng: Pcg64Mcg,
    faults: Faults,
    make: Box<dyn Fn() -> Controller>,
    controller: Controller,
    step: u64,
    version: u64,
    nodes: Vec<(Node, u64)>,
    jobs: Vec<SimulatedJob>,
    pods: Vec<SimulatedPod>,
    /// Watch events on the way, with the step at which they arrive.
    events: VecDeque<(u64, Input)>,
    requests: u64,
    pub squeezes: u64,
    /// What was requested, for comparison of runs.
    pub journal: Vec<String>,
}

/// Of all pods: a core and little memory.
fn pod_spec() -> PodSpec {
    let requests = [("cpu", "1"), ("memory", "64Mi")].map(|(name, quantity)| (name.to_owned(), quantity.to_owned()));
    let resources = Resources { requests: requests.into(), ..Resources::default() };
    let container = Container { name: "c".into(), resources, ..Container::default() };
    PodSpec { containers: vec![container], ..PodSpec::default() }
}

impl Cluster {
    pub fn new(seed: u64, faults: Faults, make: impl Fn() -> Controller + 'static) -> Cluster {
        let controller = make();
        let mut cluster = Cluster {
            rng: Pcg64Mcg::seed_from_u64(seed),
            faults,
            make: Box::new(make),
            controller,
            step: 0,
            version: 1,
            nodes: Vec::new(),
            jobs: Vec::new(),
            pods: Vec::new(),
            events: VecDeque::new(),
            requests: 0,
            squeezes: 0,
            journal: Vec::new(),
        };
        cluster.list_all();
        cluster
    }

    pub fn add_node(&mut self, name: &str, milli_cpu: u64) {
        let ready = Condition { kind: "Ready".into(), status: "True".into(), ..Condition::default() };
        let quantities = [("cpu", format!("{milli_cpu}m")), ("memory", "4Gi".to_owned())];
        let allocatable = quantities.map(|(name, quantity)| (name.to_owned(), quantity)).into();
        let object = Node {
            metadata: Metadata { name: name.into(), ..Metadata::default() },
            status: NodeStatus { allocatable, conditions: vec![ready] },
            ..Node::default()
        };
        self.nodes.push((object.clone(), milli_cpu));
        self.notify(Input::Node(Change::Applied(object)));
    }

    pub fn submit(&mut self, name: &str, parallelism: u32, completions: u32, work: u64, suspend: bool) {
        self.version += 1;
        let metadata = Metadata {
            name: name.into(),
            namespace: "default".into(),
            uid: format!("job-{name}"),
            resource_version: self.version.to_string(),
            labels: [(label::QUEUE.to_owned(), "batch".to_owned())].into(),
            ..Metadata::default()
        };
        let (parallelism, completions) = (Some(parallelism), Some(completions));
        let spec = JobSpec { suspend, parallelism, completions, template: PodTemplate { spec: pod_spec() } };
        let object = Job { metadata, spec, ..Job::default() };
        self.jobs.push(SimulatedJob { object: object.clone(), work, completed_at: None, pods: 0 });
        self.notify(Input::Job(Change::Applied(object)));
    }

    pub fn run(&mut self, steps: u64) {
        for _ in 0..steps {
            self.advance();
        }
    }

    /// Runs until all Jobs are complete, and on without faults until nothing moves.
    pub fn run_until_complete(&mut self, steps_max: u64) {
        let end = self.step + steps_max;
        while self.jobs.iter().any(|job| job.completed_at.is_none()) {
            assert!(self.step < end, "not complete after {steps_max} steps: {:#?}", self.describe());
            self.advance();
        }
        self.faults = Faults::default();
        self.run(400);
        assert!(!self.is_anything_squeezed(), "{:#?}", self.describe());
    }

    pub fn completed_at(&self, name: &str) -> u64 {
        self.job(name).completed_at.unwrap()
    }

    /// The longest time that a pod of the Job waited for a node, in steps.
    pub fn squeezed_wait_max(&self, name: &str) -> u64 {
        let uid = &self.job(name).object.metadata.uid;
        let pods = self.pods.iter().filter(|pod| pod.object.job_uid() == Some(uid));
        pods.map(|pod| pod.bound_at.unwrap() - pod.created_at).max().unwrap()
    }

    /// True if a pod that has not ended requests nothing, or has an annotation of the controller.
    pub fn is_anything_squeezed(&self) -> bool {
        let is_touched = |pod: &&SimulatedPod| pod.object.cpu() == 0 || pod.object.paused_by().is_some();
        self.pods.iter().filter(|pod| !pod.object.has_ended()).any(|pod| is_touched(&pod))
    }

    pub fn replace_controller(&mut self, make: impl Fn() -> Controller + 'static) {
        self.make = Box::new(make);
        self.restart();
    }

    fn job(&self, name: &str) -> &SimulatedJob {
        self.jobs.iter().find(|job| job.object.metadata.name == name).unwrap()
    }

    fn describe(&self) -> Vec<String> {
        let line = |pod: &SimulatedPod| {
            let Metadata { name, annotations, .. } = &pod.object.metadata;
            let (cpu, phase, node) = (pod.object.cpu(), &pod.object.status.phase, &pod.object.spec.node_name);
            format!(
                "{name} {phase} on `{node}` spec {cpu} allocated {} actual {} left {} {annotations:?}",
                pod.allocated, pod.actual, pod.work_left
            )
        };
        self.pods.iter().map(line).collect()
    }

    fn advance(&mut self) {
        self.step += 1;
        self.create_pods();
        self.bind_pods();
        self.run_kubelets();
        if self.rng.random_bool(self.faults.gap) {
            self.events.clear();
            self.list_all();
        }
        if self.rng.random_bool(self.faults.restart) {
            self.restart();
        }
        while self.events.front().is_some_and(|(at, _)| *at <= self.step) {
            let (_, input) = self.events.pop_front().unwrap();
            self.input(input);
        }
        if self.controller.wake_at().is_some_and(|at| at <= self.now()) {
            self.input(Input::TimerFired);
        }
        self.check();
    }

    fn now(&self) -> Time {
        Time::ZERO + Span(STEP.0 * self.step)
    }

    fn restart(&mut self) {
        self.controller = (self.make)();
        self.events.clear();
        self.list_all();
    }

    fn list_all(&mut self) {
        let nodes = self.nodes.iter().map(|(node, _)| node.clone()).collect();
        let jobs = self.jobs.iter().map(|job| job.object.clone()).collect();
        let pods = self.pods.iter().map(|pod| pod.object.clone()).collect();
        self.notify(Input::Node(Change::Listed(nodes)));
        self.notify(Input::Job(Change::Listed(jobs)));
        self.notify(Input::Pod(Change::Listed(pods)));
    }

    /// Sends a watch event. It arrives after those that were sent before.
    fn notify(&mut self, input: Input) {
        let delay = self.rng.random_range(0..=self.faults.delay_max);
        let after_last = self.events.back().map_or(0, |(at, _)| *at);
        self.events.push_back(((self.step + delay).max(after_last), input));
    }

    fn input(&mut self, input: Input) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            for request in self.controller.handle(self.now(), input) {
                self.requests += 1;
                let number = request.number;
                let answer = self.answer(request);
                if Some(self.requests) == self.faults.restart_after {
                    return self.restart();
                }
                inputs.push_back(Input::Answered { request: number, answer });
            }
        }
        for warning in self.controller.take_warnings() {
            self.journal.push(format!("{} warning: {warning}", self.step));
        }
    }

    fn answer(&mut self, request: Request) -> Answer {
        let fault = self.rng.random_range(0.0..1.0f64) / self.faults.request.max(1e-9);
        let retry_after = Some(Span::from_millis(self.rng.random_range(100..3000)));
        let unavailable = |error: &str| Answer::Failed(Failure::Unavailable { error: error.into(), retry_after });
        self.journal.push(format!("{} {request:?}", self.step));
        if fault < 0.3 {
            return unavailable("429 Too Many Requests");
        }
        if fault < 0.6 {
            return unavailable("connection refused");
        }
        let answer = self.carry_out(&request);
        if fault < 1.0 { unavailable("connection reset") } else { answer }
    }

    fn carry_out(&mut self, request: &Request) -> Answer {
        let conflict = Answer::Failed(Failure::Conflict);
        let named = |metadata: &Metadata| metadata.name == request.name && metadata.namespace == request.namespace;
        self.version += 1;
        match &request.operation {
            Operation::AnnotatePod { annotations, resource_version } => {
                let pod = self.pods.iter_mut().find(|pod| named(&pod.object.metadata)).unwrap();
                if pod.object.metadata.resource_version != *resource_version {
                    return conflict;
                }
                for (name, value) in annotations {
                    match value {
                        Some(value) => pod.object.metadata.annotations.insert(name.clone(), value.clone()),
                        None => pod.object.metadata.annotations.remove(name),
                    };
                }
                self.pod_patched(&request.name)
            }
            Operation::ResizePod { cpu, resource_version } => {
                let pod = self.pods.iter_mut().find(|pod| named(&pod.object.metadata)).unwrap();
                if pod.object.metadata.resource_version != *resource_version {
                    return conflict;
                }
                for container in &mut pod.object.spec.containers {
                    let quantity = cpu[&container.name].clone();
                    self.squeezes += u64::from(quantity == "0");
                    container.resources.requests.insert("cpu".into(), quantity);
                }
                self.pod_patched(&request.name)
            }
            Operation::ReleaseJob { resource_version } => {
                let version = self.version.to_string();
                let job = self.jobs.iter_mut().find(|job| named(&job.object.metadata)).unwrap();
                if job.object.metadata.resource_version != *resource_version {
                    return conflict;
                }
                job.object.spec.suspend = false;
                job.object.metadata.resource_version = version;
                let object = job.object.clone();
                self.notify(Input::Job(Change::Applied(object.clone())));
                Answer::Job(Box::new(object))
            }
            Operation::RecordEvent { .. } => Answer::Done,
        }
    }

    fn pod_patched(&mut self, name: &str) -> Answer {
        let at = self.pods.iter().position(|pod| pod.object.metadata.name == name).unwrap();
        Answer::Pod(Box::new(self.pod_changed(at)))
    }

    /// Gives a changed pod a new version and sends it to the watch.
    fn pod_changed(&mut self, at: usize) -> Pod {
        self.version += 1;
        self.pods[at].object.metadata.resource_version = self.version.to_string();
        let object = self.pods[at].object.clone();
        self.notify(Input::Pod(Change::Applied(object.clone())));
        object
    }

    /// The Job controller.
    fn create_pods(&mut self) {
        for at in 0..self.jobs.len() {
            let uid = self.jobs[at].object.metadata.uid.clone();
            let of_job = |pod: &&SimulatedPod| pod.object.job_uid() == Some(&uid);
            let live = self.pods.iter().filter(of_job).filter(|pod| !pod.object.has_ended()).count() as u32;
            let succeeded = self.pods.iter().filter(of_job).filter(|pod| pod.object.has_succeeded()).count() as u32;
            let (step, job) = (self.step, &mut self.jobs[at]);
            if job.object.spec.suspend || job.completed_at.is_some() {
                continue;
            }
            if job.object.status.succeeded != succeeded {
                self.version += 1;
                job.object.metadata.resource_version = self.version.to_string();
                job.object.status.succeeded = succeeded;
                if Some(succeeded) == job.object.spec.completions {
                    job.completed_at = Some(step);
                    let complete = Condition { kind: "Complete".into(), status: "True".into(), ..Condition::default() };
                    job.object.status.conditions.push(complete);
                }
                let object = job.object.clone();
                self.notify(Input::Job(Change::Applied(object)));
            }
            for _ in live..self.jobs[at].object.width() {
                self.create_pod(at);
            }
        }
    }

    fn create_pod(&mut self, job: usize) {
        let (step, job) = (self.step, &mut self.jobs[job]);
        job.pods += 1;
        let owner = OwnerReference { kind: "Job".into(), uid: job.object.metadata.uid.clone(), controller: true };
        let name = format!("{}-{}", job.object.metadata.name, job.pods);
        let metadata = Metadata {
            uid: format!("pod-{name}"),
            name,
            namespace: "default".into(),
            owner_references: vec![owner],
            ..Metadata::default()
        };
        let mut object = Pod { metadata, spec: job.object.spec.template.spec.clone(), ..Pod::default() };
        object.status.phase = "Pending".into();
        object.status.qos_class = "Burstable".into();
        let (created_at, work_left) = (step, job.work);
        self.pods.push(SimulatedPod {
            object,
            allocated: 0,
            actual: 0,
            kubelet_at: 0,
            work_left,
            created_at,
            bound_at: None,
        });
        self.pod_changed(self.pods.len() - 1);
    }

    /// CPU that the scheduler counts as used on a node: of each pod the largest of what is requested, granted and applied.
    fn used(&self, node: &str, of: impl Fn(&SimulatedPod) -> u64) -> u64 {
        let on_node = |pod: &&SimulatedPod| pod.object.spec.node_name == node && !pod.object.has_ended();
        self.pods.iter().filter(on_node).map(of).sum()
    }

    /// The scheduler.
    fn bind_pods(&mut self) {
        for at in 0..self.pods.len() {
            let pod = &self.pods[at];
            if pod.object.is_bound() || pod.object.has_ended() {
                continue;
            }
            let cpu = pod.object.cpu();
            let counted = |pod: &SimulatedPod| pod.object.cpu().max(pod.allocated).max(pod.actual);
            let fits = |(node, capacity): &&(Node, u64)| self.used(&node.metadata.name, counted) + cpu <= *capacity;
            let node = self.nodes.iter().find(fits).map(|(node, _)| node.metadata.name.clone());
            let delay = self.rng.random_range(0..=self.faults.delay_max);
            let pod = &mut self.pods[at];
            if let Some(node) = node {
                pod.object.spec.node_name = node;
                pod.object.status.conditions.clear();
                (pod.allocated, pod.bound_at, pod.kubelet_at) = (cpu, Some(self.step), self.step + 10 + delay);
                self.pod_changed(at);
            } else if pod.object.status.conditions.is_empty() {
                let condition = Condition {
                    kind: "PodScheduled".into(),
                    status: "False".into(),
                    reason: "Unschedulable".into(),
                    message: "0/2 nodes are available: 2 Insufficient cpu.".into(),
                };
                pod.object.status.conditions.push(condition);
                self.pod_changed(at);
            }
        }
    }

    /// The kubelets: a shrink is granted at once and applied later; a grow is granted when it fits.
    fn run_kubelets(&mut self) {
        for at in 0..self.pods.len() {
            let pod = &self.pods[at];
            if !pod.object.is_bound() || pod.object.has_ended() || pod.kubelet_at > self.step {
                continue;
            }
            let node = pod.object.spec.node_name.clone();
            let capacity = self.nodes.iter().find(|(of, _)| of.metadata.name == node).unwrap().1;
            let others = self.used(&node, |pod| pod.allocated) - pod.allocated;
            let delay = self.rng.random_range(0..=self.faults.delay_max);
            let step = self.step;
            let pod = &mut self.pods[at];
            let (cpu, mut changed) = (pod.object.cpu(), false);
            if pod.object.status.phase == "Pending" {
                pod.object.status.phase = "Running".into();
                pod.actual = pod.allocated;
                changed = true;
            } else if pod.actual != pod.allocated {
                (pod.actual, changed) = (pod.allocated, true);
            } else if pod.allocated != cpu && others + cpu <= capacity {
                pod.allocated = cpu;
                // It takes a second to apply.
                pod.kubelet_at = step + 5 + delay;
            }
            if pod.actual > 0 {
                pod.work_left -= 1;
            }
            if pod.work_left == 0 {
                pod.object.status.phase = "Succeeded".into();
                changed = true;
            }
            if changed {
                let requests = [("cpu".to_owned(), format!("{}m", pod.actual))].into();
                let resources = Some(Resources { requests, ..Resources::default() });
                pod.object.status.container_statuses = vec![ContainerStatus { name: "c".into(), resources }];
                self.pod_changed(at);
            }
        }
    }

    /// What must hold at any time.
    fn check(&self) {
        for pod in self.pods.iter().filter(|pod| !pod.object.has_ended()) {
            let was = pod.object.metadata.annotations.get(annotation::CPU_WAS);
            let was: Option<BTreeMap<String, String>> = was.map(|was| serde_json::from_str(was).unwrap());
            match pod.object.cpu() {
                0 => assert_eq!(was.and_then(|was| milli_cpu(&was["c"])), Some(1000), "{}", pod.object.metadata.name),
                cpu => assert_eq!(cpu, 1000, "{}", pod.object.metadata.name),
            }
        }
        for (node, capacity) in &self.nodes {
            assert!(self.used(&node.metadata.name, |pod| pod.allocated) <= *capacity);
        }
    }
}
