//! Reduces that pause, resume and migrate.

use super::*;

/// A resume on the node of the pause.
fn resumed(from: u16) -> Start {
    Start::Resumed { from: attempt(0, from) }
}

fn migrated(from: u16, node: u32) -> Start {
    Start::Migrated { from: attempt(0, from), node: NodeId(node) }
}

#[test]
fn without_interruption() {
    let cluster = Setup::new(200, 60, 1).build();
    cluster.run_maps();
    cluster.run_reduces();
    for reduce in 0..2 {
        cluster.check(reduce);
        cluster.check_is_clean(reduce);
    }
    assert!(cluster.bad.lock().unwrap().is_empty());
}

/// FCS, section 3.1.2: a reduce stops at a key boundary and continues without loss or repetition.
#[test]
fn pause_at_every_key_and_resume() {
    let setup = Setup::new(60, 20, 2);
    let cluster = setup.build();
    cluster.run_maps();
    let end = cluster.reduce(0, 900, 0, Start::Fresh).unwrap();
    let keys = counter(&end, "words");
    assert!(keys > 5);
    for key in 1..keys {
        let number = 10 * key as u16;
        cluster.request_at(key, Request::Preempt);
        let paused = cluster.reduce(0, number, 0, Start::Fresh).unwrap();
        let Report::Paused { progress_ppm, .. } = paused else { panic!("{paused:?} at key {key}") };
        assert!((666_667..1_000_000).contains(&progress_ppm));
        assert_eq!(scan_leftovers(&cluster.dir(0), JOB).unwrap().paused, [attempt(0, number)]);
        // Everything is fetched already, so no map output is needed.
        let outputs = Arc::new(MapOutputTracker::new());
        let task = ReduceTask { outputs, ..cluster.reduce_task(0, number + 1, 0, resumed(number)) };
        let resumed = run_reduce(&task, &cluster.control()).unwrap();
        assert_eq!(result(&resumed), result(&end), "paused at key {key}");
        assert_eq!(counter(&resumed, counter::RECORDS_READ_AGAIN), 0);
        cluster.check(0);
        cluster.check_is_clean(0);
    }
    cluster.request_at(keys, Request::Preempt);
    let end_at_last = cluster.reduce(0, 901, 0, Start::Fresh).unwrap();
    assert_eq!(result(&end_at_last), result(&end), "after the last key the reduce finishes instead of pausing");
}

#[test]
fn pause_at_every_key_of_one_run() {
    let setup = Setup { memory_bytes: 1 << 10, ..Setup::new(100, 30, 3) };
    let cluster = setup.build();
    cluster.run_maps();
    let end = cluster.reduce(0, 900, 0, Start::Fresh).unwrap();
    let mut start = Start::Fresh;
    let mut number = 0;
    let last = loop {
        cluster.request_at(1, Request::Preempt);
        match cluster.reduce(0, number, 0, start).unwrap() {
            Report::Paused { .. } => {
                start = resumed(number);
                number += 1;
            }
            last => break last,
        }
    };
    assert_eq!(u64::from(number) + 1, counter(&end, "words"));
    assert_eq!(result(&last), result(&end));
    cluster.check(0);
    cluster.check_is_clean(0);
}

#[test]
fn migrate_at_every_key() {
    let cluster = Setup::new(60, 20, 4).build();
    cluster.run_maps();
    let end = cluster.reduce(0, 900, 0, Start::Fresh).unwrap();
    for key in 1..counter(&end, "words") {
        let number = 10 * key as u16;
        cluster.request_at(key, Request::Preempt);
        cluster.reduce(0, number, 0, Start::Fresh).unwrap();
        // It migrates, pauses there at once before it has fetched all its input, and resumes there.
        let control = cluster.control();
        control.request(Request::Preempt);
        let task = cluster.reduce_task(0, number + 1, 1, migrated(number, 0));
        assert!(matches!(run_reduce(&task, &control).unwrap(), Report::Paused { progress_ppm: 0, .. }));
        let migrated = cluster.reduce(0, number + 2, 1, resumed(number + 1)).unwrap();
        assert_eq!(
            counter(&migrated, "words"),
            counter(&end, "words"),
            "no key is reduced twice, migrated at key {key}"
        );
        assert!(counter(&migrated, counter::RECORDS_READ_AGAIN) > 0);
        let records = counter::REDUCE_INPUT_RECORDS;
        assert_eq!(counter(&migrated, records), counter(&end, records));
        cluster.check(0);
        remove_paused(&cluster.dir(0), attempt(0, number)).unwrap();
        cluster.check_is_clean(0);
    }
}

#[test]
fn a_migration_without_the_output_starts_from_the_beginning() {
    let cluster = Setup::new(60, 20, 5).build();
    cluster.run_maps();
    for (number, lost_file) in [(0, "reduce-0.0.of-7"), (10, "reduce-0.10.of-7.checkpoint")] {
        cluster.request_at(3, Request::Preempt);
        cluster.reduce(0, number, 0, Start::Fresh).unwrap();
        std::fs::remove_file(cluster.plan.output.join(TEMPORARY).join(lost_file)).unwrap();
        let end = cluster.reduce(0, number + 1, 1, migrated(number, 0)).unwrap();
        assert_eq!(counter(&end, counter::RECORDS_READ_AGAIN), 0);
        cluster.check(0);
    }
}

#[test]
fn each_phase_is_a_third_of_the_progress() {
    let cluster = Setup::new(60, 20, 6).build();
    let control = cluster.control();
    let task = cluster.reduce_task(0, 0, 0, Start::Fresh);
    let thread = {
        let control = Arc::clone(&control);
        std::thread::spawn(move || run_reduce(&task, &control))
    };
    let splits = cluster.plan.splits.len() as u32;
    for split in 0..splits - 1 {
        cluster.run_map(split, 0, split % 3);
        assert!(control.progress_ppm() <= 333_333);
    }
    // All bytes are covered, but one empty split is still missing.
    while control.progress_ppm() < 333_333 {
        std::thread::yield_now();
    }
    // A waiting task still ticks.
    let ticks = control.ticks();
    while control.ticks() == ticks {
        std::thread::yield_now();
    }
    assert_eq!(control.progress_ppm(), 333_333);
    *cluster.app.control.lock().unwrap() = Arc::clone(&control);
    cluster.request_at(1, Request::Preempt);
    let bytes = 0;
    run_map(&cluster.map_task(splits - 1, 0, 0, splits - 1, 0, bytes), &Control::new()).unwrap();
    cluster.outputs.add(MapOutputLocation {
        map: splits - 1,
        number: 0,
        node: NodeId(0),
        split: splits - 1,
        start_bytes: 0,
        bytes,
    });
    let Report::Paused { progress_ppm, .. } = thread.join().unwrap().unwrap() else { panic!("a pause was requested") };
    assert!(progress_ppm > 666_666);
}
