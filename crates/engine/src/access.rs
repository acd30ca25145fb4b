//! Access of other users to a cluster: who is admitted, and the socket they connect to.
//!
//! The owner's processes use the socket in the private folder and the token. Other users can read neither. If the owner admits some, there is a second
//! socket, whose path follows from that of the cluster directory: `/tmp/giveway-shared-OWNER/NAME`. Everybody may connect to it. The coordinator asks the
//! kernel who that is (`SO_PEERCRED`), and the client asks the kernel whether the coordinator belongs to the owner of the cluster directory.

use rustix::process::geteuid;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The users who have access beside the owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    users: Vec<Admitted>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Admitted {
    uid: u32,
    name: String,
    is_admin: bool,
}

/// A user at the other end of a connection, as the kernel reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) name: String,
    /// May change jobs of others.
    pub(crate) is_admin: bool,
}

impl Access {
    /// Admits Unix users by name. Fails if one does not exist.
    pub fn new(users: &[String], admins: &[String]) -> io::Result<Access> {
        let admit = |name: &String, is_admin| {
            let uid = uid_of(name)?.ok_or_else(|| {
                io::Error::new(io::ErrorKind::NotFound, format!("there is no user `{name}`; check [access]"))
            })?;
            Ok(Admitted { uid, name: name.clone(), is_admin })
        };
        let admins = admins.iter().map(|name| admit(name, true));
        // Admins first: somebody who is in both lists is one.
        let all = admins.chain(users.iter().map(|name| admit(name, false)));
        Ok(Access { users: all.collect::<io::Result<_>>()? })
    }

    /// True if nobody but the owner has access.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// How this differs from what was in force before, a line for each user.
    pub(crate) fn changes_since(&self, before: &Access) -> Vec<String> {
        let role = |of: &Access, uid| of.users.iter().find(|user| user.uid == uid).map(|user| user.is_admin);
        let names: BTreeMap<&str, u32> =
            before.users.iter().chain(&self.users).map(|user| (user.name.as_str(), user.uid)).collect();
        let line = |(name, uid): (&str, u32)| match (role(before, uid), role(self, uid)) {
            (old, new) if old == new => None,
            (_, Some(true)) => Some(format!("access: {name} is admitted as admin")),
            (_, Some(false)) => Some(format!("access: {name} is admitted as user")),
            (_, None) => Some(format!("access: {name} is not admitted any more")),
        };
        names.into_iter().filter_map(line).collect()
    }

    /// The admitted user with this id. The owner and root are admins.
    pub(crate) fn caller(&self, uid: u32) -> Option<Caller> {
        if uid == geteuid().as_raw() || uid == 0 {
            return Some(Caller { name: user_name(uid), is_admin: true });
        }
        let admitted = self.users.iter().find(|user| user.uid == uid)?;
        Some(Caller { name: admitted.name.clone(), is_admin: admitted.is_admin })
    }
}

/// The most connections that one other user may have open, and all of them: the coordinator has a thread and a file descriptor for each.
const CONNECTIONS_OF_USER_MAX: usize = 64;
const CONNECTIONS_MAX: usize = 256;

/// The open connections of other users.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenConnections(Arc<Mutex<HashMap<u32, UserConnections>>>);

#[derive(Debug, Default)]
struct UserConnections {
    open: usize,
    turn: Arc<Mutex<()>>,
}

/// A connection of a user, which counts until it is dropped.
#[derive(Debug)]
pub(crate) struct CountedConnection {
    all: OpenConnections,
    uid: u32,
    /// Held while the coordinator handles a request of this user: a user who asks all the time, over however many connections, takes as much of its time as one
    /// who does so over a single one.
    pub(crate) turn: Arc<Mutex<()>>,
}

impl OpenConnections {
    /// Counts a connection of a user. Fails with the reason if there are too many.
    pub(crate) fn begin(&self, uid: u32) -> Result<CountedConnection, String> {
        let mut all = self.lock();
        if all.values().map(|user| user.open).sum::<usize>() >= CONNECTIONS_MAX {
            return Err(format!(
                "{CONNECTIONS_MAX} connections of users to this cluster are open, the most; try again"
            ));
        }
        let user = all.entry(uid).or_default();
        if user.open >= CONNECTIONS_OF_USER_MAX {
            return Err(format!(
                "you have {CONNECTIONS_OF_USER_MAX} connections to this cluster open, the most for one user; end commands that wait or follow"
            ));
        }
        user.open += 1;
        Ok(CountedConnection { all: self.clone(), uid, turn: Arc::clone(&user.turn) })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, UserConnections>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        if let Some(user) = all.get_mut(&self.uid) {
            user.open -= 1;
            if user.open == 0 {
                all.remove(&self.uid);
            }
        }
    }
}

/// True if what this process runs has all rights. Jobs run as the owner of their cluster, so a cluster of root runs jobs of root only.
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// What somebody without access is told.
pub(crate) fn no_access(owner: u32, user: u32) -> String {
    let (owner, user) = (user_name(owner), user_name(user));
    format!("this cluster belongs to {owner}, who has not admitted {user}; ask {owner} to {}", admission(&user))
}

/// What somebody is told whom no cluster answers.
pub(crate) fn no_answer(owner: u32, user: u32) -> String {
    let (owner, user) = (user_name(owner), user_name(user));
    format!(
        "this cluster belongs to {owner}, and it is not running or has not admitted {user}; ask {owner} to start it, or to {}",
        admission(&user)
    )
}

fn admission(user: &str) -> String {
    format!("add \"{user}\" to `users` under [access] in the tenants file and run `giveway reload`")
}

/// The path of the socket for other users, from the path of a cluster directory and the folder's owner.
pub(crate) fn shared_socket(folder: &Path, owner: u32) -> io::Result<PathBuf> {
    let folder = folder.canonicalize()?;
    let digest = Sha256::digest(folder.as_os_str().as_bytes());
    let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    Ok(PathBuf::from(format!("/tmp/giveway-shared-{owner}")).join(name))
}

/// Creates the folder of a shared socket: everybody can pass through it, only its owner can change it.
pub(crate) fn create_shared_folder(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o711).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        // The umask may have removed what others need.
        created => return created.and_then(|()| fs::set_permissions(folder, fs::Permissions::from_mode(0o711))),
    }
    let found = fs::symlink_metadata(folder)?;
    if found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o022 == 0 {
        return Ok(());
    }
    let text =
        format!("{} is not a directory that belongs to you and only you can change; remove it", folder.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

/// The user who runs this process: as named by `USER`, or by the system if that is not set, as in most containers.
pub fn current_user() -> String {
    let named = std::env::var("USER").ok().filter(|name| !name.is_empty());
    named.unwrap_or_else(|| user_name(geteuid().as_raw()))
}

/// The name of a user, or its number if it has none. Each is looked up once: that starts a process, and may wait for a directory service.
pub(crate) fn user_name(uid: u32) -> String {
    static NAMES: Mutex<BTreeMap<u32, String>> = Mutex::new(BTreeMap::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    names.entry(uid).or_insert_with(|| look_up_name(uid)).clone()
}

fn look_up_name(uid: u32) -> String {
    let entry = passwd_entry(&uid.to_string(), |fields| fields.get(2) == Some(&uid.to_string().as_str()));
    entry.ok().flatten().map_or_else(|| uid.to_string(), |entry| entry.0)
}

fn uid_of(name: &str) -> io::Result<Option<u32>> {
    Ok(passwd_entry(name, |fields| fields.first() == Some(&name))?.filter(|entry| entry.0 == name).map(|entry| entry.1))
}

/// Name and number of a user. `getent` knows users of directory services too; without it only `/etc/passwd` is read.
fn passwd_entry(key: &str, is_it: impl Fn(&[&str]) -> bool) -> io::Result<Option<(String, u32)>> {
    let text = match Command::new("getent").args(["passwd", "--", key]).output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(_) => fs::read_to_string("/etc/passwd")?,
    };
    let parse = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        is_it(&fields).then(|| Some((fields.first()?.to_string(), fields.get(2)?.parse().ok()?)))?
    };
    Ok(text.lines().find_map(parse))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_admitted_by_name() {
        assert_eq!((uid_of("root").unwrap(), user_name(0)), (Some(0), "root".into()));
        assert_eq!(uid_of("0").unwrap(), None, "a number is not a name");
        let unknown = Access::new(&["no-such-user".into()], &[]).unwrap_err().to_string();
        assert!(unknown.contains("no-such-user"), "{unknown}");
        let access = Access::new(&["daemon".into()], &[]).unwrap();
        let daemon = uid_of("daemon").unwrap().unwrap();
        assert_eq!(access.caller(daemon), Some(Caller { name: "daemon".into(), is_admin: false }));
        assert_eq!(access.caller(4_000_000), None);
        assert!(access.caller(geteuid().as_raw()).unwrap().is_admin);
    }

    #[test]
    fn changes_of_access_are_listed_by_user() {
        let access = |users: &[&str], admins: &[&str]| {
            let names = |list: &[&str]| list.iter().map(|&name| name.to_owned()).collect::<Vec<String>>();
            Access::new(&names(users), &names(admins)).unwrap()
        };
        let before = access(&["daemon", "bin"], &["sys"]);
        assert_eq!(before.changes_since(&before), [""; 0]);
        let after = access(&["daemon", "root"], &["sys", "daemon"]);
        let expected = ["bin is not admitted any more", "daemon is admitted as admin", "root is admitted as user"];
        assert_eq!(after.changes_since(&before), expected.map(|line| format!("access: {line}")));
    }

    #[test]
    fn connections_are_limited_for_each_user_and_in_all() {
        let connections = OpenConnections::default();
        let mut open: Vec<_> = (0..CONNECTIONS_OF_USER_MAX).map(|_| connections.begin(1).unwrap()).collect();
        assert!(connections.begin(1).unwrap_err().contains("you have 64"));
        drop(connections.begin(2).expect("another user is not affected"));
        open.pop();
        open.push(connections.begin(1).unwrap());
        open.extend((64..CONNECTIONS_MAX as u32).map(|user| connections.begin(user).unwrap()));
        assert!(connections.begin(2).unwrap_err().contains("256 connections of users"));
        open.clear();
        assert!(connections.lock().is_empty());
    }

    #[test]
    fn a_shared_folder_that_others_can_change_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("shared");
        create_shared_folder(&folder).unwrap();
        create_shared_folder(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o711);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(create_shared_folder(&folder).is_err());
    }
}
