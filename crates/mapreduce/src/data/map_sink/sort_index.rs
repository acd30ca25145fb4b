//! Sort index of a buffer: small entries that are sorted instead of the records or keys they refer to.

use std::cmp::Ordering;

/// Refers to a record or a key of a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// See [`crate::data::prefix`].
    pub prefix: u64,
    pub partition: u32,
    /// Address or number by which the buffer finds the record or key.
    pub at: u32,
}

/// Memory per entry, including the copy needed while sorting.
pub(super) const ENTRY_BYTES: usize = 2 * size_of::<Entry>();

/// Fewer entries than this are sorted by comparison; more are first distributed into buckets by prefix.
const COMPARE_BELOW: usize = 256;

/// With more buckets, their write positions would not fit into the L1 cache.
const BUCKETS_MAX: usize = 2048;

/// Sorts entries by partition and key. `compare_full` orders two entries with equal prefixes, given their `at`.
///
/// The cost of comparison sorting grows with the number of entries and with cache misses. So entries are first distributed
/// into buckets: by partition, then by prefix range, until a bucket is small.
pub(super) fn sort(entries: &mut [Entry], partitions: u32, compare_full: &impl Fn(u32, u32) -> Ordering) {
    let mut scratch = Vec::new();
    if partitions <= 1 {
        return sort_part(entries, &mut scratch, compare_full);
    }
    let ends = distribute_in_place(entries, partitions as usize, |entry| entry.partition as usize);
    for_each_bucket(entries, &ends, |part| sort_part(part, &mut scratch, compare_full));
}

/// Sorts entries of one partition.
fn sort_part(entries: &mut [Entry], scratch: &mut Vec<Entry>, compare_full: &impl Fn(u32, u32) -> Ordering) {
    // Equal bounds select comparison sorting.
    let (mut min, mut max) = (0, 0);
    if entries.len() >= COMPARE_BELOW {
        (min, max) =
            entries.iter().fold((u64::MAX, 0), |(min, max), entry| (min.min(entry.prefix), max.max(entry.prefix)));
    }
    if min == max {
        entries.sort_unstable_by(|a, b| a.prefix.cmp(&b.prefix).then_with(|| compare_full(a.at, b.at)));
        return;
    }
    // Drop as many low bits as needed to reduce the range to the number of buckets. Minimum and maximum still fall into
    // different buckets, so every bucket is smaller than the whole and the recursion ends.
    let buckets_max = (entries.len() / 4).next_power_of_two().min(BUCKETS_MAX);
    let shift = ((max - min).ilog2() + 1).saturating_sub(buckets_max.ilog2());
    let buckets = ((max - min) >> shift) as usize + 1;
    let ends = distribute(entries, scratch, buckets, |entry| ((entry.prefix - min) >> shift) as usize);
    for_each_bucket(entries, &ends, |bucket| sort_part(bucket, scratch, compare_full));
}

/// Distributes entries into buckets, using `scratch`. Returns the end of each bucket.
fn distribute(
    entries: &mut [Entry],
    scratch: &mut Vec<Entry>,
    buckets: usize,
    bucket_of: impl Fn(&Entry) -> usize,
) -> Vec<usize> {
    let (mut next, ends) = bucket_bounds(entries, buckets, &bucket_of);
    if scratch.len() < entries.len() {
        scratch.resize(entries.len(), Entry { prefix: 0, partition: 0, at: 0 });
    }
    let distributed = &mut scratch[..entries.len()];
    for entry in entries.iter() {
        let to = &mut next[bucket_of(entry)];
        distributed[*to] = *entry;
        *to += 1;
    }
    entries.copy_from_slice(distributed);
    ends
}

/// Like [`distribute`], but in place (American flag sort; McIlroy, Bostic and McIlroy, Engineering Radix Sort, 1993). Fast if there
/// are few buckets.
fn distribute_in_place(entries: &mut [Entry], buckets: usize, bucket_of: impl Fn(&Entry) -> usize) -> Vec<usize> {
    let (mut next, ends) = bucket_bounds(entries, buckets, &bucket_of);
    for bucket in 0..buckets {
        while next[bucket] < ends[bucket] {
            // Move the entry here to its bucket, the entry displaced there to its own, and so on, until one belongs here.
            let mut entry = entries[next[bucket]];
            let mut target = bucket_of(&entry);
            while target != bucket {
                std::mem::swap(&mut entries[next[target]], &mut entry);
                next[target] += 1;
                target = bucket_of(&entry);
            }
            entries[next[bucket]] = entry;
            next[bucket] += 1;
        }
    }
    ends
}

/// Start and end of each bucket.
fn bucket_bounds(entries: &[Entry], buckets: usize, bucket_of: impl Fn(&Entry) -> usize) -> (Vec<usize>, Vec<usize>) {
    let mut ends = vec![0; buckets];
    entries.iter().for_each(|entry| ends[bucket_of(entry)] += 1);
    let mut start = 0;
    let starts = ends.iter_mut().map(|end| {
        *end += start;
        std::mem::replace(&mut start, *end)
    });
    (starts.collect(), ends)
}

fn for_each_bucket(entries: &mut [Entry], ends: &[usize], mut then: impl FnMut(&mut [Entry])) {
    let mut start = 0;
    for &end in ends {
        if end > start {
            then(&mut entries[start..end]);
        }
        start = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_comparison_sort(
            prefixes in vec((0_u32..3, prop_oneof![0_u64..4, any::<u64>(), Just(u64::MAX), 1_u64 << 40..1 << 41]), 0..3000),
        ) {
            let entries = prefixes.iter().enumerate();
            let entries = entries.map(|(at, &(partition, prefix))| Entry { prefix, partition, at: at as u32 });
            let mut sorted: Vec<Entry> = entries.collect();
            sort(&mut sorted, 3, &|a: u32, b: u32| b.cmp(&a));
            let mut expected: Vec<_> = prefixes.into_iter().enumerate().collect();
            expected.sort_by_key(|&(at, entry)| (entry, std::cmp::Reverse(at)));
            let sorted: Vec<_> = sorted.iter().map(|entry| (entry.at as usize, (entry.partition, entry.prefix))).collect();
            prop_assert_eq!(sorted, expected);
        }
    }
}
