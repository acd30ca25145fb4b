//! The schemas of the API's answers. Tests compare them with the answers; fields may be added, so programs have to accept unknown ones.

use serde_json::{Value, json};

/// An object with these properties, all of which are always there.
fn object(about: &str, properties: &[(&str, Value)]) -> Value {
    let names: Vec<&str> = properties.iter().map(|(name, _)| *name).collect();
    let properties: serde_json::Map<String, Value> =
        properties.iter().map(|(name, schema)| ((*name).into(), schema.clone())).collect();
    json!({ "type": "object", "description": about, "required": names, "properties": properties })
}

fn described(mut schema: Value, about: &str) -> Value {
    schema["description"] = about.into();
    schema
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// A list of values of a schema.
pub(super) fn list(items: Value) -> Value {
    json!({ "type": "array", "items": items })
}

/// The schemas by name. [`super::openapi`] names those of requests and errors too.
pub(super) fn all() -> Vec<(&'static str, Value)> {
    let text = || json!({ "type": "string" });
    let maybe_text = || json!({ "type": ["string", "null"] });
    let flag = || json!({ "type": "boolean" });
    let number = || json!({ "type": "number" });
    let maybe_number = || json!({ "type": ["number", "null"] });
    let whole = || json!({ "type": "integer", "minimum": 0 });
    let maybe_whole = || json!({ "type": ["integer", "null"], "minimum": 0 });
    let interval = || json!({ "type": ["array", "null"], "items": { "type": "number" }, "minItems": 3, "maxItems": 3, "description": "5th, 50th and 95th percentile" });
    let pair = |about: &str| {
        described(
            json!({ "type": "array", "items": { "type": "integer", "minimum": 0 }, "minItems": 2, "maxItems": 2 }),
            about,
        )
    };
    let states = || json!({ "enum": giveway_engine::wire::JobStatus::STATES });
    let priority = || json!({ "enum": ["very-high", "high", "normal", "low", "very-low"] });
    vec![
        (
            "Info",
            object(
                "What is served",
                &[
                    ("version", text()),
                    ("live", flag()),
                    ("coordinator", described(flag(), "whether a coordinator answers")),
                    ("logs", list(object("an event log", &[("name", text()), ("policy", maybe_text())]))),
                    ("watchers", whole()),
                    ("uptime_s", whole()),
                ],
            ),
        ),
        (
            "Reason",
            object(
                "Why an attempt was launched and stopped",
                &[
                    ("attempt", described(whole(), "its row in the timeline")),
                    ("launched", maybe_text()),
                    ("stopped", maybe_text()),
                    ("kept", described(maybe_number(), "the part of its task that a paused reduce kept, 0 to 1")),
                ],
            ),
        ),
        (
            "TaskCounts",
            object(
                "Tasks of a kind",
                &[("total", whole()), ("done", whole()), ("running", whole()), ("paused", whole())],
            ),
        ),
        (
            "Job",
            object(
                "A job",
                &[
                    ("job", whole()),
                    ("name", text()),
                    ("app", text()),
                    ("user", text()),
                    ("pool", text()),
                    ("priority", priority()),
                    ("output", text()),
                    ("outcome", json!({ "enum": ["Succeeded", "Killed", "Failed", null] })),
                    ("next_round", described(maybe_whole(), "the job of the next round of an iterative application")),
                    ("maps", reference("TaskCounts")),
                    ("reduces", reference("TaskCounts")),
                    ("submitted_us", whole()),
                    ("submitted_ms", maybe_number()),
                    ("started_us", maybe_whole()),
                    ("started_ms", maybe_number()),
                    ("ended_us", maybe_whole()),
                    ("ended_ms", maybe_number()),
                    ("pauses", whole()),
                    ("early_ends", whole()),
                    ("kills", described(whole(), "attempts killed to free their slots")),
                    ("recovered", described(whole(), "launches that replaced lost work")),
                    (
                        "counters",
                        json!({ "type": "object", "additionalProperties": { "type": "integer", "minimum": 0 } }),
                    ),
                    ("failures", described(list(text()), "the most recent ones, oldest first")),
                    ("state", states()),
                    ("expected_end_ms", interval()),
                ],
            ),
        ),
        (
            "Node",
            object(
                "A node",
                &[
                    ("node", whole()),
                    ("name", text()),
                    ("pid", described(maybe_whole(), "null while the worker is disconnected")),
                    ("up", described(flag(), "false once the node is declared lost")),
                    ("map_slots", pair("all, in use")),
                    ("reduce_slots", pair("all, in use")),
                    ("paused", whole()),
                    ("drained", described(flag(), "true if it gets no tasks because an administrator has drained it")),
                    (
                        "excluded",
                        json!({ "anyOf": [{ "type": "null" }, object("Why a node that is up gets no tasks", &[
                ("failures", whole()),
                ("jobs", whole()),
                ("failed_probes", whole()),
                ("probing", flag()),
                ("probe_in_s", number()),
            ])] }),
                    ),
                ],
            ),
        ),
        (
            "Explanation",
            object(
                "Why a job runs, waits or ended as it did",
                &[
                    ("job", whole()),
                    ("name", text()),
                    ("state", states()),
                    ("policy", text()),
                    ("at_s", number()),
                    ("wall_ms", maybe_number()),
                    (
                        "facts",
                        list(object(
                            "A fact with its numbers",
                            &[
                                ("title", text()),
                                ("text", text()),
                                ("cause", described(flag(), "true if it holds the job back")),
                                (
                                    "bars",
                                    list(object(
                                        "A job that the fact names",
                                        &[("job", whole()), ("name", text()), ("value", number()), ("text", text())],
                                    )),
                                ),
                            ],
                        )),
                    ),
                    (
                        "decisions",
                        list(object(
                            "A decision about the job",
                            &[("at_s", number()), ("at_ms", maybe_number()), ("text", text())],
                        )),
                    ),
                    ("forecasts", list(reference("Forecast"))),
                ],
            ),
        ),
        (
            "Forecast",
            object(
                "Start and end under a policy, in seconds of the log",
                &[("policy", text()), ("start_s", interval()), ("end_s", interval())],
            ),
        ),
        (
            "Log",
            object(
                "What an attempt has printed",
                &[("attempt", text()), ("node", text()), ("bytes", whole()), ("stored_bytes", whole())],
            ),
        ),
        ("Submitted", object("The job was accepted", &[("job", whole())])),
        ("Killed", object("The job is killed", &[("job", whole()), ("killed", flag())])),
        ("Yielded", object("The job yields", &[("job", whole()), ("yielded", flag())])),
        (
            "Reloaded",
            object(
                "Policy and tenants are in force",
                &[
                    ("policy", text()),
                    ("changed", flag()),
                    ("changes", described(list(text()), "what has changed, a line each")),
                ],
            ),
        ),
        ("Drained", object("Whether the node gets tasks", &[("node", text()), ("drained", flag())])),
    ]
}
