//! Type names that a crate uses twice, private types and those inside macros included.
//!
//! Two types of one name have to be told apart by their paths, wherever both are in sight. One that stands twice in
//! one module is written for two platforms.

use std::collections::BTreeMap;

use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::visit::Visit;
use syn::{ImplItem, Item, Macro};

use crate::finding::{Finding, Kind};
use crate::test_code::{attributes, is_test_only};
use crate::tree::{ModuleId, Tree};

/// Reports every definition of a name after the first.
pub(crate) fn twice(tree: &Tree, findings: &mut Vec<Finding>) {
    let mut names = Names { module: 0, defined: BTreeMap::new() };
    for module in 0..tree.modules.len() {
        names.module = module;
        for item in &tree.modules[module].items {
            names.visit_item(item);
        }
    }
    for (name, places) in names.defined {
        let (first, line) = places[0];
        for &(module, again) in places[1..].iter().filter(|place| place.0 != first) {
            let text = format!("{name} is the name of a type in {}:{line} too", tree.file_name(first));
            findings.push(Finding { file: tree.modules[module].file.clone(), line: again, kind: Kind::Name, text });
        }
    }
}

struct Names {
    module: ModuleId,
    /// Where each name is defined: module and line.
    defined: BTreeMap<String, Vec<(ModuleId, usize)>>,
}

impl Names {
    fn note(&mut self, name: &Ident) {
        self.defined.entry(name.to_string()).or_default().push((self.module, name.span().start().line));
    }
}

/// The names of the types that a macro's tokens define.
pub(crate) fn types_in(tokens: TokenStream) -> Vec<Ident> {
    let mut names = Vec::new();
    let mut defines = false;
    for token in tokens {
        match token {
            TokenTree::Ident(ident) if defines => {
                names.push(ident);
                defines = false;
            }
            TokenTree::Ident(ident) => defines = ["struct", "enum", "union", "trait"].iter().any(|word| ident == word),
            TokenTree::Group(group) => {
                names.extend(types_in(group.stream()));
                defines = false;
            }
            _ => defines = false,
        }
    }
    names
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_test_only(attributes(item)) {
            return;
        }
        match item {
            Item::Struct(item) => self.note(&item.ident),
            Item::Enum(item) => self.note(&item.ident),
            Item::Union(item) => self.note(&item.ident),
            Item::Trait(item) => self.note(&item.ident),
            Item::Type(item) => self.note(&item.ident),
            Item::Mod(_) => return,
            _ => {}
        }
        syn::visit::visit_item(self, item);
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        if !matches!(item, ImplItem::Fn(item) if is_test_only(&item.attrs)) {
            syn::visit::visit_impl_item(self, item);
        }
    }

    fn visit_macro(&mut self, invocation: &'ast Macro) {
        for name in types_in(invocation.tokens.clone()) {
            self.note(&name);
        }
    }
}
