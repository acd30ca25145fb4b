//! The description of the API, in the OpenAPI format. A test compares it with the routes.

use super::schemas;
use axum::Json;
use serde_json::{Value, json};

/// `GET /api/v1/openapi.json`
pub(super) async fn serve() -> Json<Value> {
    Json(openapi())
}

/// The description of the API.
pub fn openapi() -> Value {
    let job = json!({ "name": "id", "in": "path", "required": true, "schema": { "type": "integer", "minimum": 0, "maximum": u32::MAX } });
    let log = json!({ "name": "log", "in": "query", "description": "0, or 1 for the second of two logs", "schema": { "type": "integer", "minimum": 0, "maximum": 1 } });
    let node = json!({ "name": "name", "in": "path", "required": true, "schema": { "type": "string" } });
    let at = json!({ "name": "at", "in": "query", "description": "seconds since the start of the log", "schema": { "type": "number", "minimum": 0 } });
    let text = |name: &str, about: &str| json!({ "name": name, "in": "query", "description": about, "schema": { "type": "string" } });
    let offset = |name: &str, about: &str| json!({ "name": name, "in": "query", "description": about, "schema": { "type": "integer", "minimum": 0 } });
    let json_kind = "application/json";
    let other = |summary: &str, parameters: Vec<&Value>, kind: &str| {
        json!({
            "summary": summary,
            "parameters": parameters,
            "security": [{ "cookie": [] }, { "bearer": [] }],
            "responses": responses("200", kind, json!({})),
        })
    };
    let read = |summary: &str, parameters: Vec<&Value>, schema: Value| {
        let mut operation = other(summary, parameters, json_kind);
        operation["responses"] = responses("200", json_kind, schema);
        operation
    };
    let one = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let many = |name: &str| schemas::list(one(name));
    let change = |summary: &str, parameters: Vec<&Value>, name: &str| json!({ "summary": summary, "parameters": parameters, "security": [{ "bearer": [] }], "responses": responses("200", json_kind, one(name)) });
    let mut submit = change("Submit a job", vec![], "Submitted");
    submit["requestBody"] = json!({ "required": true, "content": { json_kind: { "schema": { "$ref": "#/components/schemas/Submission" } } } });
    submit["responses"] = responses("201", json_kind, one("Submitted"));
    let mut description = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Giveway",
            "version": "1",
            "description": "State, explanation and control of a Giveway cluster. Times that end in _us count from the start of the cluster's journal.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "paths": {
            "/api/v1/info": { "get": read("What is served: version, logs and their policies", vec![], one("Info")) },
            "/api/v1/timeline": { "get": other("All jobs, nodes, attempts and decisions in columns (docs/api.md)", vec![&log], "application/octet-stream") },
            "/api/v1/updates": { "get": other("What is new since a cursor, as server-sent events", vec![&text("after", "cursor of the last answer")], "text/event-stream") },
            "/api/v1/reasons": { "get": read("Why attempts were launched and stopped", vec![&log, &json!({ "name": "attempts", "in": "query", "required": true, "description": "row numbers, separated by commas", "schema": { "type": "string" } })], many("Reason")) },
            "/api/v1/jobs": {
                "get": read("List jobs", vec![&text("user", "only jobs of this user"), &text("pool", "only jobs of this pool"), &text("state", "waiting, running, succeeded, killed or failed")], many("Job")),
                "post": submit,
            },
            "/api/v1/jobs/{id}": { "get": read("Status, counters and failures of a job", vec![&job], one("Job")) },
            "/api/v1/jobs/{id}/explain": { "get": read("Why a job runs or waits, now or at an instant", vec![&job, &log, &at], one("Explanation")) },
            "/api/v1/jobs/{id}/forecast": { "get": read("When a job starts and ends, under this and other policies", vec![&job], many("Forecast")) },
            "/api/v1/jobs/{id}/kill": { "post": change("Kill a job and remove its output", vec![&job], "Killed") },
            "/api/v1/jobs/{id}/yield": { "post": change("Make every running attempt of a job yield its slot once, without losing work", vec![&job], "Yielded") },
            "/api/v1/jobs/{id}/logs": { "get": read("List what the attempts of a job have printed", vec![&job], many("Log")) },
            "/api/v1/jobs/{id}/logs/{attempt}": { "get": other("What an attempt has printed, at most 1 MiB; the header giveway-log-next has the offset for the next request", vec![&job, &json!({ "name": "attempt", "in": "path", "required": true, "description": "for example map-7.0", "schema": { "type": "string" } }), &offset("from", "offset of the first byte"), &offset("tail", "only the last bytes")], "text/plain") },
            "/api/v1/nodes": { "get": read("List nodes: state, process and slots", vec![], many("Node")) },
            "/api/v1/nodes/{name}/drain": { "post": change("Start no new tasks on a node; running ones go on", vec![&node], "Drained") },
            "/api/v1/nodes/{name}/include": { "post": change("Use a node again that was drained, or excluded because of failures", vec![&node], "Drained") },
            "/api/v1/reload": { "post": change("Read the policy and tenants files again; if something is wrong with them, nothing changes", vec![], "Reloaded") },
        },
        "components": {
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer", "description": "A token of `giveway token create`, or the one in the file `token`" },
                "cookie": { "type": "apiKey", "in": "cookie", "name": "giveway-PORT", "description": "Set by the link that is printed at start" },
            },
            "schemas": {
                "Problem": { "type": "object", "required": ["error"], "properties": { "error": { "type": "string" } } },
                "Submission": {
                    "type": "object",
                    "required": ["app", "input", "output"],
                    "additionalProperties": false,
                    "properties": {
                        "app": { "type": "string" },
                        "input": { "type": "array", "items": { "type": "string" }, "minItems": 1, "description": "Absolute paths, globs, or hdfs: paths" },
                        "output": { "type": "string", "description": "Absolute path of a directory that does not exist" },
                        "options": { "type": "object", "additionalProperties": { "type": "string" } },
                        "reduces": { "type": ["integer", "null"], "minimum": 0 },
                        "split_bytes": { "type": ["integer", "null"], "minimum": 1 },
                        "memory_bytes": { "type": ["integer", "null"], "minimum": 1 },
                        "name": { "type": ["string", "null"] },
                        "user": { "type": ["string", "null"] },
                        "pool": { "type": ["string", "null"] },
                        "priority": { "enum": ["very-high", "high", "normal", "low", "very-low"] },
                    },
                },
            },
        },
    });
    schemas::all().into_iter().for_each(|(name, schema)| description["components"]["schemas"][name] = schema);
    description
}

/// The answers to a request: with this status and content, or an error.
fn responses(ok: &str, kind: &str, schema: Value) -> Value {
    let problem = |about: &str| json!({ "description": about, "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Problem" } } } });
    let mut all = json!({
        "400": problem("The request is not valid"),
        "401": problem("The token is missing, wrong or expired"),
        "403": problem("The token does not allow this, or the request comes from another page"),
        "404": problem("There is no such job or log"),
        "408": problem("The body did not arrive in time"),
        "409": problem("The cluster refuses the request, or a recorded log is served"),
        "421": problem("The host name is not this machine's"),
        "503": problem("The coordinator does not answer"),
    });
    let content = if schema == json!({}) { json!({}) } else { json!({ "schema": schema }) };
    all[ok] = json!({ "description": "OK", "content": { kind: content } });
    all
}
