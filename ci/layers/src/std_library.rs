//! What the search for methods knows of the standard library: closures' arguments, and what gives back what was put
//! in.

use crate::types::Ty;

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

/// What a method of the standard library returns, if that may be a type of the crate. `given` are its arguments,
/// for a closure what that returns.
pub(crate) fn returned(receiver: &Ty, method: &str, given: &[Ty]) -> Ty {
    let element = receiver.element();
    match method {
        _ if receiver.is(&["Option", "Result"]) => of_option(receiver, method, given),
        _ if receiver.is(&["Iterator"]) => of_iterator(receiver, method, given),
        "iter" | "iter_mut" | "into_iter" | "drain" => iterator(element),
        "values" | "values_mut" | "into_values" => iterator(receiver.arg(1)),
        "keys" | "into_keys" => iterator(receiver.arg(0)),
        "windows" | "chunks" | "chunks_exact" => iterator(Ty::other("Slice", vec![element])),
        "get" | "take" | "replace" if receiver.is(&["Cell"]) => receiver.arg(0),
        "borrow" | "borrow_mut" if receiver.is(&["RefCell"]) => receiver.arg(0),
        "lock" | "read" | "write" if receiver.is(&["Mutex", "RwLock"]) => Ty::other("Result", vec![receiver.arg(0)]),
        "get" | "get_mut" | "remove" | "insert" if receiver.is(&["BTreeMap", "HashMap"]) => option(receiver.arg(1)),
        "get" | "get_mut" if receiver.is(&["OnceCell", "OnceLock"]) => option(receiver.arg(0)),
        "get_or_init" => receiver.arg(0),
        "clone" | "to_owned" | "as_ref" | "as_mut" | "borrow" if receiver.is(&["Vec", "Slice"]) => receiver.clone(),
        "first" | "last" | "get" | "get_mut" | "first_mut" | "last_mut" | "pop" | "pop_front" | "pop_back"
        | "front" | "back"
            if element != Ty::Unknown =>
        {
            option(element)
        }
        "then" | "then_some" => option(given.first().cloned().unwrap_or(Ty::Unknown)),
        "len" | "is_empty" | "contains" | "to_string" => Ty::plain(),
        _ if receiver.is(&["u8", "u16", "u32", "u64", "usize", "i32", "i64", "bool", "f64", "str", "String"]) => {
            if method.starts_with("checked_") {
                option(receiver.clone())
            } else {
                receiver.clone()
            }
        }
        _ => Ty::Unknown,
    }
}

fn option(ty: Ty) -> Ty {
    Ty::other("Option", vec![ty])
}

fn iterator(ty: Ty) -> Ty {
    Ty::other("Iterator", vec![ty])
}

/// What a method of an iterator returns.
fn of_iterator(receiver: &Ty, method: &str, given: &[Ty]) -> Ty {
    let first = given.first().cloned().unwrap_or(Ty::Unknown);
    let element = receiver.element();
    match method {
        "map" => iterator(first),
        "filter_map" | "map_while" => iterator(first.arg(0)),
        "flat_map" => iterator(first.element()),
        "flatten" => iterator(element.element()),
        "find_map" | "fold" => first,
        "enumerate" => iterator(Ty::Tuple(vec![Ty::plain(), element])),
        "zip" => iterator(Ty::Tuple(vec![element, first.element()])),
        "next" | "next_back" | "peek" | "last" | "nth" | "find" | "max" | "min" | "max_by_key" | "min_by_key"
        | "max_by" | "min_by" | "reduce" => option(element),
        "clone" | "by_ref" | "into_iter" | "filter" | "skip" | "take" | "rev" | "chain" | "step_by" | "inspect"
        | "peekable" | "cloned" | "copied" | "skip_while" | "take_while" | "cycle" => receiver.clone(),
        "collect" => Ty::other("Vec", vec![element]),
        "count" | "any" | "all" | "position" | "sum" | "is_empty" | "contains" | "len" => Ty::plain(),
        _ => Ty::Unknown,
    }
}

/// What a function or a variant of the standard library makes of its first argument, by its path and last name.
pub(crate) fn constructed(path: &[String], name: &str, first: Ty) -> Ty {
    match (name, path) {
        ("Some", _) => option(first),
        ("Ok", _) => Ty::other("Result", vec![first]),
        ("Err", _) => Ty::other("Result", vec![Ty::Unknown, first]),
        ("new" | "from", [.., of, _]) => Ty::other(of, vec![first]),
        ("take" | "replace", [_, _, ..]) => first,
        ("from_fn", [_, _, ..]) => iterator(Ty::Unknown),
        _ => Ty::Unknown,
    }
}

/// What a method of an option or a result returns.
fn of_option(receiver: &Ty, method: &str, given: &[Ty]) -> Ty {
    let Ty::Other(kind, args) = receiver else { return Ty::Unknown };
    let inner = receiver.arg(0);
    let first = given.first().cloned().unwrap_or(Ty::Unknown);
    match method {
        "map" => Ty::Other(kind.clone(), std::iter::once(first).chain(args.iter().skip(1).cloned()).collect()),
        "and_then" | "map_or" | "and" => first,
        "map_or_else" => given.get(1).cloned().unwrap_or(Ty::Unknown),
        "unwrap" | "expect" | "unwrap_or" | "unwrap_or_else" | "unwrap_or_default" | "insert"
        | "get_or_insert_with" | "get_or_insert" => inner,
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
