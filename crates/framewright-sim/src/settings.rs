//! Options of workloads: `key=value`, each with a default, a range and a line of explanation.
//!
//! A number's explanation names its unit; switches are `on` or `off`. An error says what would be right.

use std::ops::RangeInclusive;

/// A text that is no workload.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages show what the fields hold")]
pub enum SpecError {
    /// There is no such workload.
    #[error("there is no workload `{name}`; there are {}", .names.join(", "))]
    Name { name: String, names: Vec<&'static str> },
    /// The workload has no such option.
    #[error("{workload} has no option `{key}`; {}", list(.keys))]
    Key { workload: &'static str, key: String, keys: Vec<&'static str> },
    /// An option was given twice.
    #[error("{workload} is given `{key}` twice")]
    Twice { workload: &'static str, key: String },
    /// A part is not of the form `key=value`.
    #[error("`{part}` is not of the form `option=value`, as in `{workload}:{example}`")]
    Form { workload: &'static str, part: String, example: String },
    /// An option cannot have this value.
    #[error("{workload}: {key} is {form}, not `{value}`")]
    Value { workload: &'static str, key: &'static str, value: String, form: String },
    /// A list of operations cannot be played.
    #[error("{path}: {reason}")]
    Ops { path: String, reason: String },
}

fn list(keys: &[&str]) -> String {
    if keys.is_empty() { "it has none".to_owned() } else { format!("it has {}", keys.join(", ")) }
}

/// A value that an option can have.
pub(crate) trait Value: Copy + PartialEq {
    /// Returns the allowed values in words.
    fn form(range: &RangeInclusive<u32>) -> String;
    /// Reads one; none if it is wrong.
    fn read(text: &str, range: &RangeInclusive<u32>) -> Option<Self>;
    /// As it is written.
    fn show(self) -> String;
}

impl Value for u32 {
    fn form(range: &RangeInclusive<u32>) -> String {
        format!("a number from {} to {}", range.start(), range.end())
    }

    fn read(text: &str, range: &RangeInclusive<u32>) -> Option<u32> {
        // `parse` alone would take a sign.
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number| is_number && range.contains(number))
    }

    fn show(self) -> String {
        self.to_string()
    }
}

/// One of a few values that have names.
pub(crate) trait Choice: Copy + PartialEq + 'static {
    /// All names; the first of a value is the one it is shown by.
    const NAMES: &'static [(&'static str, Self)];
}

impl<T: Choice> Value for T {
    fn form(_: &RangeInclusive<u32>) -> String {
        let names: Vec<String> = T::NAMES.iter().map(|(name, _)| format!("`{name}`")).collect();
        match names.split_last() {
            Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
            _ => names.concat(),
        }
    }

    fn read(text: &str, _: &RangeInclusive<u32>) -> Option<T> {
        T::NAMES.iter().find(|(name, _)| *name == text).map(|(_, value)| *value)
    }

    fn show(self) -> String {
        T::NAMES.iter().find(|(_, value)| *value == self).map(|(name, _)| (*name).to_owned()).unwrap_or_default()
    }
}

impl Choice for bool {
    const NAMES: &'static [(&'static str, bool)] = &[("on", true), ("off", false)];
}

/// An option as it is shown to users.
pub(crate) struct Setting {
    pub(crate) key: &'static str,
    pub(crate) value: String,
    pub(crate) is_default: bool,
    pub(crate) about: &'static str,
}

/// All options of a workload.
pub(crate) trait Configurable: Default {
    /// Sets one option; returns the allowed values if the value is none, and `None` if the option is unknown.
    fn set(&mut self, key: &str, value: &str) -> Option<Result<(), (&'static str, String)>>;
    /// Returns each option, in the order of its description.
    fn each(&self) -> Vec<Setting>;
}

/// A struct of options: `key: type = default, range, "explanation";`.
macro_rules! settings {
    ($(#[$meta:meta])* $Name:ident { $( $key:ident: $Kind:ty = $default:expr, $range:expr, $about:literal; )* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $Name { $( #[doc = $about] pub $key: $Kind, )* }

        impl Default for $Name {
            fn default() -> $Name {
                $Name { $( $key: $default, )* }
            }
        }

        impl $crate::settings::Configurable for $Name {
            fn set(&mut self, key: &str, value: &str) -> Option<Result<(), (&'static str, String)>> {
                use $crate::settings::Value;
                match key {
                    $( stringify!($key) => {
                        let wrong = || (stringify!($key), <$Kind as Value>::form(&$range));
                        Some(<$Kind as Value>::read(value, &$range).map(|value| self.$key = value).ok_or_else(wrong))
                    } )*
                    _ => None,
                }
            }

            fn each(&self) -> Vec<$crate::settings::Setting> {
                use $crate::settings::{Setting, Value};
                vec![ $( Setting {
                    key: stringify!($key),
                    value: Value::show(self.$key),
                    is_default: self.$key == $default,
                    about: $about,
                } ),* ]
            }
        }
    };
}
pub(crate) use settings;

/// Sets options from a list such as `pages=4096,zero=off`.
pub(crate) fn read_all<S: Configurable>(workload: &'static str, text: &str) -> Result<S, SpecError> {
    let mut settings = S::default();
    let mut seen: Vec<&str> = Vec::new();
    for part in text.split(',') {
        let Some((key, value)) = part.split_once('=') else {
            let example = S::default().each().first().map_or(String::new(), |s| format!("{}={}", s.key, s.value));
            return Err(SpecError::Form { workload, part: part.to_owned(), example });
        };
        let (key, value) = (key.trim(), value.trim());
        match settings.set(key, value) {
            None => {
                let keys = settings.each().iter().map(|setting| setting.key).collect();
                return Err(SpecError::Key { workload, key: key.to_owned(), keys });
            }
            Some(Err((key, form))) => {
                return Err(SpecError::Value { workload, key, value: value.to_owned(), form });
            }
            Some(Ok(())) if seen.contains(&key) => return Err(SpecError::Twice { workload, key: key.to_owned() }),
            Some(Ok(())) => seen.push(key),
        }
    }
    Ok(settings)
}
