//! `giveway token`: who may use the HTTP API of a cluster over its port.

use super::args::ClusterDir;
use crate::text_table::TextTable;
use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand, ValueEnum};
use giveway_web::server::{self, Purpose, TokenFile};
use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

/// `giveway token`
#[derive(Debug, Args)]
pub struct Token {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a token and print it; it is not stored and cannot be printed again.
    Create {
        /// User or program that uses it. Jobs that a token for `submit` submits belong to the user of this name.
        name: String,
        /// What it may do.
        #[arg(long, value_enum)]
        may: May,
        /// Lifetime, such as 12h or 30d, or `never`.
        #[arg(long, value_name = "TIME", default_value = "30d", value_parser = lifetime)]
        expires: Lifetime,
        #[command(flatten)]
        cluster: ClusterDir,
    },
    /// List tokens: what they may do, and when they expire.
    List {
        /// Print JSON instead of a table.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        cluster: ClusterDir,
    },
    /// Replace a token with a new one with the same rights and lifetime, and print it.
    Rotate {
        /// Name of the token.
        name: String,
        #[command(flatten)]
        cluster: ClusterDir,
    },
    /// Remove tokens; they are refused from the next request on.
    Revoke {
        /// Names of the tokens.
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        names: Vec<String>,
        /// Remove all tokens, those of links and the owner's included.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        cluster: ClusterDir,
    },
    /// Print a link that opens the dashboard, for 12 hours.
    Link(ClusterDir),
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum May {
    /// Read jobs, nodes, logs and metrics.
    Read,
    /// Also submit jobs as the user of the token's name, and kill and yield these.
    Submit,
    /// Also submit, kill and yield jobs of all users, and reload policy and tenants.
    Administer,
}

/// None if it does not end.
#[derive(Clone, Copy, Debug)]
struct Lifetime(Option<Duration>);

fn lifetime(text: &str) -> Result<Lifetime, String> {
    if text == "never" {
        return Ok(Lifetime(None));
    }
    let parsed =
        humantime::parse_duration(text).map_err(|error| format!("{error}; use for example 12h, 30d or never"))?;
    match parsed.as_secs() {
        0 => Err("less than 1s; use a longer time".into()),
        1..=LIFETIME_S_MAX => Ok(Lifetime(Some(parsed))),
        _ => Err("more than 100 years; use a shorter time, or never".into()),
    }
}

const LIFETIME_S_MAX: u64 = 100 * 366 * 86_400;

/// The last second of the year 9999.
const LAST_TIME_S: u64 = 253_402_300_799;

/// The tokens of a cluster, which may be down.
fn tokens(cluster: &ClusterDir) -> Result<TokenFile> {
    ensure!(
        cluster.dir.join("journal").is_dir(),
        "no cluster in {} that you can read; check --dir. Only the cluster's owner can change its tokens",
        cluster.dir.display()
    );
    Ok(TokenFile::new(&cluster.dir))
}

/// `giveway token`
pub fn token(args: &Token) -> Result<()> {
    let mut out = std::io::stdout();
    match &args.command {
        Command::Create { name, may, expires, cluster } => {
            let purpose = match may {
                May::Read => Purpose::Read,
                May::Submit => Purpose::Submit,
                May::Administer => Purpose::Administer,
            };
            writeln!(out, "{}", tokens(cluster)?.create(name, purpose, expires.0)?)?;
        }
        Command::List { json, cluster } => write!(out, "{}", list(&tokens(cluster)?, *json)?)?,
        Command::Rotate { name, cluster } => writeln!(out, "{}", tokens(cluster)?.rotate(name)?)?,
        Command::Revoke { names, all, cluster } => {
            tokens(cluster)?.revoke(if *all { None } else { Some(names) })?;
        }
        Command::Link(cluster) => {
            tokens(cluster)?;
            let link = server::cluster_link(&cluster.dir)?;
            writeln!(out, "{}", link.context("this cluster has had no port so far; start it without --no-http")?)?;
        }
    }
    Ok(())
}

fn list(tokens: &TokenFile, json: bool) -> Result<String> {
    // The file may have been changed by hand, and times after the year 9999 cannot be printed.
    let time = |seconds: u64| {
        let seconds = Duration::from_secs(seconds.min(LAST_TIME_S));
        humantime::format_rfc3339_seconds(UNIX_EPOCH + seconds).to_string()
    };
    let found = tokens.list()?;
    let live = found.iter().filter(|token| !token.is_expired());
    if json {
        let rows: Vec<serde_json::Value> = live
            .map(|token| {
                serde_json::json!({
                    "name": token.name,
                    "may": token.purpose.to_string(),
                    "created_ms": token.created_s.saturating_mul(1000),
                    "expires_ms": token.expires_s.map(|at| at.saturating_mul(1000)),
                })
            })
            .collect();
        return Ok(serde_json::to_string_pretty(&rows)? + "\n");
    }
    let mut table = TextTable::new(["name", "may", "created", "expires"]);
    for token in live {
        let expires = token.expires_s.map_or_else(|| "never".to_owned(), time);
        table.add_row([token.name.clone(), token.purpose.to_string(), time(token.created_s), expires]);
    }
    Ok(format!("{table}\n"))
}
