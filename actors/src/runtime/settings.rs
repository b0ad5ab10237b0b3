//! Changing settings, and telling clients that they have changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use protocol::Event;
use serde_json::Value;
use storage::config::change::Target;
use storage::{Change, Origin, Record};

use super::Runtime;
use crate::session::CommandError;
use crate::workspace::ChangeSettings;

impl Runtime {
    /// Changes a settings file, by the workspace of the directory it is in. Returns the file.
    pub async fn change_settings(
        &self,
        directory: &Path,
        target: Target,
        patch: Value,
    ) -> Result<PathBuf, CommandError> {
        let workspace = self.workspace(directory).await?;
        Ok(workspace.send(ChangeSettings { target, patch }).await.map_err(|_| CommandError::Unknown)??)
    }

    /// Tells clients to read the settings of directories anew. The runtime itself does by itself, at their next use.
    pub fn disposed(&self, directories: Vec<PathBuf>, origin: Option<Arc<Origin>>) {
        for directory in directories {
            let directory = directory.to_string_lossy().into_owned();
            let of_itself = || Arc::new(Origin { directory: directory.clone(), project: "global".into() });
            self.tell(
                origin.clone().unwrap_or_else(of_itself),
                Event::InstanceDisposed { directory: directory.clone() },
            );
        }
    }

    /// Tells clients to read all settings anew.
    pub fn all_disposed(&self) {
        // Nobody works in the directory of the settings themselves.
        let used = self.directory.directories().into_iter().filter(|directory| *directory != self.places.config);
        self.disposed(used.collect(), None);
        let origin = Arc::new(Origin { directory: "global".into(), project: "global".into() });
        self.tell(origin, Event::GlobalDisposed {});
    }

    pub(super) fn tell(&self, origin: Arc<Origin>, event: Event) {
        self.journal.record(Record { fence: None, origin, changes: vec![Change::Notice(event)], room: None }).detach();
    }
}
