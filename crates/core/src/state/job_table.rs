//! All live jobs, by key and by id.

use super::job::Job;
use crate::event::JobSpec;
use crate::ids::JobId;
use crate::units::Time;
use rustc_hash::FxHashMap;
use slab::Slab;

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
    jobs: Slab<Job>,
    by_id: FxHashMap<JobId, JobKey>,
    submitted: u32,
}

impl JobTable {
    /// The key of a live job.
    pub fn find(&self, id: JobId) -> Option<JobKey> {
        self.by_id.get(&id).copied()
    }

    /// A live job.
    #[inline]
    pub fn get(&self, job: JobKey) -> &Job {
        self.jobs.get(job.index()).expect("the key of a live job")
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, job: JobKey) -> &mut Job {
        self.jobs.get_mut(job.index()).expect("the key of a live job")
    }

    /// All live jobs in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (JobKey, &Job)> + Clone {
        self.jobs.iter().map(|(key, job)| (JobKey(key as u32), job))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (JobKey, &mut Job)> {
        self.jobs.iter_mut().map(|(key, job)| (JobKey(key as u32), job))
    }

    /// The keys of all live jobs.
    pub fn keys(&self) -> Vec<JobKey> {
        self.iter().map(|(key, _)| key).collect()
    }

    /// Number of live jobs.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// True if no job is live.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    pub(super) fn insert(&mut self, spec: &JobSpec, user: u32, open: bool, nodes: usize, now: Time) -> JobKey {
        self.submitted += 1;
        let job = Job::new(spec, user, self.submitted, open, nodes, now);
        let key = JobKey(self.jobs.insert(job) as u32);
        self.by_id.insert(spec.id, key);
        key
    }

    pub(super) fn remove(&mut self, job: JobKey) {
        let removed = self.jobs.remove(job.index());
        self.by_id.remove(&removed.id);
    }
}
