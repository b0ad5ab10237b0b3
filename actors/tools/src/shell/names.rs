//! Names the judge knows: variables that change what runs, and how many words name a command.

/// Values that switch a program off rather than choose one.
const HARMLESS: [&str; 4] = ["", "cat", "true", ":"];

/// Variables that make a program run, load or obey something.
const DANGEROUS: &[&str] = &[
    "BASH_ALIASES",
    "BASH_ENV",
    "BASHOPTS",
    "BASH_XTRACEFD",
    "BROWSER",
    "CARGO_BUILD_RUSTC_WRAPPER",
    "CDPATH",
    "EDITOR",
    "ENV",
    "GNUMAKEFLAGS",
    "HOME",
    "IFS",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "LESSCLOSE",
    "LESSOPEN",
    "LUA_INIT",
    "MAKEFILES",
    "MAKEFLAGS",
    "MANPAGER",
    "NODE_OPTIONS",
    "NODE_PATH",
    "OLDPWD",
    "OPENSSL_CONF",
    "PAGER",
    "PATH",
    "PERL5DB",
    "PERL5LIB",
    "PERL5OPT",
    "PERLLIB",
    "PROMPT_COMMAND",
    "PS0",
    "PS4",
    "PWD",
    "PYTHONHOME",
    "PYTHONINSPECT",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "RSYNC_RSH",
    "RUBYLIB",
    "RUBYOPT",
    "RUSTC",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "SHELL",
    "SHELLOPTS",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    "SUDO_EDITOR",
    "TAR_OPTIONS",
    "VISUAL",
    "XDG_CONFIG_HOME",
    "ZDOTDIR",
    "_JAVA_OPTIONS",
    "npm_config_script_shell",
];

/// What dangerous variables begin with.
const DANGEROUS_PREFIXES: &[&str] = &["LD_", "DYLD_", "BASH_FUNC_", "GIT_", "TROUPE_"];

/// Variables of git that choose no program, file or repository.
const HARMLESS_GIT: &[&str] = &[
    "GIT_AUTHOR_DATE",
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_NAME",
    "GIT_COMMITTER_DATE",
    "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_LITERAL_PATHSPECS",
    "GIT_MERGE_AUTOEDIT",
    "GIT_OPTIONAL_LOCKS",
    "GIT_TERMINAL_PROMPT",
];

/// Returns whether setting the variable may change what a command does behind its words. `value`: where it is known.
pub(super) fn is_dangerous(name: &str, value: Option<&str>) -> bool {
    let switches_off = ["EDITOR", "PAGER", "VISUAL"].iter().any(|kind| name.ends_with(kind));
    if switches_off && value.is_some_and(|value| HARMLESS.contains(&value)) {
        return false;
    }
    let traces = name.starts_with("GIT_TRACE") || name == "GIT_CURL_VERBOSE";
    if traces && value.is_some_and(|value| ["0", "1", "2", "true", "false"].contains(&value)) {
        return false;
    }
    let prefixed = DANGEROUS_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    DANGEROUS.contains(&name) || (prefixed && !HARMLESS_GIT.contains(&name))
}

/// Returns whether a setting given by `git -c NAME=VALUE` may run a program.
pub(super) fn is_dangerous_git_setting(setting: &str) -> bool {
    let (name, value) = setting.split_once('=').unwrap_or((setting, "true"));
    let name = name.to_ascii_lowercase();
    let ends = [
        ".command",
        ".textconv",
        ".driver",
        ".clean",
        ".smudge",
        ".process",
        ".helper",
        ".program",
        ".cmd",
        ".proxy",
        ".uploadpack",
        ".receivepack",
        ".path",
        ".vcs",
    ];
    let starts = ["alias.", "pager.", "include", "protocol.", "url."];
    let names = [
        "core.askpass",
        "core.attributesfile",
        "core.editor",
        "core.fsmonitor",
        "core.gitproxy",
        "core.hookspath",
        "core.pager",
        "core.sshcommand",
        "core.worktree",
        "diff.external",
        "init.templatedir",
        "interactive.difffilter",
        "sequence.editor",
        "web.browser",
    ];
    let listed = names.contains(&&*name)
        || ends.iter().any(|end| name.ends_with(end))
        || starts.iter().any(|start| name.starts_with(start));
    let off = name.ends_with("pager") && ["cat", "", "false"].contains(&value);
    listed && !off
}

/// Commands named by more than their first word, and by how many. The longest entry that fits counts.
/// Facts as in OpenCode's table of arities; commands missing here are named by their first word.
const ARITIES: &[(&str, usize)] = &[
    ("apt", 2),
    ("apt-get", 2),
    ("aws", 3),
    ("az", 3),
    ("bazel", 2),
    ("brew", 2),
    ("bun", 2),
    ("bun run", 3),
    ("bun x", 3),
    ("bundle", 2),
    ("bundle exec", 3),
    ("cargo", 2),
    ("cargo add", 3),
    ("cargo run", 3),
    ("cdk", 2),
    ("cf", 2),
    ("cmake", 2),
    ("composer", 2),
    ("conda", 2),
    ("consul", 2),
    ("consul kv", 3),
    ("crictl", 2),
    ("deno", 2),
    ("deno task", 3),
    ("doctl", 3),
    ("docker", 2),
    ("docker builder", 3),
    ("docker compose", 3),
    ("docker container", 3),
    ("docker image", 3),
    ("docker network", 3),
    ("docker system", 3),
    ("docker volume", 3),
    ("dotnet", 2),
    ("eksctl", 2),
    ("eksctl create", 3),
    ("firebase", 2),
    ("flyctl", 2),
    ("gcloud", 3),
    ("gh", 3),
    ("git", 2),
    ("git config", 3),
    ("git remote", 3),
    ("git stash", 3),
    ("git submodule", 3),
    ("git worktree", 3),
    ("go", 2),
    ("gradle", 2),
    ("./gradlew", 2),
    ("heroku", 2),
    ("hg", 2),
    ("hugo", 2),
    ("ip", 2),
    ("jj", 2),
    ("just", 2),
    ("kind", 2),
    ("kind create", 3),
    ("kubectl", 2),
    ("kubectl kustomize", 3),
    ("kubectl rollout", 3),
    ("kustomize", 2),
    ("make", 2),
    ("mc", 2),
    ("mc admin", 3),
    ("minikube", 2),
    ("mise", 2),
    ("mix", 2),
    ("mongosh", 2),
    ("mvn", 2),
    ("mysql", 2),
    ("ng", 2),
    ("npm", 2),
    ("npm exec", 3),
    ("npm init", 3),
    ("npm run", 3),
    ("npm view", 3),
    ("npx", 2),
    ("nvm", 2),
    ("nx", 2),
    ("openssl", 2),
    ("openssl req", 3),
    ("openssl x509", 3),
    ("pip", 2),
    ("pip3", 2),
    ("pipenv", 2),
    ("pnpm", 2),
    ("pnpm dlx", 3),
    ("pnpm exec", 3),
    ("pnpm run", 3),
    ("podman", 2),
    ("podman container", 3),
    ("podman image", 3),
    ("poetry", 2),
    ("pulumi", 2),
    ("pulumi stack", 3),
    ("pyenv", 2),
    ("python -m", 3),
    ("python3 -m", 3),
    ("rails", 2),
    ("rake", 2),
    ("rbenv", 2),
    ("redis-cli", 2),
    ("rustup", 2),
    ("serverless", 2),
    ("sfdx", 3),
    ("skaffold", 2),
    ("sls", 2),
    ("sst", 2),
    ("swift", 2),
    ("systemctl", 2),
    ("terraform", 2),
    ("terraform workspace", 3),
    ("tmux", 2),
    ("turbo", 2),
    ("ufw", 2),
    ("uv", 2),
    ("uv run", 3),
    ("vault", 2),
    ("vault auth", 3),
    ("vault kv", 3),
    ("vercel", 2),
    ("volta", 2),
    ("wp", 2),
    ("yarn", 2),
    ("yarn dlx", 3),
    ("yarn run", 3),
];

/// Returns how many of these words name the command: at least one.
pub(super) fn arity(words: &[&str]) -> usize {
    full_arity(words).min(words.len().max(1))
}

/// The same where more words may follow.
pub(super) fn full_arity(words: &[&str]) -> usize {
    let named = |length: usize| {
        let prefix = words.get(..length)?.join(" ");
        ARITIES.iter().find(|(name, _)| *name == prefix).map(|(_, arity)| *arity)
    };
    (1..=2).rev().find_map(named).unwrap_or(1)
}

/// Options of git before its subcommand that are followed by a value.
pub(super) const GIT_VALUES: &[&str] = &[
    "-C",
    "-c",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--super-prefix",
    "--config-env",
    "--attr-source",
    "--exec-path",
];

/// Returns a command without the options among the words that name it, where there are some: `git -C x push` is
/// `git push`. An option's next word may be its value or not, so there may be two ways to read it.
pub(super) fn without_options<'w>(words: &[&'w str]) -> Vec<Vec<&'w str>> {
    let Some((name, rest)) = words.split_first() else { return Vec::new() };
    let is_option = |word: &str| word.starts_with('-') && word.len() > 1;
    let leads = ARITIES.iter().any(|(known, arity)| known.split(' ').next() == Some(name) && *arity > 1);
    if !leads || !rest.iter().any(|word| is_option(word)) {
        return Vec::new();
    }
    let mut readings = Vec::new();
    for takes_value in [false, true] {
        let (mut kept, mut skipped, mut between, mut left) = (vec![*name], false, false, rest.iter().peekable());
        while kept.len() < full_arity(&kept)
            && let Some(word) = left.next()
        {
            if !is_option(word) {
                between |= skipped;
                kept.push(word);
                continue;
            }
            skipped = true;
            let has_value = if *name == "git" { GIT_VALUES.contains(word) } else { takes_value && !word.contains('=') };
            if has_value && left.peek().is_some_and(|next| !is_option(next)) {
                left.next();
            }
        }
        // With no word behind them they are what the command is about: `npm --version`, `git remote -v`.
        if between {
            kept.extend(left);
            if !readings.contains(&kept) {
                readings.push(kept);
            }
        }
    }
    readings
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_longest_known_prefix_says_how_many_words_name_a_command() {
        assert_eq!(arity(&["git", "status", "--short"]), 2);
        assert_eq!(arity(&["npm", "run", "test", "--", "--x"]), 3);
        assert_eq!(arity(&["npm", "run"]), 2);
        assert_eq!(arity(&["cat", "a.txt"]), 1);
        assert_eq!(arity(&["git"]), 1);
        assert_eq!(arity(&["docker", "compose", "up", "-d"]), 3);
    }

    #[test]
    fn options_among_the_words_that_name_a_command_are_left_out() {
        let readings = |line: &str| -> Vec<String> {
            without_options(&line.split(' ').collect::<Vec<_>>()).iter().map(|words| words.join(" ")).collect()
        };
        assert_eq!(readings("git -C a -c x=y --no-pager push --force"), ["git push --force"]);
        assert_eq!(readings("git push --force"), [""; 0]);
        assert_eq!(readings("git remote -v"), [""; 0]);
        assert_eq!(readings("npm --version"), [""; 0]);
        assert_eq!(readings("kubectl -n prod delete pod"), ["kubectl prod delete pod", "kubectl delete pod"]);
        assert_eq!(readings("docker compose -f x.yml up -d"), ["docker compose x.yml up -d", "docker compose up -d"]);
        assert_eq!(readings("npm run --silent test"), ["npm run test"]);
        assert_eq!(readings("ls -l x"), [""; 0]);
    }

    #[test]
    fn variables_that_choose_programs_are_dangerous() {
        for name in
            ["PATH", "LD_PRELOAD", "DYLD_INSERT_LIBRARIES", "GIT_SSH_COMMAND", "GIT_DIR", "NODE_OPTIONS", "PAGER"]
        {
            assert!(is_dangerous(name, Some("/tmp/evil")), "{name}");
        }
        for name in ["FOO", "CI", "GIT_AUTHOR_NAME", "RUST_LOG", "PATHS", "NODE_ENV"] {
            assert!(!is_dangerous(name, Some("x")), "{name}");
        }
        assert!(!is_dangerous("GIT_PAGER", Some("cat")));
        assert!(is_dangerous("GIT_PAGER", None));
        assert!(is_dangerous("PATH", Some("cat")));
    }

    #[test]
    fn git_settings_that_run_programs_are_dangerous() {
        for setting in
            ["alias.x=!rm y", "core.sshCommand=evil", "core.pager=evil", "filter.a.clean=x", "credential.helper=x"]
        {
            assert!(is_dangerous_git_setting(setting), "{setting}");
        }
        for setting in ["core.pager=cat", "color.ui=never", "user.name=x", "core.quotepath=off"] {
            assert!(!is_dangerous_git_setting(setting), "{setting}");
        }
    }
}
