//! The code in a macro's arguments.

use proc_macro2::TokenStream;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::{
    Attribute, Block, Expr, Field, FieldMutability, Fields, FieldsNamed, Generics, Ident, Item, ItemStruct, Stmt,
    Token, Visibility,
};

/// The expressions or statements that the arguments of a macro are, none if they are something else.
pub(crate) fn statements_in(tokens: TokenStream) -> Vec<Stmt> {
    match Leading::parse.parse2(tokens.clone()) {
        Ok(Leading(exprs)) if !exprs.is_empty() => exprs.into_iter().map(|expr| Stmt::Expr(expr, None)).collect(),
        _ => Block::parse_within.parse2(tokens).unwrap_or_default(),
    }
}

/// Expressions between commas at the beginning of a macro's arguments; what else follows does not count, as the
/// pattern of `matches!`.
struct Leading(Vec<Expr>);

impl Parse for Leading {
    fn parse(input: ParseStream<'_>) -> syn::Result<Leading> {
        let mut exprs = Vec::new();
        while !input.is_empty() {
            let ahead = input.fork();
            let ends = |stream: ParseStream<'_>| stream.is_empty() || stream.peek(Token![,]);
            if !(ahead.parse::<Expr>().is_ok() && ends(&ahead)) {
                break;
            }
            exprs.push(input.parse()?);
            if input.parse::<Token![,]>().is_err() {
                break;
            }
        }
        // Reads the rest.
        input.parse::<TokenStream>()?;
        Ok(Leading(exprs))
    }
}

/// The struct that `record!` declares, if the item is such a call.
///
/// A field there is `VISIBILITY KIND(NAMING) NAME: TYPE = VALUE`; naming and value may be missing.
pub(crate) fn record_in(item: &Item) -> Option<Item> {
    match item {
        Item::Macro(item) if item.ident.is_none() && item.mac.path.is_ident("record") => {
            item.mac.parse_body_with(record).ok().map(Item::Struct)
        }
        _ => None,
    }
}

fn record(input: ParseStream<'_>) -> syn::Result<ItemStruct> {
    let (attrs, vis) = (input.call(Attribute::parse_outer)?, input.parse()?);
    let (struct_token, ident, generics) = (input.parse()?, input.parse()?, input.parse::<Generics>()?);
    let content;
    let brace_token = syn::braced!(content in input);
    let named = content.parse_terminated(record_field, Token![,])?;
    let fields = Fields::Named(FieldsNamed { brace_token, named });
    Ok(ItemStruct { attrs, vis, struct_token, ident, generics, fields, semi_token: None })
}

fn record_field(input: ParseStream<'_>) -> syn::Result<Field> {
    let (attrs, vis) = (input.call(Attribute::parse_outer)?, input.parse::<Visibility>()?);
    input.call(Ident::parse_any)?;
    if input.peek(syn::token::Paren) {
        let naming;
        syn::parenthesized!(naming in input);
        naming.parse::<TokenStream>()?;
    }
    let (ident, colon_token, ty) = (Some(input.parse()?), Some(input.parse()?), input.parse()?);
    if input.parse::<Token![=]>().is_ok() {
        input.parse::<Expr>()?;
    }
    Ok(Field { attrs, vis, mutability: FieldMutability::None, ident, colon_token, ty })
}
