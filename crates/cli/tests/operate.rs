//! End-to-end tests of operating a cluster: logs of attempts, reloading policy and tenants, the command for ended jobs.

use giveway_engine::client::Client;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const TIMEOUT: Duration = Duration::from_secs(180);

fn wait_for(description: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < TIMEOUT, "timeout waiting for {description}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A running `giveway up` in a folder, killed when dropped.
struct Up {
    folder: PathBuf,
    child: Child,
}

impl Up {
    fn start(folder: &Path, more: &[&str]) -> Up {
        let args = ["up", "--nodes", "2", "--heartbeat", "50ms", "--timeout", "5s", "--dir", "cluster", "--no-http"];
        let child = Command::new(env!("CARGO_BIN_EXE_giveway"))
            .args(args)
            .args(more)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("cannot start giveway up");
        let up = Up { folder: folder.into(), child };
        wait_for("the workers", || {
            up.client().is_some_and(|mut client| client.nodes().is_ok_and(|nodes| nodes.len() == 2))
        });
        up
    }

    fn client(&self) -> Option<Client> {
        Client::connect(&self.folder.join("cluster")).ok()
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().expect("cannot run kill");
        assert!(sent.success());
    }

    fn kill(mut self) {
        self.child.kill().expect("cannot kill the coordinator");
        self.child.wait().expect("cannot wait for the coordinator");
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.client().map(|mut client| client.stop());
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(10) && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn giveway(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_giveway"));
    command.args(args).args(["--dir", "cluster"]).current_dir(folder).output().expect("cannot run giveway")
}

/// Runs a command that must succeed; returns what it printed.
fn prints(folder: &Path, args: &[&str]) -> String {
    let output = giveway(folder, args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Runs a command that must fail; returns its message.
fn fails(folder: &Path, args: &[&str]) -> String {
    let output = giveway(folder, args);
    assert!(!output.status.success(), "{args:?} succeeded: {}", text(&output.stdout));
    text(&output.stderr)
}

fn input() -> TempDir {
    let folder = tempfile::tempdir().expect("cannot create a temporary directory");
    fs::write(folder.path().join("in"), "a\nb\n").expect("cannot write the input");
    folder
}

#[test]
fn logs_are_read_while_a_job_runs_after_it_ended_and_while_the_cluster_is_down() {
    let folder = input();
    let dir = folder.path();
    let up = Up::start(dir, &[]);
    let mapper = "printf 'from the mapper \\377\\n' >&2; while [ ! -e go ]; do sleep 0.05; done; cat";
    let job = ["submit", "streaming", "--mapper", mapper, "--reducer", "echo from the reducer >&2; cat"];
    let id = prints(dir, &[&job[..], &["--input", "in", "--output", "out"]].concat());
    assert_eq!(id, "1\n");
    wait_for("the mapper's line", || prints(dir, &["logs", "1", "map-0.0"]).contains("from the mapper"));
    assert!(!prints(dir, &["logs", "1"]).contains("from the reducer"));
    fs::write(dir.join("go"), "").expect("cannot write a file");
    let all = giveway(dir, &["logs", "1", "--follow"]).stdout;
    let expected = b"from the mapper \xff\n";
    assert!(all.windows(expected.len()).any(|part| part == expected), "bytes are unchanged: {}", text(&all));
    assert!(text(&all).contains("== reduce-0.0 on node-") && text(&all).contains("from the reducer"), "{}", text(&all));
    let list = prints(dir, &["logs", "1", "--json"]);
    assert!(list.contains("\"attempt\": \"map-0.0\"") && list.contains("\"bytes\": 18"), "{list}");
    assert_eq!(prints(dir, &["logs", "1", "reduce", "--tail", "8"]).lines().last(), Some("reducer"));

    let failing = ["submit", "streaming", "--mapper", "echo reason >&2; exit 3", "--input", "in", "--output", "out2"];
    prints(dir, &failing);
    wait_for("the failure", || prints(dir, &["logs", "2", "map-0.0"]).contains("the attempt failed: mapper"));
    let log = prints(dir, &["logs", "2", "map-0.0"]);
    assert_eq!(log.lines().filter(|&line| line == "reason").count(), 1, "what was printed is there once: {log}");
    wait_for("the end of the job", || prints(dir, &["jobs", "--state", "failed"]).contains("failed"));
    let explained = prints(dir, &["explain", "2"]);
    assert!(explained.contains("failed: map 0, attempt 3") && explained.contains("`giveway logs 2`"), "{explained}");
    assert!(fails(dir, &["logs", "7"]).contains("job 7 does not exist"));
    assert!(fails(dir, &["logs", "1", "mpa"]).contains("invalid task `mpa`"));
    drop(up);
    assert!(prints(dir, &["logs", "1", "map"]).contains("from the mapper"));
    assert!(fails(dir, &["logs", "7"]).contains("no log of job 7"));
}

fn policy_of(folder: &Path) -> String {
    let replayed = prints_path(folder, &["replay", "--open", "cluster/journal/log"]);
    replayed.split("replayed under ").nth(1).and_then(|rest| rest.split(',').next()).unwrap_or_default().to_owned()
}

/// Like [`prints`], for a command without `--dir`.
fn prints_path(folder: &Path, args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_giveway")).args(args).current_dir(folder).output();
    let output = output.expect("cannot run giveway");
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The policy file of a shipped policy, under another name.
fn write_policy(folder: &Path, shipped: &str, name: &str) {
    let policy = prints_path(folder, &["policies", "show", shipped]);
    let policy = policy.replacen(&format!("name = \"{shipped}\""), &format!("name = \"{name}\""), 1);
    fs::write(folder.join("policy.toml"), policy).expect("cannot write the policy");
}

#[test]
fn a_changed_policy_is_loaded_while_jobs_run_and_survives_a_kill() {
    let folder = input();
    let dir = folder.path();
    write_policy(dir, "fifo", "first");
    fs::write(dir.join("tenants.toml"), "").expect("cannot write the tenants");
    let args = ["--policy", "policy.toml", "--tenants", "tenants.toml"];
    let up = Up::start(dir, &args);
    let mapper = "while [ ! -e go ]; do sleep 0.05; done; cat";
    for output in ["out1", "out2", "out3"] {
        prints(
            dir,
            &["submit", "streaming", "--mapper", mapper, "--reducer", "cat", "--input", "in", "--output", output],
        );
    }
    wait_for("running maps", || prints(dir, &["jobs", "--state", "running"]).contains("running"));
    assert!(prints(dir, &["reload"]).contains("policy, tenants and access unchanged; policy first"));

    fs::write(dir.join("policy.toml"), "name = 1").expect("cannot write the policy");
    let refused = fails(dir, &["reload"]);
    assert!(refused.contains("policy.toml:1:") && refused.contains("stay in force"), "{refused}");
    write_policy(dir, "giveway", "second");
    fs::write(dir.join("tenants.toml"), "[[pools]]\nname = \"a\"\nwieght = 1\n").expect("cannot write the tenants");
    let refused = fails(dir, &["reload"]);
    assert!(refused.contains("tenants.toml") && refused.contains("stay in force"), "refused whole: {refused}");
    assert_eq!(policy_of(dir), "first");

    fs::write(dir.join("tenants.toml"), "").expect("cannot write the tenants");
    let reloaded = prints(dir, &["reload"]);
    assert!(reloaded.contains("policy, tenants and access loaded; policy second"), "{reloaded}");
    assert!(reloaded.contains("  policy.name: \"first\" -> \"second\"\n"), "what has changed: {reloaded}");
    up.kill();
    assert_eq!(policy_of(dir), "second", "it was durable before it was reported");
    prints_path(dir, &["replay", "--open", "cluster/journal-0001/log"]);

    let up = Up::start(dir, &args);
    let jobs = prints(dir, &["jobs", "--json"]);
    assert_eq!(jobs.matches("\"app\": \"streaming\"").count(), 3, "all jobs are known: {jobs}");
    write_policy(dir, "fair", "third");
    up.signal("-HUP");
    wait_for("the policy of the signal", || policy_of(dir) == "third");
    fs::write(dir.join("go"), "").expect("cannot write a file");
    let client = &mut up.client().expect("the cluster runs");
    for job in 1..=3 {
        let status = client.follow(giveway_core::JobId(job), |_| {}).expect("the job ends");
        assert_eq!(status.outcome, Some(giveway_core::Outcome::Succeeded));
        let output = fs::read_to_string(dir.join(format!("out{job}/part-r-00000"))).expect("cannot read the output");
        assert_eq!(output, "a\t\nb\t\n");
    }
    prints_path(dir, &["replay", "--open", "cluster/journal/log"]);
    // The journal that begins now has none of the jobs.
    write_policy(dir, "fifo", "fourth");
    prints(dir, &["reload"]);
    let explained = prints(dir, &["explain", "1"]);
    assert!(explained.to_lowercase().contains("succeeded") && explained.contains("third"), "{explained}");
    assert!(fails(dir, &["explain", "9"]).contains("job 9 does not exist"));
    for number in 1..=9 {
        let _ = fs::remove_dir_all(dir.join(format!("cluster/journal-000{number}")));
    }
    assert!(prints(dir, &["explain", "1"]).contains("succeeded"), "the coordinator knows it too");
}

#[test]
fn the_command_for_ended_jobs_runs_with_the_outcome() {
    let folder = input();
    let dir = folder.path();
    let command = "echo $JOB_ID $JOB_NAME $JOB_OUTCOME >> ended";
    let _up = Up::start(dir, &["--on-job-end", command]);
    prints(dir, &["submit", "wordcount", "--input", "in", "--output", "out", "--name", "one $(two)"]);
    let slow = ["submit", "streaming", "--mapper", "sleep 600", "--input", "in", "--output", "out2"];
    prints(dir, &slow);
    prints(dir, &["kill", "2"]);
    let ended = || fs::read_to_string(dir.join("ended")).unwrap_or_default();
    wait_for("both commands", || ended().lines().count() == 2);
    assert!(ended().contains("1 one $(two) succeeded\n"), "{}", ended());
    assert!(ended().contains("2 streaming killed\n"), "{}", ended());
}

#[test]
fn few_commands_for_ended_jobs_run_at_the_same_time() {
    let folder = input();
    let dir = folder.path();
    let command = "touch run-$JOB_ID; ls -d run-* | wc -l >> seen; sleep 1; rm run-$JOB_ID";
    let _up = Up::start(dir, &["--on-job-end", command]);
    for job in 1..=12 {
        prints(dir, &["submit", "wordcount", "--input", "in", "--output", &format!("out{job}")]);
    }
    let seen = || fs::read_to_string(dir.join("seen")).unwrap_or_default();
    wait_for("all commands", || seen().lines().count() == 12);
    let at_once: Vec<u32> = seen().lines().map(|line| line.trim().parse().expect("a number")).collect();
    assert!(at_once.iter().all(|&running| running <= 8), "{at_once:?}");
}

#[test]
fn an_address_that_cannot_be_served_is_refused_before_anything_starts() {
    let folder = input();
    let args = ["up", "--http", "192.0.2.1:80", "--dir", "cluster"];
    let output = Command::new(env!("CARGO_BIN_EXE_giveway")).args(args).current_dir(folder.path()).output();
    let output = output.expect("cannot run giveway");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("can be reached from other machines"), "{}", text(&output.stderr));
    assert!(!folder.path().join("cluster").exists());
}

#[test]
fn a_directory_with_other_files_is_left_alone() {
    let folder = input();
    let mine = folder.path().join("mine");
    fs::create_dir(&mine).expect("cannot create a directory");
    fs::write(mine.join("data"), "").expect("cannot write a file");
    let output = Command::new(env!("CARGO_BIN_EXE_giveway")).args(["up", "--no-http", "--dir"]).arg(&mine).output();
    let output = output.expect("cannot run giveway");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("has other files and no cluster"), "{}", text(&output.stderr));
    assert_eq!(fs::read_dir(&mine).expect("cannot list the directory").count(), 1);
}

/// A copy of a cluster directory, as a backup is one.
#[test]
fn a_copy_neither_reaches_the_original_nor_runs_beside_it() {
    let folder = input();
    let up = Up::start(folder.path(), &[]);
    let copied = Command::new("cp").args(["-a", "cluster", "copy"]).current_dir(folder.path()).status();
    assert!(copied.expect("cannot copy").success());
    let of_copy = |args: &[&str]| {
        let run =
            Command::new(env!("CARGO_BIN_EXE_giveway")).args(args).arg("copy").current_dir(folder.path()).output();
        let output = run.expect("cannot run giveway");
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stdout));
        text(&output.stderr)
    };
    assert!(of_copy(&["down", "--dir"]).contains("no cluster is running"));
    let refused = of_copy(&["up", "--no-http", "--dir"]);
    assert!(refused.contains("is a copy of another cluster directory"), "{refused}");
    prints(folder.path(), &["nodes"]);
    drop(up);
}

/// A cleaner of temporary files may remove the socket.
#[test]
fn a_signal_stops_a_cluster_without_a_socket() {
    let folder = input();
    let mut up = Up::start(folder.path(), &[]);
    let address = fs::read_to_string(folder.path().join("cluster/address")).expect("cannot read the address");
    let socket = Path::new(address.lines().next().expect("the address is empty"));
    fs::remove_dir_all(socket.parent().expect("it is in a directory")).expect("cannot remove the socket");
    up.signal("-TERM");
    wait_for("the cluster to stop", || matches!(up.child.try_wait(), Ok(Some(_))));
}

#[test]
fn a_drained_node_gets_no_tasks_until_it_is_included_also_after_a_restart() {
    let folder = input();
    let dir = folder.path();
    let up = Up::start(dir, &[]);
    let state = |node: &str| {
        let nodes = prints(dir, &["nodes"]);
        nodes.lines().find_map(|line| line.strip_prefix(&format!("{node}\t"))?.split('\t').next().map(str::to_owned))
    };
    assert_eq!(prints(dir, &["nodes", "-o", "name"]), "node-0\nnode-1\n");
    assert!(fails(dir, &["nodes", "drain", "node-7"]).contains("no node is named node-7"));
    let mut complete = Command::new(env!("CARGO_BIN_EXE_giveway"));
    complete.env("GIVEWAY_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", "5").env("_CLAP_IFS", " ").current_dir(dir);
    let complete = complete.args(["--", "giveway", "nodes", "drain", "--dir", "cluster", "node"]).output();
    assert_eq!(text(&complete.expect("cannot run giveway").stdout), "node-0 node-1");
    prints(dir, &["nodes", "drain", "node-0"]);
    assert_eq!(state("node-0").as_deref(), Some("drained"));
    let run = |output: &str| {
        let job = ["submit", "streaming", "--mapper", "cat", "--reducer", "cat", "--split", "1", "--wait"];
        prints(dir, &[&job[..], &["--input", "in", "--output", output]].concat());
        let jobs = prints(dir, &["jobs", "-o", "name"]);
        let job = jobs.lines().last().expect("a job").to_owned();
        let attempts = prints(dir, &["job", &job, "--tasks", "--json"]);
        ["node-0", "node-1"].map(|node| attempts.contains(&format!("\"node\": \"{node}\"")))
    };
    assert_eq!(run("out1"), [false, true]);
    up.kill();
    let up = Up::start(dir, &[]);
    assert_eq!(run("out2"), [false, true], "the drain is in the journal");
    prints(dir, &["nodes", "drain", "node-1"]);
    prints(dir, &["nodes", "include", "node-0"]);
    wait_for("the node", || state("node-0").as_deref() == Some("up"));
    assert_eq!(run("out3"), [true, false]);
    drop(up);
    prints_path(dir, &["replay", "--open", "cluster/journal/log"]);
}

#[test]
fn times_include_those_without_a_coordinator_and_a_stopped_cluster_does_not_age() {
    const OUTAGE: Duration = Duration::from_secs(3);
    let folder = input();
    let dir = folder.path();
    let up = Up::start(dir, &[]);
    let mapper = "while [ ! -e go ]; do sleep 0.05; done; cat";
    prints(dir, &["submit", "streaming", "--mapper", mapper, "--input", "in", "--output", "out"]);
    wait_for("the map", || prints(dir, &["jobs", "--state", "running", "-o", "name"]) == "1\n");
    up.kill();
    std::thread::sleep(OUTAGE);
    let up = Up::start(dir, &[]);
    fs::write(dir.join("go"), "").expect("cannot write a file");
    wait_for("the job", || prints(dir, &["jobs", "--state", "succeeded", "-o", "name"]) == "1\n");
    let seconds = |command: &str, field: &str| {
        let rows: serde_json::Value = serde_json::from_str(&prints(dir, &[command, "-o", "json"])).expect("JSON");
        rows[0][field].as_f64().unwrap_or_else(|| panic!("{command} has no {field}: {rows}"))
    };
    let elapsed_s = seconds("jobs", "elapsed_s");
    assert!(elapsed_s >= OUTAGE.as_secs_f64(), "{elapsed_s} s");
    assert!((seconds("history", "total_s") - elapsed_s).abs() < 0.1);
    let explained = giveway(dir, &["explain", "1"]);
    assert!(text(&explained.stderr).is_empty(), "{}", text(&explained.stderr));
    drop(up);
    std::thread::sleep(OUTAGE);
    let explained = giveway(dir, &["explain", "1"]);
    assert!(text(&explained.stderr).contains("the cluster is not running: this is the state at"), "it says so");
    let title = text(&explained.stdout);
    let ago = title.split("Succeeded ").nth(1).and_then(|rest| rest.split(" ago").next()).expect("an age");
    let ago_s: f64 = match ago.split_once(' ') {
        Some((number, "ms")) => number.parse::<f64>().expect("a number") / 1e3,
        Some((number, _)) => number.parse().expect("a number"),
        None => panic!("{ago}"),
    };
    assert!(ago_s < OUTAGE.as_secs_f64(), "counted from the end of the journal: {ago}");
}
