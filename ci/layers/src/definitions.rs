//! What a crate defines, by name: its types, traits, functions and methods, and what a name stands for in a module.
//!
//! `collect.rs` fills the tables, and `written.rs` reads the types that are written in them.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Generics, Signature, Type};

use crate::imports::leaves;
use crate::tree::{ModuleId, Tree};
use crate::types::{Ty, TypeId};

/// Names followed from module to module before a name counts as unknown.
pub(crate) const DEPTH: u32 = 12;

pub(crate) struct TypeDef {
    pub(crate) name: String,
    pub(crate) module: ModuleId,
    pub(crate) params: Vec<String>,
    pub(crate) shape: Shape,
}

pub(crate) type FieldTypes = BTreeMap<String, Type>;

pub(crate) enum Shape {
    /// A struct or union.
    Fields(FieldTypes),
    Variants(BTreeMap<String, FieldTypes>),
    Alias(Box<Type>),
}

pub(crate) struct TraitDef {
    pub(crate) module: ModuleId,
    pub(crate) methods: BTreeMap<String, Signature>,
    pub(crate) above: Vec<Vec<String>>,
}

/// A function, or a method of an inherent or a trait's impl.
pub(crate) struct FnDef {
    pub(crate) name: String,
    pub(crate) module: ModuleId,
    pub(crate) line: usize,
    pub(crate) signature: Signature,
    /// The type and the parameters of its impl.
    pub(crate) owner: Option<(Type, Generics)>,
}

impl FnDef {
    pub(crate) fn takes_self(&self) -> bool {
        self.signature.receiver().is_some()
    }

    /// Number of arguments behind the receiver.
    pub(crate) fn arguments(&self) -> usize {
        self.signature.inputs.len() - usize::from(self.takes_self())
    }
}

/// What an impl of a trait says of a type.
pub(crate) struct TraitImpl {
    pub(crate) of: TypeId,
    pub(crate) name: String,
    pub(crate) which: Option<usize>,
    pub(crate) module: ModuleId,
    pub(crate) self_type: Type,
    pub(crate) generics: Generics,
    pub(crate) associated: BTreeMap<String, Type>,
}

/// What a name or a path stands for.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Meaning {
    Type(TypeId),
    Trait(usize),
    Fn(usize),
    /// A constant or static, by its index.
    Value(usize),
    Module(ModuleId),
    Variant(TypeId, String),
    /// A type's method or associated constant.
    Member(TypeId, String),
    /// Something from elsewhere, by its last name.
    Other(String),
    Unknown,
}

#[derive(Default)]
pub(crate) struct Scope {
    pub(crate) types: BTreeMap<String, Meaning>,
    pub(crate) values: BTreeMap<String, Meaning>,
    imports: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
}

/// Where a type is written: decides what its names stand for.
#[derive(Clone)]
pub(crate) struct Setting<'d> {
    pub(crate) module: ModuleId,
    pub(crate) generics: Vec<&'d Generics>,
    pub(crate) self_type: Option<Ty>,
}

pub(crate) struct Definitions<'t> {
    pub(crate) tree: &'t Tree,
    pub(crate) scopes: Vec<Scope>,
    pub(crate) types: Vec<TypeDef>,
    pub(crate) traits: Vec<TraitDef>,
    pub(crate) functions: Vec<FnDef>,
    pub(crate) values: Vec<(ModuleId, Type)>,
    /// The inherent methods of each type.
    pub(crate) methods: BTreeMap<(TypeId, String), Vec<usize>>,
    /// The inherent methods of each name.
    pub(crate) by_name: BTreeMap<String, Vec<usize>>,
    /// The associated constants of each type, with where they are defined.
    pub(crate) constants: BTreeMap<(TypeId, String), (ModuleId, usize, Type)>,
    pub(crate) impls: Vec<TraitImpl>,
    /// Names of methods that a trait of the crate has, or an impl of any trait.
    pub(crate) trait_methods: BTreeSet<String>,
}

impl Definitions<'_> {
    /// The inherent methods of a type with this name.
    pub(crate) fn inherent(&self, of: TypeId, name: &str) -> &[usize] {
        self.methods.get(&(of, name.to_owned())).map_or(&[], Vec::as_slice)
    }

    /// What a path stands for where it is written in a module; `is_value` says that it is an expression.
    pub(crate) fn resolve(&self, module: ModuleId, path: &[String], is_value: bool) -> Meaning {
        self.resolve_at(module, path, is_value, 0)
    }

    fn resolve_at(&self, module: ModuleId, path: &[String], is_value: bool, depth: u32) -> Meaning {
        let Some((first, mut rest)) = path.split_first() else { return Meaning::Unknown };
        let mut at = match first.as_str() {
            "crate" => Meaning::Module(self.tree.root()),
            "self" => Meaning::Module(module),
            "super" => match self.tree.modules[module].parent {
                Some(parent) => Meaning::Module(parent),
                None => return Meaning::Unknown,
            },
            _ => match self.look_up(module, first, is_value && rest.is_empty(), depth) {
                Meaning::Unknown if is_prelude(first) || !rest.is_empty() => Meaning::Other(first.clone()),
                found => found,
            },
        };
        while let Some((name, after)) = rest.split_first() {
            at = match at {
                Meaning::Module(module) if name == "super" => match self.tree.modules[module].parent {
                    Some(parent) => Meaning::Module(parent),
                    None => Meaning::Unknown,
                },
                Meaning::Module(module) => self.look_up(module, name, is_value && after.is_empty(), depth + 1),
                Meaning::Type(id) => self.member(id, name, depth),
                Meaning::Other(_) => Meaning::Other(name.clone()),
                _ => Meaning::Unknown,
            };
            rest = after;
        }
        at
    }

    /// What a type's name with one more name behind it stands for.
    pub(crate) fn member_of(&self, id: TypeId, name: &str) -> Meaning {
        self.member(id, name, 0)
    }

    fn member(&self, id: TypeId, name: &str, depth: u32) -> Meaning {
        match &self.types[id].shape {
            Shape::Variants(variants) if variants.contains_key(name) => Meaning::Variant(id, name.to_owned()),
            Shape::Alias(alias) if depth < DEPTH => match &**alias {
                Type::Path(alias) => {
                    match self.resolve_at(self.types[id].module, &names_of(&alias.path), false, depth + 1) {
                        Meaning::Type(id) => self.member(id, name, depth + 1),
                        _ => Meaning::Unknown,
                    }
                }
                _ => Meaning::Unknown,
            },
            _ => Meaning::Member(id, name.to_owned()),
        }
    }

    fn look_up(&self, module: ModuleId, name: &str, is_value: bool, depth: u32) -> Meaning {
        if depth > DEPTH {
            return Meaning::Unknown;
        }
        let scope = &self.scopes[module];
        if let Some(found) = scope.values.get(name).filter(|_| is_value) {
            return found.clone();
        }
        if let Some(found) = scope.types.get(name) {
            return found.clone();
        }
        if let Some(path) = scope.imports.get(name) {
            let found = match path.as_slice() {
                [first, ..] if first == name && self.tree.child(module, name).is_none() => Meaning::Unknown,
                _ => self.resolve_at(module, path, is_value, depth + 1),
            };
            return match (found, path.last()) {
                (Meaning::Unknown, Some(last)) if !is_path_root(&path[0]) => Meaning::Other(last.clone()),
                (found, _) => found,
            };
        }
        if let Some(child) = self.tree.child(module, name) {
            return Meaning::Module(child);
        }
        for path in &scope.globs {
            let found = match self.resolve_at(module, path, false, depth + 1) {
                Meaning::Module(other) if other != module => self.look_up(other, name, is_value, depth + 1),
                Meaning::Type(id) => match self.member(id, name, depth + 1) {
                    variant @ Meaning::Variant(..) => variant,
                    _ => Meaning::Unknown,
                },
                _ => Meaning::Unknown,
            };
            if found != Meaning::Unknown {
                return found;
            }
        }
        Meaning::Unknown
    }
}

impl Scope {
    /// Notes the names that a `use` brings in.
    pub(crate) fn import(&mut self, tree: &syn::UseTree) {
        for mut leaf in leaves(tree, &[]) {
            match leaf.name {
                Some(name) => _ = self.imports.insert(name, leaf.path),
                None => {
                    leaf.path.pop();
                    self.globs.push(leaf.path);
                }
            }
        }
    }
}

/// The names of a path's segments.
pub(crate) fn names_of(path: &syn::Path) -> Vec<String> {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

fn is_path_root(name: &str) -> bool {
    ["crate", "self", "super"].contains(&name)
}

/// Whether a name needs no import.
fn is_prelude(name: &str) -> bool {
    const NAMES: &str = " Option Result Vec Box String Some None Ok Err u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize bool char str f32 f64 ";
    NAMES.contains(&format!(" {name} "))
}
