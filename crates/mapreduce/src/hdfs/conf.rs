//! Addresses of NameNodes from Hadoop's configuration: `core-site.xml` and `hdfs-site.xml` in `$HADOOP_CONF_DIR`, or in `$HADOOP_HOME/etc/hadoop`.
//! Without them a path must contain a host, and the ports are Hadoop's defaults.

use super::error::{ConfError, HdfsError};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Default RPC port of a NameNode.
const RPC_PORT: &str = "8020";

/// Default WebHDFS port of a NameNode.
const WEB_PORT: &str = "9870";

/// Properties of the configuration, by name.
#[derive(Debug, Default)]
pub(super) struct HadoopConf(HashMap<String, String>);

impl HadoopConf {
    /// Reads the configuration files that exist.
    pub(super) fn read() -> Result<HadoopConf, HdfsError> {
        let dir = std::env::var_os("HADOOP_CONF_DIR").map(PathBuf::from).or_else(|| {
            let home = std::env::var_os("HADOOP_HOME")?;
            Some(Path::new(&home).join("etc/hadoop"))
        });
        let mut conf = HadoopConf::default();
        for file in dir.iter().flat_map(|dir| ["core-site.xml", "hdfs-site.xml"].map(|name| dir.join(name))) {
            match fs::read_to_string(&file) {
                Ok(text) => {
                    conf.add(&text).map_err(|error| HdfsError::Conf { file, error: ConfError::Xml(error) })?;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(HdfsError::Conf { file, error: error.into() }),
            }
        }
        Ok(conf)
    }

    fn add(&mut self, text: &str) -> Result<(), roxmltree::Error> {
        for property in roxmltree::Document::parse(text)?.root_element().children() {
            let child = |name: &str| property.children().find(|node| node.has_tag_name(name))?.text().map(str::trim);
            if let (Some(name), Some(value)) = (child("name"), child("value")) {
                self.0.insert(name.to_owned(), value.to_owned());
            }
        }
        Ok(())
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Divides an `hdfs://` URL into the address of a NameNode (or the id of a name service) and a path there.
    pub(super) fn resolve(&self, url: &str) -> Result<(String, String), HdfsError> {
        let rest = url.strip_prefix("hdfs://").ok_or(HdfsError::NoNameNode)?;
        let (mut authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.is_empty() {
            let default = self.value("fs.defaultFS").and_then(|default| default.strip_prefix("hdfs://"));
            authority = default.and_then(|default| default.split('/').next()).unwrap_or_default();
        }
        if authority.is_empty() {
            return Err(HdfsError::NoNameNode);
        }
        let address = match has_port(authority) || self.ha_namenodes(authority).next().is_some() {
            true => authority.to_owned(),
            false => format!("{authority}:{RPC_PORT}"),
        };
        let path = path.trim_end_matches('/');
        Ok((address, if path.is_empty() { "/".to_owned() } else { path.to_owned() }))
    }

    /// WebHDFS addresses of a NameNode, or of all NameNodes of a name service.
    pub(super) fn web_addresses(&self, address: &str) -> Vec<String> {
        if let Some((host, _)) = address.rsplit_once(':').filter(|_| has_port(address)) {
            // Only the port is configured reliably: the host may be 0.0.0.0, and the one in the address is known to be reachable.
            let port = self.value("dfs.namenode.http-address").and_then(|web| web.rsplit_once(':'));
            return vec![format!("{host}:{}", port.map_or(WEB_PORT, |(_, port)| port))];
        }
        let web = |id: &str| match self.value(&format!("dfs.namenode.http-address.{address}.{id}")) {
            Some(web) => Some(web.to_owned()),
            None => {
                let rpc = self.value(&format!("dfs.namenode.rpc-address.{address}.{id}"))?;
                Some(format!("{}:{WEB_PORT}", rpc.rsplit_once(':')?.0))
            }
        };
        self.ha_namenodes(address).filter_map(web).collect()
    }

    /// The ids of the NameNodes of a name service (high availability).
    fn ha_namenodes<'a>(&'a self, service: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let listed = self.value(&format!("dfs.ha.namenodes.{service}")).unwrap_or_default();
        listed.split(',').map(str::trim).filter(|id| !id.is_empty())
    }
}

/// True if an address ends with a port.
pub(super) fn has_port(address: &str) -> bool {
    address.rsplit_once(':').is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conf(properties: &[(&str, &str)]) -> HadoopConf {
        let property = |(name, value): &(&str, &str)| {
            format!("<property>\n<name>{name}</name><!-- why --><value> {value} </value></property>")
        };
        let text: String = properties.iter().map(property).collect();
        let mut conf = HadoopConf::default();
        conf.add(&format!("<?xml version=\"1.0\"?><configuration>{text}</configuration>")).unwrap();
        conf
    }

    #[test]
    fn urls_resolve_to_a_namenode_and_a_path() {
        let resolve =
            |conf: &HadoopConf, url: &str| conf.resolve(url).ok().map(|(address, path)| format!("{address} {path}"));
        let none = HadoopConf::default();
        assert_eq!(resolve(&none, "hdfs://nn:9000/a b/c").unwrap(), "nn:9000 /a b/c");
        assert_eq!(resolve(&none, "hdfs://nn/a/").unwrap(), "nn:8020 /a");
        assert_eq!(resolve(&none, "hdfs://[::1]:9000").unwrap(), "[::1]:9000 /");
        assert_eq!(resolve(&none, "hdfs:///a"), None);
        assert_eq!(resolve(&none, "hdfs:a"), None);
        let some = conf(&[("fs.defaultFS", "hdfs://pair/"), ("dfs.ha.namenodes.pair", "one, two")]);
        assert_eq!(resolve(&some, "hdfs:///a").unwrap(), "pair /a");
        assert_eq!(resolve(&some, "hdfs://pair/a").unwrap(), "pair /a");
    }

    #[test]
    fn web_addresses_are_configured_or_default() {
        assert_eq!(HadoopConf::default().web_addresses("nn:9000"), ["nn:9870"]);
        assert_eq!(HadoopConf::default().web_addresses("nobody"), [""; 0]);
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
