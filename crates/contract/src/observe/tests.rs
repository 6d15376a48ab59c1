use super::*;

#[test]
fn lines_come_whole_however_they_arrive() {
    let sent = [line(&Ask::Size(4)), line(&Ask::Size(16))].concat();
    assert_eq!(sent, b"{\"size\":4}\n{\"size\":16}\n");
    let mut lines = Lines::new(MOST_ASKED);
    let mut got = Vec::new();
    for byte in sent {
        lines.push(&[byte]);
        while let Some(ask) = lines.next_line::<Ask>().unwrap() {
            got.push(ask);
        }
    }
    assert_eq!(got, [Ask::Size(4), Ask::Size(16)]);
}

#[test]
fn a_line_without_end_is_refused_at_the_limit() {
    let mut lines = Lines::new(16);
    lines.push(&[b' '; 15]);
    assert!(lines.next_line::<Ask>().unwrap().is_none());
    assert_eq!(lines.room(), 1);
    lines.push(b" ");
    let error = lines.next_line::<Ask>().unwrap_err();
    assert_eq!(error.to_string(), "a line is longer than 16 bytes");
}

#[test]
fn what_is_not_asked_in_the_channels_words_is_refused() {
    for wrong in
        ["", "{}", "[]", "{\"size\":-1}", "{\"size\":1,\"more\":2}", "{\"stop\":1}", "size"]
    {
        let mut lines = Lines::new(MOST_ASKED);
        lines.push(wrong.as_bytes());
        lines.push(b"\n");
        assert!(lines.next_line::<Ask>().is_err(), "{wrong:?}");
    }
}

#[test]
fn a_status_of_the_longest_kind_fits_into_a_line() {
    use crate::report::{Failure, Placement, Reason, Report};
    use crate::status::{Missing, ProgramStatus};
    let mut report = Report::new(1, Reason::ProgramFailed, "m".repeat(2000));
    report.failure = Some(Failure { log_tail: vec!["l".repeat(100); 10], ..Failure::default() });
    report.placement = Some(Placement::default());
    let missing = Missing {
        rank: u32::MAX,
        pod: "p".repeat(63),
        silent_seconds: Some(u64::MAX),
        why: "w".repeat(512),
    };
    // Every other of 12,736 ranks: the longest that an id set of that size can be.
    let ranks: Vec<String> = (0..12_736).step_by(3).map(|rank| rank.to_string()).collect();
    let status = ClusterStatus {
        cluster: "c".repeat(54),
        online_ranks: ranks.join(","),
        torpid_ranks: String::new(),
        missing: vec![missing; 32],
        program: Some(ProgramStatus { tasks: 1, pods: 1, tasks_by_pod: "1x1".into() }),
        report: Some(report),
        ..ClusterStatus::default()
    };
    let told = line(&Tell::Status(Box::new(status.clone())));
    assert!(told.len() <= MOST_TOLD, "{}", told.len());
    let mut lines = Lines::new(MOST_TOLD);
    lines.push(&told);
    assert_eq!(lines.next_line::<Tell>().unwrap(), Some(Tell::Status(Box::new(status))));
}

/// A million hostile inputs: nothing panics, and no more than one line is kept.
#[test]
fn noise_is_refused_without_harm() {
    let seeds: [&[u8]; 4] =
        [b"{\"size\":4}\n{\"size\":16}\n", b"{\"size\":", b"\n\n", b"{\"status\":{}}\n"];
    let mut dice = 0x5eed_0b5e_77e1_2345_u64;
    let mut roll = |limit: usize| {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        (dice % limit as u64) as usize
    };
    let (mut taken, mut refused) = (0_u32, 0_u32);
    for _ in 0..1_000_000 {
        let mut input = seeds[roll(seeds.len())].to_vec();
        for _ in 0..roll(4) {
            let at = roll(input.len());
            match roll(3) {
                0 => input[at] = roll(256) as u8,
                1 => input.insert(at, roll(256) as u8),
                _ => input.truncate(at + 1),
            }
        }
        let mut lines = Lines::new(64);
        let mut rest = &input[..];
        while !rest.is_empty() {
            let part = roll(rest.len()) + 1;
            let part = part.min(lines.room());
            lines.push(&rest[..part]);
            rest = &rest[part..];
            let over = loop {
                match lines.next_line::<Ask>() {
                    Ok(Some(_)) => taken += 1,
                    Ok(None) => break false,
                    Err(_) => break true,
                }
            };
            assert!(lines.buffer.len() <= 64);
            if over {
                refused += 1;
                break;
            }
        }
    }
    assert!(taken > 100_000 && refused > 100_000, "{taken} taken, {refused} refused");
}
