//! How many pods a node has room for: those that hold CPU there, and those of the size that waits first which still fit.

use super::{Controller, NodeEntry, PodEntry};
use crate::objects::Pod;
use giveway_core::{Event, JobId, PerKind};
use std::collections::BTreeMap;

/// What a pod requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    milli_cpu: u64,
    memory: u64,
}

impl Size {
    /// Counts while no pod has waited yet.
    const CORE: Size = Size { milli_cpu: 1_000, memory: 0 };

    fn of(pod: &Pod) -> Size {
        Size { milli_cpu: pod.cpu().max(pod.cpu_before_squeeze()), memory: pod.memory() }
    }

    /// How many pods of this size fit into another.
    fn fitting(self, free: Size) -> u64 {
        let by_memory = free.memory.checked_div(self.memory).unwrap_or(u64::MAX);
        free.milli_cpu.checked_div(self.milli_cpu).map_or(0, |by_cpu| by_cpu.min(by_memory))
    }
}

/// The pod that waits first.
#[derive(Debug)]
pub(super) struct NextPod {
    size: Size,
    /// Place of its job in the ranking, after all jobs if no pod waits.
    place: usize,
    /// Places of the jobs that lack slots.
    places: BTreeMap<JobId, usize>,
}

impl Default for NextPod {
    fn default() -> NextPod {
        NextPod { size: Size::CORE, place: usize::MAX, places: BTreeMap::new() }
    }
}

/// True for a pod that was squeezed, and whose CPU the kubelet has freed.
fn is_freed(pod: &Pod) -> bool {
    pod.cpu() == 0 && pod.cpu_before_squeeze() > 0 && pod.is_cpu_freed()
}

/// What a squeezed pod needs: its memory it has.
fn to_resume(pod: &Pod) -> Size {
    Size { memory: 0, ..Size::of(pod) }
}

impl Controller {
    /// True if pods wait, so that another one may soon be the first.
    pub(super) fn has_waiting_pods(&self) -> bool {
        self.next_pod.place != usize::MAX
    }

    /// Looks up the pod that waits first. The last size stays while none waits. If it has changed, all nodes are counted anew.
    pub(super) fn look_up_next_pod(&mut self) {
        let ranking = self.core.rank_jobs();
        let first = ranking.iter().zip(0..).find_map(|(job, place)| Some((self.waiting_size(*job)?, place)));
        let (size, place) = first.unwrap_or((self.next_pod.size, usize::MAX));
        self.set_next_pod(size, place);
        self.next_pod.places = ranking.into_iter().zip(0..).collect();
    }

    /// Counts in the smallest pods of jobs that have just begun to wait and are not ranked yet: they may fit where the others do not, and then nothing has to be
    /// squeezed for them. Returns whether they may, so that the first one has to be looked up once they are ranked.
    pub(super) fn expect_smaller_pods(&mut self) -> bool {
        let new = self.changed_jobs.iter().filter_map(|key| self.jobs.get(key)?.id);
        let new = new.filter(|job| !self.next_pod.places.contains_key(job));
        let Some(size) = new.filter_map(|job| self.waiting_size(job)).min_by_key(|size| size.milli_cpu) else {
            return false;
        };
        let is_smaller = size.milli_cpu < self.next_pod.size.milli_cpu || !self.has_waiting_pods();
        if is_smaller {
            self.set_next_pod(size, 0);
        }
        is_smaller
    }

    fn set_next_pod(&mut self, size: Size, place: usize) {
        if (size, place) != (self.next_pod.size, self.next_pod.place) {
            self.changed_nodes.extend(self.nodes.keys().cloned());
        }
        (self.next_pod.size, self.next_pod.place) = (size, place);
    }

    /// The size of the pods of a job that wait for CPU, or would if the Job was released.
    fn waiting_size(&self, job: JobId) -> Option<Size> {
        let entry = self.jobs.get(self.job_ids.get(&job)?)?;
        let mut pods = entry.pods.iter().filter_map(|uid| self.pods.get(uid));
        let waiting = pods.find(|pod| !pod.deleted && pod.object.waits_for_cpu()).map(|pod| Size::of(&pod.object));
        let held = || entry.object.as_ref().filter(|_| entry.is_held()).map(|job| Size::of(&job.pod_template()));
        waiting.or_else(held).filter(|size| size.milli_cpu > 0)
    }

    /// Tells the core how many slots a node has.
    pub(super) fn update_slots(&mut self, name: &str) {
        let Some(id) = self.nodes.get(name).filter(|node| node.is_up).and_then(|node| node.id) else { return };
        let slots = self.slots_of(name);
        if self.core.node_up(id).is_some_and(|known| known.reduce_slots != slots) {
            self.submit(Event::NodeSlotsSet { node: id, slots: PerKind::new(0, slots) });
        }
    }

    pub(super) fn slots_of(&self, name: &str) -> u16 {
        let Some(node) = self.nodes.get(name) else { return 0 };
        let (mut size, mut place) = (self.next_pod.size, self.next_pod.place);
        let mut holding = 0;
        for PodEntry { object: pod, .. } in self.pods_on(node) {
            let Some(job) = self.job_of(pod) else { continue };
            if !is_freed(pod) {
                holding += 1;
                continue;
            }
            // If it ranks first, what is free is for its resumption.
            let of_squeezed = self.next_pod.places.get(&job).copied().unwrap_or(usize::MAX);
            if of_squeezed < place || place == usize::MAX {
                (size, place) = (to_resume(pod), of_squeezed);
            }
        }
        u16::try_from(size.fitting(self.free_on(node)).saturating_add(holding)).unwrap_or(u16::MAX)
    }

    /// True if one of the squeezed pods of a node would get its CPU back now.
    pub(super) fn fits_squeezed(&self, name: &str) -> bool {
        let Some(node) = self.nodes.get(name) else { return false };
        let free = self.free_on(node);
        let mut squeezed = self.pods_on(node).map(|pod| &pod.object).filter(|pod| is_freed(pod));
        squeezed.any(|pod| to_resume(pod).fitting(free) > 0)
    }

    /// What the pods on a node leave.
    fn free_on(&self, node: &NodeEntry) -> Size {
        let free = Size { milli_cpu: node.object.allocatable_cpu(), memory: node.object.allocatable_memory() };
        self.pods_on(node).map(|pod| &pod.object).fold(free, |free, pod| Size {
            milli_cpu: free.milli_cpu.saturating_sub(if is_freed(pod) { 0 } else { Size::of(pod).milli_cpu }),
            memory: free.memory.saturating_sub(pod.memory()),
        })
    }

    /// The pods that occupy a node.
    pub(super) fn pods_on<'a>(&'a self, node: &'a NodeEntry) -> impl Iterator<Item = &'a PodEntry> {
        let pods = node.pods.iter().filter_map(|uid| self.pods.get(uid));
        pods.filter(|pod| !pod.deleted && !pod.object.has_ended())
    }
}
