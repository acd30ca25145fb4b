//! All live jobs, by key and by id.

use super::job::Job;
use crate::event::JobSpec;
use crate::ids::{JobId, Kind, PerKind};
use crate::units::Time;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// The position of a live job in the [`JobTable`]. Reused after the job is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobKey(u32);

impl JobKey {
    /// The key as an array index. Keys of live jobs are small: freed ones are used first.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The key as a number, for a [`BitSet`](super::bit_set::BitSet) of jobs.
    #[inline]
    pub fn number(self) -> u32 {
        self.0
    }

    /// The key of this number.
    #[inline]
    pub(crate) fn from_number(number: u32) -> JobKey {
        JobKey(number)
    }
}

/// All live jobs. A job is live from its submission until its last attempt has left its slot.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct JobTable {
    pub(super) jobs: Vec<Option<Job>>,
    #[serde(skip)]
    pub(super) by_id: FxHashMap<JobId, JobKey>,
    /// Number of jobs that were submitted.
    pub(super) submitted: u32,
    /// The keys of ended jobs; the last one is used first.
    pub(super) free: Vec<u32>,
    /// Of the running tasks of all jobs, those requested to stop.
    #[serde(skip)]
    pub(super) stopping: PerKind<u32>,
}

impl JobTable {
    /// The key of a live job.
    pub fn find(&self, id: JobId) -> Option<JobKey> {
        self.by_id.get(&id).copied()
    }

    /// A live job.
    #[inline]
    pub fn get(&self, job: JobKey) -> &Job {
        self.jobs[job.index()].as_ref().expect("the key of a live job")
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, job: JobKey) -> &mut Job {
        self.jobs[job.index()].as_mut().expect("the key of a live job")
    }

    /// Changes tasks of a job, which may begin or end to be those requested to stop.
    pub(super) fn change_tasks<T>(&mut self, job: JobKey, kind: Kind, change: impl FnOnce(&mut Job) -> T) -> T {
        let job = self.jobs[job.index()].as_mut().expect("the key of a live job");
        let before = job.counts[kind].stopping;
        let result = change(job);
        self.stopping[kind] = self.stopping[kind] + job.counts[kind].stopping - before;
        result
    }

    /// Of the running tasks of a kind of all jobs, those requested to stop.
    pub fn stopping(&self, kind: Kind) -> u32 {
        self.stopping[kind]
    }

    /// All live jobs in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (JobKey, &Job)> + Clone {
        (0..).map(JobKey).zip(&self.jobs).filter_map(|(key, job)| Some((key, job.as_ref()?)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (JobKey, &mut Job)> {
        (0..).map(JobKey).zip(&mut self.jobs).filter_map(|(key, job)| Some((key, job.as_mut()?)))
    }

    /// The keys of all live jobs.
    pub fn keys(&self) -> Vec<JobKey> {
        self.iter().map(|(key, _)| key).collect()
    }

    /// The keys of all live jobs in the order of their submission.
    pub fn by_submission(&self) -> Vec<JobKey> {
        let mut keys = self.keys();
        keys.sort_by_key(|&key| self.get(key).sequence());
        keys
    }

    /// True if this is the key of a live job.
    pub(crate) fn is_live(&self, key: JobKey) -> bool {
        self.jobs.get(key.index()).is_some_and(Option::is_some)
    }

    /// Number of live jobs.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// True if no job is live.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(super) fn insert(&mut self, spec: &JobSpec, user: u32, open: bool, nodes: usize, now: Time) -> JobKey {
        self.submitted += 1;
        let job = Job::new(spec, user, self.submitted, open, nodes, now);
        let key = JobKey(self.free.pop().unwrap_or(self.jobs.len() as u32));
        self.put(key, job);
        key
    }

    pub(super) fn put(&mut self, key: JobKey, job: Job) {
        self.by_id.insert(job.id, key);
        Kind::BOTH.into_iter().for_each(|kind| self.stopping[kind] += job.counts[kind].stopping);
        if self.jobs.len() <= key.index() {
            self.jobs.resize_with(key.index() + 1, || None);
        }
        self.jobs[key.index()] = Some(job);
    }

    /// The keys without the jobs.
    pub(super) fn without_jobs(&self) -> JobTable {
        let jobs = self.jobs.iter().map(|_| None).collect();
        JobTable { jobs, submitted: self.submitted, free: self.free.clone(), ..JobTable::default() }
    }

    pub(super) fn remove(&mut self, job: JobKey) {
        let removed = self.jobs[job.index()].take().expect("the key of a live job");
        self.by_id.remove(&removed.id);
        self.free.push(job.0);
    }
}
