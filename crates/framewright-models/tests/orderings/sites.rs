//! The sites of a crate: each call that orders memory, found in the sources.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use framewright::machine::Ordering;
use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Expr, ExprMethodCall, ImplItemFn, ItemFn, ItemImpl, ItemMod, ItemTrait, Member, TraitItemFn, Type,
};

/// Methods of the machine that are fences. Their own definitions pass the call on, and are no sites.
const FENCES: [&str; 4] = ["fence", "light_fence", "front_fence", "heavy_fence"];
/// Orderings that are stronger than relaxed.
const ORDERINGS: [(&str, Ordering); 3] =
    [("Acquire", Ordering::Acquire), ("Release", Ordering::Release), ("AcqRel", Ordering::AcqRel)];

/// What a call does to the order of accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Orders {
    /// It has an ordering.
    As(Ordering),
    /// It is a wait, which acquires.
    Wait,
    /// It is a fence.
    Fence,
}

impl Orders {
    /// Returns each ordering that is one step weaker, and what the table calls it.
    pub(crate) fn weaker(self) -> Vec<(&'static str, Ordering)> {
        match self {
            Orders::As(Ordering::AcqRel) => vec![("acquire", Ordering::Acquire), ("release", Ordering::Release)],
            Orders::As(_) | Orders::Wait => vec![("relaxed", Ordering::Relaxed)],
            Orders::Fence => vec![("skipped", Ordering::Relaxed)],
        }
    }
}

/// A call that orders memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Site {
    /// Seen from the crate's sources.
    pub(crate) file: String,
    /// Function of the call: `smp_list.rs::claim`, or `ticket_lock.rs::TicketLock::take`.
    pub(crate) function: String,
    /// The word and the method, the ordering, and the number among equal ones: `turns.add(AcqRel)`, `fence 2`.
    pub(crate) call: String,
    /// What it orders.
    pub(crate) orders: Orders,
    /// Line and column of the method's name, counted from 1.
    pub(crate) at: (usize, usize),
}

/// Returns the sites of all sources below a folder.
pub(crate) fn of_folder(root: &Path) -> Vec<Site> {
    let mut sites = Vec::new();
    for file in sources(root, root) {
        let text = fs::read_to_string(root.join(&file)).expect("a source");
        sites.extend(of_text(&file, &text));
    }
    sites
}

/// Returns the paths of the sources below a folder, seen from `root`.
pub(crate) fn sources(root: &Path, folder: &Path) -> Vec<String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("a folder of sources").path();
        if path.is_dir() {
            files.extend(sources(root, &path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path.strip_prefix(root).expect("below the root").display().to_string().replace('\\', "/"));
        }
    }
    files.sort();
    files
}

/// Returns the sites of one source.
///
/// # Panics
/// An ordering stands where no call is understood, for example in a macro.
pub(crate) fn of_text(file: &str, text: &str) -> Vec<Site> {
    let parsed = syn::parse_file(text).unwrap_or_else(|error| panic!("{file}: {error}"));
    let mut scan = Scan { file, owner: None, function: None, sites: Vec::new(), tested: 0 };
    scan.visit_file(&parsed);
    let written = orderings(text.parse().expect("it was parsed before")) - scan.tested;
    let understood = scan.sites.iter().filter(|site| matches!(site.orders, Orders::As(_))).count();
    assert_eq!(understood, written, "{file}: orderings in calls, and in all");
    let mut sites = scan.sites;
    sites.sort_by_key(|site| site.at);
    let mut equal = BTreeMap::new();
    for site in &mut sites {
        let count = equal.entry((site.function.clone(), site.call.clone())).or_insert(0);
        *count += 1;
        if *count > 1 {
            site.call += &format!(" {count}");
        }
    }
    sites
}

/// Returns the number of orderings stronger than relaxed that are written as `Ordering::Name`.
fn orderings(tokens: TokenStream) -> usize {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let is = |token: Option<&TokenTree>, text: &str| token.is_some_and(|token| token.to_string() == text);
    let own = |(at, token): (usize, &TokenTree)| match token {
        TokenTree::Group(group) => orderings(group.stream()),
        TokenTree::Ident(_) if is(Some(token), "Ordering") => {
            let path = is(tokens.get(at + 1), ":") && is(tokens.get(at + 2), ":");
            usize::from(path && ORDERINGS.iter().any(|(name, _)| is(tokens.get(at + 3), name)))
        }
        _ => 0,
    };
    tokens.iter().enumerate().map(own).sum()
}

struct Scan<'f> {
    file: &'f str,
    /// Type or trait whose function this is.
    owner: Option<String>,
    function: Option<String>,
    sites: Vec<Site>,
    /// Orderings in tests.
    tested: usize,
}

impl Scan<'_> {
    /// Visits something unless it is a test.
    fn unless_test<'s, T: Spanned>(
        &mut self,
        attributes: &[Attribute],
        item: &'s T,
        go: impl FnOnce(&mut Self, &'s T),
    ) {
        let is_test = attributes.iter().any(|attribute| {
            attribute.path().is_ident("cfg")
                && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
        });
        if is_test {
            let text = item.span().source_text().expect("the source is at hand");
            self.tested += orderings(text.parse().expect("it was parsed before"));
        } else {
            go(self, item);
        }
    }

    fn within(&mut self, name: &syn::Ident, go: impl FnOnce(&mut Self)) {
        let outer = self.function.take();
        self.function = Some(outer.clone().unwrap_or_else(|| name.to_string()));
        go(self);
        self.function = outer;
    }

    fn of(&mut self, owner: String, go: impl FnOnce(&mut Self)) {
        let outer = self.owner.replace(owner);
        go(self);
        self.owner = outer;
    }

    fn note(&mut self, call: &ExprMethodCall, orders: Orders) {
        let method = call.method.to_string();
        let text = match orders {
            Orders::As(ordering) => format!("{}.{method}({ordering:?})", word(&call.receiver)),
            Orders::Wait => format!("{}.{method}", word(&call.receiver)),
            Orders::Fence => method,
        };
        let name = self.file.rsplit('/').next().unwrap_or(self.file);
        let path = [Some(name.to_owned()), self.owner.clone(), self.function.clone()];
        let start = call.method.span().start();
        self.sites.push(Site {
            file: self.file.to_owned(),
            function: path.into_iter().flatten().collect::<Vec<_>>().join("::"),
            call: text,
            orders,
            at: (start.line, start.column + 1),
        });
    }
}

/// Returns the name of the word that a method is called on.
fn word(receiver: &Expr) -> String {
    match receiver {
        Expr::Field(field) => match &field.member {
            Member::Named(name) => name.to_string(),
            Member::Unnamed(_) => word(&field.base),
        },
        Expr::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default(),
        Expr::Reference(reference) => word(&reference.expr),
        Expr::Paren(inner) => word(&inner.expr),
        Expr::Index(index) => word(&index.expr),
        Expr::MethodCall(call) => call.method.to_string(),
        _ => "?".to_owned(),
    }
}

/// Returns the ordering that a call names.
fn ordering_of(call: &ExprMethodCall) -> Option<Ordering> {
    let named = |argument: &Expr| {
        let Expr::Path(path) = argument else { return None };
        let name = path.path.segments.last()?.ident.to_string();
        ORDERINGS.iter().find(|(text, _)| *text == name).map(|&(_, ordering)| ordering)
    };
    call.args.iter().find_map(named)
}

impl<'s> Visit<'s> for Scan<'_> {
    fn visit_item_mod(&mut self, item: &'s ItemMod) {
        self.unless_test(&item.attrs, item, visit::visit_item_mod);
    }

    fn visit_item_impl(&mut self, item: &'s ItemImpl) {
        let owner = match &*item.self_ty {
            Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
            _ => None,
        };
        self.of(owner.unwrap_or_default(), |scan| visit::visit_item_impl(scan, item));
    }

    fn visit_item_trait(&mut self, item: &'s ItemTrait) {
        self.of(item.ident.to_string(), |scan| visit::visit_item_trait(scan, item));
    }

    fn visit_item_fn(&mut self, item: &'s ItemFn) {
        self.within(&item.sig.ident, |scan| visit::visit_item_fn(scan, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'s ImplItemFn) {
        self.within(&item.sig.ident, |scan| visit::visit_impl_item_fn(scan, item));
    }

    fn visit_trait_item_fn(&mut self, item: &'s TraitItemFn) {
        self.within(&item.sig.ident, |scan| visit::visit_trait_item_fn(scan, item));
    }

    fn visit_expr_method_call(&mut self, call: &'s ExprMethodCall) {
        visit::visit_expr_method_call(self, call);
        let method = call.method.to_string();
        if let Some(ordering) = ordering_of(call) {
            self.note(call, Orders::As(ordering));
        } else if method == "wait_while" {
            self.note(call, Orders::Wait);
        } else if FENCES.contains(&&*method) && !self.function.as_deref().is_some_and(|name| FENCES.contains(&name)) {
            self.note(call, Orders::Fence);
        }
    }
}
