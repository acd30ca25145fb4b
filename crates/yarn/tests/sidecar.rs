//! The sidecar over real sockets, with a scripted plug-in and with unknown peers.

use giveway_core::event_log::EventLogReader;
use giveway_core::policy::catalog;
use giveway_core::{Event, Kind, Scheduler};
use giveway_yarn::{NO_HEADROOM_LIMIT, Options, PROTOCOL_VERSION, Sidecar, SidecarError, StopHandle};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const TOKEN: &str = "a token that is long enough";
const EVENT_LOG: &str = "run.event_log";

/// A running sidecar and the lines it has logged.
struct RunningSidecar {
    address: SocketAddr,
    lines: Arc<Mutex<Vec<String>>>,
    stop_handle: StopHandle,
    thread: JoinHandle<Result<(), SidecarError>>,
}

fn token_file(dir: &Path, token: &str, mode: u32) -> PathBuf {
    let file = dir.join("token");
    fs::write(&file, format!("{token}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    file
}

fn options(dir: &Path, policy: &str) -> Options {
    Options {
        policy: catalog::by_name(policy).unwrap(),
        listen: "127.0.0.1:0".parse().unwrap(),
        token_file: token_file(dir, TOKEN, 0o600),
        event_log: Some(dir.join(EVENT_LOG)),
        degrade: false,
        node_expiry: Duration::from_secs(5),
        record_only: false,
    }
}

impl RunningSidecar {
    fn start(options: Options) -> RunningSidecar {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&lines);
        let sidecar = Sidecar::bind(options, move |line| log.lock().unwrap().push(line.to_owned())).unwrap();
        let (address, stop_handle) = (sidecar.address().unwrap(), sidecar.stop_handle());
        RunningSidecar { address, lines, stop_handle, thread: std::thread::spawn(move || sidecar.run()) }
    }

    /// Number of log lines that contain `part`.
    fn lines_with(&self, part: &str) -> usize {
        self.lines.lock().unwrap().iter().filter(|line| line.contains(part)).count()
    }

    fn wait_for_line(&self, part: &str) {
        let start = Instant::now();
        while self.lines_with(part) == 0 {
            let lines = self.lines.lock().unwrap().clone();
            assert!(start.elapsed() < Duration::from_secs(90), "never logged `{part}`: {lines:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn stop(self) {
        self.stop_handle.stop();
        self.thread.join().unwrap().unwrap();
    }
}

/// The plug-in's end of a connection, driven by the test.
struct Plugin(TcpStream);

fn string(string: &str) -> Vec<u8> {
    [&(string.len() as u16).to_be_bytes()[..], string.as_bytes()].concat()
}

fn integers(integers: &[u32]) -> Vec<u8> {
    integers.iter().flat_map(|integer| integer.to_be_bytes()).collect()
}

const NONCE: [u8; 32] = [7; 32];

fn hello(version: u16) -> Vec<u8> {
    [b"HGIVEWAY", &version.to_be_bytes()[..], &NONCE].concat()
}

/// What the plug-in proves about a connection to this address, or expects of the sidecar there.
fn proof(token: &str, role: &[u8], nonce: &[u8], address: SocketAddr) -> Vec<u8> {
    let SocketAddr::V4(address) = address else { panic!("{address} is not IPv4") };
    let mut mac = Hmac::<Sha256>::new_from_slice(token.as_bytes()).unwrap();
    for part in [role, &NONCE, nonce, &address.port().to_be_bytes(), &address.ip().octets()] {
        mac.update(part);
    }
    mac.finalize().into_bytes().to_vec()
}

impl Plugin {
    fn connect(address: SocketAddr) -> Plugin {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
        Plugin(stream)
    }

    /// Connects and completes the handshake.
    fn handshake(address: SocketAddr) -> Plugin {
        let mut plugin = Plugin::connect(address);
        plugin.prove(TOKEN, true);
        assert_eq!(plugin.receive().unwrap()[0], b'W');
        plugin
    }

    /// Sends `HELLO`, checks the sidecar's proof and sends that of a plug-in with this token.
    fn prove(&mut self, token: &str, refuses_nodes: bool) {
        self.send(&hello(PROTOCOL_VERSION));
        let challenge = self.receive().unwrap();
        let (nonce, proved) = challenge[1..].split_at(32);
        let address = self.0.peer_addr().unwrap();
        assert_eq!((challenge[0], proved), (b'X', &proof(TOKEN, b"giveway sidecar", nonce, address)[..]));
        let own = proof(token, b"giveway plug-in", nonce, address);
        self.send(&[b"Y", &own[..], &[u8::from(refuses_nodes)]].concat());
    }

    fn send(&mut self, content: &[u8]) {
        let frame = [&(content.len() as u32).to_be_bytes()[..], content].concat();
        self.0.write_all(&frame).unwrap();
    }

    fn receive(&mut self) -> std::io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length)?;
        let mut content = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut content)?;
        Ok(content)
    }

    /// The next ranking; other frames are skipped.
    fn ranking(&mut self) -> Vec<String> {
        loop {
            let content = self.receive().unwrap();
            if content[0] != b'O' {
                continue;
            }
            let mut app_ids = Vec::new();
            let mut rest = &content[5..];
            while let [high, low, after @ ..] = rest {
                let (app_id, left) = after.split_at(usize::from(u16::from_be_bytes([*high, *low])));
                app_ids.push(String::from_utf8(app_id.to_vec()).unwrap());
                rest = left;
            }
            return app_ids;
        }
    }

    /// Waits for a frame with this content; others may precede it.
    fn wait_for_frame(&mut self, content: &[u8]) {
        while self.receive().unwrap() != content {}
    }

    /// Waits for this ranking; others may precede it.
    fn wait_for_ranking(&mut self, expected: &[&str]) {
        while self.ranking() != expected {}
    }

    fn node_added(&mut self, name: &str) {
        self.node_of_speed(name, 0);
    }

    fn node_of_speed(&mut self, name: &str, speed_ppm: u32) {
        self.send(
            &[b"N", &string(name)[..], &string("/rack"), &integers(&[4, 0]), &[1], &integers(&[speed_ppm])].concat(),
        );
    }

    fn app_added(&mut self, app_id: &str) {
        self.app_of_user(app_id, "ann");
    }

    fn app_of_user(&mut self, app_id: &str, user: &str) {
        let fields =
            [string(app_id), string("word count"), string(user), string("root.giveway"), integers(&[0]), vec![1]];
        self.send(&[b"A", &fields.concat()[..]].concat());
    }

    fn app_updated(&mut self, app_id: &str, maps: u32, reduces: u32) {
        self.send(
            &[b"Q", &string(app_id)[..], &integers(&[100_000, maps, reduces, 0, NO_HEADROOM_LIMIT]), &[1]].concat(),
        );
    }

    fn app_succeeded(&mut self, app_id: &str) {
        self.send(&[b"a", &string(app_id)[..], &[0]].concat());
    }

    /// A map container was allocated; `maps` are still outstanding.
    fn container_allocated(&mut self, app_id: &str, container_id: &str, node: &str, maps: u32) {
        let names = [string(app_id), string(container_id), string(node)].concat();
        self.send(&[b"C", &names[..], &[0, 0, 0], &integers(&[maps, 0])].concat());
    }

    fn container_released(&mut self, app_id: &str, container_id: &str, maps: u32) {
        self.send(&[b"c", &string(app_id)[..], &string(container_id), &[1], &integers(&[maps, 0])].concat());
    }
}

#[test]
fn an_invalid_peer_is_rejected_and_logged_once() {
    let dir = TempDir::new().unwrap();
    let sidecar = RunningSidecar::start(options(dir.path(), "fifo"));
    let frame = |content: Vec<u8>| [&(content.len() as u32).to_be_bytes()[..], &content].concat();
    for (bytes, reason) in [
        (frame(hello(PROTOCOL_VERSION + 1)), "version mismatch: plug-in 7, sidecar 6"),
        (vec![0x80, 0, 0, 0], "invalid frame length 2147483648: expected 1 to 4096"),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "invalid frame length 1195725856"),
        (frame(b"Hello there".to_vec()), "the first frame is not a HELLO"),
        (vec![0, 0, 0, 40, b'H', b'G'], "timed out waiting for a complete frame"),
    ] {
        let mut peer = Plugin::connect(sidecar.address);
        peer.0.write_all(&bytes).unwrap();
        let answer = peer.receive().unwrap();
        assert!(answer[0] == b'R' && String::from_utf8_lossy(&answer).contains(reason), "{answer:?}");
        assert!(peer.receive().is_err(), "the connection is closed");
        assert_eq!(sidecar.lines_with(reason), 1);
    }
    let mut peer = Plugin::connect(sidecar.address);
    peer.prove("a token that is long enougH", true);
    assert_eq!(peer.receive().unwrap()[0], b'R');
    assert_eq!(sidecar.lines_with("token mismatch"), 1);
    // The same fault twice in a row is logged once.
    for _ in 0..2 {
        Plugin::connect(sidecar.address).0.write_all(&[0, 0]).unwrap();
    }
    sidecar.wait_for_line("closed the connection within a frame");
    let mut plugin = Plugin::handshake(sidecar.address);
    plugin.send(b"b");
    plugin.receive().unwrap();
    assert_eq!(sidecar.lines_with("closed the connection within a frame"), 1);
    sidecar.stop();
}

#[test]
fn a_plugin_that_sends_invalid_frames_is_disconnected_and_may_reconnect() {
    let dir = TempDir::new().unwrap();
    let sidecar = RunningSidecar::start(options(dir.path(), "fifo"));
    for (bytes, reason) in [
        (&[0, 0, 0, 1, b'z'][..], "invalid frame of type `z`"),
        (&[0x80, 0, 0, 0], "invalid frame length 2147483648: expected 1 to 4194304"),
        (&[0, 0, 0, 3, b'n', 0, 9], "ends within a field"),
    ] {
        let mut plugin = Plugin::handshake(sidecar.address);
        plugin.0.write_all(bytes).unwrap();
        let answer = std::iter::from_fn(|| plugin.receive().ok()).find(|content| content[0] == b'R').unwrap();
        assert!(String::from_utf8_lossy(&answer).contains(reason), "{answer:?}");
        assert_eq!(sidecar.lines_with(reason), 1);
    }
    let mut previous = Plugin::handshake(sidecar.address);
    let mut current = Plugin::handshake(sidecar.address);
    current.send(b"b");
    assert!(std::iter::from_fn(|| current.receive().ok()).any(|content| content == b"b"));
    assert!(
        std::iter::from_fn(|| previous.receive().ok()).all(|content| content[0] == b'O'),
        "a new connection replaces the previous one"
    );
    sidecar.stop();
}

#[test]
fn messages_become_rankings_and_an_event_log_that_a_restarted_sidecar_continues() {
    let dir = TempDir::new().unwrap();
    let event_log = dir.path().join(EVENT_LOG);
    let (app_1, app_2) = ("application_1_0001", "application_1_0002");
    let sidecar = RunningSidecar::start(options(dir.path(), "hsrtf-pr"));
    let mut plugin = Plugin::handshake(sidecar.address);
    plugin.send(b"[");
    plugin.node_added("n1:1");
    plugin.send(b"]");
    assert_eq!(plugin.ranking(), [""; 0]);
    plugin.app_added(app_1);
    plugin.app_updated(app_1, 1, 0);
    plugin.wait_for_ranking(&[app_1]);
    plugin.app_updated(app_1, 0, 0);
    plugin.wait_for_ranking(&[]);
    plugin.app_updated(app_1, 30, 0);
    plugin.container_allocated(app_1, "c1", "n1:1", 29);
    plugin.container_allocated(app_1, "c1", "n1:1", 29);
    plugin.container_allocated(app_1, "c2", "n1:1", 28);
    plugin.app_added(app_2);
    plugin.app_updated(app_2, 2, 0);
    plugin.wait_for_ranking(&[app_2, app_1]);
    plugin.container_released(app_1, "c1", 28);
    plugin.container_released(app_1, "unknown", 28);
    plugin.app_updated(app_2, 0, 0);
    plugin.wait_for_ranking(&[app_1]);

    // The file now has what a killed sidecar would leave, plus a partial record. A second sidecar continues it.
    let left_by_kill = fs::read(&event_log).unwrap();
    sidecar.stop();
    fs::write(&event_log, [&left_by_kill[..], &[7, 0, 0]].concat()).unwrap();
    let sidecar = RunningSidecar::start(options(dir.path(), "hsrtf-pr"));
    let mut plugin = Plugin::handshake(sidecar.address);
    plugin.send(b"[");
    plugin.node_added("n1:1");
    plugin.app_added(app_1);
    plugin.container_allocated(app_1, "c2", "n1:1", 28);
    plugin.app_updated(app_1, 28, 0);
    plugin.app_succeeded(app_2);
    plugin.send(b"]");
    assert_eq!(plugin.ranking(), [app_1]);
    sidecar.wait_for_line("synchronized with the ResourceManager: 1 nodes, 1 applications, 1 containers");
    plugin.app_succeeded(app_1);
    plugin.wait_for_ranking(&[]);
    sidecar.stop();

    let bytes = fs::read(&event_log).unwrap();
    assert!(bytes.starts_with(&left_by_kill), "the first sidecar's records are retained");
    let mut reader = EventLogReader::open(&bytes).unwrap();
    let mut core = Scheduler::new(reader.setup().clone()).unwrap();
    let (mut listing, mut external_ids) = (String::new(), Vec::new());
    for record in &mut reader {
        let record = record.unwrap();
        let mut actions = Vec::new();
        core.handle(record.now, &record.event, &mut actions);
        assert_eq!(actions, record.actions);
        listing += &format!("{:?} {actions:?}\n", record.event);
        if let Event::JobOpened(spec) = record.event {
            external_ids.push(spec.external_id);
        }
    }
    assert_eq!(external_ids, [Some(app_1.to_owned()), Some(app_2.to_owned())], "{listing}");
    assert_eq!(listing.matches("Resynced []").count(), 1, "{listing}");
    assert_eq!(listing.matches("CloseJob { job: JobId(1), outcome: Succeeded }").count(), 1, "{listing}");
    assert_eq!(
        listing.matches("SlotGranted").count(),
        3,
        "two containers, one of them again in the snapshot\n{listing}"
    );
    assert_eq!(listing.matches("Refuse").count(), 0, "{listing}");
}

#[test]
fn invalid_options_are_refused_at_start() {
    let dir = TempDir::new().unwrap();
    let refusal = |options: Options| Sidecar::bind(options, |_| {}).err().expect("refused").to_string();
    let every_interface = Options { listen: "0.0.0.0:0".parse().unwrap(), ..options(dir.path(), "fifo") };
    assert!(refusal(every_interface).contains("use 127.0.0.1 or ::1"));
    let no_token_file = Options { token_file: dir.path().join("none"), ..options(dir.path(), "fifo") };
    assert!(refusal(no_token_file).contains("openssl rand"));
    let with_token = |token, mode| {
        let options = options(dir.path(), "fifo");
        Options { token_file: token_file(dir.path(), token, mode), ..options }
    };
    assert!(refusal(with_token(TOKEN, 0o644)).contains("chmod 600"));
    assert!(refusal(with_token("short", 0o600)).contains("fewer than 16 bytes"));
    RunningSidecar::start(options(dir.path(), "fifo")).stop();
    assert!(refusal(options(dir.path(), "las")).contains("it was written with policy `fifo`"));
    fs::write(dir.path().join(EVENT_LOG), "name,submit\n").unwrap();
    let error = Sidecar::bind(options(dir.path(), "fifo"), |_| {}).err().expect("refused");
    let message = error.to_string();
    assert!(matches!(error, SidecarError::Registry(_)) && message.contains("not a Giveway event log"), "{message}");
}

#[test]
fn a_recording_sidecar_orders_nothing() {
    let dir = TempDir::new().unwrap();
    let sidecar = RunningSidecar::start(Options { record_only: true, ..options(dir.path(), "fifo") });
    let mut plugin = Plugin::handshake(sidecar.address);
    plugin.send(b"[");
    plugin.node_added("n1:1");
    plugin.send(b"]");
    plugin.app_added("application_1_0001");
    plugin.app_updated("application_1_0001", 3, 0);
    plugin.send(b"b");
    assert_eq!(plugin.receive().unwrap(), b"b", "heartbeats are answered, no ranking is sent");
    sidecar.stop();
    let bytes = fs::read(dir.path().join(EVENT_LOG)).unwrap();
    let events: Vec<Event> = EventLogReader::open(&bytes).unwrap().map(|record| record.unwrap().event).collect();
    assert!(events.iter().any(|event| matches!(event, Event::SlotsRequested { maps: 3, .. })), "{events:?}");
}

#[test]
fn slots_that_the_plugin_counts_anew_count_from_the_end_of_the_batch() {
    let dir = TempDir::new().unwrap();
    let sidecar = RunningSidecar::start(options(dir.path(), "fcs"));
    let mut plugin = Plugin::handshake(sidecar.address);
    plugin.send(b"[");
    plugin.node_added("n1:1");
    plugin.send(b"]");
    plugin.send(&[b"N", &string("n1:1")[..], &string("/rack"), &integers(&[3, 0]), &[0], &integers(&[0])].concat());
    plugin.send(b"b");
    plugin.wait_for_frame(b"b");
    sidecar.stop();
    let bytes = fs::read(dir.path().join(EVENT_LOG)).unwrap();
    let mut events = EventLogReader::open(&bytes).unwrap().map(|record| record.unwrap().event);
    assert!(events.any(|event| matches!(event, Event::NodeSlotsSet { slots, .. } if slots[Kind::Reduce] == 3)));
}

#[test]
fn refused_nodes_are_sent_when_they_change() {
    let dir = TempDir::new().unwrap();
    let sidecar = RunningSidecar::start(options(dir.path(), "coshh"));
    sidecar.wait_for_line("no replicas are placed");
    let mut plugin = Plugin::handshake(sidecar.address);
    plugin.send(b"[");
    for (name, speed_ppm) in [("fast", 4_000_000), ("slow", 1_000_000)] {
        plugin.node_of_speed(name, speed_ppm);
    }
    plugin.send(b"]");
    let classes = [&b"L"[..], &integers(&[2]), &string("fast"), &[0, 0], &string("slow"), &[0, 1]].concat();
    plugin.wait_for_frame(&classes);
    for (app_id, user, maps) in [("large", "ann", 40), ("small", "bob", 4)] {
        plugin.app_of_user(app_id, user);
        plugin.app_updated(app_id, maps, 0);
    }
    sidecar.wait_for_line("small is suggested for nodes of class");
    let suggested = if sidecar.lines_with("small is suggested for nodes of class 0") > 0 { 0 } else { 1 };
    let refused = [&b"V"[..], &integers(&[10_000, 1]), &string("small"), &[0, 1, 0, 1 - suggested]].concat();
    plugin.wait_for_frame(&refused);
    plugin.app_updated("large", 0, 0);
    plugin.wait_for_frame(&[&b"V"[..], &integers(&[10_000, 0])].concat());
    sidecar.stop();
}

#[test]
fn a_plugin_that_cannot_refuse_nodes_ends_a_sidecar_that_matches() {
    let dir = TempDir::new().unwrap();
    let sidecar = RunningSidecar::start(options(dir.path(), "coshh"));
    let mut plugin = Plugin::connect(sidecar.address);
    plugin.prove(TOKEN, false);
    let error = sidecar.thread.join().unwrap().unwrap_err().to_string();
    assert!(error.contains("app-placement-allocator.class") && error.contains("--degrade"), "{error}");
    let degraded = Options { degrade: true, event_log: None, ..options(dir.path(), "coshh") };
    let sidecar = RunningSidecar::start(degraded);
    let mut plugin = Plugin::connect(sidecar.address);
    plugin.prove(TOKEN, false);
    sidecar.wait_for_line("applications are not matched to nodes");
    sidecar.stop();
}

#[test]
fn a_policy_beyond_yarns_means_starts_only_degraded() {
    let dir = TempDir::new().unwrap();
    let error = Sidecar::bind(options(dir.path(), "giveway"), |_| {}).err().expect("refused").to_string();
    assert!(error.contains("--degrade") && error.contains("no speculative attempts"), "{error}");
    let sidecar = RunningSidecar::start(Options { degrade: true, ..options(dir.path(), "giveway") });
    sidecar.wait_for_line("policy giveway on YARN: stragglers are left to the application masters");
    sidecar.stop();
}
