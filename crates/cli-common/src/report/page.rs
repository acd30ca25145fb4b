//! Assembles the page.
//!
//! The policies in the distribution plots are selected with check boxes and the CSS selector `:has`, because the page runs no script. Browsers
//! without `:has` show all policies.

use super::curves;
use super::slots::Frame;
use super::tables::{self, Row};
use super::text::{self, escape};
use super::{Run, names};

const STYLE: &str = include_str!("style.css");
/// Maximum number of policies that are selected in the distribution plots when the page opens.
const CURVES_SHOWN_MAX: usize = 8;
/// With more rows than this in all group tables together, the tables are collapsed when the page opens.
const OPEN_ROWS_MAX: usize = 60;
/// Colour ramps of the size groups from the smallest to the largest, on light and dark backgrounds. Lightness is monotonic, so that the order is
/// visible without distinguishing hues.
const RAMP_LIGHT: [[u8; 3]; 5] = [[255, 215, 95], [245, 145, 60], [215, 65, 95], [135, 40, 135], [35, 40, 105]];
const RAMP_DARK: [[u8; 3]; 5] = [[255, 236, 160], [250, 165, 80], [225, 80, 105], [150, 55, 150], [60, 70, 150]];

pub(super) fn html(title: &str, facts: &[(String, String)], groups: &[String], runs: &[Run]) -> String {
    let names = names(runs);
    // Some papers only number their groups; a number alone is not a useful heading.
    let numbered = |name: &String| name.starts_with(|first: char| first.is_ascii_digit());
    let groups: Vec<String> =
        groups.iter().map(|name| if numbered(name) { format!("group {name}") } else { name.clone() }).collect();
    let groups = groups.as_slice();
    let sections = if runs.is_empty() {
        "<p>No runs.</p>\n".into()
    } else {
        [
            policy_table(&names, runs),
            bars(&names, groups, runs),
            distributions(&names, groups, runs),
            slots(&names, groups, runs),
            group_tables(&names, groups, runs),
        ]
        .concat()
    };
    document(title, facts, groups.len(), runs.len(), &sections)
}

pub(super) fn document(
    title: &str,
    facts: &[(String, String)],
    groups: usize,
    policies: usize,
    content: &str,
) -> String {
    let (head, facts) = (head(title, groups, policies), facts_list(facts));
    format!("{head}<body><main>\n<h1>{}</h1>\n{facts}{content}</main></body>\n</html>\n", escape(title))
}

fn head(title: &str, groups: usize, policies: usize) -> String {
    let colours = group_colours(groups);
    let choices: String = (0..policies)
        .map(|ix| {
            format!(
                "main:has(#show-{ix}:not(:checked)) .p{ix}{{display:none}}\
                 main:has(label[for=show-{ix}]:hover) .line:not(.p{ix}){{opacity:.15}}\n"
            )
        })
        .collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<style>\n{STYLE}\
         {colours}{choices}</style>\n</head>\n",
        escape(title)
    )
}

/// CSS variables `--g0`, `--g1`, ... with the colours of the size groups, for light and dark mode.
pub fn group_colours(groups: usize) -> String {
    let ramp = |stops| (0..groups).map(|ix| format!("--g{ix}:{};", on_ramp(stops, ix, groups))).collect::<String>();
    let (light, dark) = (ramp(&RAMP_LIGHT), ramp(&RAMP_DARK));
    format!(":root{{{light}}}\n@media (prefers-color-scheme: dark){{:root{{{dark}}}}}\n")
}

/// The interpolated colour of item `ix` of `count` on a ramp.
fn on_ramp(stops: &[[u8; 3]; 5], ix: usize, count: usize) -> String {
    let position = ix as f64 / (count.max(2) - 1) as f64 * (stops.len() - 1) as f64;
    let below = (position as usize).min(stops.len() - 2);
    let mixed: [u8; 3] = std::array::from_fn(|channel| {
        let (from, to) = (f64::from(stops[below][channel]), f64::from(stops[below + 1][channel]));
        (from + (to - from) * (position - below as f64)).round() as u8
    });
    format!("#{:02x}{:02x}{:02x}", mixed[0], mixed[1], mixed[2])
}

fn facts_list(facts: &[(String, String)]) -> String {
    let all: String = facts
        .iter()
        .map(|(name, value)| {
            let value =
                if value.starts_with("giveway ") { format!("<code>{}</code>", escape(value)) } else { escape(value) };
            format!("<dt>{}</dt><dd>{value}</dd>\n", escape(name))
        })
        .collect();
    if all.is_empty() { all } else { format!("<dl class=\"facts\">\n{all}</dl>\n") }
}

fn policy_table(names: &[String], runs: &[Run]) -> String {
    let rows: Vec<Row> =
        names.iter().map(String::as_str).zip(runs.iter().map(|run| &run.summary.key_metrics)).collect();
    let best = if runs.len() > 1 { " Bold: best value of the column." } else { "" };
    format!(
        "<section aria-labelledby=\"policies\"><h2 id=\"policies\">Policies</h2>\n{}{}{}{}{}</section>\n",
        summary_sentence(names, runs),
        tables::figures(&format!("All jobs.{best}"), &rows),
        causes_of_loss(names, runs),
        excluded_jobs(names, runs),
        tables::column_definitions(),
    )
}

/// One sentence on how much of the lost work preemption caused.
fn causes_of_loss(names: &[String], runs: &[Run]) -> String {
    if runs.iter().all(|run| run.summary.key_metrics.lost_work_s == 0.0) {
        return String::new();
    }
    let by_preemption = |(name, run): (&String, &Run)| {
        let lost_s = run.summary.details.lost_to_preemption_s;
        (lost_s > 0.0).then(|| format!("{} under {}", text::span(lost_s), escape(name)))
    };
    let all: Vec<String> = names.iter().zip(runs).filter_map(by_preemption).collect();
    let caused = if all.is_empty() { "none".into() } else { all.join(", ") };
    format!(
        "<p>Of the lost work, preemption caused {caused}; nodes that failed, failures and second attempts caused the rest.</p>\n"
    )
}

/// One sentence with the best and the worst mean completion time.
fn summary_sentence(names: &[String], runs: &[Run]) -> String {
    let mut means: Vec<(f64, &String, &Run)> = names
        .iter()
        .zip(runs)
        .filter_map(|(name, run)| Some((run.summary.key_metrics.mean_completion_s?, name, run)))
        .collect();
    means.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (Some((lowest_s, name, run)), Some((highest_s, last, _))) = (means.first(), means.last()) else {
        return "<p>No job succeeded.</p>\n".into();
    };
    let bound = run.summary.key_metrics.lower_bound_mean_completion_s.filter(|bound_s| *bound_s > 0.0);
    let bound = bound.map_or_else(String::new, |bound_s| {
        format!(", {} times the lower bound of any scheduler", text::times(lowest_s / bound_s))
    });
    let equal = means.iter().filter(|(mean_s, ..)| text::span(*mean_s) == text::span(*lowest_s)).count() - 1;
    let has = if equal > 0 { format!(" and {equal} other policies have") } else { " has".into() };
    let span = |seconds: f64| text::span(seconds).replace(' ', "&nbsp;");
    let (name, last) = (escape(name), escape(last));
    if means.len() == 1 {
        return format!("<p class=\"summary\"><b>{name}</b>: mean completion time {}{bound}.</p>\n", span(*lowest_s));
    }
    let (lowest, highest) = (span(*lowest_s), span(*highest_s));
    let worst =
        if lowest == highest { String::new() } else { format!(" The highest is {highest}, under <b>{last}</b>.") };
    format!("<p class=\"summary\"><b>{name}</b>{has} the lowest mean completion time: {lowest}{bound}.{worst}</p>\n")
}

/// Lists the jobs that the metrics exclude, because a policy under which slow jobs fail would otherwise look fast.
fn excluded_jobs(names: &[String], runs: &[Run]) -> String {
    let all: String = names
        .iter()
        .zip(runs)
        .filter(|(_, run)| run.summary.jobs < run.summary.submitted)
        .map(|(name, run)| {
            let summary = &run.summary;
            let live = summary.submitted.saturating_sub(summary.jobs + summary.killed + summary.failed);
            let reasons = [(summary.killed, "killed by users"), (summary.failed, "failed"), (live, "unfinished")];
            let reasons = reasons.iter().filter(|(count, _)| *count > 0);
            let reasons: Vec<String> =
                reasons.map(|(jobs, reason)| format!("{} {reason}", text::count(*jobs))).collect();
            format!(
                "<li><b>{}</b>: of {} jobs, {}.</li>",
                escape(name),
                text::count(summary.submitted),
                reasons.join(", ")
            )
        })
        .collect();
    if all.is_empty() { all } else { format!("<p>Jobs excluded from these metrics:</p><ul>{all}</ul>\n") }
}

/// The rows of a group, and its number of jobs if that is equal in all runs.
fn group_rows<'a>(names: &'a [String], runs: &'a [Run], group: usize) -> (Vec<Row<'a>>, Option<u64>) {
    let figures = runs.iter().filter_map(|run| run.summary.groups.get(group).map(|(_, figures)| figures));
    let mut jobs: Vec<u64> = figures.clone().map(|figures| figures.jobs).collect();
    jobs.dedup();
    let rows = names.iter().map(String::as_str).zip(figures.map(|figures| &figures.key_metrics)).collect();
    (rows, if jobs.len() == 1 { jobs.pop() } else { None })
}

/// A group name with its number of jobs.
fn with_jobs(name: &str, jobs: Option<u64>) -> String {
    match jobs {
        Some(1) => format!("{name} (1 job)"),
        Some(jobs) => format!("{name} ({} jobs)", text::count(jobs)),
        None => name.into(),
    }
}

/// The groups that have jobs, with their indexes; none if there is only one group.
fn nonempty_groups<'a>(groups: &'a [String], runs: &'a [Run]) -> impl Iterator<Item = (usize, &'a String)> {
    let has_jobs = |group: usize| runs.iter().any(|run| run.jobs.iter().any(|job| usize::from(job.group) == group));
    groups.iter().enumerate().filter(move |(group, _)| groups.len() > 1 && has_jobs(*group))
}

fn bars(names: &[String], groups: &[String], runs: &[Run]) -> String {
    let rows: Vec<Row> =
        names.iter().map(String::as_str).zip(runs.iter().map(|run| &run.summary.key_metrics)).collect();
    let mut all = tables::bars("All jobs", &rows);
    for (group, name) in nonempty_groups(groups, runs) {
        let (rows, jobs) = group_rows(names, runs, group);
        all += &tables::bars(&with_jobs(name, jobs), &rows);
    }
    let bound = runs.iter().any(|run| run.summary.key_metrics.lower_bound_mean_completion_s.is_some());
    let bound = if bound { " The vertical line is the lower bound." } else { "" };
    format!(
        "<section aria-labelledby=\"means\"><h2 id=\"means\">Mean completion time by job size</h2>\n\
         <p>Each size group has its own scale.{bound}</p>\n<div class=\"cards\">\n{all}</div></section>\n"
    )
}

fn distributions(names: &[String], groups: &[String], runs: &[Run]) -> String {
    let mut all = format!(
        "<h3>All jobs</h3>\n<div class=\"row\">\n{}</div>\n",
        curves::row("all", "all jobs", names, runs, None)
    );
    for (group, name) in nonempty_groups(groups, runs) {
        let drawn = curves::row(&format!("g{group}"), &format!("{name} jobs"), names, runs, Some(group as u16));
        let (_, jobs) = group_rows(names, runs, group);
        all += &format!("<h3>{}</h3>\n<div class=\"row\">\n{drawn}</div>\n", escape(&with_jobs(name, jobs)));
    }
    format!(
        "<section aria-labelledby=\"curves\"><h2 id=\"curves\">Distributions</h2>\n\
         <p>Fraction of jobs with at most the given time (empirical distribution function). Lines further left and higher are better.</p>\n\
         {}{all}</section>\n",
        policy_selector(names, runs)
    )
}

/// The legend of the distribution plots, with a check box to show or hide each policy.
fn policy_selector(names: &[String], runs: &[Run]) -> String {
    let mean_s = |ix: usize| runs[ix].summary.key_metrics.mean_completion_s.unwrap_or(f64::INFINITY);
    let mut ranked: Vec<usize> = (0..runs.len()).collect();
    ranked.sort_by(|a, b| mean_s(*a).total_cmp(&mean_s(*b)));
    // Policies with identical results would cover each other; one of each is selected.
    ranked.dedup_by(|a, b| mean_s(*a) == mean_s(*b));
    ranked.truncate(CURVES_SHOWN_MAX);
    let few = runs.len() <= CURVES_SHOWN_MAX;
    let all: String = names
        .iter()
        .enumerate()
        .map(|(ix, name)| {
            let checked = if few || ranked.contains(&ix) { " checked" } else { "" };
            format!(
                "<label for=\"show-{ix}\"><input type=\"checkbox\" id=\"show-{ix}\"{checked}>{}{}</label>\n",
                key(&format!("class=\"line\" {}", curves::stroke(ix))),
                escape(name)
            )
        })
        .collect();
    let hint = if few {
        String::new()
    } else {
        format!(
            "<p>Initially shown: the {CURVES_SHOWN_MAX} policies with the lowest mean completion time, \
             one of each set of equal ones.</p>\n"
        )
    };
    format!("{hint}<fieldset class=\"legend\"><legend>Policies shown</legend>\n{all}</fieldset>\n")
}

/// A line sample for a legend.
fn key(attributes: &str) -> String {
    format!("<svg class=\"key\" viewBox=\"0 0 34 10\" aria-hidden=\"true\"><path {attributes} d=\"M1 5h32\"/></svg>")
}

fn slots(names: &[String], groups: &[String], runs: &[Run]) -> String {
    let frame = Frame::fit(runs.iter().map(|run| &run.chart));
    let drawn: String = names
        .iter()
        .zip(runs)
        .enumerate()
        .map(|(ix, (name, run))| {
            let drawn = frame.draw(&format!("slots-{ix}"), name, &run.chart);
            let makespan = text::span(run.summary.makespan_s);
            format!(
                "<figure><figcaption>{} <span>makespan {makespan}</span></figcaption>{drawn}</figure>\n",
                escape(name)
            )
        })
        .collect();
    let keys: String = groups
        .iter()
        .enumerate()
        .map(|(group, name)| format!("<li><i style=\"background:var(--g{group})\"></i>{}</li>", escape(name)))
        .collect();
    let capacity = format!("<li>{}capacity</li>", key("class=\"capacity\""));
    let lost = if frame.has_loss_lines() {
        format!("<li>{}node lost</li>", key("class=\"node-lost\""))
    } else {
        String::new()
    };
    format!(
        "<section aria-labelledby=\"slots\"><h2 id=\"slots\">Slots over time</h2>\n\
         <p>Slots in use by size group of the job, from the first submission. The marks below are preempted attempts; a \
         higher mark stands for more of them. All plots have the same scale.</p>\n\
         <ul class=\"legend\">{keys}{capacity}{lost}</ul>\n<div class=\"pairs\">\n{drawn}</div></section>\n"
    )
}

fn group_tables(names: &[String], groups: &[String], runs: &[Run]) -> String {
    let shown: Vec<(usize, &String)> = nonempty_groups(groups, runs).collect();
    if shown.is_empty() {
        return String::new();
    }
    let open = if shown.len() * runs.len() <= OPEN_ROWS_MAX { " open" } else { "" };
    let all: String = shown
        .into_iter()
        .map(|(group, name)| {
            let (rows, jobs) = group_rows(names, runs, group);
            let name = with_jobs(name, jobs);
            format!(
                "<details{open}><summary>{}</summary>\n{}</details>\n",
                escape(&name),
                tables::figures(&name, &rows)
            )
        })
        .collect();
    format!(
        "<section aria-labelledby=\"groups\"><h2 id=\"groups\">Metrics by job size</h2>\n\
         <p>Slot utilisation is the fraction of all slot time that the jobs of the group used.</p>\n{all}</section>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::super::Chart;
    use super::super::chart::PreemptionCounts;
    use super::*;
    use giveway_core::{Kind, policy};
    use giveway_sim::metrics::{Grouping, Metrics};
    use giveway_sim::{Simulation, cluster, workload};

    /// Simulates the workload of the hSRTF paper's Table 2.
    fn run(policy: &str, seed: u64) -> (Run, Vec<String>) {
        let workload = workload::by_name("hsrtf-table2", seed).unwrap();
        let cluster = cluster::by_name("hsrtf").unwrap();
        let by_job: Vec<u16> = workload.jobs.iter().map(|job| job.group).collect();
        let grouping = Grouping::listed(workload.groups.clone(), by_job.clone());
        let mut metrics = Metrics::new(&workload.tenants, grouping, vec![]);
        let mut chart = Chart::new(move |job| by_job[job.id.0 as usize], workload.groups.len());
        let composed = policy::catalog::by_name(policy).unwrap();
        Simulation::new(&cluster, &workload, composed, seed).unwrap().run(&mut (&mut metrics, &mut chart));
        let (summary, jobs) = (metrics.summary(policy, seed, Some(60.0)), metrics.jobs().to_vec());
        (Run { summary, jobs, chart }, workload.groups)
    }

    /// `Metrics` counts preemptions and slot time independently of `Chart`.
    #[test]
    fn chart_and_metrics_agree() {
        for policy in ["fcs", "hsrtf-prp", "hsrtf-pup-pause"] {
            let (run, _) = run(policy, 7);
            let figures = &run.summary.key_metrics;
            let all: Vec<_> = run.chart.intervals().collect();
            let preemptions = |count: fn(&PreemptionCounts) -> u32, kind: Kind| -> u64 {
                all.iter().map(|interval| u64::from(count(&interval.preemptions[kind.index()]))).sum()
            };
            assert_eq!(preemptions(|counts| counts.work_kept, Kind::Map), figures.early_ends, "{policy}");
            assert_eq!(preemptions(|counts| counts.work_kept, Kind::Reduce), figures.pauses, "{policy}");
            let kills: u64 = Kind::BOTH.iter().map(|kind| preemptions(|counts| counts.killed, *kind)).sum();
            assert_eq!(kills, figures.kills, "{policy}");
            let slot_time = |slots: &dyn Fn(usize) -> f64| {
                (0..all.len()).map(|ix| slots(ix) * (all[ix].to_s - all[ix].from_s)).sum::<f64>()
            };
            let used = slot_time(&|ix| all[ix].used.iter().flatten().sum());
            let capacity = slot_time(&|ix| all[ix].slots.iter().sum());
            assert!((used / capacity - figures.utilisation.unwrap()).abs() < 1e-6, "{policy}");
        }
    }

    #[test]
    fn a_page_is_self_contained_and_escapes_names() {
        let (mut first, mut groups) = run("fcs", 7);
        let (second, _) = run("fcs", 8);
        groups[0] = "<script>alert(1)</script>".into();
        first.summary.killed = 1;
        first.summary.jobs -= 1;
        let facts = [("<dt>".into(), "giveway simulate \"x\" & y".into())];
        let page = html("A <b>title</b>", &facts, &groups, &[first, second]);
        for forbidden in ["<script", "http", "url(", "@import", "<b>title", "NaN", "inf s"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        assert!(page.contains("A &lt;b&gt;title") && page.contains("giveway simulate &quot;x&quot; &amp; y"));
        assert!(page.contains("fcs, seed 7") && page.contains("fcs, seed 8"));
        assert!(page.contains("of 31 jobs, 1 killed by users."));
        let mut ids: Vec<&str> = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "duplicate ids on the page");
    }

    #[test]
    fn a_page_without_runs_says_so() {
        assert!(html("Empty", &[], &[], &[]).contains("No runs."));
    }

    #[test]
    fn a_ramp_covers_its_full_range() {
        let of = |ix, count| on_ramp(&RAMP_LIGHT, ix, count);
        assert_eq!([of(0, 3), of(1, 3), of(2, 3)], ["#ffd75f", "#d7415f", "#232869"]);
        assert_eq!(of(0, 1), "#ffd75f");
    }
}
