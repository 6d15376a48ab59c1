use super::*;
use crate::event::{Event, Submission};
use crate::jobspec::Jobspec;
use crate::time::Time;
use std::sync::Arc;

fn submit(id: u64) -> Entry {
    let spec = Arc::new(Jobspec::command("line\nbreak", &["echo", "größer", "a b"]));
    let submission = Submission { user: 1000, element: None, cc: None, spec };
    Entry { time: Time(7), job: Some(JobId(id)), event: Event::Submit(Arc::new(submission)) }
}

fn log() -> (Vec<Entry>, Vec<u8>) {
    let entries = vec![
        submit(1),
        Entry { time: Time(8), job: Some(JobId(1)), event: Event::Depend {} },
        Entry { time: Time(9), job: None, event: Event::Restart {} },
    ];
    let mut bytes = Vec::new();
    for entry in &entries {
        encode(entry, &mut bytes);
    }
    (entries, bytes)
}

/// The format is a promise: logs outlive agents.
#[test]
fn a_line_is_as_the_specification_says() {
    let (_, bytes) = log();
    let text = String::from_utf8(bytes).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[1], r#"630282ed {"time":8,"job":1,"event":{"depend":{}}}"#);
    assert_eq!(lines.len(), 3, "line breaks of users do not break lines");
}

#[test]
fn a_log_cut_at_any_byte_gives_the_whole_entries_before_the_cut() {
    let (entries, bytes) = log();
    for cut in 0..=bytes.len() {
        let contents = decode(&bytes[..cut]);
        assert_eq!(contents.entries, entries[..contents.entries.len()], "cut at {cut}");
        assert_eq!(contents.damage, [], "cut at {cut}");
        assert_eq!(contents.end + contents.torn, cut);
        let whole = bytes[..cut].split(|&byte| byte == b'\n').count() - 1;
        assert_eq!(contents.entries.len(), whole);
    }
}

#[test]
fn a_damaged_line_is_set_aside_with_its_job_and_the_others_are_read() {
    let (entries, bytes) = log();
    let first_line = bytes.iter().position(|&byte| byte == b'\n').unwrap();
    for at in 0..first_line {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x01;
        if damaged[at] == b'\n' {
            continue;
        }
        let contents = decode(&damaged);
        // A digit of the sum may change its case and mean the same; nothing else may be taken.
        assert_eq!(
            contents.entries[contents.entries.len() - 2..],
            entries[1..],
            "bit of byte {at}"
        );
        assert_eq!(contents.damage.len(), 1, "bit of byte {at}");
        assert_eq!(contents.damage[0].line, 1);
    }
    let mut damaged = bytes;
    damaged[first_line - 3] = b'#';
    assert_eq!(decode(&damaged).damage[0].job, Some(JobId(1)));
}

#[test]
fn an_entry_of_a_later_version_is_damage_not_silence() {
    let json = r#"{"time":8,"job":4,"event":{"teleport":{}}}"#;
    let line = format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()));
    let contents = decode(line.as_bytes());
    assert_eq!(contents.damage[0].what, "it is not an entry that this version knows");
    assert_eq!(contents.damage[0].job, Some(JobId(4)));
}

/// Lines that are put together by hand are those that serde would write.
#[test]
fn a_short_line_is_what_serde_makes_of_it() {
    let events = [
        Event::Depend {},
        Event::Priority { priority: 0 },
        Event::Priority { priority: u32::MAX },
        Event::Start {},
        Event::Free {},
        Event::Clean {},
        Event::Hold {},
    ];
    for (event, job) in events.iter().zip([0, 9, 10, 99, 100, 7, u64::MAX]) {
        for job in [Some(JobId(job)), None] {
            let entry = Entry { time: Time(job.map_or(0, |id| id.0)), job, event: event.clone() };
            let mut line = Vec::new();
            encode(&entry, &mut line);
            let text = serde_json::to_string(&entry).unwrap();
            assert_eq!(String::from_utf8(line[9..].to_vec()).unwrap(), text + "\n");
            assert_eq!(decode(&line).entries, [entry]);
        }
    }
}
