//! One fixture for each cause, as the API gives its objects, and every sentence as a golden file.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use quorate_api::status::MiniClusterStatus;
use quorate_observe::{Cause, Observed, Obstacle, status, transitions, why};

#[test]
fn every_cause_has_its_sentence() {
    let told = RefCell::new(BTreeSet::new());
    insta::glob!("causes/*.yaml", |path| {
        let seen = crate::seen::read(&std::fs::read_to_string(path).unwrap());
        let why = why(&seen.observed, seen.now);
        told.borrow_mut().insert(why.cause.reason());
        let status = status(&seen.observed, seen.now);
        assert!(!why.message.is_empty());
        assert_eq!(why.message.lines().count(), 1);
        // A cluster in deletion keeps its last status: there is no one to read another.
        if why.cause != Cause::Deleting {
            assert_eq!(status.message.as_deref(), Some(&*why.message));
            assert_eq!(status.reason.as_deref(), Some(why.cause.reason()));
        }
        let mut text =
            format!("reason: {}\n\n{}\n\n", why.cause.reason(), why.render("lammps", seen.now));
        text += &summary(&status);
        for event in transitions(None, &status) {
            let _ = writeln!(text, "event {:?} {}: {}", event.kind, event.reason, event.note);
        }
        insta::assert_snapshot!(text);
    });
    let told = told.into_inner();
    let untold: Vec<_> =
        Cause::ALL.iter().map(|cause| cause.reason()).filter(|word| !told.contains(word)).collect();
    assert!(untold.is_empty(), "no fixture for {untold:?}");
}

/// Each cause has a row with what is seen and what to do.
#[test]
fn the_table_for_people_has_all_causes() {
    let text = include_str!("../../../../docs/troubleshooting.md");
    let mut rows = BTreeSet::new();
    for line in text.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), 3, "{line}");
        assert!(cells.iter().all(|cell| !cell.is_empty()), "{line}");
        rows.extend(cells[0].split(", ").map(|word| word.trim_matches('`')));
    }
    let missing: Vec<_> =
        Cause::ALL.iter().map(|cause| cause.reason()).filter(|word| !rows.contains(word)).collect();
    assert!(missing.is_empty(), "docs/troubleshooting.md has no row for {missing:?}");
    let unknown: Vec<_> = rows.iter().filter(|word| Cause::of_word(word).is_none()).collect();
    assert!(unknown.is_empty(), "no cause has the word of {unknown:?}");
}

#[test]
fn words_lead_back_to_their_causes() {
    let words: BTreeSet<_> = Cause::ALL.iter().map(|cause| cause.reason()).collect();
    assert_eq!(words.len(), Cause::ALL.len(), "two causes have one word");
    for cause in Cause::ALL {
        assert_eq!(Cause::of_word(cause.reason()), Some(cause));
    }
    assert_eq!(Cause::of_word("Signaled").map(Cause::reason), Some("Signaled"));
    assert_eq!(Cause::of_word("Nonsense"), None);
}

#[test]
fn an_image_that_cannot_be_pulled_has_one_sentence_while_the_kubelet_backs_off() {
    let backs_off = include_str!("causes/image-pull.yaml");
    let tries = backs_off
        .replace("ImagePullBackOff", "ErrImagePull")
        .replace("Back-off pulling image \\\"example/lammps\\\": ErrImagePull: ", "");
    assert_ne!(backs_off, tries);
    let said = |text: &str| {
        let seen = crate::seen::read(text);
        why(&seen.observed, seen.now).message
    };
    assert_eq!(said(backs_off), said(&tries));
}

#[test]
fn a_job_that_was_refused_to_an_earlier_attempt_is_not_told_again() {
    let now = include_str!("causes/jobs-refused-in-part.yaml");
    let before = now.replace("10:03:01Z", "09:59:59Z").replace("10:00:03Z", "09:59:58Z");
    let cause = |text: &str| {
        let seen = crate::seen::read(text);
        why(&seen.observed, seen.now).cause
    };
    assert_eq!(cause(now), Cause::QuotaExceeded);
    assert_eq!(cause(&before), Cause::PodsStarting);
}

#[test]
fn a_status_tells_its_obstacle_until_the_object_changes() {
    let seen = crate::seen::read(include_str!("causes/name-taken-by-a-stranger.yaml"));
    let mut cluster = (*seen.observed.cluster).clone();
    assert_eq!(Obstacle::told(&cluster), Some(Obstacle::Unseen));
    let written = status(&seen.observed, seen.now);
    let message = written.message.clone().unwrap();
    cluster.status = Some(written);
    assert_eq!(
        Obstacle::told(&cluster),
        Some(Obstacle::Told { reason: "NameTaken".into(), message })
    );
    cluster.metadata.generation = cluster.metadata.generation.map(|generation| generation + 1);
    assert_eq!(Obstacle::told(&cluster), None);
}

#[test]
fn a_delay_is_told_to_who_has_only_the_status() {
    let text = include_str!("causes/jobset-not-made-for-a-silent-webhook.yaml");
    let mut seen = crate::seen::read(text);
    let own = why(&seen.observed, seen.now);
    let mut cluster = (*seen.observed.cluster).clone();
    cluster.status = Some(status(&seen.observed, seen.now));
    seen.observed.obstacles = Obstacle::told(&cluster).into_iter().collect();
    seen.observed.cluster = std::sync::Arc::new(cluster.clone());
    assert_eq!(why(&seen.observed, seen.now).message, own.message);
    cluster.metadata.generation = cluster.metadata.generation.map(|generation| generation + 1);
    assert_eq!(Obstacle::told(&cluster), None);
}

#[test]
fn time_alone_does_not_change_a_status() {
    for text in [
        include_str!("causes/unschedulable-cpu.yaml"),
        include_str!("causes/brokers-missing-by-the-launcher.yaml"),
        include_str!("causes/running.yaml"),
    ] {
        let seen = crate::seen::read(text);
        let mut observed: Observed = seen.observed;
        let first = status(&observed, seen.now);
        std::sync::Arc::make_mut(&mut observed.cluster).status = Some(first.clone());
        let later = seen.now + k8s_openapi::jiff::SignedDuration::from_hours(3);
        assert_eq!(status(&observed, later), first);
    }
}

fn summary(status: &MiniClusterStatus) -> String {
    let mut text = String::new();
    let state = status.state.map(|state| format!("{state:?}")).unwrap_or_default();
    let online = status.online.unwrap_or_default();
    let size = status.size.unwrap_or_default();
    let _ = write!(text, "state {state}, {online}/{size}, attempt {:?}", status.attempt);
    if let Some(code) = status.exit_code {
        let _ = write!(text, ", exit code {code}");
    }
    text.push('\n');
    for one in &status.conditions {
        let _ = writeln!(text, "{} {} {}", one.type_, one.status, one.reason);
    }
    if let Some(failure) = &status.failure {
        let _ = writeln!(text, "failure {}", serde_json::to_string(failure).unwrap());
    }
    text
}
