//! Real jobs as a user meets them: what is refused and how, what fails and why, and that nobody else suffers.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn giveway(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_giveway")).args(args).current_dir(folder).output().expect("the binary runs")
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a job that cannot succeed; returns its exit code and what was said.
fn fails(folder: &Path, args: &[&str]) -> (i32, String) {
    let output = giveway(folder, args);
    let said = text(&output.stderr);
    assert!(!output.status.success(), "{args:?} succeeded");
    assert!(!said.contains("panicked"), "{args:?}: {said}");
    (output.status.code().expect("an exit code"), said)
}

fn file(folder: &TempDir, name: &str, content: &str) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, content).expect("a file");
    path
}

/// A cluster of two workers that stays up.
struct Up {
    folder: TempDir,
    child: Child,
}

impl Up {
    fn start() -> Up {
        let folder = folder();
        let child = Command::new(env!("CARGO_BIN_EXE_giveway"))
            .args(["up", "--nodes", "2", "--heartbeat", "50ms", "--timeout", "1s", "--dir", "cluster"])
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("giveway up");
        let mut up = Up { folder, child };
        let mut said = [0; 16];
        up.child.stdout.as_mut().expect("piped").read_exact(&mut said).expect("it says that it is up");
        up
    }

    fn ask(&self, args: &[&str]) -> Output {
        giveway(self.folder.path(), &[args, &["--dir", "cluster"]].concat())
    }

    fn word_count_works(&self, name: &str) {
        fs::write(self.folder.path().join("words"), "b a b\n").expect("input");
        let output = self.ask(&["submit", "wordcount", "--input", "words", "--output", name, "--wait"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let counts = fs::read_to_string(self.folder.path().join(name).join("part-r-00000")).expect("counts");
        assert_eq!(counts, "a\t1\nb\t2\n");
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.ask(&["down"]);
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(10) && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_job_of_ones_own_runs_from_the_command_line() {
    let folder = folder();
    file(&folder, "words", "to be or\nnot to be\n");
    let output = giveway(folder.path(), &["run", "wordcount", "--input", "words", "--output", "out"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(
        fs::read_to_string(folder.path().join("out/part-r-00000")).expect("output"),
        "be\t2\nnot\t1\nor\t1\nto\t2\n"
    );
    let left: Vec<_> =
        fs::read_dir(folder.path()).expect("the folder").map(|entry| entry.expect("entry").file_name()).collect();
    assert_eq!(left.len(), 2, "nothing but input and output is left: {left:?}");
}

#[test]
fn any_executable_maps_and_reduces() {
    let folder = folder();
    file(&folder, "words", "to be or\nnot to be\n");
    let args = ["run", "streaming", "--mapper", "tr ' ' '\\n'", "--reducer", "uniq -c | awk '{print $2, $1}'"];
    let output = giveway(folder.path(), &[&args[..], &["--input", "words", "--output", "out"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(
        fs::read_to_string(folder.path().join("out/part-r-00000")).expect("output"),
        "be 2\nnot 1\nor 1\nto 2\n"
    );
}

#[test]
fn what_cannot_be_asked_for_is_refused_before_anything_runs() {
    let folder = folder();
    file(&folder, "words", "a b\n");
    fs::create_dir(folder.path().join("there")).expect("a folder");
    let run = |args: &[&str]| fails(folder.path(), &[&["run"], args].concat());
    let (code, said) = run(&["wordcount", "--input", "missing", "--output", "out"]);
    assert!(code == 2 && said.contains("missing"), "{said}");
    let (code, said) = run(&["wordcount", "--input", "no-*.txt", "--output", "out"]);
    assert!(code == 2 && said.contains("no-*.txt"), "{said}");
    let (code, said) = run(&["wordcount", "--input", "words", "--output", "there"]);
    assert!(code == 2 && said.contains("exists already"), "{said}");
    let (code, said) = run(&["nonsense", "--input", "words", "--output", "out"]);
    assert!(code == 2 && said.contains("wordcount"), "it names those there are: {said}");
    let (code, said) = run(&["grep", "--input", "words", "--output", "out", "-O", "pattern=("]);
    assert!(code == 2 && said.contains("pattern"), "{said}");
    let (code, said) = run(&["wordcount", "--input", "words", "--output", "out", "-O", "colour=red"]);
    assert!(code == 2 && said.contains("colour"), "{said}");
    let (code, said) = run(&["wordcount", "--input", "words", "--output", "out", "--policy", "nonsense"]);
    assert!(code == 2 && said.contains("nonsense"), "{said}");
    let (code, said) = run(&["wordcount", "--input", "words", "--output", "hdfs://nn:8020/out"]);
    assert!(code == 2 && said.contains("hdfs dfs -put"), "{said}");
    if cfg!(not(feature = "hdfs")) {
        let (code, said) = run(&["wordcount", "--input", "hdfs://nn:8020/in", "--output", "out"]);
        assert!(code == 2 && said.contains("cargo build --release --features hdfs"), "{said}");
    }
    assert!(!folder.path().join("out").exists(), "nothing was made");
    let (code, said) = fails(folder.path(), &["jobs", "--dir", "nowhere"]);
    assert!(code == 2 && said.contains("giveway up"), "{said}");
    let (code, said) = fails(folder.path(), &["up", "--dir", "c", "--listen", "0.0.0.0:0"]);
    assert!(code == 2 && said.contains("other machines"), "{said}");
}

#[test]
fn programs_that_break_fail_their_job_with_their_last_words() {
    let folder = folder();
    file(&folder, "words", "a b\nc d\n");
    let run = |mapper: &str, more: &[&str]| {
        let args = ["run", "streaming", "--input", "words", "--output", "out", "--reducer", "cat", "--mapper", mapper];
        fails(folder.path(), &[&args[..], more].concat())
    };
    let (code, said) = run("cat > /dev/null; echo the disk is on fire >&2; exit 3", &[]);
    assert!(code == 1 && said.contains("the disk is on fire") && said.contains('3'), "{said}");
    let (code, said) = run("no-such-program", &[]);
    assert!(code == 1 && said.contains("no-such-program"), "{said}");
    let (code, said) = run("kill -9 $$", &[]);
    assert!(code == 1 && said.contains("signal"), "{said}");
    let (code, said) = run("sleep 600", &["--task-timeout", "300ms"]);
    assert!(code == 1 && said.contains("made no progress"), "{said}");
    let (code, said) = run("cat > /dev/null; head -c 100000000 /dev/zero | tr '\\0' x", &[]);
    assert!(code == 1 && said.contains("a line of more than"), "{said}");
    assert!(!folder.path().join("out").exists(), "a failed job leaves nothing");
}

#[test]
fn garbage_is_data_like_any_other() {
    let folder = folder();
    file(&folder, "words", "a\n");
    let mapper = "cat > /dev/null; printf '\\377\\000\\t\\001\\n\\n\\t\\n'";
    let args = ["run", "streaming", "--input", "words", "--output", "out", "--reducer", "cat", "--mapper", mapper];
    let output = giveway(folder.path(), &args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(fs::read(folder.path().join("out/part-r-00000")).expect("output").contains(&0xff));
}

#[test]
fn one_users_broken_job_leaves_the_others_alone() {
    let up = Up::start();
    let root = up.folder.path();
    up.word_count_works("first");
    fs::write(root.join("lines"), "x\n".repeat(100)).expect("input");
    let broken =
        ["submit", "streaming", "--mapper", "exit 1", "--reducer", "cat", "--input", "lines", "--output", "broken"];
    let broken = up.ask(&broken);
    assert!(broken.status.success(), "it is accepted: {}", text(&broken.stderr));
    up.word_count_works("second");
    assert!(root.join("first/_SUCCESS").exists(), "what was committed stays");
    let began = Instant::now();
    let id = text(&broken.stdout).trim().to_string();
    loop {
        let said = text(&up.ask(&["job", &id]).stdout);
        if said.contains("failed") {
            assert!(said.contains("problem:"), "{said}");
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{said}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_running_job_can_be_explained_made_to_yield_and_killed() {
    let up = Up::start();
    let root = up.folder.path();
    fs::write(root.join("lines"), "x y\n".repeat(2_000)).expect("input");
    let slow =
        ["submit", "sort", "--input", "lines", "--output", "slow", "--records-per-second", "200", "--split", "2000"];
    let id = text(&up.ask(&slow).stdout).trim().to_string();
    std::thread::sleep(Duration::from_millis(300));
    assert!(up.ask(&["yield", &id]).status.success());
    let explained = text(&up.ask(&["explain", &id]).stdout);
    assert!(explained.contains("maps:") && explained.contains("lately"), "{explained}");
    let nodes = text(&up.ask(&["nodes"]).stdout);
    assert!(nodes.contains("node-0") && nodes.contains("up"), "{nodes}");
    assert!(up.ask(&["kill", &id]).status.success());
    up.word_count_works("after");
    let jobs = text(&up.ask(&["jobs"]).stdout);
    assert!(jobs.contains("killed") && jobs.contains("done"), "{jobs}");
    assert!(!root.join("slow").exists(), "a killed job leaves nothing");
    let again = up.ask(&["kill", &id]);
    assert_eq!(again.status.code(), Some(2), "killed once is enough");
    assert_eq!(up.ask(&["job", "99"]).status.code(), Some(2));
}

#[test]
fn strangers_are_turned_away_and_nothing_hangs() {
    let up = Up::start();
    let cluster = up.folder.path().join("cluster");
    let address = fs::read_to_string(cluster.join("address")).expect("the address");
    // Not Giveway at all, another version, half a greeting, and silence.
    let mut lines = Vec::new();
    for greeting in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"giveway\n\xff\xff\xff\xff", b"give", b""] {
        let mut line = TcpStream::connect(&address).expect("it listens");
        line.write_all(greeting).expect("it reads");
        lines.push(line);
    }
    // A user with another cluster's token.
    let token = cluster.join("token");
    let kept = fs::read(&token).expect("the token");
    fs::write(&token, format!("{}\n", "0".repeat(64))).expect("another token");
    let output = up.ask(&["jobs"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("token"), "{}", text(&output.stderr));
    fs::write(&token, kept).expect("the token back");
    up.word_count_works("after");
    drop(lines);
}

/// A byte of a map's output is changed on disk before a reduce has fetched it: the checksum says so, and the map runs again.
#[test]
fn a_damaged_map_output_is_made_again() {
    let up = Up::start();
    let root = up.folder.path();
    let lines: String = (0..20_000).map(|n| format!("{:05} line\n", (n * 7_919) % 20_000)).collect();
    fs::write(root.join("lines"), &lines).expect("input");
    // Two reduces of a slow job keep both reduce slots, so the outputs of the next job's maps wait to be fetched.
    fs::write(root.join("few"), "a b\n".repeat(1_500)).expect("input");
    let slow =
        ["submit", "sort", "--input", "few", "--output", "slow", "--reduces", "2", "--records-per-second", "500"];
    assert!(up.ask(&slow).status.success());
    let sort = ["submit", "sort", "--input", "lines", "--output", "out", "--reduces", "2", "--split", "60000"];
    let id = text(&up.ask(&sort).stdout).trim().to_string();
    let began = Instant::now();
    let mut damaged = false;
    while !damaged && began.elapsed() < Duration::from_secs(20) {
        for node in ["node-0", "node-1"] {
            let place = root.join("cluster").join(node).join("jobs").join(&id);
            for entry in fs::read_dir(&place).into_iter().flatten().flatten() {
                if entry.file_name().to_string_lossy().ends_with(".out") && !damaged {
                    let mut bytes = fs::read(entry.path()).expect("an output");
                    let middle = bytes.len() / 3;
                    bytes[middle] ^= 0x55;
                    fs::write(entry.path(), bytes).expect("a damaged output");
                    damaged = true;
                }
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(damaged, "no map output was ever there");
    loop {
        let said = text(&up.ask(&["job", &id]).stdout);
        if said.contains(": done") {
            break;
        }
        assert!(!said.contains("failed") && began.elapsed() < Duration::from_secs(60), "{said}");
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut sorted: Vec<&str> = lines.lines().collect();
    sorted.sort_unstable();
    let parts =
        ["part-r-00000", "part-r-00001"].map(|part| fs::read_to_string(root.join("out").join(part)).expect("a part"));
    assert!(parts.concat() == sorted.join("\n") + "\n");
}
