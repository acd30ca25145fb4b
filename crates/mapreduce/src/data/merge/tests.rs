//! The merge, compared with a reference: all records in a sorted vector.

use super::*;
use crate::data::segment::{Compression, Source};
use proptest::collection::vec;
use proptest::prelude::*;

type Records = Vec<(Vec<u8>, Vec<u8>)>;

fn segment(mut records: Records) -> Source {
    records.sort();
    let mut writer = SegmentWriter::new(Vec::new(), Compression::Auto);
    records.iter().for_each(|(key, value)| writer.push(key, value).expect("writes to memory"));
    writer.finish().expect("writes to memory").0.into()
}

fn merge(sources: &[Source]) -> Merge {
    merge_at(sources, &vec![Position::default(); sources.len()])
}

fn merge_at(sources: &[Source], positions: &[Position]) -> Merge {
    let readers = sources.iter().zip(positions).map(|(source, at)| SegmentReader::open_at(source.clone(), *at));
    Merge::new(readers.collect::<Result<_, _>>().expect("valid")).expect("valid")
}

fn rest(mut merge: Merge) -> Records {
    let mut records = Vec::new();
    while !merge.is_done() {
        records.push((merge.key().to_vec(), merge.value().to_vec()));
        merge.advance().expect("valid");
    }
    records
}

fn groups(records: &Records) -> Vec<(Vec<u8>, Vec<Vec<u8>>)> {
    let mut groups = std::collections::BTreeMap::<_, Vec<_>>::new();
    for (key, value) in records {
        groups.entry(key.clone()).or_default().push(value.clone());
    }
    groups.into_iter().collect()
}

/// A small alphabet with zeros, so that keys often share a prefix or are equal.
fn inputs() -> impl Strategy<Value = Vec<Records>> {
    vec(vec((bytes("[ab\0]{0,10}"), bytes("[ab\0]{0,3}")), 0..30), 0..9)
}

fn bytes(pattern: &'static str) -> impl Strategy<Value = Vec<u8>> {
    pattern.prop_map(String::into_bytes)
}

struct FirstTwo;

impl Combiner for FirstTwo {
    fn combine(&mut self, _key: &[u8], values: &mut dyn Values, out: &mut dyn FnMut(&[u8])) {
        let first = values.next().map(<[u8]>::to_vec);
        if let Some(second) = values.next() {
            out(second);
        }
        out(&first.expect("a group has a value"));
    }
}

proptest! {
    #[test]
    fn agrees_with_sorting_all_records(inputs in inputs(), stop in 0_usize..50, take in 0_usize..4) {
        let sources: Vec<Source> = inputs.iter().cloned().map(segment).collect();
        let mut all: Records = inputs.into_iter().flatten().collect();
        all.sort();
        prop_assert_eq!(rest(merge(&sources)), all.clone());

        // A second merge continues from the positions of one that stopped between any two records.
        let mut first = merge(&sources);
        (0..stop).for_each(|_| first.advance().expect("valid"));
        let stop_at = stop.min(all.len());
        prop_assert_eq!(rest(merge_at(&sources, &first.positions())), all[stop_at..].to_vec());

        // Groups of which only some values are read; each time a new merge continues at the next key.
        let mut merge = merge(&sources);
        for (key, values) in groups(&all) {
            let taken = merge.next_group(|key, values| {
                let taken: Vec<_> = (0..take).map_while(|_| values.next().map(<[u8]>::to_vec)).collect();
                (key.to_vec(), taken)
            });
            let expected = (key, values.into_iter().take(take).collect());
            prop_assert_eq!(taken.expect("valid"), Some(expected));
            merge = merge_at(&sources, &merge.positions());
        }
        prop_assert!(merge.next_group(|_, _| ()).expect("valid").is_none());
        prop_assert!(merge.positions().into_iter().all(Position::is_end));
    }

    #[test]
    fn combines_by_key(inputs in inputs()) {
        let sources: Vec<Source> = inputs.iter().cloned().map(segment).collect();
        let mut all: Records = inputs.into_iter().flatten().collect();
        all.sort();
        let merged = |combine: &mut Combine| {
            let mut out = SegmentWriter::new(Vec::new(), Compression::None);
            merge(&sources).merge_to(&mut out, combine).map(|()| {
                rest(merge_at(&[out.finish().expect("writes to memory").0.into()], &[Position::default()]))
            })
        };
        prop_assert_eq!(merged(&mut Combine::Nothing).expect("valid"), all.clone());
        let expected: Records = groups(&all)
            .into_iter()
            .flat_map(|(key, values)| values.into_iter().take(2).map(move |value| (key.clone(), value)))
            .collect();
        prop_assert_eq!(merged(&mut Combine::With(Box::new(FirstTwo))).expect("valid"), expected);

        let summed = merged(&mut Combine::Sum);
        if all.iter().any(|(_, value)| varint::decode(value).is_none()) {
            let is_rejected = matches!(summed, Err(MergeError::NotANumber { .. }));
            prop_assert!(is_rejected);
        } else {
            let total = |records: Records| -> u64 { records.iter().filter_map(|r| varint::decode(&r.1)).sum() };
            prop_assert_eq!(total(summed.expect("numbers")), total(all));
        }
    }
}

#[test]
fn corruption_is_reported_and_no_record_is_invented() {
    let records: Records = (0..20_000_u32).map(|n| (n.to_be_bytes().to_vec(), vec![7; 40])).collect();
    let Source::Memory(bytes) = segment(records) else { unreachable!("test segments are in memory") };
    let mut bytes = bytes.to_vec();
    *bytes.last_mut().expect("not empty") ^= 1;
    let mut merge = merge(&[bytes.into(), segment(vec![(vec![0], vec![0])])]);
    let mut keys = 0;
    let error = loop {
        match merge.next_group(|_, values| while values.next().is_some() {}) {
            Ok(Some(())) => keys += 1,
            Ok(None) => panic!("the corruption was not detected"),
            Err(error) => break error,
        }
    };
    assert!(keys < 20_000 && keys > 10_000, "{keys}");
    assert!(matches!(error, SegmentError::Corrupt { at } if at > 0));
}
