//! What a driver exchanges with the controller: objects and answers in, requests out.

use crate::objects::{Job, Map, Node, Pod};
use giveway_core::Span;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Something that the driver reports.
#[derive(Clone, Debug)]
pub enum Input {
    Node(Change<Node>),
    Job(Change<Job>),
    Pod(Change<Pod>),
    /// The answer to a request.
    Answered {
        request: u64,
        answer: Answer,
    },
    /// The time that [`Controller::wake_at`](crate::Controller::wake_at) named has come.
    TimerFired,
}

/// A change of the objects of one kind.
#[derive(Clone, Debug)]
pub enum Change<T> {
    Applied(T),
    Deleted(T),
    /// All that exist: at the start, and after changes were missed.
    Listed(Vec<T>),
}

/// The kind of an object that a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    Job,
    Pod,
}

/// A request to the API server. Requests about the same object are made one after the other: the next one follows the answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Unique; named in the answer.
    pub number: u64,
    pub namespace: String,
    pub name: String,
    pub operation: Operation,
}

/// What a request does. Patches name the resource version that they are based on, so one that is based on an old state fails with a conflict.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Sets annotations of a pod, or removes those without a value.
    AnnotatePod { annotations: BTreeMap<String, Option<String>>, resource_version: String },
    /// Sets the CPU requests of containers of a pod, by the subresource `resize`.
    ResizePod { cpu: Map, resource_version: String },
    /// Ends the suspension of a Job.
    ReleaseJob { resource_version: String },
    /// Records an Event about an object.
    RecordEvent { kind: ObjectKind, uid: String, reason: &'static str, message: String },
}

impl Operation {
    /// The strategic merge patch of a request that is a patch.
    pub fn patch(&self) -> Option<Value> {
        match self {
            Operation::AnnotatePod { annotations, resource_version } => {
                Some(json!({"metadata": {"resourceVersion": resource_version, "annotations": annotations}}))
            }
            Operation::ResizePod { cpu, resource_version } => {
                let resized =
                    |(name, cpu): (&String, &String)| json!({"name": name, "resources": {"requests": {"cpu": cpu}}});
                let containers: Vec<Value> = cpu.iter().map(resized).collect();
                Some(json!({"metadata": {"resourceVersion": resource_version}, "spec": {"containers": containers}}))
            }
            Operation::ReleaseJob { resource_version } => {
                Some(json!({"metadata": {"resourceVersion": resource_version}, "spec": {"suspend": false}}))
            }
            Operation::RecordEvent { .. } => None,
        }
    }
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The patched pod.
    Pod(Box<Pod>),
    /// The patched Job.
    Job(Box<Job>),
    /// Done; nothing was patched.
    Done,
    Failed(Failure),
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The object has changed (409): the current state follows from the watch.
    Conflict,
    /// The object is gone (404): its deletion follows from the watch.
    NotFound,
    /// The API server refuses it for what it says (403, 422): it would refuse it again.
    Rejected(String),
    /// Too many requests, no answer, or an error of the server: it may or may not have been carried out.
    Unavailable { error: String, retry_after: Option<Span> },
}
