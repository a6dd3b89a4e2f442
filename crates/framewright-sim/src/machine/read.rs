//! Reads a machine's file; an error names the wrong key and the reason.

use toml::{Table, Value};

use super::built_in::MOST_CPUS;
use super::error::MachineError;
use super::origin::{Basis, Unit};
use super::schema::{ENTRIES, Entry, Need, NumberKind, PUBLISHED};
use super::spec::{Parameter, Spec};

/// A key and what is wrong with it.
type BadEntry = (String, String);

/// Reads a machine.
pub(super) fn spec(file: &str, text: &str) -> Result<Spec, MachineError> {
    let table: Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| 1 + text[..span.start.min(text.len())].matches('\n').count());
        MachineError::Toml { file: file.to_owned(), what: format!("line {line}: {}", error.message()) }
    })?;
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    let name = name.strip_suffix(".toml").unwrap_or(name);
    read(name, &table).map_err(|(key, what)| MachineError::Entry { file: file.to_owned(), key, what })
}

fn read(name: &str, table: &Table) -> Result<Spec, BadEntry> {
    let title = match table.get("title").map(Value::as_str) {
        Some(Some(title)) if !title.trim().is_empty() => title.to_owned(),
        Some(_) => return Err(("title".to_owned(), "is no text that says what the machine is".to_owned())),
        None => return Err(("title".to_owned(), "is missing".to_owned())),
    };
    known_keys(table, "")?;
    let mut numbers = Vec::new();
    for entry in ENTRIES.iter() {
        match (find(table, &entry.path), entry.need) {
            (Some(value), _) => numbers.extend(numbers_of(entry, value)?),
            (None, Need::Always) => return Err((entry.path.clone(), "is missing".to_owned())),
            (None, _) => {}
        }
    }
    let (published, parameters) =
        numbers.into_iter().partition(|number: &Parameter| number.path.starts_with(PUBLISHED));
    let spec = Spec { name: name.to_owned(), title, parameters, published };
    is_machine(&spec, table)?;
    Ok(spec)
}

/// Checks that every key has a meaning.
fn known_keys(table: &Table, prefix: &str) -> Result<(), BadEntry> {
    for (key, value) in table {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        if path == "title" || ENTRIES.iter().any(|entry| entry.path == path) {
            continue;
        }
        let below = format!("{path}.");
        if !ENTRIES.iter().any(|entry| entry.path.starts_with(&below)) {
            let known = siblings(prefix).join(", ");
            return Err((path, format!("is unknown; known here are {known}")));
        }
        match value.as_table() {
            Some(table) => known_keys(table, &path)?,
            None => return Err((path, "is no table".to_owned())),
        }
    }
    Ok(())
}

/// Returns the keys that a table may hold.
fn siblings(prefix: &str) -> Vec<&'static str> {
    let mut keys = if prefix.is_empty() { vec!["title"] } else { Vec::new() };
    for entry in ENTRIES.iter() {
        let rest = if prefix.is_empty() {
            Some(entry.path.as_str())
        } else {
            entry.path.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('.'))
        };
        let key = rest.and_then(|rest| rest.split('.').next());
        keys.extend(key.filter(|key| !keys.contains(key)));
    }
    keys
}

fn find<'a>(table: &'a Table, path: &str) -> Option<&'a Value> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let value = table.get(first)?;
    match rest {
        Some(rest) => find(value.as_table()?, rest),
        None => Some(value),
    }
}

/// Returns the numbers of an entry: one, or one for each point of a curve.
fn numbers_of(entry: &Entry, value: &Value) -> Result<Vec<Parameter>, BadEntry> {
    let Some(over) = entry.over else {
        let path = entry.path.clone();
        let ([number], basis) = measured(value, [entry.kind]).map_err(|what| (path.clone(), what))?;
        return Ok(vec![Parameter { path, value: number.0, unit: number.1, at: None, basis }]);
    };
    let points = value.as_array().filter(|points| !points.is_empty());
    let points = points.ok_or_else(|| (entry.path.clone(), "is no list of points".to_owned()))?;
    let mut numbers: Vec<Parameter> = Vec::new();
    for (index, point) in points.iter().enumerate() {
        let path = format!("{}.{index}", entry.path);
        let ([at, number], basis) = measured(point, [over, entry.kind]).map_err(|what| (path.clone(), what))?;
        let is_above = |last: &Parameter| last.at.is_some_and(|last_at| last_at.0 < at.0) && last.value <= number.0;
        if !numbers.last().is_none_or(is_above) {
            return Err((path, "is not above the point before it: a curve ascends".to_owned()));
        }
        numbers.push(Parameter { path, value: number.0, unit: number.1, at: Some(at), basis });
    }
    Ok(numbers)
}

/// Reads numbers of these kinds, each under the key of its unit, and their common basis.
fn measured<const N: usize>(value: &Value, kinds: [NumberKind; N]) -> Result<([(f64, Unit); N], Basis), String> {
    let table = value.as_table().ok_or("is no table of a number, under the key of its unit, and its origin")?;
    let mut numbers: [Option<(f64, Unit)>; N] = [None; N];
    let mut basis = None;
    for (key, value) in table {
        if Basis::KEYS.contains(&key.as_str()) {
            let text = value.as_str().ok_or_else(|| format!("`{key}` is no text"))?;
            if basis.replace(Basis::parse(key, text)?).is_some() {
                return Err(format!("has more than one of {}", Basis::KEYS.join(", ")));
            }
            continue;
        }
        let unit = Unit::of(key);
        let fits = |kind: &NumberKind| kind.units().iter().any(|(allowed, ..)| Some(*allowed) == unit);
        let (Some(unit), Some(place)) = (unit, kinds.iter().position(fits)) else {
            let wanted: Vec<_> = kinds.iter().map(|kind| wanted(*kind)).collect();
            let wrong = if unit.is_some() { "is the wrong unit" } else { "is unknown" };
            return Err(format!(
                "`{key}` {wrong}; wanted are {} and one of {}",
                wanted.join(", "),
                Basis::KEYS.join(", ")
            ));
        };
        if numbers[place].replace((number(kinds[place], unit, value)?, unit)).is_some() {
            return Err("has the same number twice, in two units".to_owned());
        }
    }
    let basis = basis.ok_or_else(|| format!("has none of {}: say where it comes from", Basis::KEYS.join(", ")))?;
    let mut found = [(0.0, Unit::Count); N];
    for ((found, number), kind) in found.iter_mut().zip(numbers).zip(kinds) {
        *found = number.ok_or_else(|| format!("has no number; wanted is {}", wanted(kind)))?;
    }
    Ok((found, basis))
}

fn wanted(kind: NumberKind) -> String {
    kind.units().iter().map(|(unit, ..)| unit.key()).collect::<Vec<_>>().join(" or ")
}

fn number(kind: NumberKind, unit: Unit, value: &Value) -> Result<f64, String> {
    let key = unit.key();
    let number = match value {
        Value::Integer(number) => *number as f64,
        Value::Float(number) => *number,
        _ => return Err(format!("`{key}` is no number")),
    };
    let range = kind.units().iter().find(|(allowed, ..)| *allowed == unit);
    let (low, high) = range.map_or((0.0, 0.0), |(_, low, high)| (*low, *high));
    if !(low..=high).contains(&number) {
        return Err(format!("`{key}` is {number}, which does not lie between {low} and {high}"));
    }
    if kind.is_whole() && number.fract() != 0.0 {
        return Err(format!("`{key}` is {number}, which is no whole number"));
    }
    Ok(number)
}

/// Checks that the numbers, each valid by itself, make a machine together.
fn is_machine(spec: &Spec, table: &Table) -> Result<(), BadEntry> {
    let count = |path: &str| spec.parameter(path).map_or(0.0, |parameter| parameter.value);
    let sockets = count("topology.sockets");
    let cpus = sockets * count("topology.cores") * count("topology.threads");
    if cpus > MOST_CPUS as f64 {
        return Err(("topology".to_owned(), format!("makes {cpus} CPUs; at most {MOST_CPUS} can be simulated")));
    }
    let nodes = spec.parameter("topology.nodes").map_or(1.0, |nodes| nodes.value);
    if count("topology.cores") % nodes != 0.0 {
        let what = format!("is {nodes}, which does not divide the {} cores of a socket", count("topology.cores"));
        return Err(("topology.nodes".to_owned(), what));
    }
    for entry in ENTRIES.iter() {
        let is_given = find(table, &entry.path).is_some();
        let wrong = match entry.need {
            Need::Sockets if sockets > 1.0 && !is_given => "is missing, and there is more than one socket",
            Need::Nodes if nodes > 1.0 && !is_given => "is missing, and a socket has more than one node",
            Need::Sockets | Need::PublishedSockets if sockets == 1.0 && is_given => {
                "means nothing: there is one socket"
            }
            Need::Nodes | Need::PublishedNodes if nodes == 1.0 && is_given => "means nothing: a socket is one node",
            _ => continue,
        };
        return Err((entry.path.clone(), wrong.to_owned()));
    }
    let model = spec.model();
    let (latency, capacity) = (model.latency, model.capacity);
    let levels = [("l1", latency.l1), ("l2", latency.l2), ("llc", latency.llc), ("dram", latency.dram)];
    ascends("latency", "is shorter than", &levels)?;
    let levels = [("l1", capacity.l1), ("l2", capacity.l2), ("llc", capacity.llc)];
    ascends("capacity", "is smaller than", &levels.map(|(name, lines)| (name, lines.into())))
}

/// Checks that no level has less than the one before it.
fn ascends(section: &str, is_less: &str, levels: &[(&str, u64)]) -> Result<(), BadEntry> {
    for pair in levels.windows(2) {
        if let [(nearer, near), (farther, far)] = pair
            && near > far
        {
            return Err((format!("{section}.{farther}"), format!("{is_less} {section}.{nearer}")));
        }
    }
    Ok(())
}
