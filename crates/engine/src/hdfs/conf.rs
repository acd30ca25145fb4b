//! What Hadoop's configuration says of NameNodes: `core-site.xml` and `hdfs-site.xml` in `$HADOOP_CONF_DIR`, or in `$HADOOP_HOME/etc/hadoop`. Without
//! them names must have a host, and ports are Hadoop's usual ones.

use super::error::Problem;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where a NameNode answers unless the name says otherwise.
const RPC_PORT: &str = "8020";

/// Where its WebHDFS is unless the configuration says otherwise.
const WEB_PORT: &str = "9870";

/// Properties by name.
#[derive(Debug, Default)]
pub(super) struct Conf(HashMap<String, String>);

impl Conf {
    /// What there is.
    pub(super) fn read() -> Result<Conf, Problem> {
        let folder = std::env::var_os("HADOOP_CONF_DIR").map(PathBuf::from).or_else(|| {
            let home = std::env::var_os("HADOOP_HOME")?;
            Some(Path::new(&home).join("etc/hadoop"))
        });
        let mut conf = Conf::default();
        for file in folder.iter().flat_map(|folder| ["core-site.xml", "hdfs-site.xml"].map(|name| folder.join(name))) {
            match fs::read_to_string(&file) {
                Ok(text) => conf.add(&text).map_err(|error| Problem::Conf { file, why: error.to_string() })?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(Problem::Conf { file, why: error.to_string() }),
            }
        }
        Ok(conf)
    }

    fn add(&mut self, text: &str) -> Result<(), roxmltree::Error> {
        for property in roxmltree::Document::parse(text)?.root_element().children() {
            let of = |name: &str| property.children().find(|node| node.has_tag_name(name))?.text().map(str::trim);
            if let (Some(name), Some(value)) = (of("name"), of("value")) {
                self.0.insert(name.to_owned(), value.to_owned());
            }
        }
        Ok(())
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// What was typed as the address of a NameNode (or the name of several that stand in for each other) and a path there.
    pub(super) fn name(&self, typed: &str) -> Result<(String, String), Problem> {
        let rest = typed.strip_prefix("hdfs://").ok_or(Problem::Nowhere)?;
        let (mut authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.is_empty() {
            let default = self.value("fs.defaultFS").and_then(|default| default.strip_prefix("hdfs://"));
            authority = default.and_then(|default| default.split('/').next()).unwrap_or_default();
        }
        if authority.is_empty() {
            return Err(Problem::Nowhere);
        }
        let address = match has_port(authority) || self.members(authority).next().is_some() {
            true => authority.to_owned(),
            false => format!("{authority}:{RPC_PORT}"),
        };
        let path = path.trim_end_matches('/');
        Ok((address, if path.is_empty() { "/".to_owned() } else { path.to_owned() }))
    }

    /// Where WebHDFS may be asked about what this NameNode, or one of these, keeps.
    pub(super) fn web_addresses(&self, address: &str) -> Vec<String> {
        if let Some((host, _)) = address.rsplit_once(':').filter(|_| has_port(address)) {
            // The host may be written there as 0.0.0.0; who reaches the NameNode under a name reaches all of it under that name.
            let port = self.value("dfs.namenode.http-address").and_then(|web| web.rsplit_once(':'));
            return vec![format!("{host}:{}", port.map_or(WEB_PORT, |(_, port)| port))];
        }
        let web = |member: &str| match self.value(&format!("dfs.namenode.http-address.{address}.{member}")) {
            Some(web) => Some(web.to_owned()),
            None => {
                let rpc = self.value(&format!("dfs.namenode.rpc-address.{address}.{member}"))?;
                Some(format!("{}:{WEB_PORT}", rpc.rsplit_once(':')?.0))
            }
        };
        self.members(address).filter_map(web).collect()
    }

    /// The NameNodes that answer to one name.
    fn members<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let listed = self.value(&format!("dfs.ha.namenodes.{name}")).unwrap_or_default();
        listed.split(',').map(str::trim).filter(|member| !member.is_empty())
    }
}

/// Whether an address says a port.
pub(super) fn has_port(address: &str) -> bool {
    address.rsplit_once(':').is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conf(properties: &[(&str, &str)]) -> Conf {
        let property = |(name, value): &(&str, &str)| {
            format!("<property>\n<name>{name}</name><!-- why --><value> {value} </value></property>")
        };
        let text: String = properties.iter().map(property).collect();
        let mut conf = Conf::default();
        conf.add(&format!("<?xml version=\"1.0\"?><configuration>{text}</configuration>")).unwrap();
        conf
    }

    #[test]
    fn names_lead_to_a_namenode_and_a_path() {
        let name = |conf: &Conf, typed: &str| conf.name(typed).ok().map(|(address, path)| format!("{address} {path}"));
        let none = Conf::default();
        assert_eq!(name(&none, "hdfs://nn:9000/a b/c").unwrap(), "nn:9000 /a b/c");
        assert_eq!(name(&none, "hdfs://nn/a/").unwrap(), "nn:8020 /a");
        assert_eq!(name(&none, "hdfs://[::1]:9000").unwrap(), "[::1]:9000 /");
        assert_eq!(name(&none, "hdfs:///a"), None);
        assert_eq!(name(&none, "hdfs:a"), None);
        let some = conf(&[("fs.defaultFS", "hdfs://pair/"), ("dfs.ha.namenodes.pair", "one, two")]);
        assert_eq!(name(&some, "hdfs:///a").unwrap(), "pair /a");
        assert_eq!(name(&some, "hdfs://pair/a").unwrap(), "pair /a");
    }

    #[test]
    fn web_addresses_are_found() {
        assert_eq!(Conf::default().web_addresses("nn:9000"), ["nn:9870"]);
        assert_eq!(Conf::default().web_addresses("nobody"), [""; 0]);
        assert_eq!(conf(&[("dfs.namenode.http-address", "0.0.0.0:50")]).web_addresses("nn:9000"), ["nn:50"]);
        let pair = conf(&[
            ("dfs.ha.namenodes.pair", "one,two"),
            ("dfs.namenode.rpc-address.pair.one", "a:8020"),
            ("dfs.namenode.rpc-address.pair.two", "b:8020"),
            ("dfs.namenode.http-address.pair.two", "b:51"),
        ]);
        assert_eq!(pair.web_addresses("pair"), ["a:9870", "b:51"]);
    }
}
