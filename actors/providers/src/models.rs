//! What is known of vendors' models: the list of <https://models.dev>, compiled in, or as it was fetched since.
//!
//! The list is text, and only what is used of it is read: its first line says when it was made, then comes a line for
//! each provider, then, in the same order, a line for the models of each: an object by model, in models.dev's words
//! with what is usual left out. The provider's line says where its models stand (`at`, `len`: bytes behind the lines of
//! the providers).
//!
//! | of a model | is | where it is missing |
//! |---|---|---|
//! | `cost` | dollars for a million tokens: read, written, from the cache, to the cache | free, or unknown |
//! | `above` | prices above so many tokens of a request: `[tokens, …cost]` | one price |
//! | `limit` | tokens of all, of an answer, of a request | unknown |
//! | `input`, `output` | kinds of content | text |
//! | `tool_call` | it calls tools | it does |
//! | `npm`, `api`, `shape` | how it is spoken to | as the provider's others |
//! | `date` | when it came out | unknown |
//!
//! `data/compact.py` makes the file, [`compact`] the same of what models.dev answers.

mod compact;
mod facts;
mod refresh;
mod variants;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use protocol::provider::Model;
use serde::Deserialize;

pub use compact::{BadList, compact};
pub use facts::Facts;
pub use refresh::{MODELS_DEV, RefreshError, refresh};
pub use variants::variants;

/// The list that is compiled in.
const BUILT_IN: &str = include_str!("../data/models.jsonl");
/// Largest list that is read.
const MOST: u64 = 64 * 1024 * 1024;

/// A list of providers and their models. Holds the providers alone; models are read when they are asked for.
#[derive(Debug)]
pub struct ModelList {
    /// When it was made, `YYYY-MM-DD`.
    pub date: String,
    providers: IndexMap<String, Listed>,
    /// Where the models begin, in bytes.
    body: u64,
    text: Text,
}

#[derive(Debug)]
enum Text {
    BuiltIn,
    File(PathBuf),
}

/// A provider of the list.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Listed {
    /// Its key.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The client package OpenCode would use; it names the wire format.
    pub npm: String,
    /// Its address, where it isn't the package's. It may hold `${VARIABLE}`s.
    #[serde(default)]
    pub api: Option<String>,
    /// Environment variables that may hold its key, and others it needs.
    #[serde(default)]
    pub env: Vec<String>,
    at: u64,
    len: u64,
}

#[derive(Deserialize)]
struct Top {
    #[serde(default)]
    date: String,
    providers: usize,
}

/// Why a list can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The file can't be read.
    #[error("the list of models {} can't be read: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is none.
    #[error("the list of models {name} is damaged ({reason}); `troupe models --refresh` writes a new one")]
    Damaged {
        /// Which.
        name: String,
        /// What is wrong.
        reason: String,
    },
}

impl ModelList {
    /// Returns the list that is compiled in.
    pub fn built_in() -> Self {
        // A test reads all of it.
        Self::parse(BUILT_IN, Text::BuiltIn).unwrap_or_else(|_| Self {
            date: String::new(),
            providers: IndexMap::new(),
            body: 0,
            text: Text::BuiltIn,
        })
    }

    /// Returns the list in a file, its providers read. Blocks.
    pub fn read(path: &Path) -> Result<Self, ListError> {
        let failed = |source| ListError::File { path: path.to_owned(), source };
        let mut text = String::new();
        File::open(path).map_err(failed)?.take(MOST).read_to_string(&mut text).map_err(failed)?;
        Self::parse(&text, Text::File(path.to_owned()))
    }

    fn parse(text: &str, whose: Text) -> Result<Self, ListError> {
        let damaged = |reason: String| ListError::Damaged { name: whose.name(), reason };
        let mut rest = text;
        let mut line = || {
            let (line, behind) = rest.split_once('\n')?;
            rest = behind;
            Some((line, behind.len()))
        };
        let (first, _) = line().ok_or_else(|| damaged("it is empty".into()))?;
        let top: Top = serde_json::from_str(first).map_err(|error| damaged(error.to_string()))?;
        let mut providers = IndexMap::new();
        let mut left = text.len();
        for number in 0..top.providers {
            let (head, behind) = line().ok_or_else(|| damaged(format!("provider {number} is missing")))?;
            let listed: Listed =
                serde_json::from_str(head).map_err(|error| damaged(format!("provider {number}: {error}")))?;
            left = behind;
            providers.insert(listed.id.clone(), listed);
        }
        let body = (text.len() - left) as u64;
        Ok(Self { date: top.date, providers, body, text: whose })
    }

    /// Returns all providers.
    pub fn providers(&self) -> impl Iterator<Item = &Listed> {
        self.providers.values()
    }

    /// Returns a provider.
    pub fn provider(&self, id: &str) -> Option<&Listed> {
        self.providers.get(id)
    }

    /// Returns the models of one of its providers by key. Blocks where the list is a file.
    pub fn models(&self, provider: &Listed) -> Result<IndexMap<String, Model>, ListError> {
        let damaged = |reason: String| ListError::Damaged { name: self.text.name(), reason };
        let from = self.body.saturating_add(provider.at);
        let text = match &self.text {
            Text::BuiltIn => {
                let range = from as usize..from.saturating_add(provider.len) as usize;
                BUILT_IN.get(range).ok_or_else(|| damaged("it is too short".into()))?.to_owned()
            }
            Text::File(path) => read_at(path, from, provider.len.min(MOST))
                .map_err(|source| ListError::File { path: path.clone(), source })?,
        };
        let facts: IndexMap<String, Facts> =
            serde_json::from_str(&text).map_err(|error| damaged(format!("models of {}: {error}", provider.id)))?;
        Ok(facts.into_iter().map(|(key, facts)| (key.clone(), facts.into_model(&key, provider))).collect())
    }
}

impl Text {
    fn name(&self) -> String {
        match self {
            Self::BuiltIn => "that is compiled in".into(),
            Self::File(path) => path.display().to_string(),
        }
    }
}

fn read_at(path: &Path, from: u64, len: u64) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut text = String::new();
    file.take(len).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use protocol::provider::{CacheCost, Cost, Limit};

    use super::*;

    #[test]
    fn all_of_the_list_that_is_compiled_in_can_be_read() {
        let list = ModelList::built_in();
        assert!(list.date.as_str() > "2026", "{}", list.date);
        let count = |listed| list.models(listed).expect("models").len();
        let models: usize = list.providers().map(count).sum();
        assert!(list.providers().count() > 100 && models > 5_000, "{models} models");
    }

    #[test]
    fn a_models_facts_are_found() {
        let list = ModelList::built_in();
        let anthropic = list.provider("anthropic").expect("a provider");
        assert_eq!(
            (anthropic.npm.as_str(), anthropic.env.as_slice()),
            ("@ai-sdk/anthropic", &["ANTHROPIC_API_KEY".to_owned()][..])
        );
        let models = list.models(anthropic).expect("models");
        let opus = models.get("claude-opus-4-5").expect("a model");
        assert_eq!(opus.limit, Limit { context: 200_000, input: None, output: 64_000 });
        let cost = Cost { input: 5.0, output: 25.0, cache: CacheCost { read: 0.5, write: 6.25 }, ..Cost::default() };
        assert_eq!(opus.cost, cost);
        assert!(opus.capabilities.reasoning && opus.capabilities.toolcall && opus.capabilities.input.image);
        assert_eq!(opus.api.npm, "@ai-sdk/anthropic");
        assert!(opus.variants.as_ref().is_some_and(|variants| variants.contains_key("high")));
    }

    #[test]
    fn a_file_is_read_as_the_list_that_is_compiled_in() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("models.jsonl");
        std::fs::write(&path, BUILT_IN).expect("written");
        let (file, built_in) = (ModelList::read(&path).expect("a list"), ModelList::built_in());
        for id in ["anthropic", "openai", "zenmux"] {
            let (Some(one), Some(other)) = (file.provider(id), built_in.provider(id)) else { continue };
            assert_eq!(file.models(one).expect("models"), built_in.models(other).expect("models"));
        }
    }

    #[test]
    fn what_is_no_list_is_an_error_that_says_how_to_get_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("models.jsonl");
        assert!(matches!(ModelList::read(&path), Err(ListError::File { .. })));
        let cut: String = BUILT_IN.chars().take(5_000).collect();
        for text in ["", "{}", "{\"providers\":3}\n", "x\n", &cut] {
            std::fs::write(&path, text).expect("written");
            let error = ModelList::read(&path).expect_err("an error").to_string();
            assert!(error.contains("models --refresh"), "{error}");
        }
        let short = "{\"providers\":1}\n{\"id\":\"a\",\"name\":\"A\",\"npm\":\"x\",\"at\":0,\"len\":99}\n{\"m\":";
        std::fs::write(&path, short).expect("written");
        let list = ModelList::read(&path).expect("a list");
        assert!(matches!(list.models(list.provider("a").expect("a provider")), Err(ListError::Damaged { .. })));
    }
}
