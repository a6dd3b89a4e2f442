//! Where the calls of a module lead.
//!
//! A walk through the code knows the types of the variables in sight. It follows written types, fields, returned
//! types, patterns, closures that are given to the crate's functions, `Deref` impls, and what the standard
//! library's pointers, options and iterators give back of what was put in. That is less than a compiler knows: an
//! unknown type stays unknown.

use std::collections::BTreeMap;

use syn::{Block, Expr, ExprClosure, Generics, ImplItem, Item, Local, Macro, Signature, Stmt};

use crate::definitions::{Definitions, Meaning, Setting, names_of};
use crate::macros::statements_in;
use crate::std_library::{closure_arguments, constructed, returned};
use crate::test_code::{attributes, is_test_only, statement_attributes};
use crate::tree::{ModuleId, Tree};
use crate::types::{Bound, Ty};
use crate::walk::{At, Leads, Walk, end_of, member_name};
use crate::written::parameters;

/// The calls in the code of a module.
pub(crate) fn calls_of(tree: &Tree, definitions: &Definitions<'_>, module: ModuleId) -> BTreeMap<At, Leads> {
    let setting = Setting { module, generics: Vec::new(), self_type: None };
    let mut walk = Walk { definitions, setting, locals: Vec::new(), calls: BTreeMap::new() };
    for item in &tree.modules[module].items {
        walk.item(item);
    }
    walk.calls
}

impl<'d> Walk<'d> {
    fn item(&mut self, item: &'d Item) {
        if is_test_only(attributes(item)) {
            return;
        }
        match item {
            Item::Fn(item) => self.function(&item.sig, &item.block),
            Item::Impl(item) => self.under(&item.generics, |walk| {
                walk.setting.self_type = Some(walk.written(&item.self_ty));
                for part in &item.items {
                    match part {
                        ImplItem::Fn(method) if !is_test_only(&method.attrs) => {
                            walk.function(&method.sig, &method.block);
                        }
                        ImplItem::Const(constant) => _ = walk.infer(&constant.expr),
                        _ => {}
                    }
                }
            }),
            Item::Trait(item) => self.under(&item.generics, |walk| {
                for part in &item.items {
                    if let syn::TraitItem::Fn(method) = part
                        && let Some(block) = &method.default
                    {
                        walk.function(&method.sig, block);
                    }
                }
            }),
            Item::Const(item) => _ = self.infer(&item.expr),
            Item::Static(item) => _ = self.infer(&item.expr),
            _ => {}
        }
    }

    /// Walks through an impl or a trait with these parameters.
    fn under(&mut self, generics: &'d Generics, walk: impl FnOnce(&mut Self)) {
        let before = self.setting.clone();
        self.setting.generics = vec![generics];
        walk(self);
        self.setting = before;
    }

    fn function(&mut self, signature: &'d Signature, block: &'d Block) {
        let generics: &'d Generics = &signature.generics;
        self.setting.generics.push(generics);
        // An item inside a function does not see the function's variables.
        let outer = std::mem::replace(&mut self.locals, vec![BTreeMap::new()]);
        for input in &signature.inputs {
            match input {
                syn::FnArg::Receiver(_) => {
                    let own = self.setting.self_type.clone().unwrap_or(Ty::Unknown);
                    self.note("self", own);
                }
                syn::FnArg::Typed(typed) => {
                    let ty = self.written(&typed.ty);
                    self.bind(&typed.pat, &ty);
                }
            }
        }
        self.block(block);
        self.locals = outer;
        self.setting.generics.pop();
    }

    fn inside<R>(&mut self, walk: impl FnOnce(&mut Self) -> R) -> R {
        self.locals.push(BTreeMap::new());
        let result = walk(self);
        self.locals.pop();
        result
    }

    fn block(&mut self, block: &'d Block) -> Ty {
        self.inside(|walk| walk.statements(&block.stmts))
    }

    fn statements(&mut self, statements: &'d [Stmt]) -> Ty {
        let mut last = Ty::Tuple(Vec::new());
        for statement in statements {
            if is_test_only(statement_attributes(statement)) {
                continue;
            }
            last = Ty::Tuple(Vec::new());
            match statement {
                Stmt::Local(local) => self.let_local(local),
                Stmt::Item(item) => self.item(item),
                Stmt::Expr(expr, None) => last = self.infer(expr),
                Stmt::Expr(expr, Some(_)) => _ = self.infer(expr),
                Stmt::Macro(statement) => self.macro_call(&statement.mac),
            }
        }
        last
    }

    fn let_local(&mut self, local: &'d Local) {
        let ty = local.init.as_ref().map_or(Ty::Unknown, |init| {
            let ty = self.infer(&init.expr);
            init.diverge.as_ref().map(|(_, otherwise)| self.infer(otherwise));
            ty
        });
        self.bind(&local.pat, &ty);
    }

    /// The type of an expression; notes the calls in it.
    fn infer(&mut self, expr: &'d Expr) -> Ty {
        match expr {
            Expr::Path(path) => self.path(path),
            Expr::Field(field) => {
                let base = self.infer(&field.base);
                self.field(base, &member_name(&field.member))
            }
            Expr::MethodCall(call) => {
                let receiver = self.infer(&call.receiver);
                let span = call.method.span().start();
                let args: Vec<&'d Expr> = call.args.iter().collect();
                self.method((span.line, span.column), receiver, &call.method.to_string(), &args)
            }
            Expr::Call(call) => {
                let args: Vec<&'d Expr> = call.args.iter().collect();
                self.call(&call.func, &args)
            }
            Expr::Struct(value) => {
                for field in &value.fields {
                    self.infer(&field.expr);
                }
                if let Some(rest) = &value.rest {
                    self.infer(rest);
                }
                match self.meaning(&names_of(&value.path)) {
                    Meaning::Type(id) if value.path.is_ident("Self") => {
                        self.setting.self_type.clone().unwrap_or(Ty::Own(id, Vec::new()))
                    }
                    Meaning::Type(id) | Meaning::Variant(id, _) => Ty::Own(id, Vec::new()),
                    _ => Ty::Unknown,
                }
            }
            Expr::Reference(inner) => self.infer(&inner.expr),
            Expr::Paren(inner) => self.infer(&inner.expr),
            Expr::Group(inner) => self.infer(&inner.expr),
            Expr::Unary(unary) => {
                let ty = self.infer(&unary.expr);
                // References do not count: fields and methods look through pointers anyway.
                if matches!(unary.op, syn::UnOp::Deref(_)) { ty } else { Ty::plain() }
            }
            Expr::Try(inner) => self.infer(&inner.expr).tried(),
            Expr::Lit(_) => Ty::plain(),
            Expr::Closure(closure) => {
                self.closure(closure, &[]);
                Ty::Unknown
            }
            Expr::Macro(call) => {
                self.macro_call(&call.mac);
                Ty::Unknown
            }
            Expr::Block(_)
            | Expr::Unsafe(_)
            | Expr::If(_)
            | Expr::Match(_)
            | Expr::Loop(_)
            | Expr::While(_)
            | Expr::ForLoop(_) => self.flow(expr),
            _ => self.value(expr),
        }
    }

    /// The type of an expression that is made of others.
    fn value(&mut self, expr: &'d Expr) -> Ty {
        match expr {
            Expr::Cast(cast) => {
                self.infer(&cast.expr);
                self.written(&cast.ty)
            }
            Expr::Tuple(tuple) => Ty::Tuple(tuple.elems.iter().map(|one| self.infer(one)).collect()),
            Expr::Array(array) => {
                let all: Vec<Ty> = array.elems.iter().map(|one| self.infer(one)).collect();
                Ty::other("Slice", vec![all.into_iter().next().unwrap_or(Ty::Unknown)])
            }
            Expr::Repeat(repeat) => {
                self.infer(&repeat.len);
                let one = self.infer(&repeat.expr);
                Ty::other("Slice", vec![one])
            }
            Expr::Index(index) => {
                let at = self.infer(&index.index);
                let of = self.infer(&index.expr);
                match of {
                    _ if at.is(&["Iterator"]) => of,
                    _ if of.is(&["BTreeMap", "HashMap"]) => of.arg(1),
                    _ => of.element(),
                }
            }
            Expr::Range(range) => {
                let ends: Vec<Ty> =
                    [&range.start, &range.end].into_iter().flatten().map(|end| self.infer(end)).collect();
                Ty::other("Iterator", vec![ends.into_iter().next().unwrap_or(Ty::Unknown)])
            }
            Expr::Const(block) => self.block(&block.block),
            Expr::Let(one) => {
                let ty = self.infer(&one.expr);
                self.bind(&one.pat, &ty);
                Ty::plain()
            }
            Expr::Binary(one) => {
                let left = self.infer(&one.left);
                self.infer(&one.right);
                match one.op {
                    syn::BinOp::Add(_) | syn::BinOp::Sub(_) | syn::BinOp::BitOr(_) | syn::BinOp::BitAnd(_) => left,
                    _ => Ty::plain(),
                }
            }
            Expr::Assign(one) => {
                self.infer(&one.right);
                self.infer(&one.left);
                Ty::Tuple(Vec::new())
            }
            Expr::Return(syn::ExprReturn { expr: Some(inner), .. })
            | Expr::Break(syn::ExprBreak { expr: Some(inner), .. }) => {
                self.infer(inner);
                Ty::Unknown
            }
            _ => Ty::Unknown,
        }
    }

    /// The type of an expression that parts or joins the flow.
    fn flow(&mut self, expr: &'d Expr) -> Ty {
        match expr {
            Expr::Block(block) => self.block(&block.block),
            Expr::Unsafe(block) => self.block(&block.block),
            Expr::Loop(one) => {
                self.block(&one.body);
                Ty::Unknown
            }
            Expr::If(one) => {
                let then = self.inside(|walk| {
                    walk.infer(&one.cond);
                    walk.block(&one.then_branch)
                });
                let otherwise = one.else_branch.as_ref().map(|(_, otherwise)| self.infer(otherwise));
                then.joined(otherwise)
            }
            Expr::While(one) => self.inside(|walk| {
                walk.infer(&one.cond);
                walk.block(&one.body);
                Ty::Tuple(Vec::new())
            }),
            Expr::ForLoop(one) => {
                let over = self.infer(&one.expr);
                let element = self.element(&over);
                self.inside(|walk| {
                    walk.bind(&one.pat, &element);
                    walk.block(&one.body)
                });
                Ty::Tuple(Vec::new())
            }
            Expr::Match(one) => {
                let ty = self.infer(&one.expr);
                let mut result = Ty::Unknown;
                for arm in one.arms.iter().filter(|arm| !is_test_only(&arm.attrs)) {
                    let body = self.inside(|walk| {
                        walk.bind(&arm.pat, &ty);
                        if let Some((_, guard)) = &arm.guard {
                            walk.infer(guard);
                        }
                        walk.infer(&arm.body)
                    });
                    result = result.joined(Some(body));
                }
                result
            }
            _ => Ty::Unknown,
        }
    }

    fn call(&mut self, callee: &'d Expr, args: &[&'d Expr]) -> Ty {
        let Expr::Path(path) = callee else {
            self.infer(callee);
            self.all(args);
            return Ty::Unknown;
        };
        let names = names_of(&path.path);
        let is_local = names.len() == 1 && self.local(&names[0]).is_some();
        let meaning = if is_local || path.qself.is_some() { Meaning::Unknown } else { self.meaning(&names) };
        match meaning {
            Meaning::Fn(index) => self.apply(index, None, args),
            Meaning::Member(id, name) => {
                let at = end_of(path);
                let methods = self.definitions.inherent(id, &name);
                let own = self.setting.self_type.clone().filter(|_| names[0] == "Self");
                if let [first, ..] = methods {
                    self.calls.insert(at, Leads::Own(methods.to_vec()));
                    // `Type::method(receiver, ...)`
                    let takes_self = self.definitions.functions[*first].takes_self();
                    return match (takes_self, args.split_first()) {
                        (true, Some((receiver, rest))) => {
                            let receiver = self.infer(receiver);
                            self.apply(*first, Some(receiver), rest)
                        }
                        _ => self.apply(*first, own, args),
                    };
                }
                self.calls.insert(at, Leads::Other);
                self.all(args);
                // `Type::default()`, `Type::from(...)`
                if ["default", "from", "clone", "new"].contains(&name.as_str()) {
                    Ty::Own(id, Vec::new())
                } else {
                    Ty::Unknown
                }
            }
            Meaning::Variant(id, _) | Meaning::Type(id) => {
                self.all(args);
                Ty::Own(id, Vec::new())
            }
            Meaning::Other(name) => {
                let given: Vec<Ty> = self.all(args);
                let first = given.into_iter().next().unwrap_or(Ty::Unknown);
                constructed(&names, &name, first)
            }
            _ => {
                self.all(args);
                Ty::Unknown
            }
        }
    }

    fn all(&mut self, args: &[&'d Expr]) -> Vec<Ty> {
        args.iter().map(|arg| self.infer(arg)).collect()
    }

    /// The type that a function of the crate returns for these arguments.
    fn apply(&mut self, function: usize, receiver: Option<Ty>, args: &[&'d Expr]) -> Ty {
        let definitions = self.definitions;
        let function = &definitions.functions[function];
        let setting = definitions.setting(function);
        let mut bound = Bound::new();
        if let (Some(own), Some(receiver)) = (&setting.self_type, &receiver) {
            own.bind(receiver, &mut bound);
        }
        self.apply_signature(&function.signature, &setting, bound, args)
    }

    fn apply_signature(
        &mut self,
        signature: &'d Signature,
        setting: &Setting<'d>,
        mut bound: Bound,
        args: &[&'d Expr],
    ) -> Ty {
        let definitions = self.definitions;
        let nothing = |_: &str| false;
        for (arg, ty) in args.iter().zip(parameters(signature)) {
            match (arg, definitions.closure(ty, setting)) {
                (Expr::Closure(closure), Some((inputs, output))) => {
                    let inputs: Vec<Ty> =
                        inputs.into_iter().map(|input| definitions.ty(input, setting).with(&bound, &nothing)).collect();
                    let body = self.closure(closure, &inputs);
                    if let Some(output) = output {
                        definitions.ty(output, setting).bind(&body, &mut bound);
                    }
                }
                _ => {
                    let actual = self.infer(arg);
                    definitions.ty(ty, setting).bind(&actual, &mut bound);
                }
            }
        }
        for arg in args.iter().skip(parameters(signature).len()) {
            self.infer(arg);
        }
        match &signature.output {
            syn::ReturnType::Type(_, ty) => definitions.ty(ty, setting).with(&bound, &|name| self.has_param(name)),
            syn::ReturnType::Default => Ty::Tuple(Vec::new()),
        }
    }

    /// The type of a closure's body, if it is called with these types.
    fn closure(&mut self, closure: &'d ExprClosure, inputs: &[Ty]) -> Ty {
        self.inside(|walk| {
            for (index, pat) in closure.inputs.iter().enumerate() {
                walk.bind(pat, inputs.get(index).unwrap_or(&Ty::Unknown));
            }
            walk.infer(&closure.body)
        })
    }

    /// Notes a call of a method. The type that it returns.
    fn method(&mut self, at: At, receiver: Ty, name: &str, args: &[&'d Expr]) -> Ty {
        let definitions = self.definitions;
        let mut ty = receiver.clone();
        for _ in 0..5 {
            match &ty {
                Ty::Unknown => {
                    self.calls.insert(at, Leads::Unknown(name.to_owned(), args.len()));
                    self.std_arguments(&Ty::Unknown, name, args);
                    return Ty::Unknown;
                }
                Ty::Own(id, _) => {
                    let methods = definitions.inherent(*id, name);
                    if let [first, ..] = methods {
                        self.calls.insert(at, Leads::Own(methods.to_vec()));
                        return self.apply(*first, Some(ty), args);
                    }
                }
                _ => {}
            }
            let setting = self.setting.clone();
            if let Some((module, signature)) = definitions.trait_method(&ty, name, &setting) {
                self.calls.insert(at, Leads::Other);
                let setting = Setting { module, generics: vec![&signature.generics], self_type: Some(ty) };
                return self.apply_signature(signature, &setting, Bound::new(), args);
            }
            match self.target(&ty) {
                Some(target) if name != "clone" => ty = target,
                _ => break,
            }
        }
        self.calls.insert(at, Leads::Other);
        let item = self.definitions.associated(&receiver, Some("Iterator"), "Item");
        let over = match (&item, &ty) {
            (Some(item), _) => Ty::other("Iterator", vec![item.clone()]),
            (None, Ty::Own(..) | Ty::Param(_) | Ty::Tuple(_)) => {
                self.all(args);
                let gives_itself =
                    ["clone", "borrow", "as_ref", "by_ref", "to_owned", "max", "min", "add"].contains(&name);
                return if gives_itself { receiver } else { Ty::Unknown };
            }
            _ => ty.clone(),
        };
        if name == "clone" {
            return receiver;
        }
        let given = self.std_arguments(&over, name, args);
        returned(&over, name, &given)
    }

    /// The types of arguments of a method of the standard library, of closures what they return.
    fn std_arguments(&mut self, receiver: &Ty, name: &str, args: &[&'d Expr]) -> Vec<Ty> {
        let mut given: Vec<Ty> = Vec::new();
        for arg in args {
            let ty = match arg {
                Expr::Closure(closure) => {
                    let first = given.first().cloned().unwrap_or(Ty::Unknown);
                    self.closure(closure, &closure_arguments(receiver, name, &first))
                }
                // A function or variant instead of a closure.
                Expr::Path(path) => {
                    let value = self.infer(arg);
                    match self.meaning(&names_of(&path.path)) {
                        Meaning::Fn(index) => self.apply(index, None, &[]),
                        Meaning::Member(id, name) => match self.definitions.inherent(id, &name) {
                            [first, ..] => self.apply(*first, Some(receiver.element()), &[]),
                            [] => value,
                        },
                        _ => value,
                    }
                }
                _ => self.infer(arg),
            };
            given.push(ty);
        }
        given
    }

    /// Looks through a macro's arguments, if they are expressions or statements.
    fn macro_call(&mut self, call: &Macro) {
        // The syntax is made here and looked at once: it lives as long as the program, like the files'.
        let parsed: &'d [Stmt] = Vec::leak(statements_in(call.tokens.clone()));
        self.inside(|walk| walk.statements(parsed));
    }
}
