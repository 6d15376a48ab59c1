//! What a request to the Kubernetes API does, from its method and path. Pure.
//!
//! Source of the shapes: <https://kubernetes.io/docs/reference/using-api/api-concepts/>.

use http::{Method, Uri};

/// A request, in the words of RBAC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// get, list, watch, create, update, patch, delete or deletecollection.
    pub verb: &'static str,
    /// Plural and subresource, as `jobsets` or `miniclusters/status`; `other` for what is no object.
    pub resource: String,
}

impl Call {
    /// Names a request.
    pub fn of(method: &Method, uri: &Uri) -> Self {
        let path: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
        // /api/v1/... and /apis/GROUP/VERSION/...
        let rest = match path.as_slice() {
            ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
            _ => &[],
        };
        let rest = match rest {
            // A namespace is also an object of its own.
            ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
            rest => rest,
        };
        let (resource, named) = match rest {
            [] => ("other".to_owned(), true),
            [plural] => ((*plural).to_owned(), false),
            [plural, _] => ((*plural).to_owned(), true),
            [plural, _, sub, ..] => (format!("{plural}/{sub}"), true),
        };
        let watches = uri.query().is_some_and(|query| {
            query.split('&').any(|part| matches!(part, "watch=true" | "watch=1"))
        });
        let verb = match (method.as_str(), named) {
            ("GET", _) if watches => "watch",
            ("GET", true) => "get",
            ("GET", false) => "list",
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            ("DELETE", true) => "delete",
            ("DELETE", false) => "deletecollection",
            _ => "other",
        };
        Self { verb, resource }
    }

    /// Whether it changes something.
    pub fn writes(&self) -> bool {
        !matches!(self.verb, "get" | "list" | "watch")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_named_as_rbac_names_them() {
        let jobset = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/hpc/jobsets";
        let cases = [
            ("GET", "/apis/quorate.dev/v1alpha1/miniclusters?limit=500", "list", "miniclusters"),
            (
                "GET",
                "/apis/quorate.dev/v1alpha1/miniclusters?a=b&watch=true",
                "watch",
                "miniclusters",
            ),
            ("POST", jobset, "create", "jobsets"),
            ("PATCH", &format!("{jobset}/lammps?fieldManager=q"), "patch", "jobsets"),
            ("DELETE", &format!("{jobset}/lammps"), "delete", "jobsets"),
            ("DELETE", jobset, "deletecollection", "jobsets"),
            ("GET", "/api/v1/namespaces/hpc/secrets/lammps", "get", "secrets"),
            ("GET", "/api/v1/namespaces/hpc", "get", "namespaces"),
            ("GET", "/api/v1/namespaces", "list", "namespaces"),
            ("GET", "/version", "get", "other"),
            (
                "PATCH",
                "/apis/quorate.dev/v1alpha1/namespaces/hpc/miniclusters/lammps/status",
                "patch",
                "miniclusters/status",
            ),
        ];
        for (method, uri, verb, resource) in cases {
            let call = Call::of(&method.parse().unwrap(), &uri.parse().unwrap());
            assert_eq!(call, Call { verb, resource: resource.to_owned() }, "{method} {uri}");
            assert_eq!(call.writes(), method != "GET", "{method} {uri}");
        }
    }
}
