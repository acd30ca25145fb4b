//! The file of one paper: its claims, the experiments that answer them, figures and tables.
//!
//! An entry of any list may be a template: `each` gives values to names, and the entry is repeated for each of them with `{name}` replaced. A table
//! of lists means every combination, a list of tables one entry per table. `quick` replaces lists of `each` in a quick run; an entry with
//! `full_run_only` is left out of it.

use super::changes::Changes;
use super::claims::ClaimDef;
use super::experiment::Case;
use super::observation::ObservationOptions;
use super::quantity::Quantity;
use super::study::{FigureDef, TableDef};
use crate::variants::variant;
use anyhow::{Context, Result};
use giveway_core::Policy;
use giveway_core::policy::catalog;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// Content of a paper's file, with all templates expanded.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Short name, also the base name of its page.
    pub paper: String,
    /// Title of its page.
    pub title: String,
    /// What was run and how it was measured, in a few sentences.
    pub about: String,
    /// What a quantity is if an entry does not say otherwise.
    pub defaults: Quantity,
    #[serde(default)]
    policy: Vec<PolicyDef>,
    case: Vec<CaseDef>,
    pub claim: Vec<ClaimDef>,
    pub figure: Vec<FigureDef>,
    pub table: Vec<TableDef>,
}

/// A policy of the catalogue with settings changed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyDef {
    name: String,
    base: String,
    set: BTreeMap<String, Value>,
}

/// A workload on a cluster under several policies.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseDef {
    name: String,
    workload: String,
    /// The workload's default cluster if absent.
    cluster: Option<String>,
    policies: Vec<String>,
    #[serde(default)]
    seeds: Seeds,
    #[serde(default)]
    observe: ObservationOptions,
    #[serde(default)]
    change: Changes,
}

/// How many of the seeds a case runs with.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Seeds {
    #[default]
    All,
    Half,
    Quarter,
    /// At least 30, unless fewer than 20 were asked for.
    Thirty,
}

impl Seeds {
    fn count(self, seeds: u32) -> u32 {
        match self {
            Seeds::All => seeds,
            Seeds::Half => seeds.div_ceil(2),
            Seeds::Quarter => seeds.div_ceil(4),
            Seeds::Thirty if seeds < 20 => seeds,
            Seeds::Thirty => seeds.max(30),
        }
    }
}

impl Paper {
    /// Reads a paper's file.
    pub fn read(text: &str, quick: bool) -> Result<Paper> {
        let table: Table = text.parse()?;
        Ok(expanded(Value::Table(table), quick)?.try_into()?)
    }

    /// The cases to run. Points of curves and rows of tables may have fewer seeds than these.
    pub fn cases(&self, seeds: u32) -> Result<Vec<Case>> {
        let case = |def: &CaseDef| -> Result<Case> {
            let policies = def.policies.iter().map(|name| self.policy(name)).collect::<Result<_>>()?;
            Ok(Case {
                name: def.name.clone(),
                workload: def.workload.clone(),
                cluster: def.cluster.clone(),
                changes: def.change.clone(),
                policies,
                seeds: def.seeds.count(seeds),
                observation: def.observe,
            })
        };
        let named = |def: &CaseDef| case(def).with_context(|| format!("{}, case `{}`", self.paper, def.name));
        self.case.iter().map(named).collect()
    }

    fn policy(&self, name: &str) -> Result<Policy> {
        if let Some(def) = self.policy.iter().find(|def| def.name == name) {
            let settings: Vec<(&str, Value)> =
                def.set.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
            return variant(&def.base, &def.name, &settings);
        }
        catalog::by_name(name).with_context(|| format!("no policy `{name}` in the catalogue or the file"))
    }
}

/// Values of the names of a template.
type Binding = Vec<(String, Value)>;

/// The value with all templates expanded, at any depth.
fn expanded(value: Value, quick: bool) -> Result<Value> {
    Ok(match value {
        Value::Table(table) => {
            let entries = table.into_iter().map(|(key, value)| Ok((key, expanded(value, quick)?)));
            Value::Table(entries.collect::<Result<_>>()?)
        }
        Value::Array(entries) => {
            let mut all = Vec::new();
            for entry in entries {
                for entry in repeated(entry, quick)? {
                    all.push(expanded(entry, quick)?);
                }
            }
            Value::Array(all)
        }
        other => other,
    })
}

/// The entries that a list's entry stands for.
fn repeated(mut entry: Value, quick: bool) -> Result<Vec<Value>> {
    let Value::Table(table) = &mut entry else { return Ok(vec![entry]) };
    let full_run_only = table.remove("full_run_only").is_some_and(|value| value.as_bool() == Some(true));
    let (each, quick_lists) = (table.remove("each"), table.remove("quick"));
    if full_run_only && quick {
        return Ok(Vec::new());
    }
    let bindings = match each {
        None => return Ok(vec![entry]),
        Some(Value::Array(tables)) => tables
            .into_iter()
            .map(|table| Ok(table.try_into::<Table>()?.into_iter().collect()))
            .collect::<Result<_>>()?,
        Some(lists) => {
            let mut lists: BTreeMap<String, Vec<Value>> = lists.try_into()?;
            if let (true, Some(quick_lists)) = (quick, quick_lists) {
                lists.extend(quick_lists.try_into::<BTreeMap<String, Vec<Value>>>()?);
            }
            combinations(lists)
        }
    };
    Ok(bindings.iter().map(|binding| substituted(&entry, binding)).collect())
}

fn combinations(lists: BTreeMap<String, Vec<Value>>) -> Vec<Binding> {
    lists.into_iter().fold(vec![Binding::new()], |bindings, (name, values)| {
        let with = |binding: &Binding, value: &Value| {
            binding.iter().cloned().chain([(name.clone(), value.clone())]).collect::<Binding>()
        };
        bindings
            .iter()
            .flat_map(|binding| values.iter().map(move |value| (binding, value)))
            .map(|(binding, value)| with(binding, value))
            .collect()
    })
}

/// The value with the names of a binding replaced. A text that is nothing but a name becomes the name's value, of any type.
fn substituted(value: &Value, binding: &Binding) -> Value {
    match value {
        Value::Table(table) => Value::Table(
            table.iter().map(|(key, value)| (replaced(key, binding), substituted(value, binding))).collect(),
        ),
        Value::Array(values) => Value::Array(values.iter().map(|value| substituted(value, binding)).collect()),
        Value::String(text) => {
            if let Some((_, value)) = binding.iter().find(|(name, _)| *text == format!("{{{name}}}")) {
                return value.clone();
            }
            Value::String(replaced(text, binding))
        }
        other => other.clone(),
    }
}

/// The text with the names of a binding replaced. Whole numbers have no decimals.
fn replaced(text: &str, binding: &Binding) -> String {
    binding.iter().fold(text.to_owned(), |text, (name, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), String::from);
        text.replace(&format!("{{{name}}}"), value.strip_suffix(".0").unwrap_or(&value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str, quick: bool) -> Vec<Value> {
        let table: Table = text.parse().expect("TOML");
        let Value::Table(mut table) = expanded(Value::Table(table), quick).expect("a list") else { unreachable!() };
        table.remove("x").and_then(|list| list.as_array().cloned()).expect("entries")
    }

    #[test]
    fn templates_are_repeated_for_every_combination() {
        let text = "[[x]]\neach = { a = ['p', 'q'], n = [1, 2.0] }\nname = '{a} {n}'\nvalue = '{n}'";
        let entries = list(text, false);
        assert_eq!(entries.len(), 4);
        assert_eq!(entries[3]["name"].as_str(), Some("q 2"));
        assert_eq!(entries[2]["value"].as_integer(), Some(1));
        assert_eq!(
            list("[[x]]\neach = [{ a = 1, b = 2 }, { a = 3, b = 4 }]\nname = '{a}{b}'", false)[1]["name"].as_str(),
            Some("34")
        );
    }

    #[test]
    fn quick_runs_have_fewer_entries() {
        let text = "[[x]]\neach = { n = [1, 2, 3] }\nquick = { n = [2] }\nname = '{n}'\n[[x]]\nfull_run_only = true\nname = 'y'";
        assert_eq!((list(text, false).len(), list(text, true).len()), (4, 1));
    }
}
