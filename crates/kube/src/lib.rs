//! The Kubernetes backend.
//!
//! The cluster keeps its stock scheduler and kubelets. A *controller* watches nodes, Jobs and pods, translates them into events of the scheduler core, and
//! carries out the core's decisions through the API alone: the pod of a large Job is *squeezed*, which means that its CPU request is resized to zero in place
//! while a shorter Job needs the CPU, and Jobs that were submitted suspended are released in the policy's order. No pod is ever deleted or evicted.
//!
//! The controller is a state machine without input or output: objects, answers and the time in, requests out. What it has begun is kept in annotations of the
//! pods, so a controller that is restarted at any step continues from there.
//!
//! Modules: `objects` are the API objects as far as they are read here, `quantity` their numbers; `request` is what a driver exchanges with the controller;
//! `controller` maps objects to the core and back. With the feature `client`, `driver` has the watches, the patches and the clock, and `doctor` checks a cluster.

mod controller;
#[cfg(feature = "client")]
pub mod doctor;
#[cfg(feature = "client")]
pub mod driver;
mod objects;
mod quantity;
mod request;

pub use controller::{Controller, ControllerError, Mode, Options, adapt, degradations};
pub use objects::{
    Condition, Container, ContainerStatus, Job, JobSpec, JobStatus, Metadata, Node, NodeSpec, NodeStatus,
    OwnerReference, Pod, PodSpec, PodStatus, PodTemplate, ResizePolicy, Resources, annotation, label,
};
pub use quantity::{bytes, milli_cpu};
pub use request::{Answer, Change, Failure, Input, ObjectKind, Operation, Request};
