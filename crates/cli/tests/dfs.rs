//! End-to-end tests of the block store: files survive lost workers, damaged replicas and coordinator restarts.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time limit for repairs and deletions.
const TIMEOUT: Duration = Duration::from_secs(180);

/// A cluster of three workers and its coordinator process.
struct Cluster {
    folder: TempDir,
    coordinator: Child,
}

impl Cluster {
    fn start() -> Cluster {
        let folder = tempfile::tempdir().expect("cannot create a temporary directory");
        let coordinator = start_coordinator(folder.path());
        Cluster { folder, coordinator }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn giveway(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_giveway"));
        command.args(args).env("GIVEWAY_DIR", self.path("cluster")).current_dir(self.folder.path());
        command.output().expect("cannot run giveway")
    }

    /// Runs a command that must succeed, and returns its standard output.
    fn succeeds(&self, args: &[&str]) -> String {
        let output = self.giveway(args);
        assert!(output.status.success(), "{args:?}: {}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    }

    /// Runs a command that must fail with exit code 2 and without a panic, and returns its error message.
    fn fails(&self, args: &[&str]) -> String {
        let output = self.giveway(args);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(!message.contains("panicked"), "{args:?}: {message}");
        message
    }

    /// Repairs until there are no problems.
    fn wait_until_healthy(&self) {
        let start = Instant::now();
        loop {
            let output = self.giveway(&["dfs", "fsck", "--repair"]);
            match output.status.code() {
                Some(0) => return,
                Some(1) if start.elapsed() < TIMEOUT => std::thread::sleep(Duration::from_millis(200)),
                code => panic!("{code:?}: {}{}", text(&output.stdout), text(&output.stderr)),
            }
        }
    }

    fn cat(&self, name: &str) -> Vec<u8> {
        let output = self.giveway(&["dfs", "cat", name]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        output.stdout
    }

    /// Paths of the replicas on a worker.
    fn replicas(&self, worker: usize) -> Vec<PathBuf> {
        let blocks = self.path("cluster").join(format!("node-{worker}/blocks"));
        let names = fs::read_dir(blocks)
            .expect("cannot list the blocks")
            .map(|entry| entry.expect("cannot read an entry").path());
        names.filter(|path| path.extension().is_none()).collect()
    }

    /// Process id of a worker, from the table of `giveway nodes`.
    fn pid(&self, worker: &str) -> String {
        let nodes = self.succeeds(&["nodes"]);
        let row = nodes.lines().find(|line| line.contains(worker)).expect("no row for the worker");
        row.split(['│', '┆']).map(str::trim).nth(4).expect("no column for the pid").to_owned()
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).expect("cannot write a test file");
        path
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.giveway(&["down"]);
        let _ = self.coordinator.kill();
        let _ = self.coordinator.wait();
    }
}

fn start_coordinator(folder: &Path) -> Child {
    let mut coordinator = Command::new(env!("CARGO_BIN_EXE_giveway"))
        .args(["up", "--no-restart", "--nodes", "3", "--heartbeat", "100ms", "--timeout", "2s", "--dir"])
        .arg(folder.join("cluster"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("cannot run giveway");
    let mut line = String::new();
    BufReader::new(coordinator.stdout.as_mut().expect("stdout is not piped"))
        .read_line(&mut line)
        .expect("no startup message");
    assert!(line.contains("3 workers are up"), "{line}");
    coordinator
}

fn kill(pid: &str) {
    assert!(Command::new("kill").args(["-9", pid]).status().expect("cannot run kill").success());
}

/// Damages a replica by flipping a bit at `at`, or in the middle of a shorter block.
fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("cannot read a replica");
    let at = at.min(bytes.len() / 2);
    bytes[at] ^= 1;
    fs::write(path, bytes).expect("cannot write a replica");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Text of at least the given size, with distinct lines.
fn lines(bytes: usize) -> Vec<u8> {
    let mut content = Vec::new();
    let mut state = 1_u64;
    while content.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let line = format!("w{} w{} word {}\n", state >> 57, state >> 40 & 1023, content.len());
        content.extend_from_slice(line.as_bytes());
    }
    content
}

#[test]
fn stored_files_are_read_back_and_used_as_job_input() {
    let cluster = Cluster::start();
    let content = lines(1_000_000);
    cluster.file("a.txt", &content);
    cluster.file("b.txt", b"");
    cluster.file("c.bin", &[0, 1, 2, 255, 10]);
    let stdout = cluster.succeeds(&["dfs", "put", "a.txt", "dfs:/d/a.txt", "--block", "64KiB"]);
    assert!(stdout.contains("16 blocks"), "{stdout}");
    cluster.succeeds(&["dfs", "put", "b.txt", "c.bin", "dfs:/e"]);
    cluster.succeeds(&["dfs", "put", "c.bin", "dfs:/e/f/"]);
    cluster.succeeds(&["dfs", "put", "--replicas", "3", "a.txt", "dfs:/e"]);
    assert!(cluster.cat("dfs:/d/a.txt") == content && cluster.cat("dfs:/e/a.txt") == content);
    assert_eq!(cluster.cat("dfs:/e/b.txt"), b"");
    assert_eq!(cluster.cat("dfs:/e/f/c.bin"), [0, 1, 2, 255, 10]);
    let names = |listed: String| -> Vec<String> {
        listed.lines().map(|line| line.split_whitespace().last().expect("no name").to_owned()).collect()
    };
    assert_eq!(names(cluster.succeeds(&["dfs", "ls"])), ["dfs:/d/", "dfs:/e/"]);
    let listed = names(cluster.succeeds(&["dfs", "ls", "dfs:/e/"]));
    assert_eq!(listed, ["dfs:/e/a.txt", "dfs:/e/b.txt", "dfs:/e/c.bin", "dfs:/e/f/"]);
    cluster.wait_until_healthy();

    for (input, output) in [("a.txt", "local"), ("dfs:/d/a.txt", "stored")] {
        let args = ["submit", "wordcount", "--input", input, "--output", output, "--reduces", "2", "--wait"];
        let stdout = cluster.succeeds(&args);
        assert!(stdout.contains(if input == "a.txt" { " 1 maps" } else { " 16 maps" }), "{stdout}");
    }
    for part in ["part-r-00000", "part-r-00001"] {
        let [local, stored] =
            ["local", "stored"].map(|folder| fs::read(cluster.path(folder).join(part)).expect("cannot read a part"));
        assert!(!local.is_empty() && local == stored, "{part}");
    }

    assert!(cluster.fails(&["dfs", "put", "c.bin", "dfs:/d/a.txt"]).contains("exists already"));
    assert!(cluster.fails(&["dfs", "put", "c.bin", "dfs:/d/a.txt/x"]).contains("is a file"));
    assert!(cluster.fails(&["dfs", "put", "none.txt", "dfs:/n"]).contains("none.txt"));
    assert!(cluster.fails(&["dfs", "put", ".", "dfs:/n"]).contains("not a regular file"));
    assert!(cluster.fails(&["dfs", "cat", "dfs:/none"]).contains("does not exist"));
    assert!(cluster.fails(&["dfs", "rm", "dfs:/e"]).contains("is a directory"));
    let message = cluster.fails(&["submit", "wordcount", "--input", "dfs:/none", "--output", "none"]);
    assert!(message.contains("does not exist"), "{message}");
    for name in ["d", "/d", "dfs:d", "dfs:/../d", "dfs:/d/./x", "dfs://d", "dfs:/d\n", "dfs:/d//x"] {
        assert!(cluster.fails(&["dfs", "put", "c.bin", name]).contains("invalid path"), "{name}");
        cluster.fails(&["dfs", "cat", name]);
        cluster.fails(&["dfs", "rm", "-r", name]);
    }

    cluster.succeeds(&["dfs", "rm", "dfs:/d/a.txt"]);
    cluster.succeeds(&["dfs", "rm", "-r", "dfs:/e/"]);
    assert_eq!(cluster.succeeds(&["dfs", "ls"]), "");
    let start = Instant::now();
    while (0..3).any(|worker| !cluster.replicas(worker).is_empty()) {
        assert!(start.elapsed() < TIMEOUT, "replicas of deleted files remain");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn replicas_are_restored_after_a_lost_worker_and_damage() {
    let cluster = Cluster::start();
    let content = lines(1_000_000);
    cluster.file("a.txt", &content);
    cluster.succeeds(&["dfs", "put", "--block", "100000", "a.txt", "dfs:/a"]);

    kill(&cluster.pid("node-0"));
    assert!(cluster.cat("dfs:/a") == content, "not readable from the other replicas");
    cluster.wait_until_healthy();
    assert_eq!(cluster.replicas(1).len() + cluster.replicas(2).len(), 22, "11 blocks, each on both remaining workers");

    flip(&cluster.replicas(1)[0], 50_000);
    for _ in 0..2 {
        let output = cluster.giveway(&["dfs", "fsck"]);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
        assert!(text(&output.stdout).contains("on node-1 is corrupt"), "{}", text(&output.stdout));
        assert_eq!(cluster.replicas(1).len(), 11, "fsck only looks");
    }
    cluster.wait_until_healthy();
    assert_eq!(cluster.replicas(1).len(), 11);

    cluster.replicas(2).iter().for_each(|path| flip(path, 3));
    assert!(cluster.cat("dfs:/a") == content, "damaged data returned");
    cluster.wait_until_healthy();

    let block = cluster.replicas(1)[0].clone();
    flip(&block, 4);
    flip(&cluster.path("cluster/node-2/blocks").join(block.file_name().expect("no name")), 5);
    let output = cluster.giveway(&["dfs", "cat", "dfs:/a"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("no worker that is up has a valid replica"), "{}", text(&output.stderr));
    let output = cluster.giveway(&["dfs", "fsck"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("has no valid replica"), "{}", text(&output.stdout));
}

#[test]
fn files_survive_coordinator_kills() {
    let mut cluster = Cluster::start();
    let content = lines(500_000);
    cluster.file("a.txt", &content);
    for number in 0..5 {
        cluster.succeeds(&["dfs", "put", "--block", "128KiB", "a.txt", &format!("dfs:/x/{number}")]);
        // SIGKILL: only what was synced to disk survives.
        cluster.coordinator.kill().expect("cannot kill the coordinator");
        cluster.coordinator.wait().expect("cannot wait for the coordinator");
        cluster.coordinator = start_coordinator(cluster.folder.path());
    }
    for number in 0..5 {
        assert!(cluster.cat(&format!("dfs:/x/{number}")) == content);
    }
    cluster.wait_until_healthy();
    cluster.succeeds(&["dfs", "rm", "dfs:/x/3"]);
    cluster.coordinator.kill().expect("cannot kill the coordinator");
    cluster.coordinator.wait().expect("cannot wait for the coordinator");
    cluster.coordinator = start_coordinator(cluster.folder.path());
    assert_eq!(cluster.succeeds(&["dfs", "ls", "dfs:/x"]).lines().count(), 4);
    assert!(cluster.fails(&["dfs", "put", "a.txt", "dfs:/x/2"]).contains("exists already"));
}
