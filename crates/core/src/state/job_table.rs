//! All live jobs, by key and by id.

use super::job::Job;
use super::restore::{Inconsistent, ensure};
use crate::event::JobSpec;
use crate::ids::JobId;
use crate::snapshot::JobKeys;
use crate::units::Time;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// The position of a live job in the [`JobTable`]. Reused after the job is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
#[derive(Debug, Default)]
pub struct JobTable {
    jobs: Vec<Option<Job>>,
    by_id: FxHashMap<JobId, JobKey>,
    keys: JobKeys,
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

    /// Number of live jobs.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// True if no job is live.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(super) fn insert(&mut self, spec: &JobSpec, user: u32, open: bool, nodes: usize, now: Time) -> JobKey {
        self.keys.submitted += 1;
        let job = Job::new(spec, user, self.keys.submitted, open, nodes, now);
        let key = JobKey(self.keys.free.pop().unwrap_or(self.jobs.len() as u32));
        self.put(key, job);
        key
    }

    fn put(&mut self, key: JobKey, job: Job) {
        self.by_id.insert(job.id, key);
        if self.jobs.len() <= key.index() {
            self.jobs.resize_with(key.index() + 1, || None);
        }
        self.jobs[key.index()] = Some(job);
    }

    /// Which keys are free, and how many jobs there were.
    pub(super) fn keys_snapshot(&self) -> JobKeys {
        self.keys.clone()
    }

    /// Makes room for this many jobs under the keys that are not free. [`JobTable::restore`] adds them.
    pub(super) fn restore_keys(&mut self, keys: &JobKeys, live: usize) -> Result<(), Inconsistent> {
        let end = live + keys.free.len();
        let free: BTreeSet<u32> = keys.free.iter().copied().collect();
        ensure(free.len() == keys.free.len() && free.iter().all(|&key| (key as usize) < end))?;
        self.jobs.resize_with(end, || None);
        self.keys = keys.clone();
        Ok(())
    }

    /// Adds a job under the key that it had.
    pub(super) fn restore(&mut self, key: u32, job: Job) -> Result<JobKey, Inconsistent> {
        ensure(matches!(self.jobs.get(key as usize), Some(None)) && job.sequence() <= self.keys.submitted)?;
        self.put(JobKey(key), job);
        Ok(JobKey(key))
    }

    /// Checks that the keys without a job are those that are free.
    pub(super) fn check_keys(&self) -> Result<(), Inconsistent> {
        ensure(self.keys.free.iter().all(|&key| self.jobs[key as usize].is_none()))
    }

    pub(super) fn remove(&mut self, job: JobKey) {
        let removed = self.jobs[job.index()].take().expect("the key of a live job");
        self.by_id.remove(&removed.id);
        self.keys.free.push(job.0);
    }
}
