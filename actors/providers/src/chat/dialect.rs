//! How servers that speak chat completions depart from OpenAI's documents. One table, by the server and by the model.
//!
//! | server | thinking goes back as | counts | documents | sound | other |
//! |---|---|---|---|---|---|
//! | any | `reasoning_content` | `stream_options` | `file` | yes | |
//! | OpenAI, Azure | not | | | | ids ≤ 40, `max_completion_tokens` |
//! | OpenRouter | `reasoning_details`, else `reasoning` | `usage` | | | marks of the cache in parts |
//! | Copilot | `reasoning_text`, `reasoning_opaque` | | no | no | no limit for gpt models |
//! | Mistral | parts of the content | unasked | `document_url` | yes | ids of 9, `any` for required, no user after a tool |
//! | Groq, Cerebras | `reasoning` | | no | no | |
//! | Perplexity | not | unasked | no | no | user and assistant take turns |
//! | DeepSeek | `reasoning_content`, always | | no | no | |
//! | xAI, Moonshot, Z.ai | `reasoning_content` | | no | no | |
//! | Ollama | `reasoning` | | no | no | users in a row are one |
//! | llama.cpp | `reasoning_content` | | no | yes | likewise |
//! | LM Studio, vLLM | `reasoning_content` | | no | vLLM | likewise |
//!
//! By the model, on any server: `mistral` and its family have its ids and order, `deepseek` always has its thinking
//! back, `claude` has ids of letters and marks of the cache, `gemini` and `kimi` get schemas of their own.
//!
//! Sources: the vendors' pages on chat completions, their errors, and OpenCode 1.18's transforms.

use crate::endpoint::Endpoint;
use crate::names::IdRule;
use crate::vendors::{AZURE, OPENROUTER};

/// What a server and a model want.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dialect {
    pub(super) thinking: Thinking,
    /// Each message of the assistant says its thinking, also where it has none.
    pub(super) always_thinks: bool,
    pub(super) counts: Counts,
    pub(super) documents: Documents,
    pub(super) sound: bool,
    pub(super) ids: IdRule,
    pub(super) order: Order,
    pub(super) required: &'static str,
    pub(super) limit: Limit,
    pub(super) cache: Cache,
    pub(super) schemas: Schemas,
}

/// How thinking goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thinking {
    Not,
    Field(&'static str),
    /// OpenRouter's list, where it came; else the field `reasoning`.
    Details,
    /// Copilot's text and seal.
    Opaque,
    /// Mistral's parts of the content.
    Parts,
}

/// How token counts are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counts {
    StreamOptions,
    /// OpenRouter's.
    Usage,
    /// They come unasked.
    Unasked,
}

/// How a PDF or another document goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Documents {
    File,
    /// Mistral's.
    Url,
    /// Not at all: the model reads that it is missing.
    Not,
}

/// Which messages may follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Free,
    /// Messages of the person in a row are one: templates of many models refuse two.
    Merged,
    /// Likewise those of the assistant, and the person is first.
    Turns,
    /// Merged, and an assistant stands between a tool and the person.
    Mistral,
}

/// Where the most tokens of the answer go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    MaxTokens,
    /// OpenAI's newer name.
    MaxCompletionTokens,
    /// Nowhere.
    Not,
}

/// How the parts to keep in the vendor's cache are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cache {
    Not,
    /// At the message, by this name.
    Message(&'static str),
    /// At a part of the content.
    Part,
}

/// Whose schemas tools have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Schemas {
    Plain,
    Gemini,
    Moonshot,
}

impl Dialect {
    /// Returns what the server and the model want.
    pub(super) fn of(endpoint: &Endpoint, model: &str) -> Self {
        let mut dialect = Self::of_server(server(endpoint), model);
        let model = model.to_ascii_lowercase();
        let is = |names: &[&str]| names.iter().any(|name| model.contains(name));
        if is(&["mistral", "devstral", "codestral", "pixtral", "mixtral", "magistral"]) {
            (dialect.ids, dialect.order) = (IdRule::Nine, Order::Mistral);
        }
        if is(&["deepseek"]) && matches!(dialect.thinking, Thinking::Field(_)) {
            dialect.always_thinks = true;
        }
        if is(&["claude", "anthropic"]) {
            dialect.ids = IdRule::Word(64);
            if dialect.cache == Cache::Not {
                dialect.cache = Cache::Message("cache_control");
            }
        } else if dialect.cache != Cache::Message("cache_control") {
            dialect.cache = Cache::Not;
        }
        if is(&["gemini"]) {
            dialect.schemas = Schemas::Gemini;
        } else if is(&["kimi"]) || server(endpoint) == Server::Moonshot {
            dialect.schemas = Schemas::Moonshot;
        }
        dialect
    }

    fn of_server(server: Server, model: &str) -> Self {
        let any = Self {
            thinking: Thinking::Field("reasoning_content"),
            always_thinks: false,
            counts: Counts::StreamOptions,
            documents: Documents::File,
            sound: true,
            ids: IdRule::Any,
            order: Order::Free,
            required: "required",
            limit: Limit::MaxTokens,
            cache: Cache::Not,
            schemas: Schemas::Plain,
        };
        let small = Self { documents: Documents::Not, sound: false, ..any.clone() };
        match server {
            Server::Any => any,
            Server::OpenAi => {
                Self { thinking: Thinking::Not, ids: IdRule::Short(40), limit: Limit::MaxCompletionTokens, ..any }
            }
            Server::OpenRouter => {
                Self { thinking: Thinking::Details, counts: Counts::Usage, cache: Cache::Part, ..any }
            }
            Server::Copilot => Self {
                thinking: Thinking::Opaque,
                limit: if model.contains("gpt") { Limit::Not } else { Limit::MaxTokens },
                cache: Cache::Message("copilot_cache_control"),
                ..small
            },
            Server::Mistral => Self {
                thinking: Thinking::Parts,
                counts: Counts::Unasked,
                documents: Documents::Url,
                ids: IdRule::Nine,
                order: Order::Mistral,
                required: "any",
                ..any
            },
            Server::Groq | Server::Cerebras => Self { thinking: Thinking::Field("reasoning"), ..small },
            Server::Perplexity => {
                Self { thinking: Thinking::Not, counts: Counts::Unasked, order: Order::Turns, ..small }
            }
            Server::Alibaba => Self { cache: Cache::Message("cache_control"), ..any },
            Server::DeepSeek => Self { always_thinks: true, ..small },
            Server::Xai | Server::Moonshot | Server::Zai => small,
            Server::Ollama => Self { thinking: Thinking::Field("reasoning"), order: Order::Merged, ..small },
            Server::LmStudio => Self { order: Order::Merged, ..small },
            Server::LlamaCpp | Server::Vllm => Self { order: Order::Merged, sound: true, ..small },
        }
    }
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    Any,
    Alibaba,
    Cerebras,
    Copilot,
    DeepSeek,
    Groq,
    LlamaCpp,
    LmStudio,
    Mistral,
    Moonshot,
    Ollama,
    OpenAi,
    OpenRouter,
    Perplexity,
    Vllm,
    Xai,
    Zai,
}

/// Package, a word of the provider's key, a word of the address; the first row of which one fits counts.
const SERVERS: [(Server, &str, &str, &str); 16] = [
    (Server::OpenRouter, OPENROUTER, "openrouter", "openrouter.ai"),
    (Server::Copilot, "@ai-sdk/github-copilot", "github-copilot", "githubcopilot.com"),
    (Server::OpenAi, AZURE, "azure", "api.openai.com"),
    (Server::Mistral, "@ai-sdk/mistral", "mistral", "api.mistral.ai"),
    (Server::Groq, "@ai-sdk/groq", "groq", "api.groq.com"),
    (Server::Cerebras, "@ai-sdk/cerebras", "cerebras", "api.cerebras.ai"),
    (Server::Perplexity, "@ai-sdk/perplexity", "perplexity", "api.perplexity.ai"),
    (Server::Alibaba, "@ai-sdk/alibaba", "alibaba", "dashscope"),
    (Server::DeepSeek, "@ai-sdk/deepseek", "deepseek", "api.deepseek.com"),
    (Server::Xai, "@ai-sdk/xai", "xai", "api.x.ai"),
    (Server::Moonshot, "@ai-sdk/moonshotai", "moonshot", "api.moonshot."),
    (Server::Zai, "", "zai", "api.z.ai"),
    (Server::Ollama, "", "ollama", ":11434"),
    (Server::LmStudio, "", "lmstudio", ":1234/"),
    (Server::LlamaCpp, "", "llama.cpp", "llama-server"),
    (Server::Vllm, "", "vllm", "vllm"),
];

fn server(endpoint: &Endpoint) -> Server {
    let key = endpoint.provider_id.to_ascii_lowercase();
    let fits = |(_, npm, word, host): &&(Server, &str, &str, &str)| {
        endpoint.npm == *npm || key.contains(word) || endpoint.base_url.contains(host)
    };
    // A package of a vendor says more than a word in a key.
    let by_package = SERVERS.iter().find(|(_, npm, ..)| endpoint.npm == *npm);
    by_package.or_else(|| SERVERS.iter().find(fits)).map_or(Server::Any, |(server, ..)| *server)
}

/// Under which name the vendor's data is kept.
pub(super) fn vendor(endpoint: &Endpoint) -> &'static str {
    match server(endpoint) {
        Server::Copilot => "copilot",
        _ => "openrouter",
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn dialect(id: &str, npm: &str, base: &str, model: &str) -> Dialect {
        Dialect::of(&Endpoint::new(id, npm, base), model)
    }

    const COMPATIBLE: &str = "@ai-sdk/openai-compatible";

    #[test]
    fn a_server_is_known_by_package_key_or_address() {
        for (id, npm, base, is) in [
            ("p", "@ai-sdk/mistral", "", Server::Mistral),
            ("my-ollama", COMPATIBLE, "http://h/v1", Server::Ollama),
            ("p", COMPATIBLE, "http://localhost:11434/v1", Server::Ollama),
            ("p", COMPATIBLE, "https://api.groq.com/openai/v1", Server::Groq),
            ("mistral-on-groq", "@ai-sdk/groq", "", Server::Groq),
            ("p", COMPATIBLE, "http://h/v1", Server::Any),
        ] {
            assert_eq!(server(&Endpoint::new(id, npm, base)), is, "{id} {npm} {base}");
        }
    }

    #[test]
    fn a_model_brings_its_own_rules_to_any_server() {
        let plain = dialect("p", COMPATIBLE, "http://h", "m");
        assert_eq!((plain.ids, plain.order, plain.cache), (IdRule::Any, Order::Free, Cache::Not));
        let mistral = dialect("p", COMPATIBLE, "http://h", "org/Devstral-2");
        assert_eq!((mistral.ids, mistral.order), (IdRule::Nine, Order::Mistral));
        let claude = dialect("p", COMPATIBLE, "http://h", "claude-x");
        assert_eq!((claude.ids, claude.cache), (IdRule::Word(64), Cache::Message("cache_control")));
        let routed = dialect("p", OPENROUTER, "", "anthropic/claude-x");
        assert_eq!((routed.cache, routed.thinking), (Cache::Part, Thinking::Details));
        assert_eq!(dialect("p", OPENROUTER, "", "x/y").cache, Cache::Not);
        assert!(dialect("p", COMPATIBLE, "http://h", "deepseek-v3").always_thinks);
        assert_eq!(dialect("p", COMPATIBLE, "http://h", "gemini-2.5").schemas, Schemas::Gemini);
        assert_eq!(dialect("p", COMPATIBLE, "http://h", "kimi-k2").schemas, Schemas::Moonshot);
        let copilot = dialect("github-copilot", "@ai-sdk/github-copilot", "", "claude-x");
        assert_eq!(copilot.cache, Cache::Message("copilot_cache_control"));
    }
}
