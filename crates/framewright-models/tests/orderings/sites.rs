//! The sites of a crate: each call that orders memory, found in the sources.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use framewright::machine::Ordering;
use proc_macro2::{Span, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Expr, ExprCall, ExprMethodCall, ImplItemFn, ItemEnum, ItemFn, ItemImpl, ItemMod, ItemTrait, ItemUse,
    Member, TraitItemFn, Type,
};

/// Methods of the machine that are fences. Their own definitions pass the call on, and are no sites.
const FENCES: [&str; 4] = ["fence", "light_fence", "front_fence", "heavy_fence"];
/// Functions of the standard library that are fences.
const STD_FENCES: [&str; 2] = ["fence", "compiler_fence"];
/// The ordering of the standard library that the core's words do not have.
const TOTAL: &str = "SeqCst";
/// Orderings that are stronger than relaxed.
const ORDERINGS: [(&str, Ordering); 3] =
    [("Acquire", Ordering::Acquire), ("Release", Ordering::Release), ("AcqRel", Ordering::AcqRel)];

/// What a call does to the order of accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Orders {
    /// It has an ordering.
    As(Ordering),
    /// It has the ordering that only the standard library has.
    Total,
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
            Orders::Total => vec![("acquire-release", Ordering::AcqRel)],
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

/// Returns the sites of all sources below a folder, but for those of some files.
pub(crate) fn of_folder(root: &Path, but: &[&str]) -> Vec<Site> {
    let mut sites = Vec::new();
    for file in sources(root, root).into_iter().filter(|file| !but.contains(&file.as_str())) {
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
    let mut scan = Scan { file, owner: None, function: None, sites: Vec::new(), apart: 0, understood: 0 };
    scan.visit_file(&parsed);
    let written = orderings(text.parse().expect("it was parsed before")) - scan.apart;
    assert_eq!(scan.understood, written, "{file}: orderings in calls, and in all");
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

/// Returns whether a name is that of an ordering stronger than relaxed.
fn is_ordering(name: &str) -> bool {
    name == TOTAL || ORDERINGS.iter().any(|(ordering, _)| *ordering == name)
}

/// Returns the number of orderings stronger than relaxed: written as `Ordering::Name`, or as `Name` alone.
fn orderings(tokens: TokenStream) -> usize {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let is =
        |at: Option<usize>, text: &str| at.and_then(|at| tokens.get(at)).is_some_and(|token| token.to_string() == text);
    let own = |(at, token): (usize, &TokenTree)| match token {
        TokenTree::Group(group) => orderings(group.stream()),
        TokenTree::Ident(name) if is_ordering(&name.to_string()) => {
            let is_path = is(at.checked_sub(1), ":");
            usize::from(!is_path || is(at.checked_sub(3), "Ordering"))
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
    /// Orderings in tests, imports and definitions.
    apart: usize,
    /// Orderings in calls that are sites.
    understood: usize,
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
            self.set_apart(item);
        } else {
            go(self, item);
        }
    }

    /// Leaves the orderings of an item out.
    fn set_apart(&mut self, item: &impl Spanned) {
        let text = item.span().source_text().expect("the source is at hand");
        self.apart += orderings(text.parse().expect("it was parsed before"));
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

    fn note_method(&mut self, call: &ExprMethodCall, orders: Orders) {
        let method = call.method.to_string();
        let text = match orders {
            Orders::As(ordering) => format!("{}.{method}({ordering:?})", word(&call.receiver)),
            Orders::Total => format!("{}.{method}({TOTAL})", word(&call.receiver)),
            Orders::Wait => format!("{}.{method}", word(&call.receiver)),
            Orders::Fence => method,
        };
        self.note(text, call.method.span(), orders);
    }

    fn note(&mut self, text: String, span: Span, orders: Orders) {
        let name = self.file.rsplit('/').next().unwrap_or(self.file);
        let path = [Some(name.to_owned()), self.owner.clone(), self.function.clone()];
        let start = span.start();
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

/// Returns the orderings stronger than relaxed that a call names.
fn orderings_of<'a>(arguments: impl Iterator<Item = &'a Expr>) -> Vec<Orders> {
    let named = |argument: &Expr| {
        let Expr::Path(path) = argument else { return None };
        let name = path.path.segments.last()?.ident.to_string();
        let known = ORDERINGS.iter().find(|(text, _)| *text == name).map(|&(_, ordering)| Orders::As(ordering));
        known.or((name == TOTAL).then_some(Orders::Total))
    };
    arguments.filter_map(named).collect()
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
        let (method, orderings) = (call.method.to_string(), orderings_of(call.args.iter()));
        self.understood += orderings.len();
        if let Some(&orders) = orderings.first() {
            self.note_method(call, orders);
        } else if method == "wait_while" {
            self.note_method(call, Orders::Wait);
        } else if FENCES.contains(&&*method) && !self.function.as_deref().is_some_and(|name| FENCES.contains(&name)) {
            self.note_method(call, Orders::Fence);
        }
    }

    fn visit_expr_call(&mut self, call: &'s ExprCall) {
        visit::visit_expr_call(self, call);
        let Expr::Path(path) = &*call.func else { return };
        let Some(name) = path.path.segments.last().map(|segment| &segment.ident) else { return };
        let count = orderings_of(call.args.iter()).len();
        if count != 0 && STD_FENCES.iter().any(|fence| name == fence) {
            self.understood += count;
            self.note(name.to_string(), name.span(), Orders::Fence);
        }
    }

    fn visit_item_enum(&mut self, item: &'s ItemEnum) {
        self.set_apart(item);
    }

    fn visit_item_use(&mut self, item: &'s ItemUse) {
        self.set_apart(item);
    }
}
