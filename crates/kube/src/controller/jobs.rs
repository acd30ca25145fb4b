//! Jobs of the core: a Job of the API, or a group of pods, is an open job, whose tasks become known as its pods are created.

use super::{Controller, JobEntry, Mode, Retry, changes, is_older};
use crate::objects::{Job, Pod, label};
use crate::request::{Answer, Change, Failure};
use giveway_core::{Event, JobId, JobSpec, Kind, Outcome, Priority, Span, WHOLE_PPM};
use std::collections::BTreeSet;

/// Time in which the pods of a released Job are created.
const CREATION_GRACE: Span = Span::from_secs(10);
/// Time before a request that was not answered is repeated.
pub(super) const RETRY_DELAY: Span = Span::from_secs(1);

/// What a pod belongs to, by its own fields: the uid of a Job, or the name of a group.
fn owner_key(pod: &Pod) -> Option<String> {
    let group = || {
        let group = pod.metadata.labels.get(label::GROUP)?;
        Some(format!("group {}/{group}", pod.metadata.namespace))
    };
    pod.job_uid().map(str::to_owned).or_else(group)
}

impl JobEntry {
    /// True if it was submitted suspended and waits to be released.
    pub(super) fn is_held(&self) -> bool {
        let in_queue = |job: &Job| {
            let labels = &job.metadata.labels;
            job.spec.suspend && labels.contains_key(label::QUEUE) && !labels.contains_key(label::KUEUE)
        };
        self.object.as_ref().is_some_and(in_queue) && !self.deleted
    }
}

impl Controller {
    pub(super) fn job_changed(&mut self, change: Change<Job>) {
        self.listed[1] |= matches!(change, Change::Listed(_));
        let known =
            self.jobs.iter().filter(|(_, job)| job.object.is_some() && !job.deleted).map(|(uid, _)| uid.clone());
        let (objects, deleted) = changes(change, known, |job| job.metadata.uid.clone());
        for object in objects {
            self.apply_job(object);
        }
        for uid in deleted {
            self.job_entry(&uid).deleted = true;
        }
    }

    fn apply_job(&mut self, object: Job) {
        let entry = self.job_entry(&object.metadata.uid);
        let known = entry.object.as_ref().map(|known| known.metadata.resource_version.as_str());
        if known.is_none_or(|known| !is_older(&object.metadata.resource_version, known)) {
            entry.object = Some(object);
        }
    }

    fn job_entry(&mut self, key: &str) -> &mut JobEntry {
        self.changed_jobs.insert(key.to_owned());
        self.jobs.entry(key.to_owned()).or_insert_with(|| JobEntry {
            object: None,
            deleted: false,
            id: None,
            pods: BTreeSet::new(),
            retry: Retry::default(),
            released_at: None,
            told: None,
        })
    }

    /// Notes that a pod exists, or no longer does.
    pub(super) fn index_pod(&mut self, uid: &str, pod: &Pod, exists: bool) {
        if let Some(key) = owner_key(pod) {
            let pods = &mut self.job_entry(&key).pods;
            if exists {
                pods.insert(uid.to_owned())
            } else {
                pods.remove(uid)
            };
        }
        if pod.is_bound() {
            let pods = &mut self.node_entry(&pod.spec.node_name).pods;
            if exists {
                pods.insert(uid.to_owned())
            } else {
                pods.remove(uid)
            };
        }
    }

    /// The open job of the core that a pod belongs to.
    pub(super) fn job_of(&self, pod: &Pod) -> Option<JobId> {
        self.jobs.get(&owner_key(pod)?)?.id
    }

    fn is_managed(&self, labels: &crate::objects::Map) -> bool {
        match self.options.mode {
            Mode::Schedule => labels.contains_key(label::QUEUE),
            Mode::RecordOnly => true,
            Mode::Restore => false,
        }
    }

    pub(super) fn open_changed_jobs(&mut self) {
        for key in self.changed_jobs.clone() {
            let Some(job) = self.jobs.get(&key).filter(|job| job.id.is_none() && !job.deleted) else { continue };
            let live = job
                .pods
                .iter()
                .filter_map(|uid| self.pods.get(uid))
                .find(|pod| !pod.deleted && !pod.object.has_ended());
            let metadata = match (&job.object, live) {
                (Some(object), _) if !object.is_complete() && !object.has_failed() => &object.metadata,
                (None, Some(pod)) if key.starts_with("group ") => &pod.object.metadata,
                _ => continue,
            };
            if !self.is_managed(&metadata.labels) {
                continue;
            }
            let name = match &job.object {
                Some(object) => format!("{}/{}", metadata.namespace, object.metadata.name),
                None => key["group ".len()..].to_owned(),
            };
            let id = JobId(self.next_job);
            let spec = JobSpec {
                id,
                name,
                external_id: Some(key.clone()),
                user: metadata.namespace.clone(),
                pool: metadata.labels.get(label::QUEUE).unwrap_or(&metadata.namespace).clone(),
                priority: Priority::Normal,
                splits: [].into(),
                reduces: 0,
                slowstart_ppm: 0,
                hint: None,
                estimate_bias_ppm: WHOLE_PPM,
            };
            self.next_job += 1;
            self.job_ids.insert(id, key.clone());
            if let Some(job) = self.jobs.get_mut(&key) {
                job.id = Some(id);
                self.changed_pods.extend(job.pods.iter().cloned());
            }
            self.submit(Event::JobOpened(Box::new(spec)));
        }
    }

    /// Slots that a job lacks: its pods that wait for CPU, and those that the Job controller is about to create.
    pub(super) fn requested_slots(&self, key: &str) -> u32 {
        let Some(job) = self.jobs.get(key) else { return 0 };
        let pods = || {
            job.pods.iter().filter_map(|uid| self.pods.get(uid)).filter(|pod| !pod.deleted && !pod.object.has_ended())
        };
        let waiting = pods().filter(|pod| pod.object.waits_for_cpu()).count() as u32;
        let released = job.released_at.is_some_and(|at| self.now < at + CREATION_GRACE);
        match &job.object {
            Some(object) if job.is_held() || released => waiting + object.width().saturating_sub(pods().count() as u32),
            _ => waiting,
        }
    }

    /// Reports the slots that a job lacks, or its end.
    pub(super) fn synchronize_job(&mut self, key: &str) {
        let Some(job) = self.jobs.get(key) else { return };
        let Some(id) = job.id else {
            if job.pods.is_empty() && (job.deleted || job.object.is_none()) {
                self.jobs.remove(key);
            }
            return;
        };
        let is_group_over =
            || job.pods.iter().filter_map(|uid| self.pods.get(uid)).all(|pod| pod.deleted || pod.object.has_ended());
        let outcome = match &job.object {
            Some(object) if object.is_complete() => Some(Outcome::Succeeded),
            Some(object) if object.has_failed() => Some(Outcome::Failed),
            _ if job.deleted => Some(Outcome::Killed),
            None if is_group_over() => Some(Outcome::Succeeded),
            _ => None,
        };
        match outcome {
            Some(outcome) => self.end_job(key, id, outcome),
            None => self.update_requested(id, self.requested_slots(key)),
        }
    }

    fn end_job(&mut self, key: &str, id: JobId, outcome: Outcome) {
        let Some(job) = self.jobs.get_mut(key) else { return };
        job.id = None;
        // Once its pods are gone too, nothing is left of it.
        self.changed_jobs.insert(key.to_owned());
        self.job_ids.remove(&id);
        for uid in job.pods.clone() {
            self.end_attempt(&uid);
        }
        self.submit(Event::JobEnded { job: id, outcome });
    }

    /// Submits the slots that a job lacks, if the core has another number.
    pub(super) fn update_requested(&mut self, job: JobId, reduces: u32) {
        let pending = self.core.job_status(job).map(|status| status.tasks[Kind::Reduce].pending);
        if pending.is_some_and(|pending| pending != reduces) {
            self.submit(Event::SlotsRequested { job, maps: 0, reduces });
        }
    }

    pub(super) fn job_answered(&mut self, uid: &str, answer: Answer) {
        let now = self.now;
        let Some(job) = self.jobs.get_mut(uid) else { return };
        job.retry.in_flight = false;
        match answer {
            Answer::Job(object) => {
                job.released_at = Some(now);
                self.apply_job(*object);
            }
            Answer::Failed(Failure::Rejected(error)) => {
                job.retry.not_before = now + RETRY_DELAY.scaled(30.0);
                self.warnings.push(format!("cannot release a Job: {error}; retrying in 30 s"));
            }
            Answer::Failed(Failure::Unavailable { retry_after, .. }) => {
                job.retry.not_before = now + retry_after.unwrap_or(RETRY_DELAY);
            }
            _ => {}
        }
    }
}
