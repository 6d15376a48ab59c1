//! Generic resources: accelerators, the only ones that brokers report.

use super::{ValueError, digits};

/// Accelerators that are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpus {
    /// Their type, which nodes must have as a property.
    pub model: Option<String>,
    /// How many.
    pub count: u32,
}

/// Reads `--gpus` and its kin: `[type:]count`, a count of 1 if there is a type alone. `None` is 0.
pub fn gpus(text: &str) -> Result<Option<Gpus>, ValueError> {
    let wrong = || ValueError::form(text, "a number of GPUs such as 4 or a100:4");
    if text.contains(',') {
        return Err(ValueError::Unsupported {
            text: text.to_owned(),
            why: "GPUs of several types cannot be asked for at once",
            instead: "give one type, or none",
        });
    }
    let (model, count) = match text.rsplit_once(':') {
        Some((model, count)) => (Some(model), digits(count).ok_or_else(wrong)?),
        None => match digits(text) {
            Some(count) => (None, count),
            None => (Some(text), 1),
        },
    };
    let name = |model: &str| {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        model.starts_with(|c: char| c.is_ascii_alphabetic()) && model.bytes().all(legal)
    };
    if model.is_some_and(|model| !name(model)) {
        return Err(wrong());
    }
    let count = u32::try_from(count).map_err(|_| wrong())?;
    Ok((count > 0).then(|| Gpus { model: model.map(str::to_owned), count }))
}

/// Reads `--gres`: `gpu`, `gpu:2`, `gpu:a100:2`, `none`. Other resources are refused.
pub fn gres(text: &str) -> Result<Option<Gpus>, ValueError> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(None);
    }
    let text = text.strip_prefix("gres:").or_else(|| text.strip_prefix("gres/")).unwrap_or(text);
    match text.split_once(':') {
        Some(("gpu", rest)) => gpus(rest),
        None if text == "gpu" => Ok(Some(Gpus { model: None, count: 1 })),
        _ => Err(ValueError::Unsupported {
            text: text.to_owned(),
            why: "gpu is the only generic resource that brokers report",
            instead: "ask for gpu:COUNT, or for a property of nodes with --constraint",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accelerators_with_and_without_a_type() {
        let all =
            |count, model: Option<&str>| Ok(Some(Gpus { model: model.map(str::to_owned), count }));
        assert_eq!(gpus("4"), all(4, None));
        assert_eq!(gpus("a100:4"), all(4, Some("a100")));
        assert_eq!(gpus("a100"), all(1, Some("a100")));
        assert_eq!(gpus("0"), Ok(None));
        assert_eq!(gres("gpu"), all(1, None));
        assert_eq!(gres("gpu:8"), all(8, None));
        assert_eq!(gres("gres:gpu:v100:2"), all(2, Some("v100")));
        assert_eq!(gres("none"), Ok(None));
        for text in ["", "a b:2", ":2", "gpu:a:b", "4294967296", "-1"] {
            assert!(gpus(text).is_err(), "{text}");
        }
        assert!(gres("lustre:1").unwrap_err().to_string().contains("only generic resource"));
        assert!(gres("gpu:2,gpu:3").is_err());
    }
}
