//! Amounts of memory.

use super::{ValueError, digits};

const EXPECTED: &str = "an amount of memory such as 512, 4G or 1T (without a letter: megabytes)";

/// An amount in bytes: a number with K, M, G or T (1024 each); M without a letter. A `B` may follow.
pub fn memory(text: &str) -> Result<u64, ValueError> {
    let wrong = || ValueError::form(text, EXPECTED);
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number = digits(&text[..end]).ok_or_else(wrong)?;
    let shift = match text[end..].to_ascii_uppercase().as_str() {
        "K" | "KB" => 10,
        "" | "M" | "MB" => 20,
        "G" | "GB" => 30,
        "T" | "TB" => 40,
        _ => return Err(wrong()),
    };
    number
        .checked_mul(1 << shift)
        .ok_or(ValueError::Range { text: text.to_owned(), range: "fewer than 2^64 bytes" })
}

/// Bytes as Slurm prints memory: whole megabytes, in the largest unit that divides them.
pub fn memory_text(bytes: u64) -> String {
    let mut number = bytes.div_ceil(1 << 20);
    let mut units = ["M", "G", "T"].into_iter();
    let mut unit = units.next().expect("there are three units");
    for next in units {
        if number == 0 || !number.is_multiple_of(1024) {
            break;
        }
        number /= 1024;
        unit = next;
    }
    format!("{number}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_and_printed_with_its_unit() {
        for (text, bytes, printed) in [
            ("512", 512 << 20, "512M"),
            ("2048K", 2 << 20, "2M"),
            ("4G", 4 << 30, "4G"),
            ("4gb", 4 << 30, "4G"),
            ("1500M", 1500 << 20, "1500M"),
            ("1T", 1 << 40, "1T"),
            ("0", 0, "0M"),
        ] {
            assert_eq!(memory(text), Ok(bytes), "{text}");
            assert_eq!(memory_text(bytes), printed);
        }
        for text in ["", "G", "-1", "1.5G", "4X", "4 G", "99999999999999999999"] {
            assert!(matches!(memory(text), Err(ValueError::Form { .. })), "{text}");
        }
        assert!(matches!(memory("18446744073709551615"), Err(ValueError::Range { .. })));
    }
}
