//! The result of `giveway what-if` as one self-contained HTML page.

use super::text::{figures, group_figures, sentence, times, validation};
use super::{Changes, Row, Study};
use crate::report;
use crate::report::plots::{Axis, label, svg};
use crate::report::text::{escape, span, tick};
use giveway_analysis::what_if::{GroupChange, JobChange};

/// Points drawn in a plot and jobs listed in a table; of more jobs, those that change most.
const POINTS_MAX: usize = 3_000;
const JOBS_MAX: usize = 2_000;
/// Rows of a table of users or pools.
const GROUPS_MAX: usize = 100;
const SIZE: (f64, f64) = (460.0, 400.0);
const LEFT: f64 = 56.0;
const RIGHT: f64 = 448.0;
const TOP: f64 = 12.0;
const BASE: f64 = 356.0;

const COLUMNS: [&str; 11] = [
    "Mean completion",
    "p50",
    "p95",
    "p99",
    "Mean wait",
    "Mean slowdown",
    "Max slowdown",
    "Lost work",
    "Mean / lower bound",
    "Jobs sooner",
    "Jobs later",
];

pub(super) fn html(study: &Study) -> String {
    let baseline = study.rows.get(study.baseline).map_or("", |row| row.label.as_str());
    let clusters = study.clusters.iter().map(|cluster| format!("{} ({cluster})", cluster.name)).collect::<Vec<_>>();
    let facts = [
        ("Source".to_owned(), study.workload.name.clone()),
        ("Jobs".to_owned(), format!("{}, of which {} are compared", study.workload.jobs.len(), study.compared.len())),
        ("Recorded policy".to_owned(), study.recorded_policy.clone().unwrap_or("unknown".into())),
        ("Cluster".to_owned(), clusters.join("; ")),
        ("Seed".to_owned(), study.seed.to_string()),
    ];
    let changed: Vec<(&Row, &Changes)> =
        study.rows.iter().filter_map(|row| Some((row, row.against.as_ref()?))).collect();
    let summary: String = changed
        .iter()
        .map(|(row, changes)| format!("<li>{}.</li>\n", escape(&sentence(baseline, row, changes, study))))
        .collect();
    let mut body = format!(
        "<section aria-labelledby=\"summary\"><h2 id=\"summary\">Summary</h2>\n<ul>{summary}</ul>\n{}<p>{}.</p>{}</section>\n",
        rows_table(study),
        escape(&capitalised(&validation(study))),
        notes(study)
    );
    for (number, (row, changes)) in changed.iter().enumerate() {
        body += &section(study, baseline, number, row, changes);
    }
    report::document(&format!("What if: {}", study.workload.name), &facts, study.workload.groups.len(), &body)
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

fn rows_table(study: &Study) -> String {
    let body = study.rows.iter().map(|row| (row.label.clone(), figures(row)));
    table("All compared jobs", "", &COLUMNS, body)
}

fn notes(study: &Study) -> String {
    if study.notes.is_empty() {
        return "<p>No job is left out.</p>\n".into();
    }
    let all: String = study.notes.iter().map(|note| format!("<li>{}</li>", escape(note))).collect();
    format!("<p>Left out, not compared, or odd in the record:</p><ul>{all}</ul>\n")
}

fn section(study: &Study, baseline: &str, number: usize, row: &Row, changes: &Changes) -> String {
    let name = escape(&row.label);
    let mut groups = group_table("By size", &changes.by_size);
    for (caption, of) in [("By user", &changes.by_user), ("By pool", &changes.by_pool)] {
        if of.len() > 1 {
            groups += &group_table(caption, of);
        }
    }
    let losses = changes
        .losses
        .iter()
        .map(|loss| (study.job_name(loss.change.job), vec![times(&loss.change), loss.reason.clone()]));
    let losses = if changes.losses.is_empty() {
        "<p>No job ends later by more than 1 %.</p>\n".into()
    } else {
        table("Jobs that lose most", "Job", &["Completion", "Reason"], losses)
    };
    format!(
        "<section aria-labelledby=\"c{number}\"><h2 id=\"c{number}\">{name} instead of {}</h2>\n\
         <div class=\"pairs\"><figure><figcaption>Completion time of each job</figcaption>{}</figure>\n<div>{groups}</div></div>\n{losses}{}</section>\n",
        escape(baseline),
        scatter(study, number, baseline, row, changes),
        job_table(study, changes)
    )
}

fn group_table(caption: &str, groups: &[GroupChange]) -> String {
    let rows = groups.iter().take(GROUPS_MAX).map(|group| (group.name.clone(), group_figures(group)));
    let caption = if groups.len() > GROUPS_MAX {
        format!("{caption}, the first {GROUPS_MAX} of {}", groups.len())
    } else {
        caption.into()
    };
    table(&caption, "", &["Jobs", "Mean before", "Mean after", "Change", "Sooner", "Later"], rows)
}

/// The jobs that change most.
fn most_changed(changes: &Changes, count: usize) -> Vec<&JobChange> {
    let mut jobs: Vec<&JobChange> = changes.jobs.iter().collect();
    if jobs.len() > count {
        jobs.sort_by(|a, b| b.later_s().abs().total_cmp(&a.later_s().abs()).then(a.job.cmp(&b.job)));
        jobs.truncate(count);
        jobs.sort_by_key(|change| change.job);
    }
    jobs
}

fn job_table(study: &Study, changes: &Changes) -> String {
    let jobs = most_changed(changes, JOBS_MAX);
    let caption = if jobs.len() < changes.jobs.len() {
        format!("The {} jobs that change most, of {}", jobs.len(), changes.jobs.len())
    } else {
        format!("Every job ({})", jobs.len())
    };
    let rows = jobs.into_iter().map(|change| {
        let size = study.size_of(change.job).to_owned();
        (study.job_name(change.job), vec![size, span(change.before_s), span(change.after_s)])
    });
    let table = table(&caption, "Job", &["Size", "Before", "After"], rows);
    format!("<details><summary>{}</summary>\n{table}</details>\n", escape(&caption))
}

/// Completion time before and after, one point for each job; below the diagonal a job ends sooner.
fn scatter(study: &Study, number: usize, baseline: &str, row: &Row, changes: &Changes) -> String {
    let jobs = most_changed(changes, POINTS_MAX);
    let mut both: Vec<f64> = jobs.iter().flat_map(|change| [change.before_s, change.after_s]).collect();
    let x = Axis::fit(&mut both, LEFT, RIGHT);
    let y = Axis::fit(&mut both, BASE, TOP);
    let mut body = String::new();
    for time in x.ticks_s(6) {
        body +=
            &format!("<path class=\"grid\" d=\"M{:.1} {BASE}V{TOP}M{LEFT} {:.1}H{RIGHT}\"/>", x.at(time), y.at(time));
        body += &label(x.at(time), BASE + 16.0, "middle", &tick(time));
        body += &label(LEFT - 6.0, y.at(time) + 4.0, "end", &tick(time));
    }
    body += &format!("<path class=\"axis\" d=\"M{LEFT} {TOP}V{BASE}H{RIGHT}M{LEFT} {BASE}L{RIGHT} {TOP}\"/>");
    for change in &jobs {
        let group = study.workload.jobs.get(change.job.0 as usize).map_or(0, |plan| plan.group);
        body += &format!(
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\" style=\"fill:var(--g{group});fill-opacity:.7\"/>",
            x.at(change.before_s),
            y.at(change.after_s)
        );
    }
    body += &label(RIGHT, BASE + 32.0, "end", &format!("under {baseline}"));
    body += &label(LEFT + 6.0, TOP + 10.0, "start", &format!("under {}; jobs below the line end sooner", row.label));
    let title = format!("Completion times under {baseline} and under {}", row.label);
    let description = format!(
        "{} of {} jobs end sooner, {} later. Colours are sizes, from {} to {}.",
        changes.faster(),
        changes.jobs.len(),
        changes.slower(),
        study.workload.groups.first().map_or("", String::as_str),
        study.workload.groups.last().map_or("", String::as_str)
    );
    svg(&format!("s{number}"), "curves", SIZE, &title, &description, &body)
}

fn table(caption: &str, first: &str, columns: &[&str], rows: impl Iterator<Item = (String, Vec<String>)>) -> String {
    let cells = |cells: Vec<String>| cells.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect::<String>();
    report::scrolled(caption, first, columns, rows.map(|(name, row)| (name, cells(row))))
}
