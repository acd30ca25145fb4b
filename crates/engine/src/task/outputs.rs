//! Where the outputs of a job's finished maps are: a table for each job on a worker, written as the coordinator tells and watched by the
//! job's reduces.
//!
//! The table is a list that mostly grows at its end, so a reduce asks only for what is new since its last look; when something is taken away
//! (a node was lost, an output is damaged) the list is a new one and readers begin again at its front.

use super::control::{Bell, Control};
use giveway_core::NodeId;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Where the output of a finished map is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OutputAt {
    /// The map's index.
    pub map: u32,
    /// Which attempt made it.
    pub number: u16,
    /// The node that keeps it.
    pub node: NodeId,
    /// Which split it covers,
    pub split: u32,
    /// from which byte of the split,
    pub start_bytes: u64,
    /// and how many bytes.
    pub bytes: u64,
}

/// The outputs of a job's finished maps.
#[derive(Debug, Default)]
pub struct Outputs {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    list: Vec<OutputAt>,
    /// Which list this is; another one after each removal.
    edition: u64,
    watchers: Vec<Weak<Bell>>,
}

/// How far a reader has read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bookmark {
    edition: u64,
    at: usize,
}

/// What a reader finds.
#[derive(Debug)]
pub(super) struct Fresh {
    /// True if these are all outputs there are, and what was read before no longer counts.
    pub(super) afresh: bool,
    pub(super) outputs: Vec<OutputAt>,
}

impl Outputs {
    /// No outputs yet.
    pub fn new() -> Outputs {
        Outputs::default()
    }

    /// One more. Saying it twice is no harm.
    pub fn add(&self, output: OutputAt) {
        self.add_all(&[output]);
    }

    /// Several more, with one ring of the bell.
    pub fn add_all(&self, outputs: &[OutputAt]) {
        self.change(|table| {
            table.list.extend_from_slice(outputs);
            false
        });
    }

    /// A node is lost, and all that it kept.
    pub fn drop_node(&self, node: NodeId) {
        self.retain(|output| output.node != node);
    }

    /// One output is gone.
    pub fn drop_one(&self, map: u32, number: u16) {
        self.retain(|output| (output.map, output.number) != (map, number));
    }

    /// These are all there are.
    pub fn reset(&self, all: Vec<OutputAt>) {
        self.change(|table| {
            table.list = all;
            true
        });
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.table().list.len()
    }

    /// True if none is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// From now on, changes ring at this task's bell.
    pub(super) fn watch(&self, control: &Control) {
        self.table().watchers.push(Arc::downgrade(control.bell()));
    }

    /// What came since the bookmark, which moves on.
    pub(super) fn read_on(&self, bookmark: &mut Bookmark) -> Fresh {
        let table = self.table();
        let afresh = bookmark.edition != table.edition;
        let from = if afresh { 0 } else { bookmark.at };
        *bookmark = Bookmark { edition: table.edition, at: table.list.len() };
        Fresh { afresh, outputs: table.list[from..].to_vec() }
    }

    fn retain(&self, keep: impl Fn(&OutputAt) -> bool) {
        self.change(|table| {
            let before = table.list.len();
            table.list.retain(keep);
            table.list.len() < before
        });
    }

    /// Changes the table; `change` says whether it took something away.
    fn change(&self, change: impl FnOnce(&mut Table) -> bool) {
        let mut table = self.table();
        if change(&mut table) {
            table.edition += 1;
        }
        table.watchers.retain(|watcher| watcher.upgrade().inspect(|bell| bell.ring()).is_some());
    }

    /// No user code runs under the lock, and every change leaves the table in order.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(map: u32, node: u32) -> OutputAt {
        OutputAt { map, number: 0, node: NodeId(node), split: map, start_bytes: 0, bytes: 10 }
    }

    #[test]
    fn readers_see_what_is_new_and_begin_again_after_a_loss() {
        let outputs = Outputs::new();
        let mut bookmark = Bookmark::default();
        outputs.add(output(0, 0));
        outputs.add(output(1, 1));
        let fresh = outputs.read_on(&mut bookmark);
        assert_eq!((fresh.afresh, fresh.outputs), (false, vec![output(0, 0), output(1, 1)]));
        outputs.add(output(2, 1));
        assert_eq!(outputs.read_on(&mut bookmark).outputs, [output(2, 1)]);
        assert!(outputs.read_on(&mut bookmark).outputs.is_empty());
        outputs.drop_node(NodeId(1));
        let fresh = outputs.read_on(&mut bookmark);
        assert_eq!((fresh.afresh, fresh.outputs), (true, vec![output(0, 0)]));
        outputs.drop_one(7, 0);
        assert!(!outputs.read_on(&mut bookmark).afresh, "nothing was taken away");
        outputs.drop_one(0, 0);
        assert!(outputs.read_on(&mut bookmark).afresh);
        outputs.reset(vec![output(5, 2)]);
        assert_eq!(outputs.read_on(&mut bookmark).outputs, [output(5, 2)]);
        assert_eq!(outputs.len(), 1);
    }

    #[test]
    fn changes_wake_those_who_watch() {
        let outputs = Outputs::new();
        let control = Control::new();
        outputs.watch(&control);
        let began = std::time::Instant::now();
        outputs.add(output(0, 0));
        control.wait_for_news(std::time::Duration::from_secs(60));
        assert!(began.elapsed().as_secs() < 30);
        drop(control);
        outputs.add(output(1, 0));
        assert!(outputs.table().watchers.is_empty());
    }
}
