//! The swept option and its values, in the notation of `--over`.

use crate::asked;
use doorbell_schema::{BadNumber, Field, FieldKind, NumberUnit, Value};

/// Largest number of values of an option.
const MOST: usize = 10_000;

/// A swept option and its values, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Over {
    pub(crate) field: &'static Field,
    pub(crate) values: Vec<Value>,
}

impl Over {
    /// Reads `size=16,64,256`, `size=64..1024+64` (steps) or `qps=1..64*2` (powers), or several of these
    /// separated by commas. A range begins with its first number, and no value exceeds its second number.
    ///
    /// # Errors
    /// One sentence if the text has another form, workloads have no such option, or the option has no such
    /// value.
    pub fn parse(text: &str) -> Result<Over, String> {
        let wrong = || {
            format!(
                "`{text}` is not an option to sweep over: write an option and its values, such as \
                 {EXAMPLES}"
            )
        };
        let (name, values) = text.split_once('=').ok_or_else(wrong)?;
        let field = asked::option(name.trim())?;
        if field.key == "mix" {
            return Err("mix cannot be swept over, because commas separate both its items and values: \
                 compare mixes with `doorbell compare`"
                .into());
        }
        let mut all: Vec<Value> = Vec::new();
        for part in values.split(',').map(str::trim) {
            match Range::parse(field, part)? {
                Some(range) => all.extend(range.values(field)?),
                None => all.push(asked::canonical(field, field.parse(part)?)),
            }
            if all.len() > MOST {
                return Err(too_many(field));
            }
        }
        for (at, value) in all.iter().enumerate() {
            if all[..at].contains(value) {
                return Err(format!("{} has {} twice", field.key, plain(value)));
            }
        }
        Ok(Over { field, values: all })
    }

    /// Reads one or two swept options, as given to `--over` and to `over` in files. Each text holds one
    /// option, or several separated by blanks.
    ///
    /// # Errors
    /// As for [`Over::parse`], and if the texts have no option, more than two options, or one option twice.
    pub fn all(texts: &[String]) -> Result<Vec<Over>, String> {
        let words = texts.iter().flat_map(|text| text.split_whitespace());
        let all: Vec<Over> = words.map(Over::parse).collect::<Result<_, _>>()?;
        match &all[..] {
            [] => Err(format!("there is nothing to sweep over: give --over, such as {EXAMPLES}")),
            [one, other] if one.field.key == other.field.key => {
                Err(format!("{} is swept over twice: put all of its values into one --over", one.field.key))
            }
            [_] | [_, _] => Ok(all),
            _ => Err(format!("{} options are too many to sweep over: give one or two", all.len())),
        }
    }

    /// Key of the option.
    pub fn key(&self) -> &'static str {
        self.field.key
    }
}

const EXAMPLES: &str = "size=16,64,256, size=64..1024+64 or qps=1..64*2";

fn too_many(field: &Field) -> String {
    format!("{} has more than {MOST} values to sweep over", field.key)
}

/// The step from one number of a range to the next.
#[derive(Clone, Copy)]
enum Step {
    Plus(u64),
    Times(u64),
}

struct Range {
    from: u64,
    to: u64,
    step: Step,
}

impl Range {
    /// Reads a range; `None` if the text is not a range.
    fn parse(field: &'static Field, text: &str) -> Result<Option<Range>, String> {
        let (Some((from, rest)), FieldKind::Number { unit, .. }) = (text.split_once(".."), field.kind) else {
            return Ok(None);
        };
        let number = |text: &str| match field.parse(text)? {
            Value::Number(number) => Ok::<u64, String>(number),
            _ => unreachable!("the field's values are numbers"),
        };
        let (to, step) = match rest.split_once(['*', '+']) {
            None => (rest, Step::Plus(1)),
            Some((to, by)) if rest[to.len()..].starts_with('*') => {
                // A factor is a number without the field's unit.
                (to, Step::Times(amount(field, NumberUnit::Count, text, by, 2)?))
            }
            Some((to, by)) => (to, Step::Plus(amount(field, unit, text, by, 1)?)),
        };
        let range = Range { from: number(from)?, to: number(to)?, step };
        if range.from > range.to {
            return Err(format!("{}: `{text}` goes down, but ranges go up", field.key));
        }
        if range.from == 0 && matches!(range.step, Step::Times(_)) {
            return Err(format!("{}: `{text}` multiplies 0, which stays 0: begin with 1", field.key));
        }
        Ok(Some(range))
    }

    fn values(&self, field: &Field) -> Result<Vec<Value>, String> {
        let next = |n: &u64| match self.step {
            Step::Plus(by) => n.checked_add(by),
            Step::Times(by) => n.checked_mul(by),
        };
        let numbers = std::iter::successors(Some(self.from), next).take_while(|n| *n <= self.to);
        let values: Vec<Value> = numbers.take(MOST + 1).map(Value::Number).collect();
        if values.len() > MOST { Err(too_many(field)) } else { Ok(values) }
    }
}

/// Reads the increment or the factor of a range.
fn amount(field: &Field, unit: NumberUnit, text: &str, by: &str, least: u64) -> Result<u64, String> {
    let read = unit.read(by);
    if let Some(readings) = read.as_ref().err().and_then(BadNumber::readings) {
        return Err(format!("{}: `{text}` grows by `{by}`, which {readings}", field.key));
    }
    let amount = read.ok().filter(|amount| *amount >= least);
    amount.ok_or_else(|| {
        format!(
            "{}: `{text}` grows by `{by}`, but must grow by a whole number of at least {least}",
            field.key
        )
    })
}

/// A value as users write it.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Result<String, String> {
        let over = Over::parse(text)?;
        Ok(over.values.iter().map(plain).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn lists_steps_and_powers() {
        for (text, wanted) in [
            ("size=16,64,256", "16 64 256"),
            ("size=64..256+64", "64 128 192 256"),
            ("size=60..200+64", "60 124 188"),
            ("qps=1..64*2", "1 2 4 8 16 32 64"),
            ("qps=3..5", "3 4 5"),
            ("size=1KiB..4KiB*2", "1024 2048 4096"),
            ("size=1k..4k*2", "1024 2048 4096"),
            ("size=1k..3k+1k", "1024 2048 3072"),
            ("rate=1M,2e6,3_000_000", "1000000 2000000 3000000"),
            ("rate=1M..3M+1M", "1000000 2000000 3000000"),
            ("verb=READ,cas", "read compare-swap"),
            ("profile=CX3,cib,./CX3.toml", "cx3 cib ./CX3.toml"),
            ("host=E5-2450,e7520", "e5-2450 e7520"),
            ("pcie=gen3x16,gen4x16", "gen3x16 gen4x16"),
            ("link=100ib,200roce", "100ib 200roce"),
            ("size=0,4..16*2,100", "0 4 8 16 100"),
            ("verb=read,write", "read write"),
            ("inline=true,false", "true false"),
            ("signal-every=1,2", "1 2"),
            ("--clients=1,2", "1 2"),
            ("compute=1us,10us", "1us 10us"),
        ] {
            assert_eq!(values(text).as_deref(), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn what_is_no_sweep_is_refused_in_a_sentence() {
        for (text, wanted) in [
            ("size", "`size` is not an option to sweep over"),
            ("sise=1", "`sise` is not an option"),
            ("size=", "size is empty"),
            ("size=a", "size is a, but must be"),
            ("size=4..2", "size: `4..2` goes down"),
            ("size=1..9*1", "size: `1..9*1` grows by `1`, but must grow by a whole number of at least 2"),
            ("size=1..9+0", "size: `1..9+0` grows by `0`, but must grow by a whole number of at least 1"),
            ("size=0..9*2", "size: `0..9*2` multiplies 0"),
            (
                "size=1k..2k+1KB",
                "size: `1k..2k+1KB` grows by `1KB`, which may mean 1000 bytes or 1KiB: write one",
            ),
            (
                "size=64..256*2B",
                "size: `64..256*2B` grows by `2B`, but must grow by a whole number of at least 2",
            ),
            (
                "put-permille=1%..4%*200%",
                "put_permille: `1%..4%*200%` grows by `200%`, but must grow by a whole",
            ),
            ("size=0..99999999", "size has more than 10000 values"),
            ("size=1,2,1..2", "size has 1 twice"),
            ("qps=0", "qps is 0"),
            ("verb=raed", "verb is `raed`, but must be"),
            ("machine=1", "machine consists of tables"),
        ] {
            let error = values(text).expect_err(text);
            assert!(error.starts_with(wanted), "{text}: {error}");
        }
        let all = |texts: &[&str]| Over::all(&texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>());
        assert_eq!(all(&["size=1 qps=2"]), all(&["size=1", "qps=2"]));
        assert!(all(&["size=1", "size=2"]).unwrap_err().contains("twice"));
        assert!(all(&["size=1", "qps=2", "threads=1"]).unwrap_err().contains("3 options"));
        assert!(all(&[]).unwrap_err().contains("nothing to sweep over"));
    }
}
