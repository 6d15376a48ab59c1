use super::*;
use quorate_queue::{Event, Time};
use std::fs::OpenOptions;

fn entry(job: u64) -> Entry {
    Entry { time: Time(job), job: Some(JobId(job)), event: Event::Hold {} }
}

#[test]
fn what_was_appended_is_there_when_it_is_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path()).unwrap().store;
    store.append(&[entry(1), entry(2)]).unwrap();
    store.append(&[entry(3)]).unwrap();
    assert!(matches!(Store::open(dir.path()), Err(StoreError::InUse { .. })));
    drop(store);
    let opened = Store::open(dir.path()).unwrap();
    assert_eq!(opened.entries, [entry(1), entry(2), entry(3)]);
    assert!(opened.notes.is_empty());
}

#[test]
fn a_torn_end_is_cut_off_before_anything_is_appended() {
    let dir = tempfile::tempdir().unwrap();
    Store::open(dir.path()).unwrap().store.append(&[entry(1), entry(2)]).unwrap();
    let whole = fs::read(dir.path().join(LOG)).unwrap();
    let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for cut in first..whole.len() {
        fs::write(dir.path().join(LOG), &whole[..cut]).unwrap();
        let mut opened = Store::open(dir.path()).unwrap();
        assert_eq!(opened.entries, [entry(1)], "cut at {cut}");
        assert_eq!(opened.notes.len(), usize::from(cut > first));
        opened.store.append(&[entry(3)]).unwrap();
        drop(opened);
        assert_eq!(Store::open(dir.path()).unwrap().entries, [entry(1), entry(3)]);
    }
}

#[test]
fn damaged_lines_are_set_aside_with_the_place_they_stood_at() {
    let dir = tempfile::tempdir().unwrap();
    Store::open(dir.path()).unwrap().store.append(&[entry(1), entry(2), entry(3)]).unwrap();
    let path = dir.path().join(LOG);
    let text = fs::read_to_string(&path).unwrap().replacen("\"time\":2", "\"time\":9", 1);
    fs::write(&path, text).unwrap();
    let opened = Store::open(dir.path()).unwrap();
    assert_eq!(opened.entries, [entry(1), entry(3)]);
    assert_eq!(opened.damaged, [JobId(2)]);
    assert!(opened.notes[0].contains("1 damaged lines"), "{:?}", opened.notes);
    let aside = fs::read_to_string(dir.path().join(DAMAGED)).unwrap();
    assert!(aside.starts_with("line 2: its check sum is another\n"), "{aside}");
}

#[test]
fn a_compacted_log_takes_more() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path()).unwrap().store;
    store.append(&[entry(1), entry(2), entry(3)]).unwrap();
    store.restart([entry(2)]).unwrap();
    store.append(&[entry(4)]).unwrap();
    drop(store);
    assert_eq!(Store::open(dir.path()).unwrap().entries, [entry(2), entry(4)]);
}

#[test]
fn a_full_disk_takes_nothing_and_spoils_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path()).unwrap().store;
    store.append(&[entry(1)]).unwrap();
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let file = std::mem::replace(&mut store.file, full);
    let error = store.append(&[entry(2)]).unwrap_err();
    assert!(
        matches!(&error, StoreError::Append { source, .. }
        if source.kind() == io::ErrorKind::StorageFull),
        "{error:?}"
    );
    // Half a line of it may be there.
    (&file).write_all(b"630282ed {\"ti").unwrap();
    store.file = file;
    store.append(&[entry(3)]).unwrap();
    drop(store);
    assert_eq!(Store::open(dir.path()).unwrap().entries, [entry(1), entry(3)]);
}

/// Opens a copy of a directory as it is now, as the next life would after a crash.
fn next_life(dir: &Path) -> Vec<Entry> {
    let copy = tempfile::tempdir().unwrap();
    for file in fs::read_dir(dir).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
    }
    let opened = Store::open(copy.path()).unwrap();
    assert!(opened.damaged.is_empty());
    let names = fs::read_dir(copy.path()).unwrap().map(|file| file.unwrap().file_name());
    assert!(!names.into_iter().any(|name| name.to_string_lossy().contains("draft")), "it is swept");
    opened.entries
}

#[test]
fn a_log_that_is_compacted_while_it_grows_has_all_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path()).unwrap().store;
    store.append(&[entry(1), entry(2), entry(3)]).unwrap();
    let mut draft = store.draft();
    store.append(&[entry(4)]).unwrap();
    draft.write([entry(2)]).unwrap();
    store.note(&[entry(5)]).unwrap();
    draft.follow(store.length()).unwrap();
    store.append(&[entry(6)]).unwrap();
    // A crash before this moment finds the long log.
    assert_eq!(next_life(dir.path()), (1..=6).map(entry).collect::<Vec<_>>());
    store.replace(draft).unwrap();
    let short = [entry(2), entry(4), entry(5), entry(6)];
    assert_eq!(next_life(dir.path()), short);
    store.append(&[entry(7)]).unwrap();
    assert_eq!(next_life(dir.path()), [&short[..], &[entry(7)]].concat());
}

#[test]
fn a_crash_at_any_byte_of_a_compaction_finds_one_log_or_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path()).unwrap().store;
    store.append(&[entry(1), entry(2), entry(3)]).unwrap();
    let mut draft = store.draft();
    store.append(&[entry(4), entry(5)]).unwrap();
    draft.write([entry(2), entry(3)]).unwrap();
    draft.follow(store.length()).unwrap();
    let path = draft.path();
    let whole = fs::read(&path).unwrap();
    for cut in 0..=whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        assert_eq!(next_life(dir.path()), (1..=5).map(entry).collect::<Vec<_>>(), "cut at {cut}");
    }
    store.replace(draft).unwrap();
    store.append(&[entry(6), entry(7)]).unwrap();
    // What is behind the place where it took over was appended as ever.
    let short = [entry(2), entry(3), entry(4), entry(5), entry(6), entry(7)];
    let bytes = fs::read(dir.path().join(LOG)).unwrap();
    assert_eq!(bytes[..whole.len()], whole);
    for cut in whole.len()..=bytes.len() {
        fs::write(dir.path().join(LOG), &bytes[..cut]).unwrap();
        let lines = String::from_utf8_lossy(&bytes[..cut]).matches('\n').count();
        assert_eq!(next_life(dir.path()), short[..lines], "cut at {cut}");
    }
}

#[test]
fn a_draft_that_cannot_be_written_leaves_the_log_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path()).unwrap().store;
    store.append(&[entry(1)]).unwrap();
    let mut draft = store.draft();
    fs::create_dir(draft.path()).unwrap();
    let error = draft.write([entry(1)]).unwrap_err();
    assert!(matches!(error, StoreError::Compact { .. }), "{error:?}");
    drop(draft);
    fs::remove_dir(dir.path().join("events.log.draft")).unwrap();
    // One that was given up leaves nothing.
    let mut draft = store.draft();
    draft.write([entry(9)]).unwrap();
    let path = draft.path();
    assert!(path.exists());
    drop(draft);
    assert!(!path.exists());
    store.append(&[entry(2)]).unwrap();
    assert_eq!(next_life(dir.path()), [entry(1), entry(2)]);
}
