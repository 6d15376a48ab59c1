//! Whatever text comes: it is refused with findings, or it becomes a JobSet that breaks no rule.
//! Inputs are the corpus of the API with small random damage.

#![allow(clippy::unwrap_used, reason = "a test says by a panic what is wrong")]

use quorate_api::{Target, load};
use quorate_plan::{Context, Delivery, Seed, check_jobset, plan};

const MUTANTS: u64 = 8_000;
/// Pieces that mean something to YAML or to the rules.
const PIECES: [&str; 20] = [
    "\n",
    "  ",
    "-",
    ": ",
    "{",
    "}",
    "[",
    "]",
    "&a ",
    "*a",
    "<<: ",
    "\"",
    "#",
    "0",
    "-1",
    "99999999999",
    "null",
    "main",
    "---\n",
    "\u{e9}",
];

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % limit.max(1) as u64) as usize
    }
}

fn corpus(kind: &str) -> Vec<String> {
    let folder = format!("{}/../api/corpus/{kind}", env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

fn damage(text: &str, random: &mut Random) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..=random.below(2) {
        let at = random.below(chars.len());
        let end = (at + random.below(12)).min(chars.len());
        match random.below(10) {
            0 => drop(chars.drain(at..end)),
            1 => {
                let copy: Vec<char> = chars[at..end].to_vec();
                let to = random.below(chars.len());
                chars.splice(to..to, copy);
            }
            2 => {
                let piece = PIECES[random.below(PIECES.len())];
                chars.splice(at..at, piece.chars());
            }
            // Most damage is to a letter or a digit, which leaves the form as it is.
            _ => {
                let kept =
                    chars.iter().enumerate().skip(at).find(|(_, c)| c.is_ascii_alphanumeric());
                if let Some((at, c)) = kept {
                    let first = if c.is_ascii_digit() { b'0' } else { b'a' };
                    chars[at] = char::from(first + random.below(10) as u8);
                }
            }
        }
    }
    chars.into_iter().collect()
}

#[test]
fn damaged_files_are_refused_or_become_sound_jobsets() {
    let (good, bad) = (corpus("good"), corpus("bad"));
    let context = Context {
        agent_image: "agent".into(),
        agent_delivery: Delivery::Copy,
        port_forward: true,
        cluster_domain: None,
    };
    let (mut taken, mut refused) = (0, 0);
    for seed in 0..MUTANTS {
        let mut random = Random(seed);
        let of = if random.below(3) == 0 { &bad } else { &good };
        let text = damage(&of[random.below(of.len())], &mut random);
        let target = if random.below(2) == 0 { Target::Local } else { Target::Kubernetes };
        match load(&text, target) {
            Ok(document) => {
                let planned = plan(&document.validated, &context, &Seed::new([0; 32]));
                assert_eq!(check_jobset(&planned.jobset), [], "mutant {seed}:\n{text}");
                taken += 1;
            }
            Err(findings) => {
                assert!(!findings.is_empty(), "mutant {seed}:\n{text}");
                for finding in findings {
                    assert!(!finding.render(Some("file.yaml")).is_empty());
                }
                refused += 1;
            }
        }
    }
    assert!(taken > MUTANTS / 10 && refused > MUTANTS / 3, "{taken} taken, {refused} refused");
}
