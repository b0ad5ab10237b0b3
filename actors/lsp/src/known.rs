//! The servers that are known, with OpenCode's names, extensions and root markers. They are used where they are
//! installed.

/// A known server.
#[derive(Debug)]
pub struct Known {
    /// Its name in config and on the wire.
    pub name: &'static str,
    /// Ends of the names of its files.
    pub extensions: &'static [&'static str],
    /// What lies in the root of its projects.
    pub markers: &'static [&'static str],
    /// Where this lies above a file, the file is not its business.
    pub excluded_by: &'static [&'static str],
    /// Without a marker: none of its business (else the directory is the root).
    pub needs_marker: bool,
    /// What is run, the first that is there: program and arguments.
    pub commands: &'static [&'static [&'static str]],
}

const SCRIPT: &[&str] = &[".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts"];
const LINTED: &[&str] = &[".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts", ".vue", ".astro", ".svelte"];
const STYLED: &[&str] = &[
    ".ts", ".tsx", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts", ".json", ".jsonc", ".vue", ".astro", ".svelte",
    ".css", ".graphql", ".gql", ".html",
];
const C: &[&str] = &[".c", ".cpp", ".cc", ".cxx", ".c++", ".h", ".hpp", ".hh", ".hxx", ".h++"];
const LOCKS: &[&str] = &["package-lock.json", "bun.lockb", "bun.lock", "pnpm-lock.yaml", "yarn.lock"];
const SCRIPT_ROOTS: &[&str] = &[
    "package-lock.json",
    "bun.lockb",
    "bun.lock",
    "pnpm-lock.yaml",
    "yarn.lock",
    "tsconfig.json",
    "jsconfig.json",
    "package.json",
];
const PYTHON_ROOTS: &[&str] =
    &["pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile", "pyrightconfig.json"];

const fn known(
    name: &'static str,
    extensions: &'static [&'static str],
    markers: &'static [&'static str],
    commands: &'static [&'static [&'static str]],
) -> Known {
    Known { name, extensions, markers, excluded_by: &[], needs_marker: false, commands }
}

const fn strict(known: Known) -> Known {
    Known { needs_marker: true, ..known }
}

/// All of them.
pub const KNOWN: &[Known] = &[
    strict(known("deno", &[".ts", ".tsx", ".js", ".jsx", ".mjs"], &["deno.json", "deno.jsonc"], &[&["deno", "lsp"]])),
    Known {
        excluded_by: &["deno.json", "deno.jsonc"],
        ..known("typescript", SCRIPT, SCRIPT_ROOTS, &[&["typescript-language-server", "--stdio"]])
    },
    known("vue", &[".vue"], LOCKS, &[&["vue-language-server", "--stdio"]]),
    strict(known(
        "oxlint",
        LINTED,
        &[".oxlintrc.json", "oxlint.config.ts"],
        &[&["oxlint", "--lsp"], &["oxc_language_server"]],
    )),
    strict(known(
        "biome",
        STYLED,
        &["biome.json", "biome.jsonc", ".biome.json", ".biome.jsonc"],
        &[&["biome", "lsp-proxy", "--stdio"]],
    )),
    known("gopls", &[".go"], &["go.work", "go.mod", "go.sum"], &[&["gopls"]]),
    known("ruby-lsp", &[".rb", ".rake", ".gemspec", ".ru"], &["Gemfile"], &[&["ruby-lsp"], &["rubocop", "--lsp"]]),
    known(
        "pyright",
        &[".py", ".pyi"],
        PYTHON_ROOTS,
        &[&["pyright-langserver", "--stdio"], &["basedpyright-langserver", "--stdio"]],
    ),
    known("elixir-ls", &[".ex", ".exs"], &["mix.exs", "mix.lock"], &[&["elixir-ls"], &["language_server.sh"]]),
    known("zls", &[".zig", ".zon"], &["build.zig"], &[&["zls"]]),
    known(
        "csharp",
        &[".cs", ".csx"],
        &["global.json", "Directory.Build.props"],
        &[&["roslyn-language-server", "--stdio"], &["csharp-ls"]],
    ),
    known("fsharp", &[".fs", ".fsi", ".fsx", ".fsscript"], &["global.json"], &[&["fsautocomplete"]]),
    known("sourcekit-lsp", &[".swift", ".objc", ".objcpp"], &["Package.swift"], &[&["sourcekit-lsp"]]),
    strict(known("rust", &[".rs"], &["Cargo.toml", "Cargo.lock"], &[&["rust-analyzer"]])),
    known(
        "clangd",
        C,
        &["compile_commands.json", "compile_flags.txt", ".clangd"],
        &[&["clangd", "--background-index", "--clang-tidy"]],
    ),
    known("svelte", &[".svelte"], LOCKS, &[&["svelteserver", "--stdio"]]),
    known("astro", &[".astro"], LOCKS, &[&["astro-ls", "--stdio"]]),
    strict(known(
        "jdtls",
        &[".java"],
        &["pom.xml", "build.gradle", "build.gradle.kts", ".project", ".classpath"],
        &[&["jdtls"]],
    )),
    known(
        "kotlin-ls",
        &[".kt", ".kts"],
        &["settings.gradle.kts", "settings.gradle", "gradlew", "build.gradle.kts", "build.gradle", "pom.xml"],
        &[&["kotlin-lsp", "--stdio"], &["kotlin-language-server"]],
    ),
    known("yaml-ls", &[".yaml", ".yml"], LOCKS, &[&["yaml-language-server", "--stdio"]]),
    known(
        "lua-ls",
        &[".lua"],
        &[".luarc.json", ".luarc.jsonc", ".luacheckrc", ".stylua.toml", "stylua.toml", "selene.toml", "selene.yml"],
        &[&["lua-language-server"]],
    ),
    known(
        "php intelephense",
        &[".php"],
        &["composer.json", "composer.lock", ".php-version"],
        &[&["intelephense", "--stdio"]],
    ),
    known("prisma", &[".prisma"], &["schema.prisma", "package.json"], &[&["prisma-language-server", "--stdio"]]),
    known("dart", &[".dart"], &["pubspec.yaml", "analysis_options.yaml"], &[&["dart", "language-server", "--lsp"]]),
    known("ocaml-lsp", &[".ml", ".mli"], &["dune-project", "dune-workspace", ".merlin", "opam"], &[&["ocamllsp"]]),
    known("bash", &[".sh", ".bash", ".zsh", ".ksh"], &[], &[&["bash-language-server", "start"]]),
    known(
        "terraform",
        &[".tf", ".tfvars"],
        &[".terraform.lock.hcl", "terraform.tfstate"],
        &[&["terraform-ls", "serve"]],
    ),
    known("texlab", &[".tex", ".bib"], &[".latexmkrc", "latexmkrc", ".texlabroot", "texlabroot"], &[&["texlab"]]),
    known("dockerfile", &[".dockerfile", "Dockerfile"], &[], &[&["docker-langserver", "--stdio"]]),
    known("gleam", &[".gleam"], &["gleam.toml"], &[&["gleam", "lsp"]]),
    known(
        "clojure-lsp",
        &[".clj", ".cljs", ".cljc", ".edn"],
        &["deps.edn", "project.clj", "shadow-cljs.edn", "bb.edn", "build.boot"],
        &[&["clojure-lsp", "listen"]],
    ),
    known("nixd", &[".nix"], &["flake.nix"], &[&["nixd"]]),
    known("tinymist", &[".typ", ".typc"], &["typst.toml"], &[&["tinymist"]]),
    known(
        "haskell-language-server",
        &[".hs", ".lhs"],
        &["stack.yaml", "cabal.project", "hie.yaml"],
        &[&["haskell-language-server-wrapper", "--lsp"]],
    ),
    known(
        "julials",
        &[".jl"],
        &["Project.toml", "Manifest.toml"],
        &[&["julia", "--startup-file=no", "--history-file=no", "-e", "using LanguageServer; runserver()"]],
    ),
];
