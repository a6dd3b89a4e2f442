//! Types as far as the search for methods needs them.

use std::collections::BTreeMap;

/// Index of a type in [`crate::definitions::Definitions::types`].
pub(crate) type TypeId = usize;

/// A type. References and lifetimes do not count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Ty {
    Unknown,
    /// A type of the crate, with its type arguments.
    Own(TypeId, Vec<Ty>),
    /// A type from elsewhere, by its last name. All iterators are `Iterator` of what they give.
    Other(String, Vec<Ty>),
    Tuple(Vec<Ty>),
    /// A parameter of the function or of its impl.
    Param(String),
}

/// What type parameters stand for.
pub(crate) type Bound = BTreeMap<String, Ty>;

impl Ty {
    /// A type from elsewhere.
    pub(crate) fn other(name: &str, args: Vec<Ty>) -> Ty {
        Ty::Other(name.to_owned(), args)
    }

    /// A number, text or truth value: nothing that methods of the crate are defined on.
    pub(crate) fn plain() -> Ty {
        Ty::other("u64", Vec::new())
    }

    /// The type with its parameters replaced; those that are not known become [`Ty::Unknown`], unless `kept` has
    /// them.
    pub(crate) fn with(&self, bound: &Bound, kept: &dyn Fn(&str) -> bool) -> Ty {
        let all = |args: &[Ty]| args.iter().map(|arg| arg.with(bound, kept)).collect();
        match self {
            Ty::Param(name) => match bound.get(name) {
                Some(ty) => ty.clone(),
                None if kept(name) => self.clone(),
                None => Ty::Unknown,
            },
            Ty::Own(id, args) => Ty::Own(*id, all(args)),
            Ty::Other(name, args) => Ty::Other(name.clone(), all(args)),
            Ty::Tuple(parts) => Ty::Tuple(all(parts)),
            Ty::Unknown => Ty::Unknown,
        }
    }

    /// Notes what the parameters of `self` stand for if it is `actual`.
    pub(crate) fn bind(&self, actual: &Ty, bound: &mut Bound) {
        match (self, actual) {
            (_, Ty::Unknown) => {}
            (Ty::Param(name), _) => {
                bound.entry(name.clone()).or_insert_with(|| actual.clone());
            }
            (Ty::Own(a, args), Ty::Own(b, actual)) if a == b => bind_all(args, actual, bound),
            (Ty::Other(a, args), Ty::Other(b, actual)) if a == b => bind_all(args, actual, bound),
            (Ty::Tuple(args), Ty::Tuple(actual)) => bind_all(args, actual, bound),
            _ => {}
        }
    }

    /// The n-th type argument.
    pub(crate) fn arg(&self, index: usize) -> Ty {
        match self {
            Ty::Own(_, args) | Ty::Other(_, args) | Ty::Tuple(args) => args.get(index).cloned().unwrap_or(Ty::Unknown),
            Ty::Unknown | Ty::Param(_) => Ty::Unknown,
        }
    }

    /// Whether it is one of these types from elsewhere.
    pub(crate) fn is(&self, names: &[&str]) -> bool {
        matches!(self, Ty::Other(name, _) if names.contains(&name.as_str()))
    }

    /// What the standard library's pointers, guards and lists stand for.
    pub(crate) fn target(&self) -> Option<Ty> {
        const POINTERS: [&str; 12] = [
            "Box",
            "Rc",
            "Arc",
            "Ref",
            "RefMut",
            "MutexGuard",
            "RwLockReadGuard",
            "RwLockWriteGuard",
            "ManuallyDrop",
            "Cow",
            "Pin",
            "LazyLock",
        ];
        if self.is(&POINTERS) {
            return Some(self.arg(0));
        }
        self.is(&["Vec"]).then(|| Ty::other("Slice", vec![self.arg(0)]))
    }

    /// What a loop over it gives.
    pub(crate) fn element(&self) -> Ty {
        match self {
            _ if self.is(&["BTreeMap", "HashMap"]) => Ty::Tuple(vec![self.arg(0), self.arg(1)]),
            _ if self.is(&["Iterator", "Vec", "Slice", "Option", "VecDeque", "BTreeSet", "HashSet", "BinaryHeap"]) => {
                self.arg(0)
            }
            _ => Ty::Unknown,
        }
    }

    /// What `?` gives.
    pub(crate) fn tried(&self) -> Ty {
        if self.is(&["Option", "Result"]) { self.arg(0) } else { Ty::Unknown }
    }

    /// The type of two branches that join: whichever says more.
    pub(crate) fn joined(self, other: Option<Ty>) -> Ty {
        match (&self, other) {
            (Ty::Unknown, Some(other)) => other,
            (Ty::Tuple(parts), Some(other)) if parts.is_empty() => other,
            (_, Some(other)) if self.arg(0) == Ty::Unknown && other.is(&["Option", "Result"]) => other,
            _ => self,
        }
    }
}

fn bind_all(args: &[Ty], actual: &[Ty], bound: &mut Bound) {
    for (arg, actual) in args.iter().zip(actual) {
        arg.bind(actual, bound);
    }
}
