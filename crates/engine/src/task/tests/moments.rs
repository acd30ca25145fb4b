//! Pauses, losses and kills at any moment, chosen by a seed.

use super::*;
use std::path::Path;
use std::time::Duration;

/// A reduce that is asked to give way again and again while maps come in one by one, until it is through.
fn reduce_with_pauses(cluster: &Cluster, random: &mut Pcg64Mcg, longest_us: u64) -> (ReduceEnd, u16) {
    let mut start = Start::Fresh;
    for number in 0.. {
        let control = cluster.control();
        let wait = Duration::from_micros(random.random_range(0..longest_us * (1 + u64::from(number) / 50)));
        let asker = {
            let control = Arc::clone(&control);
            std::thread::spawn(move || {
                std::thread::sleep(wait);
                control.ask(Ask::GiveWay);
            })
        };
        let end = run_reduce(&cluster.reduce_task(0, number, 0, start), &control).unwrap();
        asker.join().unwrap();
        match end {
            ReduceEnd::Paused { .. } => start = Start::Resumed { from: attempt(0, number) },
            end => return (end, number),
        }
    }
    unreachable!("it ends some day")
}

#[test]
fn pauses_at_random_moments() {
    for seed in 0..12 {
        // From hardly any memory, so that merges are paused too, to enough.
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
                    cluster.outputs.add(OutputAt { map: split, number: 0, node, split, start_bytes: 0, bytes });
                }
            });
            let (end, pauses) = reduce_with_pauses(&cluster, &mut random, 3000);
            assert!(pauses > 0, "seed {seed}");
            assert_eq!(counter(&end, counter::SEGMENTS_FETCHED), cluster.plan.splits.len() as u64, "seed {seed}");
            assert_eq!(counter(&end, counter::RECORDS_READ_AGAIN), 0, "seed {seed}");
        });
        cluster.check(0);
        cluster.check_is_clean(0);
    }
}

/// Maps are lost and run again, in other pieces, under other names, while the reduce fetches and pauses.
#[test]
fn maps_with_several_lives() {
    for seed in 0..12 {
        let cluster = Setup { split_bytes: 2000, ..Setup::new(300, 60, 200 + seed) }.build();
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        std::thread::scope(|scope| {
            let lives = scope.spawn(|| live(&cluster, Pcg64Mcg::seed_from_u64(seed + 50)));
            reduce_with_pauses(&cluster, &mut random, 4000);
            lives.join().unwrap();
        });
        cluster.check(0);
    }
}

/// The maps of a job as a core would have them run: pieces are cut by early ends and never grow together again; what is lost is run again.
fn live(cluster: &Cluster, mut random: Pcg64Mcg) {
    struct Piece {
        split: u32,
        start_bytes: u64,
        bytes: u64,
        number: u16,
        done_on: Option<u32>,
    }
    let splits = cluster.plan.splits.iter().enumerate();
    let mut pieces: Vec<Piece> = splits
        .map(|(split, at)| Piece { split: split as u32, start_bytes: 0, bytes: at.bytes, number: 0, done_on: None })
        .collect();
    let mut losses = 4;
    while let Some(index) = pieces.iter().position(|piece| piece.done_on.is_none()) {
        let node = random.random_range(0..3);
        let piece = &mut pieces[index];
        let (split, start_bytes, number) = (piece.split, piece.start_bytes, piece.number);
        piece.number += 1;
        let task = cluster.map_task(index as u32, number, node, split, start_bytes, piece.bytes);
        // A private app, so that the control is asked at a record of this map.
        let app = Arc::new(Places::default());
        let control = Arc::new(Control::new());
        *app.control.lock().unwrap() = Arc::clone(&control);
        *app.ask.lock().unwrap() = random.random_bool(0.5).then(|| (random.random_range(1..20), Ask::GiveWay));
        let end = run_map(&MapTask { app: Arc::new(Shared(app)), ..task }, &control).unwrap();
        let mut rest = None;
        if let MapEnd::EndedEarly { done_bytes, .. } = end {
            rest = Some((start_bytes + done_bytes, piece.bytes - done_bytes));
            piece.bytes = done_bytes;
        }
        piece.done_on = Some(node);
        let (map, bytes) = (index as u32, piece.bytes);
        cluster.outputs.add(OutputAt { map, number, node: NodeId(node), split, start_bytes, bytes });
        if let Some((start_bytes, bytes)) = rest {
            pieces.push(Piece { split, start_bytes, bytes, number: 0, done_on: None });
        }
        if losses > 0 && random.random_bool(0.1) {
            losses -= 1;
            let lost = random.random_range(1..3);
            cluster.outputs.drop_node(NodeId(lost));
            for (index, piece) in pieces.iter_mut().enumerate().filter(|(_, piece)| piece.done_on == Some(lost)) {
                piece.done_on = None;
                let output = AttemptId::new(JOB, Kind::Map, index as u32, piece.number - 1);
                let _ = std::fs::remove_file(map_output(&cluster.dir(lost), output));
            }
        }
    }
}

/// A process that is killed leaves its files as they are at that moment. They are copied at every key, of an attempt from the beginning and
/// of one that was resumed; each copy is put in the place of the files, and a new attempt must give the right output.
#[test]
fn killed_at_any_key() {
    let cluster = Setup { memory_bytes: 4 << 10, ..Setup::new(80, 20, 31) }.build();
    cluster.run_maps();
    cluster.ask_at(4, Ask::GiveWay);
    cluster.reduce(0, 0, 0, Start::Fresh).unwrap();
    *cluster.app.ask.lock().unwrap() = None;
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
            assert!(!reduce_part(&cluster.plan, 0).exists() || number == 2);
            let left = survey(&node, JOB).unwrap();
            let still_paused = if number == 1 { vec![attempt(0, 0)] } else { vec![] };
            assert_eq!(left.paused, still_paused, "the one that was running is not there any more");
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

/// The slot is free soon, whatever is in memory.
#[test]
fn a_pause_with_full_memory_is_quick() {
    let mut random = Pcg64Mcg::seed_from_u64(41);
    let mut text = String::new();
    // Long words that no compression makes shorter.
    for _ in 0..1500 {
        text.extend((0..20_000).map(|_| char::from(random.random_range(b'!'..b'~'))));
        text.push('\n');
    }
    let setup = Setup { text, split_bytes: 4 << 20, reduces: 1, memory_bytes: 256 << 20, ..Setup::new(0, 1, 0) };
    let cluster = setup.build();
    cluster.run_maps();
    let mut took = Vec::new();
    for key in [1, 700] {
        cluster.ask_at(0, Ask::GiveWay);
        let control = cluster.control();
        let ours = Arc::clone(&control);
        let asked = Arc::new(Mutex::new(None));
        let theirs = Arc::clone(&asked);
        *cluster.app.at_key.lock().unwrap() = Some(Box::new(move |seen| {
            if seen == key {
                *theirs.lock().unwrap() = Some(std::time::Instant::now());
                ours.ask(Ask::GiveWay);
            }
        }));
        let end = run_reduce(&cluster.reduce_task(0, key as u16, 0, Start::Fresh), &control).unwrap();
        assert!(matches!(end, ReduceEnd::Paused { .. }));
        took.push(asked.lock().unwrap().take().unwrap().elapsed());
    }
    println!("from the wish to the pause: {took:?}");
    assert!(took.iter().all(|took| *took < Duration::from_secs(2)), "{took:?}");
}
