//! From functions to a linker script: which sections they are, in the words of GNU ld and lld.

use std::collections::{BTreeMap, BTreeSet};

/// What stands at the top of the script.
const HEAD: &str = "\
/* Written by `cargo xtask order`: the functions that brokers and their supervisors run, which the
   linker puts together, so that few pages of the agent are resident in a pod. */
SECTIONS
{
  .text.broker :
  {
";
const FOOT: &str = "\
  }
}
INSERT BEFORE .text;
";

/// Where a linker took each function from: object and section, by the name of the symbol.
#[derive(Debug, Default)]
pub(super) struct Sections<'a> {
    of: BTreeMap<&'a str, BTreeSet<(&'a str, &'a str)>>,
}

impl<'a> Sections<'a> {
    /// Reads lld's map. Its lines have address, load address, size and alignment; then, in a column of
    /// its own, an output section, a section of an object as `FILE:(SECTION)`, or a symbol of it.
    pub(super) fn read(map: &'a str) -> Self {
        let mut sections = Self::default();
        let mut current = None;
        for line in map.lines() {
            let Some(name) = line.split_whitespace().nth(4) else { continue };
            let section = name.rsplit_once(":(").and_then(|(file, section)| {
                let section = section.strip_suffix(')')?;
                section.starts_with('.').then_some((file, section))
            });
            if section.is_some() {
                current = section;
            } else if let Some(place) = current.filter(|(_, section)| section.starts_with(".text"))
            {
                sections.of.entry(name).or_default().insert(place);
            }
        }
        sections
    }
}

/// The script: the sections of each group of functions, group after group.
pub(super) fn write(sections: &Sections<'_>, groups: &[BTreeSet<&str>]) -> String {
    let mut known = BTreeSet::new();
    let mut text = String::from(HEAD);
    for group in groups {
        let places = group.iter().filter_map(|name| sections.of.get(name)).flatten();
        let patterns: BTreeSet<String> =
            places.map(|(file, section)| pattern(file, section)).collect();
        for pattern in patterns {
            if !known.contains(&pattern) {
                text.extend(["    ", &pattern, "\n"]);
                known.insert(pattern);
            }
        }
    }
    text + FOOT
}

/// What stands for a section, however the libraries and their versions are called on another machine.
fn pattern(file: &str, section: &str) -> String {
    let file = file.rsplit_once('/').map_or(file, |(_, name)| name);
    let Some((library, object)) =
        file.split_once('(').and_then(|(library, rest)| Some((library, rest.strip_suffix(')')?)))
    else {
        return format!("*({}*)", stable(section));
    };
    let everything = "(.text .text.*)";
    match library.strip_suffix(".rlib") {
        // Objects are named HASH-FILE.o. Which of several ways to compute the same is taken depends on
        // the processor; they are in files of like names.
        Some(library) => {
            let library = library.split('-').next().unwrap_or(library);
            let file = object.split_once('-').map_or(object, |(_, file)| file);
            let family: String = file.chars().take_while(char::is_ascii_alphanumeric).collect();
            format!("*{library}-*:*{family}*.o{everything}")
        }
        None => match object.split_once('-') {
            Some((family, _)) => format!("*{library}:{family}-*.o{everything}"),
            None => format!("*{library}:{object}{everything}"),
        },
    }
}

/// A section of a Rust function without what changes from build to build: the numbers that tell
/// versions of a crate apart (`CsHASH_` in the v0 mangling, RFC 2603), those of local copies, and for
/// which crate a generic function was compiled, where several could have been.
fn stable(section: &str) -> String {
    let (prefix, name) = section.split_at(section.find("_R").unwrap_or(section.len()));
    let name = name.split('.').next().unwrap_or(name);
    let mut text = String::from(prefix);
    let mut rest = name;
    while let Some(at) = rest.find("Cs") {
        let (before, after) = rest.split_at(at + 2);
        text += before;
        let digits = after.chars().take_while(char::is_ascii_alphanumeric).count();
        rest = &after[digits..];
        if digits > 0 && rest.starts_with('_') {
            text.push('*');
        } else {
            text += &after[..digits];
        }
    }
    text += rest;
    text.truncate(text.len() - compiled_for(&text));
    text
}

/// The length of the name's end that says for which crate it was compiled: a crate, or a reference back
/// to one (`B_`, `B1d_`). A path ends with an identifier, and arguments of types with `E`.
fn compiled_for(name: &str) -> usize {
    let back = |name: &str| {
        let (_, digits) = name.strip_suffix('_')?.rsplit_once('B')?;
        let number = digits.chars().all(|each| each.is_ascii_alphanumeric());
        number.then_some(digits.len() + "B_".len())
    };
    let named = |name: &str| {
        let (_, identifier) = name.rsplit_once("Cs*_")?;
        let letters = identifier.trim_start_matches(|each: char| each.is_ascii_digit());
        let length = &identifier[..identifier.len() - letters.len()];
        let whole = length.parse() == Ok(letters.len());
        whole.then_some(identifier.len() + "Cs*_".len())
    };
    back(name).or_else(|| named(name)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "\
             VMA              LMA     Size Align Out     In      Symbol
          113280           113280   213cf4    64 .text.broker
          113280           113280       21    16         /tmp/agent.o:(.text._RNvNtCsfLfy6EI15iL_5tokio4task4poll)
          113280           113280       21     1                 _RNvNtCsfLfy6EI15iL_5tokio4task4poll
          113300           113300       10    16         /usr/lib/libc.a(malloc.o):(.text)
          113300           113300        8     1                 _int_malloc
          113308           113308        8     1                 malloc
          113310           113310       10    16         /usr/lib/libc.a(strlen-avx2.o):(.text.avx)
          113310           113310        8     1                 __strlen_avx2
          113320           113320       10    16         /target/libring-5a41.rlib(4f70-sha256-x86_64-elf.o):(.text)
          113320           113320       10     1                 ring_sha256_avx
          113330           113330       10    16         /tmp/agent.o:(.rodata.table)
          113330           113330       10     1                 table
";

    #[test]
    fn functions_become_the_sections_that_they_are_linked_from() {
        let sections = Sections::read(MAP);
        let first = BTreeSet::from(["ring_sha256_avx", "malloc", "_int_malloc", "table", "gone"]);
        let second =
            BTreeSet::from(["__strlen_avx2", "malloc", "_RNvNtCsfLfy6EI15iL_5tokio4task4poll"]);
        let script = write(&sections, &[first, second]);
        let lines: Vec<&str> = script
            .strip_prefix(HEAD)
            .and_then(|rest| rest.strip_suffix(FOOT))
            .unwrap()
            .lines()
            .map(str::trim)
            .collect();
        assert_eq!(
            lines,
            [
                "*libc.a:malloc.o(.text .text.*)",
                "*libring-*:*sha256*.o(.text .text.*)",
                "*(.text._RNvNtCs*_5tokio4task4poll*)",
                "*libc.a:strlen-*.o(.text .text.*)",
            ]
        );
    }

    #[test]
    fn names_lose_what_changes_from_build_to_build() {
        for (section, expected) in [
            (".text._RNvCs9x_4core3fmt", ".text._RNvCs*_4core3fmt"),
            (".text.unlikely._RNvCs9x_4core3fmtB8_.llvm.123", ".text.unlikely._RNvCs*_4core3fmt"),
            (".text._RINvCsa_1bNtCsc_1dE.42", ".text._RINvCs*_1bNtCs*_1dE"),
            (".text._RINvCsa_4core4dropmECs7_5tokio", ".text._RINvCs*_4core4dropmE"),
            (".text._RINvCsa_4core4dropmEB_", ".text._RINvCs*_4core4dropmE"),
            (".text._RNvC4Cs_44main", ".text._RNvC4Cs_44main"),
            (".text.fe_mul", ".text.fe_mul"),
        ] {
            assert_eq!(stable(section), expected);
        }
    }
}
