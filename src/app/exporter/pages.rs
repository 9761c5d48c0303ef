//! Pages for people: readable on a phone, without any script, and nothing in them that a stranger chose can be markup.
//!
//! The content is the runbook's markdown, in which names are escaped already. Here it becomes HTML, and raw HTML and
//! links to anything but the web become text even so.

use std::fmt::Write as _;
use std::sync::LazyLock;

use openssl::base64;
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};
use sha2::{Digest, Sha256};

use super::world::Shown;
use crate::analysis::report::TargetReport;
use crate::render::runbook::Selection;
use crate::render::runbook_markdown;
use crate::rules::{ALL, pages};

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:1rem/1.5 system-ui,sans-serif;max-width:48rem;margin:0 auto;padding:1rem;overflow-wrap:anywhere}\
h1{font-size:1.5rem}h2{font-size:1.2rem;border-top:1px solid;padding-top:1rem;margin-top:2rem}h3{font-size:1rem;margin-bottom:.25rem}\
pre{overflow-x:auto;padding:.5rem;border:1px solid;border-radius:.25rem;overflow-wrap:normal}code{font-family:ui-monospace,monospace;font-size:.9em}\
ul,ol{padding-left:1.5rem}.old{border:2px solid;padding:.5rem}nav a{margin-right:1rem}";

/// No script, no frame, nothing from elsewhere; only our own style.
pub(super) static POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = base64::encode_block(&Sha256::digest(STYLE.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
});

/// The rule of that name, as our own text.
pub(super) fn known_rule(name: &str) -> Option<&'static str> {
    ALL.iter().map(|rule| rule.name()).find(|rule| *rule == name)
}

/// `/`
pub(super) fn landing(telemetry_path: &str) -> String {
    let metrics = telemetry_path.trim_start_matches('/');
    let body = format!(
        "<h1>pglockwatch</h1>\n<p>Advisory locks of PostgreSQL: who holds them, since when, who waits, and what to do. \
         Version {}.</p>\n<ul>\n<li><a href=\"runbook\">Runbook</a>: what is wrong now, and what to do</li>\n\
         <li><a href=\"findings\">Findings</a> as JSON</li>\n<li><a href=\"{}\">Metrics</a></li>\n\
         <li><a href=\"-/healthy\">Healthy</a>, <a href=\"-/ready\">ready</a></li>\n</ul>\n",
        env!("CARGO_PKG_VERSION"),
        escape(metrics)
    );
    document("pglockwatch", &body)
}

/// `/runbook`: the findings of now, then the pages there are.
pub(super) fn runbook(shown: &[Shown]) -> String {
    let mut body = String::from("<nav><a href=\"./\">pglockwatch</a><a href=\"findings\">JSON</a></nav>\n");
    push_findings(&mut body, shown, None);
    body.push_str("<h2>Pages of all rules</h2>\n<ul>\n");
    for rule in ALL {
        let _ = writeln!(body, "<li><a href=\"runbook/{0}\">{0}</a></li>", escape(rule.name()));
    }
    body.push_str("</ul>\n");
    document("pglockwatch runbook", &body)
}

/// `/runbook/RULE`: its findings of now, then its page.
pub(super) fn rule(rule: &'static str, shown: &[Shown]) -> String {
    let mut body = String::from("<nav><a href=\"../\">pglockwatch</a><a href=\"../runbook\">All findings</a></nav>\n");
    push_findings(&mut body, shown, Some(rule));
    if let Some(page) = pages::page(rule) {
        body.push_str(&to_html(page));
    }
    document(&format!("{rule}: pglockwatch runbook"), &body)
}

/// A page that says one thing.
pub(super) fn notice(title: &str, sentence: &str) -> String {
    document(title, &format!("<h1>{}</h1>\n<p>{}</p>\n", escape(title), escape(sentence)))
}

fn push_findings(body: &mut String, shown: &[Shown], rule: Option<&str>) {
    for Shown { report, silence } in shown {
        let Some((failure, age)) = silence else { continue };
        let target = escape(&report.target);
        let _ =
            write!(body, "<p class=\"old\"><strong>{target} does not answer.</strong> {}.", escape(&failure.message));
        for hint in &failure.hints {
            let _ = write!(body, " {}", escape(hint));
        }
        match age {
            Some(age) => {
                let _ = write!(body, " What is shown of it below is {} s old.", age.as_secs());
            }
            None => body.push_str(" Nothing is known of it."),
        }
        body.push_str("</p>\n");
    }
    let known = shown.iter().filter(|shown| shown.report.server.is_some());
    let reports: Vec<TargetReport> = known
        .map(|shown| {
            let mut report = TargetReport::clone(&shown.report);
            report.findings.retain(|finding| rule.is_none_or(|rule| finding.rule == rule));
            report
        })
        .filter(|report| rule.is_none() || !report.findings.is_empty())
        .collect();
    if let (Some(rule), true) = (rule, reports.is_empty()) {
        let _ = writeln!(body, "<p>No finding of {} now.</p>", escape(rule));
        return;
    }
    body.push_str(&to_html(&runbook_markdown::render(&reports, &Selection::default())));
}

/// Markdown as HTML. Raw HTML is shown as text; a link leads to the web or is none; there are no pictures.
fn to_html(markdown: &str) -> String {
    let parser = Parser::new_ext(markdown, Options::ENABLE_TABLES);
    let mut open_links = Vec::new();
    let events = parser.filter_map(|event| match event {
        Event::Html(text) | Event::InlineHtml(text) => Some(Event::Text(text)),
        Event::Start(Tag::Link { dest_url, .. }) => {
            let harmless = is_web(&dest_url);
            open_links.push(harmless);
            // The title is dropped: it adds nothing.
            harmless.then(|| Event::Start(link(dest_url)))
        }
        Event::End(TagEnd::Link) => open_links.pop().unwrap_or_default().then_some(Event::End(TagEnd::Link)),
        Event::Start(Tag::Image { .. }) | Event::End(TagEnd::Image) => None,
        other => Some(other),
    });
    let mut text = String::new();
    html::push_html(&mut text, events);
    text
}

fn link(dest_url: CowStr<'_>) -> Tag<'_> {
    let [title, id] = [CowStr::from(""), CowStr::from("")];
    Tag::Link { link_type: pulldown_cmark::LinkType::Inline, dest_url, title, id }
}

fn is_web(url: &str) -> bool {
    url.starts_with("https://") || url.starts_with("http://")
}

fn document(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        escape(title)
    )
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_of_strangers_stays_text() {
        let hostile = "a <script>alert(1)</script> b\n\n<img src=x onerror=alert(1)>\n\n[click](javascript:alert(1)) \
                       [data](data:text/html,x) ![p](http://x/y.png) [web](https://example.com/)";
        let html = to_html(hostile);
        assert!(!html.contains("<script") && !html.contains("<img") && !html.contains("javascript:"), "{html}");
        assert!(!html.contains("data:text"), "{html}");
        assert!(html.contains("<a href=\"https://example.com/\">web</a>"), "{html}");
        assert!(notice("<a>", "\"b\" & c").contains("<h1>&lt;a&gt;</h1>\n<p>&quot;b&quot; &amp; c</p>"));
    }

    #[test]
    fn every_rule_has_its_page_and_is_linked() {
        let all = runbook(&[]);
        for one in ALL {
            assert!(all.contains(&format!("href=\"runbook/{}\"", one.name())), "{}", one.name());
            assert!(rule(one.name(), &[]).contains("<h2>Meaning</h2>"), "{}", one.name());
        }
        assert!(known_rule("idle-holder").is_some() && known_rule("../etc/passwd").is_none());
    }
}
