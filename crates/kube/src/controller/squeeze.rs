//! Squeezing: pauses and resumptions of the core as patches of pods.
//!
//! A pause is three steps, each of which can be seen in the pod's object: annotations with the CPU requests, a resize to zero, and the kubelet's report that
//! the CPU is free. A resumption is a resize back and the removal of the annotations. [`Controller::settle_pod`] makes the next step.

use super::jobs::RETRY_DELAY;
use super::{Controller, PodState, Subject};
use crate::objects::{Map, Metadata, annotation};
use crate::request::{Answer, Failure, ObjectKind, Operation};
use giveway_core::{AttemptId, Event, Kind, NodeId, Span};
use std::collections::BTreeMap;

/// A pause whose CPU is not free after this time is given up.
const PAUSE_TIMEOUT: Span = Span::from_secs(30);
/// Time before a request that the API server rejects is repeated, where giving up would leave a pod squeezed.
const REJECTED_DELAY: Span = Span::from_secs(30);

impl Controller {
    /// True if this controller, or a former one of the same name, has resized the pod to zero.
    pub(super) fn is_squeezed(&self, uid: &str) -> bool {
        let Some(pod) = self.pods.get(uid) else { return false };
        pod.object.paused_by() == Some(&self.options.name) && pod.object.cpu_was().is_some() && pod.object.cpu() == 0
    }

    pub(super) fn begin_pause(&mut self, attempt: AttemptId) {
        let Some(uid) = self.attempts.get(&attempt).cloned() else { return };
        if let Some(pod) = self.pods.get_mut(&uid) {
            pod.state = PodState::Pausing { since: self.now };
            self.unsettled.insert(uid);
        }
    }

    pub(super) fn resume(&mut self, from: AttemptId, to: AttemptId) {
        let Some(uid) = self.attempts.remove(&from) else { return };
        if let Some(pod) = self.pods.get_mut(&uid) {
            (pod.attempt, pod.state) = (Some(to), PodState::Running);
            self.attempts.insert(to, uid);
        }
    }

    /// Offers the free slots of nodes with squeezed pods to the core, which resumes those that rank first; gives up pauses that take too long.
    pub(super) fn offer_to_squeezed(&mut self) {
        for uid in self.unsettled.clone() {
            self.check_squeeze(&uid);
        }
        let offered = self.core.nodes().filter(|node| node.up && node.paused > 0 && node.free[Kind::Reduce] > 0);
        let offered = offered.filter(|node| self.fits_squeezed(&node.spec.name));
        let offered: Vec<NodeId> = offered.map(|node| node.id).collect();
        for node in offered {
            self.submit(Event::SlotsOffered { node, progress: Vec::new() });
        }
    }

    /// Reports to the core what has become of a pause.
    pub(super) fn check_squeeze(&mut self, uid: &str) {
        let Some(pod) = self.pods.get(uid) else { return };
        let (Some(attempt), object) = (pod.attempt, &pod.object) else { return };
        let (is_zero, is_ours) = (object.cpu() == 0, object.paused_by() == Some(&self.options.name));
        match pod.state {
            PodState::Running => {}
            PodState::Pausing { since } => {
                if let Some(why) = object.resize_infeasible().filter(|_| is_ours).map(str::to_owned) {
                    self.give_up_pause(uid, Some(why));
                } else if is_zero && is_ours && object.is_cpu_freed() {
                    self.set_state(uid, PodState::Paused);
                    self.submit(Event::AttemptPaused { attempt, progress_ppm: 0 });
                } else if self.now.since(since) >= PAUSE_TIMEOUT {
                    self.give_up_pause(uid, None);
                }
            }
            PodState::Paused if !is_zero || !is_ours => self.regained(uid, attempt),
            PodState::Paused => {}
        }
    }

    fn set_state(&mut self, uid: &str, state: PodState) {
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.state = state;
        }
    }

    /// The pod keeps its CPU. With a reason, it is not asked for again.
    fn give_up_pause(&mut self, uid: &str, why: Option<String>) {
        let Some(attempt) = self.pods.get(uid).and_then(|pod| pod.attempt) else { return };
        self.set_state(uid, PodState::Running);
        self.submit(Event::StopFailed { attempt });
        if let Some(why) = why {
            self.submit(Event::AttemptProtected { attempt });
            self.tell_pod(uid, "CannotSqueeze", format!("cannot be squeezed: {why}"));
        }
    }

    /// Somebody else has resized a squeezed pod: it runs again, as a new attempt, and is left alone.
    fn regained(&mut self, uid: &str, attempt: AttemptId) {
        self.set_state(uid, PodState::Running);
        self.attempts.remove(&attempt);
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.attempt = None;
        }
        self.submit(Event::AttemptKilled { attempt });
        self.changed_pods.insert(uid.to_owned());
    }

    pub(super) fn settle_pods(&mut self) {
        if self.records_only() {
            self.unsettled.clear();
            return;
        }
        for uid in self.unsettled.clone() {
            self.settle_pod(&uid);
        }
    }

    /// Requests the next step of a pod towards what the core wants of it.
    fn settle_pod(&mut self, uid: &str) {
        let Some(pod) = self.pods.get(uid) else { return };
        let object = &pod.object;
        let is_ours = object.paused_by() == Some(&self.options.name);
        let wants_squeeze = pod.state != PodState::Running;
        if object.has_ended() || (!wants_squeeze && !is_ours) {
            self.unsettled.remove(uid);
            return;
        }
        if !pod.retry.may_request(self.now) {
            return;
        }
        let (cpu, was) = (object.cpu_requests(), object.cpu_was().filter(|_| is_ours));
        let resource_version = object.metadata.resource_version.clone();
        let annotate = |paused_by: Option<String>, cpu_was: Option<String>| Operation::AnnotatePod {
            annotations: BTreeMap::from([
                (annotation::PAUSED_BY.to_owned(), paused_by),
                (annotation::CPU_WAS.to_owned(), cpu_was),
            ]),
            resource_version: resource_version.clone(),
        };
        let resize = |cpu: Map| Operation::ResizePod { cpu, resource_version: resource_version.clone() };
        let is_zero = object.cpu() == 0;
        let operation = match (wants_squeeze, is_zero) {
            // What the pod had must be known before it is taken away.
            (true, false) if was.as_ref() != Some(&cpu) => {
                annotate(Some(self.options.name.clone()), serde_json::to_string(&cpu).ok())
            }
            (true, false) => resize(cpu.into_keys().map(|name| (name, "0".to_owned())).collect()),
            (true, true) => return,
            (false, true) => match was {
                Some(was) => resize(was),
                None => return self.unknown_cpu(uid),
            },
            (false, false) => annotate(None, None),
        };
        let (namespace, name) = (object.metadata.namespace.clone(), object.metadata.name.clone());
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.retry.in_flight = true;
        }
        self.request(&namespace, &name, operation, Subject::Pod(uid.to_owned()));
    }

    /// A squeezed pod whose annotation was damaged: only a user knows what it had.
    fn unknown_cpu(&mut self, uid: &str) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        pod.retry.not_before = self.now + REJECTED_DELAY;
        let Metadata { namespace, name, .. } = &pod.object.metadata;
        self.warnings.push(format!(
            "cannot give pod {namespace}/{name} its CPU back: its annotation {} is not valid; resize it with `kubectl patch --subresource resize`",
            annotation::CPU_WAS
        ));
    }

    pub(super) fn pod_answered(&mut self, uid: &str, answer: Answer) {
        let now = self.now;
        let Some(pod) = self.pods.get_mut(uid) else { return };
        pod.retry.in_flight = false;
        match answer {
            Answer::Pod(object) => self.apply_pod(*object),
            Answer::Failed(Failure::Rejected(error)) => {
                let is_pausing = matches!(pod.state, PodState::Pausing { .. });
                pod.retry.not_before = now + REJECTED_DELAY;
                let Metadata { namespace, name, .. } = &pod.object.metadata;
                self.warnings.push(format!("the API server rejects a change of pod {namespace}/{name}: {error}"));
                if is_pausing {
                    self.give_up_pause(uid, Some(error));
                }
            }
            Answer::Failed(Failure::Unavailable { retry_after, .. }) => {
                pod.retry.not_before = now + retry_after.unwrap_or(RETRY_DELAY);
            }
            Answer::Failed(Failure::Conflict) => pod.retry.not_before = now + RETRY_DELAY.scaled(0.2),
            Answer::Failed(Failure::NotFound) | Answer::Job(_) | Answer::Done => {}
        }
    }

    /// Records an Event about a pod.
    fn tell_pod(&mut self, uid: &str, reason: &'static str, message: String) {
        let Some(pod) = self.pods.get(uid).filter(|_| !self.records_only()) else { return };
        let Metadata { namespace, name, .. } = pod.object.metadata.clone();
        let operation = Operation::RecordEvent { kind: ObjectKind::Pod, uid: uid.to_owned(), reason, message };
        self.request(&namespace, &name, operation, Subject::Event);
    }
}
