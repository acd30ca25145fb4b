//! Formats studies: tables for the terminal, a Markdown page per paper with its SVG figures, and one HTML page.

use super::figures::{SvgFigure, render};
use super::forecast::ForecastReport;
use super::study::{SensitivityTable, Study};
use super::verdict::{Direction, DirectionVerdict, Headline, VERDICT_RULE, Verdict, directions_summary};
use crate::files;
use crate::report::text::escape;
use anyhow::{Context, Result};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{ContentArrangement, Table};
use std::fs;
use std::path::Path;

/// Text for the terminal: the headlines as a table, and the directions that do not hold.
pub fn terminal(study: &Study) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    if table.width().is_none() {
        table.set_width(150);
    }
    table.set_header(["claim", "paper", "ours", "verdict"]);
    for headline in &study.headlines {
        let claim = format!("{} ({})", headline.claim, headline.section);
        table.add_row([claim, paper_figure(headline), our_figure(headline), headline.verdict.name().into()]);
    }
    let mut text = format!("{}\n{table}\n", study.title);
    text += &format!("{}.\n", directions_summary(&study.directions));
    for direction in failing(study) {
        text += &format!("  does not hold: {}\n", direction.failure());
    }
    text
}

/// Subfolder of the report for the figures.
const FIGURES: &str = "figures";

/// Creates the report's folder and checks that pages can be written to it.
pub fn create_folder(folder: &Path) -> Result<()> {
    let figures = folder.join(FIGURES);
    fs::create_dir_all(&figures).with_context(|| format!("cannot create folder {}", figures.display()))?;
    files::check_writable([folder.join("README.md").as_path()])
}

/// Writes a page per paper, an overview page, an HTML page and all figures.
pub fn write(folder: &Path, studies: &[Study], forecast: Option<&ForecastReport>, command: &str) -> Result<()> {
    let figures = folder.join(FIGURES);
    let mut overview = overview(studies, forecast, command);
    let mut html = String::new();
    for study in studies {
        let rendered: Vec<Vec<SvgFigure>> = study.figures.iter().map(render).collect();
        for svg in rendered.iter().flatten() {
            files::write(&figures.join(&svg.file_name), &svg.svg)?;
        }
        files::write(&folder.join(format!("{}.md", study.paper)), &markdown_page(study, &rendered, command))?;
        html += &html_section(study, &rendered);
    }
    if let Some(forecast) = forecast {
        for svg in forecast.figures() {
            files::write(&figures.join(&svg.file_name), &svg.svg)?;
        }
        files::write(&folder.join("engine.md"), &forecast.page(command))?;
        overview += &format!("\n{}\n", forecast.summary());
    }
    let written = |name: &str| ["README", "engine"].contains(&name) || studies.iter().any(|study| study.paper == name);
    overview += &other_pages(folder, written);
    files::write(&folder.join("README.md"), &overview)?;
    files::write(&folder.join("index.html"), &html_page(studies, &html, command))
}

/// Links to the pages of a folder that this report did not write.
fn other_pages(folder: &Path, is_written: impl Fn(&str) -> bool) -> String {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut pages: Vec<String> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .filter_map(|path| {
            let name = path.file_stem()?.to_str().filter(|name| !is_written(name))?;
            let text = fs::read_to_string(&path).ok()?;
            let title = text.lines().next()?.strip_prefix("# ")?;
            Some(format!("- [{title}]({name}.md)\n"))
        })
        .collect();
    if pages.is_empty() {
        return String::new();
    }
    pages.sort();
    format!("\n## Other pages\n\n{}", pages.concat())
}

fn paper_figure(headline: &Headline) -> String {
    headline.unit.show(headline.paper)
}

fn our_figure(headline: &Headline) -> String {
    headline.unit.show_estimate(headline.ours)
}

/// The directions that do not hold.
fn failing(study: &Study) -> impl Iterator<Item = &Direction> {
    study.directions.iter().filter(|direction| direction.verdict() == DirectionVerdict::Fails)
}

fn overview(studies: &[Study], forecast: Option<&ForecastReport>, command: &str) -> String {
    let names = Verdict::ALL.map(Verdict::name).join(" | ");
    let mut text =
        format!("# Reproduction of published results\n\n| paper | {names} | directions |\n|---|---|---|---|---|---|\n");
    for study in studies {
        let counts = Verdict::ALL.map(|verdict| count(study, verdict).to_string()).join(" | ");
        let directions = directions_summary(&study.directions);
        text += &format!("| [{}]({}.md) | {counts} | {directions} |\n", study.title, study.paper);
    }
    text += &format!("\nGenerated by `{command}`. {VERDICT_RULE}\n");
    let not_confirmed: String = studies
        .iter()
        .flat_map(|study| study.headlines.iter().map(move |headline| (study, headline)))
        .filter(|(_, headline)| headline.verdict == Verdict::NotConfirmed)
        .map(|(study, headline)| {
            format!(
                "- [{}]({}.md): {} ({}): paper {}, ours {}. {}\n",
                study.paper,
                study.paper,
                headline.claim,
                headline.section,
                paper_figure(headline),
                our_figure(headline),
                headline.reason
            )
        })
        .collect();
    if !not_confirmed.is_empty() {
        text += &format!("\n## Not confirmed\n\n{not_confirmed}");
    }
    let failing: Vec<String> =
        studies.iter().flat_map(failing).map(|direction| format!("- {}\n", direction.failure())).collect();
    if !failing.is_empty() {
        text += &format!(
            "\n## Directions that fail\n\nThey follow from the mechanisms but do not hold for at least 19 of 20 seeds.\n\n{}",
            failing.concat()
        );
    }
    if forecast.is_some() {
        text += "\n## Engine\n\nEngine runs compared with the simulator's forecasts: [engine.md](engine.md).\n";
    }
    text
}

/// Number of headlines with this verdict.
fn count(study: &Study, verdict: Verdict) -> usize {
    study.headlines.iter().filter(|headline| headline.verdict == verdict).count()
}

/// The verdicts of a study in one sentence, and links to the sections of its page.
fn summary(study: &Study) -> String {
    let counts: Vec<String> =
        Verdict::ALL.iter().map(|verdict| format!("{} {}", count(study, *verdict), verdict.name())).collect();
    let mut contents = vec!["[headlines](#headlines)", "[directions](#directions)"];
    if !study.tests.is_empty() {
        contents.push("[tests and absolute figures](#tests-and-absolute-figures)");
    }
    if !study.sensitivity.is_empty() {
        contents.push("[sensitivity](#sensitivity)");
    }
    contents.push("[figures](#figures)");
    format!(
        "Of {} headlines: {}. {}.\n\nContents: {}.\n\n",
        study.headlines.len(),
        counts.join("; "),
        directions_summary(&study.directions),
        contents.join(", ")
    )
}

fn markdown_page(study: &Study, rendered: &[Vec<SvgFigure>], command: &str) -> String {
    let mut text = format!("# {}\n\n{}", study.title, summary(study));
    text += &format!(
        "{}\n\nGenerated by `{command}`. Implementation of each mechanism, chosen parameters and deviations: [docs/papers/{}.md](../papers/{}.md).\n\n",
        study.about, study.paper, study.paper
    );
    text += &format!(
        "## Headlines\n\n{VERDICT_RULE}\n\n| claim | paper | ours | verdict | explanation |\n|---|---|---|---|---|\n"
    );
    for headline in &study.headlines {
        text += &format!(
            "| {} ({}) | {} | {} | **{}** | {} |\n",
            headline.claim,
            headline.section,
            paper_figure(headline),
            our_figure(headline),
            headline.verdict.name(),
            headline.reason
        );
    }
    text += "\n## Directions\n\nClaims that follow from the mechanism and should hold for at least 19 of 20 seeds.\n\n| direction | seeds | result |\n|---|---|---|\n";
    for direction in &study.directions {
        let (claim, result) = (&direction.claim, direction.result());
        text += &format!("| {claim} | {} of {} | {result} |\n", direction.seeds_held, direction.seeds);
    }
    if !study.tests.is_empty() {
        text += "\n## Tests and absolute figures\n\nThe experiments again with a suspected cause switched off, or in absolute figures.\n\n";
        text += &study.tests.iter().map(sensitivity_table).collect::<String>();
    }
    if !study.sensitivity.is_empty() {
        text += "\n## Sensitivity\n\nParameters that the paper does not give, changed for all policies. The rest of this page uses the row *as chosen*, or the middle row if there is none of that name.\n\n";
        text += &study.sensitivity.iter().map(sensitivity_table).collect::<String>();
    }
    text += "\n## Figures\n\n";
    for (figure, rendered) in study.figures.iter().zip(rendered) {
        text += &format!("### {} ({})\n\n", figure.title, figure.counterpart);
        for svg in rendered {
            text += &format!("![{}](figures/{})\n\n", svg.title, svg.file_name);
        }
    }
    text.trim_end().to_owned() + "\n"
}

fn sensitivity_table(table: &SensitivityTable) -> String {
    let mut text = format!(
        "| {} | {} |\n|---|{}\n",
        table.parameter,
        table.columns.join(" | "),
        "---|".repeat(table.columns.len())
    );
    for (value, figures) in &table.rows {
        let figures: Vec<String> = figures.iter().map(|figure| table.unit.show_estimate(*figure)).collect();
        text += &format!("| {value} | {} |\n", figures.join(" | "));
    }
    text + "\n"
}

fn html_section(study: &Study, rendered: &[Vec<SvgFigure>]) -> String {
    let mut rows = String::new();
    for headline in &study.headlines {
        rows += &format!(
            "<tr class=\"{:?}\"><td>{} <small>({})</small></td><td class=\"n\">{}</td><td class=\"n\">{}</td><td><b>{}</b></td><td>{}</td></tr>\n",
            headline.verdict,
            escape(&headline.claim),
            escape(headline.section),
            escape(&paper_figure(headline)),
            escape(&our_figure(headline)),
            headline.verdict.name(),
            escape(headline.reason)
        );
    }
    let directions: String = study
        .directions
        .iter()
        .map(|direction| {
            format!(
                "<tr><td>{}</td><td class=\"n\">{} of {}</td><td>{}</td></tr>\n",
                escape(&direction.claim),
                direction.seeds_held,
                direction.seeds,
                escape(&direction.result())
            )
        })
        .collect();
    let figures: String = study
        .figures
        .iter()
        .zip(rendered)
        .flat_map(|(figure, rendered)| {
            rendered.iter().map(|svg| {
                let (file, title, counterpart) = (escape(&svg.file_name), escape(&svg.title), escape(&figure.counterpart));
                format!("<figure><img src=\"figures/{file}\" alt=\"{title}\" loading=\"lazy\"><figcaption>{counterpart}</figcaption></figure>\n")
            })
        })
        .collect();
    format!(
        "<section><h2 id=\"{}\">{}</h2>\n<p>{}</p>\n<div class=\"scroll\"><table><thead><tr><th>claim</th><th>paper</th><th>ours</th><th>verdict</th><th>explanation</th></tr></thead>\
         <tbody>\n{rows}</tbody></table></div>\n<h3>Directions</h3>\n<div class=\"scroll\"><table><tbody>\n{directions}</tbody></table></div>\n\
         <h3>Figures</h3>\n<div class=\"figures\">{figures}</div></section>\n",
        study.paper,
        escape(study.title),
        escape(study.about)
    )
}

const PAGE_STYLE: &str = "\
:root{color-scheme:light dark}
body{margin:0;font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Liberation Sans',sans-serif}
main{max-width:1180px;margin:0 auto;padding:1.5rem 1.25rem 4rem}
h2{margin-top:2.5rem;border-top:1px solid #8886;padding-top:.8rem}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.88rem}
td,th{padding:.3rem .6rem;text-align:left;vertical-align:top;border-bottom:1px solid #8884}
td.n{white-space:nowrap;font-variant-numeric:tabular-nums}
tr.Confirmed b{color:#00855f}tr.DirectionOnly b,tr.Inconclusive b{color:#a87400}tr.NotConfirmed b{color:#d1242f}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,540px),1fr));gap:1rem}
figure{margin:0}img{width:100%;height:auto}figcaption{font-size:.85rem;opacity:.8}
";

/// The first part of the page: verdicts by paper, as links to the papers' sections.
fn html_summary(studies: &[Study]) -> String {
    let header: String = Verdict::ALL.iter().map(|verdict| format!("<th>{}</th>", verdict.name())).collect();
    let rows: String = studies
        .iter()
        .map(|study| {
            let counts: String =
                Verdict::ALL.iter().map(|verdict| format!("<td class=\"n\">{}</td>", count(study, *verdict))).collect();
            format!(
                "<tr><td><a href=\"#{}\">{}</a></td>{counts}<td>{}</td></tr>\n",
                study.paper,
                escape(study.title),
                escape(&directions_summary(&study.directions))
            )
        })
        .collect();
    format!(
        "<div class=\"scroll\"><table><thead><tr><th>paper</th>{header}<th>directions</th></tr></thead><tbody>\n{rows}</tbody></table></div>\n"
    )
}

fn html_page(studies: &[Study], sections: &str, command: &str) -> String {
    let rule = escape(&VERDICT_RULE.replace('*', ""));
    let summary = html_summary(studies);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>Reproduction of published results</title><style>\n{PAGE_STYLE}</style></head><body><main>\n\
         <h1>Reproduction of published results</h1>\n{summary}<p>Generated by <code>{}</code>. {rule}</p>\n{sections}</main></body></html>\n",
        escape(command)
    )
}
