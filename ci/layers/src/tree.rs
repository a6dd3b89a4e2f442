//! The module tree of one crate: which file holds which module, and which of two files stands above the other.
//!
//! The tree is read from the `mod` declarations, beginning with lib.rs or main.rs; their order is the order of the
//! files, from top to bottom. A module that is written inside a file is a module of the tree too, and belongs to
//! that file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::spanned::Spanned;
use syn::{Attribute, Item, Meta};

use crate::finding::{Finding, Kind};
use crate::macros::record_in;
use crate::test_code::is_test_only;

/// Index of a module in [`Tree::modules`].
pub(crate) type ModuleId = usize;

/// One module, in a file of its own or inside another's.
pub(crate) struct Module {
    pub(crate) name: String,
    pub(crate) parent: Option<ModuleId>,
    pub(crate) children: Vec<ModuleId>,
    /// Place among the modules that its parent declares.
    order: usize,
    /// The module whose file this one is written in: itself, if it has a file of its own.
    pub(crate) home: ModuleId,
    pub(crate) file: PathBuf,
    pub(crate) items: Vec<Item>,
    /// First doc line, `//!`, if there is one.
    has_header: bool,
}

/// The modules of a crate without those that exist in tests only.
pub(crate) struct Tree {
    pub(crate) modules: Vec<Module>,
    /// What is wrong with the tree itself.
    pub(crate) findings: Vec<Finding>,
    /// All files that belong to the crate, those for tests too.
    pub(crate) seen: BTreeSet<PathBuf>,
}

/// What a `mod` declaration needs to know of the place where it stands.
#[derive(Clone, Copy)]
struct Place<'a> {
    parent: Option<ModuleId>,
    file: &'a Path,
    /// Folder in which the files of the children lie.
    folder: &'a Path,
    is_test: bool,
}

impl Tree {
    /// Reads the crate with this root: its lib.rs, or a binary's main.rs.
    ///
    /// # Errors
    /// A file cannot be read or parsed.
    pub(crate) fn read(root: &Path) -> Result<Tree, String> {
        let mut tree = Tree { modules: Vec::new(), findings: Vec::new(), seen: BTreeSet::new() };
        let folder = root.parent().unwrap_or(Path::new(""));
        let place = Place { parent: None, file: root, folder, is_test: false };
        tree.read_file(root, "crate", 0, place)?;
        if tree.modules.len() == 1 && root.ends_with("lib.rs") {
            tree.find(root, 1, "declares no module".to_owned());
        }
        Ok(tree)
    }

    /// The root module.
    pub(crate) fn root(&self) -> ModuleId {
        0
    }

    /// The child of a module with this name.
    pub(crate) fn child(&self, module: ModuleId, name: &str) -> Option<ModuleId> {
        self.modules[module].children.iter().copied().find(|&child| self.modules[child].name == name)
    }

    /// The modules that have a file of their own.
    pub(crate) fn files(&self) -> impl Iterator<Item = ModuleId> + '_ {
        (0..self.modules.len()).filter(|&module| self.modules[module].home == module)
    }

    /// Whether the file of `other` stands above the file of `from`: it is the file of an enclosing module, or its
    /// branch is declared first.
    pub(crate) fn is_above(&self, other: ModuleId, from: ModuleId) -> bool {
        let (upper, lower) = (self.chain(self.modules[other].home), self.chain(self.modules[from].home));
        let shared = upper.iter().zip(&lower).take_while(|(a, b)| a == b).count();
        match (upper.get(shared), lower.get(shared)) {
            (Some(&a), Some(&b)) => self.modules[a].order < self.modules[b].order,
            (None, Some(_)) => true,
            (_, None) => false,
        }
    }

    /// Path of a module's file below the crate's source folder.
    pub(crate) fn file_name(&self, module: ModuleId) -> String {
        let folder = self.modules[self.root()].file.parent().unwrap_or(Path::new(""));
        let file = &self.modules[module].file;
        file.strip_prefix(folder).unwrap_or(file).display().to_string()
    }

    /// A module and those around it, outermost first.
    fn chain(&self, module: ModuleId) -> Vec<ModuleId> {
        let mut chain: Vec<ModuleId> = std::iter::successors(Some(module), |&id| self.modules[id].parent).collect();
        chain.reverse();
        chain
    }

    fn find(&mut self, file: &Path, line: usize, text: String) {
        self.findings.push(Finding { file: file.to_owned(), line, kind: Kind::Tree, text });
    }

    fn read_file(&mut self, file: &Path, name: &str, order: usize, place: Place<'_>) -> Result<(), String> {
        let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let mut parsed = syn::parse_file(&text).map_err(|error| {
            let at = error.span().start();
            format!("{}:{}: {error}", file.display(), at.line)
        })?;
        for item in &mut parsed.items {
            if let Some(record) = record_in(item) {
                *item = record;
            }
        }
        if !self.seen.insert(file.to_owned()) {
            return Ok(());
        }
        if place.is_test {
            return self.read_modules(&parsed.items, Place { parent: None, file, ..place });
        }
        let has_header = parsed.attrs.iter().any(|attr| attr.path().is_ident("doc"));
        let id = self.add(name, order, place.parent, file, has_header);
        self.modules[id].home = id;
        let result = self.read_modules(&parsed.items, Place { parent: Some(id), file, ..place });
        let holds_files = self.modules[id].children.iter().any(|&child| self.modules[child].home == child);
        if (file.ends_with("mod.rs") || holds_files) && !self.modules[id].has_header {
            self.find(file, 1, "the file of a folder begins with a header (`//!`)".to_owned());
        }
        self.modules[id].items = parsed.items;
        result
    }

    fn add(&mut self, name: &str, order: usize, parent: Option<ModuleId>, file: &Path, has_header: bool) -> ModuleId {
        let id = self.modules.len();
        let home = parent.map_or(id, |parent| self.modules[parent].home);
        self.modules.push(Module {
            name: name.to_owned(),
            parent,
            children: Vec::new(),
            order,
            home,
            file: file.to_owned(),
            items: Vec::new(),
            has_header,
        });
        if let Some(parent) = parent {
            self.modules[parent].children.push(id);
        }
        id
    }

    fn read_modules(&mut self, items: &[Item], place: Place<'_>) -> Result<(), String> {
        let mut declared: BTreeMap<String, usize> = BTreeMap::new();
        for (order, item) in items.iter().enumerate() {
            let Item::Mod(module) = item else { continue };
            let name = module.ident.to_string();
            let line = module.ident.span().start().line;
            let is_test = place.is_test || is_test_only(&module.attrs);
            if let Some(first) = declared.insert(name.clone(), line) {
                self.find(place.file, line, format!("declares {name} twice, first in line {first}"));
                continue;
            }
            let inner = Place { is_test, ..place };
            if let Some((_, items)) = &module.content {
                let folder = place.folder.join(&name);
                let id = match place.parent {
                    Some(parent) if !is_test => {
                        let id = self.add(&name, order, Some(parent), place.file, true);
                        self.modules[id].items = items.clone();
                        Some(id)
                    }
                    _ => None,
                };
                self.read_modules(items, Place { parent: id, folder: &folder, ..inner })?;
                continue;
            }
            let candidates = match path_attribute(&module.attrs) {
                Some(path) => vec![place.file.with_file_name(path)],
                None => vec![place.folder.join(format!("{name}.rs")), place.folder.join(&name).join("mod.rs")],
            };
            let folder = place.folder.join(&name);
            match candidates.iter().find(|file| file.exists()) {
                Some(file) => self.read_file(file, &name, order, Place { folder: &folder, ..inner })?,
                None => self.find(place.file, line, format!("declares {name}, which has no file")),
            }
        }
        Ok(())
    }
}

/// The .rs files below a folder, sorted.
pub(crate) fn files_below(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries {
        let path = entry.map_err(|error| format!("{}: {error}", folder.display()))?.path();
        if path.is_dir() {
            files.extend(files_below(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The file that `#[path = "..."]` names.
fn path_attribute(attrs: &[Attribute]) -> Option<String> {
    attrs.iter().find_map(|attr| match &attr.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    })
}

/// Line of a piece of syntax.
pub(crate) fn line_of(syntax: &impl Spanned) -> usize {
    syntax.span().start().line
}
