//! The way to a directory's language servers, which are started when they are first needed.

use std::path::{Path, PathBuf};

use actix::prelude::*;
use lsp::{ServerStatus, Settings};

use super::Workspace;
use crate::language_servers::{GetStatus, LanguageServers, LanguageServersDeps};
use crate::supervisor::{self, Intensity, Name};

/// Most messages that wait for it.
const MAILBOX: usize = 256;

/// Who runs the language servers for one of these files (absolute paths)? None where there can't be any.
#[derive(Message)]
#[rtype(result = "Option<Addr<LanguageServers>>")]
pub struct GetLanguageServers(pub Vec<PathBuf>);

/// Which language servers run?
#[derive(Message)]
#[rtype(result = "Vec<ServerStatus>")]
pub struct LanguageServerStatus;

/// A directory's language servers, as its workspace knows them.
#[derive(Default)]
pub(super) struct Languages {
    settings: Option<Settings>,
    address: Option<Addr<LanguageServers>>,
}

impl Workspace {
    /// Returns who runs the servers for these files, started where it isn't.
    fn language_servers(&mut self, paths: &[PathBuf]) -> Option<Addr<LanguageServers>> {
        let setup = self.setup.clone()?;
        let config = setup.config().lsp.as_ref();
        let languages = &mut self.languages;
        if !languages.settings.as_ref().is_some_and(|settings| settings.is_of(config)) {
            // With its last address those of the old settings go.
            *languages = Languages { settings: Some(Settings::of(config)), address: None };
        }
        let settings = languages.settings.as_ref()?;
        let top = if setup.identity.is_repository && setup.identity.worktree != Path::new("/") {
            setup.identity.worktree.clone()
        } else {
            setup.directory.clone()
        };
        let is_inside = |path: &Path| path.starts_with(&setup.directory) || path.starts_with(&top);
        if !paths.iter().any(|path| is_inside(path) && settings.cover(path)) {
            return None;
        }
        if let Some(address) = languages.address.as_ref().filter(|address| address.connected()) {
            return Some(address.clone());
        }
        let deps = LanguageServersDeps {
            origin: setup.origin.clone(),
            journal: self.deps.journal.clone(),
            processes: self.deps.processes.clone(),
            io: self.deps.io.clone(),
            place: lsp::Place { directory: setup.directory.clone(), top },
            settings: settings.clone(),
        };
        let address = supervisor::start(
            &Arbiter::current(),
            Name::LanguageServers(setup.directory.to_string_lossy().into_owned()),
            Intensity::default(),
            &self.deps.fates,
            MAILBOX,
            move |_| LanguageServers::new(deps),
        );
        languages.address = Some(address.clone());
        Some(address)
    }
}

impl Handler<GetLanguageServers> for Workspace {
    type Result = MessageResult<GetLanguageServers>;

    fn handle(&mut self, GetLanguageServers(paths): GetLanguageServers, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.language_servers(&paths))
    }
}

impl Handler<LanguageServerStatus> for Workspace {
    type Result = ResponseFuture<Vec<ServerStatus>>;

    fn handle(&mut self, _: LanguageServerStatus, _: &mut Self::Context) -> Self::Result {
        let address = self.languages.address.clone();
        Box::pin(async move {
            match address {
                Some(address) => address.send(GetStatus).await.unwrap_or_default(),
                None => Vec::new(),
            }
        })
    }
}
