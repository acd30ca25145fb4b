//! Another user of the machine takes the place of a coordinator that was killed, to have the owner's workers and clients talk to it, or floods the HTTP port. The
//! attacker is this test program, run as another user. That needs root, and is skipped with a line otherwise.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
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

/// Tells the attacker the socket of the coordinator, or the address of the port.
const TARGET: &str = "GIVEWAY_TEST_TARGET";

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

/// Runs one of this program's tests as another user, who learns this path or address.
fn attack(folder: &Path, test: &str, target: impl AsRef<OsStr>) -> Process {
    let program = folder.join("attacker");
    if !program.exists() {
        // Copied to where the other user may execute it.
        fs::copy(std::env::current_exe().expect("the path of this program"), &program).expect("copy this program");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("set permissions");
    }
    let mut command = Command::new(program);
    command
        .args(["--exact", test, "--nocapture"])
        .current_dir("/")
        .env(TARGET, target)
        .uid(OTHER_USER)
        .gid(OTHER_USER)
        .stdout(Stdio::piped());
    // A process that another test has just forked holds the copy open for writing until it executes its own program.
    wait_for("the copied program", || match command.spawn() {
        Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => None,
        spawned => Some(Process(spawned.expect("start the attacker"))),
    })
}

/// The attacker's part. Does nothing if it is run as one of the tests.
#[test]
fn attacker() {
    let Some(socket) = std::env::var_os(TARGET).map(PathBuf::from) else { return };
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
    let address = fs::read_to_string(folder.path().join("cluster/address")).expect("the address");
    let socket = PathBuf::from(address.lines().next().expect("a line"));
    assert!(socket.exists(), "{}", socket.display());
    for is_running in [true, false] {
        if !is_running {
            coordinator.0.kill().expect("kill the coordinator");
            coordinator.0.wait().expect("wait for it");
        }
        let attacked = attack(folder.path(), "attacker", &socket).0.wait().expect("wait for the attacker");
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

/// A cluster with an HTTP port.
fn up_with_port(folder: &Path) -> Process {
    let socket = folder.join("cluster/http-socket");
    let _ = fs::remove_file(&socket);
    let process = giveway(folder, &["up", "--nodes", "1"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    wait_for("the HTTP API", || fs::read(&socket).ok().filter(|path| !path.is_empty()));
    Process(process.expect("start giveway up"))
}

/// Sends a request and returns the answer.
fn answer(mut stream: impl Read + Write, request: &str) -> std::io::Result<String> {
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The port of a killed cluster is taken by somebody else. The next start does not silently use another one, what is sent to the old one is worth nothing, and
/// local programs do not use it.
#[test]
fn who_takes_the_port_of_a_killed_cluster_gets_nothing() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = |name: &str| fs::read_to_string(folder.path().join("cluster").join(name));
    let mut killed = up_with_port(folder.path());
    let (address, token) = (file("http-address").expect("an address"), file("token").expect("a token"));
    let create = ["token", "create", "scraper", "--may", "read"];
    let scraper = giveway(folder.path(), &create).output().expect("run giveway token");
    let scraper = String::from_utf8(scraper.stdout).expect("a token");
    let over_port = |request: &str, token: &str| {
        let stream = TcpStream::connect(&address)?;
        let (token, host) = (token.trim(), &address);
        let head =
            format!("{request} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n");
        answer(stream, &head)
    };
    assert!(over_port("GET /metrics", &scraper).expect("an answer").starts_with("HTTP/1.1 200"));
    assert!(over_port("POST /api/v1/jobs/7/kill", &scraper).expect("an answer").starts_with("HTTP/1.1 403"));
    assert!(over_port("POST /api/v1/jobs/7/kill", &token).expect("an answer").contains("does not exist"));
    killed.0.kill().expect("kill the cluster");
    killed.0.wait().expect("wait for it");
    let thief = wait_for("the port", || TcpListener::bind(&address).ok());
    thief.set_nonblocking(true).expect("a socket");
    let restarted = up_with_port(folder.path());
    assert_eq!(file("http-address").expect("an address"), address, "no other port is used instead");
    let own = |request: &str| {
        let stream = UnixStream::connect(file("http-socket").expect("a socket")).expect("connect");
        answer(stream, &format!("{request} HTTP/1.1\r\nHost: giveway\r\nConnection: close\r\n\r\n")).expect("an answer")
    };
    let jobs = own("GET /api/v1/jobs");
    assert!(jobs.starts_with("HTTP/1.1 200"), "{jobs}");
    let killed = own("POST /api/v1/jobs/7/kill");
    assert!(killed.contains("does not exist"), "the owner needs no token: {killed}");
    assert_eq!(thief.accept().expect_err("nobody has connected").kind(), ErrorKind::WouldBlock);
    drop(restarted);
    drop(thief);
    let _again = up_with_port(folder.path());
    let refused = over_port("POST /api/v1/jobs/7/kill", &token).expect("an answer");
    assert!(refused.starts_with("HTTP/1.1 401"), "one that was sent to the thief is worth nothing: {refused}");
    assert!(over_port("GET /metrics", &scraper).expect("an answer").starts_with("HTTP/1.1 200"), "scrapers go on");
    assert!(giveway(folder.path(), &["token", "revoke", "scraper"]).status().expect("run giveway token").success());
    assert!(over_port("GET /metrics", &scraper).expect("an answer").starts_with("HTTP/1.1 401"));
}

/// Opens 10,000 connections that send nothing or half a request, and then new ones all the time. Does nothing if it is run as one of the tests.
#[test]
fn flooder() {
    let Some(address) = std::env::var_os(TARGET).and_then(|target| target.into_string().ok()) else { return };
    let mut open = Vec::new();
    for number in 0..10_000 {
        match TcpStream::connect(&address) {
            Ok(mut stream) => {
                if number % 2 == 0 {
                    // The peer may have closed it already.
                    let _ = stream.write_all(b"POST /api/v1/jobs HTTP/1.1\r\nContent-Length: 3000000\r\nHost: 127");
                }
                open.push(stream);
            }
            // Its own limit of open files.
            Err(_) => break,
        }
    }
    println!("flooding with {} connections", open.len());
    loop {
        open.truncate(open.len().saturating_sub(50));
        open.extend((0..50).filter_map(|_| TcpStream::connect(&address).ok()));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn another_users_connections_stop_neither_jobs_nor_pages() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    if fs::metadata(folder.path()).expect("metadata").uid() != 0 {
        eprintln!("skipped: it takes root to run the attacker as another user");
        return;
    }
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("set permissions");
    let _cluster = up_with_port(folder.path());
    let file = |name: &str| fs::read_to_string(folder.path().join("cluster").join(name)).expect("a file");
    let (address, token) = (file("http-address"), file("token"));
    let mut flooder = attack(folder.path(), "flooder", &address);
    let mut lines = BufReader::new(flooder.0.stdout.take().expect("a pipe")).lines();
    let line = lines.find_map(|line| line.ok().filter(|line| line.starts_with("flooding"))).expect("a flood");
    fs::write(folder.path().join("words"), "b a b\n").expect("write the input");
    for output in ["counted-1", "counted-2", "counted-3"] {
        let submit = ["submit", "wordcount", "--input", "words", "--output", output, "--wait"];
        let done = giveway(folder.path(), &submit).output().expect("run giveway submit");
        assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
        assert!(folder.path().join(output).join("_SUCCESS").exists());
    }
    let token = token.trim();
    let request = format!(
        "GET /api/v1/jobs HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    );
    wait_for("an answer over the port", || {
        let stream = TcpStream::connect(&address).ok()?;
        answer(stream, &request).ok().filter(|answer| answer.starts_with("HTTP/1.1 200"))
    });
    assert!(flooder.0.try_wait().expect("ask for its end").is_none(), "the flood has gone on until now");
}
