//! Entry points for fuzzing: each reads arbitrary bytes as one of the engine's formats. No input may cause a panic, or need much more memory than it
//! is long.
//!
//! Formats with checksums are read twice: as they are, and with corrected checksums. Otherwise nearly every input would be refused at its first
//! checksum, and the code behind it would never be reached.

use crate::coordinator::journal::{self, JournalFile};
use crate::coordinator::state_machine::{Coordinator, Settings};
use crate::coordinator::{JOURNAL_BYTES_MAX, SNAPSHOT_BYTES};
use crate::program::{FromRunner, ToRunner};
use crate::wire::{self, FromClient, FromWorker, ToClient, ToWorker};
use giveway_core::event_log::{EventLogDecoder, EventLogReader};
use giveway_core::policy::catalog;
use giveway_core::{Scheduler, Setup, Span};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Frames of a connection, as each kind of message.
pub fn wire(bytes: &[u8]) {
    fn read<T: DeserializeOwned + Serialize>(mut bytes: &[u8]) {
        while let Ok(message) = wire::receive::<T>(&mut bytes, wire::MESSAGE_BYTES_MAX) {
            let mut sent = Vec::new();
            wire::send(&mut sent, &message).unwrap_or_else(|error| panic!("a received message is not sent: {error}"));
        }
    }
    read::<FromWorker>(bytes);
    read::<ToWorker>(bytes);
    read::<FromClient>(bytes);
    read::<ToClient>(bytes);
    read::<ToRunner>(bytes);
    read::<FromRunner>(bytes);
}

/// A journal: it is decoded, and a coordinator recovers from it.
pub fn journal(bytes: &[u8]) {
    recover(bytes.to_vec());
    recover(journal::with_checksums(bytes));
}

fn recover(bytes: Vec<u8>) {
    let file = JournalFile { path: "log".into(), bytes, synced_bytes: 0 };
    let _ = journal::event_log(&file);
    let settings = Settings {
        heartbeat_interval: Span::from_millis(200),
        heartbeat_timeout: Span::from_secs(5),
        slowstart_ppm: 50_000,
        snapshot_bytes: SNAPSHOT_BYTES,
        journal_bytes_max: JOURNAL_BYTES_MAX,
    };
    let Some(policy) = catalog::by_name("fifo") else { return };
    let _ = Coordinator::open(settings, Setup::new(policy), Some(&file)).map(drop);
}

/// An event log: whole and in pieces, which must give the same records; a scheduler is then given its events.
pub fn event_log(bytes: &[u8]) {
    replay(bytes);
    let mut corrected = bytes.to_vec();
    journal::correct_event_log(&mut corrected);
    replay(&corrected);
}

fn replay(bytes: &[u8]) {
    let Ok(reader) = EventLogReader::open(bytes) else { return };
    let setup = reader.setup().clone();
    let records: Vec<_> = reader.map_while(Result::ok).collect();
    let (mut decoder, mut in_pieces) = (EventLogDecoder::new(), Vec::new());
    'pieces: for piece in bytes.chunks(61) {
        decoder.feed(piece);
        loop {
            match decoder.pull() {
                Ok(Some(record)) => in_pieces.push(record),
                Ok(None) => break,
                Err(_) => break 'pieces,
            }
        }
    }
    assert!(records == in_pieces, "the same records, however they arrive");
    let Ok(mut core) = Scheduler::new(setup) else { return };
    let mut actions = Vec::new();
    for record in &records {
        actions.clear();
        core.handle(record.now, &record.event, &mut actions);
    }
}
