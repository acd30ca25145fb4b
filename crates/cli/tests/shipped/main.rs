//! End-to-end tests of applications that are shipped to a running cluster. The cluster is the stock `giveway up`; the user's own program is this test
//! binary, which therefore has a `main` of its own: `cargo test -p giveway --test shipped [NAME]`.

mod apps;
mod cluster;

use apps::own_apps;
use cluster::{Cluster, lines, reference, wait_for};
use giveway_core::Outcome;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;

/// The tests by name.
const TESTS: &[(&str, fn())] = &[
    ("shipped_jobs_equal_built_in_ones", shipped_jobs_equal_built_in_ones),
    ("a_program_has_a_clean_environment_and_its_prints_are_logged", a_clean_environment_and_logs),
    ("killed_and_panicking_programs_fail_their_attempts_only", killed_and_panicking_programs),
    ("maps_end_early_and_reduces_pause_and_resume", maps_end_early_and_reduces_pause),
    ("jobs_survive_the_coordinator_and_runners_die_with_their_worker", restarts),
    ("unusable_programs_are_refused", unusable_programs_are_refused),
];

fn main() -> ExitCode {
    giveway_engine::worker::run_if_worker(&own_apps());
    if std::env::args().any(|argument| argument == "--list") {
        TESTS.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    // Other options of the standard test harness have no effect.
    let filters: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let selected =
        TESTS.iter().filter(|(name, _)| filters.is_empty() || filters.iter().any(|filter| name.contains(filter)));
    let mut failed = 0;
    for (name, test) in selected {
        let passed = catch_unwind(AssertUnwindSafe(test)).is_ok();
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
        failed += u32::from(!passed);
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Outputs are those of a sequential run and counters those of a built-in run; also for applications that sample their input, run in rounds or have no
/// reduces. The program is stored once and removed with the last job.
fn shipped_jobs_equal_built_in_ones() {
    let cluster = Cluster::start();
    let input = cluster.file("in", &lines(3000));
    let points: String = (0..400).map(|n| format!("{} {}\n", n % 17, n % 13)).collect();
    let points = cluster.file("points", &points);
    for (app, input, options) in [
        ("wordcount", &input, &[][..]),
        ("sort", &input, &[]),
        ("kmeans", &points, &["k=3", "iterations=2"]),
        ("grep", &input, &["pattern=7"]),
        ("lengths", &input, &[]),
    ] {
        let mut args = vec!["--split", "8KiB"];
        options.iter().for_each(|option| args.extend(["-O", option]));
        let job = cluster.submit_shipped(app, input, &format!("out-{app}"), &args);
        let status = cluster.follow(job);
        assert_eq!(status.outcome, Some(Outcome::Succeeded), "{app}: {:?}", status.failures);
        assert_eq!(status.app, app);
        assert_eq!(cluster.output(&format!("out-{app}")), reference(app, input, options), "{app}");
        if app == "wordcount" {
            let built_in = cluster.submit("wordcount", input, "built-in", &args);
            assert_eq!(cluster.follow(built_in).counters, status.counters);
            assert_eq!(cluster.output("built-in"), cluster.output("out-wordcount"));
        }
    }
    wait_for("the removal of the program", || cluster.programs().is_empty());
    wait_for("the end of its processes", || cluster.runners().is_empty());
    let jobs = cluster.run(&["jobs"]);
    assert!(jobs.contains("lengths") && jobs.contains("kmeans"), "{jobs}");
}

fn a_clean_environment_and_logs() {
    let cluster = Cluster::start();
    let input = cluster.file("in", "print this\n");
    let job = cluster.submit_shipped("environment", &input, "out", &[]);
    assert_eq!(cluster.follow(job).outcome, Some(Outcome::Succeeded));
    let [(_, environment)] = &cluster.output("out")[..] else { panic!("one part") };
    let environment = String::from_utf8_lossy(environment);
    assert!(environment.contains("PATH=") && !environment.contains("GIVEWAY_"), "{environment}");
    let logs = cluster.run(&["logs", &job.0.to_string()]);
    for line in ["printed with println", "printed with eprintln", "printed with task_log"] {
        assert!(logs.contains(line), "{line} is missing in {logs}");
    }
    let explained = cluster.run(&["explain", &job.0.to_string()]);
    assert!(explained.contains("environment"), "{explained}");
}

/// A runner that is killed in a map and in a reduce, and an application that panics once: attempts fail and are retried, and workers stay.
fn killed_and_panicking_programs() {
    let cluster = Cluster::start();
    let workers = cluster.worker_pids();
    let input = cluster.file("in", &lines(1500));
    let slow = ["--split", "4KiB", "--records-per-second", "500", "--reduces", "1"];
    let job = cluster.submit_shipped("lengths", &input, "out", &slow);
    wait_for("running maps", || cluster.status(job).maps.running > 0 && !cluster.runners().is_empty());
    // A runner that is between two maps ends without failing one.
    wait_for("the failure", || {
        cluster.kill_runners();
        std::thread::sleep(std::time::Duration::from_millis(300));
        !cluster.status(job).failures.is_empty()
    });
    wait_for("the reduce", || cluster.status(job).maps.done == cluster.status(job).maps.total);
    let failures = cluster.status(job).failures.len();
    wait_for("a running reduce", || cluster.status(job).reduces.running > 0);
    cluster.kill_runners();
    let status = cluster.follow(job);
    assert_eq!(status.outcome, Some(Outcome::Succeeded), "{:?}", status.failures);
    assert!(status.failures.len() > failures, "{:?}", status.failures);
    assert!(status.failures.iter().any(|text| text.contains("ended with signal 9")), "{:?}", status.failures);
    assert_eq!(cluster.output("out"), reference("lengths", &input, &[]));

    let marker = cluster.path("panicked-once");
    let option = format!("panic-unless={}", marker.display());
    let job = cluster.submit_shipped("lengths", &input, "out-2", &["-O", &option]);
    let status = cluster.follow(job);
    assert_eq!(status.outcome, Some(Outcome::Succeeded), "{:?}", status.failures);
    assert!(status.failures.iter().any(|text| text.contains("panicked: as asked")), "{:?}", status.failures);
    let stubborn = cluster.submit_shipped("lengths", &input, "out-3", &["-O", "ignore-stop=yes"]);
    wait_for("a running map", || cluster.status(stubborn).maps.running > 0 && !cluster.runners().is_empty());
    cluster.run(&["kill", &stubborn.0.to_string()]);
    wait_for("the end of a program that does not stop", || cluster.runners().is_empty());
    assert_eq!(cluster.worker_pids(), workers, "no worker has ended");
}

fn maps_end_early_and_reduces_pause() {
    let cluster = Cluster::start();
    let input = cluster.file("in", &lines(2000));
    let slow = ["--split", "1MiB", "--records-per-second", "600", "--reduces", "1"];
    let job = cluster.submit_shipped("lengths", &input, "out", &slow);
    let yield_until = |what: &str, is_done: &dyn Fn() -> bool| {
        wait_for(what, || {
            cluster.yield_job(job);
            is_done()
        });
    };
    wait_for("a running map with progress", || cluster.status(job).maps.running > 0 && !cluster.runners().is_empty());
    yield_until("an early end", &|| cluster.status(job).early_ends > 0);
    wait_for("the reduce", || {
        let status = cluster.status(job);
        status.maps.done == status.maps.total && status.reduces.running > 0
    });
    yield_until("a pause", &|| cluster.status(job).pauses > 0);
    let status = cluster.follow(job);
    assert_eq!(status.outcome, Some(Outcome::Succeeded), "{:?}", status.failures);
    assert_eq!(status.failures, [] as [String; 0]);
    assert_eq!(cluster.output("out"), reference("lengths", &input, &[]));
    let records = |name: &str| status.counters.get(name).copied();
    assert_eq!(records("map input records"), Some(2000), "no line is read twice");
    assert_eq!(records("reduce input records"), Some(2000));
}

fn restarts() {
    let mut cluster = Cluster::start();
    let input = cluster.file("in", &lines(2000));
    let slow = ["--split", "4KiB", "--records-per-second", "500", "--reduces", "1"];
    let job = cluster.submit_shipped("lengths", &input, "out", &slow);
    wait_for("running maps", || cluster.status(job).maps.running > 0 && !cluster.runners().is_empty());
    cluster.kill_coordinator();
    assert_eq!(cluster.programs().len(), 1);
    cluster.restart();
    wait_for("running tasks", || cluster.status(job).maps.running > 0);
    let worker = cluster.worker_pids()[0];
    wait_for("its runner", || !cluster.runners_of(worker).is_empty());
    let runners = cluster.runners_of(worker);
    cluster.kill(worker);
    wait_for("the end of its runners", || cluster.runners().iter().all(|pid| !runners.contains(pid)));
    let status = cluster.follow(job);
    assert_eq!(status.outcome, Some(Outcome::Succeeded), "{:?}", status.failures);
    assert_eq!(cluster.output("out"), reference("lengths", &input, &[]));
    wait_for("the removal of the program", || cluster.programs().is_empty());
}

fn unusable_programs_are_refused() {
    let cluster = Cluster::start();
    let input = cluster.file("in", "a b\n");
    let own = fs::read("/proc/self/exe").expect("cannot read this program");
    let file = |name: &str, bytes: &[u8]| -> PathBuf {
        let path = cluster.path(name);
        fs::write(&path, bytes).expect("cannot write a program");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("cannot change a mode");
        path
    };
    let with_byte = |offset: usize, byte: u8| {
        let mut bytes = own.clone();
        bytes[offset] = byte;
        bytes
    };
    let refused = |program: PathBuf, expected: &str| {
        let text = cluster.refused("lengths", &input, &["--program", &program.to_string_lossy()]);
        assert!(text.contains(expected), "{expected} is missing in {text}");
        assert!(text.lines().count() <= 3 && !text.contains("panicked"), "{text}");
    };
    refused(file("text", b"#!/bin/sh\nexit 0\n"), "not an executable");
    refused(file("empty", b""), "the file is empty");
    refused(file("foreign", &with_byte(18, 183)), "build it for this machine");
    refused(file("object", &with_byte(16, 1)), "not an executable");
    refused(file("cut-off", &own[..5000]), "program");
    refused("/bin/true".into(), "does not answer as a Giveway program");
    refused(cluster.path("missing"), "cannot read the program");
    refused(cluster.path(""), "is not a file");
    let without = cluster.refused("lengths", &input, &[]);
    assert!(without.contains("unknown application `lengths`") && without.contains("--program FILE"), "{without}");
    let wrong = cluster.refused("lengthz", &input, &["--program", "/proc/self/exe"]);
    assert!(wrong.contains("unknown application `lengthz`"), "{wrong}");
    let option = cluster.shipped_refused("lengths", &input, &["-O", "x=y"]);
    assert!(option.contains("lengths has no option `x`"), "{option}");
    wait_for("the removal of all programs", || cluster.programs().is_empty());

    // A program that can no longer be executed fails the job, not the worker.
    let slow = ["--records-per-second", "1"];
    let lines = cluster.file("lines", &lines(100));
    let job = cluster.submit_shipped("lengths", &lines, "out", &slow);
    wait_for("a running map", || !cluster.runners().is_empty());
    let program = cluster.programs().pop().expect("it is stored");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o600)).expect("cannot change a mode");
    cluster.kill_runners();
    wait_for("the failure", || cluster.status(job).failures.iter().any(|text| text.contains("Permission denied")));
    cluster.run(&["kill", &job.0.to_string()]);
}
