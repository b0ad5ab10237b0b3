use pretty_assertions::assert_eq;

use super::*;

#[test]
fn each_family_of_models_has_its_own_words() {
    let first = |model: &str| family(model).lines().nth(1).unwrap_or_default().to_owned();
    let families =
        ["claude-sonnet-4-5", "gpt-5.2", "gpt-5.1-codex", "gemini-3-pro", "openai/o3-mini", "qwen3-coder"].map(first);
    for (index, one) in families.iter().enumerate() {
        assert!(!one.is_empty() && !families[..index].contains(one), "{one}");
    }
    assert_eq!(first("anthropic/Claude-Opus-4"), first("claude-sonnet-4-5"));
    assert_eq!(first("gpt-4.1"), first("o3"));
    assert_eq!(first("gpt-oss-120b"), first("some-model"));
    assert_eq!(first("foo1-o3x"), first("some-model"));
}
