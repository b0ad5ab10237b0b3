//! The built-in model for a first run without a key: no model at all, but a script that is honest about it. It looks at
//! the project with real tools, says what it found, and how to set up a real model.
//!
//! It needs no network, never waits, and answers equal requests equally. What it says is decided in `tour` (pure), from
//! what `project` reads in the tools' results.

mod project;
#[cfg(test)]
mod tests;
mod text;
mod tour;

use futures::{FutureExt, StreamExt, stream as streams};
use indexmap::IndexMap;
use protocol::JsonMap;
use protocol::model::ModelRequest;
use protocol::provider::{Capabilities, Cost, Limit, Modalities, Model, ModelApi, Provider as Info, ProviderSource};

pub use tour::next;

use crate::{IdSource, ModelStream, Provider};

/// The provider's id.
pub const PROVIDER_ID: &str = "demo";
/// The model's id.
pub const MODEL_ID: &str = "tour";
/// Names the wire format for [`crate::open`].
pub const NPM: &str = "troupe-demo";

/// Plays the tour.
pub struct Demo {
    ids: IdSource,
}

impl Demo {
    /// Returns the demo; `ids` names its calls.
    pub fn new(ids: IdSource) -> Self {
        Self { ids }
    }
}

impl Provider for Demo {
    fn stream(&self, request: ModelRequest) -> ModelStream {
        let ids = self.ids.clone();
        async move { streams::iter(next(&request, &ids).into_iter().map(|event| Ok(vec![event]))) }
            .flatten_stream()
            .boxed()
    }
}

/// Returns the demo as clients see it in the list of providers.
pub fn provider_info() -> Info {
    let text = Modalities { text: true, ..Modalities::default() };
    let model = Model {
        id: MODEL_ID.into(),
        provider_id: PROVIDER_ID.into(),
        api: ModelApi { id: MODEL_ID.into(), url: String::new(), npm: NPM.into() },
        name: "Tour (demo, not a real model)".into(),
        family: None,
        capabilities: Capabilities {
            toolcall: true,
            input: text,
            output: text,
            interleaved: false.into(),
            ..Capabilities::default()
        },
        cost: Cost::default(),
        limit: Limit { context: 128_000, input: None, output: 4_096 },
        status: "active".into(),
        options: JsonMap::new(),
        headers: IndexMap::new(),
        release_date: String::new(),
        variants: None,
    };
    Info {
        id: PROVIDER_ID.into(),
        name: "Demo (built in, offline)".into(),
        source: ProviderSource::Custom,
        env: Vec::new(),
        options: JsonMap::new(),
        models: IndexMap::from([(MODEL_ID.to_owned(), model)]),
    }
}
