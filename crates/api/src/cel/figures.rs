//! What rules say when they are broken, with what they found in the object: the words of
//! `crate::validate`, so that the API server and a file on a desk are answered alike.
//!
//! A rule has a fixed text too, for the reference and where an expression cannot be run. Texts are made
//! by `format` (KEP-2876, Kubernetes 1.29) in one step: the API server cannot bound how long a number is
//! as text, so anything that is done with such a text costs more than it allows a definition.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};

use kube::core::Rule;

use super::{GROUPS, MAX, SIZE, budget_overrun, slots_of_all};
use crate::names::MAX_SIZE;

/// Lets the rules of a definition say what they found.
pub(crate) fn add(definition: &mut CustomResourceDefinition) {
    let figures = all();
    for version in &mut definition.spec.versions {
        let schema = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut());
        if let Some(schema) = schema {
            walk(schema, &figures);
        }
    }
}

fn walk(schema: &mut JSONSchemaProps, figures: &[(Rule, String)]) {
    for rule in schema.x_kubernetes_validations.iter_mut().flatten() {
        let said = figures.iter().find(|(of, _)| of.rule == rule.rule);
        rule.message_expression = said.map(|(_, expression)| expression.clone());
    }
    for field in schema.properties.iter_mut().flat_map(|fields| fields.values_mut()) {
        walk(field, figures);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        walk(items, figures);
    }
}

/// A text with `%d` and `%s` for what the expressions are.
fn said(text: &str, expressions: &[&str]) -> String {
    let list: Vec<String> = expressions.iter().map(|one| format!("dyn({one})")).collect();
    format!("'{text}'.format([{}])", list.join(", "))
}

fn all() -> Vec<(Rule, String)> {
    let name = "self.metadata.name";
    let size_name = "has(self.size) ? 'spec.size' : 'the size'";
    let (workers, sum) = (format!("{GROUPS}.sum()"), format!("1 + {GROUPS}.sum()"));
    vec![
        (
            super::min_size(),
            said(
                "%d is more than %s: %d: set minSize to at most %d, or raise size",
                &["self.minSize", size_name, SIZE, SIZE],
            ),
        ),
        (
            super::max_size(),
            said(
                "%d is less than %s: %d: set maxSize to at least %d, or leave it out",
                &["self.maxSize", size_name, SIZE, SIZE],
            ),
        ),
        (
            super::growth(),
            said(
                "a cluster that may grow to %d starts with at least one worker: set size to 2 or more",
                &["self.maxSize"],
            ),
        ),
        (
            super::groups_fill_size(),
            said(
                "%d is not 1 launcher + %d pods of spec.groups = %d: leave size out, or set it to %d",
                &["self.size", &workers, &sum, &sum],
            ),
        ),
        (
            super::groups_fit(),
            said(
                &format!(
                    "%d pods with the launcher are more than {MAX_SIZE}: make the groups smaller"
                ),
                &[SIZE],
            ),
        ),
        (
            super::tasks_have_slots(),
            said(
                "%d is more than the %d slots of the cluster: ask for fewer, raise slots, or set \
                 oversubscribe: true",
                &["self.program.parallel.tasks", &slots_of_all()],
            ),
        ),
        (
            super::host_ports(),
            said(
                "with host networking rank r listens on port + r: %d + %d is more than 65535: set \
                 port to at most %d",
                &["self.bootstrap.port", &format!("{MAX} - 1"), &format!("65536 - {MAX}")],
            ),
        ),
        (
            super::name(),
            said(
                "metadata.name: `%s` is not a name that pods can carry: use lower-case letters, \
                 digits and `-`, a letter first",
                &[name],
            ),
        ),
        (
            super::name_budget(),
            said(
                "metadata.name: too long by %d: names of pods have 63 characters at most: shorten \
                 the name or the group",
                &[&budget_overrun()],
            ),
        ),
    ]
}
