//! End-to-end tests of jobs on an engine cluster: results, rejected submissions, failing programs, and isolation between jobs.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn giveway(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_giveway")).args(args).current_dir(folder).output().expect("cannot run giveway")
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("cannot create a temporary directory")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command that must fail without a panic; returns its exit code and error message.
fn fails(folder: &Path, args: &[&str]) -> (i32, String) {
    let output = giveway(folder, args);
    let message = text(&output.stderr);
    assert!(!output.status.success(), "{args:?} succeeded");
    assert!(!message.contains("panicked"), "{args:?}: {message}");
    (output.status.code().expect("ended by a signal"), message)
}

fn file(folder: &TempDir, name: &str, content: &str) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, content).expect("cannot write a test file");
    path
}

/// A cluster of two workers, stopped when dropped.
struct TestCluster {
    folder: TempDir,
    child: Child,
}

impl TestCluster {
    fn start() -> TestCluster {
        let folder = folder();
        let child = Command::new(env!("CARGO_BIN_EXE_giveway"))
            .args(["up", "--nodes", "2", "--heartbeat", "50ms", "--timeout", "1s", "--dir", "cluster"])
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("cannot start giveway up");
        let mut cluster = TestCluster { folder, child };
        let mut first_bytes = [0; 16];
        cluster
            .child
            .stdout
            .as_mut()
            .expect("stdout is not piped")
            .read_exact(&mut first_bytes)
            .expect("no startup message");
        cluster
    }

    fn run(&self, args: &[&str]) -> Output {
        giveway(self.folder.path(), &[args, &["--dir", "cluster"]].concat())
    }

    /// Runs a word count and checks its output.
    fn word_count_works(&self, name: &str) {
        fs::write(self.folder.path().join("words"), "b a b\n").expect("cannot write the input");
        let output = self.run(&["submit", "wordcount", "--input", "words", "--output", name, "--wait"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let counts =
            fs::read_to_string(self.folder.path().join(name).join("part-r-00000")).expect("cannot read the output");
        assert_eq!(counts, "a\t1\nb\t2\n");
    }
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        let _ = self.run(&["down"]);
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(10) && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn run_executes_a_job_and_removes_its_temporary_cluster() {
    let folder = folder();
    file(&folder, "words", "to be or\nnot to be\n");
    let output = giveway(folder.path(), &["run", "wordcount", "--input", "words", "--output", "out"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(
        fs::read_to_string(folder.path().join("out/part-r-00000")).expect("cannot read the output"),
        "be\t2\nnot\t1\nor\t1\nto\t2\n"
    );
    let left: Vec<_> = fs::read_dir(folder.path())
        .expect("cannot list the directory")
        .map(|entry| entry.expect("cannot read an entry").file_name())
        .collect();
    assert_eq!(left.len(), 2, "leftover files: {left:?}");
}

#[test]
fn streaming_runs_shell_commands() {
    let folder = folder();
    file(&folder, "words", "to be or\nnot to be\n");
    let args = ["run", "streaming", "--mapper", "tr ' ' '\\n'", "--reducer", "uniq -c | awk '{print $2, $1}'"];
    let output = giveway(folder.path(), &[&args[..], &["--input", "words", "--output", "out"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(
        fs::read_to_string(folder.path().join("out/part-r-00000")).expect("cannot read the output"),
        "be 2\nnot 1\nor 1\nto 2\n"
    );
}

#[test]
fn the_streaming_example_counts_words() {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: the example needs Python");
        return;
    }
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/streaming");
    let [mapper, reducer] =
        ["mapper.py", "reducer.py"].map(|name| example.join(name).to_str().expect("a path in UTF-8").to_owned());
    let folder = folder();
    file(&folder, "words", "to be or\nnot to be\n");
    let args = ["run", "streaming", "--mapper", &mapper, "--reducer", &reducer, "--input", "words"];
    let combiner = format!("combiner={reducer}");
    for (out, options) in [("out", &[][..]), ("combined", &["-O", &combiner])] {
        let output = giveway(folder.path(), &[&args[..], &["--output", out], options].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let counts = fs::read_to_string(folder.path().join(out).join("part-r-00000")).expect("cannot read the output");
        assert_eq!(counts, "be\t2\nnot\t1\nor\t1\nto\t2\n");
    }
}

#[test]
fn invalid_submissions_are_refused_before_the_job_starts() {
    let folder = folder();
    file(&folder, "words", "a b\n");
    fs::create_dir(folder.path().join("existing")).expect("cannot create a directory");
    let run = |args: &[&str]| fails(folder.path(), &[&["run"], args].concat());
    let (code, message) = run(&["wordcount", "--input", "missing", "--output", "out"]);
    assert!(code == 2 && message.contains("missing"), "{message}");
    let (code, message) = run(&["wordcount", "--input", "no-*.txt", "--output", "out"]);
    assert!(code == 2 && message.contains("no-*.txt"), "{message}");
    let (code, message) = run(&["wordcount", "--input", "words", "--output", "existing"]);
    assert!(code == 2 && message.contains("exists already"), "{message}");
    let (code, message) = run(&["wordcount", "--input", "words", "--output", "out", "--name", "\u{1b}[31mred"]);
    assert!(code == 2 && message.contains("control characters") && !message.contains('\u{1b}'), "{message:?}");
    let (code, message) = run(&["nonsense", "--input", "words", "--output", "out"]);
    assert!(code == 2 && message.contains("wordcount"), "lists the applications: {message}");
    let (code, message) = run(&["grep", "--input", "words", "--output", "out", "-O", "pattern=("]);
    assert!(code == 2 && message.contains("pattern"), "{message}");
    let (code, message) = run(&["wordcount", "--input", "words", "--output", "out", "-O", "colour=red"]);
    assert!(code == 2 && message.contains("colour"), "{message}");
    let (code, message) = run(&["wordcount", "--input", "words", "--output", "out", "--policy", "nonsense"]);
    assert!(code == 2 && message.contains("nonsense"), "{message}");
    let (code, message) = run(&["wordcount", "--input", "words", "--output", "hdfs://nn:8020/out"]);
    assert!(code == 2 && message.contains("hdfs dfs -put"), "{message}");
    if cfg!(not(feature = "hdfs")) {
        let (code, message) = run(&["wordcount", "--input", "hdfs://nn:8020/in", "--output", "out"]);
        assert!(code == 2 && message.contains("cargo build --release --features hdfs"), "{message}");
    }
    assert!(!folder.path().join("out").exists(), "output directory created");
    let (code, message) = fails(folder.path(), &["jobs", "--dir", "nowhere"]);
    assert!(code == 2 && message.contains("giveway up"), "{message}");
}

#[test]
fn failing_programs_fail_their_job_with_their_stderr() {
    let folder = folder();
    file(&folder, "words", "a b\nc d\n");
    let run = |mapper: &str, more: &[&str]| {
        let args = ["run", "streaming", "--input", "words", "--output", "out", "--reducer", "cat", "--mapper", mapper];
        fails(folder.path(), &[&args[..], more].concat())
    };
    let (code, message) = run("cat > /dev/null; echo the disk is on fire >&2; exit 3", &[]);
    assert!(code == 1 && message.contains("ended with exit status 3"), "{message}");
    assert_eq!(message.lines().filter(|&line| line == "the disk is on fire").count(), 1, "once: {message}");
    assert_eq!(message.matches("failed").count(), 1, "{message}");
    let (code, message) = run("no-such-program", &[]);
    assert!(code == 1 && message.contains("no-such-program"), "{message}");
    let (code, message) = run("kill -9 $$", &[]);
    assert!(code == 1 && message.contains("signal"), "{message}");
    let (code, message) = run("sleep 600", &["--task-timeout", "300ms"]);
    assert!(code == 1 && message.contains("made no progress"), "{message}");
    let (code, message) = run("cat > /dev/null; head -c 100000000 /dev/zero | tr '\\0' x", &[]);
    assert!(code == 1 && message.contains("a line of more than"), "{message}");
    assert!(!folder.path().join("out").exists(), "a failed job leaves no output");
}

#[test]
fn binary_data_passes_through_streaming() {
    let folder = folder();
    file(&folder, "words", "a\n");
    let mapper = "cat > /dev/null; printf '\\377\\000\\t\\001\\n\\n\\t\\n'";
    let args = ["run", "streaming", "--input", "words", "--output", "out", "--reducer", "cat", "--mapper", mapper];
    let output = giveway(folder.path(), &args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(fs::read(folder.path().join("out/part-r-00000")).expect("cannot read the output").contains(&0xff));
}

#[test]
fn a_failing_job_does_not_affect_others() {
    let cluster = TestCluster::start();
    let root = cluster.folder.path();
    cluster.word_count_works("first");
    fs::write(root.join("lines"), "x\n".repeat(100)).expect("cannot write the input");
    let failing =
        ["submit", "streaming", "--mapper", "exit 1", "--reducer", "cat", "--input", "lines", "--output", "broken"];
    let failing = cluster.run(&failing);
    assert!(failing.status.success(), "not accepted: {}", text(&failing.stderr));
    cluster.word_count_works("second");
    assert!(root.join("first/_SUCCESS").exists(), "committed output is gone");
    let start = Instant::now();
    let id = text(&failing.stdout).trim().to_string();
    loop {
        let status = text(&cluster.run(&["job", &id]).stdout);
        if status.contains("failed") {
            assert_eq!(status.matches("ended with exit status 1").count(), 1, "the reason, once: {status}");
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(180), "{status}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_running_job_can_be_explained_preempted_and_killed() {
    let cluster = TestCluster::start();
    let root = cluster.folder.path();
    fs::write(root.join("lines"), "x y\n".repeat(2_000)).expect("cannot write the input");
    let slow =
        ["submit", "sort", "--input", "lines", "--output", "slow", "--records-per-second", "200", "--split", "2000"];
    let id = text(&cluster.run(&slow).stdout).trim().to_string();
    std::thread::sleep(Duration::from_millis(300));
    assert!(cluster.run(&["yield", &id]).status.success());
    let explained = text(&cluster.run(&["explain", &id]).stdout);
    assert!(explained.contains("Maps:") && explained.contains("recent decisions"), "{explained}");
    let nodes = text(&cluster.run(&["nodes"]).stdout);
    assert!(nodes.contains("node-0") && nodes.contains("up"), "{nodes}");
    assert!(cluster.run(&["kill", &id]).status.success());
    cluster.word_count_works("after");
    let jobs = text(&cluster.run(&["jobs"]).stdout);
    assert!(jobs.contains("killed") && jobs.contains("succeeded"), "{jobs}");
    assert!(!root.join("slow").exists(), "a killed job leaves no output");
    let listed = cluster.run(&["jobs", "--json", "--state", "killed"]).stdout;
    let listed: serde_json::Value = serde_json::from_slice(&listed).expect("jobs --json prints JSON");
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!((listed[0]["job"].to_string(), &listed[0]["pool"]), (id.clone(), &listed[0]["user"]));
    let tasks = cluster.run(&["job", &id, "--tasks", "--json"]).stdout;
    let tasks: serde_json::Value = serde_json::from_slice(&tasks).expect("job --tasks --json prints JSON");
    let first = (&tasks["attempts"][0]["kind"], &tasks["attempts"][0]["ended"]);
    assert_eq!(first, (&"map".into(), &"ended-early".into()), "{tasks}");
    let tasks = text(&cluster.run(&["job", &id, "--tasks"]).stdout);
    assert!(tasks.contains("slow") && tasks.contains("map 0") && tasks.contains("node-"), "{tasks}");
    // The journal alone is enough: no cluster runs in the copy.
    fs::create_dir_all(root.join("copy/journal")).expect("cannot create the copy");
    fs::copy(root.join("cluster/journal/log"), root.join("copy/journal/log")).expect("cannot copy the journal");
    let history = giveway(root, &["history", "--dir", "copy"]);
    let history = (history.status.success(), text(&history.stdout));
    assert!(history.0 && history.1.contains("killed") && history.1.contains("succeeded"), "{}", history.1);
    assert!(text(&giveway(root, &["explain", &id, "--dir", "copy"]).stdout).contains("Killed"));
    assert!(cluster.run(&["kill", &id]).status.success(), "it is killed");
    assert_eq!(cluster.run(&["kill", "2"]).status.code(), Some(2), "it has succeeded");
    assert_eq!(cluster.run(&["job", "99"]).status.code(), Some(2));
}

#[test]
fn peers_of_another_protocol_are_rejected_without_blocking() {
    let cluster = TestCluster::start();
    let cluster_dir = cluster.folder.path().join("cluster");
    let address = fs::read_to_string(cluster_dir.join("address")).expect("cannot read the address");
    let address = address.lines().next().expect("the address is empty");
    // Another protocol, another version, an incomplete handshake, and no bytes at all.
    let mut connections = Vec::new();
    for handshake in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"giveway\n\xff\xff\xff\xff", b"give", b""] {
        let mut connection = UnixStream::connect(address).expect("cannot connect");
        connection.write_all(handshake).expect("cannot write");
        connections.push(connection);
    }
    cluster.word_count_works("after");
    drop(connections);
}

/// A byte of a map output is changed on disk before a reduce fetches it. The checksum detects it and the map is re-executed.
#[test]
fn a_damaged_map_output_is_recomputed() {
    let cluster = TestCluster::start();
    let root = cluster.folder.path();
    let lines: String = (0..20_000).map(|n| format!("{:05} line\n", (n * 7_919) % 20_000)).collect();
    fs::write(root.join("lines"), &lines).expect("cannot write the input");
    // Two reduces of a slow job occupy both reduce slots, so that the map outputs of the next job are not fetched yet.
    fs::write(root.join("few"), "a b\n".repeat(1_500)).expect("cannot write the input");
    let slow =
        ["submit", "sort", "--input", "few", "--output", "slow", "--reduces", "2", "--records-per-second", "500"];
    assert!(cluster.run(&slow).status.success());
    let sort = ["submit", "sort", "--input", "lines", "--output", "out", "--reduces", "2", "--split", "60000"];
    let id = text(&cluster.run(&sort).stdout).trim().to_string();
    let start = Instant::now();
    let mut damaged = false;
    while !damaged && start.elapsed() < Duration::from_secs(120) {
        for node in ["node-0", "node-1"] {
            let job_dir = root.join("cluster").join(node).join("jobs").join(&id);
            for entry in fs::read_dir(&job_dir).into_iter().flatten().flatten() {
                if entry.file_name().to_string_lossy().ends_with(".out") && !damaged {
                    let mut bytes = fs::read(entry.path()).expect("cannot read a map output");
                    let middle = bytes.len() / 3;
                    bytes[middle] ^= 0x55;
                    fs::write(entry.path(), bytes).expect("cannot write a map output");
                    damaged = true;
                }
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(damaged, "no map output appeared");
    loop {
        let status = text(&cluster.run(&["job", &id]).stdout);
        if status.contains(": succeeded") {
            break;
        }
        assert!(!status.contains("failed") && start.elapsed() < Duration::from_secs(180), "{status}");
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut sorted: Vec<&str> = lines.lines().collect();
    sorted.sort_unstable();
    let parts = ["part-r-00000", "part-r-00001"]
        .map(|part| fs::read_to_string(root.join("out").join(part)).expect("cannot read a part"));
    assert!(parts.concat() == sorted.join("\n") + "\n");
}

#[test]
fn run_survives_the_death_of_all_its_workers() {
    let folder = folder();
    let lines: String = (0..4_000).map(|number| format!("line {number:04}\n")).collect();
    file(&folder, "in.txt", &lines);
    let args = ["run", "sort", "--input", "in.txt", "--output", "out", "--records-per-second", "2000"];
    let timing = ["--nodes", "2", "--heartbeat", "50ms", "--timeout", "1s"];
    let mut run = Command::new(env!("CARGO_BIN_EXE_giveway"))
        .args(args)
        .args(timing)
        .current_dir(folder.path())
        .stderr(Stdio::null())
        .spawn()
        .expect("cannot start giveway run");
    let children = format!("/proc/{0}/task/{0}/children", run.id());
    let workers = || fs::read_to_string(&children).unwrap_or_default();
    while workers().split_whitespace().count() < 2 {
        assert!(run.try_wait().expect("run can be waited for").is_none(), "run ended before its workers were up");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(500));
    for worker in workers().split_whitespace() {
        Command::new("kill").args(["-9", worker]).status().expect("cannot run kill");
    }
    assert!(run.wait().expect("run can be waited for").success());
    let output = fs::read_to_string(folder.path().join("out/part-r-00000")).expect("no output");
    assert_eq!(output, lines);
}

#[test]
fn what_a_killed_run_leaves_is_removed_by_the_next_one() {
    let folder = folder();
    file(&folder, "in.txt", &"line\n".repeat(4_000));
    let args =
        ["run", "sort", "--input", "in.txt", "--output", "killed", "--records-per-second", "100", "--nodes", "2"];
    let mut run = Command::new(env!("CARGO_BIN_EXE_giveway"))
        .args(args)
        .current_dir(folder.path())
        .stderr(Stdio::null())
        .spawn()
        .expect("cannot start giveway run");
    let output = folder.path().join("killed");
    while !output.exists() {
        assert!(run.try_wait().expect("run can be waited for").is_none(), "run ended before its job began");
        std::thread::sleep(Duration::from_millis(20));
    }
    let workers = fs::read_to_string(format!("/proc/{0}/task/{0}/children", run.id())).expect("no children");
    run.kill().expect("cannot kill run");
    run.wait().expect("run can be waited for");
    let is_alive =
        |worker: &str| fs::read_to_string(format!("/proc/{worker}/stat")).is_ok_and(|stat| !stat.contains(" Z "));
    let start = Instant::now();
    while workers.split_whitespace().any(is_alive) {
        assert!(start.elapsed() < Duration::from_secs(30), "the workers of a killed run go on");
        std::thread::sleep(Duration::from_millis(100));
    }
    let clusters = || {
        let entries = fs::read_dir(folder.path()).expect("cannot list the directory").flatten();
        entries.filter(|entry| text(entry.file_name().as_encoded_bytes()).starts_with(".giveway-")).count()
    };
    assert_eq!(clusters(), 1);
    let again = giveway(folder.path(), &["run", "wordcount", "--input", "in.txt", "--output", "out"]);
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert_eq!(clusters(), 0);
}

/// On a cluster whose slots all run long maps, a job of 15 small files and one of a single file take less than a tenth of one of these maps.
#[test]
fn small_jobs_do_not_wait_for_large_ones() {
    let cluster = TestCluster::start();
    let root = cluster.folder.path();
    fs::write(root.join("large"), "to be or not to be that is the question\n".repeat(300_000)).expect("cannot write");
    fs::create_dir(root.join("small")).expect("cannot create a directory");
    for number in 0..15 {
        fs::write(root.join(format!("small/{number}")), "a b a\n".repeat(600)).expect("cannot write");
    }
    for large in ["one", "two", "three"] {
        let args = ["submit", "wordcount", "--input", "large", "--output", large, "--name", large];
        let output = cluster.run(&[&args[..], &["--split", "4MiB", "--records-per-second", "2000"]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let jobs =
        || -> serde_json::Value { serde_json::from_slice(&cluster.run(&["jobs", "--json"]).stdout).expect("JSON") };
    let running = |jobs: &serde_json::Value| {
        jobs.as_array().map_or(0, |jobs| jobs.iter().filter(|job| job["state"] == "running").count())
    };
    while running(&jobs()) == 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    for (input, output) in [("small", "of-15"), ("small/0", "of-1")] {
        let done =
            cluster.run(&["submit", "wordcount", "--input", input, "--output", output, "--name", output, "--wait"]);
        assert!(done.status.success(), "{}", text(&done.stderr));
    }
    let jobs = jobs();
    let job = |name: &str| jobs.as_array().and_then(|jobs| jobs.iter().find(|job| job["name"] == name)).expect(name);
    // 4 MiB are 100,000 records, at 2,000 per second.
    let map_of_a_large_job_s = 50.0;
    for small in ["of-15", "of-1"] {
        assert_eq!(job(small)["state"], "succeeded", "{jobs}");
        assert!(job(small)["elapsed_s"].as_f64().expect("a number") < map_of_a_large_job_s / 10.0, "{jobs}");
    }
    assert!(["one", "two", "three"].iter().all(|large| job(large)["state"] != "succeeded"), "{jobs}");
    let counts = fs::read_to_string(root.join("of-15/part-r-00000")).expect("cannot read the output");
    assert_eq!(counts, "a\t18000\nb\t9000\n");
}
