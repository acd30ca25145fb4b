//! Parts of policies that a program of one's own brings: orders of jobs and filters of nodes. It registers them before anything else; a policy then names them like
//! built-in ones, and event logs store their names and versions.

use serde::de;
use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use thiserror::Error;

/// The parts of one kind that a program has registered.
pub type Registry<P> = OnceLock<Vec<Custom<P>>>;

/// A kind of part.
pub trait Part: Send + Sync + 'static {
    /// What it is called in messages.
    const NAME: &'static str;

    /// Those that are registered.
    fn registry() -> &'static Registry<Self>;

    /// Names that custom parts cannot have.
    fn built_in() -> &'static [&'static str];
}

/// A part as a policy has it. Its name and version are stored in event logs, so that a run is not replayed with another one.
#[derive(Serialize)]
pub struct Custom<P: ?Sized> {
    name: Arc<str>,
    version: Arc<str>,
    /// None if this program has no such part.
    #[serde(skip)]
    part: Option<Arc<P>>,
}

/// What is stored of a part.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Recorded {
    name: Arc<str>,
    version: Arc<str>,
}

/// Parts that cannot be registered.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RegisterError {
    /// The parts of a program cannot change while it runs.
    #[error("custom {0}s are already registered; register all of them in one call, before anything else")]
    AlreadyRegistered(&'static str),
    /// Two parts have the same name.
    #[error("two {0}s are called `{1}`; rename one of them")]
    SameName(&'static str, Arc<str>),
}

/// Makes parts of one kind known to all policies that are read from now on. A program calls it once for each kind, at its start.
pub fn register<P: Part + ?Sized>(parts: impl IntoIterator<Item = Custom<P>>) -> Result<(), RegisterError> {
    let parts: Vec<Custom<P>> = parts.into_iter().collect();
    let mut names = HashSet::new();
    if let Some(twice) = parts.iter().find(|part| !names.insert(&*part.name) || P::built_in().contains(&&*part.name)) {
        return Err(RegisterError::SameName(P::NAME, Arc::clone(&twice.name)));
    }
    P::registry().set(parts).map_err(|_| RegisterError::AlreadyRegistered(P::NAME))
}

/// The registered part of this name.
pub fn registered<P: Part + ?Sized>(name: &str) -> Option<Custom<P>> {
    P::registry().get()?.iter().find(|part| &*part.name == name).cloned()
}

impl<P: Part + ?Sized> Custom<P> {
    /// A part. Its version changes whenever it would decide differently.
    pub fn of(name: &str, version: &str, part: Arc<P>) -> Custom<P> {
        Custom { name: name.into(), version: version.into(), part: Some(part) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The part. A policy without it is refused by its check.
    pub fn part(&self) -> Option<&P> {
        self.part.as_deref()
    }

    /// Fails if this program does not have it.
    pub fn check(&self) -> Result<(), String> {
        let Custom { name, version, part } = self;
        if part.is_some() {
            return Ok(());
        }
        Err(match registered::<P>(name) {
            Some(other) => format!(
                "its {} is version {version} of `{name}`, and this program has version {}; use the program that it was made with",
                P::NAME,
                other.version
            ),
            None => format!(
                "this program has no {} `{name}`; use the program that registers it (version {version})",
                P::NAME
            ),
        })
    }
}

impl<P: Part + ?Sized> From<Recorded> for Custom<P> {
    fn from(Recorded { name, version }: Recorded) -> Custom<P> {
        let known = registered::<P>(&name).filter(|part| part.version == version);
        Custom { part: known.and_then(|known| known.part), name, version }
    }
}

/// By its name alone, or by name and version.
impl<'de, P: Part + ?Sized> Deserialize<'de> for Custom<P> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Custom<P>, D::Error> {
        deserializer.deserialize_any(CustomVisitor(PhantomData))
    }
}

struct CustomVisitor<P: ?Sized>(PhantomData<P>);

impl<'de, P: Part + ?Sized> de::Visitor<'de> for CustomVisitor<P> {
    type Value = Custom<P>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the name of a custom {}", P::NAME)
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Custom<P>, E> {
        registered(name).ok_or_else(|| {
            let known = P::registry().get().map_or(Vec::new(), |parts| parts.iter().map(Custom::name).collect());
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            E::custom(format_args!("this program has no {} `{name}` (it registers: {known})", P::NAME))
        })
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Custom<P>, A::Error> {
        Recorded::deserialize(MapAccessDeserializer::new(map)).map(Custom::from)
    }
}

impl<P: ?Sized> Clone for Custom<P> {
    fn clone(&self) -> Custom<P> {
        Custom { name: Arc::clone(&self.name), version: Arc::clone(&self.version), part: self.part.clone() }
    }
}

impl<P: ?Sized> PartialEq for Custom<P> {
    fn eq(&self, other: &Custom<P>) -> bool {
        (&self.name, &self.version) == (&other.name, &other.version)
    }
}

impl<P: ?Sized> fmt::Debug for Custom<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Custom({} {})", self.name, self.version)
    }
}
