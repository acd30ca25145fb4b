//! End-to-end tests of the processes of a cluster: what they inherit, who ends with whom, who is restarted and who is refused.

use giveway_engine::client::Client;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const TIMEOUT: Duration = Duration::from_secs(180);

fn giveway(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_giveway"));
    command.args(args).current_dir(folder);
    command
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("cannot create a temporary directory")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Waits until a condition holds.
fn wait_for(description: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < TIMEOUT, "timeout waiting for {description}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Command lines of the processes that contain a text.
fn processes_with(text: &str) -> Vec<String> {
    let command_line = |entry: fs::DirEntry| fs::read(entry.path().join("cmdline")).ok();
    let all = fs::read_dir("/proc").expect("cannot list /proc").flatten().filter_map(command_line);
    let lines = all.map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " "));
    lines.filter(|line| line.contains(text)).collect()
}

fn signal(signal: &str, pid: u32) {
    let status = Command::new("kill").args([signal, &pid.to_string()]).status().expect("cannot run kill");
    assert!(status.success(), "cannot signal process {pid}");
}

/// A running `giveway up`, killed when dropped, with the lines of its error output.
struct Up {
    folder: TempDir,
    child: Child,
    log: Receiver<String>,
}

impl Up {
    fn start(more: &[&str]) -> Up {
        let folder = folder();
        let args = ["up", "--nodes", "1", "--heartbeat", "50ms", "--timeout", "5s", "--dir", "cluster"];
        let mut child = giveway(folder.path(), &[&args[..], more].concat())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("cannot start giveway up");
        let lines = BufReader::new(child.stderr.take().expect("stderr is piped")).lines();
        let (sender, log) = mpsc::channel();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let up = Up { folder, child, log };
        wait_for("the worker", || up.worker().is_some());
        up
    }

    fn run(&self, args: &[&str]) -> Output {
        giveway(self.folder.path(), &[args, &["--dir", "cluster"]].concat()).output().expect("cannot run giveway")
    }

    /// Process id of the only worker; `None` while it is disconnected.
    fn worker(&self) -> Option<u32> {
        let mut client = Client::connect(&self.folder.path().join("cluster")).ok()?;
        client.nodes().ok()?.first()?.pid
    }

    fn log_line(&self, text: &str) -> String {
        let start = Instant::now();
        while let Ok(line) = self.log.recv_timeout(TIMEOUT.saturating_sub(start.elapsed())) {
            if line.contains(text) {
                return line;
            }
        }
        panic!("no line with `{text}` in the log");
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.run(&["down"]);
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(10) && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn streaming_programs_do_not_inherit_giveways_variables() {
    let folder = folder();
    fs::write(folder.path().join("in"), "x\n").expect("cannot write the input");
    let args = ["run", "streaming", "--mapper", "cat >/dev/null; env", "--input", "in", "--output", "out"];
    let output = giveway(folder.path(), &args).env("GIVEWAY_DIR", "/nowhere").output().expect("cannot run giveway");
    assert!(output.status.success(), "{}", stderr(&output));
    let printed = fs::read_to_string(folder.path().join("out/part-m-00000")).expect("cannot read the output");
    assert!(printed.contains("PATH="), "{printed}");
    assert!(!printed.contains("GIVEWAY_"), "{printed}");
}

/// `down` returns when nothing of the cluster is left. A start that comes earlier waits for that.
#[test]
fn a_stopped_cluster_can_be_started_at_once() {
    // The command for ended jobs delays the end of the cluster.
    let mut up = Up::start(&["--on-job-end", "sleep 1; touch done-$JOB_ID", "--no-http"]);
    fs::write(up.folder.path().join("in"), "x\n").expect("cannot write the input");
    let submit = |up: &Up, output| {
        let job = ["submit", "wordcount", "--input", "in", "--output", output, "--wait"];
        let output = up.run(&job);
        assert!(output.status.success(), "{}", stderr(&output));
    };
    submit(&up, "out1");
    let output = up.run(&["down"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(up.folder.path().join("done-1").exists(), "the cluster had not ended");
    let workers = || processes_with(&format!("--join {}", up.folder.path().display()));
    assert_eq!(workers(), [""; 0]);

    let start = || {
        let args =
            ["up", "--nodes", "1", "--dir", "cluster", "--no-http", "--on-job-end", "sleep 1; touch done-$JOB_ID"];
        giveway(up.folder.path(), &args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("cannot start giveway")
    };
    let mut second = start();
    wait_for("the worker", || up.worker().is_some());
    submit(&up, "out2");
    let stopped = Client::connect(&up.folder.path().join("cluster")).and_then(|mut client| client.stop());
    stopped.expect("the cluster stops");
    let third = start();
    second.wait().expect("cannot wait for the cluster");
    up.child.wait().expect("cannot wait for the cluster");
    up.child = third;
    wait_for("the worker", || {
        assert!(matches!(up.child.try_wait(), Ok(None)), "the new cluster has ended");
        up.worker().is_some()
    });
    assert!(up.folder.path().join("done-2").exists(), "it was started before the other had ended");
}

/// Ctrl-C ends the command that waits, not the job.
#[test]
fn an_interrupted_submission_says_that_the_job_continues() {
    let up = Up::start(&["--no-http"]);
    fs::write(up.folder.path().join("in"), "x\n").expect("cannot write the input");
    let job = ["submit", "streaming", "--mapper", "sleep 600", "--input", "in", "--dir", "cluster"];
    let waiting = giveway(up.folder.path(), &[&job[..], &["--output", "out1", "--wait"]].concat());
    let mut waiting = waiting_for(waiting);
    let mut lines = BufReader::new(waiting.stderr.take().expect("stderr is piped")).lines();
    assert_eq!(lines.next().expect("a line").expect("text"), "job 1 submitted");
    signal("-INT", waiting.id());
    let text: Vec<String> = lines.map_while(Result::ok).collect();
    assert_eq!(text, ["", "job 1 continues; `giveway kill 1` ends it"]);
    assert_eq!(waiting.wait().expect("cannot wait").code(), Some(130));
    assert!(up.run(&[&job[..6], &["--output", "out2"]].concat()).status.success());
    let killed = up.run(&["kill", "1", "9", "2"]);
    assert!(!killed.status.success() && stderr(&killed).contains("job 9 does not exist"), "{}", stderr(&killed));
    assert!(
        stderr(&killed).contains("job 1 killed") && stderr(&killed).contains("job 2 killed"),
        "{}",
        stderr(&killed)
    );
}

fn waiting_for(mut command: Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("cannot start giveway")
}

/// A killed worker takes its programs and their children with it, and `up` restarts it and says so.
#[test]
fn programs_die_with_a_killed_worker_which_is_restarted() {
    let up = Up::start(&[]);
    fs::write(up.folder.path().join("in"), "x\n").expect("cannot write the input");
    // The duration identifies the process of this test.
    let mapper = "sleep 7431.25 & sleep 7431.25; wait";
    let job = ["submit", "streaming", "--mapper", mapper, "--input", "in", "--output", "out"];
    assert!(up.run(&job).status.success());
    wait_for("the program", || processes_with("sleep 7431.25").len() >= 2);
    let worker = up.worker().expect("the worker is connected");
    // Other tests have a worker of this name, too, but in a folder of their own.
    let workers = processes_with(&format!("worker --name node-0 --join {}", up.folder.path().display()));
    assert_eq!(workers.len(), 1, "workers are told apart by their arguments: {workers:?}");
    assert!(up.run(&["kill", "1"]).status.success());
    wait_for("the end of the killed job's programs", || processes_with("sleep 7431.25").is_empty());
    let job = ["submit", "streaming", "--mapper", mapper, "--input", "in", "--output", "out"];
    assert!(up.run(&job).status.success());
    wait_for("the program", || processes_with("sleep 7431.25").len() >= 2);
    signal("-KILL", worker);
    let line = up.log_line("worker node-0 ended");
    assert!(line.contains("signal 9") && line.contains("restarting it in 0.5 s"), "{line}");
    up.log_line("worker node-0 restarted");
    wait_for("the new worker", || up.worker().is_some_and(|pid| pid != worker));
    assert!(up.run(&["kill", "2"]).status.success());
    wait_for("the end of the programs", || processes_with("sleep 7431.25").is_empty());
}

#[test]
fn a_second_worker_of_the_same_name_is_refused() {
    let up = Up::start(&[]);
    let first = up.worker();
    let args = ["worker", "--join", "cluster", "--name", "node-0", "--work-dir", "elsewhere"];
    let second = giveway(up.folder.path(), &args).output().expect("cannot run giveway worker");
    assert_eq!(second.status.code(), Some(2), "{}", stderr(&second));
    assert!(stderr(&second).contains("worker node-0 is connected already"), "{}", stderr(&second));
    assert_eq!(up.worker(), first, "the first worker stays");
}

/// Ctrl-C in any round of an iterative application ends it, and leaves no process behind.
#[test]
fn ctrl_c_ends_a_later_round_and_leaves_no_process() {
    let folder = folder();
    let points: String = (0..200).map(|n| format!("{} {}\n", n % 17, n % 13)).collect();
    fs::write(folder.path().join("points"), points).expect("cannot write the input");
    let args = ["run", "kmeans", "--input", "points", "--output", "out", "-O", "k=3", "-O", "iterations=1000"];
    let more = ["--records-per-second", "100"];
    let mut child = giveway(folder.path(), &[&args[..], &more].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("cannot start giveway run");
    let cluster = || {
        let found = fs::read_dir(folder.path()).ok()?.flatten().map(|entry| entry.path());
        found.into_iter().find(|path| path.to_string_lossy().contains(".giveway-"))
    };
    wait_for("the second round", || {
        let jobs = cluster().and_then(|folder| Client::connect(&folder).ok()?.jobs().ok());
        jobs.is_some_and(|jobs| jobs.len() >= 2)
    });
    let name = cluster().expect("the cluster runs").to_string_lossy().into_owned();
    signal("-INT", child.id());
    let mut status = None;
    wait_for("the end of the job", || {
        status = child.try_wait().expect("cannot wait");
        status.is_some()
    });
    assert_eq!(status.and_then(|status| status.code()), Some(1), "the job was killed");
    assert!(!folder.path().join("out").exists());
    assert!(cluster().is_none(), "the cluster directory is removed");
    assert_eq!(processes_with(&name), Vec::<String>::new());
}

#[test]
fn an_interrupted_demo_leaves_neither_files_nor_processes() {
    let (folder, temporary) = (folder(), folder());
    let mut demo = giveway(folder.path(), &["demo"])
        .env("TMPDIR", temporary.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("cannot start giveway demo");
    let workers = || processes_with(&format!("--join {}", temporary.path().display()));
    wait_for("the workers", || workers().len() >= 4);
    signal("-TERM", demo.id());
    let status = demo.wait().expect("the demo ends");
    assert_eq!(status.code(), Some(130));
    assert_eq!(fs::read_dir(temporary.path()).expect("the folder can be read").count(), 0, "files are left");
    wait_for("the end of the workers", || workers().is_empty());
}
