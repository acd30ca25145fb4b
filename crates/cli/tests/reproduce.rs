//! End-to-end tests of `giveway reproduce`: all papers, all files that it writes, and an engine run with its forecast.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn reproduce(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_giveway"));
    command.arg("reproduce").args(args).current_dir(folder).output().expect("the binary starts")
}

/// Standard output, then standard error.
fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn read_json(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).expect("the JSON file")).expect("valid JSON")
}

#[test]
fn each_paper_has_a_page_figures_and_numbers() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let args = ["all", "--quick", "--seeds", "1", "--no-engine", "--report", "out", "--json", "out.json"];
    let output = reproduce(folder.path(), &args);
    assert!(output.status.success(), "{}", text(&output));
    let json = read_json(&folder.path().join("out.json"));
    let papers = json["papers"].as_array().expect("papers");
    let names: Vec<&str> = papers.iter().filter_map(|paper| paper["paper"].as_str()).collect();
    assert_eq!(names, ["hsrtf", "chronos", "fcs", "coshh"]);
    for paper in papers {
        let name = paper["paper"].as_str().expect("a name");
        let page = fs::read_to_string(folder.path().join("out").join(format!("{name}.md"))).expect("a page");
        for claim in paper["claims"].as_array().expect("claims") {
            assert!(page.contains(claim["claim"].as_str().expect("a claim")), "{name}: {claim}");
            // With one seed a group of jobs may have no node-local map, and no change from that.
            let has_figure = claim["ours"]["mean"].is_number() || claim["verdict"] == "inconclusive";
            assert!(claim["ours"].is_null() || has_figure, "{name}: {claim}");
            assert!(claim["verdict"] != "no-experiment" || claim["ours"].is_null(), "{name}: {claim}");
        }
        assert!(paper["figures"].as_array().is_some_and(|figures| figures.len() >= 9), "{name}");
        let figures = page.lines().filter_map(|line| line.strip_prefix("!["));
        for figure in figures.filter_map(|line| line.split_once("](").map(|(_, file)| file.trim_end_matches(')'))) {
            let svg = fs::read_to_string(folder.path().join("out").join(figure)).expect("a figure");
            assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && !svg.contains("NaN"), "{figure}");
        }
    }
}

#[test]
fn an_engine_run_is_compared_with_its_forecast() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output =
        reproduce(folder.path(), &["hsrtf", "--quick", "--seeds", "1", "--report", "out", "--json", "out.json"]);
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("median error of the forecast completion time"), "{}", text(&output));
    let json = read_json(&folder.path().join("out.json"));
    let runs = json["engine"]["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 2);
    for run in runs {
        let jobs = run["jobs"].as_array().expect("jobs");
        assert_eq!(jobs.len(), 31, "the paper's Table 2 has 31 jobs");
        assert!(jobs.iter().all(|job| job["real_s"].is_number() && job["forecast_s"].is_number()), "{run}");
    }
    assert!(fs::read_to_string(folder.path().join("out/engine.md")).expect("a page").contains("| 31 | small |"));
}

#[test]
fn an_unwritable_report_folder_is_an_error() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("file"), "").expect("a file");
    let output = reproduce(folder.path(), &["hsrtf", "--quick", "--seeds", "1", "--no-engine", "--report", "file/in"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("cannot create directory file/in"), "{}", text(&output));
}
