//! Where a model's path leads: its real place on disk, and whether that is inside the project.
//!
//! A path is first made absolute and freed of `.` and `..` as text, as OpenCode does. Then every link on the way is
//! followed, also where the end does not exist yet, and only the real path decides what is inside: `vendor/x` is
//! outside when `vendor` is a link to somewhere else. Files are opened by that real path without following any link
//! (`files/open.rs`), so nothing changes between the judgement and the opening.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use protocol::JsonMap;
use serde_json::Value;

use crate::context::{Ask, Place, ToolContext};
use crate::error::ToolError;
use crate::files::looking;

/// Most links followed on the way to one file; what Linux allows.
const MAX_LINKS: usize = 40;

/// What a path is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading; the place where cut outputs are kept whole is inside too.
    Read,
    /// Writing.
    Write,
}

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Missing,
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// Something that is neither: a fifo, a device, a socket. The text names it.
    Special(&'static str),
}

/// A path that was looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// Absolute, without `.` and `..`, links as they were named: what the model and people see.
    pub shown: PathBuf,
    /// The same with every link followed: what is opened, locked and judged.
    pub real: PathBuf,
    /// What is there.
    pub kind: Kind,
    /// Whether it lies outside the project.
    pub outside: bool,
    /// Relative to the worktree (outside: absolute); by its name and, if that differs, by its real place.
    pub patterns: Vec<String>,
    /// Relative to the worktree, with `..` where it is outside; empty for the worktree itself.
    pub title: String,
}

impl Located {
    /// Looks a path up that a model gave. Relative ones count from the session's directory, `~` is the person's home.
    pub async fn of(cx: &ToolContext, path: &str, access: Access) -> Result<Self, ToolError> {
        let (place, path) = (cx.place.clone(), path.to_owned());
        looking(cx, move |_| Self::at(&place, &path, access)).await
    }

    /// Looks a path up; blocks. See [`Located::of`].
    pub fn at(place: &Place, path: &str, access: Access) -> Result<Self, ToolError> {
        let shown = absolute(&place.directory, path, std::env::home_dir().as_deref())?;
        let real = real_path(&shown).map_err(ToolError::io("resolving", &shown))?;
        let kind = kind_of(&real);
        if access == Access::Write && path.trim_end().ends_with('/') && kind != Kind::Directory {
            return Err(ToolError::failed(format!(
                "{path} names a directory. Give a file's path, with no `/` at its end."
            )));
        }
        let outside = !is_inside(place, &real, access);
        let mut patterns = vec![pattern(place, &shown, outside)];
        let by_real = pattern(&real_place(place), &real, outside);
        if !patterns.contains(&by_real) {
            patterns.push(by_real);
        }
        let title = relative(root(place), &shown).to_string_lossy().into_owned();
        Ok(Self { shown, real, kind, outside, patterns, title })
    }

    /// Returns the path as the model sees it.
    pub fn name(&self) -> String {
        self.shown.to_string_lossy().into_owned()
    }

    /// Returns what must be asked before anything is done there: nothing when it is inside.
    pub fn external(&self) -> Option<Ask> {
        if !self.outside {
            return None;
        }
        let directory = match self.kind {
            Kind::Directory => &*self.real,
            _ => self.real.parent().unwrap_or(&self.real),
        };
        let mut pattern = directory.to_string_lossy().into_owned();
        // A star or question mark in the name itself would allow more than this directory for good.
        let is_plain = !pattern.contains(['*', '?']);
        if !pattern.ends_with('/') {
            pattern.push('/');
        }
        pattern.push('*');
        let mut metadata = JsonMap::new();
        metadata.insert("filepath".into(), Value::from(self.real.to_string_lossy()));
        metadata.insert("parentDir".into(), Value::from(directory.to_string_lossy()));
        let always = if is_plain { vec![pattern.clone()] } else { Vec::new() };
        Some(Ask::new("external_directory", vec![pattern], always, metadata))
    }

    /// Asks for leave to go outside, where that is needed.
    pub async fn ask_external(&self, cx: &ToolContext) -> Result<(), ToolError> {
        self.ask_external_with(cx, None).await
    }

    /// Asks for leave to go outside, where that is needed, and shows the person what is to change there.
    pub(crate) async fn ask_external_with(&self, cx: &ToolContext, diff: Option<&str>) -> Result<(), ToolError> {
        let Some(mut ask) = self.external() else { return Ok(()) };
        if let Some(diff) = diff {
            ask.metadata.insert("diff".into(), diff.into());
        }
        cx.ask(ask).await
    }

    /// Asks whether the file may be changed as `diff` says.
    pub(crate) async fn ask_edit(&self, cx: &ToolContext, diff: &str) -> Result<(), ToolError> {
        let mut metadata = JsonMap::new();
        metadata.insert("filepath".into(), self.name().into());
        metadata.insert("diff".into(), diff.into());
        cx.ask(Ask::new("edit", self.patterns.clone(), vec!["*".into()], metadata)).await
    }
}

/// Returns the path that titles and patterns are relative to.
fn root(place: &Place) -> &Path {
    if place.is_repository && place.worktree != Path::new("/") { &place.worktree } else { &place.directory }
}

/// Returns the place with links followed; what can't be resolved stays.
fn real_place(place: &Place) -> Place {
    let real = |path: &Path| real_path(path).unwrap_or_else(|_| path.to_owned());
    Place { directory: real(&place.directory), worktree: real(&place.worktree), ..place.clone() }
}

fn pattern(place: &Place, path: &Path, outside: bool) -> String {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    if outside {
        return text(path);
    }
    match path.strip_prefix(root(place)).or_else(|_| path.strip_prefix(&place.directory)) {
        Ok(below) if below.as_os_str().is_empty() => ".".into(),
        Ok(below) => text(below),
        Err(_) => text(path),
    }
}

fn is_inside(place: &Place, real: &Path, access: Access) -> bool {
    let under = |root: &Path| real_path(root).is_ok_and(|root| real.starts_with(root));
    under(&place.directory)
        || (place.is_repository && place.worktree != Path::new("/") && under(&place.worktree))
        || (access == Access::Read && !place.spill.as_os_str().is_empty() && under(&place.spill))
}

/// Returns what is at a real path, without following a link at its end.
fn kind_of(real: &Path) -> Kind {
    match std::fs::symlink_metadata(real) {
        Ok(metadata) => kind_of_type(metadata.file_type()),
        Err(_) => Kind::Missing,
    }
}

/// Returns the kind for a file type.
pub(crate) fn kind_of_type(file_type: std::fs::FileType) -> Kind {
    use std::os::unix::fs::FileTypeExt;
    if file_type.is_file() {
        Kind::File
    } else if file_type.is_dir() {
        Kind::Directory
    } else if file_type.is_fifo() {
        Kind::Special("a fifo")
    } else if file_type.is_socket() {
        Kind::Special("a socket")
    } else if file_type.is_char_device() || file_type.is_block_device() {
        Kind::Special("a device")
    } else {
        Kind::Special("a symbolic link")
    }
}

/// Returns `path` made absolute and freed of `.` and `..`. Errors when it is empty or holds a NUL.
pub fn absolute(directory: &Path, path: &str, home: Option<&Path>) -> Result<PathBuf, ToolError> {
    if path.is_empty() {
        return Err(ToolError::failed("The path is empty. Give the path of a file or directory."));
    }
    if path.contains('\0') {
        return Err(ToolError::failed("The path contains a NUL character, which no file name can have."));
    }
    let below_home = path.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let path = match (below_home, home) {
        (Some(rest), Some(home)) => home.join(rest.trim_start_matches('/')),
        _ => directory.join(path),
    };
    Ok(normalize(&path))
}

/// Returns an absolute path freed of `.` and `..`, as text: no link is looked at.
pub fn normalize(path: &Path) -> PathBuf {
    let mut normal = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => normal.push(name),
            Component::ParentDir => {
                normal.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    normal
}

/// Returns an absolute path with every link followed. What doesn't exist, or can't be looked at, stays as named, but
/// a link that leads to nothing is followed too: writing there would make its target.
///
/// Errors when there are too many links.
pub fn real_path(path: &Path) -> io::Result<PathBuf> {
    let mut done = PathBuf::from("/");
    let mut links = 0;
    let mut todo = parts(path);
    while let Some(part) = todo.pop() {
        if part == ".." {
            done.pop();
            continue;
        }
        done.push(&part);
        match std::fs::symlink_metadata(&done) {
            Ok(metadata) if metadata.is_symlink() => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(io::Error::other("too many symbolic links on the way"));
                }
                let target = std::fs::read_link(&done)?;
                done.pop();
                if target.is_absolute() {
                    done = PathBuf::from("/");
                }
                todo.extend(parts(&target));
            }
            Ok(_) => {}
            Err(_) => {
                done.extend(todo.iter().rev());
                return Ok(normalize(&done));
            }
        }
    }
    Ok(done)
}

/// Returns the names in a path, last first.
fn parts(path: &Path) -> Vec<OsString> {
    path.components()
        .rev()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
        })
        .collect()
}

/// Returns the way from a directory to a path, both absolute and normal.
pub fn relative(from: &Path, to: &Path) -> PathBuf {
    let shared = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(to.components().skip(shared)).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::testing::context;

    fn temp() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        (dir, path)
    }

    fn locate(directory: &Path, path: &str) -> Located {
        let (cx, _) = context(directory);
        Located::at(&cx.place, path, Access::Read).unwrap()
    }

    #[test]
    fn relative_and_home_paths_become_absolute() {
        let home = Path::new("/home/me");
        let absolute = |path: &str| absolute(Path::new("/w/p"), path, Some(home)).unwrap();
        assert_eq!(absolute("a/./b/../c"), Path::new("/w/p/a/c"));
        assert_eq!(absolute("../../../x"), Path::new("/x"));
        assert_eq!(absolute("~"), home);
        assert_eq!(absolute("~/.zshrc"), Path::new("/home/me/.zshrc"));
        assert_eq!(absolute("~other/x"), Path::new("/w/p/~other/x"));
        assert_eq!(absolute("/etc//hosts/"), Path::new("/etc/hosts"));
    }

    #[test]
    fn impossible_paths_are_refused() {
        for path in ["", "a\0b"] {
            assert!(matches!(absolute(Path::new("/"), path, None), Err(ToolError::Failed(_))));
        }
    }

    #[test]
    fn the_way_between_paths() {
        let relative = |from: &str, to: &str| relative(Path::new(from), Path::new(to)).display().to_string();
        assert_eq!(relative("/a/b", "/a/b/c/d"), "c/d");
        assert_eq!(relative("/a/b", "/a/x"), "../x");
        assert_eq!(relative("/a/b", "/a/b"), "");
        assert_eq!(relative("/", "/a"), "a");
    }

    #[test]
    fn a_path_through_a_link_counts_where_it_really_is() {
        let (_keep, root) = temp();
        let (_keep, outside) = temp();
        symlink(&outside, root.join("vendor")).unwrap();
        let found = locate(&root, "vendor/sub/new.txt");
        assert_eq!(found.shown, root.join("vendor/sub/new.txt"));
        assert_eq!(found.real, outside.join("sub/new.txt"));
        assert!(found.outside);
        assert_eq!(found.kind, Kind::Missing);
        assert_eq!(found.title, "vendor/sub/new.txt");
        assert_eq!(found.external().unwrap().patterns, vec![format!("{}/sub/*", outside.display())]);
    }

    #[test]
    fn a_link_to_nothing_is_followed() {
        let (_keep, root) = temp();
        let (_keep, outside) = temp();
        symlink(outside.join("new.txt"), root.join("dangling")).unwrap();
        let found = locate(&root, "dangling");
        assert_eq!((found.real, found.outside), (outside.join("new.txt"), true));
    }

    #[test]
    fn links_in_a_circle_are_an_error() {
        let (_keep, root) = temp();
        symlink("b", root.join("a")).unwrap();
        symlink("a", root.join("b")).unwrap();
        let (cx, _) = context(&root);
        assert!(matches!(Located::at(&cx.place, "a", Access::Read), Err(ToolError::Io { .. })));
    }

    #[test]
    fn rules_see_a_linked_file_by_both_its_names() {
        let (_keep, root) = temp();
        std::fs::write(root.join(".env"), "").unwrap();
        symlink(".env", root.join("harmless.txt")).unwrap();
        assert_eq!(locate(&root, "harmless.txt").patterns, vec!["harmless.txt", ".env"]);
        assert_eq!(locate(&root, ".").patterns, vec!["."]);
    }

    #[test]
    fn a_linked_project_directory_is_inside_itself() {
        let (_keep, base) = temp();
        std::fs::create_dir(base.join("real")).unwrap();
        symlink("real", base.join("link")).unwrap();
        std::fs::write(base.join("real/a.txt"), "").unwrap();
        let found = locate(&base.join("link"), "a.txt");
        assert!(!found.outside);
        assert_eq!(found.patterns, vec!["a.txt"]);
        assert_eq!(found.real, base.join("real/a.txt"));
    }

    #[test]
    fn the_request_for_a_file_outside_names_its_directory() {
        let (_keep, base) = temp();
        std::fs::create_dir_all(base.join("project")).unwrap();
        std::fs::write(base.join("outside.txt"), "out").unwrap();
        let ask = locate(&base.join("project"), "../outside.txt").external().unwrap();
        let parent = base.display().to_string();
        assert_eq!(ask.patterns, vec![format!("{parent}/*")]);
        assert_eq!(ask.always, ask.patterns);
        assert_eq!(
            Value::Object(ask.metadata),
            json!({"filepath": format!("{parent}/outside.txt"), "parentDir": parent})
        );
        let directory = locate(&base.join("project"), "..");
        assert_eq!(directory.external().unwrap().patterns, vec![format!("{parent}/*")]);
        assert_eq!(locate(&base.join("project"), "../outside.txt").title, "../outside.txt");
    }

    #[test]
    fn kept_outputs_are_inside_for_reading_only() {
        let (_keep, root) = temp();
        let (_keep, spill) = temp();
        let (cx, _) = context(&root);
        let place = Place { spill: spill.clone(), ..(*cx.place).clone() };
        let path = spill.join("tool_1").display().to_string();
        assert!(!Located::at(&place, &path, Access::Read).unwrap().outside);
        assert!(Located::at(&place, &path, Access::Write).unwrap().outside);
    }

    #[test]
    fn a_worktree_that_is_the_whole_disk_makes_nothing_inside() {
        let (_keep, root) = temp();
        let (cx, _) = context(&root);
        let place = Place { worktree: "/".into(), ..(*cx.place).clone() };
        assert!(Located::at(&place, "/etc/hostname", Access::Read).unwrap().outside);
    }
}
