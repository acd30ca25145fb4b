//! The sink, compared with a reference: all records in a sorted vector.

use super::*;
use crate::record::{Combiner, Values};
use proptest::collection::vec;
use proptest::prelude::*;

type Records = Vec<(Vec<u8>, Vec<u8>)>;

fn options(reduces: u32, combine: Combine, memory_bytes: u64) -> SinkOptions {
    SinkOptions { reduces, partitioning: Partitioning::Hash, combine, memory_bytes, compression: Compression::Auto }
}

/// Returns the output for each reduce and the number of spills.
fn run(records: &[(Vec<u8>, Vec<u8>)], options: SinkOptions) -> (Vec<Records>, u64) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut sink = MapSink::new(&folder.path().join("map"), options);
    records.iter().for_each(|(key, value)| sink.emit(key, value));
    assert_eq!(sink.records(), records.len() as u64);
    let spills = sink.spills();
    let output = sink.finish(&folder.path().join("output")).expect("finishes");
    let names: Vec<_> = fs::read_dir(folder.path()).expect("lists").map(|entry| entry.expect("lists").path()).collect();
    assert_eq!(names, std::slice::from_ref(&output.path), "no other file remains");
    let output = MapOutput::open(&output.path).expect("valid");
    (output.segments.iter().enumerate().map(|(reduce, entry)| read(&output, reduce as u32, entry)).collect(), spills)
}

fn read(output: &MapOutput, reduce: u32, entry: &SegmentEntry) -> Records {
    let mut reader = SegmentReader::open(output.segment(reduce)).expect("valid");
    let mut records = Vec::new();
    while !reader.is_done() {
        records.push((reader.key().to_vec(), reader.value().to_vec()));
        reader.advance().expect("valid");
    }
    assert_eq!(entry.records, records.len() as u64);
    records
}

fn sorted_by_partition(records: &[(Vec<u8>, Vec<u8>)], partitioning: &Partitioning, reduces: u32) -> Vec<Records> {
    let mut parts = vec![Records::new(); reduces as usize];
    records.iter().for_each(|record| parts[partitioning.of(&record.0, reduces) as usize].push(record.clone()));
    parts.iter_mut().for_each(|part| part.sort());
    parts
}

/// Reference implementation of summing.
fn summed(records: &[(Vec<u8>, u64)]) -> Records {
    let mut sums = BTreeMap::<_, u64>::new();
    records.iter().for_each(|(key, number)| *sums.entry(key.clone()).or_default() += number);
    sums.into_iter().map(|(key, sum)| (key, varint::with_encoded(sum, <[u8]>::to_vec))).collect()
}

fn numbers(records: &[(Vec<u8>, u64)]) -> Records {
    records.iter().map(|(key, n)| (key.clone(), varint::with_encoded(*n, <[u8]>::to_vec))).collect()
}

/// Sums like [`Combine::Sum`], but as a custom combiner.
struct Adding;

impl Combiner for Adding {
    fn combine(&mut self, _key: &[u8], values: &mut dyn Values, out: &mut dyn FnMut(&[u8])) {
        let mut sum = 0;
        while let Some(value) = values.next() {
            sum += varint::decode(value).expect("a number");
        }
        varint::with_encoded(sum, out);
    }
}

/// Removes duplicate values.
struct Distinct;

impl Combiner for Distinct {
    fn combine(&mut self, _key: &[u8], values: &mut dyn Values, out: &mut dyn FnMut(&[u8])) {
        let mut seen = std::collections::HashSet::new();
        while let Some(value) = values.next() {
            if seen.insert(value.to_vec()) {
                out(value);
            }
        }
    }
}

/// Keys that often share a prefix or are equal, empty keys, and keys just below and above the size of a short key.
fn key() -> impl Strategy<Value = Vec<u8>> {
    "[ab\0]{0,4}|[ab]{13,18}|[a-z]{0,40}".prop_map(String::into_bytes)
}

const TINY: u64 = 4 << 10;
const AMPLE: u64 = 64 << 20;

proptest! {
    // Each case writes dozens of files.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn sorting_agrees_with_a_sorted_vector(
        records in vec((key(), vec(any::<u8>(), 0..60)), 0..600),
        reduces in 1_u32..5,
        cuts in vec(key(), 4),
        memory_bytes in prop_oneof![Just(0), Just(TINY), Just(AMPLE)],
    ) {
        let mut cuts = cuts[..reduces as usize - 1].to_vec();
        cuts.sort();
        for partitioning in [Partitioning::Hash, Partitioning::Ranges(cuts)] {
            let expected = sorted_by_partition(&records, &partitioning, reduces);
            let options = SinkOptions { partitioning, ..options(reduces, Combine::Nothing, memory_bytes) };
            prop_assert_eq!(run(&records, options).0, expected);
        }
    }

    #[test]
    fn sums_agree_with_a_map(
        records in vec((key(), prop_oneof![0_u64..200, 0_u64..1 << 40]), 0..600),
        reduces in 1_u32..5,
        memory_bytes in prop_oneof![Just(0), Just(TINY), Just(AMPLE)],
    ) {
        let expected = sorted_by_partition(&summed(&records), &Partitioning::Hash, reduces);
        let records = numbers(&records);
        prop_assert_eq!(run(&records, options(reduces, Combine::Sum, memory_bytes)).0, expected.clone());
        let with = Combine::With(Box::new(Adding));
        prop_assert_eq!(run(&records, options(reduces, with, memory_bytes)).0, expected);
    }

    #[test]
    fn a_combiner_with_several_values_agrees_with_a_set(
        records in vec((key(), "[a-c]{0,3}".prop_map(String::into_bytes)), 0..600),
        memory_bytes in prop_oneof![Just(0), Just(TINY), Just(AMPLE)],
    ) {
        let mut distinct = records.clone();
        distinct.sort();
        distinct.dedup();
        let expected = sorted_by_partition(&distinct, &Partitioning::Hash, 3);
        prop_assert_eq!(run(&records, options(3, Combine::With(Box::new(Distinct)), memory_bytes)).0, expected);
    }
}

#[test]
fn many_spills_are_merged_in_several_passes() {
    let records: Records =
        (0..40_000_u64).map(|n| (n.wrapping_mul(0x9e37_79b9).to_be_bytes().to_vec(), vec![1])).collect();
    let (parts, spills) = run(&records, options(3, Combine::Nothing, 16 << 10));
    assert!(spills > 50, "{spills}");
    assert_eq!(parts, sorted_by_partition(&records, &Partitioning::Hash, 3));
    let (sums, spills) = run(&records, options(3, Combine::Sum, 16 << 10));
    assert!(spills > 10, "{spills}");
    assert_eq!(sums, parts);
}

#[test]
fn records_larger_than_blocks_and_budgets_work() {
    let records: Records =
        (0..12_usize).map(|n| (vec![b'a' + (n % 3) as u8; n * 9000], vec![n as u8; (n % 4) << 20])).collect();
    for memory_bytes in [0, 100 << 10, 3 << 20, AMPLE] {
        let expected = sorted_by_partition(&records, &Partitioning::Hash, 2);
        assert_eq!(run(&records, options(2, Combine::Nothing, memory_bytes)).0, expected);
        assert_eq!(run(&records, options(2, Combine::With(Box::new(Distinct)), memory_bytes)).0, expected);
    }
}

#[test]
fn a_few_keys_with_many_values_never_spill() {
    let records: Records = (0..50_000_u32).map(|n| (vec![(n % 10) as u8; 20], vec![1])).collect();
    for combine in [Combine::Sum, Combine::With(Box::new(Adding))] {
        let (parts, spills) = run(&records, options(2, combine, 64 << 10));
        assert_eq!(spills, 0);
        assert_eq!(parts.iter().map(Vec::len).sum::<usize>(), 10);
    }
}

#[test]
fn equal_values_before_and_after_other_ones_are_all_combined() {
    for count in (0..50).chain([5_000]) {
        for other in [2, 300, u64::MAX >> 8] {
            let mut values = vec![1; count];
            values.push(other);
            values.extend(vec![1; count]);
            let records: Vec<(Vec<u8>, u64)> = values.into_iter().map(|value| (b"key".to_vec(), value)).collect();
            let expected = sorted_by_partition(&summed(&records), &Partitioning::Hash, 1);
            assert_eq!(run(&numbers(&records), options(1, Combine::With(Box::new(Adding)), AMPLE)).0, expected);
        }
        for bytes in [0, 1, 8, 39, 40, 41, 45, 46, 200] {
            let mut records: Records = vec![(b"key".to_vec(), vec![b'a'; bytes]); count + 1];
            records.push((b"key".to_vec(), vec![b'b'; bytes + 1]));
            let expected =
                sorted_by_partition(&[records[0].clone(), records[count + 1].clone()], &Partitioning::Hash, 1);
            assert_eq!(run(&records, options(1, Combine::With(Box::new(Distinct)), AMPLE)).0, expected);
        }
    }
}

/// Sets that outgrow their cells, whose blocks are compacted when memory is full: keys and values both short and long.
#[test]
fn growing_sets_of_values_agree_with_sets() {
    let record = |n: u64| {
        let n = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let key = vec![b'k' + (n % 7) as u8; 1 + (n % 5) as usize * 6];
        let value = format!("{:0>width$}", n / 64 % 300, width = (n / 64 % 60) as usize);
        (key, value.into_bytes())
    };
    let records: Records = (0..20_000).map(record).collect();
    let mut distinct = records.clone();
    distinct.sort();
    distinct.dedup();
    let expected = sorted_by_partition(&distinct, &Partitioning::Hash, 3);
    for (memory_bytes, may_spill) in [(64 << 10, true), (3 << 20, false), (AMPLE, false)] {
        let combine = Combine::With(Box::new(Distinct));
        let (parts, spills) = run(&records, options(3, combine, memory_bytes));
        assert_eq!(parts, expected, "with {memory_bytes} bytes");
        assert!(may_spill || spills == 0, "{spills} spills with {memory_bytes} bytes");
    }
}

/// Drops all values. Fails if it is called without any.
struct Dropping;

impl Combiner for Dropping {
    fn combine(&mut self, _key: &[u8], values: &mut dyn Values, _out: &mut dyn FnMut(&[u8])) {
        assert!(values.next().is_some());
        while values.next().is_some() {}
    }
}

#[test]
fn a_combiner_is_not_called_without_values() {
    for value_bytes in [1, 45, 3000] {
        let mut records: Records = vec![(b"single".to_vec(), vec![1]), (b"a single long key".to_vec(), vec![1])];
        records.extend((0..400).map(|n| (vec![b'a'; 1 + n % 20], vec![0; value_bytes])));
        for memory_bytes in [64 << 10, AMPLE] {
            let (parts, spills) = run(&records, options(1, Combine::With(Box::new(Dropping)), memory_bytes));
            // How many values are left depends on when they were combined. A merge of spilled runs combines single values, too.
            assert!(parts[0].len() <= 22, "{}", parts[0].len());
            assert!(spills > 0 || parts[0].iter().any(|(key, _)| key == b"single"));
        }
    }
}

/// Values that are too large for the queue, some of new keys, between values that are queued.
#[test]
fn large_values_between_small_ones_are_not_lost() {
    let mut records: Records = Vec::new();
    for n in 0..3000_u32 {
        records.push((format!("{}", n % 700).into_bytes(), vec![b'x'; (n % 50) as usize]));
        records.push((format!("{}", n % 90).into_bytes(), vec![b'y'; if n % 100 == 0 { 9000 } else { 45 }]));
    }
    let mut distinct = records.clone();
    distinct.sort();
    distinct.dedup();
    let expected = sorted_by_partition(&distinct, &Partitioning::Hash, 2);
    for memory_bytes in [32 << 10, 128 << 10, 512 << 10, AMPLE] {
        assert_eq!(run(&records, options(2, Combine::With(Box::new(Distinct)), memory_bytes)).0, expected);
    }
}

#[test]
fn errors_are_stored_until_they_are_checked() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let to = folder.path().join("output");

    let mut sink = MapSink::new(&folder.path().join("map"), options(1, Combine::Sum, AMPLE));
    sink.emit(b"fine", &[1]);
    assert!(sink.error().is_none() && !sink.is_stopped());
    sink.emit(b"wrong", b"\xff");
    assert!(sink.error().is_some() && sink.is_stopped());
    sink.emit(b"late", &[1]);
    let error = sink.finish(&to).expect_err("was not a number").to_string();
    assert!(error.contains("\"wrong\"") && error.contains("not a number"), "{error}");

    let mut sink = MapSink::new(&folder.path().join("missing/map"), options(1, Combine::Nothing, TINY));
    (0..1000_u32).for_each(|n| sink.emit(&n.to_be_bytes(), b"value"));
    assert!(matches!(sink.error(), Some(SinkError::Write { .. })));
    assert!(matches!(sink.finish(&to), Err(SinkError::Write { .. })));
    assert!(!to.exists());
}

#[test]
fn counters_add_up() {
    let mut sink = MapSink::new(Path::new("unused"), options(1, Combine::Nothing, AMPLE));
    sink.count("lines", 2);
    sink.count("words", 5);
    sink.count("lines", 1);
    assert_eq!(sink.counters(), BTreeMap::from([("lines", 3), ("words", 5)]));
}

#[test]
fn a_corrupt_index_is_detected() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("output");
    let mut sink = MapSink::new(&folder.path().join("map"), options(3, Combine::Nothing, AMPLE));
    (0..100_u32).for_each(|n| sink.emit(&n.to_be_bytes(), b"value"));
    let output = sink.finish(&path).expect("finishes");
    let index_at = output.segments.iter().map(|entry| entry.stored_bytes).sum::<u64>() as usize;
    let bytes = fs::read(&path).expect("reads");
    let is_corrupt = |bytes: &[u8]| {
        fs::write(&path, bytes).expect("writes");
        matches!(MapOutput::open(&path), Err(OutputError::Corrupt { .. }))
    };
    for at in index_at..bytes.len() {
        let mut corrupt = bytes.clone();
        corrupt[at] ^= 0x10;
        assert!(is_corrupt(&corrupt), "byte {at}");
    }
    for length in 0..bytes.len() {
        assert!(is_corrupt(&bytes[..length]), "truncated to {length}");
    }
    assert!(!is_corrupt(&bytes));
}
