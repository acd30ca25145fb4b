//! Stored files on real clusters: what goes in comes out, whoever is killed and whatever the disks do.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster of three workers, its coordinator a child of ours.
struct Cluster {
    folder: TempDir,
    up: Child,
}

impl Cluster {
    fn start() -> Cluster {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let up = up(folder.path());
        Cluster { folder, up }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn giveway(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_giveway"));
        command.args(args).env("GIVEWAY_DIR", self.path("cluster")).current_dir(self.folder.path());
        command.output().expect("the binary runs")
    }

    fn does(&self, args: &[&str]) -> String {
        let output = self.giveway(args);
        assert!(output.status.success(), "{args:?}: {}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    }

    fn refuses(&self, args: &[&str]) -> String {
        let output = self.giveway(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(!said.contains("panicked"), "{args:?}: {said}");
        said
    }

    /// Asks until the store is found sound.
    fn wait_until_sound(&self) {
        let began = Instant::now();
        loop {
            let output = self.giveway(&["dfs", "fsck"]);
            match output.status.code() {
                Some(0) => return,
                Some(1) if began.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(200)),
                code => panic!("{code:?}: {}{}", text(&output.stdout), text(&output.stderr)),
            }
        }
    }

    fn cat(&self, name: &str) -> Vec<u8> {
        let output = self.giveway(&["dfs", "cat", name]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        output.stdout
    }

    /// The replicas in a worker's folder.
    fn replicas(&self, worker: usize) -> Vec<PathBuf> {
        let blocks = self.path("cluster").join(format!("node-{worker}/blocks"));
        let names = fs::read_dir(blocks).expect("a folder of blocks").map(|entry| entry.expect("a block").path());
        names.filter(|path| path.extension().is_none()).collect()
    }

    /// The process of a worker, as `giveway nodes` shows it.
    fn process(&self, worker: &str) -> String {
        let nodes = self.does(&["nodes"]);
        let row = nodes.lines().find(|line| line.contains(worker)).expect("a row for each worker");
        row.split(['│', '┆']).map(str::trim).nth(4).expect("a column for its process").to_owned()
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).expect("a file");
        path
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.giveway(&["down"]);
        let _ = self.up.kill();
        let _ = self.up.wait();
    }
}

fn up(folder: &Path) -> Child {
    let mut up = Command::new(env!("CARGO_BIN_EXE_giveway"))
        .args(["up", "--nodes", "3", "--heartbeat", "100ms", "--timeout", "2s", "--dir"])
        .arg(folder.join("cluster"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut said = String::new();
    BufReader::new(up.stdout.as_mut().expect("piped")).read_line(&mut said).expect("a line");
    assert!(said.contains("3 workers are up"), "{said}");
    up
}

fn kill(process: &str) {
    assert!(Command::new("kill").args(["-9", process]).status().expect("kill runs").success());
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("a replica");
    // The last block of a file may be a short one.
    let at = at.min(bytes.len() / 2);
    bytes[at] ^= 1;
    fs::write(path, bytes).expect("a replica");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Lines of a few words, never quite the same.
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
fn what_goes_in_comes_out_and_jobs_read_it() {
    let cluster = Cluster::start();
    let content = lines(1_000_000);
    cluster.file("a.txt", &content);
    cluster.file("b.txt", b"");
    cluster.file("c.bin", &[0, 1, 2, 255, 10]);
    let said = cluster.does(&["dfs", "put", "a.txt", "dfs:/d/a.txt", "--block", "64KiB"]);
    assert!(said.contains("16 blocks"), "{said}");
    cluster.does(&["dfs", "put", "b.txt", "c.bin", "dfs:/e"]);
    cluster.does(&["dfs", "put", "c.bin", "dfs:/e/f/"]);
    cluster.does(&["dfs", "put", "--replicas", "3", "a.txt", "dfs:/e"]);
    assert!(cluster.cat("dfs:/d/a.txt") == content && cluster.cat("dfs:/e/a.txt") == content);
    assert_eq!(cluster.cat("dfs:/e/b.txt"), b"");
    assert_eq!(cluster.cat("dfs:/e/f/c.bin"), [0, 1, 2, 255, 10]);
    let names = |listed: String| -> Vec<String> {
        listed.lines().map(|line| line.split_whitespace().last().expect("a name").to_owned()).collect()
    };
    assert_eq!(names(cluster.does(&["dfs", "ls"])), ["dfs:/d/", "dfs:/e/"]);
    let listed = names(cluster.does(&["dfs", "ls", "dfs:/e/"]));
    assert_eq!(listed, ["dfs:/e/a.txt", "dfs:/e/b.txt", "dfs:/e/c.bin", "dfs:/e/f/"]);
    cluster.wait_until_sound();

    for (input, output) in [("a.txt", "local"), ("dfs:/d/a.txt", "stored")] {
        let args = ["submit", "wordcount", "--input", input, "--output", output, "--reduces", "2", "--wait"];
        let said = cluster.does(&args);
        assert!(said.contains(if input == "a.txt" { " 1 maps" } else { " 16 maps" }), "{said}");
    }
    for part in ["part-r-00000", "part-r-00001"] {
        let [local, stored] =
            ["local", "stored"].map(|folder| fs::read(cluster.path(folder).join(part)).expect("a part"));
        assert!(!local.is_empty() && local == stored, "{part}");
    }

    assert!(cluster.refuses(&["dfs", "put", "c.bin", "dfs:/d/a.txt"]).contains("exists already"));
    assert!(cluster.refuses(&["dfs", "put", "c.bin", "dfs:/d/a.txt/x"]).contains("is a file"));
    assert!(cluster.refuses(&["dfs", "put", "none.txt", "dfs:/n"]).contains("none.txt"));
    assert!(cluster.refuses(&["dfs", "put", ".", "dfs:/n"]).contains("not a regular file"));
    assert!(cluster.refuses(&["dfs", "cat", "dfs:/none"]).contains("does not exist"));
    assert!(cluster.refuses(&["dfs", "rm", "dfs:/e"]).contains("is a directory"));
    let said = cluster.refuses(&["submit", "wordcount", "--input", "dfs:/none", "--output", "none"]);
    assert!(said.contains("does not exist"), "{said}");
    for name in ["d", "/d", "dfs:d", "dfs:/../d", "dfs:/d/./x", "dfs://d", "dfs:/d\n", "dfs:/d//x"] {
        assert!(cluster.refuses(&["dfs", "put", "c.bin", name]).contains("invalid path"), "{name}");
        cluster.refuses(&["dfs", "cat", name]);
        cluster.refuses(&["dfs", "rm", "-r", name]);
    }

    cluster.does(&["dfs", "rm", "dfs:/d/a.txt"]);
    cluster.does(&["dfs", "rm", "-r", "dfs:/e/"]);
    assert_eq!(cluster.does(&["dfs", "ls"]), "");
    let began = Instant::now();
    while (0..3).any(|worker| !cluster.replicas(worker).is_empty()) {
        assert!(began.elapsed() < PATIENCE, "replicas of removed files go");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_lost_worker_and_a_damaged_disk_are_made_good() {
    let cluster = Cluster::start();
    let content = lines(1_000_000);
    cluster.file("a.txt", &content);
    cluster.does(&["dfs", "put", "--block", "100000", "a.txt", "dfs:/a"]);

    kill(&cluster.process("node-0"));
    assert!(cluster.cat("dfs:/a") == content, "others have it");
    cluster.wait_until_sound();
    assert_eq!(cluster.replicas(1).len() + cluster.replicas(2).len(), 22, "eleven blocks, each on both that are left");

    flip(&cluster.replicas(1)[0], 50_000);
    let output = cluster.giveway(&["dfs", "fsck"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("on node-1 was corrupt"), "{}", text(&output.stdout));
    cluster.wait_until_sound();
    assert_eq!(cluster.replicas(1).len(), 11);

    cluster.replicas(2).iter().for_each(|path| flip(path, 3));
    assert!(cluster.cat("dfs:/a") == content, "damage is never handed out");
    cluster.wait_until_sound();

    let block = cluster.replicas(1)[0].clone();
    flip(&block, 4);
    flip(&cluster.path("cluster/node-2/blocks").join(block.file_name().expect("a name")), 5);
    let output = cluster.giveway(&["dfs", "cat", "dfs:/a"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("no worker that is up has a valid replica"), "{}", text(&output.stderr));
    let output = cluster.giveway(&["dfs", "fsck"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("has no valid replica"), "{}", text(&output.stdout));
}

#[test]
fn files_survive_the_coordinator() {
    let mut cluster = Cluster::start();
    let content = lines(500_000);
    cluster.file("a.txt", &content);
    for number in 0..5 {
        cluster.does(&["dfs", "put", "--block", "128KiB", "a.txt", &format!("dfs:/x/{number}")]);
        // No time to tidy up: what was sealed is on disk.
        cluster.up.kill().expect("it runs");
        cluster.up.wait().expect("it ran");
        cluster.up = up(cluster.folder.path());
    }
    for number in 0..5 {
        assert!(cluster.cat(&format!("dfs:/x/{number}")) == content);
    }
    cluster.wait_until_sound();
    cluster.does(&["dfs", "rm", "dfs:/x/3"]);
    cluster.up.kill().expect("it runs");
    cluster.up.wait().expect("it ran");
    cluster.up = up(cluster.folder.path());
    assert_eq!(cluster.does(&["dfs", "ls", "dfs:/x"]).lines().count(), 4);
    assert!(cluster.refuses(&["dfs", "put", "a.txt", "dfs:/x/2"]).contains("exists already"));
}
