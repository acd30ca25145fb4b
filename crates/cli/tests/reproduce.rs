//! `giveway reproduce` as a user meets it: every paper, every file it writes, and a real run beside its forecast.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn reproduce(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_giveway"));
    command.arg("reproduce").args(args).current_dir(folder).output().expect("the binary runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn every_paper_has_its_page_its_figures_and_its_numbers() {
    let folder = tempfile::tempdir().expect("a folder");
    let args = ["all", "--quick", "--seeds", "1", "--no-engine", "--report", "out", "--json", "out.json"];
    let output = reproduce(folder.path(), &args);
    assert!(output.status.success(), "{}", said(&output));
    let json: Value =
        serde_json::from_slice(&fs::read(folder.path().join("out.json")).expect("numbers")).expect("JSON");
    let papers = json["papers"].as_array().expect("papers");
    let names: Vec<&str> = papers.iter().filter_map(|paper| paper["paper"].as_str()).collect();
    assert_eq!(names, ["hsrtf", "chronos", "fcs", "coshh"]);
    for paper in papers {
        let name = paper["paper"].as_str().expect("a name");
        let page = fs::read_to_string(folder.path().join("out").join(format!("{name}.md"))).expect("a page");
        for headline in paper["headlines"].as_array().expect("headlines") {
            assert!(page.contains(headline["claim"].as_str().expect("a claim")), "{name}: {headline}");
            assert!(headline["ours"]["mean"].is_number(), "{name}: {headline}");
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
fn a_real_run_stands_beside_its_forecast() {
    let folder = tempfile::tempdir().expect("a folder");
    let output =
        reproduce(folder.path(), &["hsrtf", "--quick", "--seeds", "1", "--report", "out", "--json", "out.json"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("median error of the forecast completion time"), "{}", said(&output));
    let json: Value =
        serde_json::from_slice(&fs::read(folder.path().join("out.json")).expect("numbers")).expect("JSON");
    let runs = json["engine"]["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 2);
    for run in runs {
        let jobs = run["jobs"].as_array().expect("jobs");
        assert_eq!(jobs.len(), 31, "as many as in the paper's Table 2");
        assert!(jobs.iter().all(|job| job["real_s"].is_number() && job["forecast_s"].is_number()), "{run}");
    }
    assert!(fs::read_to_string(folder.path().join("out/engine.md")).expect("a page").contains("| 31 | small |"));
}

#[test]
fn what_cannot_be_written_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("file"), "").expect("a file");
    let output = reproduce(folder.path(), &["hsrtf", "--quick", "--seeds", "1", "--no-engine", "--report", "file/in"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("cannot make the folder file/in"), "{}", said(&output));
}
