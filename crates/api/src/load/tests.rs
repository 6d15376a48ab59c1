use super::*;

fn errors(text: &str) -> Vec<String> {
    load(text, Target::Local).unwrap_err().iter().map(|f| f.render(Some("hello.yaml"))).collect()
}

const HEAD: &str =
    "apiVersion: quorate.dev/v1alpha1\nkind: MiniCluster\nmetadata:\n  name: hello\n";

#[test]
fn a_wrong_number_shows_its_line_and_the_way_out() {
    let text = format!("{HEAD}spec:\n  size: 4\n  minSize: 6\n");
    assert_eq!(
        errors(&text),
        ["error: hello.yaml:7: spec.minSize: 6 is more than spec.size: 4\n  |   minSize: 6\n  \
          = set minSize to at most 4, or raise size"]
    );
}

#[test]
fn an_unknown_field_is_refused_with_the_one_that_was_meant() {
    let text = format!("{HEAD}spec:\n  program:\n    paralel: {{command: [a]}}\n");
    let errors = errors(&text);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].starts_with(
        "error: hello.yaml:7: spec.program.paralel: unknown field; did you mean `parallel`?\n"
    ));
}

#[test]
fn structure_and_rules_are_reported_together_in_the_order_of_the_file() {
    let text = format!(
        "{HEAD}spec:\n  size: 4\n  minSize: 6\n  sloots: 2\n  template:\n    spec:\n      tolerationz: []\n      restartPolicy: Always\n  bootstrap:\n    port: \"x\"\n"
    );
    let findings = load(&text, Target::Local).unwrap_err();
    let found: Vec<String> = findings
        .iter()
        .map(|f| format!("{}: {}", f.position.as_ref().unwrap().line, f.path))
        .collect();
    assert_eq!(
        found,
        [
            "7: spec.minSize",
            "8: spec.sloots",
            "11: spec.template.spec.tolerationz",
            "12: spec.template.spec.restartPolicy",
            "14: spec.bootstrap.port",
        ]
    );
}

#[test]
fn a_field_at_the_wrong_level_is_told_where_it_belongs() {
    let text = format!("{HEAD}spec:\n  tolerations: []\n");
    assert!(errors(&text)[0].ends_with("= it belongs to spec.template.spec.tolerations"));
}

#[test]
fn json_is_read_as_well() {
    let text = r#"{"apiVersion": "quorate.dev/v1alpha1", "kind": "MiniCluster",
        "metadata": {"name": "hello"}, "spec": {"size": 2}}"#;
    assert_eq!(load(text, Target::Local).unwrap().validated.size, 2);
}

#[test]
fn warnings_have_positions_too() {
    let text = format!("{HEAD}spec:\n  image: x\n");
    let warnings = load(&text, Target::Local).unwrap().validated.warnings;
    assert_eq!(warnings[0].position.as_ref().unwrap().line, 6);
}
