//! Tokens for the loopback port, in the file `tokens` of the cluster directory: one line for each, with its name, what it may do, when it was created, when it
//! expires, and the SHA-256 of its secret. `giveway token` changes the file, and a running server notices it, so a revoked token is refused with the next request.

use getrandom::fill;
use giveway_engine::is_root;
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use strum::{Display, EnumString};
use subtle::ConstantTimeEq;
use thiserror::Error;

/// How long the token of a link to the dashboard is valid.
const LINK_LIFETIME: Duration = Duration::from_secs(12 * 3600);

/// The name of the token in the file `token`.
const OWNER: &str = "owner";

/// Limits on names and on the file.
const NAME_BYTES_MAX: usize = 64;
const TOKENS_MAX: usize = 1000;
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumString)]
#[strum(serialize_all = "kebab-case")]
pub enum Purpose {
    /// Read everything that the API shows.
    Read,
    /// Also submit jobs, which belong to the user of the token's name, and kill and yield that user's jobs.
    Submit,
    /// Also submit jobs for anybody, kill and yield all jobs, and reload policy and tenants.
    Administer,
}

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The user or program that has it.
    pub name: String,
    pub purpose: Purpose,
    /// Seconds of the Unix epoch.
    pub created_s: u64,
    /// Seconds of the Unix epoch; none if it does not expire.
    pub expires_s: Option<u64>,
    digest: [u8; 32],
}

/// Why tokens cannot be used or changed.
#[derive(Debug, Error)]
pub enum TokenError {
    #[error("invalid name `{0}`: use 1 to {NAME_BYTES_MAX} letters, digits, `-`, `_`, `.` and `@`")]
    Name(String),
    #[error("there is a token `{0}` already; rotate or revoke it, or choose another name")]
    Exists(String),
    #[error("there is no token `{0}`; `giveway token list` shows all")]
    Unknown(String),
    #[error("there are {TOKENS_MAX} tokens; revoke those that nobody uses")]
    TooMany,
    #[error("`{0}` is the name of a token that the cluster makes itself; choose another one")]
    Reserved(String),
    #[error(
        "jobs that are submitted with this token would run as root; use --may read, or run the cluster as a user of its own, as the Debian package does"
    )]
    Root,
    #[error("cannot use {}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
}

impl Token {
    fn new(name: &str, purpose: Purpose, lifetime: Option<Duration>, secret: &str) -> Token {
        let created_s = now_s();
        let expires_s = lifetime.map(|lifetime| created_s.saturating_add(lifetime.as_secs()));
        Token { name: name.to_owned(), purpose, created_s, expires_s, digest: digest(secret) }
    }

    /// True if it can no longer be used.
    pub fn is_expired(&self) -> bool {
        self.expires_s.is_some_and(|at| at <= now_s())
    }

    /// How long it can still be used, in seconds; none without end.
    pub fn left_s(&self) -> Option<u64> {
        self.expires_s.map(|at| at.saturating_sub(now_s()))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let expires = self.expires_s.map_or_else(|| "never".to_owned(), |at| at.to_string());
        write!(f, "{} {} {} {expires} {}", self.name, self.purpose, self.created_s, hex(&self.digest))
    }
}

impl FromStr for Token {
    type Err = ();

    fn from_str(line: &str) -> Result<Token, ()> {
        let fields: Vec<&str> = line.split(' ').collect();
        let [name, purpose, created, expires, digest] = fields[..] else { return Err(()) };
        let expires_s = if expires == "never" { None } else { Some(expires.parse().map_err(|_| ())?) };
        let mut bytes = [0; 32];
        if digest.len() != 64 || !digest.is_ascii() {
            return Err(());
        }
        for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&digest[at..at + 2], 16).map_err(|_| ())?;
        }
        Ok(Token {
            name: check_name(name).map_err(|_| ())?.to_owned(),
            purpose: purpose.parse().map_err(|_| ())?,
            created_s: created.parse().map_err(|_| ())?,
            expires_s,
            digest: bytes,
        })
    }
}

/// The tokens of a cluster.
#[derive(Debug)]
pub struct TokenFile {
    path: PathBuf,
    is_of_root: bool,
    read: Mutex<(Stamp, Arc<Vec<Token>>)>,
}

/// Differs if the file has been replaced: inode, size, and time of the last change.
type Stamp = (u64, u64, i64, i64);

impl TokenFile {
    /// The tokens of the cluster in a folder.
    pub fn new(folder: &Path) -> TokenFile {
        TokenFile { path: folder.join("tokens"), is_of_root: is_root(), read: Mutex::default() }
    }

    /// All tokens, in the order of their creation.
    pub fn list(&self) -> Result<Vec<Token>, TokenError> {
        self.load().map_err(|error| self.failed(error))
    }

    /// Creates a token and returns its secret, which is stored nowhere.
    pub fn create(&self, name: &str, purpose: Purpose, lifetime: Option<Duration>) -> Result<String, TokenError> {
        check_not_reserved(check_name(name)?)?;
        if purpose != Purpose::Read && self.is_of_root {
            return Err(TokenError::Root);
        }
        self.change(|tokens| {
            if tokens.iter().any(|token| token.name == name) {
                return Err(TokenError::Exists(name.to_owned()));
            }
            let secret = self.new_secret()?;
            tokens.push(Token::new(name, purpose, lifetime, &secret));
            Ok(secret)
        })
    }

    /// Replaces a token's secret, with the same lifetime from now on, and returns the new one.
    pub fn rotate(&self, name: &str) -> Result<String, TokenError> {
        check_not_reserved(name)?;
        self.change(|tokens| {
            let token = tokens.iter_mut().find(|token| token.name == name);
            let token = token.ok_or_else(|| TokenError::Unknown(name.to_owned()))?;
            let lifetime = token.expires_s.map(|at| Duration::from_secs(at.saturating_sub(token.created_s)));
            let secret = self.new_secret()?;
            *token = Token::new(name, token.purpose, lifetime, &secret);
            Ok(secret)
        })
    }

    /// Removes these tokens, or all. Fails if one does not exist, and then removes none.
    pub fn revoke(&self, names: Option<&[String]>) -> Result<(), TokenError> {
        self.change(|tokens| {
            let Some(names) = names else {
                tokens.clear();
                return Ok(());
            };
            if let Some(unknown) = names.iter().find(|name| tokens.iter().all(|token| token.name != **name)) {
                return Err(TokenError::Unknown(unknown.clone()));
            }
            tokens.retain(|token| !names.contains(&token.name));
            Ok(())
        })
    }

    /// Creates the token of a link to the dashboard: it may read, for half a day.
    pub fn create_for_link(&self) -> Result<String, TokenError> {
        let secret = self.new_secret()?;
        // Not a part of the secret that is in the link.
        let name = format!("{LINK_PREFIX}{}", &hex(&digest(&secret))[..8]);
        self.change(|tokens| {
            tokens.push(Token::new(&name, Purpose::Read, Some(LINK_LIFETIME), &secret));
            Ok(())
        })?;
        Ok(secret)
    }

    /// Replaces the owner's token, which may do everything, in the file `token` beside this one.
    pub fn renew_owner(&self) -> Result<(), TokenError> {
        let secret = self.new_secret()?;
        let path = self.path.with_file_name("token");
        self.change(|tokens| {
            tokens.retain(|token| token.name != OWNER);
            tokens.push(Token::new(OWNER, Purpose::Administer, None, &secret));
            replace(&path, format!("{secret}\n").as_bytes())
                .map_err(|error| TokenError::File { path: path.clone(), error })
        })
    }

    /// The valid token with this secret. Without a readable file there is none.
    pub(super) fn find(&self, secret: &str) -> Option<Token> {
        let stamp = fs::metadata(&self.path).ok().map(|found| stamp(&found))?;
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if read.0 != stamp {
            let tokens = self.load().unwrap_or_else(|error| {
                tracing::warn!("no token is valid: {}", self.failed(error));
                Vec::new()
            });
            *read = (stamp, Arc::new(tokens));
        }
        let tokens = Arc::clone(&read.1);
        drop(read);
        let wanted = digest(secret);
        let found = tokens.iter().find(|token| bool::from(token.digest.ct_eq(&wanted)));
        let is_usable = |token: &&Token| {
            // Others than the owner's submit no jobs that run as root, whenever they were created.
            let is_permitted = token.purpose == Purpose::Read || token.name == OWNER || !self.is_of_root;
            is_permitted && !token.is_expired()
        };
        found.filter(is_usable).cloned()
    }

    fn load(&self) -> io::Result<Vec<Token>> {
        let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        let file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            opened => opened?,
        };
        if file.metadata()?.mode() & 0o077 != 0 {
            return Err(invalid("other users can access it; run `chmod 600` on it".into()));
        }
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
        let parse = |(number, line): (usize, &str)| {
            line.parse().map_err(|()| invalid(format!("line {} is not a token; remove it", number + 1)))
        };
        text.lines().enumerate().map(parse).collect()
    }

    /// Changes the tokens. Those that have expired are removed.
    fn change<T>(&self, change: impl FnOnce(&mut Vec<Token>) -> Result<T, TokenError>) -> Result<T, TokenError> {
        let failed = |error| self.failed(error);
        // Commands may run at the same time.
        let lock = private(&self.path.with_extension("lock")).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let mut tokens = self.list()?;
        tokens.retain(|token| !token.is_expired());
        let changed = change(&mut tokens)?;
        // A cluster can always start, and renew the owner's.
        if tokens.iter().filter(|token| token.name != OWNER).count() > TOKENS_MAX {
            return Err(TokenError::TooMany);
        }
        let text: String = tokens.iter().map(|token| format!("{token}\n")).collect();
        replace(&self.path, text.as_bytes()).map_err(failed)?;
        Ok(changed)
    }

    fn new_secret(&self) -> Result<String, TokenError> {
        random_secret().map_err(|error| self.failed(error))
    }

    fn failed(&self, error: io::Error) -> TokenError {
        TokenError::File { path: self.path.clone(), error }
    }
}

/// 64 random hexadecimal digits.
pub(super) fn random_secret() -> io::Result<String> {
    let mut bytes = [0; 32];
    fill(&mut bytes).map_err(io::Error::other)?;
    Ok(hex(&bytes))
}

fn check_name(name: &str) -> Result<&str, TokenError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte);
    match (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain) {
        true => Ok(name),
        false => Err(TokenError::Name(name.to_owned())),
    }
}

/// The token of a link has a name that begins with this.
const LINK_PREFIX: &str = "link-";

fn check_not_reserved(name: &str) -> Result<(), TokenError> {
    match name == OWNER || name.starts_with(LINK_PREFIX) {
        true => Err(TokenError::Reserved(name.to_owned())),
        false => Ok(()),
    }
}

fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn now_s() -> u64 {
    // A clock before 1970 counts as 1970.
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn stamp(found: &fs::Metadata) -> Stamp {
    (found.ino(), found.len(), found.mtime(), found.mtime_nsec())
}

/// Opens a file that only its owner can read. Creates it if it does not exist.
fn private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Replaces a file in one step by one that only its owner can read.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    // Otherwise a token that was revoked could be there again after a power cut.
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const DAY: Duration = Duration::from_secs(86_400);

    /// The tokens in a new folder, of an owner who is not root.
    fn tokens() -> (TokenFile, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        (tokens_of(folder.path(), false), folder)
    }

    fn tokens_of(folder: &Path, is_of_root: bool) -> TokenFile {
        TokenFile { is_of_root, ..TokenFile::new(folder) }
    }

    #[test]
    fn tokens_of_others_submit_no_jobs_that_run_as_root() {
        let (tokens, folder) = tokens();
        let submit = tokens.create("ann", Purpose::Submit, None).unwrap();
        let read = tokens.create("bob", Purpose::Read, None).unwrap();
        assert!(tokens.find(&submit).is_some());
        // The same cluster, started by root.
        let of_root = tokens_of(folder.path(), true);
        assert_eq!(of_root.find(&submit), None);
        assert!(of_root.find(&read).is_some());
        for purpose in [Purpose::Submit, Purpose::Administer] {
            assert!(matches!(of_root.create("eve", purpose, None), Err(TokenError::Root)));
        }
        of_root.create("eve", Purpose::Read, None).unwrap();
        of_root.renew_owner().unwrap();
        let owner = fs::read_to_string(folder.path().join("token")).unwrap();
        assert_eq!(of_root.find(owner.trim()).unwrap().purpose, Purpose::Administer);
    }

    /// The cluster replaces these, and the first would even have other rights then.
    #[test]
    fn names_of_the_clusters_own_tokens_are_refused() {
        let (tokens, _folder) = tokens();
        for name in ["owner", "link-0"] {
            assert!(matches!(tokens.create(name, Purpose::Read, None), Err(TokenError::Reserved(_))), "{name}");
        }
        tokens.renew_owner().unwrap();
        assert!(matches!(tokens.rotate("owner"), Err(TokenError::Reserved(_))));
    }

    #[test]
    fn a_cluster_starts_however_many_tokens_there_are() {
        let (tokens, _folder) = tokens();
        let fill = |all: &mut Vec<Token>| {
            all.extend((0..TOKENS_MAX).map(|number| Token::new(&format!("t{number}"), Purpose::Read, None, "")));
            Ok(())
        };
        tokens.change(fill).unwrap();
        tokens.renew_owner().unwrap();
        tokens.renew_owner().unwrap();
        assert!(matches!(tokens.create("another", Purpose::Read, None), Err(TokenError::TooMany)));
    }

    #[test]
    fn a_token_is_valid_until_it_is_rotated_or_revoked() {
        let (tokens, folder) = tokens();
        assert_eq!(tokens.find(""), None);
        let first = tokens.create("ann", Purpose::Submit, Some(DAY)).unwrap();
        let found = tokens.find(&first).unwrap();
        assert_eq!((found.name.as_str(), found.purpose), ("ann", Purpose::Submit));
        assert_eq!(found.expires_s, Some(found.created_s + 86_400));
        let stored = fs::read_to_string(folder.path().join("tokens")).unwrap();
        assert!(!stored.contains(&first), "the secret is not stored");
        assert_eq!(fs::metadata(folder.path().join("tokens")).unwrap().mode() & 0o777, 0o600);
        assert!(matches!(tokens.create("ann", Purpose::Read, None), Err(TokenError::Exists(_))));
        // As another process does.
        let second = TokenFile::new(folder.path()).rotate("ann").unwrap();
        assert_eq!(tokens.find(&first), None);
        assert_eq!(tokens.find(&second).unwrap().purpose, Purpose::Submit);
        tokens.create("bob", Purpose::Read, None).unwrap();
        assert!(matches!(tokens.revoke(Some(&["ann".into(), "eve".into()])), Err(TokenError::Unknown(_))));
        assert!(tokens.find(&second).is_some());
        TokenFile::new(folder.path()).revoke(Some(&["ann".into()])).unwrap();
        assert_eq!(tokens.find(&second), None);
        assert_eq!(tokens.list().unwrap().len(), 1);
        tokens.revoke(None).unwrap();
        assert!(tokens.list().unwrap().is_empty());
    }

    #[test]
    fn an_expired_token_is_refused_and_removed_with_the_next_change() {
        let (tokens, _folder) = tokens();
        let expired = tokens.create("old", Purpose::Read, Some(Duration::ZERO)).unwrap();
        assert_eq!(tokens.find(&expired), None);
        let link = tokens.create_for_link().unwrap();
        let found = tokens.find(&link).unwrap();
        assert_eq!(found.purpose, Purpose::Read);
        assert!(!link.contains(found.name.trim_start_matches("link-")), "the name tells nothing of the secret");
        assert_eq!(tokens.list().unwrap(), [found]);
    }

    #[test]
    fn the_owners_token_is_new_each_time() {
        let (tokens, folder) = tokens();
        let secret = || fs::read_to_string(folder.path().join("token")).unwrap().trim().to_owned();
        tokens.renew_owner().unwrap();
        let first = secret();
        assert_eq!(tokens.find(&first).unwrap().purpose, Purpose::Administer);
        assert_eq!(fs::metadata(folder.path().join("token")).unwrap().mode() & 0o777, 0o600);
        tokens.renew_owner().unwrap();
        assert_eq!(tokens.find(&first), None);
        assert!(tokens.find(&secret()).is_some());
    }

    #[test]
    fn a_file_that_others_can_read_or_that_is_damaged_has_no_valid_token() {
        let (tokens, folder) = tokens();
        let secret = tokens.create("ann", Purpose::Read, None).unwrap();
        let path = folder.path().join("tokens");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(tokens.list().unwrap_err().to_string().contains("chmod 600"));
        assert_eq!(TokenFile::new(folder.path()).find(&secret), None);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        for damaged in ["x", "ann read 1 never 00", "ann write 1 never ", "a\u{e9} read 1 never "] {
            let line = if damaged.ends_with(' ') { format!("{damaged}{}", "0".repeat(64)) } else { damaged.into() };
            fs::write(&path, line + "\n").unwrap();
            assert!(tokens.list().unwrap_err().to_string().contains("line 1 is not a token"), "{damaged}");
        }
        for name in ["", "a b", "a\n", "ä", &"a".repeat(65)] {
            assert!(matches!(tokens.create(name, Purpose::Read, None), Err(TokenError::Name(_))), "{name:?}");
        }
    }
}
