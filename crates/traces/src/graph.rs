//! Jobs of several stages as maps and reduces.
//!
//! A job is a map/reduce job if its stages form at most two layers: the stages that wait for nothing are its maps, those that wait for them its
//! reduces. Any other graph is refused, or flattened if the duration model says so.

use crate::formats::Reading;
use crate::{Graphs, Oddity, TaskTime, Tasks};
use giveway_core::Span;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// One stage of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Stage {
    /// Number that other stages refer to.
    pub(crate) number: u64,
    /// Numbers of the stages that it waits for.
    pub(crate) parents: Vec<u64>,
    pub(crate) count: u64,
    /// Time of all its tasks together, in microseconds.
    pub(crate) time_us: u128,
    pub(crate) input_bytes: u64,
    pub(crate) output_bytes: u64,
}

/// Maps and reduces of a job of these stages; None if it is refused.
pub(crate) fn map_reduce(stages: &[Stage], reading: &mut Reading, job: &str) -> Option<(Tasks, Tasks)> {
    let Some(layers) = layers(stages, reading, job) else {
        reading.odd(Oddity::CyclicGraph, job);
        return None;
    };
    by_layer(stages, &layers, reading, job)
}

/// As [`map_reduce`], for stages whose layers are known; the first layer is 1.
pub(crate) fn by_layer(stages: &[Stage], layers: &[u32], reading: &mut Reading, job: &str) -> Option<(Tasks, Tasks)> {
    if layers.iter().any(|&layer| layer > 2) {
        match reading.model.graphs {
            Graphs::Refuse => {
                reading.odd(Oddity::DeepGraph, job);
                return None;
            }
            Graphs::Flatten => reading.odd(Oddity::FlattenedGraph, job),
        }
    }
    let of = |first: bool| {
        let stages = stages.iter().zip(layers).filter(|(_, layer)| (**layer == 1) == first).map(|(stage, _)| stage);
        tasks(stages)
    };
    Some((of(true), of(false)))
}

fn tasks<'a>(stages: impl Iterator<Item = &'a Stage>) -> Tasks {
    let mut sum = Stage::default();
    for stage in stages {
        sum.count = sum.count.saturating_add(stage.count);
        sum.time_us = sum.time_us.saturating_add(stage.time_us);
        sum.input_bytes = sum.input_bytes.saturating_add(stage.input_bytes);
        sum.output_bytes = sum.output_bytes.saturating_add(stage.output_bytes);
    }
    let mean_us = sum.time_us / u128::from(sum.count.max(1));
    Tasks {
        count: sum.count.min(u64::from(crate::job::MAX_TASKS)) as u32,
        input_bytes: sum.input_bytes,
        output_bytes: sum.output_bytes,
        time: TaskTime::Recorded(Span(u64::try_from(mean_us).unwrap_or(u64::MAX))),
    }
}

/// The layer of each stage by what it waits for, from 1; None if stages wait for each other. A parent that is not listed has finished.
fn layers(stages: &[Stage], reading: &mut Reading, job: &str) -> Option<Vec<u32>> {
    let index: BTreeMap<u64, usize> = stages.iter().enumerate().map(|(at, stage)| (stage.number, at)).collect();
    let mut children = vec![Vec::new(); stages.len()];
    let mut waits_for = vec![0u32; stages.len()];
    for (at, stage) in stages.iter().enumerate() {
        for parent in &stage.parents {
            match index.get(parent) {
                Some(&parent) => {
                    children[parent].push(at);
                    waits_for[at] += 1;
                }
                None => reading.odd(Oddity::MissingParent, job),
            }
        }
    }
    let mut layers = vec![1u32; stages.len()];
    let mut ready: Vec<usize> = (0..stages.len()).filter(|&at| waits_for[at] == 0).collect();
    let mut done = 0;
    while let Some(at) = ready.pop() {
        done += 1;
        for &child in &children[at] {
            layers[child] = layers[child].max(layers[at] + 1);
            waits_for[child] -= 1;
            if waits_for[child] == 0 {
                ready.push(child);
            }
        }
    }
    (done == stages.len()).then_some(layers)
}

/// The layer of each stage by its start and end, from 1: a stage waits for those that ended before it started.
pub(crate) fn layers_by_time(times: &[(i64, i64)]) -> Vec<u32> {
    let mut order: Vec<usize> = (0..times.len()).collect();
    order.sort_by_key(|&at| times[at]);
    let mut layers = vec![1; times.len()];
    let mut running = BinaryHeap::new();
    let mut deepest_ended = 0;
    for at in order {
        let (start, end) = times[at];
        while let Some(&Reverse((ended, layer))) = running.peek() {
            if ended > start {
                break;
            }
            deepest_ended = deepest_ended.max(layer);
            running.pop();
        }
        layers[at] = deepest_ended + 1;
        running.push(Reverse((end, layers[at])));
    }
    layers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(number: u64, parents: &[u64], count: u64) -> Stage {
        Stage { number, parents: parents.into(), count, time_us: u128::from(count) * 10, ..Stage::default() }
    }

    #[test]
    fn two_layers_are_maps_and_reduces() {
        let mut reading = Reading::default();
        let stages = [stage(3, &[1, 2], 4), stage(1, &[], 5), stage(2, &[], 6), stage(4, &[9], 1)];
        let (maps, reduces) = map_reduce(&stages, &mut reading, "j").unwrap();
        assert_eq!((maps.count, reduces.count, maps.time.span()), (12, 4, Span(10)));
        assert_eq!(reading.diagnostics.of(Oddity::MissingParent), 1);
    }

    #[test]
    fn other_graphs_are_refused_or_flattened() {
        let mut reading = Reading::default();
        let deep = [stage(1, &[], 1), stage(2, &[1], 2), stage(3, &[2], 4)];
        assert_eq!(map_reduce(&deep, &mut reading, "j"), None);
        reading.options.model.graphs = Graphs::Flatten;
        let (maps, reduces) = map_reduce(&deep, &mut reading, "j").unwrap();
        assert_eq!((maps.count, reduces.count), (1, 6));
        let cycle = [stage(1, &[2], 1), stage(2, &[1], 2), stage(3, &[3], 1)];
        assert_eq!(map_reduce(&cycle, &mut reading, "j"), None);
        for oddity in [Oddity::DeepGraph, Oddity::FlattenedGraph, Oddity::CyclicGraph] {
            assert_eq!(reading.diagnostics.of(oddity), 1, "{oddity:?}");
        }
    }

    #[test]
    fn layers_follow_from_times() {
        assert_eq!(layers_by_time(&[(10, 20), (0, 10), (0, 5), (20, 20), (7, 9)]), [3, 1, 1, 4, 2]);
        assert!(layers_by_time(&[]).is_empty());
    }
}
