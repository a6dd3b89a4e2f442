//! Calls of inherent methods that are defined in a file above.
//!
//! An `impl World` may stand in any file, so a call of its method crosses files without a path that says so. Where
//! a call leads depends on the type of its receiver, which `expressions.rs` infers as far as it can. A receiver of
//! unknown type counts only if every method of that name and number of arguments lies above, and nothing in the
//! standard library or in a trait has that name.

use crate::definitions::Definitions;
use crate::expressions::calls_of;
use crate::finding::{Finding, Kind};
use crate::std_library::is_of_std;
use crate::tree::{ModuleId, Tree};
use crate::types::Ty;
use crate::walk::Leads;

/// How many calls of methods there are, by what is known of where they lead.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    /// To an inherent method of the crate.
    pub(crate) own: usize,
    /// To a trait's method, or to another crate.
    pub(crate) other: usize,
    /// The receiver's type is unknown.
    pub(crate) unknown: usize,
}

impl Counts {
    /// Adds what another crate has.
    pub(crate) fn add(&mut self, more: Counts) {
        self.own += more.own;
        self.other += more.other;
        self.unknown += more.unknown;
    }
}

/// Reports the calls that lead upwards. With `shows_unknown`, prints the calls whose receiver is not known.
pub(crate) fn upward(
    tree: &Tree,
    definitions: &Definitions<'_>,
    findings: &mut Vec<Finding>,
    shows_unknown: bool,
) -> Counts {
    let mut counts = Counts::default();
    for module in 0..tree.modules.len() {
        for ((line, _), leads) in calls_of(tree, definitions, module) {
            let file = &tree.modules[module].file;
            let mut report = |to: ModuleId, name: &str, at: usize| {
                let text = format!("`{name}` is defined above, in {}:{at}", tree.file_name(tree.modules[to].home));
                findings.push(Finding { file: file.clone(), line, kind: Kind::Call, text });
            };
            match leads {
                Leads::Own(methods) => {
                    counts.own += 1;
                    let (to, name, at) = described(definitions, methods[0]);
                    if methods.iter().all(|&method| tree.is_above(definitions.functions[method].module, module)) {
                        report(to, &name, at);
                    }
                }
                Leads::Constant(to, at, name) => {
                    counts.own += 1;
                    if tree.is_above(to, module) {
                        report(to, &name, at);
                    }
                }
                Leads::Other => counts.other += 1,
                Leads::Unknown(name, arguments) => {
                    counts.unknown += 1;
                    if shows_unknown {
                        println!("{}:{line}: unknown receiver of `{name}`", file.display());
                    }
                    let named = definitions.by_name.get(&name).map_or(&[][..], Vec::as_slice);
                    let fits = |&&method: &&usize| {
                        let function = &definitions.functions[method];
                        function.takes_self() && function.arguments() == arguments
                    };
                    let candidates: Vec<usize> = named.iter().filter(fits).copied().collect();
                    let all_above =
                        candidates.iter().all(|&one| tree.is_above(definitions.functions[one].module, module));
                    let is_elsewhere = is_of_std(&name) || definitions.trait_methods.contains(&name);
                    if let (Some(&first), true, false) = (candidates.first(), all_above, is_elsewhere) {
                        let (to, name, at) = described(definitions, first);
                        report(to, &name, at);
                    }
                }
            }
        }
    }
    counts
}

fn described(definitions: &Definitions<'_>, method: usize) -> (ModuleId, String, usize) {
    let function = &definitions.functions[method];
    let owner = match definitions.setting(function).self_type {
        Some(Ty::Own(id, _)) => format!("{}::", definitions.types[id].name),
        _ => String::new(),
    };
    (function.module, format!("{owner}{}", function.name), function.line)
}
