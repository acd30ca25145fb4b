//! Another user of the machine takes the place of a coordinator that was killed, to have the owner's workers and clients talk to it. The attacker is this
//! test program, run as another user. It needs root, and is skipped with a line otherwise.

use std::fs::{self, DirBuilder};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A user that every Unix system has.
const OTHER_USER: u32 = 2;

const TIMEOUT: Duration = Duration::from_secs(180);

/// Tells the attacker the socket of the coordinator.
const SOCKET: &str = "GIVEWAY_TEST_SOCKET";

fn wait_for<T>(description: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(start.elapsed() < TIMEOUT, "timeout waiting for {description}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Killed when dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn giveway(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_giveway"));
    command.args(args).args(["--dir", "cluster"]).current_dir(folder).env_remove("XDG_RUNTIME_DIR");
    command
}

fn up(folder: &Path) -> Process {
    let _ = fs::remove_file(folder.join("cluster/address"));
    let process = giveway(folder, &["up", "--nodes", "1", "--no-http", "--heartbeat", "50ms"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map(Process)
        .expect("start giveway up");
    wait_for("the coordinator", || fs::read(folder.join("cluster/address")).ok());
    process
}

/// Runs this program's test `attacker` as another user.
fn attack(folder: &Path, socket: &Path) -> Process {
    let program = folder.join("attacker");
    if !program.exists() {
        // Copied to where the other user may execute it.
        fs::copy(std::env::current_exe().expect("the path of this program"), &program).expect("copy this program");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("set permissions");
    }
    Command::new(program)
        .args(["--exact", "attacker", "--nocapture"])
        .current_dir("/")
        .env(SOCKET, socket)
        .uid(OTHER_USER)
        .gid(OTHER_USER)
        .stdout(Stdio::null())
        .spawn()
        .map(Process)
        .expect("start the attacker")
}

/// The attacker's part. Does nothing if it is run as one of the tests.
#[test]
fn attacker() {
    let Some(socket) = std::env::var_os(SOCKET).map(PathBuf::from) else { return };
    let folder = socket.parent().expect("a folder");
    let denied = |result: std::io::Result<()>, what: &str| {
        let error = result.err().unwrap_or_else(|| panic!("the attacker could {what} {}", socket.display()));
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{what} {}: {error}", socket.display());
    };
    denied(UnixStream::connect(&socket).map(drop), "connect to");
    denied(fs::remove_file(&socket), "remove");
    denied(UnixListener::bind(&socket).map(drop), "bind");
    denied(UnixListener::bind(folder.join("another")).map(drop), "bind beside");
    denied(fs::rename(folder.join("another"), &socket), "replace");
    // The folder itself cannot be replaced by one of the attacker's.
    let base = folder.parent().expect("a folder");
    assert!(fs::rename(base, base.with_extension("moved")).is_err());
    assert!(DirBuilder::new().mode(0o777).create(folder).is_err());
}

#[test]
fn who_takes_the_place_of_a_killed_coordinator_gets_nothing() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    if fs::metadata(folder.path()).expect("metadata").uid() != 0 {
        eprintln!("skipped: it takes root to run the attacker as another user");
        return;
    }
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("set permissions");
    let mut coordinator = up(folder.path());
    let socket = PathBuf::from(fs::read_to_string(folder.path().join("cluster/address")).expect("the address"));
    assert!(socket.exists(), "{}", socket.display());
    for is_running in [true, false] {
        if !is_running {
            coordinator.0.kill().expect("kill the coordinator");
            coordinator.0.wait().expect("wait for it");
        }
        let attacked = attack(folder.path(), &socket).0.wait().expect("wait for the attacker");
        assert!(attacked.success(), "the attacker got something while the coordinator runs: {is_running}");
    }
    // The owner's client finds no coordinator.
    let jobs = giveway(folder.path(), &["jobs"]).output().expect("run giveway jobs");
    assert!(!jobs.status.success(), "{}", String::from_utf8_lossy(&jobs.stdout));
    let _restarted = up(folder.path());
    fs::write(folder.path().join("words"), "b a b\n").expect("write the input");
    let submit = ["submit", "wordcount", "--input", "words", "--output", "counted", "--wait"];
    let done = giveway(folder.path(), &submit).output().expect("run giveway submit");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// The port of a killed cluster is taken by somebody else. What is sent there is worth nothing, and local programs do not use it.
#[test]
fn who_takes_the_port_of_a_killed_cluster_gets_nothing() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = |name: &str| fs::read_to_string(folder.path().join("cluster").join(name));
    let start = || {
        let _ = fs::remove_file(folder.path().join("cluster/http-socket"));
        let process =
            giveway(folder.path(), &["up", "--nodes", "1"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        wait_for("the dashboard", || file("http-socket").ok().filter(|path| !path.is_empty()));
        Process(process.expect("start giveway up"))
    };
    let mut killed = start();
    let (address, token, read_token) = (file("http-address"), file("token"), file("read-token"));
    let (address, token, read_token) = (address.expect("it"), token.expect("it"), read_token.expect("it"));
    killed.0.kill().expect("kill the cluster");
    killed.0.wait().expect("wait for it");
    let thief = wait_for("the port", || TcpListener::bind(&address).ok());
    thief.set_nonblocking(true).expect("a socket");
    let _restarted = start();
    assert_ne!(file("token").expect("a token"), token, "one that was sent to the thief is worth nothing");
    assert_eq!(file("read-token").expect("a token"), read_token, "links and scrapers stay valid");
    assert_ne!(file("http-address").expect("an address"), address);
    let answer = |request: &str| {
        let mut stream = UnixStream::connect(file("http-socket").expect("a socket")).expect("connect");
        stream.write_all(request.as_bytes()).expect("send");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    };
    let jobs = answer("GET /api/v1/jobs HTTP/1.1\r\nHost: giveway\r\nConnection: close\r\n\r\n");
    assert!(jobs.starts_with("HTTP/1.1 200"), "{jobs}");
    let killed = answer("POST /api/v1/jobs/7/kill HTTP/1.1\r\nHost: giveway\r\nConnection: close\r\n\r\n");
    assert!(killed.contains("does not exist"), "the owner needs no token: {killed}");
    assert_eq!(thief.accept().expect_err("nobody has connected").kind(), ErrorKind::WouldBlock);
}
