//! Faults: corrupt and missing outputs, unresponsive nodes, failing applications and disks.

use super::*;
use crate::data::MapOutput;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

fn map(index: u32, number: u16) -> AttemptId {
    AttemptId::new(JOB, Kind::Map, index, number)
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(30), "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs reduce 0 on its own thread.
fn spawn(
    cluster: &Cluster,
    number: u16,
    start: Start,
) -> (Arc<Control>, std::thread::JoinHandle<Result<Report, ReduceError>>) {
    let control = cluster.control();
    let task = cluster.reduce_task(0, number, 0, start);
    let theirs = Arc::clone(&control);
    (control, std::thread::spawn(move || run_reduce(&task, &theirs)))
}

/// Corrupt and missing outputs, on this node or another, are reported; the reduce continues when the maps have run again.
#[test]
fn corrupt_and_missing_outputs_are_reported_and_recomputed() {
    for node in [0, 1] {
        for is_missing in [false, true] {
            let cluster = Setup::new(60, 20, 21).build();
            cluster.run_maps();
            // Node `n` has the outputs of splits `n`, `n + 3`, and so on.
            let path = map_output_path(&cluster.dir(node), map(node + 3, 0));
            if is_missing {
                std::fs::remove_file(&path).unwrap();
            } else {
                let part = MapOutput::open(&path).unwrap().segments[0];
                let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
                file.write_all_at(b"?", part.offset + part.stored_bytes / 2).unwrap();
            }
            let (control, reduce) = spawn(&cluster, 0, Start::Fresh);
            wait_until("the report", || !cluster.bad.lock().unwrap().is_empty());
            assert_eq!(cluster.bad.lock().unwrap()[0], map(node + 3, 0));
            wait_until("the other outputs", || control.progress_ppm() > 150_000);
            assert!(!reduce.is_finished());
            cluster.outputs.remove(node + 3, 0);
            cluster.run_map(node + 3, 1, 2);
            let end = reduce.join().unwrap().unwrap();
            assert_eq!(counter(&end, counter::SEGMENTS_FETCHED), cluster.plan.splits.len() as u64);
            cluster.check(0);
        }
    }
}

#[test]
fn a_node_whose_folder_is_unknown_is_retried() {
    let cluster = Setup::new(60, 20, 22).build();
    cluster.run_maps();
    cluster.fetcher.set_folder(NodeId(1), None);
    cluster.fetcher.set_folder(NodeId(2), None);
    let (control, reduce) = spawn(&cluster, 0, Start::Fresh);
    wait_until("its own outputs", || control.progress_ppm() > 0);
    std::thread::sleep(Duration::from_millis(50));
    assert!(!reduce.is_finished());
    cluster.join(1);
    cluster.join(2);
    reduce.join().unwrap().unwrap();
    cluster.check(0);
    assert!(cluster.bad.lock().unwrap().is_empty());
}

/// A large segment on another file system cannot be linked, and is copied.
#[test]
fn segments_on_another_file_system_are_copied() {
    let shared_memory = std::path::Path::new("/dev/shm");
    if !shared_memory.is_dir() {
        return println!("skipped: no {}", shared_memory.display());
    }
    let elsewhere = tempfile::tempdir_in(shared_memory).unwrap();
    let cluster = Setup { memory_bytes: 1 << 10, ..Setup::new(60, 20, 29) }.build();
    cluster.run_maps();
    let moved = job_folder(elsewhere.path(), JOB);
    std::fs::create_dir_all(&moved).unwrap();
    for entry in std::fs::read_dir(cluster.dir(1)).unwrap().flatten() {
        std::fs::copy(entry.path(), moved.join(entry.file_name())).unwrap();
    }
    cluster.fetcher.set_folder(NodeId(1), Some(elsewhere.path().to_owned()));
    cluster.request_at(3, Request::Preempt);
    assert!(matches!(cluster.reduce(0, 0, 0, Start::Fresh).unwrap(), Report::Paused { .. }));
    drop(elsewhere);
    cluster.reduce(0, 1, 0, Start::Resumed { from: attempt(0, 0) }).unwrap();
    cluster.check(0);
    assert!(cluster.bad.lock().unwrap().is_empty());
}

/// Segments added in place survive the removal of the worker's folder.
#[test]
fn segments_added_in_place_outlive_their_worker() {
    let cluster = Setup { memory_bytes: 1 << 10, ..Setup::new(60, 20, 30) }.build();
    cluster.run_maps();
    cluster.request_at(3, Request::Preempt);
    assert!(matches!(cluster.reduce(0, 0, 0, Start::Fresh).unwrap(), Report::Paused { .. }));
    std::fs::remove_dir_all(cluster.dir(1)).unwrap();
    std::fs::remove_dir_all(cluster.dir(2)).unwrap();
    cluster.reduce(0, 1, 0, Start::Resumed { from: attempt(0, 0) }).unwrap();
    cluster.check(0);
}

/// A reduce that waits for outputs pauses at once.
#[test]
fn a_missing_output_does_not_delay_a_pause() {
    let cluster = Setup::new(60, 20, 23).build();
    cluster.run_maps();
    cluster.fetcher.set_folder(NodeId(1), None);
    let (control, reduce) = spawn(&cluster, 0, Start::Fresh);
    wait_until("the other outputs", || control.progress_ppm() > 150_000);
    assert!(!reduce.is_finished());
    control.request(Request::Preempt);
    assert!(matches!(reduce.join().unwrap().unwrap(), Report::Paused { .. }));
    cluster.join(1);
    let end = cluster.reduce(0, 1, 0, Start::Resumed { from: attempt(0, 0) }).unwrap();
    assert_eq!(counter(&end, counter::SEGMENTS_FETCHED), cluster.plan.splits.len() as u64, "none of them twice");
    cluster.check(0);
}

#[test]
fn a_corrupt_or_missing_checkpoint_is_reported() {
    let cluster = Setup::new(60, 20, 24).build();
    cluster.run_maps();
    let missing = cluster.reduce(0, 1, 0, Start::Resumed { from: attempt(0, 0) }).unwrap_err();
    assert!(missing.to_string().contains("checkpoint is missing"), "{missing}");
    let mut number = 10;
    for at in 0..40 {
        cluster.request_at(3, Request::Preempt);
        cluster.reduce(0, number, 0, Start::Fresh).unwrap();
        let path = reduce_runs_folder(&cluster.dir(0), attempt(0, number)).join("checkpoint");
        let mut bytes = std::fs::read(&path).unwrap();
        let at = at * bytes.len() / 40;
        bytes[at] ^= 4;
        std::fs::write(&path, &bytes).unwrap();
        let corrupt = cluster.reduce(0, number + 1, 0, Start::Resumed { from: attempt(0, number) }).unwrap_err();
        assert!(corrupt.to_string().contains("checkpoint is corrupt"), "{corrupt}");
        assert_eq!(scan_leftovers(&cluster.dir(0), JOB).unwrap().paused, []);
        number += 2;
    }
    *cluster.app.request.lock().unwrap() = None;
    cluster.reduce(0, number, 0, Start::Fresh).unwrap();
    cluster.check(0);
}

#[test]
fn a_paused_reduce_with_a_truncated_output_is_not_resumed() {
    let cluster = Setup::new(60, 20, 25).build();
    cluster.run_maps();
    cluster.request_at(3, Request::Preempt);
    cluster.reduce(0, 0, 0, Start::Fresh).unwrap();
    let output =
        std::fs::OpenOptions::new().write(true).open(cluster.plan.output.join(TEMPORARY).join("reduce-0.0.of-7"));
    output.unwrap().set_len(1).unwrap();
    let failure = cluster.reduce(0, 1, 0, Start::Resumed { from: attempt(0, 0) }).unwrap_err();
    assert!(failure.to_string().contains("output file is missing or incomplete"), "{failure}");
    cluster.check_is_clean(0);
}

#[test]
fn a_stop_in_any_phase_leaves_no_files() {
    let cluster = Setup::new(60, 20, 26).build();
    std::fs::create_dir_all(cluster.plan.output.join(TEMPORARY)).unwrap();
    let (control, reduce) = spawn(&cluster, 0, Start::Fresh);
    std::thread::sleep(Duration::from_millis(5));
    control.request(Request::Preempt);
    control.request(Request::Stop);
    // It may have paused before the stop request arrived.
    if let Report::Paused { .. } = reduce.join().unwrap().unwrap() {
        remove_paused(&cluster.dir(0), attempt(0, 0)).unwrap();
    }
    cluster.check_is_clean(0);
    cluster.run_maps();
    let end = cluster.reduce(0, 1, 0, Start::Fresh).unwrap();
    std::fs::remove_file(reduce_part_path(&cluster.plan, 0)).unwrap();
    for key in 1..=counter(&end, "words") {
        cluster.request_at(key, Request::Stop);
        assert!(matches!(cluster.reduce(0, 2, 0, Start::Fresh).unwrap(), Report::Killed { .. }), "at key {key}");
        cluster.check_is_clean(0);
        assert!(!reduce_part_path(&cluster.plan, 0).exists());
    }
}

#[test]
fn a_panic_of_a_reducer_is_reported_and_no_files_remain() {
    let setup = Setup { text: "a b REDUCEPANIC z\n".into(), reduces: 1, ..Setup::new(0, 1, 0) };
    let cluster = setup.build();
    cluster.run_maps();
    let failure = cluster.reduce(0, 0, 0, Start::Fresh).unwrap_err();
    assert!(failure.to_string().contains("panicked: unsupported key"), "{failure}");
    cluster.check_is_clean(0);
}

#[test]
fn an_unwritable_output_is_reported() {
    let cluster = Setup::new(60, 20, 27).build();
    cluster.run_maps();
    std::fs::remove_dir_all(&cluster.plan.output).unwrap();
    std::fs::write(&cluster.plan.output, "in the way").unwrap();
    let failure = cluster.reduce(0, 0, 0, Start::Fresh).unwrap_err();
    assert!(failure.to_string().contains("cannot write"), "{failure}");
}

/// A link under the name of a part file, put there by whoever can write to the folder, is not followed.
#[test]
fn a_link_in_the_place_of_a_part_is_not_followed() {
    let cluster = Setup::new(60, 20, 31).build();
    cluster.run_maps();
    let precious = cluster.folder.path().join("precious");
    std::fs::write(&precious, "precious").unwrap();
    std::os::unix::fs::symlink(&precious, cluster.plan.output.join(TEMPORARY).join("reduce-0.0.of-7")).unwrap();
    std::os::unix::fs::symlink(&precious, reduce_part_path(&cluster.plan, 0)).unwrap();
    cluster.reduce(0, 0, 0, Start::Fresh).unwrap();
    cluster.check(0);
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
}

/// Another user who may rename the output folder has put another one in its place, or a link.
#[test]
fn an_output_folder_that_was_replaced_is_not_written_to() {
    let cluster = Setup::new(60, 20, 32).build();
    cluster.run_maps();
    let (output, moved) = (&cluster.plan.output, cluster.folder.path().join("moved"));
    std::fs::rename(output, &moved).unwrap();
    let refused = |number: u16, what: &str| {
        let failure = cluster.reduce(0, number, 0, Start::Fresh).unwrap_err();
        assert!(failure.to_string().contains(what), "{failure}");
    };
    // A folder without the nonce, which the other user cannot read.
    std::fs::create_dir_all(output.join(TEMPORARY)).unwrap();
    refused(0, "No such file");
    std::fs::write(output.join(TEMPORARY).join(NONCE), nonce_text(1)).unwrap();
    refused(1, "not the folder that was created for this job");
    // With another name of the same file, as without `fs.protected_hardlinks`.
    std::fs::remove_file(output.join(TEMPORARY).join(NONCE)).unwrap();
    std::fs::hard_link(moved.join(TEMPORARY).join(NONCE), output.join(TEMPORARY).join(NONCE)).unwrap();
    refused(2, "not the folder that was created for this job");
    assert_eq!(std::fs::read_dir(output.join(TEMPORARY)).unwrap().count(), 1, "nothing was written");
    std::fs::remove_dir_all(output).unwrap();
    // Links to the right folders: they could lead elsewhere a moment later.
    std::os::unix::fs::symlink(&moved, output).unwrap();
    refused(3, "symbolic link");
    std::fs::remove_file(output).unwrap();
    std::fs::create_dir(output).unwrap();
    std::os::unix::fs::symlink(moved.join(TEMPORARY), output.join(TEMPORARY)).unwrap();
    refused(4, "symbolic link");
    std::fs::remove_dir_all(output).unwrap();
    std::fs::rename(&moved, output).unwrap();
    cluster.reduce(0, 5, 0, Start::Fresh).unwrap();
    cluster.check(0);
}
