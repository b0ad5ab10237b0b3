//! What the results of `read` and `glob` tell of a project.

use std::collections::BTreeMap;

/// Files whose name says what a project is made with, best known first.
const MANIFESTS: [(&str, &str); 22] = [
    ("Cargo.toml", "Rust (Cargo)"),
    ("package.json", "JavaScript or TypeScript (npm)"),
    ("pyproject.toml", "Python"),
    ("go.mod", "Go"),
    ("pom.xml", "Java (Maven)"),
    ("build.gradle.kts", "Kotlin or Java (Gradle)"),
    ("build.gradle", "Java or Kotlin (Gradle)"),
    ("deno.json", "JavaScript or TypeScript (Deno)"),
    ("composer.json", "PHP (Composer)"),
    ("Gemfile", "Ruby (Bundler)"),
    ("mix.exs", "Elixir (Mix)"),
    ("Package.swift", "Swift"),
    ("pubspec.yaml", "Dart or Flutter"),
    ("build.zig", "Zig"),
    ("setup.py", "Python"),
    ("requirements.txt", "Python"),
    ("CMakeLists.txt", "C or C++ (CMake)"),
    ("Makefile", "make"),
    ("flake.nix", "Nix"),
    ("Dockerfile", "a container image"),
    ("AGENTS.md", "instructions for agents, which the system prompt takes in"),
    ("opencode.json", "configuration of the agents here"),
];

/// The top of a project's tree.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Listing {
    pub(super) folders: usize,
    pub(super) files: Vec<String>,
}

/// What a README says at its beginning.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Readme {
    pub(super) title: Option<String>,
    pub(super) paragraph: Option<String>,
}

impl Listing {
    /// Reads the result of `read` on a directory: `<entries>`, a name a line, folders with a `/` behind.
    pub(super) fn read(output: &str) -> Self {
        let (_, entries) = output.split_once("<entries>").unwrap_or_default();
        let (entries, _) = entries.split_once("</entries>").unwrap_or((entries, ""));
        let mut listing = Self::default();
        for name in entries.lines().map(str::trim).filter(|name| !name.is_empty() && !name.starts_with('(')) {
            if name.ends_with('/') {
                listing.folders += 1;
            } else {
                listing.files.push(name.to_owned());
            }
        }
        listing
    }

    /// Returns the known manifests among the files, and what each stands for.
    pub(super) fn manifests(&self) -> impl Iterator<Item = (&'static str, &'static str)> + '_ {
        MANIFESTS.into_iter().filter(|(name, _)| self.files.iter().any(|file| file == name))
    }

    /// Returns how many files of which kind there are: `3 .md, 2 .json`; the commonest first.
    pub(super) fn kinds(&self) -> String {
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        for file in &self.files {
            let kind = file.rsplit_once('.').filter(|(name, _)| !name.is_empty()).map_or("", |(_, kind)| kind);
            *kinds.entry(kind).or_default() += 1;
        }
        let mut kinds: Vec<_> = kinds.into_iter().collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let shown = kinds.iter().take(6).map(|(kind, count)| match *kind {
            "" => format!("{count} without a type"),
            kind => format!("{count} `.{kind}`"),
        });
        shown.collect::<Vec<_>>().join(", ")
    }
}

/// Returns the paths in a result of `glob`, the one nearest to the top first.
pub(super) fn paths(output: &str) -> Vec<&str> {
    let mut paths: Vec<&str> = output.lines().map(str::trim).filter(|line| line.contains(['/', '\\'])).collect();
    paths.sort_by_key(|path| path.matches(['/', '\\']).count());
    paths
}

/// Returns the lines of a result of `read` on a file, without their numbers.
pub(super) fn lines(output: &str) -> Vec<&str> {
    let (_, content) = output.split_once("<content>").unwrap_or_default();
    let (content, _) = content.split_once("</content>").unwrap_or((content, ""));
    let numbered = |line| {
        let (number, text): (&str, &str) = str::split_once(line, ':')?;
        number.trim().parse::<u64>().ok().map(|_| text.strip_prefix(' ').unwrap_or(text))
    };
    content.lines().filter_map(numbered).collect()
}

impl Readme {
    /// Reads the beginning of a README: its title, and the first lines of prose below it.
    pub(super) fn read(lines: &[&str]) -> Self {
        let mut readme = Self::default();
        let mut prose: Vec<&str> = Vec::new();
        let mut fenced = false;
        for line in lines.iter().map(|line| line.trim()) {
            if line.starts_with("```") {
                fenced = !fenced;
            }
            let decoration = line.is_empty()
                || fenced
                || line.starts_with(['#', '<', '|', '`', '=', '-', '!'])
                || line.starts_with("[![");
            if readme.title.is_none() {
                let title = line.trim_start_matches('#').trim();
                if line.starts_with("# ") || !decoration {
                    readme.title = Some(cut(title, 120));
                }
            } else if !decoration {
                prose.push(line);
            } else if !prose.is_empty() {
                break;
            }
        }
        readme.paragraph = (!prose.is_empty()).then(|| cut(&prose.join(" "), 400));
        readme
    }
}

/// Returns the text, cut to `most` characters.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default().trim_end()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_listing_is_counted_by_kind() {
        let output = "<path>/p</path>\n<type>directory</type>\n<entries>\n.env\nCargo.toml\nMakefile\na.md\nb.md\nsrc/\n\n(6 entries)\n</entries>";
        let listing = Listing::read(output);
        assert_eq!((listing.folders, listing.files.len()), (1, 5));
        assert_eq!(listing.kinds(), "2 without a type, 2 `.md`, 1 `.toml`");
        let manifests: Vec<_> = listing.manifests().map(|(name, _)| name).collect();
        assert_eq!(manifests, ["Cargo.toml", "Makefile"]);
    }

    #[test]
    fn a_readme_gives_its_title_and_first_prose() {
        let output = "<content>\n1: <p align=center>\n2: # Tool\n3: [![ci](x)](y)\n4: \n5: It does: this\n6: and that.\n7: \n8: More.\n</content>";
        let readme = Readme::read(&lines(output));
        assert_eq!(readme.title.as_deref(), Some("Tool"));
        assert_eq!(readme.paragraph.as_deref(), Some("It does: this and that."));
        assert_eq!(Readme::read(&["Name", "====", "", "Prose"]).paragraph.as_deref(), Some("Prose"));
        assert_eq!(Readme::read(&[]), Readme::default());
    }

    #[test]
    fn the_path_nearest_to_the_top_comes_first() {
        assert_eq!(
            paths("/p/a/b/README.md\n/p/README.md\n(Results are truncated)"),
            ["/p/README.md", "/p/a/b/README.md"]
        );
        assert_eq!(paths("No files found"), Vec::<&str>::new());
    }

    proptest! {
        #[test]
        fn any_result_is_read(output in "(<content>|<entries>)?[a-z0-9:#`.\\n/ 好]{0,120}") {
            Listing::read(&output).kinds();
            Readme::read(&lines(&output));
            paths(&output);
        }
    }
}
