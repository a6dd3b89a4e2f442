//! What a document says of the code: call chains, and the variants of an enum in a table.
//!
//! A fenced block that is marked `calls` is a call chain. Each line names one function, as `file.rs::Type::name` or
//! `file.rs::name`; text after two spaces is a remark. A line that is indented by two spaces more than the line above
//! it is a function that the function above calls; the functions that one function calls stand in the order of its
//! text.
//!
//! A comment `<!-- variants of file.rs::Name -->` stands before a table. The first column of the table then lists the
//! variants of that enum, all of them and in the order of their declaration.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use syn::visit::{self, Visit};
use syn::{Block, ExprMethodCall, ExprPath, ImplItemFn, ItemEnum, ItemFn, ItemImpl, Type};

use crate::tree;

/// What the documents may name in a crate, each by `file.rs::Type::name`.
#[derive(Default)]
struct Code {
    /// The names that the text of each function calls or mentions, in order.
    functions: BTreeMap<String, Vec<String>>,
    variants: BTreeMap<String, Vec<String>>,
    file: String,
    owner: Option<String>,
}

impl Code {
    fn read(source: &Path) -> Result<Code, String> {
        let mut code = Code::default();
        for file in tree::files_below(source)? {
            let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
            let text = fs::read_to_string(&file).map_err(|error| wrong(&error))?;
            let parsed = syn::parse_file(&text).map_err(|error| wrong(&error))?;
            code.file = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            code.visit_file(&parsed);
        }
        Ok(code)
    }

    fn add(&mut self, name: String, block: &Block) {
        let owner = self.owner.iter().map(|owner| format!("{owner}::"));
        let key = format!("{}::{}{name}", self.file, owner.collect::<String>());
        let mut calls = Calls::default();
        calls.visit_block(block);
        self.functions.entry(key).or_default().extend(calls.0);
    }
}

impl<'ast> Visit<'ast> for Code {
    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        if let Type::Path(path) = &*item.self_ty {
            self.owner = path.path.segments.last().map(|segment| segment.ident.to_string());
        }
        visit::visit_item_impl(self, item);
        self.owner = None;
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.add(item.sig.ident.to_string(), &item.block);
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.add(item.sig.ident.to_string(), &item.block);
    }

    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        let variants = item.variants.iter().map(|variant| variant.ident.to_string()).collect();
        self.variants.insert(format!("{}::{}", self.file, item.ident), variants);
    }
}

/// The functions that a text calls or mentions, in order.
#[derive(Default)]
struct Calls(Vec<String>);

impl<'ast> Visit<'ast> for Calls {
    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        self.visit_expr(&call.receiver);
        self.0.push(call.method.to_string());
        call.args.iter().for_each(|argument| self.visit_expr(argument));
    }

    fn visit_expr_path(&mut self, path: &'ast ExprPath) {
        self.0.extend(path.path.segments.last().map(|segment| segment.ident.to_string()));
    }
}

/// A function of a chain whose callees are being read.
struct Caller<'c> {
    indent: usize,
    key: String,
    /// What its text mentions after the callees so far.
    rest: &'c [String],
}

/// Finds what a document says wrongly of the crate in `source`: line and fault. Also returns the number of functions
/// and variants that it names.
pub(crate) fn check(document: &Path, source: &Path) -> Result<(usize, Vec<(usize, String)>), String> {
    let text = fs::read_to_string(document).map_err(|error| format!("{}: {error}", document.display()))?;
    let code = Code::read(source)?;
    let mut faults = Vec::new();
    let mut named = 0;
    let mut chain: Option<Vec<Caller<'_>>> = None;
    let mut table: Option<(usize, &str, Vec<&str>)> = None;
    // The last line ends a table that ends with the document.
    for (number, line) in (1..).zip(text.lines().chain([""])) {
        let fence = line.trim_start().strip_prefix("```");
        if let Some(name) = line.strip_prefix("<!-- variants of ").and_then(|rest| rest.strip_suffix(" -->")) {
            table = Some((number, name, Vec::new()));
        } else if let Some((_, _, rows)) = &mut table
            && let Some(row) = line.strip_prefix('|')
        {
            rows.extend(row.split('`').nth(1).filter(|_| row.trim_start().starts_with('`')));
        } else if let Some((at, name, rows)) = table.take_if(|(_, _, rows)| !rows.is_empty()) {
            named += rows.len();
            match code.variants.get(name) {
                Some(variants) if *variants == rows => {}
                Some(variants) => faults.push((at, format!("{name} is {}", variants.join(", ")))),
                None => faults.push((at, format!("{name}: no such enum"))),
            }
        }
        match (&mut chain, fence) {
            (None, Some("calls")) => chain = Some(Vec::new()),
            (Some(_), Some(_)) => chain = None,
            (Some(callers), None) if !line.trim().is_empty() => {
                named += 1;
                faults.extend(call(&code, callers, line).err().map(|fault| (number, fault)));
            }
            _ => {}
        }
    }
    faults.extend(table.map(|(at, name, _)| (at, format!("{name}: no table follows"))));
    Ok((named, faults))
}

/// Reads one line of a chain.
fn call<'c>(code: &'c Code, callers: &mut Vec<Caller<'c>>, line: &str) -> Result<(), String> {
    let key = line.trim_start();
    let indent = line.len() - key.len();
    let key = key.split("  ").next().unwrap_or(key).trim_end();
    while callers.last().is_some_and(|caller| caller.indent >= indent) {
        callers.pop();
    }
    let calls = code.functions.get(key);
    let name = key.rsplit("::").next().unwrap_or(key);
    let mut fault = if calls.is_none() { Err(format!("{key}: no such function")) } else { Ok(()) };
    if let Some(caller) = callers.last_mut() {
        match caller.rest.iter().position(|called| called == name) {
            Some(at) => caller.rest = caller.rest.get(at + 1..).unwrap_or_default(),
            None => fault = fault.and(Err(format!("{} does not call {name}, or earlier", caller.key))),
        }
    }
    callers.push(Caller { indent, key: key.to_owned(), rest: calls.map_or(&[], Vec::as_slice) });
    fault
}
