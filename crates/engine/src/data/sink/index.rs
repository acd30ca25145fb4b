//! The order in which a buffer is written: small entries that are sorted in the place of what they stand for.

use std::cmp::Ordering;

/// Stands for a record or a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// The first bytes of the key.
    pub prefix: u64,
    pub partition: u32,
    /// Where the buffer has it.
    pub at: u32,
}

/// The memory one takes, itself and while it is sorted.
pub(super) const ENTRY_BYTES: usize = 2 * size_of::<Entry>();

/// Fewer entries than this are compared at once; more are dealt out by their prefixes first.
const FEW: usize = 256;

/// More heaps than this would not fit the nearest cache while they are dealt to.
const HEAPS_MAX: usize = 2048;

/// Puts entries in the order of partition and key; `in_full` orders two whose prefixes are the same.
///
/// Comparing costs more the more entries there are and the less of them the caches hold. So they are dealt out first:
/// by partition, then by where in the range of prefixes they lie, until few enough share a heap.
pub(super) fn sort(entries: &mut [Entry], partitions: u32, in_full: &impl Fn(u32, u32) -> Ordering) {
    let ends = deal_in_place(entries, partitions as usize, |entry| entry.partition as usize);
    let mut spare = Vec::new();
    for_each_heap(entries, &ends, |part| sort_part(part, &mut spare, in_full));
}

/// Sorts entries of one partition.
fn sort_part(entries: &mut [Entry], spare: &mut Vec<Entry>, in_full: &impl Fn(u32, u32) -> Ordering) {
    // A range of nothing if it is not worth a look: then they are compared.
    let (mut least, mut most) = (0, 0);
    if entries.len() >= FEW {
        (least, most) = entries
            .iter()
            .fold((u64::MAX, 0), |(least, most), entry| (least.min(entry.prefix), most.max(entry.prefix)));
    }
    if least == most {
        entries.sort_unstable_by(|a, b| a.prefix.cmp(&b.prefix).then_with(|| in_full(a.at, b.at)));
        return;
    }
    // As many low bits are left out as bring the range down to the number of heaps. The least and the most still
    // differ, so that every heap is smaller than the whole, and this comes to an end.
    let heaps_max = (entries.len() / 4).next_power_of_two().min(HEAPS_MAX);
    let shift = ((most - least).ilog2() + 1).saturating_sub(heaps_max.ilog2());
    let heaps = ((most - least) >> shift) as usize + 1;
    let ends = deal(entries, spare, heaps, |entry| ((entry.prefix - least) >> shift) as usize);
    for_each_heap(entries, &ends, |heap| sort_part(heap, spare, in_full));
}

/// Deals entries out into heaps by number, and tells where each heap ends.
fn deal(entries: &mut [Entry], spare: &mut Vec<Entry>, heaps: usize, heap_of: impl Fn(&Entry) -> usize) -> Vec<usize> {
    let (mut next, ends) = heaps_of(entries, heaps, &heap_of);
    if spare.len() < entries.len() {
        spare.resize(entries.len(), Entry { prefix: 0, partition: 0, at: 0 });
    }
    let dealt = &mut spare[..entries.len()];
    for entry in entries.iter() {
        let to = &mut next[heap_of(entry)];
        dealt[*to] = *entry;
        *to += 1;
    }
    entries.copy_from_slice(dealt);
    ends
}

/// The same without room for a copy (McIlroy, Bostic and McIlroy, Engineering Radix Sort, 1993: the American flag). It
/// does well with few heaps.
fn deal_in_place(entries: &mut [Entry], heaps: usize, heap_of: impl Fn(&Entry) -> usize) -> Vec<usize> {
    let (mut next, ends) = heaps_of(entries, heaps, &heap_of);
    for heap in 0..heaps {
        while next[heap] < ends[heap] {
            // Follows the entry that lies here to where it belongs, and the one it drives out, until one belongs here.
            let mut entry = entries[next[heap]];
            let mut belongs = heap_of(&entry);
            while belongs != heap {
                std::mem::swap(&mut entries[next[belongs]], &mut entry);
                next[belongs] += 1;
                belongs = heap_of(&entry);
            }
            entries[next[heap]] = entry;
            next[heap] += 1;
        }
    }
    ends
}

/// Where each heap will begin, and where it will end.
fn heaps_of(entries: &[Entry], heaps: usize, heap_of: impl Fn(&Entry) -> usize) -> (Vec<usize>, Vec<usize>) {
    let mut ends = vec![0; heaps];
    entries.iter().for_each(|entry| ends[heap_of(entry)] += 1);
    let mut begin = 0;
    let begins = ends.iter_mut().map(|end| {
        *end += begin;
        std::mem::replace(&mut begin, *end)
    });
    (begins.collect(), ends)
}

fn for_each_heap(entries: &mut [Entry], ends: &[usize], mut then: impl FnMut(&mut [Entry])) {
    let mut begin = 0;
    for &end in ends {
        if end > begin {
            then(&mut entries[begin..end]);
        }
        begin = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_comparing(
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
