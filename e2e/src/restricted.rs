//! What Pod Security `restricted` wants of a user's pod template.

use serde_json::{Value, json};

/// What `restricted` wants a user to write down, and a root file system that nobody can write to.
pub fn restricted(uid: u32) -> Value {
    json!({ "spec": {
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": uid,
            "seccompProfile": { "type": "RuntimeDefault" },
        },
        "containers": [{
            "name": "main",
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "capabilities": { "drop": ["ALL"] },
                "readOnlyRootFilesystem": true,
            },
        }],
    } })
}
