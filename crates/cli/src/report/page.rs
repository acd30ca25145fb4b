//! The page, from head to foot.
//!
//! Which policies the curves show is chosen with plain check boxes and the style alone (`:has`), because the page runs no script;
//! a browser that does not know `:has` shows them all.

use super::curves;
use super::slots::Frame;
use super::tables::{self, Row};
use super::text::{self, escape};
use super::{Run, names};

const STYLE: &str = include_str!("style.css");
/// More curves than this at once are hard to follow: the page then begins with the best and leaves the others to a click.
const CURVES_AT_FIRST: usize = 8;
/// More rows than this in all group tables together, and they begin folded.
const ROWS_AT_FIRST: usize = 60;
/// Colours of the size groups from the smallest to the largest, on light and on dark ground: each is lighter or darker than its
/// neighbours, so the order is seen without telling hues apart.
const RAMP_LIGHT: [[u8; 3]; 5] = [[255, 215, 95], [245, 145, 60], [215, 65, 95], [135, 40, 135], [35, 40, 105]];
const RAMP_DARK: [[u8; 3]; 5] = [[255, 236, 160], [250, 165, 80], [225, 80, 105], [150, 55, 150], [60, 70, 150]];

pub(super) fn html(title: &str, facts: &[(String, String)], groups: &[String], runs: &[Run]) -> String {
    let names = names(runs);
    // Some papers only number their groups, and a number alone means nothing in a heading.
    let numbered = |name: &String| name.starts_with(|first: char| first.is_ascii_digit());
    let groups: Vec<String> =
        groups.iter().map(|name| if numbered(name) { format!("group {name}") } else { name.clone() }).collect();
    let groups = groups.as_slice();
    let head = head(title, groups.len(), runs.len());
    let title = escape(title);
    let sections = if runs.is_empty() {
        "<p>There are no runs to show.</p>\n".into()
    } else {
        [
            headline(&names, runs),
            bars(&names, groups, runs),
            distributions(&names, groups, runs),
            slots(&names, groups, runs),
            by_group(&names, groups, runs),
        ]
        .concat()
    };
    format!("{head}<body><main>\n<h1>{title}</h1>\n{}{sections}</main></body>\n</html>\n", facts_list(facts))
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

/// The style that gives each of so many groups its colour.
pub(crate) fn group_colours(groups: usize) -> String {
    let ramp = |stops| (0..groups).map(|ix| format!("--g{ix}:{};", on_ramp(stops, ix, groups))).collect::<String>();
    let (light, dark) = (ramp(&RAMP_LIGHT), ramp(&RAMP_DARK));
    format!(":root{{{light}}}\n@media (prefers-color-scheme: dark){{:root{{{dark}}}}}\n")
}

/// The colour at a place on a ramp.
fn on_ramp(stops: &[[u8; 3]; 5], ix: usize, count: usize) -> String {
    let place = ix as f64 / (count.max(2) - 1) as f64 * (stops.len() - 1) as f64;
    let below = (place as usize).min(stops.len() - 2);
    let mixed: [u8; 3] = std::array::from_fn(|channel| {
        let (from, to) = (f64::from(stops[below][channel]), f64::from(stops[below + 1][channel]));
        (from + (to - from) * (place - below as f64)).round() as u8
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

fn headline(names: &[String], runs: &[Run]) -> String {
    let rows: Vec<Row> =
        names.iter().map(String::as_str).zip(runs.iter().map(|run| &run.summary.key_metrics)).collect();
    let best = if runs.len() > 1 { " Bold is best in its column." } else { "" };
    format!(
        "<section aria-labelledby=\"policies\"><h2 id=\"policies\">Policies</h2>\n{}{}{}{}</section>\n",
        verdict(names, runs),
        tables::figures(&format!("All jobs.{best}"), &rows),
        absent(names, runs),
        tables::meanings(),
    )
}

/// The outcome in a sentence.
fn verdict(names: &[String], runs: &[Run]) -> String {
    let mut means: Vec<(f64, &String, &Run)> = names
        .iter()
        .zip(runs)
        .filter_map(|(name, run)| Some((run.summary.key_metrics.mean_completion_s?, name, run)))
        .collect();
    means.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (Some((least_s, name, run)), Some((most_s, last, _))) = (means.first(), means.last()) else {
        return "<p>No job succeeded.</p>\n".into();
    };
    let bound = run.summary.key_metrics.lower_bound_mean_completion_s.filter(|bound_s| *bound_s > 0.0);
    let bound = bound.map_or_else(String::new, |bound_s| {
        format!(", {} times the bound that no scheduler can beat", text::times(least_s / bound_s))
    });
    let equal = means.iter().filter(|(mean_s, ..)| text::span(*mean_s) == text::span(*least_s)).count() - 1;
    let has = if equal > 0 { format!(" and {equal} more have") } else { " has".into() };
    let span = |seconds: f64| text::span(seconds).replace(' ', "&nbsp;");
    let (name, last) = (escape(name), escape(last));
    if means.len() == 1 {
        return format!("<p class=\"verdict\"><b>{name}</b>: mean completion {}{bound}.</p>\n", span(*least_s));
    }
    let (least, most) = (span(*least_s), span(*most_s));
    let highest = if least == most { String::new() } else { format!(" The highest is {most} under <b>{last}</b>.") };
    format!("<p class=\"verdict\"><b>{name}</b>{has} the lowest mean completion: {least}{bound}.{highest}</p>\n")
}

/// Jobs that are not in the figures: a policy that fails the slow ones must not look quick.
fn absent(names: &[String], runs: &[Run]) -> String {
    let all: String = names
        .iter()
        .zip(runs)
        .filter(|(_, run)| run.summary.jobs < run.summary.submitted)
        .map(|(name, run)| {
            let summary = &run.summary;
            let live = summary.submitted.saturating_sub(summary.jobs + summary.killed + summary.failed);
            let reasons = [(summary.killed, "killed by users"), (summary.failed, "failed"), (live, "not over")];
            let reasons = reasons.iter().filter(|(count, _)| *count > 0);
            let reasons: Vec<String> = reasons.map(|(jobs, what)| format!("{} {what}", text::count(*jobs))).collect();
            format!(
                "<li><b>{}</b>: of {} jobs, {}.</li>",
                escape(name),
                text::count(summary.submitted),
                reasons.join(", ")
            )
        })
        .collect();
    if all.is_empty() { all } else { format!("<p>Jobs that are not in these figures:</p><ul>{all}</ul>\n") }
}

/// The rows of a group, and how many jobs it has, if that is the same in every run.
fn group_rows<'a>(names: &'a [String], runs: &'a [Run], group: usize) -> (Vec<Row<'a>>, Option<u64>) {
    let figures = runs.iter().filter_map(|run| run.summary.groups.get(group).map(|(_, figures)| figures));
    let mut jobs: Vec<u64> = figures.clone().map(|figures| figures.jobs).collect();
    jobs.dedup();
    let rows = names.iter().map(String::as_str).zip(figures.map(|figures| &figures.key_metrics)).collect();
    (rows, if jobs.len() == 1 { jobs.pop() } else { None })
}

fn with_jobs(name: &str, jobs: Option<u64>) -> String {
    match jobs {
        Some(1) => format!("{name} (1 job)"),
        Some(jobs) => format!("{name} ({} jobs)", text::count(jobs)),
        None => name.into(),
    }
}

/// The groups that have jobs, if there is more than one.
fn worth_telling<'a>(groups: &'a [String], runs: &'a [Run]) -> impl Iterator<Item = (usize, &'a String)> {
    let has_jobs = |group: usize| runs.iter().any(|run| run.jobs.iter().any(|job| usize::from(job.group) == group));
    groups.iter().enumerate().filter(move |(group, _)| groups.len() > 1 && has_jobs(*group))
}

fn bars(names: &[String], groups: &[String], runs: &[Run]) -> String {
    let rows: Vec<Row> =
        names.iter().map(String::as_str).zip(runs.iter().map(|run| &run.summary.key_metrics)).collect();
    let mut all = tables::bars("All jobs", &rows);
    for (group, name) in worth_telling(groups, runs) {
        let (rows, jobs) = group_rows(names, runs, group);
        all += &tables::bars(&with_jobs(name, jobs), &rows);
    }
    let bound = runs.iter().any(|run| run.summary.key_metrics.lower_bound_mean_completion_s.is_some());
    let bound = if bound { " The upright line is the lower bound." } else { "" };
    format!(
        "<section aria-labelledby=\"means\"><h2 id=\"means\">Mean completion by size of job</h2>\n\
         <p>Each group has its own scale.{bound}</p>\n<div class=\"cards\">\n{all}</div></section>\n"
    )
}

fn distributions(names: &[String], groups: &[String], runs: &[Run]) -> String {
    let mut all = format!(
        "<h3>All jobs</h3>\n<div class=\"row\">\n{}</div>\n",
        curves::row("all", "all jobs", names, runs, None)
    );
    for (group, name) in worth_telling(groups, runs) {
        let drawn = curves::row(&format!("g{group}"), &format!("{name} jobs"), names, runs, Some(group as u16));
        let (_, jobs) = group_rows(names, runs, group);
        all += &format!("<h3>{}</h3>\n<div class=\"row\">\n{drawn}</div>\n", escape(&with_jobs(name, jobs)));
    }
    format!(
        "<section aria-labelledby=\"curves\"><h2 id=\"curves\">Distributions</h2>\n\
         <p>How many of the jobs took no longer than so long: a line further to the left and higher up is better.</p>\n\
         {}{all}</section>\n",
        chooser(names, runs)
    )
}

/// The legend of the curves, in which policies can be shown and hidden.
fn chooser(names: &[String], runs: &[Run]) -> String {
    let mean_s = |ix: usize| runs[ix].summary.key_metrics.mean_completion_s.unwrap_or(f64::INFINITY);
    let mut ranked: Vec<usize> = (0..runs.len()).collect();
    ranked.sort_by(|a, b| mean_s(*a).total_cmp(&mean_s(*b)));
    // Policies that come to exactly the same (one within another that changes nothing here) would only hide each other.
    ranked.dedup_by(|a, b| mean_s(*a) == mean_s(*b));
    ranked.truncate(CURVES_AT_FIRST);
    let few = runs.len() <= CURVES_AT_FIRST;
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
            "<p>At first the {CURVES_AT_FIRST} policies with the lowest mean completion are shown, \
             one of each that are equal.</p>\n"
        )
    };
    format!("{hint}<fieldset class=\"legend\"><legend>Policies shown</legend>\n{all}</fieldset>\n")
}

/// A sample of a line, for a legend.
fn key(attributes: &str) -> String {
    format!("<svg class=\"key\" viewBox=\"0 0 34 10\" aria-hidden=\"true\"><path {attributes} d=\"M1 5h32\"/></svg>")
}

fn slots(names: &[String], groups: &[String], runs: &[Run]) -> String {
    let frame = Frame::around(runs.iter().map(|run| &run.chart));
    let drawn: String = names
        .iter()
        .zip(runs)
        .enumerate()
        .map(|(ix, (name, run))| {
            let drawn = frame.draw(&format!("slots-{ix}"), name, &run.chart);
            let makespan = text::span(run.summary.makespan_s);
            format!(
                "<figure><figcaption>{} <span>all over after {makespan}</span></figcaption>{drawn}</figure>\n",
                escape(name)
            )
        })
        .collect();
    let keys: String = groups
        .iter()
        .enumerate()
        .map(|(group, name)| format!("<li><i style=\"background:var(--g{group})\"></i>{}</li>", escape(name)))
        .collect();
    let there = format!("<li>{}slots there are</li>", key("class=\"there\""));
    let lost =
        if frame.has_lines() { format!("<li>{}a node is lost</li>", key("class=\"loss\"")) } else { String::new() };
    format!(
        "<section aria-labelledby=\"slots\"><h2 id=\"slots\">Slots over time</h2>\n\
         <p>Slots in use by the size group of their job, from the first submission on. Marks below are attempts that gave \
         way, higher where more did at once. All drawings have one scale.</p>\n\
         <ul class=\"legend\">{keys}{there}{lost}</ul>\n<div class=\"pairs\">\n{drawn}</div></section>\n"
    )
}

fn by_group(names: &[String], groups: &[String], runs: &[Run]) -> String {
    let told: Vec<(usize, &String)> = worth_telling(groups, runs).collect();
    if told.is_empty() {
        return String::new();
    }
    let open = if told.len() * runs.len() <= ROWS_AT_FIRST { " open" } else { "" };
    let all: String = told
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
        "<section aria-labelledby=\"groups\"><h2 id=\"groups\">Figures by size of job</h2>\n\
         <p>Utilisation is the part of all slot time that the group’s own jobs used.</p>\n{all}</section>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::super::Chart;
    use super::super::chart::Marks;
    use super::*;
    use giveway_core::{Kind, policy};
    use giveway_sim::metrics::{Grouping, Metrics};
    use giveway_sim::{Simulation, cluster, workload};

    /// A small experiment of the papers, under a policy of this name.
    fn run(policy: &str, seed: u64) -> (Run, Vec<String>) {
        let workload = workload::by_name("hsrtf-table2", seed).unwrap();
        let cluster = cluster::by_name("hsrtf").unwrap();
        let by_job: Vec<u16> = workload.jobs.iter().map(|job| job.group).collect();
        let grouping = Grouping::listed(workload.groups.clone(), by_job.clone());
        let mut metrics = Metrics::new(&workload.tenants, grouping, vec![]);
        let mut chart = Chart::new(move |job| by_job[job.id.0 as usize], workload.groups.len());
        let rules = policy::catalog::by_name(policy).unwrap();
        Simulation::new(&cluster, &workload, rules, seed).unwrap().run(&mut (&mut metrics, &mut chart));
        let (summary, jobs) = (metrics.summary(policy, seed, Some(60.0)), metrics.jobs().to_vec());
        (Run { summary, jobs, chart }, workload.groups)
    }

    /// The metrics count the same things in their own way.
    #[test]
    fn chart_and_figures_agree() {
        for policy in ["fcs", "hsrtf-prp", "hsrtf-pup-pause"] {
            let (run, _) = run(policy, 7);
            let figures = &run.summary.key_metrics;
            let all: Vec<_> = run.chart.stretches().collect();
            let marks = |count: fn(&Marks) -> u32, kind: Kind| -> u64 {
                all.iter().map(|stretch| u64::from(count(&stretch.marks[kind.ix()]))).sum()
            };
            assert_eq!(marks(|marks| marks.kept, Kind::Map), figures.early_ends, "{policy}");
            assert_eq!(marks(|marks| marks.kept, Kind::Reduce), figures.pauses, "{policy}");
            let kills: u64 = Kind::BOTH.iter().map(|kind| marks(|marks| marks.killed, *kind)).sum();
            assert_eq!(kills, figures.kills, "{policy}");
            let slot_time = |of: &dyn Fn(usize) -> f64| {
                (0..all.len()).map(|ix| of(ix) * (all[ix].to_s - all[ix].from_s)).sum::<f64>()
            };
            let held = slot_time(&|ix| all[ix].held.iter().flatten().sum());
            let there = slot_time(&|ix| all[ix].slots.iter().sum());
            assert!((held / there - figures.utilisation.unwrap()).abs() < 1e-6, "{policy}");
        }
    }

    #[test]
    fn a_page_stands_alone_and_runs_nothing() {
        let (mut first, mut groups) = run("fcs", 7);
        let (second, _) = run("fcs", 8);
        groups[0] = "<script>alert(1)</script>".into();
        first.summary.killed = 1;
        first.summary.jobs -= 1;
        let facts = [("<dt>".into(), "giveway simulate \"x\" & y".into())];
        let page = html("A <b>title</b>", &facts, &groups, &[first, second]);
        for none in ["<script", "http", "url(", "@import", "<b>title", "NaN", "inf s"] {
            assert!(!page.contains(none), "{none}");
        }
        assert!(page.contains("A &lt;b&gt;title") && page.contains("giveway simulate &quot;x&quot; &amp; y"));
        assert!(page.contains("fcs, seed 7") && page.contains("fcs, seed 8"));
        assert!(page.contains("of 31 jobs, 1 killed by users."));
        let mut ids: Vec<&str> = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "two things on the page have one id");
    }

    #[test]
    fn a_page_without_runs_says_so() {
        assert!(html("Empty", &[], &[], &[]).contains("There are no runs to show."));
    }

    #[test]
    fn a_ramp_goes_from_end_to_end() {
        let of = |ix, count| on_ramp(&RAMP_LIGHT, ix, count);
        assert_eq!([of(0, 3), of(1, 3), of(2, 3)], ["#ffd75f", "#d7415f", "#232869"]);
        assert_eq!(of(0, 1), "#ffd75f");
    }
}
