//! Connections: threads that turn bytes into mail for the desk, and the desk's answers into bytes.

use super::desk::{Link, Mail};
use super::planning;
use crate::apps::Apps;
use crate::store::{CoordinatorStoreAccess, Namespace, StoreSession};
use crate::wire::{self, FromClient, FromWorker, MESSAGE_BYTES_MAX, Role, ToClient, ToWorker, Token};
use std::collections::HashSet;
use std::io::{self, BufWriter, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

/// Answers whoever calls, each on a thread of their own.
pub(super) fn listen(
    listener: TcpListener,
    token: Token,
    apps: Apps,
    store: Arc<Namespace>,
    mail: Sender<Mail>,
) -> io::Result<()> {
    thread::Builder::new().name("listener".into()).spawn(move || {
        for (stream, line) in listener.incoming().zip(1_u64..) {
            let Ok(stream) = stream else { continue };
            let (token, apps, store, mail) = (token.clone(), apps.clone(), Arc::clone(&store), mail.clone());
            let stored = CoordinatorStoreAccess { namespace: store, token };
            let served =
                thread::Builder::new().name("line".into()).spawn(move || serve(stream, line, stored, &apps, &mail));
            if let Err(error) = served {
                crate::say(&format!("a caller was turned away: no thread for it ({error})"));
            }
        }
    })?;
    Ok(())
}

fn serve(mut stream: TcpStream, line: u64, stored: CoordinatorStoreAccess, apps: &Apps, mail: &Sender<Mail>) {
    let served = match wire::accept(&mut stream, &stored.token) {
        Ok(Role::Worker) => serve_worker(stream, line, mail),
        Ok(Role::Client) => serve_client(stream, &stored, apps, mail),
        Ok(Role::Data) => {
            crate::say("a caller wanted data from the coordinator, which keeps none; turned away");
            Ok(())
        }
        Err(error) => Err(error),
    };
    if let Err(error) = served
        && !error.is_goodbye()
    {
        crate::say(&format!("a caller was turned away: {error}"));
    }
}

fn serve_worker(mut stream: TcpStream, line: u64, mail: &Sender<Mail>) -> Result<(), wire::WireError> {
    let FromWorker::Join(join) = wire::receive(&mut stream, MESSAGE_BYTES_MAX)? else {
        return Err(wire::WireError::Stranger);
    };
    let (to, outbox) = mpsc::channel();
    let Ok(writing) = stream.try_clone() else { return Ok(()) };
    let writer = thread::Builder::new().name("line-out".into()).spawn(move || write_out(writing, &outbox));
    if writer.is_err() {
        return Ok(());
    }
    let link = Link { line, to, welcomed: false, plans: HashSet::new(), told_outputs: HashSet::new() };
    let _ = mail.send(Mail::Joined { join, link });
    loop {
        match wire::receive(&mut stream, MESSAGE_BYTES_MAX) {
            Ok(message) => {
                if mail.send(Mail::Worker { line, message }).is_err() {
                    return Ok(());
                }
            }
            Err(error) => {
                let _ = mail.send(Mail::Left { line });
                return Err(error);
            }
        }
    }
}

/// Sends what the desk has to say until the desk drops the line.
fn write_out(stream: TcpStream, outbox: &Receiver<ToWorker>) {
    let mut out = BufWriter::new(&stream);
    while let Ok(message) = outbox.recv() {
        let mut sent = wire::send(&mut out, &message);
        // What waits goes out together.
        while sent.is_ok() {
            match outbox.try_recv() {
                Ok(message) => sent = wire::send(&mut out, &message),
                Err(_) => break,
            }
        }
        if sent.is_err() || out.flush().is_err() {
            break;
        }
    }
    let _ = out.flush();
    let _ = stream.shutdown(Shutdown::Both);
}

fn serve_client(
    mut stream: TcpStream,
    stored: &CoordinatorStoreAccess,
    apps: &Apps,
    mail: &Sender<Mail>,
) -> Result<(), wire::WireError> {
    // Puts that were begun here and not ended are over when the line is.
    let mut session = StoreSession::new(Arc::clone(&stored.namespace), stored.token.clone());
    loop {
        let message: FromClient = wire::receive(&mut stream, MESSAGE_BYTES_MAX)?;
        let (reply, answers) = mpsc::channel();
        let sent = match message {
            FromClient::Submit(request) => match planning::plan(*request, apps, stored) {
                Ok(plan) => mail.send(Mail::Submit { plan: Box::new(plan), reply }),
                Err(failure) => {
                    let _ = reply.send(ToClient::Refused { why: failure.0 });
                    drop(reply);
                    Ok(())
                }
            },
            FromClient::Store(request) => {
                wire::send(&mut stream, &session.handle(request))?;
                continue;
            }
            message => mail.send(Mail::Client { message, reply }),
        };
        if sent.is_err() {
            return wire::send(&mut stream, &ToClient::Refused { why: "the coordinator is stopping".into() });
        }
        // One answer, or several if a job is followed; the desk hangs up after the last.
        while let Ok(answer) = answers.recv() {
            wire::send(&mut stream, &answer)?;
        }
    }
}
