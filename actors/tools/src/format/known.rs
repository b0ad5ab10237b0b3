//! The formatters that are known, with OpenCode's names, extensions and requirements.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::context::Place;

/// The web's files, which several formatters share.
const WEB: &[&str] = &[
    ".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts", ".html", ".htm", ".css", ".scss", ".sass", ".less",
    ".vue", ".svelte", ".json", ".jsonc", ".yaml", ".yml", ".toml", ".xml", ".md", ".mdx", ".graphql", ".gql",
];
const C: &[&str] = &[".c", ".cc", ".cpp", ".cxx", ".c++", ".h", ".hh", ".hpp", ".hxx", ".h++", ".ino", ".C", ".H"];
const RUBY: &[&str] = &[".rb", ".rake", ".gemspec", ".ru"];
const PYTHON: &[&str] = &[".py", ".pyi"];
/// The largest manifest that is looked into, in bytes.
const MAX_MANIFEST: u64 = 4 * 1024 * 1024;

/// A known formatter.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) extensions: &'static [&'static str],
    /// What to run, a name in `PATH`; a project's own (`node_modules/.bin`, `vendor/bin`) comes first.
    program: &'static str,
    args: &'static [&'static str],
    needs: Needs,
}

/// What a project must have so that a formatter runs. Files are looked for from the session's directory up to the top
/// of its repository.
#[derive(Debug)]
enum Needs {
    /// Nothing: that the program is there is enough.
    Nothing,
    /// One of these files.
    File(&'static [&'static str]),
    /// A dependency in `package.json`.
    Package(&'static str),
    /// A dependency in `composer.json`.
    Composer(&'static str),
    /// Ruff's settings or dependency.
    Ruff,
    /// That ruff itself does not run.
    NoRuff,
}

const fn plain(
    name: &'static str,
    extensions: &'static [&'static str],
    program: &'static str,
    args: &'static [&'static str],
) -> Known {
    Known { name, extensions, program, args, needs: Needs::Nothing }
}

const fn needing(known: Known, needs: Needs) -> Known {
    Known { needs, ..known }
}

/// All of them, in the order they run.
pub(super) const KNOWN: &[Known] = &[
    plain("gofmt", &[".go"], "gofmt", &["-w", "$FILE"]),
    plain("mix", &[".ex", ".exs", ".eex", ".heex", ".leex", ".neex", ".sface"], "mix", &["format", "$FILE"]),
    needing(plain("prettier", WEB, "prettier", &["--write", "$FILE"]), Needs::Package("prettier")),
    needing(plain("biome", WEB, "biome", &["format", "--write", "$FILE"]), Needs::File(&["biome.json", "biome.jsonc"])),
    plain("zig", &[".zig", ".zon"], "zig", &["fmt", "$FILE"]),
    needing(plain("clang-format", C, "clang-format", &["-i", "$FILE"]), Needs::File(&[".clang-format"])),
    plain("ktlint", &[".kt", ".kts"], "ktlint", &["-F", "$FILE"]),
    needing(plain("ruff", PYTHON, "ruff", &["format", "$FILE"]), Needs::Ruff),
    // There is another program of this name, so its settings must be there.
    needing(plain("air", &[".R"], "air", &["format", "$FILE"]), Needs::File(&["air.toml", ".air.toml"])),
    needing(plain("uv", PYTHON, "uv", &["format", "--", "$FILE"]), Needs::NoRuff),
    plain("rubocop", RUBY, "rubocop", &["--autocorrect", "$FILE"]),
    plain("standardrb", RUBY, "standardrb", &["--fix", "$FILE"]),
    plain("htmlbeautifier", &[".erb", ".html.erb"], "htmlbeautifier", &["$FILE"]),
    plain("dart", &[".dart"], "dart", &["format", "$FILE"]),
    needing(plain("ocamlformat", &[".ml", ".mli"], "ocamlformat", &["-i", "$FILE"]), Needs::File(&[".ocamlformat"])),
    plain("terraform", &[".tf", ".tfvars"], "terraform", &["fmt", "$FILE"]),
    plain("latexindent", &[".tex"], "latexindent", &["-w", "-s", "$FILE"]),
    plain("gleam", &[".gleam"], "gleam", &["format", "$FILE"]),
    plain("shfmt", &[".sh", ".bash"], "shfmt", &["-w", "$FILE"]),
    plain("nixfmt", &[".nix"], "nixfmt", &["$FILE"]),
    plain("rustfmt", &[".rs"], "rustfmt", &["$FILE"]),
    needing(plain("pint", &[".php"], "pint", &["$FILE"]), Needs::Composer("laravel/pint")),
    plain("ormolu", &[".hs"], "ormolu", &["-i", "$FILE"]),
    plain("cljfmt", &[".clj", ".cljs", ".cljc", ".edn"], "cljfmt", &["fix", "--quiet", "$FILE"]),
    plain("dfmt", &[".d"], "dfmt", &["-i", "$FILE"]),
];

impl Known {
    /// Returns what to run; none where its program is missing or the project doesn't ask for it.
    pub(super) fn command(&self, place: &Place) -> Option<Vec<String>> {
        let wanted = match self.needs {
            Needs::Nothing => true,
            Needs::File(names) => names.iter().any(|name| !found(place, name).is_empty()),
            Needs::Package(package) => depends(place, "package.json", &["dependencies", "devDependencies"], package),
            Needs::Composer(package) => depends(place, "composer.json", &["require", "require-dev"], package),
            Needs::Ruff => wants_ruff(place),
            Needs::NoRuff => !(wants_ruff(place) && on_path("ruff").is_some()),
        };
        let program = wanted.then(|| self.program(place)).flatten()?;
        let program = program.into_os_string().into_string().ok()?;
        Some(std::iter::once(program).chain(self.args.iter().map(|&arg| arg.to_owned())).collect())
    }

    fn program(&self, place: &Place) -> Option<PathBuf> {
        let own = match self.needs {
            Needs::Package(_) => Some("node_modules/.bin"),
            Needs::File(_) if self.name == "biome" => Some("node_modules/.bin"),
            Needs::Composer(_) => Some("vendor/bin"),
            _ => None,
        };
        let own = own.and_then(|bin| found(place, &format!("{bin}/{}", self.program)).into_iter().next());
        own.or_else(|| on_path(self.program))
    }
}

/// Returns where there is a file of this name, from the directory up to the top of the repository.
fn found(place: &Place, name: &str) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for directory in place.directory.ancestors() {
        let path = directory.join(name);
        if path.is_file() {
            all.push(path);
        }
        if directory == place.worktree || !place.is_repository {
            break;
        }
    }
    all
}

fn text(path: &Path) -> Option<String> {
    let is_small = std::fs::metadata(path).is_ok_and(|metadata| metadata.len() <= MAX_MANIFEST);
    is_small.then(|| std::fs::read_to_string(path).ok()).flatten()
}

fn depends(place: &Place, manifest: &str, lists: &[&str], package: &str) -> bool {
    let manifests = found(place, manifest);
    let parsed = manifests.iter().filter_map(|path| serde_json::from_str::<Value>(&text(path)?).ok());
    parsed.into_iter().any(|manifest| lists.iter().any(|list| !manifest[*list][package].is_null()))
}

fn wants_ruff(place: &Place) -> bool {
    let first = |name| found(place, name).into_iter().next();
    let says = |name, word| first(name).and_then(|path| text(&path)).is_some_and(|text| text.contains(word));
    first("ruff.toml").is_some()
        || first(".ruff.toml").is_some()
        || ["requirements.txt", "pyproject.toml", "Pipfile"].iter().any(|name| says(name, "ruff"))
}

/// Returns where a program is that `PATH` finds.
fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let access = nix::unistd::AccessFlags::X_OK;
    let is_program = |path: &PathBuf| path.is_file() && nix::unistd::access(path, access).is_ok();
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(is_program)
}
