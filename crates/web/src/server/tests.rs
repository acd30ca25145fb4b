//! Tests of the server over its socket, as browsers and programs use it.

use super::*;
use crate::fixture;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;

fn server() -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.eventlog");
    std::fs::write(&path, fixture::event_log()).unwrap();
    (Server::view(&[path], SocketAddr::from(([127, 0, 0, 1], 0))).unwrap(), folder)
}

/// Sends a request with these headers; returns status, head and body.
fn request(server: &Server, method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, String, Vec<u8>) {
    let mut stream = TcpStream::connect(address(server)).unwrap();
    let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: 0\r\n");
    if !headers.iter().any(|(name, _)| *name == "Host") {
        text.push_str(&format!("Host: {}\r\n", address(server)));
    }
    headers.iter().for_each(|(name, value)| text.push_str(&format!("{name}: {value}\r\n")));
    text.push_str("\r\n");
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let split = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..split].to_vec()).unwrap();
    (head[9..12].parse().unwrap(), head, answer[split + 4..].to_vec())
}

fn address(server: &Server) -> SocketAddr {
    server.address().unwrap()
}

fn token(server: &Server) -> String {
    format!("Bearer {}", server.link().unwrap().unwrap().split_once("token=").unwrap().1)
}

fn get(server: &Server, path: &str) -> (u16, Vec<u8>) {
    let (status, _, body) = request(server, "GET", path, &[("Authorization", &token(server))]);
    (status, body)
}

#[test]
fn reading_needs_the_token_in_a_header_or_a_cookie() {
    let (server, _folder) = server();
    assert_eq!(request(&server, "GET", "/api/v1/timeline", &[]).0, 401);
    assert_eq!(request(&server, "GET", "/api/v1/timeline", &[("Authorization", "Bearer wrong")]).0, 401);
    assert_eq!(request(&server, "GET", "/metrics", &[]).0, 401);
    assert_eq!(get(&server, "/api/v1/timeline").0, 200);
    assert_eq!(request(&server, "GET", "/?token=wrong", &[]).0, 401);
    let (status, head, _) = request(
        &server,
        "GET",
        server.link().unwrap().unwrap().split_once("/?").map(|(_, query)| format!("/?{query}")).unwrap().as_str(),
        &[],
    );
    assert_eq!(status, 303);
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    assert_eq!(request(&server, "GET", "/api/v1/info", &[("Cookie", cookie)]).0, 200);
}

/// Connections that never send a request, however many, do not keep others out, and are closed.
#[test]
fn idle_connections_keep_nobody_out() {
    let (server, _folder) = server();
    let mut idle: Vec<TcpStream> = Vec::new();
    for _ in 0..3 * serve::CONNECTIONS_MAX {
        idle.push(TcpStream::connect(address(&server)).unwrap());
    }
    let mut slow = TcpStream::connect(address(&server)).unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\nHost: localh").unwrap();
    assert_eq!(get(&server, "/api/v1/info").0, 200);
    let mut answer = Vec::new();
    for mut stream in [idle.remove(0), idle.pop().unwrap(), slow] {
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        // Closed; a head that was cut off may be answered with an error.
        if let Err(error) = stream.read_to_end(&mut answer) {
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}");
        }
    }
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
}

/// Whoever has shown a valid token keeps the connection.
#[test]
fn connections_with_a_token_outlast_others() {
    let (server, _folder) = server();
    let request = format!(
        "GET /api/v1/updates HTTP/1.1\r\nHost: {}\r\nAuthorization: {}\r\n\r\n",
        address(&server),
        token(&server)
    );
    let mut watcher = TcpStream::connect(address(&server)).unwrap();
    watcher.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    watcher.write_all(request.as_bytes()).unwrap();
    let mut head = [0; 12];
    watcher.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    let _idle: Vec<TcpStream> =
        (0..2 * serve::CONNECTIONS_MAX).map(|_| TcpStream::connect(address(&server)).unwrap()).collect();
    assert_eq!(get(&server, "/api/v1/info").0, 200);
    // Comments keep the stream alive for as long as it is open.
    let mut bytes = vec![0; 64 << 10];
    let mut text = String::new();
    while !text.contains("\n\n:\n") && !text.contains("event: ") {
        let read = watcher.read(&mut bytes).unwrap();
        assert!(read > 0, "the watcher's connection was closed");
        text.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
}

/// Whoever has a token to read must not keep out others who have one.
#[test]
fn one_token_does_not_take_all_connections() {
    let (server, _folder) = server();
    let request = format!(
        "GET /api/v1/updates HTTP/1.1\r\nHost: {}\r\nAuthorization: {}\r\n\r\n",
        address(&server),
        token(&server)
    );
    let open = |_| {
        let mut stream = TcpStream::connect(address(&server)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        stream
    };
    let mut streams: Vec<TcpStream> = (0..serve::CONNECTIONS_MAX).map(open).collect();
    // There is room for connections that nobody knows yet, in the place of those above the limit of the token.
    let _idle: Vec<TcpStream> =
        (0..serve::CONNECTIONS_MAX).map(|_| TcpStream::connect(address(&server)).unwrap()).collect();
    assert_eq!(get(&server, "/api/v1/info").0, 200);
    let mut above = streams.remove(serve::CONNECTIONS_OF_TOKEN_MAX);
    let mut rest = Vec::new();
    // Closed, in whatever way.
    let _ = above.read_to_end(&mut rest);
}

/// A client that requests much and takes nothing is disconnected.
#[test]
fn a_client_that_does_not_read_is_disconnected() {
    let (server, _folder) = server();
    let mut stream = TcpStream::connect(address(&server)).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(120))).unwrap();
    let request = format!("GET /assets/main.js HTTP/1.1\r\nHost: {}\r\n\r\n", address(&server));
    let error = (0..10_000_000).find_map(|_| stream.write_all(request.as_bytes()).err()).expect("it ends");
    assert!(matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe), "{error}");
}

#[test]
fn other_host_names_are_refused() {
    let (server, _folder) = server();
    for path in ["/", "/api/v1/info", "/assets/main.js"] {
        assert_eq!(
            request(&server, "GET", path, &[("Host", "evil.example"), ("Authorization", &token(&server))]).0,
            421,
            "{path}"
        );
    }
}

#[test]
fn every_answer_has_a_strict_content_security_policy() {
    let (server, _folder) = server();
    for path in ["/", "/assets/main.js", "/healthz", "/no-such-page", "/api/v1/info"] {
        let (_, head, _) = request(&server, "GET", path, &[]);
        assert!(head.contains("content-security-policy: default-src 'none'; script-src 'self'"), "{path}: {head}");
    }
}

#[test]
fn a_recorded_log_cannot_be_changed() {
    let (server, _folder) = server();
    assert_eq!(request(&server, "POST", "/api/v1/jobs/0/kill", &[("Authorization", &token(&server))]).0, 409);
}

#[test]
fn the_description_lists_the_routes_that_exist() {
    let (server, _folder) = server();
    let (status, _, body) = request(&server, "GET", "/api/v1/openapi.json", &[]);
    assert_eq!(status, 200);
    let described: Value = serde_json::from_slice(&body).unwrap();
    let paths = described["paths"].as_object().unwrap();
    // The source of the router is the other list.
    let source = include_str!("mod.rs");
    let routes =
        source.lines().filter_map(|line| line.trim().strip_prefix(".route(\"")).filter_map(|rest| rest.split_once('"'));
    let routes: Vec<(&str, &str)> =
        routes.filter(|(path, _)| path.starts_with("/api/") && !path.ends_with(".json")).collect();
    assert_eq!(routes.len(), paths.len());
    for (path, methods) in routes {
        let described = paths.get(path).unwrap_or_else(|| panic!("{path} is not described"));
        for method in ["get", "post"] {
            let exists = methods.contains(&format!("{method}("));
            assert_eq!(described.get(method).is_some(), exists, "{method} {path}");
        }
    }
}

/// Fails unless a value has exactly the properties of a schema, and values of their types.
fn check_schema(value: &Value, schema: &Value, all: &Value, at: &str) {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap();
        return check_schema(value, &all[name], all, at);
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let is_null = |schema: &&Value| schema["type"] == "null";
        let choice = choices.iter().find(|schema| is_null(schema) == value.is_null()).unwrap();
        return check_schema(value, choice, all, at);
    }
    if let Some(values) = schema["enum"].as_array() {
        assert!(values.contains(value), "{at}: {value} is none of {values:?}");
        return;
    }
    let types = schema["type"].as_array().cloned().unwrap_or_else(|| vec![schema["type"].clone()]);
    let is_of = |kind: &str| match kind {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{at}: type {other}"),
    };
    assert!(types.iter().filter_map(Value::as_str).any(is_of), "{at}: {value} is none of {types:?}");
    if let Some(items) = value.as_array() {
        items.iter().for_each(|item| check_schema(item, &schema["items"], all, &format!("{at}[]")));
    }
    if let (Some(fields), Some(described)) = (value.as_object(), schema["properties"].as_object()) {
        let required: Vec<&str> = schema["required"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(required.iter().all(|name| fields.contains_key(*name)), "{at}: {value} lacks one of {required:?}");
        for (name, field) in fields {
            let field_schema = described.get(name).unwrap_or_else(|| panic!("{at}: {name} is not described"));
            check_schema(field, field_schema, all, &format!("{at}.{name}"));
        }
    }
}

#[test]
fn answers_are_as_described() {
    use giveway_engine::wire::{JobStatus, NodeExclusion, NodeStatus, TaskCounts};
    let description: Value = serde_json::from_str(OPENAPI).unwrap();
    let all = &description["components"]["schemas"];
    assert_eq!(all["Job"]["properties"]["state"]["enum"], serde_json::json!(JobStatus::STATES));
    let (server, _folder) = server();
    for (path, described) in [
        ("/api/v1/info", "/api/v1/info"),
        ("/api/v1/reasons?attempts=0,1,2,40", "/api/v1/reasons"),
        ("/api/v1/jobs/0/explain?at=110", "/api/v1/jobs/{id}/explain"),
    ] {
        let (status, body) = get(&server, path);
        assert_eq!(status, 200, "{path}");
        let schema =
            &description["paths"][described]["get"]["responses"]["200"]["content"]["application/json"]["schema"];
        check_schema(&serde_json::from_slice(&body).unwrap(), schema, all, path);
    }
    let status = JobStatus {
        job: giveway_core::JobId(1),
        name: "sort".into(),
        app: "sort".into(),
        user: "ann".into(),
        pool: "ann".into(),
        priority: giveway_core::Priority::VeryHigh,
        output: "/out".into(),
        outcome: Some(giveway_core::Outcome::Failed),
        next_round: None,
        maps: TaskCounts::default(),
        reduces: TaskCounts::default(),
        submitted_us: 1,
        submitted_ms: Some(1.5),
        started_us: Some(2),
        started_ms: None,
        ended_us: None,
        ended_ms: None,
        pauses: 0,
        early_ends: 0,
        kills: 0,
        recovered: 0,
        counters: [("records".to_owned(), 7)].into(),
        failures: vec!["map 0: exit code 3".into()],
    };
    check_schema(&serde_json::to_value(api::job_json_of(status)).unwrap(), &all["Job"], all, "job");
    let exclusion = NodeExclusion { failures: 4, jobs: 2, failed_probes: 0, probing: false, probe_in_s: 1.0 };
    for excluded in [None, Some(exclusion)] {
        let node = NodeStatus {
            node: giveway_core::NodeId(0),
            name: "node-0".into(),
            pid: Some(7),
            up: true,
            map_slots: (2, 1),
            reduce_slots: (1, 0),
            paused: 0,
            drained: false,
            excluded,
        };
        check_schema(&serde_json::to_value(api::NodeJson::from(node)).unwrap(), &all["Node"], all, "node");
    }
    // Every JSON answer has a schema.
    for (path, methods) in description["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            for (status, answer) in operation["responses"].as_object().unwrap() {
                let json = &answer["content"]["application/json"];
                assert!(json.is_null() || json["schema"].is_object(), "{method} {path} {status}");
            }
        }
    }
}

#[test]
fn strange_parameters_are_errors_of_the_client() {
    let (server, _folder) = server();
    for path in [
        "/api/v1/reasons",
        "/api/v1/reasons?attempts=x",
        "/api/v1/reasons?attempts=-1",
        "/api/v1/timeline?log=7",
        "/api/v1/timeline?log=x",
        "/api/v1/jobs/99/explain",
        "/api/v1/jobs/x/explain",
        "/api/v1/what-if",
        "/api/v1/what-if?policy=fast",
        "/api/v1/jobs/99999999999/explain",
        "/api/v1/jobs",
        "/api/v1/jobs?state=done",
        "/api/v1/nodes",
        "/api/v1/jobs/0/forecast",
        "/api/v1/jobs/0/logs",
        "/api/v1/jobs/0/logs/map-0.0",
        "/api/v1/jobs/0/logs/..%2f..%2ftoken",
        "/assets/..%2f..%2fCargo.toml",
    ] {
        let (status, body) = get(&server, path);
        assert!((400..500).contains(&status), "{path}: {status}");
        let problem: Value = serde_json::from_slice(&body).unwrap_or_else(|_| panic!("{path}: no JSON"));
        assert!(problem["error"].is_string(), "{path}: {problem}");
    }
    assert_eq!(get(&server, "/api/v1/reasons?attempts=0,1,4000000000").0, 200);
}

#[test]
fn a_comparison_has_two_timelines_and_runs_alone() {
    let (server, _folder) = server();
    let (status, body) = get(&server, "/api/v1/what-if?policy=fifo");
    assert_eq!(status, 200);
    let mut rest = body.as_slice();
    for policy in ["giveway", "fifo"] {
        let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
        let timeline = &rest[8..8 + length];
        let head = 4 + u32::from_le_bytes(timeline[..4].try_into().unwrap()) as usize;
        let view: Value = serde_json::from_slice(&timeline[4..head]).unwrap();
        assert_eq!((view["policy"].as_str(), view["jobs"].as_array().unwrap().len()), (Some(policy), 2));
        rest = &rest[8 + length.next_multiple_of(8)..];
    }
    assert!(rest.is_empty());
    let running = server.shared.what_if.try_acquire().unwrap();
    assert_eq!(get(&server, "/api/v1/what-if?policy=fifo").0, 429);
    drop(running);
    assert_eq!(get(&server, "/api/v1/what-if?policy=fifo").0, 200);
}

#[test]
fn names_with_markup_stay_text_and_explanations_are_served() {
    let (server, _folder) = server();
    let (status, body) = get(&server, "/api/v1/jobs/0/explain");
    let explanation: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((status, explanation["name"].as_str()), (200, Some("<b>large</b>")));
    let (_, body) = get(&server, "/api/v1/jobs/0/explain?at=30");
    let explanation: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(explanation["state"], "running", "at that instant it had not ended");
    assert_eq!(get(&server, "/api/v1/jobs/1/explain?at=30").0, 404, "not submitted yet");
    assert_eq!(get(&server, "/api/v1/jobs/0/explain?at=nan").0, 400);
    let (_, metrics) = get(&server, "/metrics");
    let metrics = String::from_utf8(metrics).unwrap();
    assert!(metrics.contains("giveway_nodes{state=\"lost\"} 1"), "{metrics}");
    assert!(metrics.contains("giveway_jobs{pool=\"prod\",state=\"succeeded\"} 1"), "{metrics}");
    let small = "giveway_job_completion_seconds_bucket{pool=\"adhoc\",le=";
    assert!(metrics.contains(&format!("{small}\"0.5\"}} 0")) && metrics.contains(&format!("{small}\"+Inf\"}} 1")));
    assert!(metrics.contains("giveway_job_wait_seconds_count{pool=\"prod\"} 1"), "{metrics}");
}

#[test]
fn scripts_import_only_files_that_are_served_and_write_no_markup() {
    let (server, _folder) = server();
    let mut pending = vec!["main.js".to_owned()];
    let mut seen = Vec::new();
    while let Some(name) = pending.pop() {
        if seen.contains(&name) {
            continue;
        }
        let (status, _, body) = request(&server, "GET", &format!("/assets/{name}"), &[]);
        assert_eq!(status, 200, "{name}");
        let text = String::from_utf8(body).unwrap();
        for forbidden in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "https://"] {
            assert!(!text.contains(forbidden), "{name} contains {forbidden}");
        }
        let imports = text.split("from \"./").skip(1).filter_map(|rest| rest.split('"').next());
        pending.extend(imports.map(str::to_owned));
        seen.push(name);
    }
    assert!(seen.len() > 8, "{seen:?}");
}

#[test]
fn alerts_and_dashboard_use_metrics_and_states_that_exist() {
    let (server, _folder) = server();
    let mut metrics = String::from_utf8(get(&server, "/metrics").1).unwrap();
    // A recorded log has no coordinator, whose times these are.
    let timings = giveway_engine::coordinator::Timings::default();
    metrics::of_coordinator(&timings, &mut metrics);
    let words = |text: &str| -> Vec<String> {
        text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).map(str::to_owned).collect()
    };
    let known = words(&metrics);
    for file in ["alerts.yml", "grafana.json"] {
        let path = format!("{}/../../examples/monitoring/{file}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap().replace("\\\"", "\"");
        let used: Vec<String> = words(&text).into_iter().filter(|word| word.starts_with("giveway_")).collect();
        assert!(used.len() > 5, "{file}");
        used.iter().for_each(|metric| assert!(known.contains(metric), "{file}: {metric} does not exist"));
        for operator in ["state=\"", "state!=\"", "state=~\"", "state!~\""] {
            for states in text.split(operator).skip(1).filter_map(|rest| rest.split('"').next()) {
                for state in states.split('|') {
                    assert!(metrics.contains(&format!("state=\"{state}\"")), "{file}: no state {state}");
                }
            }
        }
    }
}
