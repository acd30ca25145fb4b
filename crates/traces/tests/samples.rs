//! The readers against facts about real traces, figure by figure. The traces are not part of the project: without them, each test prints a line
//! and passes.

use giveway_traces::{Count, Diagnostics, DurationModel, JobOutcome, Oddity, Options, TraceJob, open};
use std::path::{Path, PathBuf};

/// The folder `shared/traces` beside the project or further up.
fn samples() -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = here.ancestors().map(|folder| folder.join("shared/traces")).find(|folder| folder.is_dir());
    if folder.is_none() {
        println!("no folder shared/traces beside the project: nothing checked");
    }
    folder
}

fn read_with(file: &Path, model: DurationModel) -> (Vec<TraceJob>, Diagnostics) {
    let mut trace = open(file, &Options { model, ..Options::default() }).unwrap();
    let jobs = trace.by_ref().collect();
    (jobs, trace.diagnostics().clone())
}

fn read(file: &Path) -> (Vec<TraceJob>, Diagnostics) {
    read_with(file, DurationModel::default())
}

/// The value at a quantile of a sorted list.
fn quantile(sorted: &[u64], fraction: f64) -> u64 {
    sorted[((sorted.len() - 1) as f64 * fraction).round() as usize]
}

/// The same number with three digits.
fn three_digits(number: f64) -> f64 {
    let scale = 10f64.powf(number.log10().floor() - 2.0);
    (number / scale).round() * scale
}

fn assert_about(measured: f64, published: f64) {
    assert!((three_digits(measured) / published - 1.0).abs() < 6e-3, "{measured} instead of {published}");
}

#[test]
fn facebook_days_have_the_published_sizes() {
    let Some(samples) = samples() else { return };
    // The published task counts are by input alone.
    let by_input = DurationModel { map_only_output_mb: 0.0, ..DurationModel::default() };
    struct Facts {
        file: &'static str,
        jobs: usize,
        span_s: (i64, i64),
        max_gap_s: i64,
        input: [f64; 5],
        shuffle_zero_percent: f64,
        totals_tb: [f64; 2],
        zero_input_percent: f64,
        maps: u64,
        largest: u32,
    }
    for facts in [
        Facts {
            file: "FB-2009_samples_24_times_1hr_0.tsv",
            jobs: 5_894,
            span_s: (49, 86_404),
            max_gap_s: 3_710,
            input: [76.0, 604.0, 19.1e3, 605e6, 7.55e12],
            shuffle_zero_percent: 75.5,
            totals_tb: [26.9, 22.2],
            zero_input_percent: 1.5,
            maps: 205_713,
            largest: 56_262,
        },
        Facts {
            file: "FB-2010_samples_24_times_1hr_withInputPaths_0.tsv",
            jobs: 25_428,
            span_s: (1, 86_407),
            max_gap_s: 116,
            input: [382.0, 11.3e3, 5.12e6, 29.6e9, 21.3e12],
            shuffle_zero_percent: 33.4,
            totals_tb: [1_210.0, 413.0],
            zero_input_percent: 4.0,
            maps: 9_004_179,
            largest: 158_500,
        },
    ] {
        let (jobs, diagnostics) = read_with(&samples.join("swim").join(facts.file), by_input.clone());
        assert_eq!(jobs.len(), facts.jobs);
        let seconds = |job: &TraceJob| job.submit_us / 1_000_000;
        assert_eq!((seconds(&jobs[0]), seconds(&jobs[jobs.len() - 1])), facts.span_s);
        let max_gap = jobs.windows(2).map(|pair| seconds(&pair[1]) - seconds(&pair[0])).max();
        assert_eq!(max_gap, Some(facts.max_gap_s));
        let mut input: Vec<u64> = jobs.iter().map(|job| job.maps.input_bytes).collect();
        input.sort_unstable();
        for (fraction, published) in [0.1, 0.25, 0.5, 0.9, 1.0].into_iter().zip(facts.input) {
            assert_about(quantile(&input, fraction) as f64, published);
        }
        let percent = |count: usize| (count as f64 / jobs.len() as f64 * 1_000.0).round() / 10.0;
        assert_eq!(percent(jobs.iter().filter(|job| job.reduces.count == 0).count()), facts.shuffle_zero_percent);
        assert_eq!(percent(jobs.iter().filter(|job| job.maps.input_bytes == 0).count()), facts.zero_input_percent);
        let total = |bytes: fn(&TraceJob) -> u64| jobs.iter().map(|job| bytes(job) as f64).sum::<f64>();
        assert_about(total(|job| job.maps.input_bytes), facts.totals_tb[0] * 1e12);
        assert_about(total(|job| job.reduces.input_bytes), facts.totals_tb[1] * 1e12);
        assert_eq!(diagnostics.count(Count::Maps), facts.maps);
        assert_eq!(jobs.iter().map(|job| job.maps.count).max(), Some(facts.largest));
        assert_eq!(diagnostics.lines().len(), 1, "only the modelled times: {:?}", diagnostics.lines());
    }
    assert_eq!(read(&samples.join("swim/FB-2009_samples_24_times_1hr_0_first50jobs.tsv")).0.len(), 50);
}

#[test]
fn sls_jobs_are_read_and_other_sls_files_refused() {
    let Some(samples) = samples() else { return };
    for file in ["inputsls.json", "sls_dag.json"] {
        let (jobs, _) = read(&samples.join("hadoop/sls").join(file));
        let maps: Vec<u32> = jobs.iter().map(|job| job.maps.count).collect();
        assert_eq!(maps, [3, 2], "{file}");
        assert_eq!((jobs[0].pool.as_str(), jobs[0].submit_us, jobs[0].finish_us), ("sls_queue_1", 0, Some(95_375_000)));
    }
    for file in ["nodes.json", "nodes-with-resources.json", "syn.json", "syn_generic.json", "syn_stream.json"] {
        let error = open(&samples.join("hadoop/sls").join(file), &Options::default()).err().unwrap().to_string();
        assert!(error.contains("has no jobs"), "{file}: {error}");
    }
}

/// File, jobs, maps, reduces, and attempts that succeeded, failed and were killed; without counts if all succeeded.
type RumenFacts = (&'static str, usize, u64, u64, Option<[u64; 3]>);

#[test]
fn rumen_traces_have_the_published_tasks_and_attempts() {
    let Some(samples) = samples() else { return };
    let facts: [RumenFacts; 14] = [
        ("rumen/19-jobs.trace", 19, 8_573, 3_256, Some([8_404, 3_496, 1_096])),
        ("rumen/dispatch-trace-output", 4, 154, 49, Some([203, 4, 69])),
        ("rumen/zombie-input-trace", 4, 154, 49, Some([184, 5, 66])),
        ("rumen/2jobs2min-rumen-jh", 2, 192, 0, Some([192, 0, 0])),
        ("gridmix/trace_1m", 5, 42, 5, None),
        ("gridmix/trace_3m", 12, 148, 18, None),
        ("gridmix/trace_5m", 6, 196, 359, None),
        ("gridmix/trace_7m", 26, 176, 440, None),
        ("gridmix/trace_12m", 46, 170, 277, None),
        ("gridmix/3m_stream_trace", 9, 151, 36, None),
        ("gridmix/highram_mr_jobs_case2", 2, 100, 15, None),
        ("gridmix/cpu_emul_case1", 1, 122, 0, None),
        ("gridmix/mem_emul_case1", 1, 123, 0, None),
        ("gridmix/distcache_case5_trace", 3, 300, 212, None),
    ];
    for (file, job_count, maps, reduces, attempts) in facts {
        let (jobs, diagnostics) = read(&samples.join(format!("hadoop/{file}.json.gz")));
        let count = |count| diagnostics.count(count);
        assert_eq!(count(Count::Jobs), job_count as u64, "{file}");
        assert_eq!((count(Count::Maps), count(Count::Reduces)), (maps, reduces), "{file}");
        match attempts {
            Some(attempts) => {
                let counted = [Count::SucceededAttempts, Count::FailedAttempts, Count::KilledAttempts].map(count);
                assert_eq!(counted, attempts, "{file}");
            }
            None => {
                assert_eq!((count(Count::FailedAttempts), count(Count::KilledAttempts)), (0, 0), "{file}");
                assert_eq!(jobs.len(), job_count, "{file}");
            }
        }
    }
}

#[test]
fn the_nineteen_jobs_have_the_published_oddities() {
    let Some(samples) = samples() else { return };
    let (jobs, diagnostics) = read(&samples.join("hadoop/rumen/19-jobs.trace.json.gz"));
    assert_eq!(diagnostics.of(Oddity::FailedJob), 5);
    assert_eq!(diagnostics.count(Count::MapsWithReplicas), 7_067);
    assert_eq!(diagnostics.of(Oddity::NoAttempts), 155);
    // 990 attempts of maps, which are the published ones, and 318 of reduces.
    assert_eq!(diagnostics.of(Oddity::AttemptBeforeTask), 990 + 318);
    let users: std::collections::BTreeSet<&str> = jobs.iter().map(|job| job.user.as_str()).collect();
    assert_eq!(users.len(), 5);
    let submits = jobs.iter().map(|job| job.submit_us);
    let minutes = (submits.clone().max().unwrap() - submits.min().unwrap()) as f64 / 60e6;
    assert_eq!(minutes.round(), 28.0);
    assert!(diagnostics.of(Oddity::FewerTasksThanDeclared) >= 1, "job 0018");
    let (_, killed) = read(&samples.join("hadoop/rumen/dispatch-trace-output.json.gz"));
    assert_eq!(killed.of(Oddity::KilledJob), 1);
    let (_, zombie) = read(&samples.join("hadoop/rumen/zombie-input-trace.json.gz"));
    assert_eq!(zombie.of(Oddity::NoAttempts), 19);
}

#[test]
fn the_swf_sample_has_3170_jobs() {
    let Some(samples) = samples() else { return };
    let (jobs, diagnostics) = read(&samples.join("swf/HPC2N-2002-first3170.swf"));
    assert_eq!(diagnostics.count(Count::Rows), 3_170);
    let users: std::collections::BTreeSet<&str> = jobs.iter().map(|job| job.user.as_str()).collect();
    assert_eq!(users.len(), 17);
    let days = jobs.iter().map(|job| job.submit_us).max().unwrap() / 86_400_000_000;
    assert_eq!(days, 57);
    assert!(jobs.iter().all(|job| job.maps.count <= 240));
    assert_eq!(diagnostics.of(Oddity::NoWork) as usize + jobs.len(), 3_170);
    assert!(jobs.iter().all(|job| job.outcome == JobOutcome::Succeeded || job.outcome == JobOutcome::Unknown));
}

#[test]
fn job_histories_have_their_tasks() {
    let Some(samples) = samples() else { return };
    // File, maps and reduces that finished, failed attempts, outcome.
    let facts = [
        ("sleep_10m_1r_succeeded", 10, 2, 0, JobOutcome::Succeeded),
        ("teragen_2m_0r_succeeded", 2, 0, 0, JobOutcome::Succeeded),
        ("quasimontecarlo_1m_1r_succeeded", 1, 1, 0, JobOutcome::Succeeded),
    ];
    for (file, maps, reduces, failed, outcome) in facts {
        let (jobs, diagnostics) = read(&samples.join(format!("hadoop/jobhistory/{file}.jhist")));
        let [job] = jobs.as_slice() else { panic!("{file}: {jobs:?}") };
        assert_eq!((job.maps.count, job.reduces.count, job.outcome), (maps, reduces, outcome), "{file}");
        assert_eq!(diagnostics.count(Count::FailedAttempts), failed, "{file}");
        assert!(job.maps.time.span() > giveway_core::Span::ZERO, "{file}");
    }
    // Jobs without a finished task are left out, and counted.
    for (file, failed, killed) in [("sleep_failed", 1, 0), ("job_2.4.0_failed", 4, 0), ("job_0.23.9_failed", 7, 1)] {
        let (jobs, diagnostics) = read(&samples.join(format!("hadoop/jobhistory/{file}.jhist")));
        assert!(jobs.is_empty(), "{file}");
        assert_eq!((diagnostics.of(Oddity::FailedJob), diagnostics.of(Oddity::NoTasks)), (1, 1), "{file}");
        let attempts = (diagnostics.count(Count::FailedAttempts), diagnostics.count(Count::KilledAttempts));
        assert_eq!(attempts, (failed, killed), "{file}");
    }
    let old = open(&samples.join("hadoop/jobhistory/hadoop1_sleep.history"), &Options::default());
    assert!(old.err().unwrap().to_string().contains("Rumen"));
    let folder = open(&samples.join("hadoop/jobhistory"), &Options::default()).unwrap();
    assert_eq!(folder.count(), 3);
}

#[test]
fn google_events_have_the_published_counts() {
    let Some(samples) = samples() else { return };
    for (part, rows, tasks, jobs, users) in
        [("00001", 77_776, 20_139, 1_324, 139), ("00002", 160_642, 43_573, 1_524, 160)]
    {
        let file = samples.join(format!("google2011/task_events_part-{part}-of-00500.csv.gz"));
        let (read, diagnostics) = read(&file);
        assert_eq!(diagnostics.count(Count::Rows), rows, "{part}");
        assert_eq!(diagnostics.count(Count::Tasks), tasks, "{part}");
        assert_eq!(diagnostics.count(Count::Users), users, "{part}");
        let left_out = diagnostics.of(Oddity::SubmittedBefore) + diagnostics.of(Oddity::NoTasks);
        assert_eq!(read.len() as u64 + left_out, jobs, "{part}");
    }
    let (jobs, diagnostics) = read(&samples.join("google2011/google2011_jobs.csv.zst"));
    assert_eq!((diagnostics.count(Count::Rows), diagnostics.count(Count::Users)), (672_074, 933));
    assert_eq!(diagnostics.of(Oddity::SubmittedBefore), 3_986);
    let finished: Vec<&TraceJob> = jobs.iter().filter(|job| job.outcome == JobOutcome::Succeeded).collect();
    let mut seconds: Vec<u64> = finished.iter().map(|job| job.maps.time.span().0 / 1_000_000).collect();
    seconds.sort_unstable();
    let quantiles = [0.1, 0.5, 0.9, 0.99].map(|fraction| quantile(&seconds, fraction));
    for (measured, published) in quantiles.into_iter().zip([23.0, 109.0, 1_060.0, 10_385.0]) {
        assert!((measured as f64 / published - 1.0f64).abs() < 0.05, "{measured} instead of {published}");
    }
}

#[test]
fn alibaba_tables_have_the_published_rows() {
    let Some(samples) = samples() else { return };
    let read = |file: &str| read(&samples.join("alibaba").join(file));
    let (_, v2017) = read("alibaba2017_batch_task.csv.zst");
    assert_eq!(v2017.count(Count::Rows), 80_553);
    assert_eq!((v2017.count(Count::Instances) as f64 / 1e5).round(), 119.0, "11.9 million");
    assert_eq!(v2017.of(Oddity::TaskEndsBeforeStart), 209);
    assert_eq!(v2017.of(Oddity::MissingCpu), 9_017);
    assert_eq!((v2017.of(Oddity::WaitingTask), v2017.of(Oddity::FailedTask)), (8_847, 1_126));
    for (file, tasks, instances) in [
        ("alibaba2018_batch_task_6600jobs.csv.zst", 25_196, 3.29e6),
        ("alibaba2018_batch_task_medium3690jobs.csv.zst", 22_409, 242_068.0),
        ("alibaba2017_cloudsimpy_jobs.csv.zst", 31_756, 2.55e6),
    ] {
        let (_, diagnostics) = read(file);
        assert_eq!(diagnostics.count(Count::Tasks), tasks, "{file}");
        assert_about(diagnostics.count(Count::Instances) as f64, instances);
    }
    let (jobs, v2018) = read("alibaba2018_batch_task_6600jobs.csv.zst");
    assert_eq!((v2018.of(Oddity::TaskEndsBeforeStart), v2018.of(Oddity::WaitingTask)), (23, 14), "Running with end 0");
    let left_out = [Oddity::DeepGraph, Oddity::CyclicGraph, Oddity::SubmittedBefore, Oddity::NoTasks];
    let left_out: u64 = left_out.iter().map(|&oddity| v2018.of(oddity)).sum();
    assert_eq!(jobs.len() as u64 + left_out, 6_600, "{:?}", v2018.lines());
}

#[test]
fn node_files_and_topologies_have_their_nodes() {
    let Some(samples) = samples() else { return };
    // File, nodes, racks, nodes without a name.
    for (file, nodes, racks, nameless) in [
        ("sls/nodes.json", 19, 5, 1),
        ("sls/nodes-with-resources.json", 4, 1, 0),
        ("rumen/19-jobs.topology.json.gz", 1_545, 41, 0),
    ] {
        let mut diagnostics = Diagnostics::default();
        let cluster = giveway_traces::read_cluster(&samples.join("hadoop").join(file), &mut diagnostics).unwrap();
        let names: std::collections::BTreeSet<u32> = cluster.nodes.iter().map(|node| node.spec.rack.0).collect();
        assert_eq!((cluster.nodes.len(), names.len()), (nodes, racks), "{file}");
        assert_eq!(diagnostics.of(Oddity::NodeWithoutName), nameless, "{file}");
    }
}
