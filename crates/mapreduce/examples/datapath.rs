//! Benchmark of the data path's cost per record: `cargo run --release -p giveway-mapreduce --example datapath [FOLDER] [sum|map|sort|merge]`.
//!
//! Prints the best of several rounds for: summing words with a Zipf distribution, by the built-in sum and by a combiner; the
//! same from text, with lines and words to be found first; sorting 100-byte records into a map output; and merging the segments of
//! eight maps. `FOLDER` is for temporary files. With `DATAPATH_SCALE=100`, the input is a hundredth of the usual, for `valgrind`.

use giveway_mapreduce::apps::{emit_words, words};
use giveway_mapreduce::data::{Compression, MapOutput, MapSink, Merge, SegmentReader, SegmentWriter, SinkOptions};
use giveway_mapreduce::input::LineReader;
use giveway_mapreduce::job::Partitioning;
use giveway_mapreduce::job::{Codec, FileLocation, InputFile, InputSplit};
use giveway_mapreduce::record::{Combine, Combiner, Emit, Values, varint};
use std::hint::black_box;
use std::io;
use std::path::Path;
use std::time::Duration;

/// The same allocator as in the `giveway` program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const WORDS: usize = 20_000_000;
const WORDS_PER_LINE: usize = 10;
const VOCABULARY: usize = 100_000;
const SORT_RECORDS: usize = (128 << 20) / 100;
const REDUCES: u32 = 8;
const MERGE_INPUTS: usize = 8;

fn main() {
    let folder = std::env::args().nth(1).map_or_else(std::env::temp_dir, Into::into).join("giveway-datapath");
    std::fs::create_dir_all(&folder).expect("a folder for temporary files");
    let only = std::env::args().nth(2);
    let wants = |name: &str| only.as_deref().is_none_or(|only| only == name);
    if wants("sum") {
        sum_words(&folder);
    }
    if wants("map") {
        map_text(&folder);
    }
    if wants("sort") {
        sort_records(&folder);
    }
    if wants("merge") {
        merge_segments(&folder);
    }
    std::fs::remove_dir_all(&folder).expect("temporary files removed");
}

fn sum_words(folder: &Path) {
    let text = zipf_text();
    let mut words = Vec::with_capacity(words_in_text());
    let mut from = 0;
    for (at, _) in text.iter().enumerate().filter(|(_, byte)| **byte == b' ') {
        words.push((from as u32, at as u32));
        from = at + 1;
    }
    for (name, combine) in COMBINES {
        report(&format!("{name}: emit of Zipf words"), words.len(), || {
            let mut sink = sink(folder, Partitioning::Hash, combine());
            let (_, elapsed) = timed(|| emit_ranges(&text, &words, black_box(&mut sink)));
            elapsed
        });
        report(&format!("{name}: finish, by distinct word"), VOCABULARY, || {
            let mut sink = sink(folder, Partitioning::Hash, combine());
            emit_ranges(&text, &words, &mut sink);
            timed(|| sink.finish(&folder.join("sums")).expect("finishes")).1
        });
    }
}

type NewCombine = fn() -> Combine;

/// The built-in sum and a combiner that does the same.
const COMBINES: [(&str, NewCombine); 2] = [("sum", || Combine::Sum), ("fold", || Combine::With(Box::new(Adding)))];

struct Adding;

impl Combiner for Adding {
    fn combine(&mut self, _key: &[u8], values: &mut dyn Values, out: &mut dyn FnMut(&[u8])) {
        let mut sum = 0;
        while let Some(value) = values.next() {
            sum += varint::decode(value).expect("the mapper emits numbers");
        }
        varint::with_encoded(sum, out);
    }
}

fn map_text(folder: &Path) {
    let mut text = zipf_text();
    let spaces = text.iter_mut().filter(|byte| **byte == b' ');
    spaces.skip(WORDS_PER_LINE - 1).step_by(WORDS_PER_LINE).for_each(|space| *space = b'\n');
    let bytes = text.len() as u64;
    let path = folder.join("text");
    std::fs::write(&path, &text).expect("a temporary file");
    let file = InputFile { name: "text".into(), location: FileLocation::Local(path), codec: Codec::Plain, bytes };
    let split = InputSplit { file: 0, offset: 0, bytes };
    let lines = || LineReader::open(&file, split).expect("the file exists");
    report("text: lines", words_in_text(), || {
        let mut lines = lines();
        timed(|| while black_box(lines.next().expect("valid")).is_some() {}).1
    });
    report("text: lines and words", words_in_text(), || {
        let mut lines = lines();
        timed(|| {
            while let Some(record) = lines.next().expect("valid") {
                words(record.line, |word| {
                    black_box(word);
                });
            }
        })
        .1
    });
    for (name, combine) in COMBINES {
        report(&format!("{name}: lines, words and emit"), words_in_text(), || {
            let mut sink = sink(folder, Partitioning::Hash, combine());
            let out: &mut dyn Emit = black_box(&mut sink);
            let mut lines = lines();
            timed(|| {
                while let Some(record) = lines.next().expect("valid") {
                    emit_words(record.line, &[1], out);
                }
            })
            .1
        });
    }
}

/// A fraction of a size, for tools that make the program much slower.
fn scaled(size: usize) -> usize {
    let scale = std::env::var("DATAPATH_SCALE").ok().and_then(|scale| scale.parse().ok()).unwrap_or(1);
    size / std::cmp::max(scale, 1)
}

fn words_in_text() -> usize {
    scaled(WORDS)
}

/// One round suffices for instruction counts.
fn rounds() -> usize {
    if words_in_text() < WORDS { 1 } else { 3 }
}

fn sort_count() -> usize {
    scaled(SORT_RECORDS)
}

fn emit_ranges(text: &[u8], words: &[(u32, u32)], out: &mut dyn Emit) {
    for &(from, to) in words {
        out.emit(&text[from as usize..to as usize], &[1]);
    }
}

fn sort_records(folder: &Path) {
    let records = random_records(1);
    let cuts: Vec<Vec<u8>> = (1..REDUCES as usize).map(|n| vec![b' ' + (n * 95 / REDUCES as usize) as u8]).collect();
    for compression in [Compression::None, Compression::Auto] {
        let mut finish = Duration::MAX;
        report(&format!("sort: emit, {compression:?}"), sort_count(), || {
            let mut options = options(Partitioning::Ranges(cuts.clone()), Combine::Nothing);
            options.compression = compression;
            let mut sink = MapSink::new(&folder.join("map"), options);
            let (_, elapsed) = timed(|| emit_records(&records, black_box(&mut sink)));
            assert_eq!(sink.spills(), 0);
            let (output, finished) = timed(|| sink.finish(&folder.join("sorted")).expect("finishes"));
            finish = finish.min(finished);
            std::fs::remove_file(output.path).expect("scratch file removed");
            elapsed
        });
        report(&format!("sort: finish, {compression:?}"), sort_count(), || finish);
    }
}

fn emit_records(records: &[u8], out: &mut dyn Emit) {
    for record in records.chunks_exact(100) {
        out.emit(&record[..10], &record[10..99]);
    }
}

fn merge_segments(folder: &Path) {
    let outputs: Vec<MapOutput> = (0..MERGE_INPUTS)
        .map(|n| {
            let mut options = options(Partitioning::Hash, Combine::Nothing);
            options.reduces = 1;
            options.compression = Compression::None;
            let mut sink = MapSink::new(&folder.join("map"), options);
            emit_records(&random_records(n as u64 + 1)[..sort_count() / MERGE_INPUTS * 100], &mut sink);
            sink.finish(&folder.join(format!("map-{n}"))).expect("finishes")
        })
        .collect();
    let merge = || {
        let readers = outputs.iter().map(|output| SegmentReader::open(output.segment(0)).expect("valid"));
        Merge::new(readers.collect()).expect("valid")
    };
    let records = sort_count() / MERGE_INPUTS * MERGE_INPUTS;
    report("merge of 8: groups, discarded", records, || {
        let mut merge = merge();
        timed(|| {
            let mut sum = 0;
            while merge
                .next_group(|key, values| {
                    while let Some(value) = values.next() {
                        sum += key.len() + value.len();
                    }
                })
                .expect("valid")
                .is_some()
            {}
            black_box(sum)
        })
        .1
    });
    report("merge of 8: into a segment, discarded", records, || {
        let mut merge = merge();
        let mut out = SegmentWriter::new(io::sink(), Compression::None);
        timed(|| merge.merge_to(&mut out, &mut Combine::Nothing).expect("valid")).1
    });
    report("merge of 1: into a segment, discarded", records / MERGE_INPUTS, || {
        let reader = SegmentReader::open(outputs[0].segment(0)).expect("valid");
        let mut merge = Merge::new(vec![reader]).expect("valid");
        let mut out = SegmentWriter::new(io::sink(), Compression::None);
        timed(|| merge.merge_to(&mut out, &mut Combine::Nothing).expect("valid")).1
    });
}

fn options(partitioning: Partitioning, combine: Combine) -> SinkOptions {
    SinkOptions { reduces: REDUCES, partitioning, combine, memory_bytes: 256 << 20, compression: Compression::Auto }
}

fn sink(folder: &Path, partitioning: Partitioning, combine: Combine) -> MapSink {
    MapSink::new(&folder.join("map"), options(partitioning, combine))
}

fn timed<R>(run: impl FnOnce() -> R) -> (R, Duration) {
    let started = cpu_time();
    let result = run();
    (result, cpu_time() - started)
}

/// CPU time of this thread, which depends less on other load of the machine than wall-clock time.
fn cpu_time() -> Duration {
    let stat =
        std::fs::read_to_string("/proc/thread-self/schedstat").expect("/proc/thread-self/schedstat exists on Linux");
    Duration::from_nanos(stat.split_whitespace().next().and_then(|ns| ns.parse().ok()).expect("nanoseconds"))
}

fn report(what: &str, records: usize, mut round: impl FnMut() -> Duration) {
    let best = (0..rounds()).map(|_| round()).min().expect("at least one round");
    println!(
        "{what:<42} {:>7.1} ns/record {:>8.1} ms",
        best.as_nanos() as f64 / records as f64,
        best.as_secs_f64() * 1e3
    );
}

/// A small pseudo-random generator, so that different versions are measured on the same input.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = (self.0 ^ self.0 >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((u128::from(mixed ^ mixed >> 32) * u128::from(bound)) >> 64) as u64
    }
}

/// Words of 2 to 14 letters, each followed by a space. Frequent words are shorter; the frequency of the n-th word is proportional to 1/n.
fn zipf_text() -> Vec<u8> {
    let mut random = Random(7);
    let words: Vec<Vec<u8>> = (0..VOCABULARY)
        .map(|rank| {
            let (letters_min, letters_max) = match rank {
                0..100 => (2, 4),
                100..1000 => (3, 7),
                1000..10_000 => (4, 10),
                _ => (5, 14),
            };
            let letters = letters_min + random.below(letters_max - letters_min + 1);
            (0..letters).map(|_| b'a' + random.below(26) as u8).collect()
        })
        .collect();
    let mut sum = 0.0;
    let cumulative: Vec<f64> = (1..=VOCABULARY).map(|rank| (sum += 1.0 / rank as f64, sum).1).collect();
    let mut text = Vec::new();
    for _ in 0..words_in_text() {
        let sample = random.below(1 << 53) as f64 / (1_u64 << 53) as f64 * sum;
        let rank = cumulative.partition_point(|weight| *weight <= sample).min(VOCABULARY - 1);
        text.extend_from_slice(&words[rank]);
        text.push(b' ');
    }
    text
}

/// Records of 100 bytes: a random printable key of 10 bytes, a number, filler and a line end.
fn random_records(seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let mut records = Vec::with_capacity(sort_count() * 100);
    for n in 0..sort_count() {
        records.extend((0..10).map(|_| b' ' + random.below(95) as u8));
        records.extend_from_slice(format!("  {n:032X}  ").as_bytes());
        records.extend((0..53).map(|at| b'A' + ((n + at / 8) % 26) as u8));
        records.push(b'\n');
    }
    records
}
