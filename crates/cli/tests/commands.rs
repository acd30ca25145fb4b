//! End-to-end tests of the command line: results, rejected input with its error messages, and reproducible output.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

fn giveway(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_giveway")).args(args).current_dir(folder).output().expect("cannot run giveway")
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("cannot create a temporary directory")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command that must fail with exit code 2 and without a panic, and returns its error message. No part of the message may be repeated.
fn refused(folder: &Path, args: &[&str]) -> String {
    let output = giveway(folder, args);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
    assert!(!message.contains("panicked"), "{args:?}: {message}");
    let mut parts: Vec<&str> = message.split([':', ';', '\n']).map(str::trim).filter(|part| part.len() > 20).collect();
    parts.sort_unstable();
    assert!(parts.windows(2).all(|pair| pair[0] != pair[1]), "repeated text: {message}");
    message
}

fn file(folder: &TempDir, name: &str, content: &str) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, content).expect("cannot write a test file");
    path
}

#[test]
fn demo_prints_a_table_and_writes_a_report() {
    let folder = folder();
    let output = giveway(folder.path(), &["demo"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("hsrtf-prp-pause"));
    let stdout = text(&output.stdout);
    let verdicts = ["Preemption helps small jobs", "No clear difference", "too busy to tell"];
    assert!(verdicts.iter().any(|verdict| stdout.contains(verdict)), "{stdout}");
    let report = fs::read_to_string(folder.path().join("report.html")).expect("cannot read the report");
    assert!(
        report.contains("<svg") && !report.contains("http://") && !report.contains("https://"),
        "the report loads external resources"
    );
}

/// As in `giveway policies | head -1`.
#[test]
fn a_reader_that_stops_reading_is_no_error() {
    for args in [["completions", "powershell"], ["completions", "bash"], ["policies", "show"]] {
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_giveway"))
            .args(args)
            .args((args[0] == "policies").then_some("giveway"))
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("cannot start giveway");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr), "", "{args:?}");
    }
}

#[test]
fn compare_writes_a_page_with_every_policy_and_every_part() {
    let folder = folder();
    let output = giveway(folder.path(), &["compare", "--seeds", "1", "--only", "chronos-map", "--report", "page.md"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = fs::read_to_string(folder.path().join("page.md")).expect("cannot read the page");
    let row = page.lines().find(|line| line.starts_with("| chronos-map |")).expect("a row");
    assert!(!page.contains("NaN") && row.split('|').count() == 16, "{page}");
    assert!(page.contains("| coshh-strict |") && page.contains("| limit of lags |"), "{page}");
    assert!(refused(folder.path(), &["compare", "--only", "chronos"]).contains("chronos-reduce"));
}

#[test]
fn equal_commands_write_identical_files() {
    let folder = folder();
    for workload in ["hsrtf-table2", "chronos-reduce", "coshh-facebook-30"] {
        let run = |name: &str| {
            let (json, event_log) = (format!("{name}.json"), format!("{name}.eventlog"));
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
            let mut bytes = vec![fs::read(folder.path().join(json)).expect("cannot read the metrics")];
            for policy in policies.split(',') {
                bytes.push(
                    fs::read(folder.path().join(format!("{name}-{policy}-7.eventlog")))
                        .expect("cannot read an event log"),
                );
            }
            bytes
        };
        assert!(run("one") == run("two"), "{workload}");
    }
}

#[test]
fn an_event_log_replays_and_a_damaged_one_is_refused_with_the_record_number() {
    let folder = folder();
    let args = ["sim", "--workload", "chronos-map", "--policy", "chronos(fair)", "--event-log", "run.eventlog"];
    assert!(giveway(folder.path(), &args).status.success());
    let replayed = giveway(folder.path(), &["replay", "run.eventlog"]);
    assert!(replayed.status.success(), "{}", text(&replayed.stderr));
    assert!(text(&replayed.stdout).contains("every action identical"));

    let event_log = fs::read(folder.path().join("run.eventlog")).expect("cannot read the event log");
    fs::write(folder.path().join("truncated.eventlog"), &event_log[..event_log.len() / 2])
        .expect("cannot write the truncated log");
    let message = refused(folder.path(), &["replay", "truncated.eventlog"]);
    assert!(message.contains("record"), "{message}");

    let mut damaged = event_log.clone();
    let at = damaged.len() / 3;
    damaged[at] ^= 4;
    fs::write(folder.path().join("damaged.eventlog"), &damaged).expect("cannot write the damaged log");
    let message = refused(folder.path(), &["replay", "damaged.eventlog"]);
    assert!(message.contains("record"), "{message}");

    refused(folder.path(), &["replay", "missing.eventlog"]);
    file(&folder, "text.eventlog", "not an event log at all");
    refused(folder.path(), &["replay", "text.eventlog"]);
}

#[test]
fn an_edited_copy_of_a_policy_runs() {
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
fn the_jobs_of_all_runs_are_written_as_a_table() {
    let folder = folder();
    let args = ["sim", "--workload", "fcs-map-heavy", "--policy", "fifo,giveway", "--runs", "2"];
    let files = ["--jobs", "jobs.tsv", "--attempts", "attempts.csv"];
    let output = giveway(folder.path(), &[&args[..], &files].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = fs::read_to_string(folder.path().join("jobs.tsv")).expect("no table of jobs");
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split('\t').collect()).collect();
    let position = |header: &[&str], name: &str| header.iter().position(|of| *of == name).expect("no such column");
    let column = |name: &str| position(&rows[0], name);
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{table}");
    let runs: BTreeSet<(&str, &str)> =
        rows[1..].iter().map(|row| (row[column("policy")], row[column("seed")])).collect();
    assert_eq!(runs, BTreeSet::from([("fifo", "1"), ("fifo", "2"), ("giveway", "1"), ("giveway", "2")]));
    let number = |row: &[&str], name: &str| row[column(name)].parse::<f64>().expect("not a number");
    for row in &rows[1..] {
        let parts_s = number(row, "wait_s") + number(row, "execution_s");
        assert!((parts_s - number(row, "completion_s")).abs() < 1e-5, "{row:?}");
    }
    // The mean that the command prints follows from the table.
    let fifo: Vec<f64> = rows.iter().filter(|row| row[0] == "fifo").map(|row| number(row, "completion_s")).collect();
    let mean_s = fifo.iter().sum::<f64>() / fifo.len() as f64;
    assert!(text(&output.stdout).contains(&format!("{mean_s:.1}")), "{mean_s}: {}", text(&output.stdout));
    // A job ends with its last attempt.
    let table = fs::read_to_string(folder.path().join("attempts.csv")).expect("no table of attempts");
    let attempts: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    let of = |row: &[&str], name: &str| row[position(&attempts[0], name)].to_owned();
    let mut last_ends: HashMap<[String; 3], f64> = HashMap::new();
    for attempt in attempts[1..].iter().filter(|attempt| of(attempt, "end") == "finished") {
        let end_s: f64 = of(attempt, "end_s").parse().expect("not a number");
        let last = last_ends.entry(["policy", "seed", "job"].map(|name| of(attempt, name))).or_default();
        *last = end_s.max(*last);
    }
    for row in &rows[1..] {
        let end_s = number(row, "submit_s") + number(row, "completion_s");
        let last_s = last_ends[&["policy", "seed", "job"].map(|name| row[column(name)].to_owned())];
        assert!((end_s - last_s).abs() < 1e-5, "{row:?}: {last_s}");
    }
    assert!(attempts.iter().any(|attempt| of(attempt, "end") == "paused"));
    // The page of the tables names all columns, and an unknown format is refused before the run.
    let page = include_str!("../../../docs/rows.md");
    let undescribed = rows[0].iter().chain(&attempts[0]).find(|name| !page.contains(&format!("`{name}`")));
    assert_eq!(undescribed, None);
    let refused = giveway(folder.path(), &[&args[..], &["--jobs", "jobs.xls"]].concat());
    assert!(text(&refused.stderr).contains(".csv, .tsv, .jsonl or .parquet"), "{}", text(&refused.stderr));
}

#[test]
fn an_event_log_has_the_rows_of_its_run() {
    let folder = folder();
    let run = |args: &[&str]| {
        let output = giveway(folder.path(), args);
        assert!(output.status.success(), "{}", text(&output.stderr));
    };
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("no table");
    let simulated = ["--event-log", "run.eventlog", "--jobs", "jobs.csv", "--attempts", "a.csv", "--slots", "s.csv"];
    run(&[&["sim", "--workload", "fcs-figure3", "--policy", "giveway"], &simulated[..]].concat());
    let recorded = ["--jobs", "plan.csv", "--attempts", "a2.csv", "--slots", "s2.csv"];
    run(&[&["trace", "rows", "run.eventlog"], &recorded[..]].concat());
    assert_eq!(read("a2.csv"), read("a.csv"));
    assert_eq!(read("s2.csv"), read("s.csv"));
    // Never more slots in use than there are, all of them at some time, and none at the end.
    let slots = read("s.csv");
    let column = |row: &str, at: usize| row.split(',').nth(at).unwrap_or_default().to_owned();
    let used = |row: &str| [4, 5].map(|at| column(row, at).parse::<u64>().expect("not a number"));
    assert!(slots.lines().skip(1).all(|row| used(row)[1] <= used(row)[0]));
    for kind in ["map", "reduce"] {
        let of_kind: Vec<&str> = slots.lines().filter(|row| column(row, 3) == kind).collect();
        assert!(of_kind.iter().any(|row| used(row)[0] == used(row)[1]), "{kind}");
        assert_eq!(of_kind.last().map(|row| used(row)[1]), Some(0), "{kind}");
    }
    // The same completion times in the table of jobs, in the record, and in what-if's row of the record.
    run(&["what-if", "run.eventlog", "--policy", "fair", "--jobs", "what-if.tsv"]);
    let what_if = read("what-if.tsv");
    let of_record = what_if.lines().filter(|row| row.starts_with("recorded\t"));
    let by_name = |rows: Vec<String>, header: &str, separator: char, name: &str| -> Vec<String> {
        let at = header.split(separator).position(|column| column == name).expect("no such column");
        rows.iter().map(|row| row.split(separator).nth(at).unwrap_or_default().to_owned()).collect()
    };
    let csv = |name: &str, column: &str| {
        let table = read(name);
        let (header, rows) = table.split_once('\n').expect("no header");
        by_name(rows.lines().map(String::from).collect(), header, ',', column)
    };
    let times = csv("jobs.csv", "completion_s");
    assert_eq!(csv("plan.csv", "recorded_completion_s"), times);
    let header = what_if.lines().next().unwrap_or_default();
    assert_eq!(by_name(of_record.map(String::from).collect(), header, '\t', "completion_s"), times);
    let page = include_str!("../../../docs/rows.md");
    let headers = header.split('\t').chain(slots.lines().next().unwrap_or_default().split(','));
    let undescribed: Vec<&str> = headers.filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(undescribed.is_empty(), "{undescribed:?}");
    let refused = giveway(folder.path(), &["trace", "rows", "jobs.csv", "--slots", "x.csv"]);
    assert!(text(&refused.stderr).contains("give an event log or a journal"), "{}", text(&refused.stderr));
}

#[test]
fn a_sweep_goes_on_where_it_was_interrupted() {
    let folder = folder();
    let plan = "workloads = [\"fcs-figure3\"]\npolicies = [\"fair\", \"giveway\"]\nseeds = 6\n[[vary]]\npolicy = \"giveway\"\nmap.preempt = [[]]\n";
    file(&folder, "sweep.toml", plan);
    let sweep = || {
        let output = giveway(folder.path(), &["sweep", "sweep.toml", "--out", "results"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    };
    let read = |name: &str| fs::read_to_string(folder.path().join("results").join(name)).expect("no file");
    let (printed, _) = sweep();
    assert!(printed.contains("giveway map.preempt=[]"), "{printed}");
    let (finished, table) = (read("runs.jsonl"), read("runs.csv"));
    assert_eq!((finished.lines().count(), table.lines().count()), (18, 19));
    assert!(read("report.html").contains("permutation test"));
    // What a sweep leaves that is killed while it writes its tenth run.
    let tenth: usize = finished.split_inclusive('\n').take(9).map(str::len).sum();
    fs::write(folder.path().join("results/runs.jsonl"), &finished[..tenth + 20]).expect("cannot cut the file");
    let (again, told) = sweep();
    assert!(told.contains("9 of 18 runs are in results already"), "{told}");
    assert_eq!((again, read("runs.csv")), (printed, table));
    // The changes are those of the rows.
    let rows: Vec<Vec<String>> =
        read("runs.csv").lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect()).collect();
    let of = |policy: &'static str| {
        rows.iter().filter(move |row| row[1] == policy).map(|row| row[3].parse::<f64>().expect("not a number"))
    };
    let logs: f64 = of("giveway").zip(of("fair")).map(|(ours, theirs)| (ours / theirs).ln()).sum();
    let change: f64 =
        read("changes.csv").lines().nth(1).and_then(|line| line.split(',').nth(3)?.parse().ok()).expect("no change");
    assert!((change - (logs / 6.0).exp_m1()).abs() < 1e-9, "{change}");
    file(&folder, "results/runs.jsonl", "no run\n");
    let refused = giveway(folder.path(), &["sweep", "sweep.toml", "--out", "results"]);
    assert!(text(&refused.stderr).contains("runs.jsonl:1: no run of a sweep"), "{}", text(&refused.stderr));
}

#[test]
fn every_listed_policy_can_be_shown() {
    let folder = folder();
    let listed = text(&giveway(folder.path(), &["policies"]).stdout);
    for name in listed.lines().skip(1).filter_map(|line| line.split('\t').next()).filter(|name| !name.contains('(')) {
        assert!(giveway(folder.path(), &["policies", "show", name]).status.success(), "{name}");
        let with_chronos = giveway(folder.path(), &["policies", "show", &format!("chronos({name})")]);
        if name == "giveway" {
            assert!(text(&with_chronos.stderr).contains("policy giveway recovers lost tasks at once by itself"));
        } else {
            assert!(with_chronos.status.success(), "{name}");
        }
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&giveway(folder.path(), &["completions", shell]).stdout);
        assert!(script.contains("GIVEWAY_COMPLETE"), "{shell}: {script}");
    }
    // What the script of bash asks for when a word is to be completed.
    let complete = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_giveway"));
        command
            .env("GIVEWAY_COMPLETE", "bash")
            .env("_CLAP_COMPLETE_INDEX", words.len().to_string())
            .env("_CLAP_IFS", " ");
        let asked = command.args(["--", "giveway"]).args(words).current_dir(folder.path()).output();
        text(&asked.expect("cannot run giveway").stdout)
    };
    assert_eq!(complete(&["policies", "show", "hsrtf-pu"]), "hsrtf-pu hsrtf-pup hsrtf-pup-pause");
    assert!(complete(&["sim", "--workload", "fcs"]).starts_with("fcs-"));
    assert!(complete(&["submit", "word"]).contains("wordcount"));
    assert_eq!(complete(&["job", "--dir", "no-cluster", ""]).split(' ').find(|word| word.parse::<u32>().is_ok()), None);
}

#[test]
fn several_seeds_give_means_with_intervals() {
    let folder = folder();
    let args = ["sim", "--workload", "gridmix-60", "--policy", "fair,fcs", "--runs", "3", "--json", "out.json"];
    let output = giveway(folder.path(), &args);
    assert!(text(&output.stdout).contains('±'), "{}", text(&output.stdout));
    let json: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(folder.path().join("out.json")).expect("cannot read the metrics"))
            .expect("invalid JSON");
    let runs = json["runs"].as_array().expect("`runs` is not an array");
    assert_eq!(runs.len(), 6);
    for run in runs {
        for key in
            ["mean_completion_s", "p99_completion_s", "mean_slowdown", "lower_bound_mean_completion_s", "utilisation"]
        {
            assert!(run[key].is_number(), "{key}");
        }
        let bound = run["lower_bound_mean_completion_s"].as_f64().expect("not a number");
        assert!(
            bound <= run["mean_completion_s"].as_f64().expect("not a number"),
            "mean completion time below the lower bound"
        );
        assert!(run["groups"].as_object().is_some_and(|groups| !groups.is_empty()));
    }
}

const CLUSTER: &str = "name = 'c'\n[[nodes]]\ncount = 4\nmap_slots = 2\nreduce_slots = 1\n";
const WORKLOAD: &str = "[[jobs]]\nname = 'a'\napp = 'sort'\nmaps = 4\nreduces = 1\n";

#[test]
fn invalid_files_are_refused_with_file_and_line() {
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
    // By file, by name, and by the name of a built-in workload.
    // A folder of the same name does not hide a built-in cluster.
    fs::create_dir(folder.path().join("hsrtf")).unwrap();
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
        let message = refused(folder.path(), &args.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(message.contains(&format!("{name}:")), "names file and line: {message}");
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
        let message = refused(folder.path(), &args.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(message.contains(&format!("{name}:")), "names file and line: {message}");
    }

    let shown = text(&giveway(folder.path(), &["policies", "show", "hsrtf-prp"]).stdout);
    let policies = [
        ("unknown-part.toml", shown.replace("below-share", "below-everything")),
        ("map-pause.toml", shown.replacen("action = \"kill\"", "action = \"pause\"", 1)),
        ("no-share.toml", shown.replace("share = \"inverse-remaining-time\"", "share = \"none\"")),
        ("not-a-span.toml", shown.replace("update_interval = \"10s\"", "update_interval = \"soon\"")),
        ("empty.toml", String::new()),
    ];
    for (name, content) in policies {
        assert_ne!(content, shown, "{name} does not differ from the valid policy");
        file(&folder, name, &content);
        let args = sim("good-workload.toml", "good-cluster.toml", name);
        let message = refused(folder.path(), &args.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(message.contains(name), "names the file: {message}");
    }
}

#[test]
fn invalid_arguments_are_refused() {
    let folder = folder();
    let message = refused(folder.path(), &["sim", "--workload", "hsrtf-table3", "--policy", "fifo"]);
    assert!(message.contains("hsrtf-table2"), "lists the workloads: {message}");
    let message = refused(folder.path(), &["sim", "--workload", "hsrtf-table2", "--policy", "fifoo"]);
    assert!(message.contains("fifo, fair"), "{message}");
    let message = refused(folder.path(), &["sim", "--workload", "hsrtf-table2", "--policy", "fifo,fifo"]);
    assert!(message.contains("duplicate policy"), "{message}");
    let message = refused(folder.path(), &["sim", "--workload", "missing.toml", "--policy", "fifo"]);
    assert!(message.contains("missing.toml"), "{message}");
    refused(folder.path(), &["sim", "--workload", "hsrtf-table2", "--cluster", "nowhere", "--policy", "fifo"]);
    refused(folder.path(), &["sim", "--workload", "hsrtf-table2", "--policy", "fifo", "--runs", "0"]);
    refused(folder.path(), &["sim", "--workload", "hsrtf-table2", "--policy", "fifo", "--estimate-error", "1.5"]);
    refused(folder.path(), &["policies", "show", "chronos(chronos(fifo))"]);
    refused(folder.path(), &["frobnicate"]);
    let message = refused(
        folder.path(),
        &["sim", "--workload", "hsrtf-table2", "--policy", "fifo", "--json", "no/such/folder.json"],
    );
    assert!(message.contains("no/such/folder.json"), "{message}");
    refused(
        folder.path(),
        &["sim", "--workload", "hsrtf-table2", "--policy", "fifo", "--event-log", "no/such/folder.eventlog"],
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_and_not_a_panic() {
    let folder = folder();
    let message =
        refused(folder.path(), &["sim", "--workload", "hsrtf-table2", "--policy", "fifo", "--json", "/dev/full"]);
    assert!(message.contains("/dev/full"), "{message}");
    let message =
        refused(folder.path(), &["sim", "--workload", "hsrtf-table2", "--policy", "fifo", "--event-log", "/dev/full"]);
    assert!(message.contains("/dev/full"), "{message}");
    let message =
        refused(folder.path(), &["sim", "--workload", "hsrtf-table2", "--policy", "fifo", "--report", "/dev/full"]);
    assert!(message.contains("/dev/full"), "{message}");
}

/// The full run takes 15 minutes; unwritable output files must be reported before it.
#[test]
fn unwritable_output_is_refused_before_the_run() {
    let folder = folder();
    for (option, path) in [("--json", "no/such/folder.json"), ("--json", "."), ("--report", "/dev/null")] {
        let output = giveway(folder.path(), &["reproduce", "all", option, path]);
        assert_eq!(output.status.code(), Some(2), "{option} {path}");
        assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
        assert!(text(&output.stderr).contains(path), "{}", text(&output.stderr));
    }
}

#[test]
fn an_event_log_is_a_workload_and_lists_its_jobs() {
    let folder = folder();
    let sim = |workload: &str, event_log: &str| {
        let output =
            giveway(folder.path(), &["sim", "--workload", workload, "--policy", "hsrtf-pr", "--event-log", event_log]);
        assert!(output.status.success(), "{}", text(&output.stderr));
    };
    sim("chronos-map", "first.eventlog");
    sim("first.eventlog", "again.eventlog");
    let ended = |event_log: &str| -> Vec<String> {
        let output = giveway(folder.path(), &["replay", "--jobs", event_log]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let message = text(&output.stdout);
        message.lines().filter_map(|line| line.split_once(" Succeeded ")).map(|(_, name)| name.to_owned()).collect()
    };
    let (first, again) = (ended("first.eventlog"), ended("again.eventlog"));
    assert!(!first.is_empty() && first.len() == again.len(), "{first:?} {again:?}");
    let listed = text(&giveway(folder.path(), &["replay", "--list", "first.eventlog"]).stdout);
    assert!(listed.contains(" NodeLost { node: "), "{listed}");
    let message = refused(folder.path(), &["sim", "--workload", "none.eventlog/", "--policy", "fifo"]);
    assert!(message.contains("cannot read none.eventlog/"), "{message}");
}

#[test]
fn traces_of_other_systems_are_workloads() {
    let folder = folder();
    let line = |job: u64| format!("job{job}\t{}\t30\t{}\t{}\t1000\n", job * 30, 1_000_000 << (job % 12), job % 3);
    let trace: String = (0..60).map(line).collect();
    file(&folder, "trace.tsv", &(trace + "damaged\n"));
    let run = |args: &[&str]| {
        let output = giveway(folder.path(), args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    };
    let (table, odd) = run(&["sim", "--workload", "trace.tsv", "--policy", "fair,hsrtf-pr", "--runs", "2"]);
    assert!(table.contains("60 jobs") && table.contains("hsrtf-pr"), "{table}");
    assert_eq!(odd.matches("1 lines that cannot be parsed: skipped (first: line 61)").count(), 1, "{odd}");
    let (stats, _) = run(&["trace", "stats", "trace.tsv", "--cluster", "fcs"]);
    assert!(stats.starts_with("60 jobs of 1 user in 1 pool") && stats.contains("map slots"), "{stats}");
    run(&["trace", "convert", "trace.tsv", "--output", "jobs.toml", "--cluster-output", "cluster.toml"]);
    let (again, _) = run(&["sim", "--workload", "jobs.toml", "--cluster", "cluster.toml", "--policy", "fair,hsrtf-pr"]);
    let (first, _) = run(&["sim", "--workload", "trace.tsv", "--policy", "fair,hsrtf-pr"]);
    // Without the columns of the size groups: the file has no group without jobs.
    let fair = |table: &str| -> Vec<String> {
        let row = table.lines().find(|line| line.contains("fair")).unwrap_or_default();
        row.split('\t').take(11).map(str::to_owned).collect()
    };
    assert_eq!(fair(&again), fair(&first), "the converted trace is the same workload");
    run(&["trace", "sample", "trace.tsv", "--jobs", "5", "--from", "5m", "--output", "part.toml"]);
    let part = fs::read_to_string(folder.path().join("part.toml")).expect("cannot read the sample");
    assert_eq!(part.matches("[[jobs]]").count(), 5);
    let (fit, _) = run(&["trace", "fit", "trace.tsv", "--span", "1h", "--output", "synthetic.toml"]);
    assert!(fit.contains("maps, synthetic"), "{fit}");
    fs::create_dir(folder.path().join("history")).expect("cannot create a folder");
    let message = refused(folder.path(), &["sim", "--workload", "history", "--policy", "fifo"]);
    assert!(message.contains("the directory contains no trace"), "{message}");
    let message = refused(folder.path(), &["trace", "stats", "jobs.toml"]);
    assert!(message.contains("unknown trace format"), "{message}");
    file(&folder, "model.toml", "block_mb = 0");
    let args = ["sim", "--workload", "trace.tsv", "--policy", "fifo", "--trace-model", "model.toml"];
    let message = refused(folder.path(), &args);
    assert!(message.contains("model.toml:1: block_mb is 0"), "{message}");
}

#[test]
fn what_if_compares_every_job_of_a_record() {
    let folder = folder();
    let run = |args: &[&str]| {
        let output = giveway(folder.path(), args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    run(&["sim", "--workload", "hsrtf-table2", "--policy", "fair", "--event-log", "run.eventlog"]);
    let args = ["what-if", "run.eventlog", "--policy", "fair,hsrtf-prp-pause", "--nodes", "+20%", "--all-jobs"];
    let printed = run(&[args.as_slice(), &["--json", "out.json", "--report", "out.html"]].concat());
    // The recorded policy is simulated once on each cluster, although it is asked for as well.
    for row in ["recorded ", "fair, simulated ", "hsrtf-prp-pause ", "fair, 70 nodes ", "hsrtf-prp-pause, 70 nodes "] {
        let rows = printed.lines().filter(|line| line.starts_with(&format!("{}\t", row.trim_end()))).count();
        assert_eq!(rows, 1, "{row}: {printed}");
    }
    assert!(printed.contains("validation: fair simulated against the record of 31 jobs: median error"), "{printed}");
    assert!(printed.contains(" -> ") && printed.contains("of 31 jobs"), "{printed}");
    let json = fs::read_to_string(folder.path().join("out.json")).expect("cannot read the JSON");
    let json: serde_json::Value = serde_json::from_str(&json).expect("invalid JSON");
    assert_eq!(json["rows"].as_array().map(Vec::len), Some(5));
    assert!(json["validation"]["median"].as_f64().is_some_and(|error| error < 0.1), "{}", json["validation"]);
    assert_eq!(json["rows"][2]["changes"]["jobs"].as_array().map(Vec::len), Some(31));
    let page = fs::read_to_string(folder.path().join("out.html")).expect("cannot read the page");
    assert!(page.contains("<svg") && !page.contains("http") && !page.contains("<script"), "the page loads something");
    // The cluster of a trace is not recorded: the record is no baseline, and the error of the simulation is not known.
    let jobs = "; Version: 2\n".to_owned()
        + &(1..40)
            .map(|job| format!("{job} {} 5 100 4 -1 -1 4 200 -1 1 {} 1 -1 -1 1 -1 -1\n", job * 20, job % 3))
            .collect::<String>();
    file(&folder, "jobs.swf", &jobs);
    let printed = run(&["what-if", "jobs.swf", "--policy", "fifo"]);
    assert!(
        printed.contains("not compared with simulated ones") && printed.contains("Only one run was simulated"),
        "{printed}"
    );
    assert!(!printed.contains("instead of recorded"), "{printed}");
    let printed = run(&["what-if", "jobs.swf", "--policy", "fifo,fair"]);
    assert!(printed.contains("fair instead of fifo:") && !printed.contains("instead of recorded"), "{printed}");
    let printed = run(&["what-if", "jobs.swf", "--policy", "fifo", "--recorded-policy", "fair"]);
    assert!(printed.contains("fifo instead of fair, simulated") && !printed.contains("median error"), "{printed}");
    let message = refused(folder.path(), &["what-if", "run.eventlog", "--policy", "fair", "--nodes", "20%"]);
    assert!(message.contains("invalid change `20%`"), "{message}");
    let message = refused(folder.path(), &["what-if", "run.eventlog", "--policy", "fair", "--nodes", "-100%"]);
    assert!(message.contains("the number of nodes would be 0"), "{message}");
}

#[test]
fn size_finds_the_smallest_cluster() {
    let folder = folder();
    let args = ["size", "hsrtf-table2", "--policy", "fifo,hsrtf-pr", "--target", "mean completion < 200s"];
    let output = giveway(folder.path(), &[args.as_slice(), &["--json", "size.json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json = fs::read_to_string(folder.path().join("size.json")).expect("cannot read the JSON");
    let json: serde_json::Value = serde_json::from_str(&json).expect("invalid JSON");
    for policy in json["policies"].as_array().expect("a list of policies") {
        let nodes = policy["nodes"].as_u64().expect("the target is met");
        assert!(policy["simulated"][nodes.to_string()].as_f64().is_some_and(|value| value < 200.0), "{policy}");
        if nodes > 1 {
            let less = &policy["simulated"][(nodes - 1).to_string()];
            assert!(less.as_f64().is_none_or(|value| value >= 200.0), "{policy}");
        }
        assert!(text(&output.stdout).contains(&nodes.to_string()), "{}", text(&output.stdout));
    }
    let message = refused(folder.path(), &["size", "hsrtf-table2", "--policy", "fifo", "--target", "fast"]);
    assert!(message.contains("invalid target `fast`"), "{message}");
}

#[test]
fn an_unknown_workload_format_is_named_before_a_missing_cluster() {
    let folder = folder();
    file(&folder, "notes.txt", "These are no jobs.\n");
    let message = refused(folder.path(), &["sim", "--workload", "notes.txt", "--policy", "fifo"]);
    assert!(message.contains("unknown format") && !message.contains("--cluster"), "{message}");
}

#[test]
fn what_a_temporary_cluster_cannot_have_is_refused_before_it_starts() {
    let folder = folder();
    let message = refused(folder.path(), &["run", "wordcount", "--input", "/no/books", "--output", "counts"]);
    assert!(message.contains("/no/books"), "{message}");
    assert!(!folder.path().join("counts").exists());
    assert!(refused(folder.path(), &["job", "abc"]).contains("not a job number"));
}

#[test]
fn trace_results_do_not_depend_on_the_number_of_threads() {
    let folder = folder();
    let line = |job: u64| format!("job{job}\t{}\t30\t{}\t{}\t1000\n", job * 30, 1_000_000 << (job % 12), job % 3);
    file(&folder, "trace.tsv", &(0..60).map(line).collect::<String>());
    let compare = |threads: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_giveway"))
            .args(["trace", "compare", "trace.tsv", "--policy", "fair,giveway,fcs", "--report", "out.md"])
            .env("RAYON_NUM_THREADS", threads)
            .current_dir(folder.path())
            .output()
            .expect("cannot run giveway");
        assert!(output.status.success(), "{}", text(&output.stderr));
        fs::read_to_string(folder.path().join("out.md")).expect("cannot read the page")
    };
    let one = compare("1");
    assert!(one.contains("| giveway |") && one.contains("### small jobs"), "{one}");
    assert_eq!(one, compare("3"));
}

#[test]
fn the_sidecar_refuses_policies_beyond_its_capabilities() {
    let folder = folder();
    file(&folder, "token", "a token that is long enough");
    let rejection = |policy| refused(folder.path(), &["yarn", "--policy", policy, "--token-file", "token"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let token = folder.path().join("token");
        fs::set_permissions(&token, fs::Permissions::from_mode(0o644)).expect("cannot set the mode");
        assert!(rejection("fifo").contains("chmod 600"));
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).expect("cannot set the mode");
    }
    let message = rejection("giveway");
    assert!(message.contains("--degrade") && message.contains("no speculative attempts"), "{message}");
    assert!(rejection("shortest").contains("unknown policy `shortest`"));
    let message = refused(folder.path(), &["yarn", "doctor", "--policy", "fcs", "--conf", "."]);
    assert!(message.contains("yarn-site.xml") && message.contains("--conf"), "{message}");
}
