//! `docs/spec/local-socket.md` against the code.

const PAGE: &str = include_str!("../../../../docs/spec/local-socket.md");
const JOB: &str = include_str!("../job/protocol.rs");
const QUEUE: &str = include_str!("../queue/protocol.rs");

/// The kinds that a file of the protocol has.
fn kinds(source: &str) -> Vec<(&str, &str)> {
    let lines = source.lines().filter_map(|line| line.trim().strip_prefix("pub const "));
    lines.filter_map(|line| line.strip_suffix(';')?.split_once(": u8 = ")).collect()
}

#[test]
fn every_kind_of_frame_is_in_the_page() {
    let all = [kinds(JOB), kinds(QUEUE)].concat();
    assert!(all.len() >= 26, "{all:?}");
    for (name, number) in all {
        let row = format!("{number} `{name}`");
        assert!(PAGE.contains(&row), "docs/spec/local-socket.md does not have {row}");
    }
}

#[test]
fn every_question_is_in_the_page() {
    let (_, questions) = QUEUE.split_once("pub enum Question {").unwrap();
    let (questions, _) = questions.split_once("\n}").unwrap();
    let names = questions.lines().filter_map(|line| {
        let word = line.strip_prefix("    ").filter(|word| word.starts_with(char::is_uppercase))?;
        word.split(|c: char| !c.is_alphanumeric()).next()
    });
    let names: Vec<String> = names.map(|name| name[..1].to_lowercase() + &name[1..]).collect();
    assert!(names.len() >= 22, "{names:?}");
    for name in names {
        let row = format!("`{name}`");
        let found = PAGE.lines().any(|line| line.starts_with('|') && line.contains(&row));
        assert!(found, "docs/spec/local-socket.md does not tell of the question {row}");
    }
}
