//! Figures as tables, one row for each policy, and mean completion as bars.
//!
//! The best figure of a column is set in bold type, and read out as the best. Columns in which more is neither better nor worse
//! have no best: a pause costs little and keeps everything, and slots may be busy with work that is lost again.

use super::text::{self, escape};
use giveway_sim::metrics::KeyMetrics;

/// A row: what it is called and its figures.
pub(super) type Row<'a> = (&'a str, &'a KeyMetrics);

struct Column {
    name: &'static str,
    about: &'static str,
    of: fn(&KeyMetrics) -> Option<f64>,
    show: fn(f64) -> String,
    best: Best,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Best {
    Least,
    Most,
    None,
}

const COLUMNS: [Column; 14] = [
    Column {
        name: "Mean completion",
        about: "From submission to success, averaged over the jobs that succeeded.",
        of: |figures| figures.mean_completion_s,
        show: text::span,
        best: Best::Least,
    },
    Column {
        name: "Lower bound",
        about: "No scheduler could have had a lower mean completion.",
        of: |figures| figures.lower_bound_mean_completion_s,
        show: text::span,
        best: Best::None,
    },
    Column {
        name: "Times bound",
        about: "Mean completion over its lower bound: 1 would be perfect, and may be out of reach for everybody.",
        of: |figures| {
            let bound_s = figures.lower_bound_mean_completion_s.filter(|bound_s| *bound_s > 0.0)?;
            Some(figures.mean_completion_s? / bound_s)
        },
        show: text::times,
        best: Best::Least,
    },
    Column {
        name: "p95 completion",
        about: "95 % of the jobs took no longer.",
        of: |figures| figures.p95_completion_s,
        show: text::span,
        best: Best::Least,
    },
    Column {
        name: "Mean wait",
        about: "From submission to the first map.",
        of: |figures| figures.mean_wait_s,
        show: text::span,
        best: Best::Least,
    },
    Column {
        name: "Mean execution",
        about: "From the first map to success.",
        of: |figures| figures.mean_execution_s,
        show: text::span,
        best: Best::Least,
    },
    Column {
        name: "Mean slowdown",
        about: "Execution over execution alone on the cluster, averaged over the jobs.",
        of: |figures| figures.mean_slowdown,
        show: text::times,
        best: Best::Least,
    },
    Column {
        name: "Max slowdown",
        about: "The slowdown of the job that suffered most.",
        of: |figures| figures.max_slowdown,
        show: text::times,
        best: Best::Least,
    },
    Column {
        name: "Locality",
        about: "Part of the map launches on a node that holds the data.",
        of: |figures| figures.locality_node,
        show: text::percent,
        best: Best::Most,
    },
    Column {
        name: "Utilisation",
        about: "Part of all slot time in use, be it for work that counts or for work that was lost again.",
        of: |figures| figures.utilisation,
        show: text::percent,
        best: Best::None,
    },
    Column {
        name: "Pauses",
        about: "How often a reduce paused and kept what it had.",
        of: |figures| Some(figures.pauses as f64),
        show: whole,
        best: Best::None,
    },
    Column {
        name: "Early ends",
        about: "How often a map ended early and kept what it had.",
        of: |figures| Some(figures.early_ends as f64),
        show: whole,
        best: Best::None,
    },
    Column {
        name: "Kills",
        about: "How often an attempt was killed to give way, and its work lost.",
        of: |figures| Some(figures.kills as f64),
        show: whole,
        best: Best::Least,
    },
    Column {
        name: "Lost work",
        about: "Slot time of attempts whose work came to nothing: killed, failed, outrun, or lost with a node.",
        of: |figures| Some(figures.lost_work_s),
        show: text::span,
        best: Best::Least,
    },
];

fn whole(number: f64) -> String {
    text::count(number as u64)
}

/// A table of these rows. A column of which there is no figure at all is left out.
pub(super) fn figures(caption: &str, rows: &[Row]) -> String {
    let known = |column: &&Column| rows.iter().any(|(_, figures)| value(column, figures).is_some());
    let columns: Vec<&Column> = COLUMNS.iter().filter(known).collect();
    let head: String = columns.iter().map(|column| format!("<th scope=\"col\">{}</th>", escape(column.name))).collect();
    let cells: Vec<Vec<String>> = columns.iter().map(|column| cells(column, rows)).collect();
    let body: String = rows
        .iter()
        .enumerate()
        .map(|(row, (name, _))| {
            let cells: String = cells.iter().map(|column| column[row].as_str()).collect();
            format!("<tr><th scope=\"row\">{}</th>{cells}</tr>\n", escape(name))
        })
        .collect();
    let caption = escape(caption);
    // A region that scrolls must be within reach of the keyboard.
    format!(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{caption}\"><table>\
         <caption>{caption}</caption>\n<thead><tr><th scope=\"col\">Policy</th>{head}</tr></thead>\n\
         <tbody>{body}</tbody></table></div>\n"
    )
}

/// What the columns mean.
pub(super) fn meanings() -> String {
    let all: String = COLUMNS
        .iter()
        .map(|column| format!("<dt>{}</dt><dd>{}</dd>", escape(column.name), escape(column.about)))
        .collect();
    format!("<details><summary>What the columns mean</summary><dl class=\"meanings\">{all}</dl></details>\n")
}

fn value(column: &Column, figures: &KeyMetrics) -> Option<f64> {
    (column.of)(figures).filter(|value| value.is_finite())
}

fn cells(column: &Column, rows: &[Row]) -> Vec<String> {
    let values: Vec<Option<f64>> = rows.iter().map(|(_, figures)| value(column, figures)).collect();
    let shown: Vec<Option<String>> = values.iter().map(|value| value.map(column.show)).collect();
    let best = best(&values, &shown, column.best);
    shown
        .into_iter()
        .map(|shown| match shown {
            None => format!("<td>{}</td>", text::NONE),
            Some(shown) if Some(&shown) == best.as_ref() => {
                format!("<td><strong>{shown}</strong><span class=\"unseen\"> (best)</span></td>")
            }
            Some(shown) => format!("<td>{shown}</td>"),
        })
        .collect()
}

/// How the best figure is written, if not all are written alike: whoever reads the same is as good.
fn best(values: &[Option<f64>], shown: &[Option<String>], best: Best) -> Option<String> {
    let all = values.iter().zip(shown).filter_map(|(value, shown)| Some((value.as_ref()?, shown.as_ref()?)));
    let (_, first) = match best {
        Best::Least => all.clone().min_by(|a, b| a.0.total_cmp(b.0)),
        Best::Most => all.clone().max_by(|a, b| a.0.total_cmp(b.0)),
        Best::None => None,
    }?;
    all.clone().any(|(_, shown)| shown != first).then(|| first.clone())
}

/// Mean completion as bars, with a line at the lower bound if there is one.
pub(super) fn bars(caption: &str, rows: &[Row]) -> String {
    let mean_s = |figures: &KeyMetrics| figures.mean_completion_s.filter(|mean_s| mean_s.is_finite());
    let values: Vec<Option<f64>> = rows.iter().map(|(_, figures)| mean_s(figures)).collect();
    let shown: Vec<Option<String>> = values.iter().map(|value| value.map(text::span)).collect();
    let best = best(&values, &shown, Best::Least);
    let most_s = values.iter().flatten().copied().fold(0.0, f64::max);
    let part = |value_s: f64| if most_s > 0.0 { value_s / most_s * 100.0 } else { 0.0 };
    let body: String = rows
        .iter()
        .zip(values.iter().zip(&shown))
        .enumerate()
        .map(|(policy, ((name, figures), (value, shown)))| {
            let width = part(value.unwrap_or(0.0));
            let bound = figures.lower_bound_mean_completion_s.map_or_else(String::new, |bound_s| {
                format!("<i class=\"bound\" style=\"left:{:.1}%\"></i>", part(bound_s).min(100.0))
            });
            let colour = policy % super::curves::COLOURS;
            let shown = shown.as_deref().unwrap_or(text::NONE);
            let shown = if best.as_deref() == Some(shown) {
                format!("<strong>{shown}</strong><span class=\"unseen\"> (best)</span>")
            } else {
                shown.into()
            };
            format!(
                "<tr><th scope=\"row\">{}</th><td aria-hidden=\"true\"><div class=\"track\">\
                 <i class=\"bar\" style=\"width:{width:.1}%;background:var(--c{colour})\"></i>{bound}</div></td>\
                 <td>{shown}</td></tr>\n",
                escape(name)
            )
        })
        .collect();
    format!(
        "<table class=\"bars\"><caption>{}</caption>\n<thead class=\"unseen\"><tr><th scope=\"col\">Policy</th>\
         <td aria-hidden=\"true\"></td><th scope=\"col\">Mean completion</th></tr></thead>\n<tbody>{body}</tbody></table>\n",
        escape(caption)
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn mean(mean_completion_s: Option<f64>) -> KeyMetrics {
        KeyMetrics {
            mean_completion_s,
            p50_completion_s: None,
            p95_completion_s: None,
            p99_completion_s: None,
            mean_wait_s: None,
            mean_execution_s: None,
            mean_slowdown: None,
            max_slowdown: None,
            lower_bound_mean_completion_s: None,
            locality_node: None,
            lost_work_s: 0.0,
            pauses: 0,
            kills: 0,
            early_ends: 0,
            utilisation: None,
        }
    }

    #[test]
    fn the_best_is_marked_in_words_and_ties_share_it() {
        let all = [mean(Some(250.2)), mean(Some(249.9)), mean(Some(300.0)), mean(None)];
        let rows: Vec<Row> = ["a", "b", "c", "d"].into_iter().zip(&all).collect();
        let table = figures("All", &rows);
        let best = "<strong>4 m 10 s</strong><span class=\"unseen\"> (best)</span>";
        assert_eq!(table.matches(best).count(), 2, "{table}");
        assert!(table.contains("<td>5 m 00 s</td>") && table.contains("<td>–</td>"), "{table}");
        // Nobody killed anything: nobody is best at it.
        assert_eq!(table.matches("(best)").count(), 2, "{table}");
    }

    #[test]
    fn columns_without_a_figure_are_left_out() {
        let one = mean(Some(1.0));
        let table = figures("All", &[("a", &one)]);
        assert!(!table.contains("Lower bound") && !table.contains("slowdown") && table.contains("Pauses"), "{table}");
    }

    #[test]
    fn bars_are_as_long_as_their_figures() {
        let all = [mean(Some(50.0)), mean(Some(100.0)), mean(None)];
        let rows: Vec<Row> = ["<a>", "b", "c"].into_iter().zip(&all).collect();
        let table = bars("All", &rows);
        assert!(
            table.contains("width:50.0%") && table.contains("width:100.0%") && table.contains("width:0.0%"),
            "{table}"
        );
        assert!(table.contains("&lt;a&gt;") && !table.contains("<a>"), "{table}");
    }
}
