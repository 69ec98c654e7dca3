//! A policy as it is named on the command line: of the server's, or one that knows the future.

use forebay::policy::{Choice, PolicyError, choose};

use crate::offline::Rule;

/// Names of the policies that know the future.
pub const OFFLINE: &[(&str, Rule)] =
    &[("belady", Rule::Belady), ("opt", Rule::Opt), ("transactional-belady", Rule::Transactional)];

/// A policy as the simulator knows it.
#[derive(Clone, Debug)]
pub enum Contender {
    /// The server has it too.
    Online(Choice),
    /// It knows the future.
    Offline(&'static str, Rule),
}

impl Contender {
    /// Reads `name` or `name:parameter=value,..`.
    pub fn parse(text: &str) -> Result<Contender, PolicyError> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        match OFFLINE.iter().find(|(known, _)| *known == name.trim()) {
            Some(&(name, rule)) if settings.trim().is_empty() => Ok(Contender::Offline(name, rule)),
            Some(&(policy, _)) => {
                let set = settings.split('=').next().unwrap_or_default().trim();
                Err(PolicyError::Parameter { policy, why: format!("no parameter '{set}'; it has none") })
            }
            None => choose(text).map(Contender::Online).map_err(|error| match error {
                PolicyError::Unknown { name, known } => {
                    let offline: Vec<&str> = OFFLINE.iter().map(|(name, _)| *name).collect();
                    PolicyError::Unknown { name, known: format!("{known}, {}", offline.join(", ")) }
                }
                other => other,
            }),
        }
    }

    /// With this seed where its policy has one that is not set.
    pub fn seeded(self, seed: u64) -> Contender {
        let Contender::Online(mut choice) = self else { return self };
        for (parameter, value) in choice.policy.parameters.iter().zip(&mut choice.values) {
            if parameter.name == "seed" && *value == parameter.default {
                *value = (seed % parameter.range.1 as u64) as f64;
            }
        }
        Contender::Online(choice)
    }

    /// Whether it has to be told what comes next.
    pub fn is_offline(&self) -> bool {
        matches!(self, Contender::Offline(..))
    }
}

impl std::fmt::Display for Contender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Contender::Online(choice) => choice.fmt(f),
            Contender::Offline(name, _) => f.write_str(name),
        }
    }
}
