use super::*;
use crate::testing::Random;

/// An answer with the question's name compressed, one record per data.
fn reply(id: u16, name: &str, family: Family, flags: u16, records: &[(u16, &[u8])]) -> Vec<u8> {
    let mut bytes = question(id, name, family, Form::default()).unwrap();
    bytes[2..4].copy_from_slice(&(0x8180 | flags).to_be_bytes());
    bytes[6..8].copy_from_slice(&(records.len() as u16).to_be_bytes());
    for (kind, data) in records {
        bytes.extend_from_slice(&[0xc0, 12]);
        bytes.extend_from_slice(&kind.to_be_bytes());
        bytes.extend_from_slice(&[0, 1, 0, 0, 0, 30]);
        bytes.extend_from_slice(&(data.len() as u16).to_be_bytes());
        bytes.extend_from_slice(data);
    }
    bytes
}

#[test]
fn addresses_of_both_families_are_read() {
    let v4 = reply(7, "a.b", Family::V4, 0, &[(TYPE_A, &[10, 0, 0, 1]), (TYPE_A, &[10, 0, 0, 2])]);
    let want = Answer::Addresses(vec!["10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap()]);
    assert_eq!(answer(&v4, 7, "a.b", Family::V4), Ok(want));
    let mut octets = [0; 16];
    octets[0] = 0xfd;
    octets[15] = 5;
    let v6 = reply(7, "a.b", Family::V6, 0, &[(TYPE_AAAA, &octets)]);
    let want = Answer::Addresses(vec!["fd00::5".parse().unwrap()]);
    assert_eq!(answer(&v6, 7, "A.B", Family::V6), Ok(want));
}

#[test]
fn aliases_are_followed_within_the_message() {
    let mut bytes = reply(7, "a.b", Family::V4, 0, &[(TYPE_CNAME, b"\x01c\x01d\x00")]);
    bytes[7] = 2;
    bytes.extend_from_slice(b"\x01c\x01d\x00");
    bytes.extend_from_slice(&[0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 10, 0, 0, 9]);
    let want = Answer::Addresses(vec!["10.0.0.9".parse().unwrap()]);
    assert_eq!(answer(&bytes, 7, "a.b", Family::V4), Ok(want));
}

#[test]
fn records_of_other_names_are_left_out() {
    let mut bytes = reply(7, "a.b", Family::V4, 0, &[]);
    bytes[7] = 1;
    bytes.extend_from_slice(b"\x04evil\x00");
    bytes.extend_from_slice(&[0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 6, 6, 6, 6]);
    assert_eq!(answer(&bytes, 7, "a.b", Family::V4), Ok(Answer::Addresses(vec![])));
}

#[test]
fn verdicts_are_told_apart() {
    let ask = |flags| answer(&reply(7, "a.b", Family::V4, flags, &[]), 7, "a.b", Family::V4);
    assert_eq!(ask(3), Ok(Answer::NoName));
    assert_eq!(ask(2), Ok(Answer::Failed(2)));
    assert_eq!(ask(0x0200), Ok(Answer::Truncated));
    let bytes = reply(7, "a.b", Family::V4, 0, &[]);
    assert_eq!(answer(&bytes, 8, "a.b", Family::V4), Err(DnsError::Unrelated));
    assert_eq!(answer(&bytes, 7, "a.c", Family::V4), Err(DnsError::Unrelated));
    assert_eq!(answer(&bytes, 7, "a.b", Family::V6), Err(DnsError::Unrelated));
}

#[test]
fn whether_a_name_is_there_is_asked_without_asking_for_addresses() {
    let presence = Family::Presence(7);
    let there = reply(7, "a.b", presence, 0, &[]);
    assert_eq!(answer(&there, 7, "a.b", presence), Ok(Answer::Addresses(Vec::new())));
    assert_eq!(answer(&reply(7, "a.b", presence, 3, &[]), 7, "a.b", presence), Ok(Answer::NoName));
    assert_eq!(answer(&there, 7, "a.b", Family::Presence(8)), Err(DnsError::Unrelated));
    let types: std::collections::HashSet<u16> =
        (0..=u8::MAX).map(|number| Family::Presence(number).code()).collect();
    assert_eq!(types.len(), 255);
    assert!(types.iter().all(|code| (65_280..65_535).contains(code)), "{types:?}");
}

#[test]
fn pointers_that_do_not_go_back_are_refused() {
    let mut bytes = reply(7, "a.b", Family::V4, 0, &[]);
    bytes[7] = 1;
    let here = bytes.len() as u8;
    bytes.extend_from_slice(&[0xc0, here, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 10, 0, 0, 1]);
    assert_eq!(answer(&bytes, 7, "a.b", Family::V4), Err(DnsError::Malformed));
}

#[test]
fn names_that_cannot_be_asked_for_are_refused() {
    for name in ["", "a..b", ".a", &"x".repeat(64), &"abc.".repeat(64)] {
        assert_eq!(question(1, name, Family::V4, Form::default()), Err(DnsError::Name), "{name}");
    }
}

#[test]
fn a_million_damaged_messages_do_not_panic() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let good = reply(
        7,
        "worker-0-1.mc.ns.svc",
        Family::V4,
        0,
        &[(TYPE_CNAME, b"\x01c\xc0\x0c"), (TYPE_A, &[10, 0, 0, 1]), (TYPE_A, &[10, 0, 0, 2])],
    );
    let mut read = 0_u32;
    for round in 0..1_000_000_u32 {
        let mut bytes = good.clone();
        if round % 4 == 0 {
            // Noise behind a valid header.
            let length = random.next() as usize % 96;
            bytes.truncate(38);
            bytes.extend((0..length).map(|_| random.next() as u8));
            bytes[7] = random.next() as u8;
        } else {
            for _ in 0..=random.next() % 4 {
                let at = random.next() as usize % bytes.len();
                bytes[at] = random.next() as u8;
            }
            if random.next().is_multiple_of(3) {
                bytes.truncate(random.next() as usize % (bytes.len() + 1));
            }
        }
        if let Ok(Answer::Addresses(found)) = answer(&bytes, 7, "worker-0-1.mc.ns.svc", Family::V4)
        {
            assert!(found.len() <= RECORD_LIMIT);
            read += 1;
        }
    }
    assert!(read > 1000, "only {read} inputs got past the header: the test has lost its teeth");
}

#[test]
fn questions_have_four_forms_that_only_differ_where_caches_look() {
    let put = |turn| question(7, "a.b", Family::V4, Form::of_turn(turn)).unwrap();
    let plain = put(0);
    assert_eq!(plain[..12], [0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    let forms: std::collections::HashSet<Vec<u8>> = (0..8).map(put).collect();
    assert_eq!(forms.len(), 4);
    assert_eq!(put(1)[3], 0x10, "CD");
    let signed = put(2);
    assert_eq!((signed[11], &signed[12..plain.len()]), (1, &plain[12..]));
    // RFC 6891 section 6.1.2, with DO as in RFC 3225.
    assert_eq!(signed[plain.len()..], [0, 0, 41, 4, 208, 0, 0, 0x80, 0, 0, 0]);
}
