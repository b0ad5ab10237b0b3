//! Pages to markdown and to text. A page is anybody's text: parsing it is bounded in time and size, walking it
//! in depth.

use std::rc::Rc;
use std::time::{Duration, Instant};

use htmd::HtmlToMarkdown;
use html5ever::driver::ParseOpts;
use html5ever::parse_document;
use html5ever::tendril::TendrilSink;
use markup5ever_rcdom::{Node, NodeData};
use tokio_util::sync::CancellationToken;

use super::dom::CountingDom;
use crate::error::ToolError;

/// Longest time for one page. Parsing is quadratic in how deep tags stand in each other.
const PATIENCE: Duration = Duration::from_secs(5);

/// How deep a page may be to be turned into markdown, which recurses; ordinary ones stay below 60.
const DEEPEST: usize = 256;

/// Most elements of a page; ordinary ones have some thousands.
const ELEMENTS: usize = 500_000;

/// Most bytes of all elements' attributes; a fetched page is smaller, unless it has its elements repeated.
const ATTRIBUTES: usize = 16 * 1024 * 1024;

/// Bytes parsed between two looks at the clock and the count: each three may make thousands of elements.
const STEP: usize = 256;

/// Elements that hold nothing to read.
const SILENT: [&str; 8] = ["script", "style", "noscript", "iframe", "object", "embed", "meta", "link"];

/// Turns a page into markdown; one that is nested too deep becomes text.
pub(super) fn to_markdown(html: &str, cancel: &CancellationToken) -> Result<String, ToolError> {
    let document = parse(html, cancel)?;
    if depth(&document) > DEEPEST {
        return Ok(text_of(&document));
    }
    let silent = SILENT.into_iter().filter(|tag| *tag != "noscript").collect();
    let converter = HtmlToMarkdown::builder().skip_tags(silent).build();
    Ok(converter.tree_to_markdown(&document).trim().to_owned())
}

/// Returns a page's text, tags taken off, as OpenCode gives it.
pub(super) fn to_text(html: &str, cancel: &CancellationToken) -> Result<String, ToolError> {
    Ok(text_of(&*parse(html, cancel)?))
}

fn parse(html: &str, cancel: &CancellationToken) -> Result<Rc<Node>, ToolError> {
    let start = Instant::now();
    let mut parser = parse_document(CountingDom::default(), ParseOpts::default());
    let mut rest = html;
    while !rest.is_empty() {
        if cancel.is_cancelled() {
            return Err(ToolError::Aborted);
        }
        let end = (STEP.min(rest.len())..=rest.len()).find(|end| rest.is_char_boundary(*end)).unwrap_or(rest.len());
        let (step, after) = rest.split_at(end);
        parser.process(step.into());
        rest = after;
        let dom = &parser.tokenizer.sink.sink;
        if start.elapsed() > PATIENCE || dom.elements() > ELEMENTS || dom.attributes() > ATTRIBUTES {
            return Err(ToolError::failed("The page is too entangled to be converted. Fetch it with format html."));
        }
    }
    Ok(parser.finish().document)
}

/// Returns how deep the elements stand in each other.
fn depth(document: &Rc<Node>) -> usize {
    let mut deepest = 0;
    let mut todo = vec![(document.clone(), 0)];
    while let Some((node, depth)) = todo.pop() {
        deepest = deepest.max(depth);
        todo.extend(node.children.borrow().iter().map(|child| (child.clone(), depth + 1)));
    }
    deepest
}

fn text_of(document: &Node) -> String {
    let mut text = String::new();
    let mut todo: Vec<Rc<Node>> = document.children.borrow().iter().rev().cloned().collect();
    while let Some(node) = todo.pop() {
        match &node.data {
            NodeData::Text { contents } => text.push_str(&contents.borrow()),
            NodeData::Element { name, .. } if SILENT.contains(&&*name.local) => {}
            _ => todo.extend(node.children.borrow().iter().rev().cloned()),
        }
    }
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const PAGE: &str = "<html><head><title>T</title></head><body><h1>Hi</h1><p>para <b>bold</b> <a href='/x'>link</a></p></body></html>";

    fn markdown(html: &str) -> String {
        to_markdown(html, &CancellationToken::new()).unwrap()
    }

    fn text(html: &str) -> String {
        to_text(html, &CancellationToken::new()).unwrap()
    }

    #[test]
    fn a_page_becomes_markdown_or_text_as_on_the_wire() {
        assert_eq!(markdown(PAGE), "T\n\n# Hi\n\npara **bold** [link](/x)");
        assert_eq!(text(PAGE), "THipara bold link");
    }

    #[test]
    fn what_is_not_to_be_read_is_left_out() {
        let html = "<p>a</p><script>let x = 1 < 2</script><style>p {}</style><iframe src=x></iframe><p>b &amp; c</p>";
        assert_eq!(markdown(html), "a\n\nb & c");
        assert_eq!(text(html), "ab & c");
    }

    #[test]
    fn broken_and_endless_pages_are_taken() {
        assert_eq!(text("<p>a<b>b<p>c</i></div>"), "abc");
        assert_eq!(markdown(""), "");
        let deep = format!("{}x", "<div>".repeat(5_000));
        assert_eq!(markdown(&deep), "x");
        let at_the_limit = format!("{}x", "<div>".repeat(DEEPEST - 4));
        assert_eq!(markdown(&at_the_limit), "x");
        let lists = format!("{}x", "<ul><li>".repeat(120));
        assert!(markdown(&lists).contains('x'));
    }

    #[test]
    fn a_small_page_of_millions_of_elements_is_given_up() {
        let open: String = (0..2_000).map(|n| format!("<b a{n}>")).collect();
        let page = format!("<p>{open}</p>{}", "<p>x".repeat(2_000));
        let error = to_text(&page, &CancellationToken::new()).unwrap_err();
        assert!(error.to_string().contains("entangled"), "{error}");
        let page = format!("<p><a href='/{}'>a</p>{}", "x".repeat(1 << 20), "<p>x".repeat(100));
        let entangled = |error: ToolError| error.to_string().contains("entangled");
        assert!(to_markdown(&page, &CancellationToken::new()).is_err_and(entangled));
        let table = format!("<table>{}</table>", "<tr><td>1<td>2".repeat(5_000));
        assert_eq!(text(&table).len(), 10_000);
    }

    #[test]
    fn a_cancelled_conversion_stops() {
        let cancel = CancellationToken::new();
        cancel.cancel();
        assert!(matches!(to_markdown(PAGE, &cancel), Err(ToolError::Aborted)));
    }
}
