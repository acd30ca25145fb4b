//! Studies for people: tables on the terminal, pages in Markdown with their figures beside them, and one page in HTML.

use super::draw::{Drawing, draw};
use super::forecast::Forecast;
use super::study::{Direction, Headline, Sensitivity, Study, Verdict};
use crate::files;
use crate::report::text::escape;
use anyhow::{Context, Result};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{ContentArrangement, Table};
use std::fs;
use std::path::Path;

/// What a full run prints: a table of headlines, and what should have held and did not.
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
    let (holding, failing): (Vec<&Direction>, Vec<&Direction>) = study.directions.iter().partition(|d| d.holds());
    text += &format!("{} of {} directions hold for at least 19 of 20 seeds.\n", holding.len(), study.directions.len());
    for direction in failing {
        text += &format!("  does not hold: {}\n", direction.failing());
    }
    text
}

/// Where the figures are, in the report's folder.
const FIGURES: &str = "figures";

/// Makes the folder of a report, and finds out whether pages can be written there.
pub fn make_folder(folder: &Path) -> Result<()> {
    let figures = folder.join(FIGURES);
    fs::create_dir_all(&figures).with_context(|| format!("cannot make the folder {}", figures.display()))?;
    files::check_writable([folder.join("README.md").as_path()])
}

/// Writes a page for each paper, a page that leads to them, and every figure.
pub fn write(folder: &Path, studies: &[Study], forecast: Option<&Forecast>, command: &str) -> Result<()> {
    let figures = folder.join(FIGURES);
    let mut index = front(studies, forecast, command);
    let mut html = String::new();
    for study in studies {
        let drawings: Vec<Vec<Drawing>> = study.figures.iter().map(draw).collect();
        for drawing in drawings.iter().flatten() {
            files::write(&figures.join(&drawing.file), &drawing.svg)?;
        }
        files::write(&folder.join(format!("{}.md", study.paper)), &page(study, &drawings, command))?;
        html += &section(study, &drawings);
    }
    if let Some(forecast) = forecast {
        for drawing in forecast.drawings() {
            files::write(&figures.join(&drawing.file), &drawing.svg)?;
        }
        files::write(&folder.join("engine.md"), &forecast.page(command))?;
        index += &format!("\n{}\n", forecast.summary());
    }
    files::write(&folder.join("README.md"), &index)?;
    files::write(&folder.join("index.html"), &whole_page(&html, command))
}

fn paper_figure(headline: &Headline) -> String {
    headline.unit.show(headline.paper)
}

fn our_figure(headline: &Headline) -> String {
    headline.unit.show_estimate(headline.ours)
}

const RULE: &str = "Ours is the mean over all seeds of what each gives, with its 95 % interval; points of curves and tables of other choices rest on half of the seeds. A change is *confirmed* if ours goes the same way with its whole 95 % interval and is at least half and at most twice the paper's; \
*direction only* if it goes the same way but is smaller or larger than that; *not confirmed* otherwise. A level is confirmed if it is at least half and \
at most twice the paper's; what should hardly change, if it stays within the limit that its row names.";

fn front(studies: &[Study], forecast: Option<&Forecast>, command: &str) -> String {
    let mut text = format!("# What the papers found, and what we found\n\nMade by `{command}`. {RULE}\n\n");
    text += "| paper | confirmed | direction only | not confirmed | directions that hold for 19 of 20 seeds |\n|---|---|---|---|---|\n";
    for study in studies {
        let count = |verdict| study.headlines.iter().filter(|headline| headline.verdict == verdict).count();
        let holding = study.directions.iter().filter(|direction| direction.holds()).count();
        text += &format!(
            "| [{}]({}.md) | {} | {} | {} | {holding} of {} |\n",
            study.title,
            study.paper,
            count(Verdict::Confirmed),
            count(Verdict::DirectionOnly),
            count(Verdict::NotConfirmed),
            study.directions.len()
        );
    }
    let failing: Vec<String> = studies
        .iter()
        .flat_map(|study| &study.directions)
        .filter(|direction| !direction.holds())
        .map(|direction| format!("- {}\n", direction.failing()))
        .collect();
    if !failing.is_empty() {
        text += &format!("\nWhat should follow from the mechanisms and does not hold:\n\n{}", failing.concat());
    }
    if forecast.is_some() {
        text += "\nReal runs beside what the simulator forecast for them: [engine.md](engine.md).\n";
    }
    text
}

fn page(study: &Study, drawings: &[Vec<Drawing>], command: &str) -> String {
    let mut text = format!(
        "# {}\n\n{}\n\nMade by `{command}`; how each mechanism is built and which parameters were chosen: [docs/papers/{}.md](../papers/{}.md).\n\n",
        study.title, study.about, study.paper, study.paper
    );
    text += &format!("## Headlines\n\n{RULE}\n\n| claim | paper | ours | verdict | why |\n|---|---|---|---|---|\n");
    for headline in &study.headlines {
        text += &format!(
            "| {} ({}) | {} | {} | **{}** | {} |\n",
            headline.claim,
            headline.section,
            paper_figure(headline),
            our_figure(headline),
            headline.verdict.name(),
            headline.why
        );
    }
    text += "\n## Directions\n\nWhat follows from the mechanism should hold for at least 19 of 20 seeds.\n\n| direction | seeds | |\n|---|---|---|\n";
    for direction in &study.directions {
        let holds = if direction.holds() { "holds".into() } else { format!("**does not hold.** {}", direction.unless) };
        text += &format!("| {} | {} of {} | {holds} |\n", direction.claim, direction.held, direction.of);
    }
    if !study.sensitivity.is_empty() {
        text += "\n## What if we had chosen otherwise?\n\nParameters the paper leaves out, changed for every scheduler alike. The row *as chosen*, or the middle one where none is called so, is what the rest of this page uses.\n\n";
        text += &study.sensitivity.iter().map(sensitivity).collect::<String>();
    }
    text += "\n## Figures\n\n";
    for (figure, drawings) in study.figures.iter().zip(drawings) {
        text += &format!("### {} ({})\n\n", figure.title, figure.answers);
        for drawing in drawings {
            text += &format!("![{}](figures/{})\n\n", drawing.title, drawing.file);
        }
    }
    text.trim_end().to_owned() + "\n"
}

fn sensitivity(table: &Sensitivity) -> String {
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

fn section(study: &Study, drawings: &[Vec<Drawing>]) -> String {
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
            escape(headline.why)
        );
    }
    let directions: String = study
        .directions
        .iter()
        .map(|direction| {
            let holds = if direction.holds() {
                "holds".into()
            } else {
                format!("<b>does not hold.</b> {}", escape(direction.unless))
            };
            format!(
                "<tr><td>{}</td><td class=\"n\">{} of {}</td><td>{holds}</td></tr>\n",
                escape(&direction.claim),
                direction.held,
                direction.of
            )
        })
        .collect();
    let figures: String = study
        .figures
        .iter()
        .zip(drawings)
        .flat_map(|(figure, drawings)| {
            drawings.iter().map(|drawing| {
                let (file, title, answers) = (escape(&drawing.file), escape(&drawing.title), escape(&figure.answers));
                format!("<figure><img src=\"figures/{file}\" alt=\"{title}\" loading=\"lazy\"><figcaption>{answers}</figcaption></figure>\n")
            })
        })
        .collect();
    format!(
        "<section><h2 id=\"{}\">{}</h2>\n<p>{}</p>\n<div class=\"scroll\"><table><thead><tr><th>claim</th><th>paper</th><th>ours</th><th>verdict</th><th>why</th></tr></thead>\
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
tr.Confirmed b{color:#00855f}tr.DirectionOnly b{color:#a87400}tr.NotConfirmed b{color:#d1242f}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,540px),1fr));gap:1rem}
figure{margin:0}img{width:100%;height:auto}figcaption{font-size:.85rem;opacity:.8}
";

fn whole_page(sections: &str, command: &str) -> String {
    let rule = escape(&RULE.replace('*', ""));
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>What the papers found, and what we found</title><style>\n{PAGE_STYLE}</style></head><body><main>\n\
         <h1>What the papers found, and what we found</h1>\n<p>Made by <code>{}</code>. {rule}</p>\n{sections}</main></body></html>\n",
        escape(command)
    )
}
