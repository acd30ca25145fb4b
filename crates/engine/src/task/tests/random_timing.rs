//! Pauses, losses and kills at random moments, chosen by a seed.

use super::*;
use std::path::Path;

/// Runs a reduce that is preempted at random checks for a request, the first one at one of its first `checks_max`, and resumed, until it finishes.
/// Returns the number of pauses too.
fn reduce_with_pauses(cluster: &Cluster, random: &mut Pcg64Mcg, checks_max: u64) -> (Report, u16) {
    let mut start = Start::Fresh;
    for number in 0.. {
        // The range grows, so that the reduce finishes in the end.
        let check = random.random_range(1..=checks_max * (1 + u64::from(number)));
        let control = Arc::new(Control::preempted_at_check(check));
        cluster.use_control(&control);
        match run_reduce(&cluster.reduce_task(0, number, 0, start), &control).unwrap() {
            Report::Paused { .. } => start = Start::Resumed { from: attempt(0, number) },
            end => return (end, number),
        }
    }
    unreachable!("the range grows until the reduce finishes")
}

#[test]
fn pauses_at_random_moments() {
    for seed in 0..12 {
        // From almost no memory, so that merges are paused too, to enough for everything.
        let memory_bytes = [1, 2 << 10, 64 << 10, 16 << 20][seed as usize % 4];
        let cluster = Setup { memory_bytes, split_bytes: 400, ..Setup::new(1000, 200, 100 + seed) }.build();
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut late = Vec::new();
        for split in 0..cluster.plan.splits.len() as u32 {
            if split % 2 == 0 { cluster.run_map(split, 0, split % 3) } else { late.push(split) }
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for split in late {
                    let bytes = cluster.plan.splits[split as usize].bytes;
                    run_map(&cluster.map_task(split, 0, 1, split, 0, bytes), &Control::new()).unwrap();
                    let node = NodeId(1);
                    cluster.outputs.add(MapOutputLocation {
                        map: split,
                        number: 0,
                        node,
                        split,
                        start_bytes: 0,
                        bytes,
                    });
                }
            });
            let (end, pauses) = reduce_with_pauses(&cluster, &mut random, 20);
            assert!(pauses > 0, "seed {seed}");
            assert_eq!(counter(&end, counter::SEGMENTS_FETCHED), cluster.plan.splits.len() as u64, "seed {seed}");
            assert_eq!(counter(&end, counter::RECORDS_READ_AGAIN), 0, "seed {seed}");
        });
        cluster.check(0);
        cluster.check_is_clean(0);
    }
}

/// Map outputs are lost and the maps run again, on other input ranges and as other tasks, while the reduce fetches and pauses.
#[test]
fn maps_run_again_while_a_reduce_fetches() {
    for seed in 0..12 {
        let cluster = Setup { split_bytes: 2000, ..Setup::new(300, 60, 200 + seed) }.build();
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        std::thread::scope(|scope| {
            let maps = scope.spawn(|| run_maps_with_losses(&cluster, Pcg64Mcg::seed_from_u64(seed + 50)));
            reduce_with_pauses(&cluster, &mut random, 20);
            maps.join().unwrap();
        });
        cluster.check(0);
    }
}

/// Runs the maps of a job as the core schedules them: early ends divide input ranges, which are never joined again; lost maps run again.
fn run_maps_with_losses(cluster: &Cluster, mut random: Pcg64Mcg) {
    struct InputRange {
        split: u32,
        start_bytes: u64,
        bytes: u64,
        number: u16,
        done_on: Option<u32>,
    }
    let splits = cluster.plan.splits.iter().enumerate();
    let mut ranges: Vec<InputRange> = splits
        .map(|(split, at)| InputRange {
            split: split as u32,
            start_bytes: 0,
            bytes: at.bytes,
            number: 0,
            done_on: None,
        })
        .collect();
    let mut losses = 4;
    while let Some(index) = ranges.iter().position(|range| range.done_on.is_none()) {
        let node = random.random_range(0..3);
        let range = &mut ranges[index];
        let (split, start_bytes, number) = (range.split, range.start_bytes, range.number);
        range.number += 1;
        let task = cluster.map_task(index as u32, number, node, split, start_bytes, range.bytes);
        // A separate application instance, so that records of this map trigger the request.
        let app = Arc::new(Places::default());
        let control = Arc::new(Control::new());
        *app.control.lock().unwrap() = Arc::clone(&control);
        *app.request.lock().unwrap() = random.random_bool(0.5).then(|| (random.random_range(1..20), Request::Preempt));
        let end = run_map(&MapTask { app: Arc::new(Shared(app)), ..task }, &control).unwrap();
        let mut rest = None;
        if let Report::EndedEarly { done_bytes, .. } = end {
            rest = Some((start_bytes + done_bytes, range.bytes - done_bytes));
            range.bytes = done_bytes;
        }
        range.done_on = Some(node);
        let (map, bytes) = (index as u32, range.bytes);
        cluster.outputs.add(MapOutputLocation { map, number, node: NodeId(node), split, start_bytes, bytes });
        if let Some((start_bytes, bytes)) = rest {
            ranges.push(InputRange { split, start_bytes, bytes, number: 0, done_on: None });
        }
        if losses > 0 && random.random_bool(0.1) {
            losses -= 1;
            let lost = random.random_range(1..3);
            cluster.outputs.remove_node(NodeId(lost));
            for (index, range) in ranges.iter_mut().enumerate().filter(|(_, range)| range.done_on == Some(lost)) {
                range.done_on = None;
                let output = AttemptId::new(JOB, Kind::Map, index as u32, range.number - 1);
                let _ = std::fs::remove_file(map_output_path(&cluster.dir(lost), output));
            }
        }
    }
}

/// A killed process leaves its files as they are at that moment. The files are copied at every key, for a fresh attempt and for a resumed one. Then
/// each copy is restored in turn, and a new attempt must produce the correct output.
#[test]
fn killed_at_any_key() {
    let cluster = Setup { memory_bytes: 4 << 10, ..Setup::new(80, 20, 31) }.build();
    cluster.run_maps();
    cluster.request_at(4, Request::Preempt);
    cluster.reduce(0, 0, 0, Start::Fresh).unwrap();
    *cluster.app.request.lock().unwrap() = None;
    let (out, node) = (cluster.plan.output.clone(), cluster.dir(0));
    for (number, start) in [(1, Start::Fresh), (2, Start::Resumed { from: attempt(0, 0) })] {
        let copies = tempfile::tempdir().unwrap();
        let (from_out, from_node, to) = (out.clone(), node.clone(), copies.path().to_owned());
        cluster.app.seen.store(0, SeqCst);
        *cluster.app.at_key.lock().unwrap() = Some(Box::new(move |key| {
            copy_folder(&from_out, &to.join(format!("{key}/out")));
            copy_folder(&from_node, &to.join(format!("{key}/node")));
        }));
        cluster.reduce(0, number, 0, start).unwrap();
        *cluster.app.at_key.lock().unwrap() = None;
        let keys = cluster.app.seen.load(SeqCst);
        assert!(keys > 3);
        for key in 1..=keys {
            for (from, to) in [("out", &out), ("node", &node)] {
                std::fs::remove_dir_all(to).unwrap();
                copy_folder(&copies.path().join(format!("{key}/{from}")), to);
            }
            assert!(!reduce_part_path(&cluster.plan, 0).exists() || number == 2);
            let leftovers = scan_leftovers(&node, JOB).unwrap();
            let still_paused = if number == 1 { vec![attempt(0, 0)] } else { vec![] };
            assert_eq!(leftovers.paused, still_paused, "an attempt that was running is not resumable");
            cluster.reduce(0, 100 + key as u16, 0, Start::Fresh).unwrap();
            cluster.check(0);
        }
    }
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// A reduce whose memory budget is used up pauses at its first key and far into its keys, and resumes there. `giveway bench engine` measures the time.
#[test]
fn pauses_with_full_memory() {
    let mut random = Pcg64Mcg::seed_from_u64(41);
    let mut text = String::new();
    // Long incompressible words.
    for _ in 0..1500 {
        text.extend((0..20_000).map(|_| char::from(random.random_range(b'!'..b'~'))));
        text.push('\n');
    }
    let setup = Setup { text, split_bytes: 4 << 20, reduces: 1, memory_bytes: 256 << 20, ..Setup::new(0, 1, 0) };
    let cluster = setup.build();
    cluster.run_maps();
    let mut start = Start::Fresh;
    for (number, key) in [(0, 1), (1, 700)] {
        cluster.request_at(key, Request::Preempt);
        assert!(matches!(cluster.reduce(0, number, 0, start).unwrap(), Report::Paused { .. }), "key {key}");
        start = Start::Resumed { from: attempt(0, number) };
    }
    *cluster.app.request.lock().unwrap() = None;
    let end = cluster.reduce(0, 2, 0, start).unwrap();
    assert_eq!(counter(&end, counter::RECORDS_READ_AGAIN), 0);
    cluster.check(0);
}
