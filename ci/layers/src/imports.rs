//! Paths from file to file: which lead upwards, and which files form a circle.
//!
//! A path is written out from `crate`, `self`, `super` or `$crate`, or begins with a module that the file itself
//! declares. It leads to the deepest module that it names; what stands behind that is an item of its file. Inside
//! macros, whose syntax is unknown, paths are read from the tokens.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use syn::visit::Visit;
use syn::{Attribute, ImplItem, Item, ItemUse, Macro, Path, Stmt, UseTree, Visibility};

use crate::finding::{Finding, Kind};
use crate::test_code::{attributes, is_test_only, statement_attributes};
use crate::tree::{ModuleId, Tree, line_of};

/// The arrows between files: from a file to those it uses, each with the line of the first use.
pub(crate) type Arrows = BTreeMap<(ModuleId, ModuleId), usize>;

/// Reports the paths that lead upwards; returns all arrows.
pub(crate) fn upward(tree: &Tree, findings: &mut Vec<Finding>) -> Arrows {
    let mut arrows = Arrows::new();
    for module in 0..tree.modules.len() {
        let mut paths = Paths { tree, module, found: Vec::new() };
        for item in &tree.modules[module].items {
            paths.visit_item(item);
        }
        for found in paths.found {
            let from = tree.modules[module].home;
            let to = tree.modules[found.to].home;
            let file = tree.modules[module].file.clone();
            let mut report =
                |text| findings.push(Finding { file: file.clone(), line: found.line, kind: Kind::Import, text });
            if found.imports_all_of_crate {
                report("imports everything of the crate".to_owned());
            } else if tree.is_above(to, from) {
                report(format!("`{}` leads up to {}", found.text, tree.file_name(to)));
            }
            if from != to {
                arrows.entry((from, to)).or_insert(found.line);
            }
        }
    }
    arrows
}

/// Reports the circles: files each of which leads to all others.
pub(crate) fn circles(tree: &Tree, arrows: &Arrows, findings: &mut Vec<Finding>) {
    let mut next: BTreeMap<ModuleId, Vec<ModuleId>> = BTreeMap::new();
    for &(from, to) in arrows.keys() {
        next.entry(from).or_default().push(to);
    }
    let reach: BTreeMap<ModuleId, BTreeSet<ModuleId>> =
        tree.files().map(|file| (file, reachable(file, &next))).collect();
    let mut told: BTreeSet<ModuleId> = BTreeSet::new();
    for (&file, ahead) in &reach {
        if told.contains(&file) || !ahead.contains(&file) {
            continue;
        }
        let circle: Vec<ModuleId> = ahead.iter().copied().filter(|other| reach[other].contains(&file)).collect();
        told.extend(&circle);
        let line = circle.iter().find_map(|&to| arrows.get(&(file, to))).copied().unwrap_or(1);
        let names: Vec<String> = circle.iter().map(|&file| tree.file_name(file)).collect();
        let text = format!("{} files use each other: {}", names.len(), names.join(" "));
        findings.push(Finding { file: tree.modules[file].file.clone(), line, kind: Kind::Circle, text });
    }
}

/// The files that one comes to from a file, itself only if there is a way back.
fn reachable(file: ModuleId, next: &BTreeMap<ModuleId, Vec<ModuleId>>) -> BTreeSet<ModuleId> {
    let mut seen = BTreeSet::new();
    let mut waiting = vec![file];
    while let Some(at) = waiting.pop() {
        for &to in next.get(&at).into_iter().flatten() {
            if seen.insert(to) {
                waiting.push(to);
            }
        }
    }
    seen
}

/// A path, and the module that it leads to.
struct Found {
    to: ModuleId,
    line: usize,
    text: String,
    imports_all_of_crate: bool,
}

/// Collects the paths of one module.
struct Paths<'t> {
    tree: &'t Tree,
    module: ModuleId,
    found: Vec<Found>,
}

impl Paths<'_> {
    /// Follows a path. The last segment of a path in code is an item; that of an import may be a module.
    fn follow(&mut self, segments: &[String], line: usize, is_import: bool) {
        let mut at = self.module;
        let mut rest = segments;
        match segments.first().map(String::as_str) {
            Some("crate") => {
                at = self.tree.root();
                rest = &rest[1..];
            }
            Some("self") if segments.len() > 1 => rest = &rest[1..],
            Some("super") => {
                while rest.first().is_some_and(|segment| segment == "super") {
                    let Some(parent) = self.tree.modules[at].parent else { return };
                    at = parent;
                    rest = &rest[1..];
                }
            }
            Some(name) if segments.len() > 1 && self.tree.child(at, name).is_some() => {}
            _ => return,
        }
        while let [name, after @ ..] = rest {
            match self.tree.child(at, name) {
                Some(child) if is_import || !after.is_empty() => at = child,
                _ => break,
            }
            rest = after;
        }
        let imports_all_of_crate = at == self.tree.root() && rest.first().is_some_and(|name| name == "*");
        let mut to = at;
        // A macro of the crate is reached through the root wherever it is defined.
        if let (true, [name]) = (at == self.tree.root() && segments[0] == "crate", rest)
            && let Some(module) = self.exported_macro(name)
        {
            to = module;
        }
        self.found.push(Found { to, line, text: segments.join("::"), imports_all_of_crate });
    }

    /// The module that defines a macro with `#[macro_export]`.
    fn exported_macro(&self, name: &str) -> Option<ModuleId> {
        (0..self.tree.modules.len()).find(|&module| {
            self.tree.modules[module].items.iter().any(|item| match item {
                Item::Macro(item) => {
                    item.ident.as_ref().is_some_and(|ident| ident == name)
                        && item.attrs.iter().any(|attr| attr.path().is_ident("macro_export"))
                }
                _ => false,
            })
        })
    }

    fn follow_tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut index = 0;
        while index < tokens.len() {
            match &tokens[index] {
                TokenTree::Group(group) => self.follow_tokens(group.stream()),
                TokenTree::Ident(ident)
                    if ["crate", "super", "self"].iter().any(|start| ident == start)
                        && is_separator(&tokens[index + 1..]) =>
                {
                    let line = ident.span().start().line;
                    self.follow_branch(&tokens[index..], Vec::new(), line);
                    index += 2;
                }
                TokenTree::Literal(literal) => {
                    // A path in an attribute: `#[serde(with = "crate::text")]`.
                    let text = literal.to_string();
                    let text = text.trim_matches('"');
                    if text.starts_with("crate::") || text.starts_with("super::") {
                        let segments: Vec<String> = text.split("::").map(str::to_owned).collect();
                        let is_name =
                            |text: &String| text.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
                        if segments.iter().all(is_name) {
                            self.follow(&segments, literal.span().start().line, false);
                        }
                    }
                }
                _ => {}
            }
            index += 1;
        }
    }

    /// Follows one path of tokens, or several that part in braces.
    fn follow_branch(&mut self, tokens: &[TokenTree], mut before: Vec<String>, line: usize) {
        let mut index = 0;
        loop {
            match tokens.get(index) {
                Some(TokenTree::Ident(ident)) => before.push(ident.to_string()),
                Some(TokenTree::Punct(star)) if star.as_char() == '*' => {
                    before.push("*".to_owned());
                    break;
                }
                Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    for branch in
                        inner.split(|token| matches!(token, TokenTree::Punct(comma) if comma.as_char() == ','))
                    {
                        if !branch.is_empty() {
                            self.follow_branch(branch, before.clone(), line);
                        }
                    }
                    return;
                }
                _ => break,
            }
            if !is_separator(&tokens[index + 1..]) {
                break;
            }
            index += 3;
        }
        if before.last().is_some_and(|last| last == "self") && before.len() > 1 {
            before.pop();
        }
        self.follow(&before, line, true);
    }
}

/// A name that a `use` brings in.
pub(crate) struct Leaf {
    /// The path that it is imported by; the last part of a glob's is `*`.
    pub(crate) path: Vec<String>,
    /// The name in the importing module, none for a glob.
    pub(crate) name: Option<String>,
    line: usize,
}

/// The names that a `use` brings in, or a part of one that stands after `before`.
pub(crate) fn leaves(tree: &UseTree, before: &[String]) -> Vec<Leaf> {
    let (last, renamed) = match tree {
        UseTree::Path(path) => return leaves(&path.tree, &[before, &[path.ident.to_string()]].concat()),
        UseTree::Group(group) => return group.items.iter().flat_map(|tree| leaves(tree, before)).collect(),
        UseTree::Name(name) => (name.ident.to_string(), None),
        UseTree::Rename(rename) => (rename.ident.to_string(), Some(rename.rename.to_string())),
        UseTree::Glob(_) => ("*".to_owned(), None),
    };
    let mut path = before.to_vec();
    path.extend(Some(last).filter(|last| last != "self"));
    let name = renamed.or_else(|| path.last().filter(|last| *last != "*").cloned());
    vec![Leaf { path, name, line: line_of(tree) }]
}

/// Whether tokens begin with `::`.
fn is_separator(tokens: &[TokenTree]) -> bool {
    matches!(tokens, [TokenTree::Punct(first), TokenTree::Punct(second), ..]
        if first.as_char() == ':' && first.spacing() == Spacing::Joint && second.as_char() == ':')
}

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        // Inline modules are modules of the tree.
        if !is_test_only(attributes(item)) && !matches!(item, Item::Mod(_)) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let attrs: &[Attribute] = match item {
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Const(item) => &item.attrs,
            ImplItem::Type(item) => &item.attrs,
            _ => &[],
        };
        if !is_test_only(attrs) {
            syn::visit::visit_impl_item(self, item);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if !is_test_only(&field.attrs) {
            syn::visit::visit_field(self, field);
        }
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        if !is_test_only(statement_attributes(statement)) {
            syn::visit::visit_stmt(self, statement);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        for leaf in leaves(&item.tree, &[]) {
            self.follow(&leaf.path, leaf.line, true);
        }
    }

    fn visit_path(&mut self, path: &'ast Path) {
        if path.leading_colon.is_none() && path.segments.len() > 1 {
            let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.follow(&segments, line_of(path), false);
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, invocation: &'ast Macro) {
        self.visit_path(&invocation.path);
        self.follow_tokens(invocation.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let syn::Meta::List(list) = &attribute.meta {
            self.follow_tokens(list.tokens.clone());
        }
    }

    /// `pub(in crate::zone)` says who may look, and uses nothing.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}
