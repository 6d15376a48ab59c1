use super::*;

fn cut(parts: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut lines = Lines::default();
    let mut pieces = Vec::new();
    for part in parts {
        lines.push(part, |piece| pieces.push(piece));
    }
    pieces.extend(lines.finish());
    pieces
}

#[test]
fn pieces_end_at_line_ends() {
    let pieces = cut(&[b"one\ntw", b"o\nthree", b"\n", b"rest"]);
    assert_eq!(pieces, [&b"one\n"[..], b"two\n", b"three\n", b"rest"]);
}

#[test]
fn output_without_line_ends_does_not_pile_up() {
    let mut lines = Lines::default();
    let mut total = 0;
    let mut most = 0;
    for _ in 0..100 {
        lines.push(&vec![0u8; 50_000], |piece| {
            total += piece.len();
            most = most.max(piece.len());
        });
        assert!(lines.pending.len() < LINE_LIMIT);
    }
    total += lines.finish().map_or(0, |rest| rest.len());
    assert_eq!(total, 5_000_000);
    assert!(most <= LINE_LIMIT + 50_000);
}

#[test]
fn labels_never_share_a_line() {
    let mut merge = Merge::new(true);
    let mut out = Vec::new();
    merge.piece(0, b"a\nb\n", &mut out);
    merge.piece(1, b"start of a long line,", &mut out);
    merge.piece(1, b" goes on,", &mut out);
    merge.piece(2, b"other\n", &mut out);
    merge.piece(1, b" end\n", &mut out);
    merge.piece(12, b"\n\n", &mut out);
    let text = String::from_utf8(out).unwrap();
    assert_eq!(
        text,
        "0: a\n0: b\n1: start of a long line, goes on,\n2: other\n1:  end\n12: \n12: \n"
    );
}

#[test]
fn without_labels_bytes_are_untouched() {
    let bytes: Vec<u8> = (0..=255).cycle().take(10_000).collect();
    let mut merge = Merge::new(false);
    let mut out = Vec::new();
    merge.piece(0, &bytes, &mut out);
    assert_eq!(out, bytes);
}

#[test]
fn the_slowest_reader_sets_the_pace() {
    let mut slowest = Slowest::new(3);
    slowest.gone(2);
    assert_eq!(slowest.took(0, 10), 0);
    assert_eq!(slowest.took(1, 4), 4);
    assert_eq!(slowest.took(1, 10), 6);
    slowest.gone(0);
    assert_eq!(slowest.took(1, 1), 5);
}

#[test]
fn the_tail_holds_the_last_lines() {
    let mut tail = Tail::default();
    for n in 0..1000 {
        tail.push(format!("line {n}\n").as_bytes());
    }
    tail.push(b"no end\x07 here");
    let lines = tail.into_lines();
    assert_eq!(lines.len(), Tail::LINES);
    assert_eq!(lines.last().unwrap(), "no end here");
    assert_eq!(lines[lines.len() - 2], "line 999");
}

#[test]
fn a_large_piece_costs_its_end_only() {
    let mut big = vec![b'x'; 10_000_000];
    big.extend_from_slice(b"\nlast\n");
    let mut tail = Tail::default();
    tail.push(b"before ");
    tail.push(&big);
    assert_eq!(tail.into_lines(), ["last"]);
    let mut tail = Tail::default();
    tail.push(&vec![b'y'; 1000]);
    assert_eq!(tail.into_lines(), ["y".repeat(Tail::WIDTH)]);
}

proptest::proptest! {
    #[test]
    fn pieces_together_are_the_input(parts: Vec<Vec<u8>>) {
        let slices: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        assert_eq!(cut(&slices).concat(), parts.concat());
    }
}
