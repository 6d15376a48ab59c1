use super::*;

fn value(text: &str) -> Value {
    let tree = parse(text).unwrap();
    assert_eq!(tree.documents.len(), 1);
    tree.documents[0].to_json(&BTreeSet::new())
}

#[test]
fn plain_scalars_mean_what_kubectl_reads() {
    for (text, wanted) in [
        ("4", "4"),
        ("-4", "-4"),
        ("+4", "4"),
        ("0644", "420"),
        ("0x1f", "31"),
        ("0o17", "15"),
        ("1.5", "1.5"),
        ("1e3", "1000.0"),
        ("yes", "true"),
        ("off", "false"),
        ("4Gi", "\"4Gi\""),
        ("1.2.3", "\"1.2.3\""),
        ("\"4\"", "\"4\""),
        ("'yes'", "\"yes\""),
        ("!!str 4", "\"4\""),
    ] {
        assert_eq!(value(&format!("[{text}]"))[0].to_string(), wanted, "{text}");
    }
}

#[test]
fn aliases_and_merge_keys_are_resolved() {
    let text = "a: &base {x: 1, y: 2}\nb: {<<: *base, y: 3}\nc: *base\nd: {y: 4, <<: *base}\n";
    assert_eq!(
        value(text),
        serde_json::json!({"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}, "c": {"x": 1, "y": 2}, "d": {"x": 1, "y": 4}})
    );
}

#[test]
fn aliases_of_aliases_do_not_fill_the_memory() {
    let first = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    let text = (1..12).fold(first, |text, n| {
        let last = format!("*a{}, ", n - 1).repeat(9);
        format!("{text}a{n}: &a{n} [{last}]\n")
    });
    assert!(parse(&text).unwrap_err().to_string().contains("more than 200000 nodes"));
}

#[test]
fn deep_nesting_is_refused() {
    let text = "[".repeat(5000) + &"]".repeat(5000);
    assert!(parse(&text).is_err());
}

#[test]
fn a_key_of_two_values_names_its_first_line() {
    let error = parse("a: 1\nb: 2\na: 3\n").unwrap_err();
    assert_eq!(error.to_string(), "a second `a`; the first is in line 1");
}

#[test]
fn places_are_those_of_the_keys() {
    let tree = parse("a:\n  b: 1\n  c:\n    - d\n").unwrap();
    let a = &tree.documents[0].entries().unwrap()[0];
    let c = &a.value.entries().unwrap()[1];
    assert_eq!(c.place, Place { line: 3, column: 3 });
    assert_eq!(c.value.items().unwrap()[0].place, Place { line: 4, column: 7 });
}

#[test]
fn empty_documents_are_no_documents() {
    assert!(parse("").unwrap().documents.is_empty());
    assert!(parse("---\n# nothing\n---\n").unwrap().documents.is_empty());
    assert_eq!(parse("---\na: 1\n---\n---\nb: 1\n").unwrap().documents.len(), 2);
}
