//! Types as far as the search for methods needs them, and what of the standard library's it knows by heart.

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

    /// The type with its parameters replaced; those that are not known become [`Ty::Unknown`], unless `kept` has them.
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
            "Box", "Rc", "Arc", "Ref", "RefMut", "MutexGuard", "RwLockReadGuard", "RwLockWriteGuard", "ManuallyDrop", "Cow",
            "Pin", "LazyLock",
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
}

fn bind_all(args: &[Ty], actual: &[Ty], bound: &mut Bound) {
    for (arg, actual) in args.iter().zip(actual) {
        arg.bind(actual, bound);
    }
}

/// What a closure given to a method of the standard library is called with.
pub(crate) fn closure_arguments(receiver: &Ty, method: &str, first: &Ty) -> Vec<Ty> {
    match method {
        "fold" | "try_fold" => vec![first.clone(), receiver.arg(0)],
        "map_err" | "or_else" | "inspect_err" | "unwrap_or_else" if receiver.is(&["Result"]) => vec![receiver.arg(1)],
        "sort_by" | "sort_unstable_by" | "max_by" | "min_by" | "reduce" => vec![receiver.element(), receiver.element()],
        "retain" if receiver.is(&["BTreeMap", "HashMap"]) => vec![receiver.arg(0), receiver.arg(1)],
        "update" | "with" => vec![receiver.arg(0)],
        _ if receiver.is(&["Result"]) => vec![receiver.arg(0)],
        _ => vec![receiver.element()],
    }
}

/// What a method of the standard library returns, if that may be a type of the crate. `given` are its arguments, for a closure what that returns.
pub(crate) fn returned(receiver: &Ty, method: &str, given: &[Ty]) -> Ty {
    let first = given.first().cloned().unwrap_or(Ty::Unknown);
    let option = |ty| Ty::other("Option", vec![ty]);
    let iterator = |ty| Ty::other("Iterator", vec![ty]);
    let element = receiver.element();
    if receiver.is(&["Option", "Result"]) {
        let Ty::Other(kind, args) = receiver else { return Ty::Unknown };
        let inner = receiver.arg(0);
        return match method {
            "map" => Ty::Other(kind.clone(), std::iter::once(first).chain(args.iter().skip(1).cloned()).collect()),
            "and_then" | "map_or" | "and" => first,
            "map_or_else" => given.get(1).cloned().unwrap_or(Ty::Unknown),
            "unwrap" | "expect" | "unwrap_or" | "unwrap_or_else" | "unwrap_or_default" | "insert" | "get_or_insert_with"
            | "get_or_insert" => inner,
            "ok_or" | "ok_or_else" => Ty::other("Result", vec![inner, first]),
            "ok" => option(inner),
            "err" => option(receiver.arg(1)),
            "map_err" => Ty::other("Result", vec![inner, first]),
            "as_deref" | "as_deref_mut" => Ty::Other(kind.clone(), vec![inner.target().unwrap_or(inner)]),
            "iter" | "into_iter" | "iter_mut" => iterator(inner),
            "zip" => option(Ty::Tuple(vec![inner, first.arg(0)])),
            "flatten" => inner,
            "transpose" => Ty::Unknown,
            "is_some" | "is_none" | "is_ok" | "is_err" | "is_some_and" | "is_none_or" | "is_ok_and" => Ty::plain(),
            _ => receiver.clone(),
        };
    }
    match method {
        "clone" | "to_owned" | "by_ref" | "as_ref" | "as_mut" | "borrow" if receiver.is(&["Vec", "Slice", "Iterator"]) => {
            receiver.clone()
        }
        "get" | "take" | "replace" | "load" if receiver.is(&["Cell"]) => receiver.arg(0),
        "borrow" | "borrow_mut" if receiver.is(&["RefCell"]) => receiver.arg(0),
        "lock" | "read" | "write" if receiver.is(&["Mutex", "RwLock"]) => {
            Ty::other("Result", vec![receiver.arg(0), Ty::Unknown])
        }
        "get" | "get_mut" | "remove" | "insert" if receiver.is(&["BTreeMap", "HashMap"]) => option(receiver.arg(1)),
        "values" | "values_mut" | "into_values" => iterator(receiver.arg(1)),
        "keys" | "into_keys" => iterator(receiver.arg(0)),
        "iter" | "iter_mut" | "into_iter" | "drain" => iterator(element),
        "get" | "get_mut" if receiver.is(&["OnceCell", "OnceLock"]) => option(receiver.arg(0)),
        "get_or_init" => receiver.arg(0),
        "first" | "last" | "get" | "get_mut" | "first_mut" | "last_mut" | "pop" | "next" | "nth" | "find" | "max_by_key"
        | "min_by_key" | "max" | "min" | "reduce" | "next_back" | "peek" | "max_by" | "min_by" | "pop_front"
        | "pop_back" | "front" | "back"
            if element != Ty::Unknown =>
        {
            option(element)
        }
        "map" | "map_while" | "scan" if receiver.is(&["Iterator"]) => match method {
            "map" => iterator(first),
            "map_while" => iterator(first.arg(0)),
            _ => Ty::Unknown,
        },
        "filter_map" => iterator(first.arg(0)),
        "flat_map" => iterator(first.element()),
        "flatten" => iterator(element.element()),
        "find_map" => first,
        "enumerate" => iterator(Ty::Tuple(vec![Ty::plain(), element])),
        "zip" => iterator(Ty::Tuple(vec![element, first.element()])),
        "filter" | "skip" | "take" | "rev" | "chain" | "step_by" | "inspect" | "peekable" | "cloned" | "copied"
        | "skip_while" | "take_while" | "cycle"
            if receiver.is(&["Iterator"]) =>
        {
            receiver.clone()
        }
        "windows" | "chunks" | "chunks_exact" => iterator(Ty::other("Slice", vec![element])),
        "fold" => first,
        "collect" => Ty::other("Vec", vec![element]),
        "then" => option(first),
        "then_some" => option(first),
        "count" | "len" | "is_empty" | "contains" | "any" | "all" | "position" | "to_string" | "sum" => Ty::plain(),
        _ if receiver.is(&["u8", "u16", "u32", "u64", "usize", "i32", "i64", "bool", "f64", "str", "String"]) => {
            if method.starts_with("checked_") { option(receiver.clone()) } else { receiver.clone() }
        }
        _ => Ty::Unknown,
    }
}

/// Whether types of the standard library have a method of this name, or implement a trait that has.
pub(crate) fn is_of_std(method: &str) -> bool {
    const COMMON: &str = " abs add all and and_then any append as_bytes as_deref as_mut as_mut_ptr as_path as_ptr as_ref as_slice as_str \
        borrow borrow_mut by_ref bytes capacity ceil chain chars checked_add checked_div checked_mul checked_sub chunks clear clone cloned cmp \
        collect concat contains contains_key copied copy_from_slice count cycle deref display div downcast drain drop elapsed ends_with entry \
        enumerate eq err exists expect extend extend_from_slice fetch_add fetch_and fetch_max fetch_min fetch_or fetch_sub fill filter \
        filter_map finish find find_map first flat_map flatten floor flush fmt fold for_each from front get get_mut get_or_init get_or_insert \
        hash insert inspect into into_inner into_iter is_empty is_err is_none is_none_or is_ok is_power_of_two is_some is_some_and iter \
        iter_mut join keys kill last leading_zeros len lines load lock map map_err map_or map_or_else map_while max max_by max_by_key min \
        min_by min_by_key mul name ne neg next next_back next_power_of_two not nth ok ok_or ok_or_else open or or_else output parse \
        partial_cmp partition peek peekable pop pop_back pop_front position pow product ptr push push_back push_front push_str range read \
        read_exact read_line recv reduce rem remove repeat replace reserve resize retain rev rotate_left round rposition saturating_add \
        saturating_mul saturating_sub scan send set shl shr size_hint skip skip_while sleep sort sort_by sort_by_key spawn splice split \
        split_at split_off split_once sqrt start starts_with status step_by store sub sum swap take take_while then then_some to_le_bytes \
        to_owned to_string to_vec trailing_zeros transpose trim trim_end trim_start truncate try_fold try_for_each try_from try_into \
        try_lock unlock unwrap unwrap_or unwrap_or_default unwrap_or_else unzip update values values_mut wait wait_timeout wake windows with \
        with_capacity wrapping_add wrapping_mul wrapping_sub write write_all write_fmt write_str zip compare_exchange \
        compare_exchange_weak count_ones is_ascii end id args arg current_dir create new line column path file_name parent components \
        subsec_nanos as_nanos as_secs as_secs_f64 as_millis as_micros duration_since ";
    COMMON.split_whitespace().any(|name| name == method)
}
