//! Another user of the machine takes the place of a coordinator that was killed, to have the owner's workers and clients talk to it. The attacker is this
//! test program, run as another user. It needs root, and is skipped with a line otherwise.

use std::fs::{self, DirBuilder};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A user that every Unix system has.
const OTHER_USER: u32 = 2;

const TIMEOUT: Duration = Duration::from_secs(180);

/// Tell the attacker the sockets of coordinator and worker, separated by a colon, and the TCP address of the coordinator.
const SOCKETS: &str = "GIVEWAY_TEST_SOCKETS";
const TCP: &str = "GIVEWAY_TEST_TCP";

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

fn up(folder: &Path, tcp: &str) -> Process {
    let _ = fs::remove_file(folder.join("cluster/address"));
    let process = giveway(folder, &["up", "--nodes", "1", "--no-http", "--heartbeat", "50ms", "--listen", tcp])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map(Process)
        .expect("start giveway up");
    wait_for("the coordinator", || fs::read(folder.join("cluster/address")).ok());
    process
}

/// Runs this program's test `attacker` as another user.
fn attack(folder: &Path, sockets: &[PathBuf], tcp: &str) -> Process {
    let program = folder.join("attacker");
    if !program.exists() {
        // Copied to where the other user may execute it.
        fs::copy(std::env::current_exe().expect("the path of this program"), &program).expect("copy this program");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("set permissions");
    }
    Command::new(program)
        .args(["--exact", "attacker", "--nocapture"])
        .current_dir("/")
        .env(SOCKETS, std::env::join_paths(sockets).expect("no colons"))
        .env(TCP, tcp)
        .uid(OTHER_USER)
        .gid(OTHER_USER)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map(Process)
        .expect("start the attacker")
}

/// The attacker's part. Does nothing if it is run as one of the tests.
#[test]
fn attacker() {
    let (Some(sockets), Some(tcp)) = (std::env::var_os(SOCKETS), std::env::var_os(TCP)) else { return };
    let sockets: Vec<PathBuf> = std::env::split_paths(&sockets).collect();
    let folder = sockets[0].parent().expect("a folder");
    for socket in &sockets {
        let denied = |result: std::io::Result<()>, what: &str| {
            let error = result.err().unwrap_or_else(|| panic!("the attacker could {what} {}", socket.display()));
            assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{what} {}: {error}", socket.display());
        };
        denied(UnixStream::connect(socket).map(drop), "connect to");
        denied(fs::remove_file(socket), "remove");
        denied(UnixListener::bind(socket).map(drop), "bind");
        denied(UnixListener::bind(folder.join("another")).map(drop), "bind beside");
        denied(fs::rename(folder.join("another"), socket), "replace");
    }
    // The folder itself cannot be replaced by one of the attacker's.
    let base = folder.parent().expect("a folder");
    assert!(fs::rename(base, base.with_extension("moved")).is_err());
    assert!(DirBuilder::new().mode(0o777).create(folder).is_err());
    // Anybody may listen on a free TCP port, and pass on what arrives there.
    let listener = TcpListener::bind(tcp.to_str().expect("an address")).expect("the port of the dead coordinator");
    println!("attacking");
    std::io::stdout().flush().expect("a pipe");
    listener.set_nonblocking(true).expect("a socket");
    let mut connections = 0;
    // Until it is killed.
    loop {
        if let Ok((stream, _)) = listener.accept() {
            connections += 1;
            println!("connection {connections} from {:?}", stream.peer_addr());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn who_takes_the_place_of_a_killed_coordinator_gets_nothing() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    if fs::metadata(folder.path()).expect("metadata").uid() != 0 {
        eprintln!("skipped: it takes root to run the attacker as another user");
        return;
    }
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("set permissions");
    // A port that is free now.
    let tcp = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").to_string();
    let mut coordinator = up(folder.path(), &tcp);
    TcpStream::connect(&tcp).expect("the coordinator listens on TCP too");
    let address = fs::read_to_string(folder.path().join("cluster/address")).expect("the address");
    let socket = PathBuf::from(address.trim().trim_start_matches("unix:"));
    assert!(socket.exists(), "{address}");
    let sockets = socket.parent().expect("a folder").to_owned();
    let worker = wait_for("the worker's socket", || {
        let names = fs::read_dir(&sockets).ok()?.flatten().map(|entry| entry.path());
        names
            .into_iter()
            .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("worker-")))
    });
    coordinator.0.kill().expect("kill the coordinator");
    coordinator.0.wait().expect("wait for it");

    let mut attacker = attack(folder.path(), &[socket, worker], &tcp);
    let mut output = attacker.0.stdout.take().expect("a pipe");
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("attacking\n") {
        let mut byte = [0];
        assert_eq!(
            output.read(&mut byte).expect("a pipe"),
            1,
            "the attacker failed: {}",
            String::from_utf8_lossy(&seen)
        );
        seen.push(byte[0]);
    }
    // The owner's client finds no coordinator, and does not use the attacker's.
    let jobs = giveway(folder.path(), &["jobs"]).output().expect("run giveway jobs");
    assert!(!jobs.status.success(), "{}", String::from_utf8_lossy(&jobs.stdout));
    // A new coordinator cannot have the port, and says so; without it, it works as before.
    let refused = giveway(folder.path(), &["up", "--nodes", "1", "--no-http", "--listen", &tcp]).output().expect("run");
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains(&tcp), "{}", String::from_utf8_lossy(&refused.stderr));
    let _restarted = up(folder.path(), "127.0.0.1:0");
    fs::write(folder.path().join("words"), "b a b\n").expect("write the input");
    let submit = ["submit", "wordcount", "--input", "words", "--output", "counted", "--wait"];
    let done = giveway(folder.path(), &submit).output().expect("run giveway submit");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    attacker.0.kill().expect("kill the attacker");
    output.read_to_end(&mut seen).expect("a pipe");
    let seen = String::from_utf8_lossy(&seen);
    assert!(!seen.contains("connection"), "{seen}");
}
