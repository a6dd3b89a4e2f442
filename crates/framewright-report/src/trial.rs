//! The request of a report on our allocator, in the rebuilt state.

use framewright::Mechanisms;
use framewright_ops::{Outcome, Session, with_session};
use serde::Serialize;

use crate::decision::{Case, Query};
use crate::memory::Memory;
use crate::rebuild::{End, Rebuilt, rebuild};

/// What came of the request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Served {
    /// It was served.
    Yes {
        /// The zone.
        zone: String,
    },
    /// It was not.
    No {
        /// Why, in the allocator's words.
        why: String,
    },
    /// The state cannot be rebuilt.
    Untried {
        /// Why.
        why: String,
    },
}

impl Served {
    fn in_words(&self) -> String {
        match self {
            Served::Yes { zone } => format!("served from zone {zone}"),
            Served::No { why } => format!("not served: {}", why.strip_prefix("out of memory: ").unwrap_or(why)),
            Served::Untried { why } => format!("not tried: {why}"),
        }
    }
}

/// The request on our allocator, in the state of the report.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Trial {
    /// The mechanisms, as they were named.
    pub mechanisms: String,
    /// What came of it if everything unknown is in the request's favour.
    pub best: Served,
    /// What came of it if everything unknown is against it.
    pub worst: Served,
}

impl Trial {
    /// Returns both ends in words; once if they agree.
    pub fn in_words(&self) -> String {
        let (best, worst) = (self.best.in_words(), self.worst.in_words());
        if best == worst { best } else { format!("at best {best}; at worst {worst}") }
    }
}

/// Makes the request under `mechanisms`, called `name`, at both ends of what the report does not say.
///
/// The rebuilt machine reclaims nothing and moves nothing, because the report does not say what could be.
pub fn try_again(memory: &Memory, query: &Query, case: &Case, name: &str, mechanisms: Mechanisms) -> Trial {
    let at = |end| match rebuild(memory, Some((query, case)), mechanisms, end) {
        Ok(rebuilt) => play(&rebuilt),
        Err(why) => Served::Untried { why },
    };
    Trial { mechanisms: name.to_owned(), best: at(End::Best), worst: at(End::Worst) }
}

fn play(rebuilt: &Rebuilt) -> Served {
    let untried = |why: String| Served::Untried { why };
    let scenario = &rebuilt.scenario;
    let carry_out = |session: &Session<'_>| scenario.steps.iter().map(|step| session.perform(&step.op)).collect();
    let outcomes: Vec<Outcome> = match with_session(&scenario.shape, carry_out) {
        Ok(outcomes) => outcomes,
        Err(wrong) => return untried(wrong),
    };
    let Some((last, setup)) = outcomes.split_last() else { return untried("there is nothing to do".to_owned()) };
    if let Some(failed) = setup.iter().find(|outcome| !outcome.is_served()) {
        return untried(format!("the state was not rebuilt: {failed}"));
    }
    match *last {
        Outcome::Block(pfn) => {
            let zone = rebuilt.zones.iter().find(|(_, range)| range.contains(pfn));
            Served::Yes { zone: zone.map_or_else(|| "unknown".to_owned(), |(name, _)| name.clone()) }
        }
        other => Served::No { why: other.to_string() },
    }
}
