//! Counters of a running task.

use crate::wire::Counters;
/// The counters of one attempt. An application uses a handful and adds to one of them at every record, so they are a list in which the most
/// recently used counter is tried first.
#[derive(Debug, Default)]
pub(super) struct CounterSet {
    counters: Vec<(&'static str, u64)>,
    last_used: usize,
    /// Values from the earlier attempts this one resumes.
    base: Counters,
}

impl CounterSet {
    /// Continues from the values of the attempt that is resumed.
    pub(super) fn resumed(base: Counters) -> CounterSet {
        CounterSet { base, ..CounterSet::default() }
    }

    #[inline]
    pub(super) fn add(&mut self, counter: &'static str, by: u64) {
        match self.counters.get_mut(self.last_used) {
            // Equal literals usually have the same address; if not, the search compares the text.
            Some((name, count)) if std::ptr::eq(*name, counter) => *count += by,
            _ => self.search(counter, by),
        }
    }

    fn search(&mut self, counter: &'static str, by: u64) {
        self.last_used = self.counters.iter().position(|(name, _)| *name == counter).unwrap_or_else(|| {
            self.counters.push((counter, 0));
            self.counters.len() - 1
        });
        self.counters[self.last_used].1 += by;
    }

    /// All values, including those of earlier attempts.
    pub(super) fn total(&self) -> Counters {
        let mut total = self.base.clone();
        for (name, count) in &self.counters {
            *total.entry((*name).to_owned()).or_default() += count;
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_earlier_attempts_are_included() {
        let mut counters = CounterSet::resumed(Counters::from([("words".into(), 5)]));
        for counter in ["words", "words", "lines", "words"] {
            counters.add(counter, 1);
        }
        assert_eq!(counters.total(), Counters::from([("words".into(), 8), ("lines".into(), 1)]));
    }
}
