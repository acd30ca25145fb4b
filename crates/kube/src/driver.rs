//! The driver: watches, patches, the clock and the event log file around the [`Controller`].

use crate::objects::{Job, Node, Pod};
use crate::{
    Answer, Change, Controller, ControllerError, Failure, Input, Mode, ObjectKind, Operation, Options, Request,
};
use futures::StreamExt;
use giveway_core::{Span, Time};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::watcher::{self, Event};
use kube::{Client, Error};
use serde::de::DeserializeOwned;
use serde_json::json;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use thiserror::Error;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, Semaphore};

/// Time for one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Requests at a time.
const REQUESTS_MAX: usize = 16;
/// Pause after a watch that failed.
const WATCH_RETRY: Duration = Duration::from_secs(1);

/// Why the controller cannot start or go on.
#[derive(Debug, Error)]
pub enum DriverError {
    #[error(transparent)]
    Controller(#[from] ControllerError),
    /// No kubeconfig, and not in a pod; or one that is not valid.
    #[error("cannot find a cluster: {0}; set KUBECONFIG, or run in a pod with a service account")]
    Config(String),
    #[error("cannot write event log {file}: {error}; check the path and the disk")]
    EventLog { file: PathBuf, error: io::Error },
    #[error("cannot start the runtime: {0}")]
    Runtime(io::Error),
}

/// Stops a running driver from another thread.
#[derive(Clone, Default)]
pub struct StopHandle(Arc<Notify>);

impl StopHandle {
    pub fn stop(&self) {
        self.0.notify_one();
    }
}

/// The event log file. A file of an earlier run is renamed, because every run begins with the state that it finds in the cluster.
struct EventLog {
    path: PathBuf,
    file: File,
}

impl EventLog {
    fn create(path: &Path) -> Result<EventLog, DriverError> {
        let fail = |error| DriverError::EventLog { file: path.into(), error };
        if let Ok(modified) = path.metadata().and_then(|metadata| metadata.modified()) {
            let seconds = modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
            let mut old = path.as_os_str().to_owned();
            old.push(format!(".{seconds}"));
            std::fs::rename(path, old).map_err(fail)?;
        }
        let file = OpenOptions::new().write(true).create_new(true).open(path).map_err(fail)?;
        Ok(EventLog { path: path.into(), file })
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), DriverError> {
        self.file.write_all(bytes).map_err(|error| DriverError::EventLog { file: self.path.clone(), error })
    }
}

/// Runs a controller until it is stopped; in [`Mode::Restore`] until nothing is squeezed any more. Blocks the calling thread. `log` receives the operator's
/// log lines.
pub fn run(
    options: Options,
    event_log: Option<&Path>,
    stop: &StopHandle,
    log: &mut dyn FnMut(&str),
) -> Result<(), DriverError> {
    runtime()?.block_on(async {
        let client = connect().await?;
        let event_log = event_log.map(EventLog::create).transpose()?;
        drive(client, options, event_log, stop, log).await
    })
}

pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, DriverError> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(DriverError::Runtime)
}

pub(crate) async fn connect() -> Result<Client, DriverError> {
    Client::try_default().await.map_err(|error| DriverError::Config(error.to_string()))
}

async fn drive(
    client: Client,
    options: Options,
    mut event_log: Option<EventLog>,
    stop: &StopHandle,
    log: &mut dyn FnMut(&str),
) -> Result<(), DriverError> {
    let mode = options.mode;
    let policy = if mode == Mode::Schedule { options.policy.name.clone() } else { format!("{mode:?}") };
    let mut controller = Controller::new(options)?;
    let (sender, mut inputs) = unbounded_channel();
    let (line_sender, mut lines) = unbounded_channel();
    tokio::spawn(watch::<Node>(client.clone(), resource("", "Node"), Input::Node, sender.clone(), line_sender.clone()));
    tokio::spawn(watch::<Job>(
        client.clone(),
        resource("batch", "Job"),
        Input::Job,
        sender.clone(),
        line_sender.clone(),
    ));
    tokio::spawn(watch::<Pod>(client.clone(), resource("", "Pod"), Input::Pod, sender.clone(), line_sender));
    let (permits, started) = (Arc::new(Semaphore::new(REQUESTS_MAX)), Instant::now());
    let now = || Time::ZERO + Span(started.elapsed().as_micros() as u64);
    let mut was_synchronized = false;
    loop {
        let mut next = next_input(&mut inputs, &mut lines, controller.wake_at(), now(), stop, log).await;
        if next.is_none() {
            break;
        }
        while let Some(input) = next {
            for request in controller.handle(now(), input) {
                tokio::spawn(carry_out(client.clone(), request, Arc::clone(&permits), sender.clone()));
            }
            next = inputs.try_recv().ok();
        }
        controller.take_warnings().iter().for_each(|warning| log(warning));
        let bytes = controller.take_log();
        if let Some(event_log) = &mut event_log {
            event_log.append(&bytes)?;
        }
        if controller.is_synchronized() && !was_synchronized {
            was_synchronized = true;
            let [nodes, jobs, pods] = controller.counts();
            log(&format!(
                "policy {policy}: {nodes} nodes, {jobs} Jobs or groups, {pods} pods; {} squeezed",
                controller.unsettled()
            ));
        }
        if mode == Mode::Restore && controller.is_synchronized() && controller.unsettled() == 0 {
            break;
        }
    }
    let bytes = controller.close();
    event_log.as_mut().map_or(Ok(()), |event_log| event_log.append(&bytes))
}

/// The next input, the timer included; none once the driver is stopped.
async fn next_input(
    inputs: &mut UnboundedReceiver<Input>,
    lines: &mut UnboundedReceiver<String>,
    wake_at: Option<Time>,
    now: Time,
    stop: &StopHandle,
    log: &mut dyn FnMut(&str),
) -> Option<Input> {
    let wait = wake_at.map_or(Duration::from_secs(3600), |at| Duration::from_micros(at.since(now).0));
    let sleep = tokio::time::sleep(wait);
    tokio::pin!(sleep);
    loop {
        tokio::select! {
            () = stop.0.notified() => return None,
            Some(line) = lines.recv() => log(&line),
            input = inputs.recv() => return input,
            () = &mut sleep => return Some(Input::TimerFired),
        }
    }
}

fn resource(group: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind))
}

fn convert<T: DeserializeOwned>(object: &DynamicObject) -> Result<T, serde_json::Error> {
    serde_json::from_value(serde_json::to_value(object)?)
}

/// Watches all objects of a kind. What is lost between two watches is made good by a new list.
async fn watch<T: DeserializeOwned>(
    client: Client,
    resource: ApiResource,
    input: fn(Change<T>) -> Input,
    inputs: UnboundedSender<Input>,
    lines: UnboundedSender<String>,
) {
    let api: Api<DynamicObject> = Api::all_with(client, &resource);
    let mut events = std::pin::pin!(watcher::watcher(api, watcher::Config::default()));
    let mut listed = Vec::new();
    let mut last_error = String::new();
    while let Some(event) = events.next().await {
        let converted = match event {
            Ok(Event::Apply(object)) => convert(&object).map(|object| Some(Change::Applied(object))),
            Ok(Event::Delete(object)) => convert(&object).map(|object| Some(Change::Deleted(object))),
            Ok(Event::Init) => {
                listed.clear();
                Ok(None)
            }
            Ok(Event::InitApply(object)) => convert(&object).map(|object| {
                listed.push(object);
                None
            }),
            Ok(Event::InitDone) => {
                last_error.clear();
                Ok(Some(Change::Listed(std::mem::take(&mut listed))))
            }
            Err(error) => {
                // The API server is away, or a right is missing: the same line is not repeated.
                let error = format!("cannot watch {}: {error}; retrying", resource.plural);
                if error != last_error {
                    let _ = lines.send(error.clone());
                    last_error = error;
                }
                tokio::time::sleep(WATCH_RETRY).await;
                continue;
            }
        };
        match converted {
            Ok(Some(change)) => {
                if inputs.send(input(change)).is_err() {
                    return;
                }
            }
            Ok(None) => {}
            Err(error) => drop(lines.send(format!("cannot read an object of {}: {error}", resource.plural))),
        }
    }
}

async fn carry_out(client: Client, request: Request, permits: Arc<Semaphore>, inputs: UnboundedSender<Input>) {
    let _permit = permits.acquire().await;
    let number = request.number;
    let answer = match tokio::time::timeout(REQUEST_TIMEOUT, perform(client, request)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => Answer::Failed(failure(error)),
        Err(_) => Answer::Failed(Failure::Unavailable { error: "no answer in time".into(), retry_after: None }),
    };
    let _ = inputs.send(Input::Answered { request: number, answer });
}

async fn perform(client: Client, request: Request) -> Result<Answer, Error> {
    let Request { namespace, name, operation, .. } = request;
    let api = |kind| Api::<DynamicObject>::namespaced_with(client.clone(), &namespace, &kind);
    let patch = operation.patch();
    let params = PatchParams::default();
    let pod = |object: DynamicObject| convert(&object).map(|pod| Answer::Pod(Box::new(pod))).map_err(Error::SerdeError);
    match operation {
        Operation::AnnotatePod { .. } => {
            pod(api(resource("", "Pod")).patch(&name, &params, &Patch::Strategic(patch)).await?)
        }
        Operation::ResizePod { .. } => {
            pod(api(resource("", "Pod")).patch_subresource("resize", &name, &params, &Patch::Strategic(patch)).await?)
        }
        Operation::ReleaseJob { .. } => {
            let object = api(resource("batch", "Job")).patch(&name, &params, &Patch::Strategic(patch)).await?;
            convert(&object).map(|job| Answer::Job(Box::new(job))).map_err(Error::SerdeError)
        }
        Operation::RecordEvent { kind, uid, reason, message } => {
            let (kind, api_version) = match kind {
                ObjectKind::Job => ("Job", "batch/v1"),
                ObjectKind::Pod => ("Pod", "v1"),
            };
            let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
            let event = json!({
                "involvedObject": {"kind": kind, "apiVersion": api_version, "namespace": namespace, "name": name, "uid": uid},
                "reason": reason, "message": message, "type": "Normal", "count": 1,
                "firstTimestamp": now, "lastTimestamp": now,
                "source": {"component": "giveway"}, "reportingComponent": "giveway.dev/controller",
            });
            let kind = resource("", "Event");
            let mut object = DynamicObject::new("", &kind).data(event);
            (object.metadata.name, object.metadata.generate_name) = (None, Some(format!("{name}.")));
            object.metadata.namespace = Some(namespace.clone());
            api(kind).create(&PostParams::default(), &object).await?;
            Ok(Answer::Done)
        }
    }
}

fn failure(error: Error) -> Failure {
    let Error::Api(status) = error else {
        return Failure::Unavailable { error: error.to_string(), retry_after: None };
    };
    match status.code {
        409 => Failure::Conflict,
        404 => Failure::NotFound,
        400 | 403 | 422 => Failure::Rejected(status.message.clone()),
        _ => {
            let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
            let retry_after = (seconds > 0).then(|| Span::from_secs(seconds.into()));
            Failure::Unavailable { error: status.message.clone(), retry_after }
        }
    }
}
