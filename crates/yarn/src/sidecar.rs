//! The sockets and the clock around the [`Book`].
//!
//! One thread accepts, one for each guest shakes hands and then reads, and one, the caller's, owns the book: it takes news in, sends orders and
//! answers beats. So an answer to a beat says that the one who decides is alive. There is one ResourceManager; whoever shows the token last is it.

use crate::book::{Book, BookError, Sizes};
use crate::wire::{self, News, Order, WireError};
use giveway_core::{Policy, Span, Time};
use std::io::{BufReader, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{fs, io, thread};
use thiserror::Error;

/// Who has not shown a token within this time is sent away.
const HELLO_WITHIN: Duration = Duration::from_secs(5);
/// The plug-in beats twice a second: after so long it is not there, or stuck within a frame.
const SILENCE: Duration = Duration::from_secs(10);
/// A plug-in that does not read for so long is not there.
const WRITE_WITHIN: Duration = Duration::from_secs(2);
/// More guests than this at once are not one ResourceManager trying again.
const GUESTS_MAX: usize = 16;
/// News that waits to be taken in; beyond it the plug-in waits, on a thread of its own.
const NEWS_MAX: usize = 65_536;
const TOKEN_BYTES_MIN: usize = 16;

/// What a sidecar is made of.
#[derive(Clone, Debug)]
pub struct Options {
    /// The policy.
    pub policy: Policy,
    /// Where to listen: a loopback address.
    pub listen: SocketAddr,
    /// The file with the token that the plug-in must show.
    pub token_file: PathBuf,
    /// Where to write the event log, if anywhere.
    pub event_log: Option<PathBuf>,
    /// What containers are taken to need.
    pub sizes: Sizes,
}

/// Why a sidecar cannot start.
#[derive(Debug, Error)]
pub enum SidecarError {
    /// Beyond the machine.
    #[error(
        "{0} can be reached from other machines, and the token would cross the network in clear; listen on 127.0.0.1 or ::1"
    )]
    NotLoopback(IpAddr),
    /// The address is taken, or not ours.
    #[error("cannot listen on {at} ({error}); is another sidecar running?")]
    Listen {
        /// The address.
        at: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// The token cannot be read.
    #[error("cannot read the token in {file} ({error}); write one there, for example with `openssl rand -hex 32`")]
    TokenFile {
        /// The file.
        file: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Others may read the token.
    #[error("{0} can be read by others than its owner; say `chmod 600` to it")]
    TokenOpen(PathBuf),
    /// The token is too easy to guess.
    #[error(
        "the token in {0} has fewer than {TOKEN_BYTES_MIN} bytes; write a longer one, for example with `openssl rand -hex 32`"
    )]
    TokenShort(PathBuf),
    /// The policy or the event log.
    #[error(transparent)]
    Book(#[from] BookError),
}

/// A sidecar that listens.
pub struct Sidecar {
    book: Book,
    listener: TcpListener,
    token: Arc<str>,
    inbox: Receiver<Letter>,
    post: SyncSender<Letter>,
    log: Log,
}

/// Ends a sidecar from another thread.
#[derive(Clone)]
pub struct Stopper(SyncSender<Letter>);

impl Stopper {
    /// Asks it to close its event log and return.
    pub fn stop(&self) {
        // If nobody listens any more it has stopped already.
        let _ = self.0.send(Letter::Stop);
    }
}

/// Where lines for people go. The same line is not said twice in a row: whoever tries again in vain would fill the disk.
#[derive(Clone)]
struct Log(Arc<Mutex<Lines>>);

struct Lines {
    last: String,
    to: Box<dyn FnMut(&str) + Send>,
}

impl Log {
    fn say(&self, line: &str) {
        let mut lines = self.0.lock().unwrap_or_else(|broken| broken.into_inner());
        if lines.last != line {
            lines.last = line.to_owned();
            (lines.to)(line);
        }
    }
}

/// What threads tell the one that owns the book.
enum Letter {
    Arrived(u64, TcpStream),
    News(u64, News),
    Left(u64, WireError),
    Stop,
}

/// The ResourceManager's end.
struct Guest {
    number: u64,
    stream: TcpStream,
    told: Option<Vec<String>>,
}

impl Sidecar {
    /// Checks everything there is to check, opens the event log, and listens. Lines for people go to `log`.
    pub fn bind(options: Options, log: impl FnMut(&str) + Send + 'static) -> Result<Sidecar, SidecarError> {
        if !options.listen.ip().is_loopback() {
            return Err(SidecarError::NotLoopback(options.listen.ip()));
        }
        let token = read_token(&options.token_file)?;
        let book = Book::open(options.policy, options.event_log.as_deref(), options.sizes)?;
        let listener =
            TcpListener::bind(options.listen).map_err(|error| SidecarError::Listen { at: options.listen, error })?;
        let (post, inbox) = sync_channel(NEWS_MAX);
        let log = Log(Arc::new(Mutex::new(Lines { last: String::new(), to: Box::new(log) })));
        Ok(Sidecar { book, listener, token: token.into(), inbox, post, log })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// What ends it.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.post.clone())
    }

    /// Serves until it is stopped; then the event log is closed.
    pub fn run(self) -> io::Result<()> {
        let Sidecar { mut book, listener, token, inbox, post, log } = self;
        let at = listener.local_addr()?;
        log.say(&format!("listening on {at}, applications are ordered by {}", book.policy()));
        let welcome = book.policy().to_owned();
        let accept_log = log.clone();
        thread::spawn(move || accept(&listener, &token, &welcome, &post, &accept_log));
        let (began, base) = (Instant::now(), book.begins());
        let now = || base + Span(began.elapsed().as_micros() as u64);
        let mut guest: Option<Guest> = None;
        loop {
            let mut letter = next_letter(&inbox, book.next_timer(), now());
            // All that waits is taken in before anything is said, so an order never lags behind what is known.
            while let Some(received) = letter {
                match received {
                    Letter::Stop => {
                        log.say("stopped");
                        return book.close();
                    }
                    received => receive(received, &mut book, &mut guest, now(), &log),
                }
                letter = inbox.try_recv().ok();
            }
            if book.next_timer().is_some_and(|at| at <= now()) {
                book.fire_timers(now());
            }
            book.flush();
            if let Some(complaint) = book.complaint() {
                log.say(&complaint);
            }
            send_order(&book, &mut guest, &log);
        }
    }
}

fn next_letter(inbox: &Receiver<Letter>, wake: Option<Time>, now: Time) -> Option<Letter> {
    let patience = wake.map_or(Duration::from_secs(3600), |at| Duration::from_micros(at.since(now).0));
    match inbox.recv_timeout(patience) {
        Ok(letter) => Some(letter),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => Some(Letter::Stop),
    }
}

fn receive(letter: Letter, book: &mut Book, guest: &mut Option<Guest>, now: Time, log: &Log) {
    match letter {
        Letter::Stop => {}
        Letter::Arrived(number, stream) => {
            if let Some(old) = guest.replace(Guest { number, stream, told: None }) {
                let _ = old.stream.shutdown(Shutdown::Both);
            }
        }
        Letter::News(number, news) if guest.as_ref().is_some_and(|guest| guest.number == number) => {
            if news == News::Beat {
                say(guest, &Order::Beat, log);
            } else if book.news(now, news) {
                let [nodes, apps, containers] = book.counts();
                log.say(&format!(
                    "in step with the ResourceManager: {nodes} nodes, {apps} applications, {containers} containers"
                ));
                // Whoever asked for everything to be heard also wants to hear the order, be it the old one.
                if let Some(guest) = guest {
                    guest.told = None;
                }
            }
        }
        Letter::News(..) => {}
        Letter::Left(number, why) => {
            if guest.as_ref().is_some_and(|guest| guest.number == number) {
                log.say(&format!("the ResourceManager is gone, or its plug-in is: {why}"));
                say(guest, &Order::Refused(why.to_string()), log);
                if let Some(guest) = guest.take() {
                    let _ = guest.stream.shutdown(Shutdown::Both);
                }
            }
        }
    }
}

fn send_order(book: &Book, guest: &mut Option<Guest>, log: &Log) {
    let Some(here) = guest else { return };
    let order = book.order();
    if here.told.as_ref() != Some(&order) {
        here.told = Some(order.clone());
        say(guest, &Order::Ranked(order), log);
    }
}

/// Says something to the guest; one that does not listen is sent away.
fn say(guest: &mut Option<Guest>, order: &Order, log: &Log) {
    let Some(here) = guest else { return };
    let mut bytes = Vec::new();
    order.write(&mut bytes).expect("memory takes it");
    if let Err(error) = here.stream.write_all(&bytes) {
        log.say(&format!("the ResourceManager does not listen ({error}); it will come again"));
        let _ = here.stream.shutdown(Shutdown::Both);
        *guest = None;
    }
}

fn accept(listener: &TcpListener, token: &Arc<str>, policy: &str, post: &SyncSender<Letter>, log: &Log) {
    let guests = Arc::new(AtomicUsize::new(0));
    for number in 0.. {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) => {
                log.say(&format!("cannot accept a connection ({error})"));
                // Out of file handles, most likely: there may be some in a moment.
                thread::sleep(Duration::from_millis(200));
                continue;
            }
        };
        if guests.fetch_add(1, Ordering::Relaxed) >= GUESTS_MAX {
            guests.fetch_sub(1, Ordering::Relaxed);
            log.say("too many connections at once; sent one away");
            continue;
        }
        let (token, policy, post, log, guests) =
            (Arc::clone(token), policy.to_owned(), post.clone(), log.clone(), Arc::clone(&guests));
        thread::spawn(move || {
            serve(number, stream, &token, policy, &post, &log);
            guests.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// Shakes hands with a guest, then reads what it says until it leaves.
fn serve(number: u64, stream: TcpStream, token: &str, policy: String, post: &SyncSender<Letter>, log: &Log) {
    let ready = || -> io::Result<TcpStream> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(HELLO_WITHIN))?;
        stream.set_write_timeout(Some(WRITE_WITHIN))?;
        stream.try_clone()
    };
    let Ok(mut other_end) = ready() else { return };
    let mut from = BufReader::new(&stream);
    if let Err(why) = wire::read_hello(&mut from, token) {
        log.say(&format!("sent a guest away: {why}"));
        let _ = Order::Refused(why.to_string()).write(&mut other_end);
        let _ = stream.shutdown(Shutdown::Both);
        return;
    }
    let began = Order::Welcome(policy).write(&mut other_end).and_then(|()| stream.set_read_timeout(Some(SILENCE)));
    if began.is_err() || post.send(Letter::Arrived(number, other_end)).is_err() {
        return;
    }
    let why = loop {
        match wire::read_news(&mut from) {
            Ok(news) => {
                if post.send(Letter::News(number, news)).is_err() {
                    return;
                }
            }
            Err(why) => break why,
        }
    };
    let _ = post.send(Letter::Left(number, why));
}

fn read_token(file: &Path) -> Result<String, SidecarError> {
    let io = |error| SidecarError::TokenFile { file: file.into(), error };
    let text = fs::read_to_string(file).map_err(io)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if fs::metadata(file).map_err(io)?.permissions().mode() & 0o077 != 0 {
            return Err(SidecarError::TokenOpen(file.into()));
        }
    }
    let token = text.trim();
    if token.len() < TOKEN_BYTES_MIN {
        return Err(SidecarError::TokenShort(file.into()));
    }
    Ok(token.to_owned())
}
