//! The groups of a ranking as plain data: they keep their numbers, which decide between equal ranks.

use super::{GroupIndex, ROOT, Ranking};
use crate::policy::matching::Classes;
use serde::{Deserialize, Serialize};

/// The groups of a ranking.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupsMemory {
    /// In the order of their numbers, without the root.
    groups: Vec<GroupMemory>,
    is_unused: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct GroupMemory {
    parent: GroupIndex,
    name: String,
    classes: Option<Classes>,
    due_share: u32,
}

/// The number that each group of another ranking has in this one.
#[derive(Clone, Debug, Default)]
pub struct GroupNumbers(Vec<usize>);

impl GroupNumbers {
    /// What is kept by the number of each group, by the new numbers; groups that are new have the given value.
    pub fn renumber<T: Clone>(&self, by_old_number: &[T], of_new: &T) -> Vec<T> {
        let mut by_new_number = Vec::new();
        for (&number, kept) in self.0.iter().zip(by_old_number) {
            by_new_number.resize(by_new_number.len().max(number + 1), of_new.clone());
            by_new_number[number] = kept.clone();
        }
        by_new_number
    }
}

impl Ranking {
    /// Its groups.
    pub fn memory(&self) -> GroupsMemory {
        let groups = self.groups[1..].iter().map(|group| GroupMemory {
            parent: group.parent,
            name: group.facts.name.to_string(),
            classes: group.facts.classes,
            due_share: group.facts.due_share,
        });
        GroupsMemory { groups: groups.collect(), is_unused: self.is_unused }
    }

    /// Adds the groups of another ranking that it does not have, in their order. None if their parents are no groups.
    pub fn restore(&mut self, memory: &GroupsMemory) -> Option<GroupNumbers> {
        let mut numbers = vec![ROOT as usize];
        for group in &memory.groups {
            let parent = *numbers.get(group.parent as usize)? as GroupIndex;
            // Only classes are named within their parent.
            let number = self.group(if group.classes.is_some() { parent } else { ROOT }, &group.name);
            let facts = &mut self.groups[number as usize].facts;
            (facts.classes, facts.due_share) = (group.classes, group.due_share);
            numbers.push(number as usize);
        }
        self.is_unused &= memory.is_unused;
        self.mark_guarantees();
        Some(GroupNumbers(numbers))
    }

    /// True if a job is delayed.
    pub fn is_delayed(&self, job: crate::state::JobKey) -> bool {
        self.entries[job.index()].delayed
    }
}
