//! Giveway's body on Hadoop YARN.
//!
//! A real ResourceManager keeps its own CapacityScheduler; a small plug-in (`yarn/java`) tells this *sidecar* what happens and is told in which
//! order a queue's applications stand. The sidecar turns YARN's words into the core's events and the core's ranking into orders. It never
//! chooses; if it dies, the cluster carries on as plain FIFO.
//!
//! `wire` has the protocol, `book` knows which application is which job and keeps core and event log in step, `journal` is the event log on disk, and
//! `sidecar` has the sockets and the clock.

mod book;
mod journal;
mod sidecar;
mod wire;

pub use book::{Book, BookError, Sizes};
pub use journal::{Journal, JournalError};
pub use sidecar::{Options, Sidecar, SidecarError, Stopper};
pub use wire::{FRAME_BYTES_MAX, News, Order, VERSION, WireError};
