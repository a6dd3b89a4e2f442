//! The types that are written in a crate's code: of fields, constants, parameters and results.

use syn::{
    FnArg, GenericArgument, GenericParam, Generics, PathArguments, PathSegment, ReturnType, Signature, Type,
    TypeParamBound,
};

use crate::definitions::{DEPTH, Definitions, FnDef, Meaning, Setting, Shape, names_of};
use crate::tree::ModuleId;
use crate::types::{Bound, Ty, TypeId};

impl Definitions<'_> {
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
                let names = names_of(&ty.path);
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
                let args: Vec<Ty> = ty.path.segments.last().into_iter().flat_map(type_arguments).map(inner).collect();
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
pub(crate) fn bound_path(bound: &TypeParamBound) -> Option<(Vec<String>, &PathSegment)> {
    match bound {
        TypeParamBound::Trait(bound) => Some((names_of(&bound.path), bound.path.segments.last()?)),
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
