//! What a crate defines, by name: its types, traits, functions and methods, and what each module can see.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::Visit;
use syn::{
    Fields, FnArg, GenericArgument, GenericParam, Generics, ImplItem, Item, ItemImpl, ItemTrait, PathArguments,
    PathSegment, ReturnType, Signature, TraitItem, Type, TypeParamBound, UseTree,
};

use crate::names::types_in;
use crate::test_code::{attributes, is_test_only};
use crate::tree::{ModuleId, Tree, line_of};
use crate::types::{Bound, Ty, TypeId};

/// Names followed from module to module before a name counts as unknown.
const DEPTH: u32 = 12;

pub(crate) struct TypeDef {
    pub(crate) name: String,
    pub(crate) module: ModuleId,
    params: Vec<String>,
    shape: Shape,
}

type FieldTypes = BTreeMap<String, Type>;

enum Shape {
    /// A struct or union.
    Fields(FieldTypes),
    Variants(BTreeMap<String, FieldTypes>),
    Alias(Box<Type>),
}

pub(crate) struct TraitDef {
    module: ModuleId,
    methods: BTreeMap<String, Signature>,
    above: Vec<Vec<String>>,
}

/// A function, or a method of an inherent or a trait's impl.
pub(crate) struct FnDef {
    pub(crate) name: String,
    pub(crate) module: ModuleId,
    pub(crate) line: usize,
    pub(crate) signature: Signature,
    /// The type and the parameters of its impl.
    owner: Option<(Type, Generics)>,
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
struct TraitImpl {
    of: TypeId,
    name: String,
    which: Option<usize>,
    module: ModuleId,
    self_type: Type,
    generics: Generics,
    associated: BTreeMap<String, Type>,
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
struct Scope {
    types: BTreeMap<String, Meaning>,
    values: BTreeMap<String, Meaning>,
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
    tree: &'t Tree,
    scopes: Vec<Scope>,
    pub(crate) types: Vec<TypeDef>,
    traits: Vec<TraitDef>,
    pub(crate) functions: Vec<FnDef>,
    values: Vec<(ModuleId, Type)>,
    /// The inherent methods of each type.
    methods: BTreeMap<(TypeId, String), Vec<usize>>,
    /// The inherent methods of each name.
    pub(crate) by_name: BTreeMap<String, Vec<usize>>,
    /// The associated constants of each type, with where they are defined.
    constants: BTreeMap<(TypeId, String), (ModuleId, usize, Type)>,
    impls: Vec<TraitImpl>,
    /// Names of methods that a trait of the crate has, or an impl of any trait.
    pub(crate) trait_methods: BTreeSet<String>,
}

impl<'t> Definitions<'t> {
    pub(crate) fn of(tree: &'t Tree) -> Definitions<'t> {
        let mut all = Definitions {
            tree,
            scopes: tree.modules.iter().map(|_| Scope::default()).collect(),
            types: Vec::new(),
            traits: Vec::new(),
            functions: Vec::new(),
            values: Vec::new(),
            methods: BTreeMap::new(),
            by_name: BTreeMap::new(),
            constants: BTreeMap::new(),
            impls: Vec::new(),
            trait_methods: BTreeSet::new(),
        };
        let mut impls = Vec::new();
        for (module, contents) in tree.modules.iter().enumerate() {
            let mut items = Items { found: Vec::new() };
            for item in &contents.items {
                items.visit_item(item);
            }
            for item in items.found {
                match item {
                    Item::Impl(item) => impls.push((module, item)),
                    _ => all.define(module, item),
                }
            }
        }
        for (module, item) in impls {
            all.define_impl(module, item);
        }
        all
    }

    fn define(&mut self, module: ModuleId, item: &Item) {
        match item {
            Item::Struct(item) => {
                self.define_type(module, &item.ident.to_string(), &item.generics, Shape::Fields(fields(&item.fields)));
            }
            Item::Enum(item) => {
                let variants = item.variants.iter().map(|one| (one.ident.to_string(), fields(&one.fields))).collect();
                self.define_type(module, &item.ident.to_string(), &item.generics, Shape::Variants(variants));
            }
            Item::Type(item) => {
                self.define_type(module, &item.ident.to_string(), &item.generics, Shape::Alias(item.ty.clone()));
            }
            Item::Trait(item) => self.define_trait(module, item),
            Item::Fn(item) => {
                let index = self.define_fn(module, &item.sig, None);
                let name = item.sig.ident.to_string();
                self.scopes[module].values.entry(name).or_insert(Meaning::Fn(index));
            }
            Item::Const(item) => self.define_value(module, &item.ident.to_string(), &item.ty),
            Item::Static(item) => self.define_value(module, &item.ident.to_string(), &item.ty),
            Item::Use(item) => self.scopes[module].import(&item.tree, &mut Vec::new()),
            // What a macro writes cannot be seen, but the names of its types can.
            Item::Macro(item) => {
                for name in types_in(item.mac.tokens.clone()) {
                    let shape = Shape::Fields(FieldTypes::new());
                    self.define_type(module, &name.to_string(), &Generics::default(), shape);
                }
            }
            _ => {}
        }
    }

    fn define_type(&mut self, module: ModuleId, name: &str, generics: &Generics, shape: Shape) {
        let params = generics.type_params().map(|param| param.ident.to_string()).collect();
        self.types.push(TypeDef { name: name.to_owned(), module, params, shape });
        self.scopes[module].types.entry(name.to_owned()).or_insert(Meaning::Type(self.types.len() - 1));
    }

    fn define_value(&mut self, module: ModuleId, name: &str, ty: &Type) {
        self.values.push((module, ty.clone()));
        self.scopes[module].values.entry(name.to_owned()).or_insert(Meaning::Value(self.values.len() - 1));
    }

    fn define_trait(&mut self, module: ModuleId, item: &ItemTrait) {
        let mut methods = BTreeMap::new();
        for part in &item.items {
            if let TraitItem::Fn(method) = part {
                self.trait_methods.insert(method.sig.ident.to_string());
                methods.insert(method.sig.ident.to_string(), method.sig.clone());
            }
        }
        let above = item.supertraits.iter().filter_map(bound_path).map(|(names, _)| names).collect();
        self.traits.push(TraitDef { module, methods, above });
        self.scopes[module].types.entry(item.ident.to_string()).or_insert(Meaning::Trait(self.traits.len() - 1));
    }

    fn define_fn(&mut self, module: ModuleId, signature: &Signature, owner: Option<(Type, Generics)>) -> usize {
        self.functions.push(FnDef {
            name: signature.ident.to_string(),
            module,
            line: line_of(&signature.ident),
            signature: signature.clone(),
            owner,
        });
        self.functions.len() - 1
    }

    fn define_impl(&mut self, module: ModuleId, item: &ItemImpl) {
        let setting = Setting { module, generics: vec![&item.generics], self_type: None };
        let of = match self.ty(&item.self_ty, &setting) {
            Ty::Own(id, _) => Some(id),
            _ => None,
        };
        if let Some((_, path, _)) = &item.trait_ {
            let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            let which = match self.resolve(module, &names, false) {
                Meaning::Trait(which) => Some(which),
                _ => None,
            };
            let mut associated = BTreeMap::new();
            for part in &item.items {
                match part {
                    ImplItem::Fn(method) => {
                        self.trait_methods.insert(method.sig.ident.to_string());
                    }
                    ImplItem::Type(ty) => {
                        associated.insert(ty.ident.to_string(), ty.ty.clone());
                    }
                    _ => {}
                }
            }
            if let Some(of) = of {
                let name = names.last().cloned().unwrap_or_default();
                let (self_type, generics) = ((*item.self_ty).clone(), item.generics.clone());
                self.impls.push(TraitImpl { of, name, which, module, self_type, generics, associated });
            }
            return;
        }
        let Some(of) = of else { return };
        for part in &item.items {
            match part {
                ImplItem::Fn(method) if !is_test_only(&method.attrs) => {
                    let owner = ((*item.self_ty).clone(), item.generics.clone());
                    let index = self.define_fn(module, &method.sig, Some(owner));
                    let name = method.sig.ident.to_string();
                    self.methods.entry((of, name.clone())).or_default().push(index);
                    self.by_name.entry(name).or_default().push(index);
                }
                ImplItem::Const(constant) if !is_test_only(&constant.attrs) => {
                    let key = (of, constant.ident.to_string());
                    self.constants.insert(key, (module, line_of(&constant.ident), constant.ty.clone()));
                }
                _ => {}
            }
        }
    }

    /// The inherent methods of a type with this name.
    pub(crate) fn inherent(&self, of: TypeId, name: &str) -> &[usize] {
        self.methods.get(&(of, name.to_owned())).map_or(&[], Vec::as_slice)
    }

    /// Where a type's associated constant is defined, and its type.
    pub(crate) fn constant(&self, of: TypeId, name: &str) -> Option<(ModuleId, usize, Ty)> {
        let (module, line, ty) = self.constants.get(&(of, name.to_owned()))?;
        let self_type = Some(Ty::Own(of, Vec::new()));
        Some((*module, *line, self.ty(ty, &Setting { module: *module, generics: Vec::new(), self_type })))
    }

    /// The type of a constant or static.
    pub(crate) fn value(&self, index: usize) -> Ty {
        let (module, ty) = &self.values[index];
        self.ty(ty, &Setting { module: *module, generics: Vec::new(), self_type: None })
    }

    /// What a type that a trait's impl names stands for: `Target` of `Deref`, say.
    pub(crate) fn associated(&self, ty: &Ty, trait_name: Option<&str>, name: &str) -> Option<Ty> {
        let Ty::Own(id, _) = ty else { return None };
        let found = self.impls.iter().find(|one| {
            one.of == *id && trait_name.is_none_or(|wanted| one.name == wanted) && one.associated.contains_key(name)
        })?;
        let setting = Setting { module: found.module, generics: vec![&found.generics], self_type: None };
        let mut bound = Bound::new();
        self.ty(&found.self_type, &setting).bind(ty, &mut bound);
        let setting = Setting { self_type: Some(ty.clone()), ..setting };
        Some(self.ty(&found.associated[name], &setting).with(&bound, &|_| false))
    }

    /// The method of this name that a trait of the crate gives a type, with the trait's module.
    pub(crate) fn trait_method(&self, ty: &Ty, name: &str, setting: &Setting<'_>) -> Option<(ModuleId, &Signature)> {
        let traits: Vec<usize> = match ty {
            Ty::Own(id, _) => self.impls.iter().filter(|one| one.of == *id).filter_map(|one| one.which).collect(),
            Ty::Param(param) => self.bounds(param, setting),
            _ => Vec::new(),
        };
        traits.into_iter().find_map(|which| self.method_of(which, name, 0))
    }

    fn method_of(&self, which: usize, name: &str, depth: u32) -> Option<(ModuleId, &Signature)> {
        let one = &self.traits[which];
        if let Some(signature) = one.methods.get(name) {
            return Some((one.module, signature));
        }
        let above = one.above.iter().filter(|_| depth < DEPTH);
        above.into_iter().find_map(|path| match self.resolve(one.module, path, false) {
            Meaning::Trait(which) => self.method_of(which, name, depth + 1),
            _ => None,
        })
    }

    /// The crate's traits that a type parameter is bound to.
    fn bounds(&self, param: &str, setting: &Setting<'_>) -> Vec<usize> {
        let bounds = setting.generics.iter().flat_map(|generics| bounds_of(generics, param));
        let paths = bounds.filter_map(bound_path);
        paths
            .filter_map(|(names, _)| match self.resolve(setting.module, &names, false) {
                Meaning::Trait(which) => Some(which),
                _ => None,
            })
            .collect()
    }

    /// The setting of a function's signature, the type of its impl with its parameters as they are written.
    pub(crate) fn setting<'d>(&'d self, function: &'d FnDef) -> Setting<'d> {
        let mut setting = Setting { module: function.module, generics: Vec::new(), self_type: None };
        if let Some((self_type, generics)) = &function.owner {
            setting.generics.push(generics);
            setting.self_type = Some(self.ty(self_type, &setting));
        }
        setting.generics.push(&function.signature.generics);
        setting
    }

    /// The type of a field of a struct.
    pub(crate) fn field(&self, ty: &Ty, name: &str) -> Option<Ty> {
        match ty {
            Ty::Tuple(parts) => parts.get(name.parse::<usize>().ok()?).cloned(),
            Ty::Own(id, args) => match &self.types[*id].shape {
                Shape::Fields(fields) => Some(self.part(*id, args, fields.get(name)?)),
                _ => None,
            },
            _ => None,
        }
    }

    /// The type of a field of an enum's variant.
    pub(crate) fn variant_field(&self, ty: &Ty, variant: &str, name: &str) -> Ty {
        match ty {
            Ty::Own(id, args) => match &self.types[*id].shape {
                Shape::Variants(variants) => variants
                    .get(variant)
                    .and_then(|fields| fields.get(name))
                    .map_or(Ty::Unknown, |field| self.part(*id, args, field)),
                _ => Ty::Unknown,
            },
            _ => Ty::Unknown,
        }
    }

    fn part(&self, id: TypeId, args: &[Ty], field: &Type) -> Ty {
        let definition = &self.types[id];
        let params: Vec<Ty> = definition.params.iter().map(|name| Ty::Param(name.clone())).collect();
        let bound: Bound = definition.params.iter().cloned().zip(args.iter().cloned()).collect();
        let setting = Setting { module: definition.module, generics: Vec::new(), self_type: Some(Ty::Own(id, params)) };
        self.ty_with(field, &setting, &definition.params, 0).with(&bound, &|_| false)
    }

    /// What a written type stands for.
    pub(crate) fn ty(&self, ty: &Type, setting: &Setting<'_>) -> Ty {
        self.ty_with(ty, setting, &[], 0)
    }

    fn ty_with(&self, ty: &Type, setting: &Setting<'_>, params: &[String], depth: u32) -> Ty {
        if depth > DEPTH {
            return Ty::Unknown;
        }
        let inner = |ty: &Type| self.ty_with(ty, setting, params, depth + 1);
        match ty {
            Type::Reference(ty) => inner(&ty.elem),
            Type::Paren(ty) => inner(&ty.elem),
            Type::Group(ty) => inner(&ty.elem),
            Type::Slice(ty) => Ty::other("Slice", vec![inner(&ty.elem)]),
            Type::Array(ty) => Ty::other("Slice", vec![inner(&ty.elem)]),
            Type::Tuple(ty) => Ty::Tuple(ty.elems.iter().map(inner).collect()),
            Type::ImplTrait(ty) => self.ty_of_bounds(ty.bounds.iter(), setting, params, depth),
            Type::TraitObject(ty) => self.ty_of_bounds(ty.bounds.iter(), setting, params, depth),
            Type::Path(ty) if ty.qself.is_none() => {
                let segments: Vec<&PathSegment> = ty.path.segments.iter().collect();
                let names: Vec<String> = segments.iter().map(|segment| segment.ident.to_string()).collect();
                let is_param = |name: &str| {
                    params.iter().any(|param| param == name)
                        || setting
                            .generics
                            .iter()
                            .any(|generics| generics.type_params().any(|param| param.ident == name))
                };
                match names.as_slice() {
                    [name] if name == "Self" => return setting.self_type.clone().unwrap_or(Ty::Unknown),
                    [name, part] if name == "Self" => {
                        let own = setting.self_type.clone().unwrap_or(Ty::Unknown);
                        return self.associated(&own, None, part).unwrap_or(Ty::Unknown);
                    }
                    [name] if is_param(name) => return Ty::Param(name.clone()),
                    // A parameter's associated type: all that is known of it is traits.
                    [name, ..] if is_param(name) => return Ty::other("impl", Vec::new()),
                    _ => {}
                }
                let args: Vec<Ty> = segments
                    .last()
                    .map(|last| type_arguments(last))
                    .unwrap_or_default()
                    .into_iter()
                    .map(inner)
                    .collect();
                match self.resolve(setting.module, &names, false) {
                    Meaning::Type(id) => match &self.types[id].shape {
                        Shape::Alias(alias) => {
                            let definition = &self.types[id];
                            let there = Setting { module: definition.module, generics: Vec::new(), self_type: None };
                            let bound = definition.params.iter().cloned().zip(args).collect();
                            self.ty_with(alias, &there, &definition.params, depth + 1).with(&bound, &|_| false)
                        }
                        _ => Ty::Own(id, args),
                    },
                    Meaning::Other(name) => Ty::Other(name, args),
                    _ => Ty::Unknown,
                }
            }
            _ => Ty::Unknown,
        }
    }

    fn ty_of_bounds<'b>(
        &self,
        bounds: impl Iterator<Item = &'b TypeParamBound>,
        setting: &Setting<'_>,
        params: &[String],
        depth: u32,
    ) -> Ty {
        for bound in bounds {
            let Some((names, last)) = bound_path(bound) else { continue };
            if names.last().is_some_and(|name| name.ends_with("Iterator")) {
                let item = associated_argument(last, "Item");
                let item = item.map_or(Ty::Unknown, |item| self.ty_with(item, setting, params, depth + 1));
                return Ty::other("Iterator", vec![item]);
            }
        }
        Ty::other("impl", Vec::new())
    }

    /// What a closure is called with and returns, if `ty` is one by its bounds.
    pub(crate) fn closure<'d>(
        &'d self,
        ty: &'d Type,
        setting: &Setting<'d>,
    ) -> Option<(Vec<&'d Type>, Option<&'d Type>)> {
        let bounds: Vec<&TypeParamBound> = match ty {
            Type::Reference(ty) => return self.closure(&ty.elem, setting),
            Type::ImplTrait(ty) => ty.bounds.iter().collect(),
            Type::TraitObject(ty) => ty.bounds.iter().collect(),
            Type::Path(path) => {
                let name = path.path.get_ident()?.to_string();
                setting.generics.iter().flat_map(|generics| bounds_of(generics, &name)).collect()
            }
            _ => return None,
        };
        bounds.into_iter().filter_map(bound_path).find_map(|(_, last)| match &last.arguments {
            PathArguments::Parenthesized(call) => {
                let output = match &call.output {
                    ReturnType::Type(_, ty) => Some(&**ty),
                    ReturnType::Default => None,
                };
                Some((call.inputs.iter().collect(), output))
            }
            _ => None,
        })
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
                    let names: Vec<String> =
                        alias.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
                    match self.resolve_at(self.types[id].module, &names, false, depth + 1) {
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
    fn import(&mut self, tree: &UseTree, before: &mut Vec<String>) {
        let depth = before.len();
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.import(&path.tree, before);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, before);
                }
            }
            UseTree::Name(name) if name.ident == "self" => {
                if let Some(last) = before.last().cloned() {
                    self.imports.insert(last, before.clone());
                }
            }
            UseTree::Name(name) => {
                before.push(name.ident.to_string());
                self.imports.insert(name.ident.to_string(), before.clone());
            }
            UseTree::Rename(rename) => {
                if rename.ident != "self" {
                    before.push(rename.ident.to_string());
                }
                self.imports.insert(rename.rename.to_string(), before.clone());
            }
            UseTree::Glob(_) => self.globs.push(before.clone()),
        }
        before.truncate(depth);
    }
}

/// Collects items, those inside functions too, without those of inner modules and of tests.
struct Items<'ast> {
    found: Vec<&'ast Item>,
}

impl<'ast> Visit<'ast> for Items<'ast> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test_only(attributes(item)) && !matches!(item, Item::Mod(_)) {
            self.found.push(item);
            syn::visit::visit_item(self, item);
        }
    }
}

/// The types of a struct's or variant's fields, by name or number.
fn fields(fields: &Fields) -> FieldTypes {
    let name = |(index, field): (usize, &syn::Field)| {
        (field.ident.as_ref().map_or_else(|| index.to_string(), ToString::to_string), field.ty.clone())
    };
    fields.iter().enumerate().map(name).collect()
}

/// The bounds of a type parameter.
fn bounds_of<'g>(generics: &'g Generics, param: &str) -> Vec<&'g TypeParamBound> {
    let mut bounds = Vec::new();
    for one in &generics.params {
        if let GenericParam::Type(one) = one
            && one.ident == param
        {
            bounds.extend(&one.bounds);
        }
    }
    for predicate in generics.where_clause.iter().flat_map(|clause| &clause.predicates) {
        if let syn::WherePredicate::Type(predicate) = predicate
            && matches!(&predicate.bounded_ty, Type::Path(path) if path.path.is_ident(param))
        {
            bounds.extend(&predicate.bounds);
        }
    }
    bounds
}

/// The names of a bound's path, and its last segment.
fn bound_path(bound: &TypeParamBound) -> Option<(Vec<String>, &PathSegment)> {
    match bound {
        TypeParamBound::Trait(bound) => {
            let names = bound.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            Some((names, bound.path.segments.last()?))
        }
        _ => None,
    }
}

fn associated_argument<'s>(segment: &'s PathSegment, name: &str) -> Option<&'s Type> {
    match &segment.arguments {
        PathArguments::AngleBracketed(args) => args.args.iter().find_map(|arg| match arg {
            GenericArgument::AssocType(ty) if ty.ident == name => Some(&ty.ty),
            _ => None,
        }),
        _ => None,
    }
}

fn type_arguments(segment: &PathSegment) -> Vec<&Type> {
    match &segment.arguments {
        PathArguments::AngleBracketed(args) => args
            .args
            .iter()
            .filter_map(|arg| match arg {
                GenericArgument::Type(ty) => Some(ty),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// The types of a function's parameters behind the receiver.
pub(crate) fn parameters(signature: &Signature) -> Vec<&Type> {
    signature
        .inputs
        .iter()
        .filter_map(|input| match input {
            FnArg::Typed(typed) => Some(&*typed.ty),
            FnArg::Receiver(_) => None,
        })
        .collect()
}

fn is_path_root(name: &str) -> bool {
    ["crate", "self", "super"].contains(&name)
}

/// Whether a name needs no import.
fn is_prelude(name: &str) -> bool {
    const NAMES: &str = " Option Result Vec Box String Some None Ok Err u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize bool char str f32 f64 ";
    NAMES.contains(&format!(" {name} "))
}
