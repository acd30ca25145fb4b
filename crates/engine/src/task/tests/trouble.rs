//! What goes wrong: damaged and missing outputs, silent nodes, broken programs and disks.

use super::*;
use crate::data::MapOutput;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

fn map(index: u32, number: u16) -> AttemptId {
    AttemptId::new(JOB, Kind::Map, index, number)
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(30), "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A reduce on a thread of its own.
fn spawn(
    cluster: &Cluster,
    number: u16,
    start: Start,
) -> (Arc<Control>, std::thread::JoinHandle<Result<ReduceEnd, Failure>>) {
    let control = cluster.control();
    let task = cluster.reduce_task(0, number, 0, start);
    let theirs = Arc::clone(&control);
    (control, std::thread::spawn(move || run_reduce(&task, &theirs)))
}

/// Outputs that are damaged or missing, on this node or on another, are reported; the reduce goes on when they were made again.
#[test]
fn outputs_that_are_damaged_or_missing_are_reported_and_waited_for() {
    for node in [0, 1] {
        for is_missing in [false, true] {
            let cluster = Setup::new(60, 20, 21).build();
            cluster.run_maps();
            // Node `n` has the outputs of splits `n`, `n + 3`, and so on.
            let path = map_output(&cluster.dir(node), map(node + 3, 0));
            if is_missing {
                std::fs::remove_file(&path).unwrap();
            } else {
                let part = MapOutput::open(&path).unwrap().parts[0];
                let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
                file.write_all_at(b"?", part.offset + part.stored_bytes / 2).unwrap();
            }
            let (control, reduce) = spawn(&cluster, 0, Start::Fresh);
            wait_until("the report", || !cluster.bad.lock().unwrap().is_empty());
            assert_eq!(cluster.bad.lock().unwrap()[0], map(node + 3, 0));
            wait_until("the others", || control.progress_ppm() > 150_000);
            assert!(!reduce.is_finished());
            cluster.outputs.drop_one(node + 3, 0);
            cluster.run_map(node + 3, 1, 2);
            let end = reduce.join().unwrap().unwrap();
            assert_eq!(counter(&end, counter::SEGMENTS_FETCHED), cluster.plan.splits.len() as u64);
            cluster.check(0);
        }
    }
}

#[test]
fn a_node_that_does_not_answer_is_tried_again() {
    let cluster = Setup::new(60, 20, 22).build();
    cluster.run_maps();
    // Nobody listens there.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    cluster.shuffles[0].set_address(NodeId(1), Some(closed));
    cluster.shuffles[0].set_address(NodeId(2), None);
    let (control, reduce) = spawn(&cluster, 0, Start::Fresh);
    wait_until("its own", || control.progress_ppm() > 0);
    std::thread::sleep(Duration::from_millis(50));
    cluster.serve(1);
    cluster.serve(2);
    reduce.join().unwrap().unwrap();
    cluster.check(0);
    assert!(cluster.bad.lock().unwrap().is_empty());
}

#[test]
fn connections_that_are_closed_are_made_again() {
    let cluster = Setup::new(60, 20, 28).build();
    cluster.run_maps();
    cluster.serve_briefly(1, 1);
    cluster.serve_briefly(2, 2);
    cluster.reduce(0, 0, 0, Start::Fresh).unwrap();
    cluster.check(0);
    assert!(cluster.bad.lock().unwrap().is_empty());
}

/// A worker whose files cannot be reached sends what is in them.
#[test]
fn segments_that_cannot_be_had_in_place_come_over_the_line() {
    let cluster = Setup { memory_bytes: 1 << 10, ..Setup::new(60, 20, 29) }.build();
    cluster.run_maps();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    cluster.shuffles[0].set_address(NodeId(1), Some(listener.local_addr().unwrap().to_string()));
    let (dir, token) = (cluster.dir(1), cluster.token.clone());
    let far = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        wire::accept(&mut stream, &token).unwrap();
        let mut sent = 0;
        while let Ok(wire::DataRequest::Segment(request)) = wire::receive(&mut stream, SEGMENT_MESSAGE_BYTES_MAX) {
            if request.in_place_bytes_min < u64::MAX {
                wire::send(&mut stream, &SegmentAnswer::InPlace { path: "/not/of/this/machine".into() }).unwrap();
            } else {
                serve_segment(request, &dir, &mut stream).unwrap();
                sent += 1;
            }
        }
        sent
    });
    cluster.reduce(0, 0, 0, Start::Fresh).unwrap();
    cluster.check(0);
    assert!(cluster.bad.lock().unwrap().is_empty());
    cluster.serve(1);
    assert!(far.join().unwrap() > 0);
}

/// What was taken in place stays, whatever becomes of the worker it was taken from.
#[test]
fn segments_taken_in_place_outlive_their_worker() {
    let cluster = Setup { memory_bytes: 1 << 10, ..Setup::new(60, 20, 30) }.build();
    cluster.run_maps();
    cluster.ask_at(3, Ask::GiveWay);
    assert!(matches!(cluster.reduce(0, 0, 0, Start::Fresh).unwrap(), ReduceEnd::Paused { .. }));
    std::fs::remove_dir_all(cluster.dir(1)).unwrap();
    std::fs::remove_dir_all(cluster.dir(2)).unwrap();
    cluster.reduce(0, 1, 0, Start::Resumed { from: attempt(0, 0) }).unwrap();
    cluster.check(0);
}

/// A node that takes calls and then says nothing must not keep a reduce from giving way.
#[test]
fn a_silent_node_does_not_hold_up_a_pause() {
    let cluster = Setup::new(60, 20, 23).build();
    cluster.run_maps();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    cluster.shuffles[0].set_address(NodeId(1), Some(listener.local_addr().unwrap().to_string()));
    let token = cluster.token.clone();
    let silent = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        wire::accept(&mut stream, &token).unwrap();
        stream
    });
    let (control, reduce) = spawn(&cluster, 0, Start::Fresh);
    let stream = silent.join().unwrap();
    std::thread::sleep(Duration::from_millis(20));
    assert!(!reduce.is_finished());
    let asked = Instant::now();
    control.ask(Ask::GiveWay);
    assert!(matches!(reduce.join().unwrap().unwrap(), ReduceEnd::Paused { .. }));
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    drop(stream);
    cluster.serve(1);
    let end = cluster.reduce(0, 1, 0, Start::Resumed { from: attempt(0, 0) }).unwrap();
    assert_eq!(counter(&end, counter::SEGMENTS_FETCHED), cluster.plan.splits.len() as u64, "none of them twice");
    cluster.check(0);
}

#[test]
fn a_checkpoint_that_is_damaged_or_missing_is_named() {
    let cluster = Setup::new(60, 20, 24).build();
    cluster.run_maps();
    let missing = cluster.reduce(0, 1, 0, Start::Resumed { from: attempt(0, 0) }).unwrap_err();
    assert!(missing.0.contains("checkpoint: there is none"), "{missing}");
    let mut number = 10;
    for at in 0..40 {
        cluster.ask_at(3, Ask::GiveWay);
        cluster.reduce(0, number, 0, Start::Fresh).unwrap();
        let path = reduce_folder(&cluster.dir(0), attempt(0, number)).join("checkpoint");
        let mut bytes = std::fs::read(&path).unwrap();
        let at = at * bytes.len() / 40;
        bytes[at] ^= 4;
        std::fs::write(&path, &bytes).unwrap();
        let damaged = cluster.reduce(0, number + 1, 0, Start::Resumed { from: attempt(0, number) }).unwrap_err();
        assert!(damaged.0.contains("checkpoint: it is damaged"), "{damaged}");
        assert_eq!(survey(&cluster.dir(0), JOB).unwrap().paused, []);
        number += 2;
    }
    *cluster.app.ask.lock().unwrap() = None;
    cluster.reduce(0, number, 0, Start::Fresh).unwrap();
    cluster.check(0);
}

#[test]
fn a_paused_reduce_without_its_output_is_not_resumed() {
    let cluster = Setup::new(60, 20, 25).build();
    cluster.run_maps();
    cluster.ask_at(3, Ask::GiveWay);
    cluster.reduce(0, 0, 0, Start::Fresh).unwrap();
    let output =
        std::fs::OpenOptions::new().write(true).open(cluster.plan.output.join(TEMPORARY).join("reduce-0.0.of-7"));
    output.unwrap().set_len(1).unwrap();
    let failure = cluster.reduce(0, 1, 0, Start::Resumed { from: attempt(0, 0) }).unwrap_err();
    assert!(failure.0.contains("its output is gone"), "{failure}");
    cluster.check_is_clean(0);
}

#[test]
fn a_stop_in_any_phase_leaves_nothing() {
    let cluster = Setup::new(60, 20, 26).build();
    std::fs::create_dir_all(cluster.plan.output.join(TEMPORARY)).unwrap();
    let (control, reduce) = spawn(&cluster, 0, Start::Fresh);
    std::thread::sleep(Duration::from_millis(5));
    control.ask(Ask::GiveWay);
    control.ask(Ask::Stop);
    // It may have paused before it saw the stop.
    if let ReduceEnd::Paused { .. } = reduce.join().unwrap().unwrap() {
        forget_paused(&cluster.dir(0), attempt(0, 0)).unwrap();
    }
    cluster.check_is_clean(0);
    cluster.run_maps();
    let end = cluster.reduce(0, 1, 0, Start::Fresh).unwrap();
    std::fs::remove_file(reduce_part(&cluster.plan, 0)).unwrap();
    for key in 1..=counter(&end, "words") {
        cluster.ask_at(key, Ask::Stop);
        assert_eq!(cluster.reduce(0, 2, 0, Start::Fresh).unwrap(), ReduceEnd::Stopped, "at key {key}");
        cluster.check_is_clean(0);
        assert!(!reduce_part(&cluster.plan, 0).exists());
    }
}

#[test]
fn a_reducer_that_panics_says_why_and_leaves_nothing() {
    let setup = Setup { text: "a b REDUCEPANIC z\n".into(), reduces: 1, ..Setup::new(0, 1, 0) };
    let cluster = setup.build();
    cluster.run_maps();
    let failure = cluster.reduce(0, 0, 0, Start::Fresh).unwrap_err();
    assert!(failure.0.contains("panicked: cannot stand this key"), "{failure}");
    cluster.check_is_clean(0);
}

#[test]
fn an_output_that_cannot_be_written_is_named() {
    let cluster = Setup::new(60, 20, 27).build();
    cluster.run_maps();
    std::fs::remove_dir_all(&cluster.plan.output).unwrap();
    std::fs::write(&cluster.plan.output, "in the way").unwrap();
    let failure = cluster.reduce(0, 0, 0, Start::Fresh).unwrap_err();
    assert!(failure.0.contains("cannot write"), "{failure}");
}
