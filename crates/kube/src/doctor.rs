//! Checks what a cluster offers: its version, the subresource that resizes pods, rights, and limits that forbid a squeeze.

use crate::driver::{DriverError, connect, runtime};
use crate::milli_cpu;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

/// The rights that the controller uses: group, resource, verbs, and what does not work without them.
const RIGHTS: [(&str, &str, &[&str], &str); 6] = [
    ("", "nodes", &["list", "watch"], "nothing works"),
    ("", "pods", &["list", "watch"], "nothing works"),
    ("batch", "jobs", &["list", "watch"], "nothing works"),
    ("", "pods", &["patch"], "no pod is squeezed: its CPU request is noted in annotations first"),
    ("", "pods/resize", &["patch"], "no pod is squeezed"),
    ("batch", "jobs", &["patch"], "no suspended Job is released"),
];

/// What is missing, one line each. Only what `record_only` needs is checked if it is set.
pub fn check(record_only: bool) -> Result<Vec<String>, DriverError> {
    runtime()?.block_on(async {
        let client = connect().await?;
        let fail = |error: kube::Error| DriverError::Config(error.to_string());
        let mut findings = Vec::new();
        let version = client.apiserver_version().await.map_err(fail)?;
        let minor: u32 = version.minor.trim_end_matches('+').parse().unwrap_or(0);
        if !record_only && (version.major.as_str(), minor) < ("1", 33) {
            findings.push(format!(
                "Kubernetes {}.{}: resizing pods in place is on by default from 1.33; before, enable the feature gate InPlacePodVerticalScaling",
                version.major, version.minor
            ));
        }
        let resources = client.list_core_api_resources("v1").await.map_err(fail)?;
        if !record_only && !resources.resources.iter().any(|resource| resource.name == "pods/resize") {
            findings.push("the API has no pods/resize: no pod can be squeezed; enable the feature gate InPlacePodVerticalScaling".into());
        }
        check_rights(&client, record_only, &mut findings).await.map_err(fail)?;
        if !record_only {
            check_limit_ranges(&client, &mut findings).await;
        }
        Ok(findings)
    })
}

fn resource(group: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind))
}

async fn check_rights(client: &Client, record_only: bool, findings: &mut Vec<String>) -> Result<(), kube::Error> {
    let kind = resource("authorization.k8s.io", "SelfSubjectAccessReview");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    for (group, resource, verbs, cost) in RIGHTS {
        let (name, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        for verb in verbs.iter().filter(|verb| !record_only || **verb != "patch") {
            let attributes = json!({"group": group, "resource": name, "subresource": subresource, "verb": verb});
            let mut review = DynamicObject::new("", &kind).data(json!({"spec": {"resourceAttributes": attributes}}));
            review.metadata.name = None;
            let answer = api.create(&PostParams::default(), &review).await?;
            if answer.data["status"]["allowed"] != Value::Bool(true) {
                findings.push(format!("no right to {verb} {resource}: {cost}; apply kube/manifests/giveway.yaml"));
            }
        }
    }
    Ok(())
}

async fn check_limit_ranges(client: &Client, findings: &mut Vec<String>) {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource("", "LimitRange"));
    let Ok(ranges) = api.list(&ListParams::default()).await else {
        findings.push("no right to list limitranges: not checked whether one forbids a CPU request of 0; the controller does not need it".into());
        return;
    };
    for range in ranges {
        let limits = range.data["spec"]["limits"].as_array().cloned().unwrap_or_default();
        let is_positive = |limit: &Value| limit["min"]["cpu"].as_str().and_then(milli_cpu).is_some_and(|cpu| cpu > 0);
        if limits.iter().any(is_positive) {
            let (namespace, name) =
                (range.metadata.namespace.unwrap_or_default(), range.metadata.name.unwrap_or_default());
            findings.push(format!("LimitRange {namespace}/{name} has a minimum CPU above 0: no pod of this namespace can be squeezed; remove the minimum"));
        }
    }
}
