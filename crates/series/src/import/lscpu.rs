//! The output of `lscpu`.

use super::NamedText;
use doorbell_schema::SchemaError;

/// The processors of the machine, in words: `2x Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz`.
///
/// # Errors
/// If the output has no model.
pub(super) fn processors(file: NamedText<'_>) -> Result<String, SchemaError> {
    let value = |key: &str| {
        let values = file.text.lines().filter_map(|line| line.trim().strip_prefix(key)?.strip_prefix(':'));
        values.map(str::trim).find(|value| !value.is_empty())
    };
    let Some(model) = value("Model name") else {
        return Err(file.error(1, "this is not the output of lscpu: no line begins with Model name"));
    };
    let sockets = value("Socket(s)").and_then(|sockets| sockets.parse::<u32>().ok()).unwrap_or(1);
    Ok(if sockets > 1 { format!("{sockets}x {model}") } else { model.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_counted() {
        let text =
            "Architecture:  x86_64\n  Model name:   AMD EPYC 7763 64-Core Processor\n    Socket(s):  2\n";
        let of = |text| processors(NamedText { name: "c", text });
        assert_eq!(of(text).unwrap(), "2x AMD EPYC 7763 64-Core Processor");
        assert_eq!(of("Model name: A\nSocket(s): 1\n").unwrap(), "A");
        let error = of("Architecture: x86_64\nModel name:\n").unwrap_err().to_string();
        assert_eq!(error, "c:1: this is not the output of lscpu: no line begins with Model name");
    }
}
