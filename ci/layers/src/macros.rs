//! The code in a macro's arguments.

use proc_macro2::TokenStream;
use syn::parse::{Parse, ParseStream, Parser};
use syn::{Block, Expr, Stmt, Token};

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
