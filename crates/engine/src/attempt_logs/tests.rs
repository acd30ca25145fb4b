use super::*;
use giveway_mapreduce::task_log::{print, write};
use std::fs;

fn attempt(index: u32) -> AttemptId {
    AttemptId::new(JobId(4), Kind::Map, index, 0)
}

fn read_all(log: &AttemptLog) -> Vec<u8> {
    let (mut all, mut from) = (Vec::new(), 0);
    loop {
        let chunk = log.read(from, 1000).unwrap();
        if chunk.bytes.is_empty() {
            return all;
        }
        from = chunk.start + chunk.bytes.len() as u64;
        all.extend(chunk.bytes);
    }
}

#[test]
fn what_an_attempt_prints_is_found_and_nothing_else() {
    let cluster = tempfile::tempdir().unwrap();
    let store = LogStore::open(&cluster.path().join("node-0"), BUDGET_BYTES);
    print("outside of an attempt");
    {
        let _current = store.begin(attempt(7));
        print("first");
        write(b"second\n\xff");
    }
    print("after it");
    drop(store.begin(attempt(8)));
    let logs = find(cluster.path(), JobId(4)).unwrap();
    assert_eq!(logs.len(), 1, "an attempt that prints nothing has no file");
    assert_eq!((logs[0].name().as_str(), logs[0].node.as_str()), ("map-7.0", "node-0"));
    assert_eq!(read_all(&logs[0]), b"first\nsecond\n\xff");
    assert_eq!(logs[0].read(6, 3).unwrap(), LogChunk { start: 6, bytes: b"sec".to_vec() });
    assert_eq!(logs[0].read(14, 3).unwrap().bytes, b"");
    assert!(find(cluster.path(), JobId(5)).unwrap().is_empty());
}

#[test]
fn of_a_long_log_the_beginning_and_the_end_are_kept() {
    let cluster = tempfile::tempdir().unwrap();
    let store = LogStore::open(&cluster.path().join("node-0"), BUDGET_BYTES);
    let line = |number: u64| format!("{number:>1023}\n");
    let lines = 10 * FILE_BYTES_MAX / 1024;
    {
        let _current = store.begin(attempt(0));
        (0..lines).for_each(|number| print(line(number)));
    }
    let log = find(cluster.path(), JobId(4)).unwrap().remove(0);
    assert_eq!(log.bytes(), 10 * FILE_BYTES_MAX);
    assert_eq!(log.stored_bytes(), FILES_MAX as u64 * FILE_BYTES_MAX);
    let text = String::from_utf8(read_all(&log)).unwrap();
    assert!(text.starts_with(&line(0)) && text.ends_with(&line(lines - 1)));
    let gap = log.read(FILE_BYTES_MAX, 10).unwrap();
    assert_eq!(gap.start, 7 * FILE_BYTES_MAX, "what is missing is skipped");
    assert!(!find(cluster.path(), JobId(4)).unwrap()[0].read(log.tail_start(5), 100).unwrap().bytes.is_empty());
}

#[test]
fn the_oldest_logs_are_removed_when_the_budget_is_used_up() {
    let cluster = tempfile::tempdir().unwrap();
    let worker = cluster.path().join("node-0");
    let old = worker.join("logs/3/map-0.0@0");
    fs::create_dir_all(old.parent().unwrap()).unwrap();
    fs::write(&old, "old").unwrap();
    fs::File::open(&old).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let store = LogStore::open(&worker, 100 << 10);
    assert!(old.exists(), "within the budget");
    for index in 0..20 {
        let _current = store.begin(attempt(index));
        write(&[b'x'; 10 << 10]);
    }
    assert!(!old.parent().unwrap().exists(), "the folder goes with the last file");
    let logs = find(cluster.path(), JobId(4)).unwrap();
    assert!((2..=10).contains(&logs.len()), "{}", logs.len());
    assert_eq!(logs.last().unwrap().attempt, attempt(19), "the newest stays");
    drop(store);
    LogStore::open(&worker, 0);
    assert!(find(cluster.path(), JobId(4)).unwrap().is_empty());
}

#[test]
fn a_worker_elsewhere_is_found_through_the_cluster() {
    let (cluster, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for _restart in 0..2 {
        LogStore::announce(cluster.path(), elsewhere.path(), "a/b").unwrap();
    }
    LogStore::announce(cluster.path(), &cluster.path().join("node-0"), "node-0").unwrap();
    let store = LogStore::open(elsewhere.path(), BUDGET_BYTES);
    let _current = store.begin(attempt(0));
    print("x");
    let logs = find(cluster.path(), JobId(4)).unwrap();
    assert_eq!((logs.len(), logs[0].node.as_str()), (1, "a/b"));
}

#[test]
fn a_log_that_cannot_be_written_is_dropped() {
    let cluster = tempfile::tempdir().unwrap();
    fs::create_dir_all(cluster.path().join("node-0")).unwrap();
    fs::write(cluster.path().join("node-0/logs"), "a file").unwrap();
    let store = LogStore::open(&cluster.path().join("node-0"), BUDGET_BYTES);
    let _current = store.begin(attempt(0));
    print("x");
    assert!(find(cluster.path(), JobId(4)).unwrap().is_empty());
}

#[test]
fn selectors_select() {
    let select = |text: &str| text.parse::<TaskSelector>();
    for text in ["map", "map-7", "map 7", "map-7.0"] {
        assert!(select(text).unwrap().selects(attempt(7)), "{text}");
    }
    for text in ["reduce", "reduce-7", "map-6", "map-7.1"] {
        assert!(!select(text).unwrap().selects(attempt(7)), "{text}");
    }
    for text in ["", "maps", "map-", "map-x", "map-7.", "map-7.99999", "../etc"] {
        assert!(select(text).is_err(), "{text}");
    }
}
