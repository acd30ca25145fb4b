//! Maps that end early.

use super::*;
use std::io::Write;

fn single_split(setup: Setup) -> Cluster {
    Setup { split_bytes: 1 << 20, ..setup }.build()
}

/// Runs the rest of split 0 from a byte on and adds the output to the tracker.
fn run_rest(cluster: &Cluster, index: u32, start_bytes: u64) {
    let bytes = cluster.plan.splits[0].bytes - start_bytes;
    let end = run_map(&cluster.map_task(index, 0, 1, 0, start_bytes, bytes), &cluster.control()).unwrap();
    assert!(matches!(end, Report::Finished { .. }), "{end:?}");
    cluster.outputs.add(MapOutputLocation { map: index, number: 0, node: NodeId(1), split: 0, start_bytes, bytes });
}

/// Chronos, section III-C: the former sub-task covers what was processed, the second one the rest.
#[test]
fn end_early_at_every_record() {
    let cluster = single_split(Setup::new(30, 12, 11));
    let lines = cluster.text.lines().count() as u64;
    let bytes = cluster.plan.splits[0].bytes;
    for line in 1..=lines {
        cluster.outputs.replace_all(vec![]);
        cluster.run_map(1, 0, 0);
        cluster.request_at(line, Request::Preempt);
        let number = line as u16;
        let end = run_map(&cluster.map_task(0, number, 0, 0, 0, bytes), &cluster.control()).unwrap();
        let done_bytes = match end {
            Report::EndedEarly { done_bytes, ref counters, .. } => {
                assert_eq!((counters["lines"], counters[counter::MAP_INPUT_RECORDS]), (line, line));
                done_bytes
            }
            Report::Finished { .. } if line == lines => bytes,
            other => panic!("{other:?}"),
        };
        let done: usize = cluster.text.split_inclusive('\n').take(line as usize).map(str::len).sum();
        assert_eq!(done_bytes, done as u64);
        let node = NodeId(0);
        cluster.outputs.add(MapOutputLocation { map: 0, number, node, split: 0, start_bytes: 0, bytes: done_bytes });
        if done_bytes < bytes {
            run_rest(&cluster, 2 + line as u32, done_bytes);
        }
        *cluster.app.request.lock().unwrap() = None;
        for reduce in 0..2 {
            cluster.reduce(reduce, number, 2, Start::Fresh).unwrap();
            cluster.check(reduce);
        }
    }
}

#[test]
fn one_record_at_a_time() {
    let setup = Setup { split_bytes: 97, ..Setup::new(40, 12, 12) };
    let cluster = setup.build();
    let mut index = 0;
    for (split, at) in cluster.plan.splits.iter().enumerate() {
        let mut start_bytes = 0;
        loop {
            cluster.request_at(1, Request::Preempt);
            let task = cluster.map_task(index, 0, index % 3, split as u32, start_bytes, at.bytes - start_bytes);
            let end = run_map(&task, &cluster.control()).unwrap();
            let (done, is_last) = match end {
                Report::EndedEarly { done_bytes, .. } => (done_bytes, false),
                Report::Finished { .. } => (at.bytes - start_bytes, true),
                other => panic!("{other:?}"),
            };
            let (node, split) = (NodeId(index % 3), split as u32);
            cluster.outputs.add(MapOutputLocation { map: index, number: 0, node, split, start_bytes, bytes: done });
            index += 1;
            start_bytes += done;
            if is_last {
                break;
            }
        }
    }
    *cluster.app.request.lock().unwrap() = None;
    cluster.run_reduces();
    (0..2).for_each(|reduce| cluster.check(reduce));
}

#[test]
fn preempted_before_the_first_record() {
    let cluster = single_split(Setup::new(10, 5, 13));
    let control = cluster.control();
    control.request(Request::Preempt);
    let end = run_map(&cluster.map_task(0, 0, 0, 0, 0, cluster.plan.splits[0].bytes), &control).unwrap();
    let Report::EndedEarly { done_bytes: 0, output_bytes: 0, counters, .. } = end else { panic!("{end:?}") };
    assert_eq!(counters, Counters::new());
    assert_eq!(scan_leftovers(&cluster.dir(0), JOB).unwrap(), Leftovers::default());
}

#[test]
fn a_compressed_file_is_mapped_to_its_end() {
    let mut cluster = single_split(Setup::new(30, 12, 14));
    let plan = Arc::make_mut(&mut cluster.plan);
    let FileLocation::Local(path) = &plan.files[0].location else { panic!("the input is a local file") };
    let mut encoder = flate2::write::GzEncoder::new(std::fs::File::create(path).unwrap(), flate2::Compression::fast());
    encoder.write_all(cluster.text.as_bytes()).unwrap();
    let bytes = encoder.finish().unwrap().metadata().unwrap().len();
    plan.files[0].bytes = bytes;
    plan.files[0].codec = Codec::Gzip;
    plan.splits[0].bytes = bytes;
    cluster.request_at(5, Request::Preempt);
    cluster.run_maps();
    *cluster.app.request.lock().unwrap() = None;
    cluster.run_reduces();
    (0..2).for_each(|reduce| cluster.check(reduce));
}

#[test]
fn without_reduces_the_part_files_in_name_order_are_the_output() {
    let setup = Setup { reduces: 0, split_bytes: 97, ..Setup::new(40, 12, 15) };
    let cluster = setup.build();
    let mut index = 0;
    for (split, at) in cluster.plan.splits.iter().enumerate() {
        let mut start_bytes = 0;
        while start_bytes < at.bytes {
            cluster.request_at(1 + u64::from(index) % 3, Request::Preempt);
            let task = cluster.map_task(index, 0, 0, split as u32, start_bytes, at.bytes - start_bytes);
            index += 1;
            let part = map_part_path(&cluster.plan, task.split, task.start_bytes);
            let publish = || std::fs::rename(temporary_path(&cluster.plan, task.attempt), &part).unwrap();
            match run_map(&task, &cluster.control()).unwrap() {
                Report::EndedEarly { done_bytes, .. } => {
                    publish();
                    start_bytes += done_bytes;
                }
                Report::Finished { .. } => {
                    publish();
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
    }
    let parts = std::fs::read_dir(&cluster.plan.output).unwrap().map(|entry| entry.unwrap().path());
    let mut parts: Vec<PathBuf> = parts.filter(|path| path.is_file()).collect();
    parts.sort();
    assert!(parts.len() > cluster.plan.splits.len());
    let output: String = parts.iter().map(|part| std::fs::read_to_string(part).unwrap()).collect();
    let mut expected = String::new();
    let mut offset = 0;
    for line in cluster.text.split_inclusive('\n') {
        line.split_whitespace().for_each(|word| expected.push_str(&format!("{word}\tin@{offset:08}\n")));
        offset += line.len();
    }
    assert_eq!(output, expected);
    assert_eq!(std::fs::read_dir(cluster.plan.output.join(TEMPORARY)).unwrap().count(), 1, "the nonce");
}

#[test]
fn errors_of_applications_are_reported_and_no_files_remain() {
    for reduces in [0, 2] {
        for (word, why) in [("PANIC", "panicked: no such word: 8"), ("FAIL", "cannot map the line at 8")] {
            let setup = Setup { text: format!("a b c d\n{word}\n"), reduces, ..Setup::new(0, 1, 0) };
            let cluster = single_split(setup);
            let task = cluster.map_task(0, 0, 0, 0, 0, cluster.plan.splits[0].bytes);
            let failure = run_map(&task, &cluster.control()).unwrap_err();
            assert!(failure.to_string().contains(why), "{failure}");
            check_no_files_remain(&cluster);
        }
    }
}

#[test]
fn a_stopped_map_leaves_no_files() {
    for reduces in [0, 2] {
        let cluster = single_split(Setup { reduces, ..Setup::new(30, 12, 16) });
        cluster.request_at(7, Request::Stop);
        let task = cluster.map_task(0, 0, 0, 0, 0, cluster.plan.splits[0].bytes);
        assert!(matches!(run_map(&task, &cluster.control()).unwrap(), Report::Killed { .. }));
        check_no_files_remain(&cluster);
    }
}

fn check_no_files_remain(cluster: &Cluster) {
    let temporary = cluster.plan.output.join(TEMPORARY);
    for folder in [cluster.dir(0), temporary].iter().filter(|folder| folder.exists()) {
        let mut remaining: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        remaining.retain(|path| !path.ends_with(NONCE));
        assert!(remaining.is_empty(), "{remaining:?}");
    }
}

/// Maps of one job share the job's folder on a worker, and a killed process may leave the file of a spill there.
#[test]
fn concurrent_maps_and_leftover_spills_do_not_collide() {
    let cluster = Setup { memory_bytes: 1, split_bytes: 2_000, nodes: 1, ..Setup::new(400, 40, 15) }.build();
    let maps = cluster.plan.splits.len() as u32;
    assert!(maps >= 4);
    for name in ["run-0", "map-1.0.run-0"] {
        std::fs::write(cluster.dir(0).join(name), b"of a killed process").unwrap();
    }
    std::thread::scope(|scope| {
        for map in 0..maps {
            let cluster = &cluster;
            scope.spawn(move || cluster.run_map(map, 0, 0));
        }
    });
    std::fs::write(cluster.dir(0).join("map-1.0.run-3"), b"of a killed process").unwrap();
    assert_eq!(scan_leftovers(&cluster.dir(0), JOB).unwrap().outputs.len(), maps as usize);
    assert!(!cluster.dir(0).join("map-1.0.run-3").exists());
    cluster.run_reduces();
    (0..2).for_each(|reduce| cluster.check(reduce));
}

#[test]
fn names_of_parts_sort_in_the_order_of_the_input() {
    let cluster = single_split(Setup { reduces: 0, ..Setup::new(1, 1, 17) });
    let mut plan = (*cluster.plan).clone();
    for (splits, expected) in [(2, "part-m-00001"), (100_000, "part-m-00001"), (100_001, "part-m-000001")] {
        plan.splits = vec![plan.splits[0]; splits];
        assert_eq!(map_part_path(&plan, 1, 0).file_name().unwrap(), expected);
        let last = splits as u32 - 1;
        let parts = [(0, 0), (0, 7), (last, 0), (last, 4096)];
        let paths = parts.map(|(split, start)| map_part_path(&plan, split, start));
        assert!(paths.is_sorted(), "{paths:?}");
    }
}
