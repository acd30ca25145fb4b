//! Checks the configuration of a Hadoop cluster: which properties a policy needs, which of them are set, and what it costs if one is not.

use giveway_core::{Policy, PreemptAction};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use thiserror::Error;

const YARN_SITE: &str = "yarn-site.xml";
const CAPACITY_SCHEDULER: &str = "capacity-scheduler.xml";
const MAPRED_SITE: &str = "mapred-site.xml";

/// Why a configuration cannot be checked.
#[derive(Debug, Error)]
pub enum DoctorError {
    /// A file cannot be read.
    #[error("cannot read {file}: {error}; pass the directory of Hadoop's configuration with --conf")]
    Read {
        /// Path of the file.
        file: PathBuf,
        /// The operating system's error.
        error: std::io::Error,
    },
    /// A file is not valid XML.
    #[error("cannot read {file}: {error}; correct the file")]
    Xml {
        /// Path of the file.
        file: PathBuf,
        /// What is wrong with it.
        error: roxmltree::Error,
    },
}

/// As many variables in a value are replaced, as in Hadoop.
const SUBSTITUTIONS_MAX: usize = 20;

/// Properties of Hadoop's configuration files. Later files override earlier ones.
#[derive(Debug, Default)]
pub struct HadoopConf {
    properties: FxHashMap<String, String>,
    /// Files that do not exist, so that all of their properties count as not set.
    pub missing: Vec<&'static str>,
}

impl HadoopConf {
    /// Reads `yarn-site.xml`, `capacity-scheduler.xml` and, if it exists, `mapred-site.xml` of a directory. One of the first two may be missing.
    pub fn read(dir: &Path) -> Result<HadoopConf, DoctorError> {
        let mut conf = HadoopConf::default();
        for name in [YARN_SITE, CAPACITY_SCHEDULER, MAPRED_SITE] {
            let file = dir.join(name);
            let text = match std::fs::read_to_string(&file) {
                Ok(text) => text,
                Err(error) if error.kind() == ErrorKind::NotFound && name == MAPRED_SITE => continue,
                // Without both it is no directory of Hadoop's configuration.
                Err(error)
                    if error.kind() == ErrorKind::NotFound
                        && [YARN_SITE, CAPACITY_SCHEDULER].iter().any(|other| dir.join(other).exists()) =>
                {
                    conf.missing.push(name);
                    continue;
                }
                Err(error) => return Err(DoctorError::Read { file, error }),
            };
            conf.add(&text).map_err(|error| DoctorError::Xml { file, error })?;
        }
        Ok(conf)
    }

    /// Adds the properties of a file's text.
    pub fn add(&mut self, text: &str) -> Result<(), roxmltree::Error> {
        let document = roxmltree::Document::parse(text)?;
        for property in document.descendants().filter(|node| node.has_tag_name("property")) {
            let child = |name: &str| {
                let found = property.children().find(|node| node.has_tag_name(name));
                found.and_then(|node| node.text()).map(|text| text.trim().to_owned())
            };
            if let (Some(name), Some(value)) = (child("name"), child("value")) {
                self.properties.insert(name, value);
            }
        }
        Ok(())
    }

    /// The value of a property. `${name}` stands for the value of another one, as in Hadoop; one that is not set stays as it is.
    fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        let mut value = Cow::from(self.properties.get(name)?);
        for _ in 0..SUBSTITUTIONS_MAX {
            let Some((before, rest)) = value.split_once("${") else { break };
            let Some((other, after)) = rest.split_once('}') else { break };
            let Some(other) = self.properties.get(other) else { break };
            value = format!("{before}{other}{after}").into();
        }
        Some(value)
    }

    /// A number, or the default if it is not set; none if it is no number.
    fn number(&self, name: &str, default: f64) -> f64 {
        self.get(name).map_or(default, |value| value.trim().parse().unwrap_or(f64::NAN))
    }

    /// The paths of the leaf queues with Giveway's ordering policy.
    fn giveway_queues(&self) -> Vec<&str> {
        let has_ours = |name: &str| self.get(name).is_some_and(|value| value == ORDERING_POLICY);
        let names = self.properties.keys().filter(|name| has_ours(name));
        let path = |name: &'_ str| name.strip_prefix(QUEUES)?.strip_suffix(".ordering-policy").map(str::len);
        let mut queues: Vec<&str> =
            names.filter_map(|name| name.get(QUEUES.len()..QUEUES.len() + path(name)?)).collect();
        queues.sort_unstable();
        queues
    }

    /// Whether its parent lists a queue.
    fn has_queue(&self, path: &str) -> bool {
        let Some((parent, name)) = path.rsplit_once('.') else { return path == "root" };
        let children = self.get(&format!("{QUEUES}{parent}.queues")).unwrap_or_default();
        children.split(',').any(|child| child.trim() == name)
    }
}

/// With this the name of each property of a queue begins.
const QUEUES: &str = "yarn.scheduler.capacity.";

const ORDERING_POLICY: &str = "giveway.yarn.GivewayOrderingPolicy";

/// A property that is missing or has a value that does not work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file that has the property.
    pub file: &'static str,
    pub property: String,
    /// Its value, if it is set.
    pub found: Option<String>,
    /// A value that works.
    pub needed: String,
    /// What happens if it is left as it is.
    pub cost: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = self.found.as_deref().unwrap_or("not set");
        writeln!(f, "{}: {} is {found}: {}", self.file, self.property, self.cost)?;
        write!(f, "  <property><name>{}</name><value>{}</value></property>", self.property, self.needed)
    }
}

/// How a value is judged.
enum Test {
    /// Equal to the needed value; with the default that applies if the property is not set.
    Is(&'static str),
    /// A class that extends one of Hadoop's: pairs of Hadoop's class and its subclass. Hadoop's first one is the default.
    Extends(&'static [(&'static str, &'static str)]),
    /// A list that contains the needed value.
    Contains,
    /// A number of at least this.
    AtLeast(f64, &'static str),
    /// A number of at most this.
    AtMost(f64, &'static str),
}

struct Check {
    file: &'static str,
    property: &'static str,
    needed: &'static str,
    test: Test,
    cost: &'static str,
}

const ALWAYS: &[Check] = &[
    Check {
        file: YARN_SITE,
        property: "yarn.resourcemanager.scheduler.class",
        needed: "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler",
        test: Test::Is("org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler"),
        cost: "Giveway is a plug-in of the CapacityScheduler and has no effect under another scheduler",
    },
    Check {
        file: YARN_SITE,
        property: "yarn.resourcemanager.application-master-service.processors",
        needed: "giveway.yarn.GivewayProcessor",
        test: Test::Contains,
        cost: "the plug-in does not connect to the sidecar, queues are FIFO",
    },
    Check {
        file: CAPACITY_SCHEDULER,
        property: "yarn.scheduler.capacity.maximum-am-resource-percent",
        needed: "0.5",
        test: Test::AtLeast(0.5, "0.1"),
        cost: SHORT_WAIT,
    },
    Check {
        file: YARN_SITE,
        property: "yarn.node-labels.enabled",
        needed: "false",
        test: Test::Is("false"),
        cost: "Giveway does not know which nodes the label of an application allows, and may pause a container for one that cannot use its place",
    },
];

const SHORT_WAIT: &str = "short applications wait for an application master's container in a list that is FIFO";

const PAUSE: &[Check] = &[
    Check {
        file: YARN_SITE,
        property: "yarn.resourcemanager.auto-update.containers",
        needed: "true",
        test: Test::Is("false"),
        cost: "NodeManagers are not told of demotions, so nothing is paused",
    },
    Check {
        file: YARN_SITE,
        property: "yarn.scheduler.include-port-in-node-name",
        needed: "false",
        test: Test::Is("false"),
        cost: "paused containers are never promoted: YARN looks for their node by host name",
    },
    Check {
        file: YARN_SITE,
        property: "yarn.nodemanager.container-executor.class",
        needed: EXECUTORS[0].1,
        test: Test::Extends(&EXECUTORS),
        cost: "NodeManagers cannot pause containers",
    },
    Check {
        file: YARN_SITE,
        property: "yarn.nodemanager.runtime.linux.allowed-runtimes",
        needed: "default",
        test: Test::Is("default"),
        cost: "NodeManagers with LinuxContainerExecutor pause nothing, because Docker and runc containers cannot be paused",
    },
    Check {
        file: YARN_SITE,
        property: "yarn.nodemanager.containers-launcher.class",
        needed: "org.apache.hadoop.yarn.server.nodemanager.containermanager.launcher.GivewayContainersLauncher",
        test: Test::Is("org.apache.hadoop.yarn.server.nodemanager.containermanager.launcher.ContainersLauncher"),
        cost: "a container that is paused a second time, or while its NodeManager restarts, waits for ever",
    },
    Check {
        file: YARN_SITE,
        property: "yarn.nodemanager.opportunistic-containers-max-queue-length",
        needed: "100",
        test: Test::AtLeast(1.0, "0"),
        cost: "NodeManagers kill demoted containers instead of pausing them",
    },
    Check {
        file: YARN_SITE,
        property: "yarn.nodemanager.opportunistic-containers-use-pause-for-preemption",
        needed: "true",
        test: Test::Is("false"),
        cost: "NodeManagers kill demoted containers instead of pausing them",
    },
    Check {
        file: YARN_SITE,
        property: "yarn.nodemanager.recovery.enabled",
        needed: "true",
        test: Test::Is("false"),
        cost: "a NodeManager that is restarted kills its containers, paused ones too",
    },
    Check {
        file: MAPRED_SITE,
        property: "mapreduce.reduce.speculative",
        needed: "false",
        test: Test::Is("true"),
        cost: "paused reduces look like stragglers and get speculative attempts, which take containers",
    },
];

/// Hadoop's executors, and those that can pause.
const EXECUTORS: [(&str, &str); 2] = [
    (
        "org.apache.hadoop.yarn.server.nodemanager.DefaultContainerExecutor",
        "giveway.yarn.nodemanager.GivewayContainerExecutor",
    ),
    (
        "org.apache.hadoop.yarn.server.nodemanager.LinuxContainerExecutor",
        "org.apache.hadoop.yarn.server.nodemanager.GivewayLinuxContainerExecutor",
    ),
];

const KILL: &[Check] = &[Check {
    file: CAPACITY_SCHEDULER,
    property: "yarn.scheduler.capacity.lazy-preemption-enabled",
    needed: "false",
    test: Test::Is("false"),
    cost: "containers are not killed when they are chosen, but when another application can use the resources",
}];

const MATCHING: &[Check] = &[Check {
    file: YARN_SITE,
    property: "yarn.scheduler.app-placement-allocator.class",
    needed: "giveway.yarn.GivewayAppPlacementAllocator",
    test: Test::Is("org.apache.hadoop.yarn.server.resourcemanager.scheduler.placement.LocalityAppPlacementAllocator"),
    cost: "applications are not matched to nodes",
}];

const RECOVERY: &[Check] = &[Check {
    file: YARN_SITE,
    property: "yarn.client.nodemanager-connect.max-wait-ms",
    needed: "3000",
    test: Test::AtMost(10_000.0, "180000"),
    cost: "application masters wait up to three minutes for a lost NodeManager before they run its tasks again",
}];

/// Checks a configuration for a policy. Properties that work are not returned.
pub fn check(policy: &Policy, conf: &HadoopConf) -> Vec<Finding> {
    let mut findings = Vec::new();
    let pauses = policy.preempts_by(PreemptAction::Pause, true);
    let kills = policy.preempts_by(PreemptAction::Kill, true);
    let groups = [
        (true, ALWAYS),
        (pauses, PAUSE),
        (kills, KILL),
        (policy.recovery.is_immediate(), RECOVERY),
        (policy.compares_nodes(), MATCHING),
    ];
    for (needed, checks) in groups {
        if needed {
            findings.extend(checks.iter().filter_map(|check| check.apply(conf)));
        }
    }
    if pauses {
        findings.extend(task_timeout(conf));
    }
    findings.extend(token_file(conf));
    findings.extend(conf.giveway_queues().into_iter().flat_map(|queue| queue_findings(conf, queue, pauses || kills)));
    if conf.giveway_queues().is_empty() {
        findings.push(Finding {
            file: CAPACITY_SCHEDULER,
            property: "yarn.scheduler.capacity.root.QUEUE.ordering-policy".into(),
            found: None,
            needed: ORDERING_POLICY.into(),
            cost: "no queue is ordered by Giveway",
        });
    }
    findings
}

/// A paused task reports when it runs for a moment, which must be more often than its timeout.
fn task_timeout(conf: &HadoopConf) -> Option<Finding> {
    let breathes_ms = conf.number("giveway.breathe.interval.ms", 60_000.0);
    let (name, timeout_ms) = ("mapreduce.task.timeout", conf.number("mapreduce.task.timeout", 600_000.0));
    // Zero is no timeout.
    (timeout_ms > 0.0 && timeout_ms < 2.0 * breathes_ms).then(|| Finding {
        file: MAPRED_SITE,
        property: name.into(),
        found: conf.get(name).map(Cow::into_owned),
        needed: (10.0 * breathes_ms).to_string(),
        cost: "paused tasks fail: they run for a moment and report only once in giveway.breathe.interval.ms",
    })
}

/// The plug-in reads the token on the ResourceManager's machine.
fn token_file(conf: &HadoopConf) -> Option<Finding> {
    let name = "giveway.token.file";
    let path = conf.get(name).unwrap_or("/etc/giveway/token".into());
    (!Path::new(path.as_ref()).exists()).then(|| Finding {
        file: YARN_SITE,
        property: name.into(),
        found: Some(format!("{path}, which does not exist on this machine")),
        needed: path.into_owned(),
        cost: "on the ResourceManager's machine the plug-in does not connect to the sidecar without it, and queues are FIFO",
    })
}

/// What is wrong with a queue of Giveway's.
fn queue_findings(conf: &HadoopConf, queue: &str, preempts: bool) -> Vec<Finding> {
    let finding = |property: &str, needed: &str, cost| {
        let property = format!("{QUEUES}{queue}.{property}");
        let found = conf.get(&property).map(Cow::into_owned);
        Finding { file: CAPACITY_SCHEDULER, property, found, needed: needed.into(), cost }
    };
    let mut findings = Vec::new();
    if !conf.has_queue(queue) {
        findings.push(finding(
            "ordering-policy",
            ORDERING_POLICY,
            "no parent queue lists this queue in its property `queues`, so it does not exist",
        ));
        return findings;
    }
    let of_queue = |property: &str, default| conf.number(&format!("{QUEUES}{queue}.{property}"), default);
    if of_queue("maximum-am-resource-percent", 1.0) < 0.5 {
        findings.push(finding("maximum-am-resource-percent", "0.5", SHORT_WAIT));
    }
    let (capacity, maximum) = (of_queue("capacity", 100.0), of_queue("maximum-capacity", 100.0));
    // Not compared if the capacity is given in another unit, such as a weight.
    if preempts && of_queue("user-limit-factor", 1.0) * capacity < maximum {
        let factor = (maximum / capacity).ceil().to_string();
        let cost = "a user's applications have at most this many times the queue's capacity: for a user at the limit a container may be preempted in vain";
        findings.push(finding("user-limit-factor", &factor, cost));
    }
    findings
}

impl Check {
    fn apply(&self, conf: &HadoopConf) -> Option<Finding> {
        let value = conf.get(self.property);
        let found = value.as_deref();
        let number = |default: &str| found.unwrap_or(default).parse::<f64>().unwrap_or(f64::NAN);
        let works = match self.test {
            Test::Is(default) => found.unwrap_or(default) == self.needed,
            Test::Extends(classes) => classes.iter().any(|(_, subclass)| found == Some(*subclass)),
            Test::Contains => found.is_some_and(|list| list.split(',').any(|item| item.trim() == self.needed)),
            Test::AtLeast(least, default) => number(default) >= least,
            Test::AtMost(most, default) => number(default) <= most,
        };
        let needed = match (&self.test, found.filter(|value| !value.trim().is_empty())) {
            // A list keeps what it has.
            (Test::Contains, Some(list)) => format!("{list},{}", self.needed),
            (Test::Extends(classes), Some(class)) => {
                let subclass = classes.iter().find(|(hadoop, _)| *hadoop == class).map(|(_, subclass)| *subclass);
                subclass.unwrap_or(self.needed).to_owned()
            }
            _ => self.needed.to_owned(),
        };
        (!works).then(|| Finding {
            file: self.file,
            property: self.property.to_owned(),
            found: found.map(str::to_owned),
            needed,
            cost: self.cost,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_core::policy::catalog;

    fn properties(findings: &[Finding]) -> Vec<&str> {
        findings.iter().map(|finding| finding.property.as_str()).collect()
    }

    fn conf(properties: &[(&str, &str)]) -> HadoopConf {
        let property =
            |(name, value): &(&str, &str)| format!("<property><name>{name}</name><value> {value} </value></property>");
        let text: String = properties.iter().map(property).collect();
        let mut conf = HadoopConf::default();
        conf.add(&format!("<?xml version=\"1.0\"?><configuration>{text}</configuration>")).unwrap();
        conf
    }

    const RANKING: [(&str, &str); 7] = [
        ("giveway.token.file", "/dev/null"),
        ("yarn.scheduler.capacity.root.queues", "default, batch"),
        ("yarn.scheduler.capacity.root.batch.capacity", "50"),
        ("yarn.scheduler.capacity.root.batch.user-limit-factor", "2"),
        ("yarn.resourcemanager.application-master-service.processors", "other.Processor,giveway.yarn.GivewayProcessor"),
        ("yarn.scheduler.capacity.maximum-am-resource-percent", "0.6"),
        ("yarn.scheduler.capacity.root.batch.ordering-policy", ORDERING_POLICY),
    ];

    #[test]
    fn a_policy_needs_only_what_it_uses() {
        let ranking = conf(&RANKING);
        assert_eq!(check(&catalog::by_name("hsrtf-pr").unwrap(), &ranking), []);
        assert_eq!(check(&catalog::by_name("hsrtf-prp").unwrap(), &ranking), []);
        let findings = check(&catalog::by_name("fcs").unwrap(), &ranking);
        let found = properties(&findings);
        assert_eq!(found.len(), 7, "{found:?}");
        assert!(!found.contains(&"yarn.scheduler.include-port-in-node-name"), "its default works");
        let coshh = check(&catalog::by_name("coshh").unwrap(), &ranking);
        assert_eq!(properties(&coshh), ["yarn.scheduler.app-placement-allocator.class"]);
        let chronos = check(&catalog::by_name("chronos(fifo)").unwrap(), &ranking);
        assert!(properties(&chronos).contains(&"yarn.client.nodemanager-connect.max-wait-ms"));
    }

    #[test]
    fn an_executor_is_replaced_by_the_one_that_extends_it() {
        let needed = |class: &str| {
            let conf = conf(&[&RANKING[..], &[("yarn.nodemanager.container-executor.class", class)]].concat());
            let findings = check(&catalog::by_name("fcs").unwrap(), &conf);
            let executor = findings.into_iter().find(|finding| finding.property.contains("container-executor"));
            executor.map(|finding| finding.needed)
        };
        for (hadoop, subclass) in EXECUTORS {
            assert_eq!(needed(hadoop).as_deref(), Some(subclass));
            assert_eq!(needed(subclass), None);
        }
        assert_eq!(needed("other.Executor").as_deref(), Some(EXECUTORS[0].1));
    }

    #[test]
    fn wrong_values_are_reported_with_the_lines_to_add() {
        let wrong = conf(&[
            ("yarn.resourcemanager.application-master-service.processors", "other.Processor"),
            ("yarn.scheduler.capacity.maximum-am-resource-percent", "a lot"),
        ]);
        let findings = check(&catalog::by_name("fifo").unwrap(), &wrong);
        assert_eq!(findings.len(), 4, "{findings:?}");
        let text = findings[0].to_string();
        assert!(text.contains("<value>other.Processor,giveway.yarn.GivewayProcessor</value>"), "{text}");
        assert!(text.contains("is other.Processor: the plug-in does not connect"), "{text}");
        assert!(findings[2].to_string().contains("giveway.token.file is /etc/giveway/token, which does not exist"));
        assert!(findings[3].to_string().contains("is not set: no queue is ordered by Giveway"));
    }

    /// The properties that do not work under `fcs`, beside those that do not without any property set.
    fn found_with(more: &[(&str, &str)]) -> Vec<String> {
        let fcs = catalog::by_name("fcs").unwrap();
        let without = check(&fcs, &conf(&RANKING));
        let findings = check(&fcs, &conf(&[&RANKING[..], more].concat()));
        let new = findings.into_iter().filter(|finding| !without.contains(finding));
        new.map(|finding| format!("{} {}", finding.property, finding.needed)).collect()
    }

    #[test]
    fn what_makes_pauses_useless_or_harmful_is_found() {
        let q = |name: &str| format!("yarn.scheduler.capacity.{name}");
        assert_eq!(found_with(&[("yarn.node-labels.enabled", "true")]), ["yarn.node-labels.enabled false"]);
        assert_eq!(found_with(&[("mapreduce.task.timeout", "30000")]), ["mapreduce.task.timeout 600000"]);
        assert_eq!(found_with(&[("mapreduce.task.timeout", "0")]), [""; 0], "no timeout");
        assert_eq!(
            found_with(&[(&q("root.batch.maximum-am-resource-percent"), "0.05")]),
            [q("root.batch.maximum-am-resource-percent 0.5")]
        );
        assert_eq!(found_with(&[(&q("root.batch.user-limit-factor"), "1")]), [q("root.batch.user-limit-factor 2")]);
        let unknown = found_with(&[(&q("root.prod.etl.ordering-policy"), ORDERING_POLICY)]);
        assert_eq!(unknown, [q(&format!("root.prod.etl.ordering-policy {ORDERING_POLICY}"))], "no such queue");
        let listed = [("root.prod.etl.ordering-policy", ORDERING_POLICY), ("root.prod.queues", "etl")];
        let listed: Vec<(String, &str)> = listed.iter().map(|(name, value)| (q(name), *value)).collect();
        let listed: Vec<(&str, &str)> = listed.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        assert_eq!(found_with(&listed), [""; 0]);
    }

    #[test]
    fn variables_are_replaced() {
        let conf = conf(&[("a", "${b}/x"), ("b", "${c}"), ("c", "1"), ("d", "${unknown}"), ("e", "${e}")]);
        assert_eq!(["a", "d", "e"].map(|name| conf.get(name).unwrap().into_owned()), ["1/x", "${unknown}", "${e}"]);
    }

    #[test]
    fn files_that_cannot_be_read_are_named() {
        let dir = tempfile::TempDir::new().unwrap();
        let error = |dir: &Path| HadoopConf::read(dir).unwrap_err().to_string();
        assert!(error(dir.path()).contains("yarn-site.xml"));
        std::fs::write(dir.path().join(YARN_SITE), "<configuration>").unwrap();
        assert!(error(dir.path()).contains("correct the file"));
        for file in [YARN_SITE, CAPACITY_SCHEDULER] {
            std::fs::write(dir.path().join(file), "<configuration/>").unwrap();
        }
        assert!(HadoopConf::read(dir.path()).is_ok(), "mapred-site.xml is optional");
        std::fs::remove_file(dir.path().join(YARN_SITE)).unwrap();
        assert_eq!(HadoopConf::read(dir.path()).unwrap().missing, [YARN_SITE], "the other one is checked");
        std::fs::remove_file(dir.path().join(CAPACITY_SCHEDULER)).unwrap();
        assert!(error(dir.path()).contains("yarn-site.xml"), "it is no directory of Hadoop's configuration");
    }
}
