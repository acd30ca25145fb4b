//! Formats studies: tables for the terminal, a Markdown page per paper with its SVG figures, and one HTML page.

use super::claims::{Claim, VERDICT_RULE, Verdict};
use super::figures::{SvgFigure, render};
use super::forecast::ForecastReport;
use super::study::{Study, Table};
use crate::files;
use crate::report::text::escape;
use crate::text_table::TextTable;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// Text for the terminal: the claims that have an experiment as a table, and the number of the others.
pub fn terminal(study: &Study) -> String {
    let mut table = TextTable::new(["claim", "paper", "ours", "seeds", "verdict"]);
    for claim in study.claims.iter().filter(|claim| claim.ours.is_some() || claim.verdict == Verdict::Refuted) {
        let [name, paper, ours, seeds, verdict] = cells(claim);
        table.add_row([name, paper, ours, seeds, verdict]);
    }
    format!("{}\n{table}\n{}.\n", study.title, counts(study))
}

/// Claim with its section, the paper's figure, ours, seeds and verdict.
fn cells(claim: &Claim) -> [String; 5] {
    [
        claim.section.as_ref().map_or(claim.claim.clone(), |section| format!("{} ({section})", claim.claim)),
        claim.paper.clone(),
        claim.ours.map_or("-".into(), |ours| claim.unit.show_estimate(ours)),
        claim.seeds.map_or(String::new(), |(held, all)| format!("{held} of {all}")),
        claim.verdict.name().into(),
    ]
}

/// The claims of the paper, or those that it does not make.
fn claims(study: &Study, of_paper: bool) -> impl Iterator<Item = &Claim> {
    study.claims.iter().filter(move |claim| claim.section.is_some() == of_paper)
}

/// Number of the paper's claims with this verdict.
fn count(study: &Study, verdict: Verdict) -> usize {
    claims(study, true).filter(|claim| claim.verdict == verdict).count()
}

/// The verdicts on the paper's claims in one sentence.
fn counts(study: &Study) -> String {
    let counts: Vec<String> =
        Verdict::ALL.iter().map(|verdict| format!("{} {}", count(study, *verdict), verdict.name())).collect();
    format!("Of {} claims: {}", claims(study, true).count(), counts.join(", "))
}

/// Subfolder of the report for the figures.
const FIGURES: &str = "figures";

/// Creates the report's folder and checks that pages can be written to it.
pub fn create_folder(folder: &Path) -> Result<()> {
    let figures = folder.join(FIGURES);
    fs::create_dir_all(&figures).with_context(|| format!("cannot create directory {}", figures.display()))?;
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

fn overview(studies: &[Study], forecast: Option<&ForecastReport>, command: &str) -> String {
    let names = Verdict::ALL.map(Verdict::name).join(" | ");
    let rule = "---|".repeat(Verdict::ALL.len());
    let mut text = format!("# Reproduction of published results\n\n| paper | claims | {names} |\n|---|---|{rule}\n");
    for study in studies {
        let counts = Verdict::ALL.map(|verdict| count(study, verdict).to_string()).join(" | ");
        let claims = claims(study, true).count();
        text += &format!("| [{}]({}.md) | {claims} | {counts} |\n", study.title, study.paper);
    }
    text += &format!("\nGenerated by `{command}`. {VERDICT_RULE}\n");
    for verdict in [Verdict::Refuted, Verdict::NotConfirmed] {
        let rows: String = studies
            .iter()
            .flat_map(|study| claims(study, true).map(move |claim| (study, claim)))
            .filter(|(_, claim)| claim.verdict == verdict)
            .map(|(study, claim)| {
                let [name, paper, ours, ..] = cells(claim);
                format!("| [{0}]({0}.md) | {name} | {paper} | {ours} |\n", study.paper)
            })
            .collect();
        if !rows.is_empty() {
            text += &format!(
                "\n## {}\n\n| page | claim | paper | ours |\n|---|---|---|---|\n{rows}",
                capitalized(verdict.name())
            );
        }
    }
    if forecast.is_some() {
        text += "\n## Engine\n\nEngine runs compared with the simulator's forecasts: [engine.md](engine.md).\n";
    }
    text
}

fn capitalized(text: &str) -> String {
    text[..1].to_uppercase() + &text[1..]
}

fn markdown_page(study: &Study, rendered: &[Vec<SvgFigure>], command: &str) -> String {
    let mut text = format!(
        "# {}\n\n{}.\n\n{}\n\nGenerated by `{command}`. Implementation of each mechanism, chosen parameters and deviations: [docs/papers/{3}.md](../papers/{3}.md).\n\n\
         Contents: [claims](#claims), [our own expectations](#our-own-expectations), [tables](#tables), [figures](#figures).\n\n",
        study.title,
        counts(study),
        study.about,
        study.paper
    );
    let rows = |of_paper: bool| -> String {
        let row = |claim: &Claim| {
            let [name, paper, ours, seeds, verdict] = cells(claim);
            format!("| {name} | {paper} | {ours} | {seeds} | **{verdict}** | {} |\n", claim.explanation)
        };
        claims(study, of_paper).map(row).collect()
    };
    const HEADER: &str = "| claim | paper | ours | seeds | verdict | explanation |\n|---|---|---|---|---|---|\n";
    text += &format!(
        "## Claims\n\nAll quantitative and directional claims of the paper. {VERDICT_RULE} *Seeds*: those for which the direction holds. An explanation that names a test is printed only if this run's figures support it.\n\n{HEADER}{}",
        rows(true)
    );
    text += &format!("\n## Our own expectations\n\nNot in the paper.\n\n{HEADER}{}", rows(false));
    text += "\n## Tables\n\nExperiments again with a suspected cause switched off, in absolute figures, or with another value of a parameter that the paper does not give.\n\n";
    text += &study.tables.iter().map(markdown_table).collect::<String>();
    text += "## Figures\n\n";
    for (figure, rendered) in study.figures.iter().zip(rendered) {
        text += &format!("### {} ({})\n\n", figure.title, figure.counterpart);
        for svg in rendered {
            text += &format!("![{}](figures/{})\n\n", svg.title, svg.file_name);
        }
    }
    text.trim_end().to_owned() + "\n"
}

fn markdown_table(table: &Table) -> String {
    let rule = "---|".repeat(table.columns.len());
    let mut text = format!("| {} | {} |\n|---|{rule}\n", table.title, table.columns.join(" | "));
    for (label, figures) in &table.rows {
        let figures: Vec<String> = figures.iter().map(|figure| table.unit.show_estimate(*figure)).collect();
        text += &format!("| {label} | {} |\n", figures.join(" | "));
    }
    text + "\n"
}

fn html_section(study: &Study, rendered: &[Vec<SvgFigure>]) -> String {
    let row = |claim: &Claim| {
        let [name, paper, ours, seeds, verdict] = cells(claim).map(|cell| escape(&cell).to_string());
        format!(
            "<tr class=\"{:?}\"><td>{name}</td><td class=\"n\">{paper}</td><td class=\"n\">{ours}</td><td class=\"n\">{seeds}</td><td><b>{verdict}</b></td><td>{}</td></tr>\n",
            claim.verdict,
            escape(&claim.explanation)
        )
    };
    let rows: String = study.claims.iter().map(row).collect();
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
        "<section><h2 id=\"{}\">{}</h2>\n<p>{}.</p>\n<p>{}</p>\n<div class=\"scroll\"><table><thead><tr><th>claim</th><th>paper</th><th>ours</th><th>seeds</th><th>verdict</th><th>explanation</th></tr></thead>\
         <tbody>\n{rows}</tbody></table></div>\n<h3>Figures</h3>\n<div class=\"figures\">{figures}</div></section>\n",
        study.paper,
        escape(&study.title),
        counts(study),
        escape(&study.about)
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
tr.Confirmed b{color:#00855f}tr.SameDirection b,tr.Inconclusive b{color:#a87400}tr.NotConfirmed b,tr.Refuted b{color:#d1242f}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,540px),1fr));gap:1rem}
figure{margin:0}img{width:100%;height:auto}figcaption{font-size:.85rem;opacity:.8}
";

/// The first part of the page: verdicts by paper, as links to the papers' sections.
fn html_summary(studies: &[Study]) -> String {
    let item = |study: &Study| {
        format!("<li><a href=\"#{}\">{}</a>: {}.</li>\n", study.paper, escape(&study.title), counts(study))
    };
    format!("<ul>\n{}</ul>\n", studies.iter().map(item).collect::<String>())
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
