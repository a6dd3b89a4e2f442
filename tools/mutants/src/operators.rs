//! What is changed to what: the table of operators.

use syn::{BinOp, GenericArgument, PathArguments, ReturnType, Type};

/// Returns what stands in place of a binary operator.
pub(crate) fn of_binary(operator: &BinOp) -> &'static [&'static str] {
    match operator {
        BinOp::Lt(_) => &["<=", ">="],
        BinOp::Le(_) => &["<", ">"],
        BinOp::Gt(_) => &[">=", "<="],
        BinOp::Ge(_) => &[">", "<"],
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        BinOp::And(_) => &["||"],
        BinOp::Or(_) => &["&&"],
        BinOp::Add(_) => &["-"],
        BinOp::Sub(_) => &["+"],
        BinOp::Mul(_) => &["+"],
        BinOp::Div(_) => &["*"],
        BinOp::Rem(_) => &["/"],
        BinOp::BitAnd(_) => &["|"],
        BinOp::BitOr(_) | BinOp::BitXor(_) => &["&"],
        BinOp::Shl(_) => &[">>"],
        BinOp::Shr(_) => &["<<"],
        BinOp::AddAssign(_) => &["-="],
        BinOp::SubAssign(_) | BinOp::MulAssign(_) => &["+="],
        BinOp::DivAssign(_) | BinOp::RemAssign(_) => &["*="],
        BinOp::BitAndAssign(_) => &["|="],
        BinOp::BitOrAssign(_) | BinOp::BitXorAssign(_) => &["&="],
        BinOp::ShlAssign(_) => &[">>="],
        BinOp::ShrAssign(_) => &["<<="],
        _ => &[],
    }
}

/// Pairs of methods, each of which stands in place of the other.
const METHODS: &[(&str, &str)] = &[
    ("saturating_add", "saturating_sub"),
    ("wrapping_add", "wrapping_sub"),
    ("checked_add", "checked_sub"),
    ("saturating_shl", "saturating_shr"),
    ("wrapping_shl", "wrapping_shr"),
    ("checked_shl", "checked_shr"),
    ("min", "max"),
    ("is_some", "is_none"),
    ("is_ok", "is_err"),
    ("is_some_and", "is_none_or"),
    ("any", "all"),
    ("leading_zeros", "trailing_zeros"),
];

/// Methods in whose place another stands, which does not have this one in its own.
const ONE_WAY: &[(&str, &str)] = &[
    ("saturating_mul", "saturating_add"),
    ("wrapping_mul", "wrapping_add"),
    ("checked_mul", "checked_add"),
    ("checked_div", "checked_mul"),
    ("checked_rem", "checked_div"),
    ("count_ones", "count_zeros"),
    ("take_while", "skip_while"),
    ("take", "skip"),
];

/// Returns the method that stands in place of `name`.
pub(crate) fn of_method(name: &str) -> Option<&'static str> {
    METHODS
        .iter()
        .find_map(|&(one, other)| if name == one { Some(other) } else { (name == other).then_some(one) })
        .or_else(|| ONE_WAY.iter().find_map(|&(from, to)| (name == from).then_some(to)))
}

/// Returns what stands in place of an integer: its neighbours, with its suffix.
pub(crate) fn of_integer(digits: &str, suffix: &str) -> Vec<String> {
    let Ok(value) = digits.parse::<u128>() else { return Vec::new() };
    let below = value.checked_sub(1);
    value.checked_add(1).into_iter().chain(below).map(|number| format!("{number}{suffix}")).collect()
}

/// Returns the values that a function returns early; an empty one for `()`.
pub(crate) fn of_return(output: &ReturnType) -> Vec<String> {
    match output {
        ReturnType::Default => vec![String::new()],
        ReturnType::Type(_, ty) => values(ty),
    }
}

/// Values of a type, told by its name.
fn values(ty: &Type) -> Vec<String> {
    let own = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    match ty {
        Type::Path(path) => {
            let Some(last) = path.path.segments.last() else { return Vec::new() };
            let name = last.ident.to_string();
            match name.as_str() {
                "bool" => own(&["true", "false"]),
                "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => {
                    own(&["0", "1"])
                }
                "Option" => {
                    let mut all = own(&["None"]);
                    all.extend(plain(&last.arguments).iter().map(|value| format!("Some({value})")));
                    all
                }
                "Result" => match inner(&last.arguments) {
                    Some(Type::Tuple(tuple)) if tuple.elems.is_empty() => own(&["Ok(())"]),
                    Some(of) => values(of).iter().map(|value| format!("Ok({value})")).collect(),
                    None => Vec::new(),
                },
                _ => own(&["Default::default()"]),
            }
        }
        Type::Tuple(tuple) if tuple.elems.is_empty() => vec![String::new()],
        Type::Tuple(_) => own(&["Default::default()"]),
        _ => Vec::new(),
    }
}

/// Values of the type between angle brackets if it is a number or a truth.
fn plain(arguments: &PathArguments) -> Vec<String> {
    let values = inner(arguments).map(values).unwrap_or_default();
    values.into_iter().filter(|value| matches!(value.as_str(), "true" | "false" | "0" | "1")).collect()
}

/// First type between angle brackets.
fn inner(arguments: &PathArguments) -> Option<&Type> {
    let PathArguments::AngleBracketed(arguments) = arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::{of_integer, of_method, of_return};

    #[test]
    fn methods_and_numbers_have_neighbours() {
        assert_eq!(of_method("min"), Some("max"));
        assert_eq!(of_method("max"), Some("min"));
        assert_eq!(of_method("checked_rem"), Some("checked_div"));
        assert_eq!(of_method("checked_div"), Some("checked_mul"));
        assert_eq!(of_method("load"), None);
        assert_eq!(of_integer("0", ""), ["1"]);
        assert_eq!(of_integer("8", "u64"), ["9u64", "7u64"]);
    }

    #[test]
    fn values_follow_the_type() {
        for (output, expected) in [
            ("", &[""][..]),
            ("-> bool", &["true", "false"]),
            ("-> Option<Frame>", &["None"]),
            ("-> Option<u32>", &["None", "Some(0)", "Some(1)"]),
            ("-> Result<(), Corrupt>", &["Ok(())"]),
            ("-> Result<Option<bool>, E>", &["Ok(None)", "Ok(Some(true))", "Ok(Some(false))"]),
            ("-> FrameCount", &["Default::default()"]),
            ("-> &'a str", &[]),
            ("-> impl Iterator<Item = u8>", &[]),
        ] {
            let parsed = syn::parse_str(output).expect("a return type");
            assert_eq!(of_return(&parsed), expected, "{output}");
        }
    }
}
