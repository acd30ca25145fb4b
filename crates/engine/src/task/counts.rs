//! What a task counts while it runs.

use std::collections::BTreeMap;

/// What a job counted, by counter.
pub type Counters = BTreeMap<String, u64>;

/// Counters in use. A program has a handful and adds to one of them at every record, so this is a list, and the counter of last time is
/// tried first.
#[derive(Debug, Default)]
pub(super) struct Counts {
    list: Vec<(&'static str, u64)>,
    last: usize,
    /// What earlier attempts at the task counted.
    before: Counters,
}

impl Counts {
    /// Counts on from what earlier attempts counted.
    pub(super) fn after(before: Counters) -> Counts {
        Counts { before, ..Counts::default() }
    }

    #[inline]
    pub(super) fn add(&mut self, counter: &'static str, by: u64) {
        match self.list.get_mut(self.last) {
            // The same literal is mostly in the same place; if not, the search compares the letters.
            Some((name, count)) if std::ptr::eq(*name, counter) => *count += by,
            _ => self.search(counter, by),
        }
    }

    fn search(&mut self, counter: &'static str, by: u64) {
        self.last = self.list.iter().position(|(name, _)| *name == counter).unwrap_or_else(|| {
            self.list.push((counter, 0));
            self.list.len() - 1
        });
        self.list[self.last].1 += by;
    }

    /// All that was counted, by earlier attempts too.
    pub(super) fn total(&self) -> Counters {
        let mut total = self.before.clone();
        for (name, count) in &self.list {
            *total.entry((*name).to_owned()).or_default() += count;
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_go_on_from_earlier_ones() {
        let mut counts = Counts::after(Counters::from([("words".into(), 5)]));
        for counter in ["words", "words", "lines", "words"] {
            counts.add(counter, 1);
        }
        assert_eq!(counts.total(), Counters::from([("words".into(), 8), ("lines".into(), 1)]));
    }
}
