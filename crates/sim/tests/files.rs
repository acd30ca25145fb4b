//! Cluster and workload files: the documented examples, and damaged input.
//!
//! `docs/files.md` has one example of each file, which must be valid. The examples are then damaged in random ways: the result must be a valid
//! value or an error with a location in the file.

use giveway_core::Kind;
use giveway_sim::cluster::{self, Cluster};
use giveway_sim::files::FileError;
use giveway_sim::workload::Workload;
use proptest::prelude::*;

const DOCS: &str = include_str!("../../../docs/files.md");

/// The documented example that starts with this comment.
fn example(first_line: &str) -> &'static str {
    let blocks = DOCS.split("```toml\n").skip(1).map(|block| block.split("```").next().unwrap());
    blocks.into_iter().find(|block| block.starts_with(first_line)).expect("docs/files.md has the example")
}

fn cluster_example() -> &'static str {
    example("# cluster.toml")
}

fn workload_example() -> &'static str {
    example("# workload.toml")
}

#[test]
fn the_documented_examples_are_valid() {
    let cluster = Cluster::from_toml(cluster_example(), "cluster.toml").unwrap();
    let workload = Workload::from_toml(workload_example(), "workload.toml", &cluster, 1).unwrap();
    assert!(cluster.nodes.len() > 10 && workload.jobs.len() > 10);
}

#[test]
fn documented_keys_are_lower_case() {
    // Keys are in the first column of the tables, in backquotes.
    for line in DOCS.lines().filter(|line| line.starts_with("| `")) {
        let key = line.trim_start_matches("| `").split('`').next().unwrap();
        assert!(key.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{line}");
    }
}

/// A random edit of a text.
#[derive(Clone, Debug)]
enum Damage {
    /// Removes a piece.
    Cut { from: prop::sample::Index, length: usize },
    /// Inserts text.
    Insert { at: prop::sample::Index, what: String },
    /// Replaces the value of a line.
    Value { which: prop::sample::Index, with: &'static str },
    /// Duplicates a line.
    Duplicate { which: prop::sample::Index },
    /// Removes a line.
    Remove { which: prop::sample::Index },
    /// Exchanges two lines.
    Swap { a: prop::sample::Index, b: prop::sample::Index },
}

const VALUES: [&str; 22] = [
    "nan",
    "-nan",
    "inf",
    "-inf",
    "-1",
    "0",
    "-0.0",
    "1",
    "0.5",
    "1e308",
    "5e-324",
    "9223372036854775807",
    "-9223372036854775808",
    "4294967296",
    "70000",
    "\"\"",
    "\"x\"",
    "\"9999999999999y\"",
    "true",
    "[]",
    "{}",
    "1979-05-27",
];

fn damage() -> impl Strategy<Value = Damage> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        (index(), 0..40_usize).prop_map(|(from, length)| Damage::Cut { from, length }),
        (index(), "\\PC{0,8}").prop_map(|(at, what)| Damage::Insert { at, what }),
        (index(), prop::sample::select(&VALUES[..])).prop_map(|(which, with)| Damage::Value { which, with }),
        (index(), prop::sample::select(&VALUES[..])).prop_map(|(which, with)| Damage::Value { which, with }),
        index().prop_map(|which| Damage::Duplicate { which }),
        index().prop_map(|which| Damage::Remove { which }),
        (index(), index()).prop_map(|(a, b)| Damage::Swap { a, b }),
    ]
}

fn damaged(text: &str, damages: &[Damage]) -> String {
    let mut text = text.to_string();
    for damage in damages {
        let mut lines: Vec<String> = text.lines().map(String::from).collect();
        if lines.is_empty() {
            return text;
        }
        let boundary = |index: &prop::sample::Index| {
            let mut at = index.index(text.len() + 1);
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        match damage {
            Damage::Cut { from, length } => {
                let from = boundary(from);
                let to = (from..=(from + length).min(text.len())).rev().find(|to| text.is_char_boundary(*to)).unwrap();
                text.replace_range(from..to, "");
                continue;
            }
            Damage::Insert { at, what } => {
                text.insert_str(boundary(at), what);
                continue;
            }
            Damage::Value { which, with } => {
                let line = which.get_mut(&mut lines);
                if let Some((key, _)) = line.split_once('=') {
                    *line = format!("{key}= {with}");
                }
            }
            Damage::Duplicate { which } => {
                let i = which.index(lines.len());
                lines.insert(i, lines[i].clone());
            }
            Damage::Remove { which } => {
                lines.remove(which.index(lines.len()));
            }
            Damage::Swap { a, b } => {
                let (a, b) = (a.index(lines.len()), b.index(lines.len()));
                lines.swap(a, b);
            }
        }
        text = lines.join("\n");
    }
    text
}

fn assert_located(error: &FileError, text: &str) {
    let location = error.location();
    assert!((1..=text.lines().count() + 1).contains(&location.line), "{error}");
    let message = error.to_string();
    assert!(message.starts_with(&format!("f.toml:{}: ", location.line)), "{message}");
    assert!(message.contains("; "), "no remedy: {message}");
    assert!(!message.contains('\n'), "{message}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_damaged_cluster_file_gives_a_valid_cluster_or_an_error(damages in prop::collection::vec(damage(), 1..6)) {
        let text = damaged(cluster_example(), &damages);
        match Cluster::from_toml(&text, "f.toml") {
            Err(error) => assert_located(&error, &text),
            Ok(cluster) => {
                prop_assert!(cluster.slots(Kind::Map) > 0 && cluster.nodes.len() <= 100_000);
                prop_assert!(cluster.replicas >= 1 && cluster.replicas as usize <= cluster.nodes.len());
                prop_assert!(cluster.block_bytes > 0 && !cluster.heartbeat.is_zero());
                for node in &cluster.nodes {
                    prop_assert!(node.spec.speed_ppm > 0 && node.net_bytes_per_s > 0 && node.spec.disk_bytes_per_s > 0);
                }
                for fault in &cluster.faults.scripted {
                    prop_assert!((fault.node.0 as usize) < cluster.nodes.len() && fault.at_s >= 0.0);
                }
                let written = cluster.to_toml();
                prop_assert_eq!(Cluster::from_toml(&written, "f.toml"), Ok(cluster), "{}", written);
            }
        }
    }

    #[test]
    fn a_damaged_workload_file_gives_a_valid_workload_or_an_error(damages in prop::collection::vec(damage(), 1..6)) {
        let text = damaged(workload_example(), &damages);
        let cluster = cluster::by_name("chronos").unwrap();
        match Workload::from_toml(&text, "f.toml", &cluster, 7) {
            Err(error) => assert_located(&error, &text),
            Ok(workload) => {
                prop_assert!(workload.tenants.check().is_ok());
                prop_assert!((0.0..1.0).contains(&workload.estimate_error) && !workload.jobs.is_empty());
                prop_assert!(workload.jobs.windows(2).all(|pair| pair[0].submit <= pair[1].submit));
                for (i, job) in workload.jobs.iter().enumerate() {
                    prop_assert!(job.id.0 as usize == i && job.maps > 0);
                    prop_assert!(usize::from(job.group) < workload.groups.len());
                    prop_assert!(job.slowstart_ppm <= 1_000_000);
                }
            }
        }
    }

    #[test]
    fn arbitrary_text_is_an_error(text in "\\PC{0,200}") {
        let cluster = cluster::by_name("chronos").unwrap();
        assert_located(&Cluster::from_toml(&text, "f.toml").unwrap_err(), &text);
        assert_located(&Workload::from_toml(&text, "f.toml", &cluster, 7).unwrap_err(), &text);
    }
}
