//! .
use std::sync::Arc;

use crate::{IdSource, ModelStream, Provider};
use protocol::model::ModelRequest;

/// .
pub const NPM: &str = "demo";
/// .
pub struct Demo {
    ids: IdSource,
}
impl Demo {
    /// .
    pub fn new(ids: IdSource) -> Self {
        Self { ids }
    }
}
impl Provider for Demo {
    fn stream(&self, _request: ModelRequest) -> ModelStream {
        let _ = Arc::clone(&self.ids);
        todo!()
    }
}
