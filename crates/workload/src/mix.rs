//! Mixes: the operations that are posted, and their frequencies.

use crate::Verb;
use doorbell_schema::NumberUnit;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Maximum number of items of a mix.
const MOST_ITEMS: usize = 64;

/// The syntax of mixes.
const EXAMPLES: &str = "write a mix as read:95,write:5 or read/64:50,read/4096:50";

/// An item of a mix: a verb with the payload of its operations, and its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Verb of the operations.
    pub verb: Verb,
    /// Payload in bytes, if the item gives it.
    pub size: Option<u32>,
    /// Relative frequency among the weights of all items.
    pub weight: u32,
}

/// The operations to draw from, written as `read:95,write:5`, or with sizes as `read/64:50,read/4096:50`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mix(Vec<Item>);

impl Mix {
    /// A mix of these items.
    ///
    /// # Panics
    /// If there are no items.
    pub fn of(items: Vec<Item>) -> Mix {
        assert!(!items.is_empty(), "a mix is of something");
        Mix(items)
    }

    /// The items in their written order; at least one.
    pub fn items(&self) -> &[Item] {
        &self.0
    }
}

impl FromStr for Item {
    type Err = String;

    fn from_str(text: &str) -> Result<Item, String> {
        let (what, weight) = text.split_once(':').ok_or_else(|| {
            format!("`{text}` in a mix has no weight; {EXAMPLES}, each item with its weight after a colon")
        })?;
        let (name, size) = match what.split_once('/') {
            Some((name, size)) => (name, Some(bytes(size)?)),
            None => (what, None),
        };
        let verb = Verb::named(name).ok_or_else(|| {
            format!("`{name}` in a mix is not a verb; the verbs are {}", Verb::NAMES.join(", "))
        })?;
        match doorbell_schema::weight(weight, &in_mix(weight), &format!("weight; {EXAMPLES}"))? {
            0 => Err(format!("the weight of `{text}` is 0, but must be at least 1")),
            weight => Ok(Item { verb, size, weight }),
        }
    }
}

fn in_mix(text: &str) -> String {
    format!("`{text}` in a mix")
}

fn bytes(text: &str) -> Result<u32, String> {
    NumberUnit::Bytes.read_part(text, &in_mix(text), &format!("number of bytes; {EXAMPLES}"))
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Mix, String> {
        let items: Vec<Item> = text.split(',').map(|item| item.trim().parse()).collect::<Result<_, _>>()?;
        let weights =
            text.split(',').map(|item| item.split_once(':').map_or("", |(_, weight)| weight.trim()));
        doorbell_schema::check_percentages(&weights.collect::<Vec<_>>())?;
        match items.len() {
            more if more > MOST_ITEMS => {
                Err(format!("a mix has at most {MOST_ITEMS} items, but this mix has {more}"))
            }
            _ => Ok(Mix(items)),
        }
    }
}

impl TryFrom<String> for Mix {
    type Error = String;

    fn try_from(text: String) -> Result<Mix, String> {
        text.parse()
    }
}

impl From<Mix> for String {
    fn from(mix: Mix) -> String {
        mix.to_string()
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, item) in self.0.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            write!(f, "{comma}{item}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.verb.name())?;
        if let Some(size) = self.size {
            write!(f, "/{size}")?;
        }
        write!(f, ":{}", self.weight)
    }
}

#[cfg(test)]
mod tests {
    use crate::{AtomicCounters, Pattern, Resolved, Window, Workload};
    use doorbell_verbs::QpType;

    fn from(toml: &str) -> Result<Resolved, String> {
        let resolve = || {
            let workload = Workload::from_toml("w.toml", toml)?;
            workload.resolve(&workload.load_profiles()?)
        };
        resolve().map_err(|error| error.to_string())
    }

    #[test]
    fn a_mix_is_filled_in() {
        let r = from("mix = \"read:95, write/4096:5\"\nsize = 64").unwrap();
        assert_eq!(
            (r.only_operation(), r.mix().unwrap().to_string()),
            (None, "read/64:95,write/4096:5".into())
        );
        assert_eq!(
            (r.transport, r.pattern, r.window(), r.signal_every),
            (QpType::Rc, Pattern::Inbound, Window::PerThread(16), 1)
        );
        assert_eq!((r.longest(), r.longest_send(), r.longest_inline()), (4096, 0, 0));
        assert_eq!(from("mix = \"READ:95%, write/4k:5%\"\nsize = 64").unwrap().mix(), r.mix());
        let r = from("mix = \"send:1,send/2000:1\"").unwrap();
        let of_sends = (r.transport, r.pattern, r.signal_every, r.inline_up_to());
        assert_eq!(of_sends, (QpType::Ud, Pattern::Outbound, 16, Some(900)));
        let inline: Vec<bool> = r.operations().iter().map(|operation| operation.inline).collect();
        assert_eq!((inline, r.longest_inline()), (vec![true, false], 32));
        let r = from("mix = \"write:1,send:1,fetch-add:1\"\ninline = false").unwrap();
        assert_eq!(
            (r.transport, r.inlines(), r.counters),
            (QpType::Rc, false, Some(AtomicCounters { count: 1, stride: 8 }))
        );
        // Half of the operations have no payload.
        let r = from("mix = \"read:1,send:1\"\nheader_only = true\nsize = 100").unwrap();
        assert_eq!(r.mix().unwrap().to_string(), "read/100:1,send/0:1");
    }

    #[test]
    fn a_mix_that_is_filled_in_is_a_workload_again() {
        for toml in [
            "mix = \"read:95,write:5\"",
            "mix = \"write:95,write/2000:5\"\ninline_up_to = 64",
            "mix = \"write:95,read/2000:5\"\ninline = false",
            "mix = \"send:2,fetch-add:1,read/7:9\"\nlocal_region = 100000",
        ] {
            let r = from(toml).unwrap();
            let json = serde_json::to_value(&r).unwrap();
            let again = Workload::from_json("w", &json.to_string()).unwrap();
            assert_eq!(again.resolve(&again.load_profiles().unwrap()).unwrap(), r, "{toml}");
        }
    }

    #[test]
    fn what_is_no_mix_is_refused_in_one_sentence() {
        for (toml, said) in [
            ("mix = \"\"", "`` in a mix has no weight; write a mix as read:95,write:5"),
            ("mix = \"read:1,\"", "`` in a mix has no weight"),
            ("mix = \"read/4KB:1\"", "`4KB` in a mix may mean 4000 bytes or 4KiB: write one of these"),
            ("mix = \"read:95%,write:5\"", "some weights are percentages: write all of them with %, or none"),
            (
                "mix = \"reed:1\"",
                "`reed` in a mix is not a verb; the verbs are send, write, read, fetch-add, compare-swap",
            ),
            ("mix = \"read:0\"", "the weight of `read:0` is 0, but must be at least 1"),
            ("mix = \"read:-1\"", "`-1` in a mix is not a weight"),
            ("mix = \"read/x:1\"", "`x` in a mix is not a number of bytes"),
            ("mix = \"read:1\"\nverb = \"read\"", "verb is read, but the mix already names the verbs"),
            ("mix = \"read:1,read/32:2\"", "the mix has read/32 twice: add up the weights"),
            ("mix = \"read/8:1\"\nsize = 64", "size is 64, but each item of the mix has a size of its own"),
            ("mix = \"fetch-add:1\"\nsize = 64", "size is 64, but each item of the mix has a size"),
            ("mix = \"fetch-add/16:1,read:1\"", "size is 16, but fetch-and-add works on 8 bytes"),
            ("mix = \"read:1,write:1\"\ntransport = \"uc\"", "UC does not offer READ, use RC"),
            ("mix = \"send:1,send/5000:1\"", "size is 5000, but a UD message is one packet"),
            (
                "mix = \"read:1,write:1\"\nheader_only = true",
                "header-only is for SEND, not for READ and WRITE",
            ),
            (
                "mix = \"send/8:1,write:1\"\nheader_only = true",
                "header-only messages have no payload, but size is 8",
            ),
            (
                "mix = \"read:1,write:1\"\ninline_recv = true",
                "inline-receive is for SEND, not for READ and WRITE",
            ),
            (
                "mix = \"read:1,write:1\"\ncounters = 4",
                "counters are for fetch-and-add and compare-and-swap, not for READ",
            ),
            (
                "mix = \"send:1,write:1\"\nmax_rd_atomic = 4",
                "max_rd_atomic is for READ, fetch-and-add and compare-and-swap, not for SEND and WRITE",
            ),
            ("mix = \"read:1,fetch-add:1\"\ninline = true", "no payload that could be inlined"),
            (
                "mix = \"read:1,write/2000:1\"\ninline = true",
                "no payload of the mix is short enough for the WQE",
            ),
            (
                "mix = \"read:1,write:1\"\ninline = false\ninline_up_to = 64",
                "inline_up_to is 64, but no payload of the mix is inlined",
            ),
            (
                "mix = \"read:1,write:1\"\ninline_up_to = 2000",
                "inline_up_to is 2000, but cib inlines at most 900",
            ),
            (
                "verb = \"write\"\ninline_up_to = 64",
                "inline_up_to is 64, but it applies to a mix only: use \
                 inline",
            ),
            (
                "mix = \"read/8:1,write/3:1\"\nsges = 4",
                "sges is 4, but each takes at least one byte, and size is 3",
            ),
            (
                "mix = \"send:1,fetch-add:1\"\nremote_region = 4096",
                "remote_region is for WRITE and READ, not for SEND and fetch-and-add",
            ),
        ] {
            let error = from(toml).expect_err(toml);
            assert!(error.contains(said) && !error.contains('\n'), "{toml}: {error}");
        }
        let many: Vec<String> = (1..66).map(|size| format!("read/{size}:1")).collect();
        let error = from(&format!("mix = \"{}\"", many.join(","))).unwrap_err();
        assert!(error.ends_with("a mix has at most 64 items, but this mix has 65"), "{error}");
    }
}
