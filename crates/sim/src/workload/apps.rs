//! Costs of the papers' applications per megabyte.
//!
//! One table for all clusters and all policies. Speed 1 is one core of an AMD Opteron at 2.6 GHz, the machine of hSRTF's experiment and a common
//! one in the years of the four papers; other machines differ by their speed alone. A megabyte is 2^20 bytes. The seconds do not include what
//! the simulator adds itself: reading a map's input and spilling its output, and for a reduce fetching, sorting and writing one copy. Writing
//! the other replicas is part of the reduce seconds.
//!
//! Sources: the ratios of the reduce-heavy jobs are from FCS (one to three times their input), those of GridMix2's jobs from the `keep`
//! percentages in its README. The seconds are neither measured nor copied from a table: they are estimates for machines of those years, set so
//! that a block of 128 MB takes about half a minute to count words, ten seconds to sort and a minute to cluster.
//!
//! Two values were revised after runs. The reduce seconds of the sorts were reduced when it turned out that the simulator writes a copy itself.
//! The three GridMix2 jobs on compressed data were made heavier (they decompress fourfold, as the README says), after runs in which the mix
//! loaded the cluster so little that pausing and killing gave the same results.

use super::JobPlan;
use crate::files::MB;
use giveway_core::{JobId, PerKind, Priority, Span, Time};

/// Default slow start: reduces may start once this fraction of the maps is done. Hadoop 1's default of 5 %, in millionths.
pub(crate) const SLOWSTART_PPM: u32 = 50_000;

/// Costs and output ratios of an application.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct App {
    /// Name in workload files.
    pub name: &'static str,
    /// Compute time of a map at speed 1, in seconds per megabyte of input.
    pub map_s_per_mb: f64,
    /// Map output bytes per input byte.
    pub shuffle_ratio: f64,
    /// Compute time of a reduce at speed 1, in seconds per megabyte fetched.
    pub reduce_s_per_mb: f64,
    /// Reduce output bytes per byte fetched.
    pub output_ratio: f64,
}

/// All applications, sorted by name.
pub const APPS: &[App] = &[
    // Word count in GridMix2: the same work on generated text, so the combiner removes more of it.
    app("combiner", 0.20, 0.03, 0.05, 0.40),
    // Matches a pattern and discards nearly everything: little more than reading.
    app("grep", 0.04, 0.001, 0.02, 1.0),
    // Parses every document and emits each word once with its document; most of the output is combined.
    app("invertedindex", 0.16, 0.15, 0.04, 0.60),
    // Sorts text through the Java interface: an ordinary sort with parsing and serialisation.
    app("javasort", 0.06, 1.0, 0.07, 1.0),
    // Compares every record with every centroid: the most expensive map, about a minute per block, with hardly any output.
    app("kmeans", 0.45, 0.02, 0.05, 1.0),
    // First and largest stage of GridMix2's pipeline: decompresses fourfold, keeps 10 % in the map and 40 % in the reduce.
    app("monsterquery", 0.24, 0.40, 0.08, 0.40),
    // Reads an index sorted by word, swaps keys and counts: a cheap map, all of it shuffled.
    app("rankedinvertedindex", 0.10, 1.1, 0.06, 1.0),
    // Joins candidate lists with themselves: a cheap map, all of it shuffled; the reduce pairs the members of each list.
    app("selfjoin", 0.08, 1.0, 0.07, 0.60),
    // Every three consecutive words with their document: the top of FCS's range, three bytes shuffled per byte read.
    app("sequencecount", 0.35, 3.0, 0.03, 0.30),
    // Identity map and reduce: a block in 8 s of computation, all of it shuffled, written with its replicas at about 12 MB/s.
    app("sort", 0.06, 1.0, 0.07, 1.0),
    // Like sort, with both map and reduce piped through `cat`.
    app("streamsort", 0.10, 1.0, 0.10, 1.0),
    // Like sort, on 100-byte records with a sampling partitioner.
    app("terasort", 0.06, 1.0, 0.07, 1.0),
    // The most frequent words of each host: word count's map, then a sort of small vectors.
    app("termvector", 0.18, 0.10, 0.06, 0.30),
    // Decompresses fourfold, keeps 0.2 % in the map and 5 % in the reduce.
    app("webdatascan", 0.20, 0.008, 0.05, 0.05),
    // Decompresses fourfold and shuffles all of that, as the README warns; the output is compressed again.
    app("webdatasort", 0.30, 4.0, 0.06, 0.25),
    // Tokenises and combines: 33 s per block of 128 MB; one byte in twenty is shuffled.
    app("wordcount", 0.26, 0.05, 0.05, 0.30),
];

const fn app(
    name: &'static str,
    map_s_per_mb: f64,
    shuffle_ratio: f64,
    reduce_s_per_mb: f64,
    output_ratio: f64,
) -> App {
    App { name, map_s_per_mb, shuffle_ratio, reduce_s_per_mb, output_ratio }
}

impl App {
    /// Returns the application with this name.
    pub fn by_name(name: &str) -> Option<&'static App> {
        APPS.iter().find(|app| app.name == name)
    }

    /// All names, separated by commas, for error messages.
    pub fn names() -> String {
        APPS.iter().map(|app| app.name).collect::<Vec<_>>().join(", ")
    }

    /// A job of this application, submitted at time zero by user `default` into pool `default`.
    pub fn job(&self, name: String, maps: u32, map_bytes: u64, reduces: u32) -> JobPlan {
        let map_mb = map_bytes as f64 / MB as f64;
        // A map-only job has no map output for reduces.
        let map_output_bytes = if reduces == 0 { 0 } else { (map_bytes as f64 * self.shuffle_ratio) as u64 };
        let mut job = JobPlan {
            id: JobId(0),
            name,
            user: "default".into(),
            pool: "default".into(),
            priority: Priority::Normal,
            submit: Time::ZERO,
            group: 0,
            maps,
            map_bytes,
            map_compute: Span::from_secs_f64(map_mb * self.map_s_per_mb),
            map_output_bytes,
            reduces,
            reduce_compute: Span::ZERO,
            reduce_output_bytes: 0,
            slowstart_ppm: SLOWSTART_PPM,
            relative_ppm: PerKind::default(),
            input: None,
        };
        let partition = job.partition_bytes() as f64;
        job.reduce_compute = Span::from_secs_f64(partition / MB as f64 * self.reduce_s_per_mb);
        job.reduce_output_bytes = (partition * self.output_ratio) as u64;
        job
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_unique() {
        assert!(APPS.windows(2).all(|pair| pair[0].name < pair[1].name));
    }

    #[test]
    fn compute_times_per_block_are_as_documented() {
        let seconds =
            |name: &str| App::by_name(name).unwrap().job("j".into(), 1, 128 * MB, 1).map_compute.as_secs_f64();
        assert!((30.0..40.0).contains(&seconds("wordcount")));
        assert!((5.0..12.0).contains(&seconds("sort")), "without reading and launching");
        assert!((50.0..90.0).contains(&seconds("kmeans")));
    }

    #[test]
    fn reduce_heavy_jobs_shuffle_one_to_three_times_their_input() {
        // FCS, section 5.4.
        for name in ["terasort", "selfjoin", "sequencecount", "rankedinvertedindex"] {
            let ratio = App::by_name(name).unwrap().shuffle_ratio;
            assert!((1.0..=3.0).contains(&ratio), "{name}");
        }
    }

    #[test]
    fn a_job_without_reduces_shuffles_nothing() {
        let job = App::by_name("sort").unwrap().job("j".into(), 10, 128 * MB, 0);
        assert_eq!((job.map_output_bytes, job.partition_bytes(), job.reduce_compute), (0, 0, Span::ZERO));
    }
}
