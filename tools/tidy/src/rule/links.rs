//! Refuses relative links in documents that lead nowhere.

use crate::finding::Finding;
use crate::rule::words::prose;
use crate::tree::Tree;

const RULE: &str = "links";

/// Checks inline links, images and reference definitions of every Markdown file.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts.iter().filter(|(path, _)| path.ends_with(".md")) {
        for (index, line) in prose(text).lines().enumerate() {
            for target in targets(line).into_iter().filter(|target| !is_address(target)) {
                if let Some(why) = dead(tree, path, target) {
                    let what = format!("link `{target}` is dead: {why}");
                    findings.push(Finding::refuse(RULE, path, index + 1, what));
                }
            }
        }
    }
    findings
}

fn targets(line: &str) -> Vec<&str> {
    let inline = line.match_indices("](").filter_map(|(at, _)| {
        let rest = &line[at + 2..];
        rest.find(')').map(|end| rest[..end].split_whitespace().next().unwrap_or_default())
    });
    let mut found: Vec<&str> = inline.collect();
    if line.starts_with('[')
        && let Some((_, target)) = line.split_once("]: ")
    {
        found.push(target.trim());
    }
    found
}

fn is_address(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
}

fn dead(tree: &Tree, from: &str, target: &str) -> Option<&'static str> {
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    let path = if file.is_empty() { Some(from.to_owned()) } else { resolve(from, file) };
    let Some(path) = path else { return Some("it leaves the checkout") };
    if !tree.paths.contains(&path) && !tree.dirs.contains(&path) {
        return Some("no such file");
    }
    let text = tree.texts.get(&path).filter(|_| path.ends_with(".md"));
    match (anchor, text) {
        (Some(anchor), Some(text)) if !headings(text).iter().any(|h| h == anchor) => Some("no such heading"),
        _ => None,
    }
}

/// Joins a relative target to the directory of the file that names it.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    if target.starts_with('/') {
        return None;
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Gives the anchors of a document's headings.
fn headings(text: &str) -> Vec<String> {
    let slug = |heading: &str| -> String {
        let lower = heading.trim().to_lowercase();
        let kept = lower.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    text.lines().filter(|line| line.starts_with('#')).map(|line| slug(line.trim_start_matches('#'))).collect()
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tree::Tree;

    fn found(text: &str) -> usize {
        check(&Tree::of(&[("docs/a.md", text), ("docs/b/c.md", "# Two words, here\n"), ("README.md", "")]))
            .len()
    }

    #[test]
    fn links_to_files_directories_headings_and_addresses_pass() {
        for text in [
            "[c](b/c.md)\n",
            "[up](../README.md) and ![b](b)\n",
            "[h](b/c.md#two-words-here)\n",
            "# Here\n[h](#here)\n",
            "[x](https://example.org/a.md)\n",
            "[r]: b/c.md\n",
            "`[x](gone.md)`\n",
        ] {
            assert_eq!(found(text), 0, "{text}");
        }
    }

    #[test]
    fn dead_links_are_refused() {
        for text in [
            "[x](gone.md)\n",
            "[x](b/gone.md) [y](b/c.md)\n",
            "[x](b/c.md#gone)\n",
            "[x](#gone)\n",
            "[x](../../README.md)\n",
            "[x](/README.md)\n",
            "[r]: gone.md\n",
        ] {
            assert_eq!(found(text), 1, "{text}");
        }
    }
}
