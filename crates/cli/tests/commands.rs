//! The command line as a user meets it: what works, what is refused and how, and the same bytes twice.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

fn giveway(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_giveway")).args(args).current_dir(folder).output().expect("the binary runs")
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs it, expects exit code 2 and no panic, and returns what it said.
fn refused(folder: &Path, args: &[&str]) -> String {
    let output = giveway(folder, args);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    assert!(!said.contains("panicked"), "{args:?}: {said}");
    let mut parts: Vec<&str> = said.split([':', ';', '\n']).map(str::trim).filter(|part| part.len() > 20).collect();
    parts.sort_unstable();
    assert!(parts.windows(2).all(|pair| pair[0] != pair[1]), "something is said twice: {said}");
    said
}

fn file(folder: &TempDir, name: &str, content: &str) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, content).expect("a file");
    path
}

#[test]
fn the_demo_prints_a_table_and_writes_a_report() {
    let folder = folder();
    let output = giveway(folder.path(), &["demo"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("hsrtf-prp-pause"));
    let report = fs::read_to_string(folder.path().join("report.html")).expect("a report");
    assert!(report.contains("<svg") && !report.contains("http://") && !report.contains("https://"), "it loads nothing");
}

#[test]
fn two_runs_of_a_command_give_the_same_bytes() {
    let folder = folder();
    for workload in ["hsrtf-table2", "chronos-reduce", "coshh-facebook-30"] {
        let run = |name: &str| {
            let (json, event_log) = (format!("{name}.json"), format!("{name}.event log"));
            let policies = "fifo,fair,hsrtf-prp-pause,fcs,coshh,chronos(las)";
            let args = [
                "sim",
                "--workload",
                workload,
                "--policy",
                policies,
                "--seed",
                "7",
                "--json",
                &json,
                "--event-log",
                &event_log,
            ];
            assert!(giveway(folder.path(), &args).status.success());
            let mut bytes = vec![fs::read(folder.path().join(json)).expect("figures")];
            for policy in policies.split(',') {
                bytes.push(fs::read(folder.path().join(format!("{name}-{policy}-7.event log"))).expect("an event log"));
            }
            bytes
        };
        assert!(run("one") == run("two"), "{workload}");
    }
}

#[test]
fn a_event_log_replays_and_a_damaged_one_is_refused_with_the_record() {
    let folder = folder();
    let args = ["sim", "--workload", "chronos-map", "--policy", "chronos(fair)", "--event-log", "run.event log"];
    assert!(giveway(folder.path(), &args).status.success());
    let replayed = giveway(folder.path(), &["replay", "run.event log"]);
    assert!(replayed.status.success(), "{}", text(&replayed.stderr));
    assert!(text(&replayed.stdout).contains("every action identical"));

    let event_log = fs::read(folder.path().join("run.event log")).expect("the event log");
    fs::write(folder.path().join("cut.event log"), &event_log[..event_log.len() / 2]).expect("a cut event log");
    let said = refused(folder.path(), &["replay", "cut.event log"]);
    assert!(said.contains("record"), "{said}");

    let mut bent = event_log.clone();
    let at = bent.len() / 3;
    bent[at] ^= 4;
    fs::write(folder.path().join("bent.event log"), &bent).expect("a bent event log");
    let said = refused(folder.path(), &["replay", "bent.event log"]);
    assert!(said.contains("record"), "{said}");

    refused(folder.path(), &["replay", "missing.event log"]);
    file(&folder, "text.event log", "not an event log at all");
    refused(folder.path(), &["replay", "text.event log"]);
}

#[test]
fn a_policy_printed_edited_and_read_back_runs() {
    let folder = folder();
    let shown = giveway(folder.path(), &["policies", "show", "chronos(fcs)"]);
    let mine =
        text(&shown.stdout).replace("chronos(fcs)", "mine").replace("min_runtime = \"10s\"", "min_runtime = \"20s\"");
    file(&folder, "mine.toml", &mine);
    let output = giveway(folder.path(), &["sim", "--workload", "hsrtf-table2", "--policy", "fcs,mine.toml"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("mine"));
}

#[test]
fn every_name_that_is_listed_is_known() {
    let folder = folder();
    let listed = text(&giveway(folder.path(), &["policies"]).stdout);
    for name in listed.lines().filter_map(|line| line.split_whitespace().next()).filter(|name| !name.contains('(')) {
        assert!(giveway(folder.path(), &["policies", "show", name]).status.success(), "{name}");
        assert!(giveway(folder.path(), &["policies", "show", &format!("chronos({name})")]).status.success(), "{name}");
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(giveway(folder.path(), &["completions", shell]).status.success());
    }
}

#[test]
fn several_seeds_give_means_with_intervals() {
    let folder = folder();
    let args = ["sim", "--workload", "gridmix-60", "--policy", "fair,fcs", "--runs", "3", "--json", "out.json"];
    let output = giveway(folder.path(), &args);
    assert!(text(&output.stdout).contains('±'), "{}", text(&output.stdout));
    let json: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(folder.path().join("out.json")).expect("figures")).expect("JSON");
    let runs = json["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 6);
    for run in runs {
        for key in
            ["mean_completion_s", "p99_completion_s", "mean_slowdown", "lower_bound_mean_completion_s", "utilisation"]
        {
            assert!(run[key].is_number(), "{key}");
        }
        let bound = run["lower_bound_mean_completion_s"].as_f64().expect("a number");
        assert!(bound <= run["mean_completion_s"].as_f64().expect("a number"), "nothing beats the bound");
        assert!(run["groups"].as_object().is_some_and(|groups| !groups.is_empty()));
    }
}

const CLUSTER: &str = "name = 'c'\n[[nodes]]\ncount = 4\nmap_slots = 2\nreduce_slots = 1\n";
const WORKLOAD: &str = "[[jobs]]\nname = 'a'\napp = 'sort'\nmaps = 4\nreduces = 1\n";

#[test]
fn wrong_files_are_refused_with_place_and_remedy() {
    let folder = folder();
    file(&folder, "good-cluster.toml", CLUSTER);
    file(&folder, "good-workload.toml", WORKLOAD);
    let sim = |workload: &str, cluster: &str, policy: &str| {
        vec!["sim", "--workload", workload, "--cluster", cluster, "--policy", policy]
            .into_iter()
            .map(String::from)
            .collect()
    };
    let run = |args: Vec<String>| {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        giveway(folder.path(), &args)
    };
    // By its file, by its name, and by the name of a workload that ran on it.
    for cluster in ["good-cluster.toml", "hsrtf", "hsrtf-table2", "coshh-yahoo"] {
        let good = run(sim("good-workload.toml", cluster, "fifo"));
        assert!(good.status.success(), "{cluster}: {}", text(&good.stderr));
    }

    let clusters = [
        (
            "zero-slots.toml",
            CLUSTER.replace("map_slots = 2", "map_slots = 0").replace("reduce_slots = 1", "reduce_slots = 0"),
        ),
        ("million.toml", CLUSTER.replace("count = 4", "count = 1000000")),
        ("broken.toml", "[[nodes]\n".into()),
        ("unknown-key.toml", format!("{CLUSTER}speeed = 3\n")),
        ("negative.toml", format!("{CLUSTER}disk_mb_s = -5\n")),
    ];
    for (name, content) in clusters {
        file(&folder, name, &content);
        let args = sim("good-workload.toml", name, "fifo");
        let said = refused(folder.path(), &args.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(said.contains(&format!("{name}:")), "names file and line: {said}");
    }

    let cycle = format!("{WORKLOAD}[[pools]]\nname = 'a'\nparent = 'b'\n[[pools]]\nname = 'b'\nparent = 'a'\n");
    let workloads = [
        ("cycle.toml", cycle),
        ("no-jobs.toml", String::new()),
        ("negative-size.toml", format!("{WORKLOAD}map_mb = -1\n")),
        ("unknown-app.toml", WORKLOAD.replace("sort", "sorrt")),
        ("no-maps.toml", WORKLOAD.replace("maps = 4", "maps = 0")),
        ("too-many.toml", WORKLOAD.replace("maps = 4", "maps = 4000000000")),
    ];
    for (name, content) in workloads {
        file(&folder, name, &content);
        let args = sim(name, "good-cluster.toml", "fifo");
        let said = refused(folder.path(), &args.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(said.contains(&format!("{name}:")), "names file and line: {said}");
    }

    let shown = text(&giveway(folder.path(), &["policies", "show", "hsrtf-prp"]).stdout);
    let policies = [
        ("unknown-part.toml", shown.replace("below-share", "below-everything")),
        ("map-pause.toml", shown.replacen("how = \"kill\"", "how = \"pause\"", 1)),
        ("no-share.toml", shown.replace("share = \"inverse-remaining\"", "share = \"none\"")),
        ("not-a-span.toml", shown.replace("renew = \"10s\"", "renew = \"soon\"")),
        ("empty.toml", String::new()),
    ];
    for (name, content) in policies {
        assert_ne!(content, shown, "{name} is really wrong");
        file(&folder, name, &content);
        let args = sim("good-workload.toml", "good-cluster.toml", name);
        let said = refused(folder.path(), &args.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(said.contains(name), "names the file: {said}");
    }
}

#[test]
fn wrong_words_are_refused() {
    let folder = folder();
    let said = refused(folder.path(), &["sim", "--workload", "hsrtf-table3", "--policy", "fifo"]);
    assert!(said.contains("hsrtf-table2"), "lists what there is: {said}");
    let said = refused(folder.path(), &["sim", "--workload", "hsrtf-table2", "--policy", "fifoo"]);
    assert!(said.contains("fifo, fair"), "{said}");
    let said = refused(folder.path(), &["sim", "--workload", "hsrtf-table2", "--policy", "fifo,fifo"]);
    assert!(said.contains("twice"), "{said}");
    let said = refused(folder.path(), &["sim", "--workload", "missing.toml", "--policy", "fifo"]);
    assert!(said.contains("missing.toml"), "{said}");
    refused(folder.path(), &["sim", "--workload", "hsrtf-table2", "--cluster", "nowhere", "--policy", "fifo"]);
    refused(folder.path(), &["sim", "--workload", "hsrtf-table2", "--policy", "fifo", "--runs", "0"]);
    refused(folder.path(), &["sim", "--workload", "hsrtf-table2", "--policy", "fifo", "--estimate-error", "1.5"]);
    refused(folder.path(), &["policies", "show", "chronos(chronos(fifo))"]);
    refused(folder.path(), &["frobnicate"]);
    let said = refused(
        folder.path(),
        &["sim", "--workload", "hsrtf-table2", "--policy", "fifo", "--json", "no/such/folder.json"],
    );
    assert!(said.contains("no/such/folder.json"), "{said}");
    refused(
        folder.path(),
        &["sim", "--workload", "hsrtf-table2", "--policy", "fifo", "--event-log", "no/such/folder.event log"],
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_and_not_a_panic() {
    let folder = folder();
    let said =
        refused(folder.path(), &["sim", "--workload", "hsrtf-table2", "--policy", "fifo", "--json", "/dev/full"]);
    assert!(said.contains("/dev/full"), "{said}");
    let said =
        refused(folder.path(), &["sim", "--workload", "hsrtf-table2", "--policy", "fifo", "--event-log", "/dev/full"]);
    assert!(said.contains("/dev/full"), "{said}");
    let said = refused(folder.path(), &["demo", "--report", "/dev/full"]);
    assert!(said.contains("/dev/full"), "{said}");
}

/// Found out before a quarter of an hour of work, not after.
#[test]
fn what_could_not_be_written_is_refused_before_the_work() {
    let folder = folder();
    for (option, place) in [("--json", "no/such/folder.json"), ("--json", "."), ("--report", "/dev/null")] {
        let output = giveway(folder.path(), &["reproduce", "all", option, place]);
        assert_eq!(output.status.code(), Some(2), "{option} {place}");
        assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
        assert!(text(&output.stderr).contains(place), "{}", text(&output.stderr));
    }
}

#[test]
fn a_event_log_is_a_workload_and_lists_its_jobs() {
    let folder = folder();
    let sim = |workload: &str, event_log: &str| {
        let output =
            giveway(folder.path(), &["sim", "--workload", workload, "--policy", "hsrtf-pr", "--event-log", event_log]);
        assert!(output.status.success(), "{}", text(&output.stderr));
    };
    sim("chronos-map", "first.event log");
    sim("first.event log", "again.event log");
    let ended = |event_log: &str| -> Vec<String> {
        let output = giveway(folder.path(), &["replay", "--jobs", event_log]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let said = text(&output.stdout);
        said.lines().filter_map(|line| line.split_once(" Succeeded ")).map(|(_, name)| name.to_owned()).collect()
    };
    let (first, again) = (ended("first.event log"), ended("again.event log"));
    assert!(!first.is_empty() && first.len() == again.len(), "{first:?} {again:?}");
    let listed = text(&giveway(folder.path(), &["replay", "--list", "first.event log"]).stdout);
    assert!(listed.contains(" NodeLost { node: "), "{listed}");
    let said = refused(folder.path(), &["sim", "--workload", "none.event log/", "--policy", "fifo"]);
    assert!(said.contains("cannot read none.event log/"), "{said}");
}

#[test]
fn a_sidecar_refuses_what_its_cluster_cannot_do() {
    let folder = folder();
    file(&folder, "token", "a token that is long enough");
    let said = |policy| refused(folder.path(), &["yarn", "--policy", policy, "--token-file", "token"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let token = folder.path().join("token");
        fs::set_permissions(&token, fs::Permissions::from_mode(0o644)).expect("a mode");
        assert!(said("fifo").contains("chmod 600"));
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).expect("a mode");
    }
    assert!(said("fcs").contains("policy `fcs` needs a body that can pause a reduce and resume it"));
    assert!(said("hsrtf-pup").contains("needs a body that can kill a task"));
    assert!(said("shortest").contains("no policy is called `shortest`"));
}
