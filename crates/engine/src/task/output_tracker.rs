//! Where the outputs of a job's finished maps are: one tracker per job on a worker, updated on messages of the coordinator and read by the job's
//! reduces.
//!
//! The tracker is a list that is almost always appended to, so a reduce reads only what was added since its last read. A removal (lost node,
//! corrupt output) starts a new generation of the list, which readers read from the beginning.

use super::control::{Control, Notifier};
use giveway_core::NodeId;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Where the output of a finished map is, and which input it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MapOutputLocation {
    /// Index of the map task.
    pub map: u32,
    /// Number of the attempt that wrote the output.
    pub number: u16,
    /// Node that stores the output.
    pub node: NodeId,
    /// Index of the split.
    pub split: u32,
    /// Offset of the input range in the split, in bytes.
    pub start_bytes: u64,
    /// Length of the input range, in bytes.
    pub bytes: u64,
}

/// The outputs of a job's finished maps.
#[derive(Debug, Default)]
pub struct MapOutputTracker {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    outputs: Vec<MapOutputLocation>,
    /// Incremented by every removal.
    generation: u64,
    subscribers: Vec<Weak<Notifier>>,
}

/// Up to where a reader has read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadCursor {
    generation: u64,
    next: usize,
}

/// Result of a read.
#[derive(Debug)]
pub(crate) struct OutputUpdate {
    /// True if `outputs` is the complete list and replaces everything read before; false if it holds additions only.
    pub(crate) is_full: bool,
    pub(crate) outputs: Vec<MapOutputLocation>,
}

impl MapOutputTracker {
    /// A tracker without outputs.
    pub fn new() -> MapOutputTracker {
        MapOutputTracker::default()
    }

    /// Adds an output. Readers tolerate duplicates.
    pub fn add(&self, output: MapOutputLocation) {
        self.add_all(&[output]);
    }

    /// Adds several outputs with one notification.
    pub fn add_all(&self, outputs: &[MapOutputLocation]) {
        self.update(|table| {
            table.outputs.extend_from_slice(outputs);
            false
        });
    }

    /// Replaces the whole list, or adds to it.
    pub(crate) fn receive(&self, replace: bool, outputs: Vec<MapOutputLocation>) {
        if replace { self.replace_all(outputs) } else { self.add_all(&outputs) }
    }

    /// Removes all outputs of a lost node.
    pub fn remove_node(&self, node: NodeId) {
        self.retain(|output| output.node != node);
    }

    /// Removes the output of one map attempt.
    pub fn remove(&self, map: u32, number: u16) {
        self.retain(|output| (output.map, output.number) != (map, number));
    }

    /// Replaces the whole list.
    pub fn replace_all(&self, outputs: Vec<MapOutputLocation>) {
        self.update(|table| {
            table.outputs = outputs;
            true
        });
    }

    /// Number of outputs.
    pub fn len(&self) -> usize {
        self.table().outputs.len()
    }

    /// True if there are no outputs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Notifies this task of every later change, until its control is dropped.
    pub(crate) fn subscribe(&self, control: &Control) {
        self.table().subscribers.push(Arc::downgrade(control.notifier()));
    }

    /// Returns what was added since the cursor, or the complete list if something was removed since, and advances the cursor.
    pub(crate) fn read(&self, cursor: &mut ReadCursor) -> OutputUpdate {
        let table = self.table();
        let is_full = cursor.generation != table.generation;
        let from = if is_full { 0 } else { cursor.next };
        *cursor = ReadCursor { generation: table.generation, next: table.outputs.len() };
        OutputUpdate { is_full, outputs: table.outputs[from..].to_vec() }
    }

    fn retain(&self, keep: impl Fn(&MapOutputLocation) -> bool) {
        self.update(|table| {
            let before = table.outputs.len();
            table.outputs.retain(keep);
            table.outputs.len() < before
        });
    }

    /// Changes the table and notifies subscribers. `change` returns true if it removed something.
    fn update(&self, change: impl FnOnce(&mut Table) -> bool) {
        let mut table = self.table();
        if change(&mut table) {
            table.generation += 1;
        }
        table.subscribers.retain(|notifier| notifier.upgrade().inspect(|notifier| notifier.notify()).is_some());
    }

    /// No application code runs under the lock and every change leaves the table consistent, so poisoning is ignored.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(map: u32, node: u32) -> MapOutputLocation {
        MapOutputLocation { map, number: 0, node: NodeId(node), split: map, start_bytes: 0, bytes: 10 }
    }

    #[test]
    fn readers_get_additions_and_the_full_list_after_a_removal() {
        let outputs = MapOutputTracker::new();
        let mut cursor = ReadCursor::default();
        outputs.add(output(0, 0));
        outputs.add(output(1, 1));
        let update = outputs.read(&mut cursor);
        assert_eq!((update.is_full, update.outputs), (false, vec![output(0, 0), output(1, 1)]));
        outputs.add(output(2, 1));
        assert_eq!(outputs.read(&mut cursor).outputs, [output(2, 1)]);
        assert!(outputs.read(&mut cursor).outputs.is_empty());
        outputs.remove_node(NodeId(1));
        let update = outputs.read(&mut cursor);
        assert_eq!((update.is_full, update.outputs), (true, vec![output(0, 0)]));
        outputs.remove(7, 0);
        assert!(!outputs.read(&mut cursor).is_full, "nothing was removed");
        outputs.remove(0, 0);
        assert!(outputs.read(&mut cursor).is_full);
        outputs.replace_all(vec![output(5, 2)]);
        assert_eq!(outputs.read(&mut cursor).outputs, [output(5, 2)]);
        assert_eq!(outputs.len(), 1);
    }

    #[test]
    fn changes_notify_subscribers() {
        let outputs = MapOutputTracker::new();
        let control = Control::new();
        outputs.subscribe(&control);
        let began = std::time::Instant::now();
        outputs.add(output(0, 0));
        control.wait_for_notification(std::time::Duration::from_secs(60));
        assert!(began.elapsed().as_secs() < 30);
        drop(control);
        outputs.add(output(1, 0));
        assert!(outputs.table().subscribers.is_empty());
    }
}
