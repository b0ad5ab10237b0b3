//! Other people's repositories: what a model may name, and where its clone is kept.

use std::path::{Path, PathBuf};

use url::Url;

use crate::error::ToolError;

/// Where repositories are that are named by owner and name alone.
const DEFAULT_HOST: &str = "github.com";

/// A repository somewhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repository {
    /// `github.com`, with the port where one was named.
    pub(crate) host: String,
    /// `owner/name`, with the groups some hosts have before it.
    pub(crate) path: String,
    /// What git is given.
    pub(crate) remote: String,
}

impl Repository {
    /// Reads `owner/name`, `host/owner/name`, a url, or `git@host:owner/name`.
    pub(crate) fn parse(text: &str) -> Result<Self, ToolError> {
        let bad = || {
            ToolError::failed(format!(
                "{text:?} names no repository. Give owner/name (on GitHub), host/owner/name, or the url to clone from."
            ))
        };
        let text = text.trim();
        if let Some((user, (host, path))) = text.split_once('@').and_then(|(u, rest)| Some((u, rest.split_once(':')?)))
            && !user.contains(['/', ':'])
            && !path.starts_with('/')
        {
            return Self::checked(host, path, Some(text.to_owned())).ok_or_else(bad);
        }
        if text.contains("://") {
            let url = Url::parse(text).map_err(|_| bad())?;
            if !matches!(url.scheme(), "https" | "http" | "ssh" | "git") || url.password().is_some() {
                return Err(bad());
            }
            let host = url.host_str().ok_or_else(bad)?;
            let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
            return Self::checked(&host, url.path(), Some(text.to_owned())).ok_or_else(bad);
        }
        match text.split('/').collect::<Vec<_>>().as_slice() {
            [_, _] => Self::checked(DEFAULT_HOST, text, None),
            [host, ..] if host.contains('.') => {
                let path = text.split_once('/').map_or("", |(_, path)| path);
                Self::checked(host, path, None)
            }
            _ => None,
        }
        .ok_or_else(bad)
    }

    /// Nothing that git takes for an option, and nothing that leads out of the place of clones.
    fn checked(host: &str, path: &str, remote: Option<String>) -> Option<Self> {
        let path = path.trim_matches('/');
        let path = path.strip_suffix(".git").unwrap_or(path);
        let is_name = |name: &str| {
            !name.is_empty()
                && !name.starts_with(['.', '-'])
                && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-~+".contains(c))
        };
        let is_host = is_name(&host.replacen(':', "", 1)) && !remote.as_ref().is_some_and(|r| r.starts_with('-'));
        let parts: Vec<&str> = path.split('/').collect();
        if !is_host || parts.len() < 2 || !parts.iter().all(|part| is_name(part)) {
            return None;
        }
        let remote = remote.unwrap_or_else(|| format!("https://{host}/{path}.git"));
        Some(Self { host: host.to_owned(), path: path.to_owned(), remote })
    }

    /// Returns its name for people and rules: without the host where that is GitHub.
    pub(crate) fn label(&self) -> String {
        if self.host == DEFAULT_HOST { self.path.clone() } else { format!("{}/{}", self.host, self.path) }
    }

    /// Returns where its clone is.
    pub(crate) fn place(&self, clones: &Path) -> PathBuf {
        clones.join(self.host.replace(':', "_")).join(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_repository_is_named_in_many_ways() {
        for (text, host, path, remote) in [
            ("actix/actix-web", "github.com", "actix/actix-web", "https://github.com/actix/actix-web.git"),
            ("gitlab.com/a/b/c", "gitlab.com", "a/b/c", "https://gitlab.com/a/b/c.git"),
            ("https://github.com/a/b.git", "github.com", "a/b", "https://github.com/a/b.git"),
            ("http://git.local:3000/a/b/", "git.local:3000", "a/b", "http://git.local:3000/a/b/"),
            ("git@github.com:a/b.git", "github.com", "a/b", "git@github.com:a/b.git"),
            ("ssh://git@host.org/a/b", "host.org", "a/b", "ssh://git@host.org/a/b"),
        ] {
            let found = Repository::parse(text).unwrap();
            assert_eq!((&*found.host, &*found.path, &*found.remote), (host, path, remote), "{text}");
        }
        assert_eq!(Repository::parse("a/b").unwrap().label(), "a/b");
        assert_eq!(Repository::parse("x.org/a/b").unwrap().label(), "x.org/a/b");
        let place = Repository::parse("http://git.local:3000/a/b").unwrap().place(Path::new("/c"));
        assert_eq!(place, Path::new("/c/git.local_3000/a/b"));
    }

    #[test]
    fn what_is_no_public_repository_is_refused() {
        for text in [
            "",
            "a",
            "a/../b",
            "--upload-pack=x/y",
            "file:///etc/x",
            "ext::sh -c x/y",
            "https://me:secret@x.org/a/b",
            "../a/b",
            "a/b c",
            "-o@x:a/b",
            "git@x:/etc/b",
            "https://x.org/a",
            "/etc/passwd",
        ] {
            assert!(Repository::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_name_leads_out_of_the_place_of_clones(text in "[a-z./:@~ -]{0,24}") {
            if let Ok(found) = Repository::parse(&text) {
                let place = found.place(Path::new("/clones"));
                prop_assert!(crate::path::normalize(&place) == place && place.starts_with("/clones"));
                prop_assert!(!found.remote.starts_with('-'));
            }
        }
    }
}
