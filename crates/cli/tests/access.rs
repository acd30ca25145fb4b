//! Several people, one cluster: commands of other Unix users. They need root, and are skipped with a line otherwise.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

// Users that every Unix system has: the cluster's owner, one who is admitted, one who is not, and an admin.
const GAMES: u32 = 5;
const DAEMON: u32 = 1;
const BIN: u32 = 2;
const SYS: u32 = 3;

const ACCESS: &str = "[access]\nusers = [\"daemon\"]\nadmins = [\"sys\"]\n";

/// A cluster of the user `games`, stopped when dropped.
struct Cluster {
    folder: TempDir,
    child: Child,
}

impl Cluster {
    /// `None` if the test cannot run as several users.
    fn start(tenants: &str) -> Option<Cluster> {
        let folder = tempfile::tempdir().expect("a temporary directory");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("set permissions");
        let is_root = fs::metadata(folder.path()).expect("metadata").uid() == 0;
        let names = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let has_users = ["games:x:5:", "daemon:x:1:", "bin:x:2:", "sys:x:3:"].iter().all(|user| names.contains(user));
        if !is_root
            || !has_users
            || !as_user(BIN, folder.path(), &["--version"]).is_some_and(|ran| ran.status.success())
        {
            eprintln!("skipped: needs root, the users games, daemon, bin and sys, and a program that they can execute");
            return None;
        }
        fs::write(folder.path().join("tenants.toml"), tenants).expect("write the tenants");
        fs::write(folder.path().join("words"), "b a b\n".repeat(1000)).expect("write the input");
        chown(folder.path(), Some(GAMES), Some(GAMES)).expect("give the folder to the owner");
        let mut child =
            command(GAMES, folder.path(), &["up", "--no-http", "--dir", "cluster", "--tenants", "tenants.toml"])
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .expect("start giveway up");
        child.stdout.as_mut().expect("a pipe").read_exact(&mut [0; 16]).expect("a message that it has started");
        Some(Cluster { folder, child })
    }

    fn run(&self, user: u32, args: &[&str]) -> (bool, String) {
        let output = as_user(user, self.folder.path(), &[args, &["--dir", "cluster"]].concat()).expect("run giveway");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(!text.contains("panicked"), "{text}");
        (output.status.success(), text)
    }

    fn succeeds(&self, user: u32, args: &[&str]) -> String {
        let (success, text) = self.run(user, args);
        assert!(success, "{args:?} of user {user}: {text}");
        text
    }

    fn fails(&self, user: u32, args: &[&str]) -> String {
        let (success, text) = self.run(user, args);
        assert!(!success, "{args:?} of user {user}: {text}");
        text
    }

    /// Submits a job that runs until it is killed.
    fn submit(&self, user: u32, account: &str, output: &str) -> String {
        let job = ["submit", "wordcount", "--input", "words", "--records-per-second", "1", "--user", account];
        let text = self.succeeds(user, &[&job[..], &["--output", output]].concat());
        assert_eq!(text.contains("note: the job runs as games"), user != GAMES, "{text}");
        text.lines().next().unwrap_or_default().to_owned()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = as_user(GAMES, self.folder.path(), &["down", "--dir", "cluster"]);
        let _ = self.child.wait();
    }
}

fn command(user: u32, folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_giveway"));
    command.args(args).current_dir(folder).env_remove("XDG_RUNTIME_DIR");
    if user != 0 {
        command.uid(user).gid(user);
    }
    command
}

fn as_user(user: u32, folder: &Path, args: &[&str]) -> Option<Output> {
    command(user, folder, args).output().ok()
}

#[test]
fn admitted_users_see_all_jobs_and_kill_their_own() {
    let Some(cluster) = Cluster::start(ACCESS) else { return };
    // The name comes from the kernel, not from `--user`.
    let of_daemon = cluster.submit(DAEMON, "sys", "out-1");
    let of_owner = cluster.submit(GAMES, "ann", "out-2");
    let jobs = cluster.succeeds(DAEMON, &["jobs"]);
    assert!(jobs.contains("daemon") && jobs.contains("ann") && !jobs.contains("sys"), "{jobs}");
    // They cannot read the journal, but the coordinator tells.
    let jobs: serde_json::Value = serde_json::from_str(&cluster.succeeds(DAEMON, &["jobs", "--json"])).expect("JSON");
    assert!(jobs[0]["submitted_ms"].as_f64() > Some(1e12) && jobs[0]["elapsed_s"].as_f64() > Some(0.0), "{jobs}");
    assert_eq!((&jobs[0]["pool"], &jobs[0]["priority"]), (&"daemon".into(), &"normal".into()), "{jobs}");
    let refused = cluster.fails(DAEMON, &["job", &of_owner, "--tasks"]);
    assert!(refused.contains("which only the owner of the cluster can read"), "{refused}");
    cluster.succeeds(DAEMON, &["explain", &of_owner]);
    cluster.succeeds(DAEMON, &["nodes"]);
    for change in ["kill", "yield"] {
        let refused = cluster.fails(DAEMON, &[change, &of_owner]);
        assert!(refused.contains("belongs to ann") && refused.contains("ask ann"), "{refused}");
    }
    let refused = cluster.fails(SYS, &["down"]);
    assert!(refused.contains("ask"), "{refused}");
    let refused = cluster.fails(DAEMON, &["history"]);
    assert!(refused.contains("only the cluster's owner reads its history"), "{refused}");
    cluster.succeeds(DAEMON, &["kill", &of_daemon]);
    cluster.succeeds(SYS, &["kill", &of_owner]);
    let refused = cluster.fails(BIN, &["jobs"]);
    assert!(refused.contains("belongs to games, who has not admitted bin; ask games"), "{refused}");
}

#[test]
fn by_default_the_owner_alone_has_access() {
    let Some(cluster) = Cluster::start("") else { return };
    let refused = cluster.fails(DAEMON, &["jobs"]);
    assert!(refused.contains("belongs to games") && refused.contains("has not admitted daemon"), "{refused}");
    assert!(refused.contains("ask games to start it") && refused.contains("`giveway reload`"), "{refused}");
    // A folder that cannot even be seen.
    fs::set_permissions(cluster.folder.path(), fs::Permissions::from_mode(0o700)).expect("set permissions");
    let folder = cluster.folder.path().join("cluster");
    let output = as_user(DAEMON, Path::new("/"), &["jobs", "--dir", &folder.to_string_lossy()]).expect("run giveway");
    let refused = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && refused.contains("ask games"), "{refused}");
}

#[test]
fn mistakes_in_the_tenants_file_are_reported() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    fs::write(folder.path().join("tenants.toml"), "[access]\nusers = [\"no-such-user\"]\n").expect("write the tenants");
    let args = ["up", "--no-http", "--dir", "cluster", "--tenants", "tenants.toml"];
    let refused = || {
        let output = as_user(0, folder.path(), &args).expect("run giveway");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(refused().contains("there is no user `no-such-user`"), "{}", refused());
    fs::write(folder.path().join("tenants.toml"), "[access]\n[access]\n").expect("write the tenants");
    assert!(refused().contains("tenants.toml:2: duplicate key"), "{}", refused());
}

#[test]
fn a_reload_admits_users_and_shuts_them_out() {
    let Some(cluster) = Cluster::start("") else { return };
    cluster.fails(DAEMON, &["jobs"]);
    let tenants = cluster.folder.path().join("tenants.toml");
    fs::write(&tenants, ACCESS).expect("write the tenants");
    cluster.fails(DAEMON, &["jobs"]);
    cluster.succeeds(GAMES, &["reload"]);
    let job = cluster.submit(DAEMON, "daemon", "out-1");
    let refused = cluster.fails(DAEMON, &["reload"]);
    assert!(refused.contains("only the cluster's owner and its admins"), "{refused}");
    // A wrong file changes nothing.
    fs::write(&tenants, "[access]\nusers = [\"no-such-user\"]\n").expect("write the tenants");
    let refused = cluster.fails(SYS, &["reload"]);
    assert!(refused.contains("no-such-user") && refused.contains("stay in force"), "{refused}");
    cluster.succeeds(DAEMON, &["kill", &job]);
    fs::write(&tenants, "[access]\nusers = [\"bin\"]\n").expect("write the tenants");
    let reloaded = cluster.succeeds(SYS, &["reload"]);
    assert!(reloaded.starts_with("policy, tenants and access loaded"), "{reloaded}");
    assert!(reloaded.contains("access: bin is admitted as user") && reloaded.contains("daemon is not"), "{reloaded}");
    assert!(cluster.succeeds(GAMES, &["reload"]).starts_with("policy, tenants and access unchanged"));
    cluster.succeeds(BIN, &["jobs"]);
    let refused = cluster.fails(DAEMON, &["jobs"]);
    assert!(refused.contains("has not admitted daemon"), "{refused}");
}

/// Jobs run as the owner of the cluster: whoever could submit one would be root.
#[test]
fn a_cluster_of_root_runs_no_jobs_of_others() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    if fs::metadata(folder.path()).expect("metadata").uid() != 0 {
        eprintln!("skipped: needs root");
        return;
    }
    let tenants = folder.path().join("tenants.toml");
    fs::write(&tenants, ACCESS).expect("write the tenants");
    let run = |args: &[&str]| {
        let output = as_user(0, folder.path(), &[args, &["--dir", "cluster"]].concat()).expect("run giveway");
        (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let up = ["up", "--no-http", "--nodes", "1", "--tenants", "tenants.toml"];
    let (started, refused) = run(&up);
    assert!(!started && refused.contains("a cluster of root admits no other users"), "{refused}");
    fs::write(&tenants, "").expect("write the tenants");
    let mut child = command(0, folder.path(), &[&up[..], &["--dir", "cluster"]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("start giveway up");
    child.stdout.as_mut().expect("a pipe").read_exact(&mut [0; 16]).expect("a message that it has started");
    fs::write(&tenants, ACCESS).expect("write the tenants");
    let (reloaded, refused) = run(&["reload"]);
    let (submits, refused_token) = run(&["token", "create", "ann", "--may", "submit"]);
    let (reads, token) = run(&["token", "create", "ann", "--may", "read"]);
    assert!(run(&["down"]).0);
    child.wait().expect("wait for it");
    assert!(!reloaded && refused.contains("jobs would run as root") && refused.contains("stay in force"), "{refused}");
    assert!(!submits && refused_token.contains("would run as root"), "{refused_token}");
    assert!(reads, "{token}");
}
