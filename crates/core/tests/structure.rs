//! Dependency rules between modules, checked on the source text.

use std::fs;
use std::path::{Path, PathBuf};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            sources(&entry, out);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            out.push(entry);
        }
    }
}

/// The lines of all sources below the folders, without comments, as (file, line number, text).
fn lines(folders: &[PathBuf]) -> Vec<(PathBuf, usize, String)> {
    let mut files = Vec::new();
    folders.iter().for_each(|folder| sources(folder, &mut files));
    assert!(!files.is_empty(), "no sources below {folders:?}");
    let mut lines = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            lines.push((file.clone(), number + 1, code.to_owned()));
        }
    }
    lines
}

/// The names of the directories in `crates`.
fn crates() -> Vec<String> {
    let entries = fs::read_dir(workspace().join("crates")).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The crates of this workspace that a crate depends on, without those of its tests.
fn dependencies(manifest: &str) -> Vec<&str> {
    let is_header = |line: &&str| line.starts_with('[');
    let begin = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    let lines = begin.take_while(|line| !is_header(line));
    let names = lines.filter_map(|line| line.split(['.', ' ', '=']).next());
    names.filter_map(|name| name.strip_prefix("giveway").map(|rest| rest.strip_prefix('-').unwrap_or("cli"))).collect()
}

/// Each crate with those that it may depend on. The program is not among them: it may depend on all.
const MAY_DEPEND_ON: [(&str, &[&str]); 12] = [
    ("core", &[]),
    ("compression", &[]),
    ("sim", &["core"]),
    ("traces", &["compression", "core", "sim"]),
    ("mapreduce", &["compression", "core"]),
    ("engine", &["core", "mapreduce"]),
    ("yarn", &["core"]),
    ("kube", &["core"]),
    ("analysis", &["core", "engine", "sim"]),
    ("web", &["analysis", "core", "engine", "mapreduce"]),
    ("cli-common", &["core", "engine", "mapreduce", "sim", "traces"]),
    ("lab", &["analysis", "cli-common", "core", "engine", "mapreduce", "sim"]),
];

/// Crates depend on each other as the diagram in ARCHITECTURE.md shows: backends not on each other, and nothing on the program.
#[test]
fn crates_depend_only_on_those_below_them() {
    let mut found = Vec::new();
    for name in crates().iter().filter(|name| *name != "cli") {
        let Some((_, allowed)) = MAY_DEPEND_ON.iter().find(|(known, _)| known == name) else {
            panic!("crates/{name} is not in the list of crates; add it there and in ARCHITECTURE.md");
        };
        let manifest = fs::read_to_string(workspace().join("crates").join(name).join("Cargo.toml")).unwrap();
        for other in dependencies(&manifest).iter().filter(|other| !allowed.contains(other)) {
            found.push(format!("{name} depends on {other}"));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// True if the code names a variant of the enum: `Name::Variant`, where the variant begins with a capital.
fn names_variant(code: &str, name: &str) -> bool {
    let path = format!("{name}::");
    code.match_indices(&path).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let is_whole_name = before.is_none_or(|c| !c.is_alphanumeric() && c != '_');
        is_whole_name && code[at + path.len()..].starts_with(|c: char| c.is_ascii_uppercase())
    })
}

/// Code outside `policy` that tests for a variant of a part would have to be revised with every new part, and could be forgotten.
#[test]
fn nothing_outside_policy_names_a_variant_of_a_part() {
    let parts = [
        "JobOrder",
        "GroupOrder",
        "RoutingStage",
        "Share",
        "Trigger",
        "VictimOrder",
        "AttemptOrder",
        "Migration",
        "Recovery",
        "Fallback",
    ];
    let crates: Vec<PathBuf> = crates().iter().map(|name| workspace().join("crates").join(name).join("src")).collect();
    let policy = workspace().join("crates/core/src/policy");
    let mut found = Vec::new();
    for (file, line, code) in lines(&crates) {
        if !file.starts_with(&policy)
            && let Some(part) = parts.iter().find(|part| names_variant(&code, part))
        {
            found.push(format!("{}:{line} names a variant of {part}: {}", file.display(), code.trim()));
        }
    }
    assert!(found.is_empty(), "call a method of the part instead of testing for its variant:\n{}", found.join("\n"));
}

/// True if the code reads a field that selects a part which a policy may lack.
fn tests_for_part(code: &str, field: &str) -> bool {
    let access = format!(".{field}");
    code.match_indices(&access).any(|(at, _)| {
        let rest = &code[at + access.len()..];
        !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '(')
    })
}

/// A part that a policy may lack is asked through the policy, which answers for policies without it.
#[test]
fn nothing_in_the_core_outside_policy_tests_whether_a_policy_has_a_part() {
    let core = workspace().join("crates/core/src");
    let fields = ["max_lag", "matching", "speculation", "refuse_slow"];
    let found: Vec<String> = lines(std::slice::from_ref(&core))
        .into_iter()
        .filter(|(file, ..)| !file.starts_with(core.join("policy")))
        .filter(|(_, _, code)| fields.iter().any(|field| tests_for_part(code, field)))
        .map(|(file, line, code)| format!("{}:{line}: {}", file.display(), code.trim()))
        // The matcher is made for a policy's rules, or for none.
        .filter(|found| !found.contains("Matcher::new(policy.matching, "))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// What applies recorded actions must not be able to decide.
#[test]
fn the_cluster_does_not_depend_on_the_scheduler() {
    let cluster = workspace().join("crates/core/src/cluster");
    let decides = ["scheduler::", "crate::Scheduler", "recovery::find", "Round::new", "placement.choose("];
    let found: Vec<String> = lines(&[cluster])
        .into_iter()
        .filter(|(_, _, code)| decides.iter().any(|word| code.contains(word)))
        .map(|(file, line, code)| format!("{}:{line}: {}", file.display(), code.trim()))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_state_does_not_depend_on_the_policy() {
    let state = workspace().join("crates/core/src/state");
    let found: Vec<String> = lines(&[state])
        .into_iter()
        .filter(|(_, _, code)| ["policy::", "scheduler::", "cluster::"].iter().any(|module| code.contains(module)))
        .map(|(file, line, code)| format!("{}:{line}: {}", file.display(), code.trim()))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_core_uses_no_clock_file_socket_thread_or_output() {
    let core = workspace().join("crates/core/src");
    let forbidden = [
        "std::time",
        "Instant",
        "SystemTime",
        "std::fs",
        "std::net",
        "std::thread",
        "std::env",
        "println!",
        "eprintln!",
    ];
    let found: Vec<String> = lines(&[core])
        .into_iter()
        .filter(|(_, _, code)| forbidden.iter().any(|word| code.contains(word)))
        // Spans are formatted with `std::time::Duration`, which reads no clock.
        .filter(|(_, _, code)| !code.contains("std::time::Duration::from_micros"))
        .map(|(file, line, code)| format!("{}:{line}: {}", file.display(), code.trim()))
        .collect();
    assert!(
        found.is_empty(),
        "the core may use no clock, file, socket, thread, environment or output:\n{}",
        found.join("\n")
    );
}

#[test]
fn the_checks_can_fail() {
    assert!(names_variant("if order == JobOrder::Submission {", "JobOrder"));
    assert!(!names_variant("let order = JobOrder::default();", "JobOrder"));
    assert!(!names_variant("Reason::Recovery { lost }", "Recovery"));
    assert!(names_variant("policy::Recovery::Chronos", "Recovery"));
    let manifest = "[dependencies]\ngiveway.workspace = true\ngiveway-sim = { path = \"\" }\nserde = \"1\"\n\n[dev-dependencies]\ngiveway-core = \"1\"";
    assert_eq!(dependencies(manifest), ["cli", "sim"]);
    assert!(tests_for_part("if self.policy.max_lag.is_some() {", "max_lag"));
    assert!(!tests_for_part("matcher.matching_nodes()", "matching") && !tests_for_part("lag.max_lag()", "max_lag"));
}
