//! The sidecar as the plug-in meets it, over real sockets; and as strangers meet it.

use giveway_core::Scheduler;
use giveway_core::event_log::EventLogReader;
use giveway_core::policy::catalog;
use giveway_yarn::{Options, Sidecar, SidecarError, Sizes, Stopper, VERSION};
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

/// A sidecar that runs, and what it said.
struct Running {
    at: SocketAddr,
    lines: Arc<Mutex<Vec<String>>>,
    stopper: Stopper,
    thread: JoinHandle<std::io::Result<()>>,
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
        event_log: Some(dir.join("run.event log")),
        sizes: Sizes::default(),
    }
}

impl Running {
    fn start(options: Options) -> Running {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&lines);
        let sidecar = Sidecar::bind(options, move |line| log.lock().unwrap().push(line.to_owned())).unwrap();
        let (at, stopper) = (sidecar.address().unwrap(), sidecar.stopper());
        Running { at, lines, stopper, thread: std::thread::spawn(move || sidecar.run()) }
    }

    fn said(&self, part: &str) -> usize {
        self.lines.lock().unwrap().iter().filter(|line| line.contains(part)).count()
    }

    fn waits_for(&self, part: &str) {
        let from = Instant::now();
        while self.said(part) == 0 {
            assert!(from.elapsed() < Duration::from_secs(15), "never said `{part}`: {:?}", self.lines.lock().unwrap());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn stop(self) {
        self.stopper.stop();
        self.thread.join().unwrap().unwrap();
    }
}

/// The plug-in's end, turned by hand.
struct Plugin(TcpStream);

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat()
}

fn numbers(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

fn hello(version: u16, token: &str) -> Vec<u8> {
    [b"HGIVEWAY", &version.to_be_bytes()[..], &text(token)].concat()
}

impl Plugin {
    fn connect(at: SocketAddr) -> Plugin {
        let stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
        Plugin(stream)
    }

    /// A guest who is let in.
    fn welcome(at: SocketAddr) -> Plugin {
        let mut plugin = Plugin::connect(at);
        plugin.send(&hello(VERSION, TOKEN));
        assert_eq!(plugin.receive().unwrap()[0], b'W');
        plugin
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

    /// The next order, beats passed over.
    fn order(&mut self) -> Vec<String> {
        loop {
            let content = self.receive().unwrap();
            if content[0] != b'O' {
                continue;
            }
            let mut apps = Vec::new();
            let mut rest = &content[5..];
            while let [high, low, after @ ..] = rest {
                let (app, left) = after.split_at(usize::from(u16::from_be_bytes([*high, *low])));
                apps.push(String::from_utf8(app.to_vec()).unwrap());
                rest = left;
            }
            return apps;
        }
    }

    /// Waits for this order; others may come before it.
    fn waits_for(&mut self, wanted: &[&str]) {
        while self.order() != wanted {}
    }

    fn node(&mut self, name: &str) {
        let sizes = [4096u64, 1024].map(u64::to_be_bytes).concat();
        self.send(&[b"N", &text(name)[..], &text("/rack"), &sizes].concat());
    }

    fn app(&mut self, app: &str) {
        let fields = [text(app), text("word count"), text("ann"), text("root.ours"), numbers(&[0])].concat();
        self.send(&[b"A", &fields[..]].concat());
    }

    fn asks(&mut self, app: &str, maps: u32, reduces: u32) {
        self.send(&[b"Q", &text(app)[..], &numbers(&[100_000, maps, reduces])].concat());
    }

    fn starts(&mut self, app: &str, container: &str, node: &str, kind: u8, maps: u32, reduces: u32) {
        let names = [text(app), text(container), text(node)].concat();
        self.send(&[b"C", &names[..], &[kind], &numbers(&[maps, reduces])].concat());
    }

    fn ends(&mut self, app: &str, container: &str, maps: u32) {
        self.send(&[b"c", &text(app)[..], &text(container), &[1], &numbers(&[maps, 0])].concat());
    }
}

#[test]
fn strangers_are_sent_away_with_one_line_on_each_side() {
    let dir = TempDir::new().unwrap();
    let sidecar = Running::start(options(dir.path(), "fifo"));
    let framed = |content: Vec<u8>| [&(content.len() as u32).to_be_bytes()[..], &content].concat();
    for (bytes, why) in [
        (framed(hello(VERSION, "a token that is long enougH")), "the token is not this sidecar's"),
        (framed(hello(VERSION + 1, TOKEN)), "speaks version 2 of the protocol, this sidecar 1"),
        (vec![0x80, 0, 0, 0], "a frame of 2147483648 bytes is none; at most 4096"),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "a frame of 1195725856 bytes"),
        (framed(b"Hello there".to_vec()), "does not begin as the plug-in does"),
        (vec![0, 0, 0, 40, b'H', b'G'], "half a frame"),
    ] {
        let mut guest = Plugin::connect(sidecar.at);
        guest.0.write_all(&bytes).unwrap();
        let answer = guest.receive().unwrap();
        assert!(answer[0] == b'R' && String::from_utf8_lossy(&answer).contains(why), "{answer:?}");
        assert!(guest.receive().is_err(), "it hangs up");
        assert_eq!(sidecar.said(why), 1);
    }
    // Half a frame and then the end, twice: the second is not worth another line.
    for _ in 0..2 {
        Plugin::connect(sidecar.at).0.write_all(&[0, 0]).unwrap();
    }
    sidecar.waits_for("hung up within a frame");
    let mut plugin = Plugin::welcome(sidecar.at);
    plugin.send(b"b");
    plugin.receive().unwrap();
    assert_eq!(sidecar.said("hung up within a frame"), 1);
    sidecar.stop();
}

#[test]
fn a_plugin_that_talks_nonsense_is_sent_away_and_may_come_again() {
    let dir = TempDir::new().unwrap();
    let sidecar = Running::start(options(dir.path(), "fifo"));
    for (bytes, why) in [
        (&[0, 0, 0, 1, b'z'][..], "`z` makes no sense"),
        (&[0x80, 0, 0, 0], "a frame of 2147483648 bytes is none; at most 4194304"),
        (&[0, 0, 0, 3, b'n', 0, 9], "ends within a field"),
    ] {
        let mut plugin = Plugin::welcome(sidecar.at);
        plugin.0.write_all(bytes).unwrap();
        let answer = std::iter::from_fn(|| plugin.receive().ok()).find(|content| content[0] == b'R').unwrap();
        assert!(String::from_utf8_lossy(&answer).contains(why), "{answer:?}");
        assert_eq!(sidecar.said(why), 1);
    }
    let mut old = Plugin::welcome(sidecar.at);
    let mut new = Plugin::welcome(sidecar.at);
    new.send(b"b");
    assert!(std::iter::from_fn(|| new.receive().ok()).any(|content| content == b"b"));
    assert!(std::iter::from_fn(|| old.receive().ok()).all(|content| content[0] == b'O'), "the last one is it");
    sidecar.stop();
}

#[test]
fn news_becomes_an_order_and_a_event_log_that_outlives_its_writer() {
    let dir = TempDir::new().unwrap();
    let event_log = dir.path().join("run.event log");
    let sidecar = Running::start(options(dir.path(), "hsrtf-pr"));
    let mut plugin = Plugin::welcome(sidecar.at);
    plugin.send(b"[");
    plugin.node("n1:1");
    plugin.send(b"]");
    assert_eq!(plugin.order(), [""; 0]);
    plugin.app("application_1_0001");
    plugin.asks("application_1_0001", 1, 0);
    plugin.waits_for(&["application_1_0001"]);
    plugin.asks("application_1_0001", 0, 0);
    plugin.waits_for(&[]);
    plugin.asks("application_1_0001", 30, 0);
    plugin.starts("application_1_0001", "c1", "n1:1", 0, 29, 0);
    plugin.starts("application_1_0001", "c1", "n1:1", 0, 29, 0);
    plugin.starts("application_1_0001", "c2", "n1:1", 0, 28, 0);
    plugin.app("application_1_0002");
    plugin.asks("application_1_0002", 2, 0);
    plugin.waits_for(&["application_1_0002", "application_1_0001"]);
    plugin.ends("application_1_0001", "c1", 28);
    plugin.ends("application_1_0001", "unheard-of", 28);
    plugin.asks("application_1_0002", 0, 0);
    plugin.waits_for(&["application_1_0001"]);

    // What is on disk now is what a kill would leave: another sidecar goes on with it.
    let left = fs::read(&event_log).unwrap();
    sidecar.stop();
    fs::write(&event_log, [&left[..], &[7, 0, 0]].concat()).unwrap();
    let sidecar = Running::start(options(dir.path(), "hsrtf-pr"));
    let mut plugin = Plugin::welcome(sidecar.at);
    plugin.send(b"[");
    plugin.node("n1:1");
    plugin.app("application_1_0001");
    plugin.starts("application_1_0001", "c2", "n1:1", 0, 28, 0);
    plugin.asks("application_1_0001", 28, 0);
    plugin.send(&[b"a", &text("application_1_0002")[..], &[0]].concat());
    plugin.send(b"]");
    assert_eq!(plugin.order(), ["application_1_0001"]);
    sidecar.waits_for("in step with the ResourceManager: 1 nodes, 1 applications, 1 containers");
    plugin.send(&[b"a", &text("application_1_0001")[..], &[0]].concat());
    plugin.waits_for(&[]);
    sidecar.stop();

    let bytes = fs::read(&event_log).unwrap();
    assert!(bytes.starts_with(&left), "the first sidecar's event log goes on");
    let mut reader = EventLogReader::open(&bytes).unwrap();
    let mut core = Scheduler::new(reader.setup().clone()).unwrap();
    let mut story = String::new();
    for record in &mut reader {
        let record = record.unwrap();
        let mut actions = Vec::new();
        core.handle(record.now, &record.event, &mut actions);
        assert_eq!(actions, record.actions);
        story += &format!("{:?} {actions:?}\n", record.event);
    }
    assert_eq!(story.matches("Resynced []").count(), 1, "{story}");
    assert_eq!(story.matches("CloseJob { job: JobId(1), outcome: Succeeded }").count(), 1, "{story}");
    assert_eq!(story.matches("SlotGranted").count(), 3, "two containers, and one of them told again\n{story}");
    assert_eq!(story.matches("Refuse").count(), 0, "{story}");
}

#[test]
fn what_cannot_be_served_is_refused_at_the_start() {
    let dir = TempDir::new().unwrap();
    let refusal = |options: Options| Sidecar::bind(options, |_| {}).err().expect("refused").to_string();
    for (policy, need) in [
        ("fcs", "pause a reduce and resume it"),
        ("hsrtf-prp", "kill a task so that another job gets its slot"),
        ("coshh", "run a given task on a given node"),
        ("chronos(fifo)", "pause a reduce"),
    ] {
        let message = refusal(options(dir.path(), policy));
        assert!(message.contains(&format!("policy `{policy}` needs a body that can {need}")), "{message}");
    }
    let everywhere = Options { listen: "0.0.0.0:0".parse().unwrap(), ..options(dir.path(), "fifo") };
    assert!(refusal(everywhere).contains("listen on 127.0.0.1 or ::1"));
    let missing = Options { token_file: dir.path().join("none"), ..options(dir.path(), "fifo") };
    assert!(refusal(missing).contains("openssl rand"));
    let with_token = |token, mode| {
        let options = options(dir.path(), "fifo");
        Options { token_file: token_file(dir.path(), token, mode), ..options }
    };
    assert!(refusal(with_token(TOKEN, 0o644)).contains("chmod 600"));
    assert!(refusal(with_token("short", 0o600)).contains("fewer than 16 bytes"));
    Running::start(options(dir.path(), "fifo")).stop();
    assert!(refusal(options(dir.path(), "las")).contains("is an event log of policy `fifo`"));
    fs::write(dir.path().join("run.event log"), "name,submit\n").unwrap();
    let error = Sidecar::bind(options(dir.path(), "fifo"), |_| {}).err().expect("refused");
    assert!(matches!(error, SidecarError::Book(_)) && error.to_string().contains("not a Giveway event log"), "{error}");
}
