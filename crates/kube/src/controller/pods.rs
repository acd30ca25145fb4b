//! Pods as attempts of the core.

use super::{Controller, PodEntry, PodState, Retry, changes, is_older};
use crate::objects::Pod;
use crate::request::Change;
use giveway_core::{Event, Kind};

impl Controller {
    pub(super) fn pod_changed(&mut self, change: Change<Pod>) {
        self.listed[2] |= matches!(change, Change::Listed(_));
        let (objects, deleted) = changes(change, self.pods.keys().cloned(), |pod| pod.metadata.uid.clone());
        for object in objects {
            self.apply_pod(object);
        }
        for uid in deleted {
            let Some(pod) = self.pods.get_mut(&uid) else { continue };
            pod.deleted = true;
            let object = pod.object.clone();
            self.index_pod(&uid, &object, false);
            self.changed_pods.insert(uid);
        }
    }

    /// Replaces what is known of a pod, unless that is newer.
    pub(super) fn apply_pod(&mut self, object: Pod) {
        let uid = object.metadata.uid.clone();
        if let Some(pod) = self.pods.get_mut(&uid) {
            if is_older(&object.metadata.resource_version, &pod.object.metadata.resource_version) {
                return;
            }
            pod.object = object.clone();
        } else {
            let (attempt, state, retry) = (None, PodState::default(), Retry::default());
            self.pods.insert(uid.clone(), PodEntry { object: object.clone(), deleted: false, attempt, state, retry });
        }
        if object.paused_by() == Some(&self.options.name) {
            self.unsettled.insert(uid.clone());
        }
        self.index_pod(&uid, &object, true);
        self.changed_pods.insert(uid);
    }

    /// Reports what happened to changed pods: ends first, because they free slots; squeezed pods before others, because the others may run in their place.
    pub(super) fn synchronize_pods(&mut self) {
        let changed = std::mem::take(&mut self.changed_pods);
        for uid in &changed {
            if self.pods.get(uid).is_some_and(|pod| pod.deleted || pod.object.has_ended()) {
                self.end_attempt(uid);
            }
        }
        let (squeezed, others): (Vec<&String>, Vec<&String>) = changed.iter().partition(|uid| self.is_squeezed(uid));
        for uid in squeezed.into_iter().chain(others) {
            self.synchronize_pod(uid);
        }
        for uid in &changed {
            if self.pods.get(uid).is_some_and(|pod| pod.deleted) {
                self.pods.remove(uid);
                self.unsettled.remove(uid);
            }
        }
    }

    fn synchronize_pod(&mut self, uid: &str) {
        let Some(pod) = self.pods.get(uid).filter(|pod| !pod.deleted && !pod.object.has_ended()) else { return };
        if pod.attempt.is_some() {
            self.check_squeeze(uid);
            return;
        }
        let node = self.nodes.get(&pod.object.spec.node_name).filter(|node| node.is_up).and_then(|node| node.id);
        let (Some(node), Some(job)) = (node, self.job_of(&pod.object)) else { return };
        let is_protected = self.records_only() || pod.object.squeeze_refusal().is_some();
        // The core binds a granted slot to a requested one.
        let requested = self.job_ids.get(&job).map_or(0, |key| self.requested_slots(key));
        self.update_requested(job, requested + 1);
        let Some(attempt) = self.submit(Event::SlotGranted { job, kind: Kind::Reduce, node }) else { return };
        self.attempts.insert(attempt, uid.to_owned());
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.attempt = Some(attempt);
        }
        if self.is_squeezed(uid) {
            // By a former controller: the core takes it over as a paused attempt.
            self.submit(Event::YieldRequested { attempt });
            self.check_squeeze(uid);
        } else if is_protected {
            self.submit(Event::AttemptProtected { attempt });
        }
    }

    /// Reports the end of a pod's attempt, if the core knows one.
    pub(super) fn end_attempt(&mut self, uid: &str) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        pod.state = PodState::Running;
        let succeeded = pod.object.has_succeeded();
        let Some(attempt) = pod.attempt.take() else { return };
        self.attempts.remove(&attempt);
        // Not `AttemptFailed`: the Job controller decides whether a failed pod fails its Job.
        self.submit(match succeeded {
            true => Event::AttemptFinished { attempt, output_bytes: 0 },
            false => Event::AttemptKilled { attempt },
        });
    }
}
