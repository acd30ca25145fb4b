//! The Hadoop YARN backend.
//!
//! The ResourceManager keeps the stock CapacityScheduler. A plug-in (`yarn/java`) sends cluster changes to this *sidecar* and receives a ranking of
//! the applications of its leaf queues, and orders to pause, resume and kill containers. The sidecar translates YARN's messages into core events,
//! the core's job ranking into a ranking of application ids, and the core's actions into orders. It takes no scheduling decision. If it stops, the
//! queues are plain FIFO and the plug-in resumes what was paused.
//!
//! Modules: `wire` is the protocol, `handshake` its beginning; `adaptation` says what a policy does here instead of what YARN has no means for; `app_registry` maps applications to jobs and containers to attempts, and drives the core; `containers` has the
//! states of containers and the orders; `event_log` is the event log file; `sidecar` has the sockets, threads and the clock; `doctor` checks Hadoop's
//! configuration.

mod adaptation;
mod app_registry;
mod containers;
pub mod doctor;
mod event_log;
pub mod fuzz;
mod handshake;
mod sidecar;
mod wire;

pub use adaptation::{Adapted, adapt, degradations};
pub use app_registry::{AppRegistry, ClusterCounts, RegistryError};
pub use event_log::{EventLogFile, EventLogFileError};
pub use sidecar::{Options, Sidecar, SidecarError, StopHandle};
pub use wire::{
    AppSpec, ContainerUpdate, FRAME_BYTES_MAX, NO_HEADROOM_LIMIT, PROTOCOL_VERSION, PluginMessage, SidecarMessage,
    WireError,
};
