//! What the papers' applications do to a megabyte.
//!
//! One table for all clusters and all policies. A node of speed 1 stands for one core of an AMD Opteron at
//! 2.6 GHz, the machine of hSRTF's experiment and a common one in the years of the four papers; other machines differ
//! by their speed alone. A megabyte is 2^20 bytes. The seconds are what the simulator does not add itself: it reads a
//! map's input and spills its output, and for a reduce it fetches, sorts and writes one copy. Sending the other
//! replicas down the pipeline is part of the reduce seconds.
//!
//! Where the figures come from: the ratios of the reduce-heavy jobs from FCS (one to three times their input), those of
//! GridMix2's jobs from the `keep` percentages in its README. The seconds are not measured and not copied from a table:
//! they are estimates of what such maps and reduces took on machines of those years, set so that a block of 128 MB takes
//! about half a minute to count words, ten seconds to sort and a minute to cluster.
//!
//! Two revisions were made after runs. The sorts' reduce seconds fell when it was clear that the simulator writes a copy
//! itself. The three GridMix2 jobs on packed data were made heavier (they unpack fourfold, as the README says), after runs
//! in which the mix loaded the cluster so little that pausing and killing came to the same.

use super::JobPlan;
use crate::files::MB;
use giveway_core::{JobId, Priority, Span, Time};

/// Reduces may start once this part of the maps is done: Hadoop 1's default of 5 %.
pub(crate) const SLOWSTART_PPM: u32 = 50_000;

/// What an application does to a megabyte.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct App {
    /// What people call it.
    pub name: &'static str,
    /// Seconds a map computes for each megabyte of its input.
    pub map_s_per_mb: f64,
    /// Bytes a map writes for the reduces, for each byte of its input.
    pub shuffle_ratio: f64,
    /// Seconds a reduce computes for each megabyte it fetched.
    pub reduce_s_per_mb: f64,
    /// Bytes a reduce writes for each byte it fetched.
    pub output_ratio: f64,
}

/// All applications, by name.
pub const APPS: &[App] = &[
    // Word count in GridMix2's dress: same work, on text it generated itself, so the combiner folds more of it.
    app("combiner", 0.20, 0.03, 0.05, 0.40),
    // Matches a pattern and throws nearly everything away: little more than reading.
    app("grep", 0.04, 0.001, 0.02, 1.0),
    // Parses every document and emits each word once with its document, most of the output folded by then.
    app("invertedindex", 0.16, 0.15, 0.04, 0.60),
    // Sorts text through the Java interface: parsing and serialising around an ordinary sort.
    app("javasort", 0.06, 1.0, 0.07, 1.0),
    // Compares every record with every centroid: the heaviest map of all, about a minute a block, and hardly any output.
    app("kmeans", 0.45, 0.02, 0.05, 1.0),
    // First stage of GridMix2's pipeline, which is most of it: unpacks fourfold, keeps 10 % in the map and 40 % in the
    // reduce.
    app("monsterquery", 0.24, 0.40, 0.08, 0.40),
    // Reads an index sorted by word, swaps keys and counts: a light map, all of it shuffled.
    app("rankedinvertedindex", 0.10, 1.1, 0.06, 1.0),
    // Joins candidate lists with themselves: a light map, all of it shuffled, the reduce pairs the members of each
    // list.
    app("selfjoin", 0.08, 1.0, 0.07, 0.60),
    // Every three words in a row with their document: the top of FCS's range, three bytes shuffled for one read.
    app("sequencecount", 0.35, 3.0, 0.03, 0.30),
    // Identity map and reduce: a block in 8 s of computing, all of it shuffled, written again with its replicas at
    // about 12 MB/s.
    app("sort", 0.06, 1.0, 0.07, 1.0),
    // The same through a pipe to `cat` and back, twice.
    app("streamsort", 0.10, 1.0, 0.10, 1.0),
    // Sort again, over 100-byte records and a sampled partitioner.
    app("terasort", 0.06, 1.0, 0.07, 1.0),
    // The most frequent words of each host: word count's map, then a sort of small vectors.
    app("termvector", 0.18, 0.10, 0.06, 0.30),
    // Unpacks fourfold, keeps 0.2 % in the map and 5 % in the reduce.
    app("webdatascan", 0.20, 0.008, 0.05, 0.05),
    // Unpacks fourfold and shuffles all of that, as the README warns; what it writes is packed again.
    app("webdatasort", 0.30, 4.0, 0.06, 0.25),
    // Tokenises and combines: 33 s a block of 128 MB, one byte in twenty left to shuffle.
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
    /// The application of this name.
    pub fn by_name(name: &str) -> Option<&'static App> {
        APPS.iter().find(|app| app.name == name)
    }

    /// All names, for a message.
    pub fn names() -> String {
        APPS.iter().map(|app| app.name).collect::<Vec<_>>().join(", ")
    }

    /// A job of this application, submitted at the beginning by `default` into `default`.
    pub fn job(&self, name: String, maps: u32, map_bytes: u64, reduces: u32) -> JobPlan {
        let map_mb = map_bytes as f64 / MB as f64;
        // A map-only job has nobody to write for.
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
    fn a_block_takes_what_the_benchmarks_take() {
        let seconds =
            |name: &str| App::by_name(name).unwrap().job("j".into(), 1, 128 * MB, 1).map_compute.as_secs_f64();
        assert!((30.0..40.0).contains(&seconds("wordcount")));
        assert!((5.0..12.0).contains(&seconds("sort")), "reading and launching come on top");
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
