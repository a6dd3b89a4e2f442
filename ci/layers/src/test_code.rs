//! Which code exists in tests only.

use proc_macro2::{TokenStream, TokenTree};
use syn::{Attribute, Item, Meta, Stmt};

/// Whether something exists in tests only: `#[test]`, or a `#[cfg]` that names `test` or `doctest` outside `not`.
pub(crate) fn is_test_only(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attr| match &attr.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) => list.path.is_ident("cfg") && names_test(list.tokens.clone()),
        Meta::NameValue(_) => false,
    })
}

fn names_test(tokens: TokenStream) -> bool {
    let mut is_negated = false;
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => {
                if ident == "test" || ident == "doctest" {
                    return true;
                }
                is_negated = ident == "not";
            }
            TokenTree::Group(group) if !is_negated && names_test(group.stream()) => return true,
            _ => {}
        }
    }
    false
}

/// The attributes of an item.
pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The attributes of a statement that is no item.
pub(crate) fn statement_attributes(statement: &Stmt) -> &[Attribute] {
    match statement {
        Stmt::Local(local) => &local.attrs,
        Stmt::Macro(statement) => &statement.attrs,
        Stmt::Expr(syn::Expr::Block(block), _) => &block.attrs,
        Stmt::Expr(syn::Expr::Call(call), _) => &call.attrs,
        Stmt::Expr(syn::Expr::MethodCall(call), _) => &call.attrs,
        _ => &[],
    }
}
