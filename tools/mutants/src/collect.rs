//! Finds the sites of a file.
//!
//! The file is parsed, its text stays: a site is a range of bytes, so the copy keeps every comment and blank. An
//! expression that contains sites is a site itself. Its mutants repeat its text without the inner sites, since one
//! mutant is at work at a time; the text grows with the depth, not with its power.
//!
//! No mutants: tests; `Debug`, whose text is for developers; what the compiler evaluates (constants, lengths of
//! arrays, discriminants); macros, which are no syntax tree. [`Skipped`] counts the last three.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Block, Expr, Lit, ReturnType, Stmt, UnOp};

use crate::mutant::{Key, Mutant, Shape, Site, Skipped};
use crate::operators;

/// Sites of a file in the order of their places, an outer one before its inner ones.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) sites: Vec<Site>,
    pub(crate) skipped: Skipped,
}

/// Finds the sites of the file of this name, relative to the sources of the core, and text.
pub(crate) fn sites_of(file: &str, text: &str) -> syn::Result<Found> {
    let parsed = syn::parse_file(text)?;
    let mut collector = Collector {
        file,
        text,
        lines: text.lines().map(str::trim).collect(),
        path: Vec::new(),
        function: String::new(),
        seen: HashMap::new(),
        sites: BTreeMap::new(),
        skipped: Skipped::default(),
    };
    collector.visit_file(&parsed);
    let sites = collector.sites.into_iter().map(|((start, end, shape), mutants)| Site {
        range: start..usize::MAX - end,
        shape,
        mutants,
    });
    Ok(Found { sites: sites.collect(), skipped: collector.skipped })
}

struct Collector<'t> {
    file: &'t str,
    text: &'t str,
    lines: Vec<&'t str>,
    /// Types and modules around the function.
    path: Vec<String>,
    function: String,
    seen: HashMap<(String, String, String), u32>,
    /// By the begin and, falling, the end of the range.
    sites: BTreeMap<(usize, usize, Shape), Vec<Mutant>>,
    skipped: Skipped,
}

impl Collector<'_> {
    fn source(&self, node: &impl Spanned) -> &str {
        &self.text[node.span().byte_range()]
    }

    /// Notes a mutant of the site at `range`. `at` says which line it is named by.
    fn add(&mut self, range: Range<usize>, shape: Shape, at: usize, change: String, code: String) {
        let place = self.sites.entry((range.start, usize::MAX - range.end, shape)).or_default();
        if shape == Shape::Expression && (place.iter().any(|one| one.code == code) || self.text[range] == code) {
            return;
        }
        let line = self.text[..at].matches('\n').count() + 1;
        let text = self.lines.get(line - 1).copied().unwrap_or_default().to_owned();
        let same = (self.function.clone(), change.clone(), text.clone());
        let nth = self.seen.entry(same).and_modify(|count| *count += 1).or_insert(1);
        let key = Key { file: self.file.to_owned(), function: self.function.clone(), change, nth: *nth, text };
        place.push(Mutant { key, line, code });
    }

    /// Notes that the expression `whole` may be `code`; `of` is the part that the change is named by.
    fn replace(&mut self, whole: &impl Spanned, of: Range<usize>, from: &str, to: &str, code: String) {
        self.add(whole.span().byte_range(), Shape::Expression, of.start, format!("{from} -> {to}"), code);
    }

    /// Notes that the part `of` of the expression `whole` may be `to`.
    fn replace_part(&mut self, whole: &impl Spanned, of: Range<usize>, to: &str) {
        let range = whole.span().byte_range();
        let code = [&self.text[range.start..of.start], to, &self.text[of.end..range.end]].concat();
        let from = self.text[of.clone()].to_owned();
        self.replace(whole, of, &from, to, code);
    }

    /// Notes that a condition may be always true, or never; both not for what binds names.
    fn condition(&mut self, condition: &Expr, keyword: &str, values: &[&str]) {
        if has_let(condition) {
            if let Expr::Binary(both) = condition {
                self.condition(&both.left, keyword, values);
                self.condition(&both.right, keyword, values);
            }
            return;
        }
        for &value in values {
            self.replace(condition, condition.span().byte_range(), keyword, value, value.to_owned());
        }
    }

    fn in_function(&mut self, name: &str, output: &ReturnType, body: &Block) {
        let outer = std::mem::take(&mut self.function);
        self.function = self.path.iter().map(String::as_str).chain([name]).collect::<Vec<_>>().join("::");
        let start = body.brace_token.span.open().byte_range().end;
        let inside = self.text[start..body.brace_token.span.close().byte_range().start].trim();
        for value in operators::of_return(output) {
            if inside != value && !(value.is_empty() && does_nothing(body)) {
                let at = body.brace_token.span.open().byte_range().start;
                let change = format!("body -> {}", if value.is_empty() { "()" } else { &value });
                self.add(start..start, Shape::Entry, at, change, format!("return {value}"));
            }
        }
        visit::visit_block(self, body);
        self.function = outer;
    }

    fn in_type(&mut self, name: String, visit: impl FnOnce(&mut Self)) {
        self.path.push(name);
        visit(self);
        self.path.pop();
    }

    fn statement(&mut self, statement: &Stmt) {
        let Stmt::Expr(expression, Some(_)) = statement else { return };
        let range = statement.span().byte_range();
        let deletable = |one: &Expr| match one {
            Expr::Call(_) | Expr::MethodCall(_) | Expr::Assign(_) => true,
            Expr::Binary(binary) => is_assignment(&binary.op),
            _ => false,
        };
        let at = range.start;
        match expression {
            Expr::Try(tried) if deletable(&tried.expr) => {
                self.add(range.clone(), Shape::Statement, at, "statement -> nothing".to_owned(), String::new());
                let ignored = format!("let _ = {};", self.source(&tried.expr));
                self.add(range, Shape::Statement, at, "error -> ignored".to_owned(), ignored);
            }
            one if deletable(one) => {
                self.add(range, Shape::Statement, at, "statement -> nothing".to_owned(), String::new());
            }
            _ => {}
        }
    }
}

/// Returns whether an expression, or a part of an `&&`, binds names.
fn has_let(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(both) => matches!(both.op, BinOp::And(_)) && (has_let(&both.left) || has_let(&both.right)),
        _ => false,
    }
}

/// Whether a function without a result names its arguments and ends: `let _ = (a, b);`.
fn does_nothing(body: &Block) -> bool {
    let is_name = |one: &Expr| matches!(one, Expr::Path(_));
    body.stmts.iter().all(|statement| match statement {
        Stmt::Local(syn::Local { pat: syn::Pat::Wild(_), init: Some(init), .. }) => match &*init.expr {
            Expr::Tuple(names) => names.elems.iter().all(is_name),
            name => is_name(name),
        },
        _ => false,
    })
}

fn is_assignment(operator: &BinOp) -> bool {
    matches!(
        operator,
        BinOp::AddAssign(_)
            | BinOp::SubAssign(_)
            | BinOp::MulAssign(_)
            | BinOp::DivAssign(_)
            | BinOp::RemAssign(_)
            | BinOp::BitXorAssign(_)
            | BinOp::BitAndAssign(_)
            | BinOp::BitOrAssign(_)
            | BinOp::ShlAssign(_)
            | BinOp::ShrAssign(_)
    )
}

/// Returns whether only tests compile an item, or it is a test.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

/// Returns the name of a type without its parameters.
fn name_of(ty: &syn::Type) -> String {
    match ty {
        syn::Type::Path(path) => path.path.segments.last().map_or_else(String::new, |last| last.ident.to_string()),
        syn::Type::Reference(reference) => name_of(&reference.elem),
        _ => "_".to_owned(),
    }
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let last = |path: &syn::Path| path.segments.last().map(|segment| segment.ident.to_string());
        if item.trait_.as_ref().is_some_and(|(_, path, _)| last(path).as_deref() == Some("Debug")) {
            self.skipped.debug += 1;
        } else if !is_test(&item.attrs) {
            self.in_type(name_of(&item.self_ty), |collector| visit::visit_item_impl(collector, item));
        }
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.in_type(item.ident.to_string(), |collector| visit::visit_item_trait(collector, item));
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            self.in_function(&item.sig.ident.to_string(), &item.sig.output, &item.block);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            self.in_function(&item.sig.ident.to_string(), &item.sig.output, &item.block);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.in_function(&item.sig.ident.to_string(), &item.sig.output, body);
        }
    }

    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {
        self.skipped.constants += 1;
    }

    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {
        self.skipped.constants += 1;
    }

    fn visit_trait_item_const(&mut self, item: &'ast syn::TraitItemConst) {
        self.skipped.constants += usize::from(item.default.is_some());
    }

    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {
        self.skipped.constants += 1;
    }

    fn visit_variant(&mut self, _: &'ast syn::Variant) {}

    fn visit_item_macro(&mut self, _: &'ast syn::ItemMacro) {
        self.skipped.macros += 1;
    }

    fn visit_type(&mut self, _: &'ast syn::Type) {}

    fn visit_pat(&mut self, _: &'ast syn::Pat) {}

    fn visit_path(&mut self, _: &'ast syn::Path) {}

    fn visit_generics(&mut self, _: &'ast syn::Generics) {}

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_angle_bracketed_generic_arguments(&mut self, _: &'ast syn::AngleBracketedGenericArguments) {}

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        self.statement(statement);
        visit::visit_stmt(self, statement);
    }

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    fn visit_expr_if(&mut self, one: &'ast syn::ExprIf) {
        self.condition(&one.cond, "if", &["true", "false"]);
        visit::visit_expr_if(self, one);
    }

    fn visit_expr_while(&mut self, one: &'ast syn::ExprWhile) {
        self.condition(&one.cond, "while", &["false"]);
        visit::visit_expr_while(self, one);
    }

    fn visit_expr_match(&mut self, one: &'ast syn::ExprMatch) {
        let others = one.arms.iter().position(|arm| arm.guard.is_none() && matches!(arm.pat, syn::Pat::Wild(_)));
        for arm in &one.arms[..others.unwrap_or(0)] {
            if arm.guard.is_none() {
                let range = arm.pat.span().byte_range();
                self.add(range.end..range.end, Shape::Arm, range.start, "arm -> _".to_owned(), String::new());
            }
        }
        for arm in &one.arms {
            if let Some((_, guard)) = &arm.guard {
                self.condition(guard, "guard", &["true", "false"]);
            }
        }
        visit::visit_expr_match(self, one);
    }

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        if !has_let(&binary.left) && !has_let(&binary.right) {
            let range = binary.op.span().byte_range();
            for to in operators::of_binary(&binary.op) {
                self.replace_part(binary, range.clone(), to);
            }
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        if matches!(unary.op, UnOp::Not(_)) {
            let code = self.source(&unary.expr).to_owned();
            self.replace(unary, unary.op.span().byte_range(), "!", "", code);
        }
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if let Some(to) = operators::of_method(&call.method.to_string()) {
            self.replace_part(call, call.method.span().byte_range(), to);
        }
        if matches!(call.method.to_string().as_str(), "is_empty" | "is_zero") {
            let code = format!("!{}", self.source(call));
            self.replace(call, call.method.span().byte_range(), &call.method.to_string(), "not", code);
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_macro(&mut self, one: &'ast syn::ExprMacro) {
        if one.mac.path.is_ident("matches") {
            let code = format!("!{}", self.source(one));
            self.replace(one, one.span().byte_range(), "matches!", "not", code);
        }
    }

    fn visit_expr_lit(&mut self, one: &'ast syn::ExprLit) {
        let range = one.span().byte_range();
        match &one.lit {
            Lit::Int(number) => {
                for to in operators::of_integer(number.base10_digits(), number.suffix()) {
                    self.replace_part(one, range.clone(), &to);
                }
            }
            Lit::Bool(value) => self.replace_part(one, range, if value.value { "false" } else { "true" }),
            _ => {}
        }
    }
}
