//! Tables of metrics with one row per policy, and mean completion times as bars.
//!
//! The best value of a column is bold and labelled for screen readers. Metrics without a preferred direction have no best value: a pause costs little
//! and loses no work, and slots may be busy with work that is later lost.

use super::text::{self, escape};
use giveway_sim::metrics::KeyMetrics;

/// A row: its display name and its metrics.
pub(super) type Row<'a> = (&'a str, &'a KeyMetrics);

struct Column {
    name: &'static str,
    definition: &'static str,
    metric: fn(&KeyMetrics) -> Option<f64>,
    format: fn(f64) -> String,
    best: Best,
}

/// Which value of a column is the best one.

#[derive(Clone, Copy, PartialEq, Eq)]
enum Best {
    Lowest,
    Highest,
    None,
}

/// The columns: name, definition, best value, format, metric.
macro_rules! columns {
    ($($name:literal: $definition:literal, $best:ident, $format:expr, $metric:expr;)*) => {
        &[$(Column { name: $name, definition: $definition, metric: $metric, format: $format, best: Best::$best },)*]
    };
}

const COLUMNS: &[Column] = columns! {
    "Mean completion": "Mean time from submission to success of the jobs that succeeded.",
        Lowest, text::span, |f| f.mean_completion_s;
    "Lower bound": "Lower bound of the mean completion time under any scheduler.",
        None, text::span, |f| f.lower_bound_mean_completion_s;
    "Mean / bound": "Mean completion time divided by its lower bound. 1 is optimal, but may not be achievable.",
        Lowest, text::times, mean_over_bound;
    "p95 completion": "95th percentile of the completion time.",
        Lowest, text::span, |f| f.p95_completion_s;
    "Mean wait": "Mean time from submission to the start of the first map.",
        Lowest, text::span, |f| f.mean_wait_s;
    "Mean execution": "Mean time from the start of the first map to success.",
        Lowest, text::span, |f| f.mean_execution_s;
    "Mean slowdown": "Completion time (wait and execution) divided by the execution time alone on the cluster, mean over the jobs.",
        Lowest, text::times, |f| f.mean_slowdown;
    "Max slowdown": "Highest slowdown of a job.",
        Lowest, text::times, |f| f.max_slowdown;
    "Node-local maps": "Fraction of map launches on a node that holds the input.",
        Highest, text::percent, |f| f.locality_node;
    "Slot utilisation": "Fraction of the slot time in use, including work that was later lost.",
        None, text::percent, |f| f.utilisation;
    "Pauses": "Number of times a reduce was paused; its work is kept.",
        None, whole, |f| Some(f.pauses as f64);
    "Early ends": "Number of times a map was ended early; its finished part is kept.",
        None, whole, |f| Some(f.early_ends as f64);
    "Kills": "Number of attempts killed by preemption; their work is lost.",
        Lowest, whole, |f| Some(f.kills as f64);
    "Lost work": "Slot time of attempts whose work was lost: killed, failed, superseded by another attempt, or on a lost node.",
        None, text::span, |f| Some(f.lost_work_s);
};

fn mean_over_bound(figures: &KeyMetrics) -> Option<f64> {
    let bound_s = figures.lower_bound_mean_completion_s.filter(|bound_s| *bound_s > 0.0)?;
    Some(figures.mean_completion_s? / bound_s)
}

fn whole(number: f64) -> String {
    text::count(number as u64)
}

/// Renders a table. Columns without any value are omitted.
pub(super) fn figures(caption: &str, rows: &[Row]) -> String {
    let has_value = |column: &&Column| rows.iter().any(|(_, figures)| value(column, figures).is_some());
    let columns: Vec<&Column> = COLUMNS.iter().filter(has_value).collect();
    let cells: Vec<Vec<String>> = columns.iter().map(|column| cells(column, rows)).collect();
    let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
    let rows = rows.iter().enumerate().map(|(row, (name, _))| {
        let cells = cells.iter().map(|column| column[row].clone());
        (name.to_string(), cells.collect::<String>())
    });
    scrolled(caption, "Policy", &names, rows)
}

/// A table whose rows have a name and cells, which are HTML.
pub fn scrolled(caption: &str, first: &str, columns: &[&str], rows: impl Iterator<Item = (String, String)>) -> String {
    let head: String = columns.iter().map(|column| format!("<th scope=\"col\">{}</th>", escape(column))).collect();
    let row = |(name, cells): (String, String)| format!("<tr><th scope=\"row\">{}</th>{cells}</tr>\n", escape(&name));
    let (caption, first, body) = (escape(caption), escape(first), rows.map(row).collect::<String>());
    // `tabindex` makes the scrollable region reachable by keyboard.
    format!(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{caption}\"><table>\
         <caption>{caption}</caption>\n<thead><tr><th scope=\"col\">{first}</th>{head}</tr></thead>\n\
         <tbody>{body}</tbody></table></div>\n"
    )
}

pub(super) fn column_definitions() -> String {
    let all: String = COLUMNS
        .iter()
        .map(|column| format!("<dt>{}</dt><dd>{}</dd>", escape(column.name), escape(column.definition)))
        .collect();
    format!("<details><summary>Definitions of the columns</summary><dl class=\"definitions\">{all}</dl></details>\n")
}

fn value(column: &Column, figures: &KeyMetrics) -> Option<f64> {
    (column.metric)(figures).filter(|value| value.is_finite())
}

fn cells(column: &Column, rows: &[Row]) -> Vec<String> {
    let values: Vec<Option<f64>> = rows.iter().map(|(_, figures)| value(column, figures)).collect();
    let texts: Vec<Option<String>> = values.iter().map(|value| value.map(column.format)).collect();
    let best = best(&values, &texts, column.best);
    texts
        .into_iter()
        .map(|text| match text {
            None => format!("<td>{}</td>", text::NONE),
            Some(text) if Some(&text) == best.as_ref() => {
                format!("<td><strong>{text}</strong><span class=\"visually-hidden\"> (best)</span></td>")
            }
            Some(text) => format!("<td>{text}</td>"),
        })
        .collect()
}

/// The formatted best value; `None` if all formatted values are equal. Values with the same formatted text share the best place.
fn best(values: &[Option<f64>], texts: &[Option<String>], best: Best) -> Option<String> {
    let all = values.iter().zip(texts).filter_map(|(value, text)| Some((value.as_ref()?, text.as_ref()?)));
    let (_, first) = match best {
        Best::Lowest => all.clone().min_by(|a, b| a.0.total_cmp(b.0)),
        Best::Highest => all.clone().max_by(|a, b| a.0.total_cmp(b.0)),
        Best::None => None,
    }?;
    all.clone().any(|(_, text)| text != first).then(|| first.clone())
}

/// Renders mean completion times as bars, with a line at the lower bound if it is known.
pub(super) fn bars(caption: &str, rows: &[Row]) -> String {
    let mean_s = |figures: &KeyMetrics| figures.mean_completion_s.filter(|mean_s| mean_s.is_finite());
    let values: Vec<Option<f64>> = rows.iter().map(|(_, figures)| mean_s(figures)).collect();
    let texts: Vec<Option<String>> = values.iter().map(|value| value.map(text::span)).collect();
    let best = best(&values, &texts, Best::Lowest);
    let max_s = values.iter().flatten().copied().fold(0.0, f64::max);
    let percent = |value_s: f64| if max_s > 0.0 { value_s / max_s * 100.0 } else { 0.0 };
    let body: String = rows
        .iter()
        .zip(values.iter().zip(&texts))
        .enumerate()
        .map(|(policy, ((name, figures), (value, text)))| {
            let width = percent(value.unwrap_or(0.0));
            let bound = figures.lower_bound_mean_completion_s.map_or_else(String::new, |bound_s| {
                format!("<i class=\"bound\" style=\"left:{:.1}%\"></i>", percent(bound_s).min(100.0))
            });
            let colour = policy % super::curves::COLOURS;
            let text = text.as_deref().unwrap_or(text::NONE);
            let text = if best.as_deref() == Some(text) {
                format!("<strong>{text}</strong><span class=\"visually-hidden\"> (best)</span>")
            } else {
                text.into()
            };
            format!(
                "<tr><th scope=\"row\">{}</th><td aria-hidden=\"true\"><div class=\"track\">\
                 <i class=\"bar\" style=\"width:{width:.1}%;background:var(--c{colour})\"></i>{bound}</div></td>\
                 <td>{text}</td></tr>\n",
                escape(name)
            )
        })
        .collect();
    format!(
        "<table class=\"bars\"><caption>{}</caption>\n<thead class=\"visually-hidden\"><tr><th scope=\"col\">Policy</th>\
         <td aria-hidden=\"true\"></td><th scope=\"col\">Mean completion time</th></tr></thead>\n<tbody>{body}</tbody></table>\n",
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
    fn ties_share_the_best_mark() {
        let all = [mean(Some(250.2)), mean(Some(249.9)), mean(Some(300.0)), mean(None)];
        let rows: Vec<Row> = ["a", "b", "c", "d"].into_iter().zip(&all).collect();
        let table = figures("All", &rows);
        let best = "<strong>4 min 10 s</strong><span class=\"visually-hidden\"> (best)</span>";
        assert_eq!(table.matches(best).count(), 2, "{table}");
        assert!(table.contains("<td>5 min 00 s</td>") && table.contains("<td>–</td>"), "{table}");
        // All policies have 0 kills, so there is no best value.
        assert_eq!(table.matches("(best)").count(), 2, "{table}");
    }

    #[test]
    fn columns_without_values_are_omitted() {
        let one = mean(Some(1.0));
        let table = figures("All", &[("a", &one)]);
        assert!(!table.contains("Lower bound") && !table.contains("slowdown") && table.contains("Pauses"), "{table}");
    }

    #[test]
    fn bar_lengths_are_proportional_to_the_values() {
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
