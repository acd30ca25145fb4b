//! The fields of API objects that the controller reads. All others are ignored.

use crate::quantity::{bytes, milli_cpu};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Labels that users set.
pub mod label {
    /// The queue of a Job. Giveway changes only Jobs that have it, and their pods.
    pub const QUEUE: &str = "giveway.dev/queue";
    /// The group of a pod that belongs to no Job, such as a Spark executor. Pods with the same group are one open job.
    pub const GROUP: &str = "giveway.dev/group";
    /// Kueue's queue. A Job that has it is never released.
    pub const KUEUE: &str = "kueue.x-k8s.io/queue-name";
}

/// Annotations of pods.
pub mod annotation {
    /// The CPU requests before the pod was squeezed: a JSON object from container to quantity. Written before the resize.
    pub const CPU_WAS: &str = "giveway.dev/cpu-was";
    /// The name of the controller that squeezed the pod.
    pub const PAUSED_BY: &str = "giveway.dev/paused-by";
    /// `never`, set by a user: the pod is not squeezed.
    pub const SQUEEZE: &str = "giveway.dev/squeeze";
}

/// Names and values.
pub type Map = BTreeMap<String, String>;

/// Metadata of any object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub resource_version: String,
    pub labels: Map,
    pub annotations: Map,
    pub owner_references: Vec<OwnerReference>,
}

/// The object that another one belongs to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    pub kind: String,
    pub uid: String,
    pub controller: bool,
}

/// A condition of any object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub reason: String,
    pub message: String,
}

fn condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

fn has_condition(conditions: &[Condition], kind: &str) -> bool {
    condition(conditions, kind).is_some_and(|condition| condition.status == "True")
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    pub metadata: Metadata,
    pub spec: NodeSpec,
    pub status: NodeStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    /// True if it is cordoned.
    pub unschedulable: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    pub allocatable: Map,
    pub conditions: Vec<Condition>,
}

impl Node {
    pub fn is_ready(&self) -> bool {
        has_condition(&self.status.conditions, "Ready")
    }

    /// Thousandths of a core that pods may request.
    pub fn allocatable_cpu(&self) -> u64 {
        self.status.allocatable.get("cpu").and_then(|quantity| milli_cpu(quantity)).unwrap_or(0)
    }

    /// Bytes that pods may request.
    pub fn allocatable_memory(&self) -> u64 {
        self.status.allocatable.get("memory").and_then(|quantity| bytes(quantity)).unwrap_or(0)
    }
}

/// A Job of `batch/v1`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Job {
    pub metadata: Metadata,
    pub spec: JobSpec,
    pub status: JobStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobSpec {
    pub suspend: bool,
    pub parallelism: Option<u32>,
    /// None if it is complete when any pod succeeds and all have ended.
    pub completions: Option<u32>,
    pub template: PodTemplate,
}

/// What the pods of a Job are made of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodTemplate {
    pub spec: PodSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    pub succeeded: u32,
    pub conditions: Vec<Condition>,
}

impl Job {
    pub fn is_complete(&self) -> bool {
        has_condition(&self.status.conditions, "Complete")
    }

    pub fn has_failed(&self) -> bool {
        has_condition(&self.status.conditions, "Failed")
    }

    /// A pod as it would be created.
    pub fn pod_template(&self) -> Pod {
        Pod { spec: self.spec.template.spec.clone(), ..Pod::default() }
    }

    /// The pods that it would run at once now.
    pub fn width(&self) -> u32 {
        let parallelism = self.spec.parallelism.unwrap_or(1);
        self.spec.completions.map_or(parallelism, |all| parallelism.min(all.saturating_sub(self.status.succeeded)))
    }
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pod {
    pub metadata: Metadata,
    pub spec: PodSpec,
    pub status: PodStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// Empty while the pod is not bound.
    pub node_name: String,
    pub containers: Vec<Container>,
    /// Requests of the pod as a whole.
    pub resources: Option<Resources>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    pub name: String,
    pub resources: Resources,
    pub resize_policy: Vec<ResizePolicy>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Resources {
    pub requests: Map,
    pub limits: Map,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResizePolicy {
    pub resource_name: String,
    pub restart_policy: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    pub phase: String,
    pub qos_class: String,
    pub conditions: Vec<Condition>,
    pub container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    pub name: String,
    /// What the kubelet has applied; none before the container has started.
    pub resources: Option<Resources>,
}

fn is_positive(resources: &Map, name: &str) -> bool {
    resources.get(name).is_some_and(|quantity| bytes(quantity) != Some(0))
}

impl Pod {
    pub fn is_bound(&self) -> bool {
        !self.spec.node_name.is_empty()
    }

    pub fn has_ended(&self) -> bool {
        self.has_succeeded() || self.status.phase == "Failed"
    }

    pub fn has_succeeded(&self) -> bool {
        self.status.phase == "Succeeded"
    }

    /// The uid of the Job that it belongs to.
    pub fn job_uid(&self) -> Option<&str> {
        let owner = self.metadata.owner_references.iter().find(|owner| owner.controller && owner.kind == "Job")?;
        Some(&owner.uid)
    }

    /// The CPU requests of its containers.
    pub fn cpu_requests(&self) -> Map {
        let requests = |container: &Container| {
            container.resources.requests.get("cpu").map(|cpu| (container.name.clone(), cpu.clone()))
        };
        self.spec.containers.iter().filter_map(requests).collect()
    }

    /// Thousandths of a core that it requests.
    pub fn cpu(&self) -> u64 {
        self.cpu_requests().values().filter_map(|quantity| milli_cpu(quantity)).sum()
    }

    /// Thousandths of a core that it requested before it was squeezed; 0 if it was not.
    pub fn cpu_before_squeeze(&self) -> u64 {
        self.cpu_was().iter().flat_map(|was| was.values()).filter_map(|quantity| milli_cpu(quantity)).sum()
    }

    /// Bytes of memory that it requests.
    pub fn memory(&self) -> u64 {
        let request = |container: &Container| bytes(container.resources.requests.get("memory")?);
        self.spec.containers.iter().filter_map(request).sum()
    }

    /// True if the kubelet has applied CPU requests of zero to all containers that had one: only then the scheduler counts the CPU as free.
    pub fn is_cpu_freed(&self) -> bool {
        self.cpu_requests().keys().all(|name| {
            let status = self.status.container_statuses.iter().find(|status| status.name == *name);
            let resources = status.and_then(|status| status.resources.as_ref());
            resources.is_some_and(|resources| !is_positive(&resources.requests, "cpu"))
        })
    }

    /// Why the kubelet will never carry out the pod's resize, if it will not.
    pub fn resize_infeasible(&self) -> Option<&str> {
        let pending = condition(&self.status.conditions, "PodResizePending")?;
        (pending.reason == "Infeasible").then_some(&pending.message)
    }

    /// True if a slot would let the pod run: the scheduler has not tried it yet, or some node lacks nothing but CPU.
    pub fn waits_for_cpu(&self) -> bool {
        if self.is_bound() || self.has_ended() {
            return false;
        }
        let scheduled = condition(&self.status.conditions, "PodScheduled");
        let Some(failed) = scheduled.filter(|scheduled| scheduled.status == "False") else { return true };
        failed.reason == "Unschedulable" && failed.message.contains("Insufficient cpu")
    }

    /// The controller that has squeezed it.
    pub fn paused_by(&self) -> Option<&str> {
        self.metadata.annotations.get(annotation::PAUSED_BY).map(String::as_str)
    }

    /// The CPU requests before it was squeezed, if the annotation is valid.
    pub fn cpu_was(&self) -> Option<Map> {
        let all: Map = serde_json::from_str(self.metadata.annotations.get(annotation::CPU_WAS)?).ok()?;
        all.values().all(|quantity| milli_cpu(quantity).is_some()).then_some(all)
    }

    /// Why the pod cannot be squeezed, if it cannot.
    pub fn squeeze_refusal(&self) -> Option<&'static str> {
        let containers = &self.spec.containers;
        let restarts = |container: &Container| {
            container
                .resize_policy
                .iter()
                .any(|policy| policy.resource_name == "cpu" && policy.restart_policy == "RestartContainer")
        };
        let keeps_class = |container: &Container| {
            let Resources { requests, limits } = &container.resources;
            is_positive(requests, "memory") || is_positive(limits, "memory") || is_positive(limits, "cpu")
        };
        if self.metadata.annotations.get(annotation::SQUEEZE).is_some_and(|value| value == "never") {
            Some("its annotation giveway.dev/squeeze says never")
        } else if self.status.qos_class == "Guaranteed" {
            Some(
                "its QoS class is Guaranteed, which a resize may not change; request less than the limit, or set no CPU limit",
            )
        } else if self.cpu_requests().is_empty() {
            Some("it requests no CPU")
        } else if self.spec.resources.is_some() {
            Some("its resources are those of the whole pod, which cannot be resized; set them on its containers")
        } else if containers.iter().any(restarts) {
            Some("its resizePolicy restarts the container when its CPU changes; set NotRequired")
        } else if !containers.iter().any(keeps_class) {
            Some("without CPU its QoS class would be BestEffort, which a resize may not change; request memory")
        } else {
            None
        }
    }
}
