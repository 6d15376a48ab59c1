//! An API server in memory: it stores, checks preconditions, refuses what it is told to refuse, and
//! remembers every request. It runs no controllers; a test plays those.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// One request that came in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) body: Value,
}

/// An answer in place of the real one.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) method: Method,
    /// What the path has to contain.
    pub(crate) path: &'static str,
    pub(crate) code: u16,
    pub(crate) message: &'static str,
    /// How often.
    pub(crate) times: usize,
}

#[derive(Default)]
pub(crate) struct State {
    /// Objects by path.
    pub(crate) objects: BTreeMap<String, Value>,
    pub(crate) calls: Vec<Call>,
    pub(crate) faults: Vec<Fault>,
    /// Cuts the connection at this write (from 0), which is carried out all the same or not.
    /// JSON pointers that this server's definitions do not know: it keeps nothing there.
    pub(crate) unknown: Vec<&'static str>,
    pub(crate) crash_at: Option<(usize, bool)>,
    version: u64,
}

#[derive(Clone, Default)]
pub(crate) struct Server(pub(crate) Arc<Mutex<State>>);

impl Server {
    pub(crate) fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (parts, body) = request.into_parts();
                let bytes = body.collect_bytes().await?;
                let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
                let call = Call {
                    method: parts.method,
                    path: parts.uri.path().to_owned(),
                    query: parts.uri.query().unwrap_or_default().to_owned(),
                    body,
                };
                let (code, answer) = server.answer(call)?;
                let response = Response::builder()
                    .status(code)
                    .body(Body::from(answer.to_string().into_bytes()))?;
                Ok::<_, tower::BoxError>(response)
            }
        });
        Client::new(service, "default")
    }

    pub(crate) fn fault(
        &self,
        method: Method,
        path: &'static str,
        code: u16,
        message: &'static str,
        times: usize,
    ) {
        self.0.lock().unwrap().faults.push(Fault { method, path, code, message, times });
    }

    /// Puts an object there, as somebody else would.
    pub(crate) fn store(&self, path: &str, object: Value) -> Value {
        self.0.lock().unwrap().store(path, object)
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.0.lock().unwrap().objects.get(path).cloned()
    }

    pub(crate) fn remove(&self, path: &str) {
        self.0.lock().unwrap().objects.remove(path);
    }

    /// Requests since the last time, as `POST secrets` or `PATCH miniclusters/hello/status`.
    pub(crate) fn take_calls(&self) -> Vec<String> {
        let calls = std::mem::take(&mut self.0.lock().unwrap().calls);
        calls.iter().map(|call| format!("{} {}", call.method, short(&call.path))).collect()
    }

    fn answer(&self, call: Call) -> Result<(StatusCode, Value), tower::BoxError> {
        let mut state = self.0.lock().unwrap();
        let write = call.method != Method::GET;
        state.calls.push(call.clone());
        if write && let Some((left, done)) = state.crash_at {
            if left == 0 {
                if done {
                    state.carry_out(&call);
                }
                return Err("connection lost".into());
            }
            state.crash_at = Some((left - 1, done));
        }
        let hit = |fault: &Fault| {
            fault.times > 0 && fault.method == call.method && call.path.contains(fault.path)
        };
        if let Some(fault) = state.faults.iter_mut().find(|fault| hit(fault)) {
            fault.times -= 1;
            return Ok(status(fault.code, fault.message));
        }
        Ok(state.carry_out(&call))
    }
}

impl State {
    fn next(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    pub(crate) fn store(&mut self, path: &str, mut object: Value) -> Value {
        let version = self.next();
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("uid-{version}"));
            object["metadata"]["creationTimestamp"] = json!(k8s_openapi::jiff::Timestamp::now());
        }
        object["metadata"]["resourceVersion"] = json!(version);
        self.objects.insert(path.to_owned(), object.clone());
        object
    }

    fn carry_out(&mut self, call: &Call) -> (StatusCode, Value) {
        let path = call.path.as_str();
        match call.method.clone() {
            Method::GET => match self.objects.get(path) {
                Some(object) => (StatusCode::OK, object.clone()),
                None => status(404, "not found"),
            },
            Method::POST if path.ends_with("/eviction") => {
                self.objects.remove(path.trim_end_matches("/eviction"));
                (
                    StatusCode::CREATED,
                    json!({"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201}),
                )
            }
            Method::POST => {
                let name = call.body["metadata"]["name"].as_str().unwrap_or("unnamed");
                let path = format!("{path}/{name}");
                if self.objects.contains_key(&path) {
                    return status_of(409, "AlreadyExists", "already exists");
                }
                let mut object = call.body.clone();
                for pointer in &self.unknown {
                    let (parent, field) = pointer.rsplit_once('/').unwrap();
                    if let Some(Value::Object(parent)) = object.pointer_mut(parent) {
                        parent.remove(field);
                    }
                }
                (StatusCode::CREATED, self.store(&path, object))
            }
            Method::PATCH => self.patch(path, &call.body),
            Method::DELETE => {
                let Some(object) = self.objects.get(path) else { return status(404, "not found") };
                let uid = &call.body["preconditions"]["uid"];
                if !uid.is_null() && *uid != object["metadata"]["uid"] {
                    return status_of(409, "Conflict", "another UID");
                }
                let object = self.objects.remove(path).unwrap();
                (StatusCode::OK, object)
            }
            _ => status(405, "not allowed"),
        }
    }

    fn patch(&mut self, path: &str, patch: &Value) -> (StatusCode, Value) {
        let path = path.trim_end_matches("/status");
        let Some(mut object) = self.objects.get(path).cloned() else {
            return status(404, "not found");
        };
        for field in ["uid", "resourceVersion"] {
            let expected = &patch["metadata"][field];
            if !expected.is_null() && *expected != object["metadata"][field] {
                return status_of(409, "Conflict", "the object has been modified");
            }
        }
        merge(&mut object, patch);
        (StatusCode::OK, self.store(path, object))
    }
}

/// RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let target = target.as_object_mut().unwrap();
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

fn status(code: u16, message: &str) -> (StatusCode, Value) {
    let reason = match code {
        403 => "Forbidden",
        404 => "NotFound",
        422 => "Invalid",
        _ => "InternalError",
    };
    status_of(code, reason, message)
}

fn status_of(code: u16, reason: &str, message: &str) -> (StatusCode, Value) {
    let answer = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "reason": reason, "message": message, "code": code,
    });
    (StatusCode::from_u16(code).unwrap(), answer)
}

/// A path without group, version and namespace.
fn short(path: &str) -> String {
    match path.split_once("/namespaces/hpc/") {
        Some((_, rest)) => rest.to_owned(),
        None => path.to_owned(),
    }
}
