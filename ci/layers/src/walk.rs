//! One walk through the code of a module: the variables in sight, and what patterns, paths and fields tell of types.

use std::collections::BTreeMap;

use syn::spanned::Spanned;
use syn::{ExprPath, Member, Pat, Type};

use crate::definitions::{Definitions, Meaning, Setting, names_of};
use crate::tree::ModuleId;
use crate::types::Ty;

/// Where a call leads.
#[derive(Clone, PartialEq)]
pub(crate) enum Leads {
    /// To one of these methods, as indices of functions.
    Own(Vec<usize>),
    /// To an associated constant: its module, line and name.
    Constant(ModuleId, usize, String),
    Other,
    /// To a method of this name and number of arguments.
    Unknown(String, usize),
}

/// Line and column of a call.
pub(crate) type At = (usize, usize);

/// One walk through the code of a module: the types of what is in sight, and the calls so far.
pub(crate) struct Walk<'d> {
    pub(crate) definitions: &'d Definitions<'d>,
    pub(crate) setting: Setting<'d>,
    pub(crate) locals: Vec<BTreeMap<String, Ty>>,
    pub(crate) calls: BTreeMap<At, Leads>,
}

impl<'d> Walk<'d> {
    pub(crate) fn written(&self, ty: &Type) -> Ty {
        self.definitions.ty(ty, &self.setting)
    }

    pub(crate) fn note(&mut self, name: &str, ty: Ty) {
        if let Some(scope) = self.locals.last_mut() {
            scope.insert(name.to_owned(), ty);
        }
    }

    pub(crate) fn local(&self, name: &str) -> Option<Ty> {
        self.locals.iter().rev().find_map(|scope| scope.get(name)).cloned()
    }

    /// Notes the variables of a pattern that a value of this type is matched with.
    pub(crate) fn bind(&mut self, pat: &'d Pat, ty: &Ty) {
        match pat {
            Pat::Ident(ident) => {
                let name = ident.ident.to_string();
                if !name.starts_with(char::is_uppercase) {
                    self.note(&name, ty.clone());
                }
                if let Some((_, inner)) = &ident.subpat {
                    self.bind(inner, ty);
                }
            }
            Pat::Type(typed) => {
                let mut written = self.written(&typed.ty);
                // `Vec<_>`
                if written.arg(0) == Ty::Unknown
                    && written.is(&["Vec", "Option", "Result"])
                    && ty.is(&["Vec", "Option", "Result"])
                {
                    written = ty.clone();
                }
                self.bind(&typed.pat, &written);
            }
            Pat::Reference(inner) => self.bind(&inner.pat, ty),
            Pat::Paren(inner) => self.bind(&inner.pat, ty),
            Pat::Or(cases) => {
                for case in &cases.cases {
                    self.bind(case, ty);
                }
            }
            Pat::Slice(slice) => {
                for one in &slice.elems {
                    self.bind(one, &ty.element());
                }
            }
            Pat::Tuple(tuple) => {
                for (index, one) in tuple.elems.iter().enumerate() {
                    self.bind(one, &ty.arg(index));
                }
            }
            Pat::TupleStruct(parts) => {
                let names = names_of(&parts.path);
                for (index, one) in parts.elems.iter().enumerate() {
                    let part = self.part(ty, &names, &index.to_string());
                    self.bind(one, &part);
                }
            }
            Pat::Struct(parts) => {
                let names = names_of(&parts.path);
                for one in &parts.fields {
                    let part = self.part(ty, &names, &member_name(&one.member));
                    self.bind(&one.pat, &part);
                }
            }
            _ => {}
        }
    }

    /// The type of a part of a value that a pattern takes apart.
    fn part(&self, ty: &Ty, path: &[String], field: &str) -> Ty {
        let (ty, variant) = match self.meaning(path) {
            Meaning::Other(name) => {
                return match name.as_str() {
                    "Some" | "Ok" => ty.arg(0),
                    "Err" => ty.arg(1),
                    _ => Ty::Unknown,
                };
            }
            Meaning::Variant(id, variant) => (self.known_or(ty, id), Some(variant)),
            Meaning::Type(id) => (self.known_or(ty, id), None),
            _ => return Ty::Unknown,
        };
        match variant {
            Some(variant) => self.definitions.variant_field(&ty, &variant, field),
            None => self.definitions.field(&ty, field).unwrap_or(Ty::Unknown),
        }
    }

    fn known_or(&self, ty: &Ty, id: usize) -> Ty {
        match ty {
            Ty::Own(known, _) if *known == id => ty.clone(),
            _ => Ty::Own(id, Vec::new()),
        }
    }

    /// What a path of an expression or pattern stands for; `Self` is the type of the impl.
    pub(crate) fn meaning(&self, path: &[String]) -> Meaning {
        match path {
            [first, rest @ ..] if first == "Self" => match (&self.setting.self_type, rest) {
                (Some(Ty::Own(id, _)), []) => Meaning::Type(*id),
                (Some(Ty::Own(id, _)), [name]) => self.definitions.member_of(*id, name),
                _ => Meaning::Unknown,
            },
            _ => self.definitions.resolve(self.setting.module, path, true),
        }
    }

    pub(crate) fn element(&self, over: &Ty) -> Ty {
        match over {
            Ty::Own(..) => self.definitions.associated(over, None, "Item").unwrap_or(Ty::Unknown),
            _ => over.element(),
        }
    }

    pub(crate) fn path(&mut self, path: &'d ExprPath) -> Ty {
        let names = names_of(&path.path);
        if let [name] = names.as_slice()
            && let Some(ty) = self.local(name)
        {
            return ty;
        }
        if path.qself.is_some() {
            return Ty::Unknown;
        }
        match self.meaning(&names) {
            Meaning::Value(index) => self.definitions.value(index),
            Meaning::Variant(id, _) | Meaning::Type(id) => Ty::Own(id, Vec::new()),
            Meaning::Member(id, name) => self.member(end_of(path), id, &name),
            _ => Ty::Unknown,
        }
    }

    /// Notes the use of a type's constant, or of a method without a call. The type of the constant.
    fn member(&mut self, at: At, id: usize, name: &str) -> Ty {
        let methods = self.definitions.inherent(id, name);
        if !methods.is_empty() {
            self.calls.insert(at, Leads::Own(methods.to_vec()));
        } else if let Some((module, line, ty)) = self.definitions.constant(id, name) {
            let name = format!("{}::{name}", self.definitions.types[id].name);
            self.calls.insert(at, Leads::Constant(module, line, name));
            return ty;
        }
        Ty::Unknown
    }

    pub(crate) fn field(&self, base: Ty, name: &str) -> Ty {
        let mut base = base;
        for _ in 0..4 {
            if let Some(found) = self.definitions.field(&base, name) {
                return found;
            }
            match self.target(&base) {
                Some(target) => base = target,
                None => break,
            }
        }
        Ty::Unknown
    }

    pub(crate) fn target(&self, ty: &Ty) -> Option<Ty> {
        ty.target().or_else(|| self.definitions.associated(ty, Some("Deref"), "Target"))
    }

    pub(crate) fn has_param(&self, name: &str) -> bool {
        self.setting.generics.iter().any(|generics| generics.type_params().any(|param| param.ident == name))
    }
}

/// The place of a path's last name.
pub(crate) fn end_of(path: &ExprPath) -> At {
    let span = path.path.segments.last().map_or_else(|| path.span(), Spanned::span).start();
    (span.line, span.column)
}

pub(crate) fn member_name(member: &Member) -> String {
    match member {
        Member::Named(name) => name.to_string(),
        Member::Unnamed(index) => index.index.to_string(),
    }
}
