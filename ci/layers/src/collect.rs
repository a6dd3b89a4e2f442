//! Collects what a crate defines from the items of its modules.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::Visit;
use syn::{Fields, Generics, ImplItem, Item, ItemImpl, ItemTrait, Signature, TraitItem, Type};

use crate::definitions::{
    Definitions, FieldTypes, FnDef, Meaning, Scope, Setting, Shape, TraitDef, TraitImpl, TypeDef, names_of,
};
use crate::names::types_in;
use crate::test_code::{attributes, is_test_only};
use crate::tree::{ModuleId, Tree, line_of};
use crate::types::Ty;
use crate::written::bound_path;

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
            Item::Use(item) => self.scopes[module].import(&item.tree),
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
            let names = names_of(path);
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
