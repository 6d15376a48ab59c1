//! Random names: UIDs of objects, and names of clusters that nobody named.

/// A random UUID (RFC 9562 version 4), which is what an object's UID is.
pub fn uid() -> Result<String, getrandom::Error> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes)?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = format!("{:032x}", u128::from_be_bytes(bytes));
    Ok(format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]))
}

/// A name for a cluster that runs `program`: its last path component as far as a DNS label allows,
/// and four random characters: `solver-x7k2`.
pub fn cluster_name(program: &str) -> Result<String, getrandom::Error> {
    const LETTERS: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz234567890";
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes)?;
    let random: String = bytes.iter().map(|b| char::from(LETTERS[usize::from(b % 32)])).collect();
    Ok(format!("{}-{random}", label(program)))
}

/// A DNS label of at most 24 characters made of a program's name.
fn label(program: &str) -> String {
    let base = program.rsplit('/').next().unwrap_or_default();
    let base = base.split_once('.').map_or(base, |(stem, _)| stem).to_ascii_lowercase();
    let mut label = String::new();
    for c in base.chars() {
        match c {
            'a'..='z' => label.push(c),
            '0'..='9' if !label.is_empty() => label.push(c),
            _ if !label.is_empty() && !label.ends_with('-') => label.push('-'),
            _ => {}
        }
        if label.len() == 24 {
            break;
        }
    }
    let label = label.trim_end_matches('-');
    if label.is_empty() { "run".to_owned() } else { label.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_have_the_form_of_version_4() {
        let uid = uid().unwrap();
        assert_eq!(uid.len(), 36);
        assert_eq!(&uid[14..15], "4");
    }

    #[test]
    fn names_come_from_programs_and_are_labels() {
        for (program, expected) in [
            ("./solver", "solver"),
            ("/usr/bin/Python3.11", "python3"),
            ("my_app.sh", "my-app"),
            ("7zip", "zip"),
            ("___", "run"),
            ("", "run"),
            ("a-name-that-is-longer-than-any-label-should-be", "a-name-that-is-longer-th"),
        ] {
            assert_eq!(label(program), expected, "{program}");
        }
        assert!(cluster_name("true").unwrap().starts_with("true-"));
    }
}
