//! Who may talk to whom in a cluster: certificates, tokens, and the files with which they log in.
//!
//! One certificate authority for everything; the keys are of a test cluster and live as long as it.

use crate::layout::{API_PORT, API_SERVICE, CONTROL_PLANE, Folder, Shape};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::json;
use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Why there are no certificates.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A certificate or key could not be made.
    #[error("cannot make the certificate {name}")]
    Certificate {
        /// Which.
        name: String,
        /// Why not.
        #[source]
        source: rcgen::Error,
    },
    /// A file could not be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The system gave no random bytes.
    #[error("the system gives no random bytes")]
    Random,
}

/// Users that log in by token: name of the kubeconfig, user, group.
const USERS: &[(&str, &str, &str)] = &[
    ("admin", "admin", "system:masters"),
    ("addons", "addons", "system:masters"),
    ("controller-manager", "system:kube-controller-manager", ""),
    ("scheduler", "system:kube-scheduler", ""),
    ("proxy", "system:kube-proxy", ""),
];

/// Writes all keys, certificates, tokens and kubeconfigs of a cluster into its folder. The API is
/// forwarded to `outer_port` of the machine's loopback. Answers the administrator's token.
pub fn write(folder: &Folder, shape: &Shape, outer_port: u16) -> Result<String, PkiError> {
    let authority = Authority::new(folder)?;
    let domain = &shape.cluster_domain;
    let service = "kubernetes.default.svc";
    let api = [
        "localhost".to_owned(),
        "kubernetes".to_owned(),
        "kubernetes.default".to_owned(),
        service.to_owned(),
        format!("{service}.{domain}"),
        "127.0.0.1".to_owned(),
        CONTROL_PLANE.to_string(),
        API_SERVICE.to_string(),
    ];
    authority.server("apiserver", &api)?;
    // One for every webhook server, all of which listen beside the API server.
    let beside = ["localhost".into(), "127.0.0.1".into(), CONTROL_PLANE.to_string()];
    authority.server("webhook", &beside)?;
    for node in shape.nodes() {
        let names = [node.name(), node.address().to_string()];
        authority.server(&format!("kubelet-{}", node.name()), &names)?;
    }
    authority.client("kubelet-client", "kube-apiserver", Some("system:masters"))?;
    authority.client("front-proxy", "front-proxy-client", None)?;
    let accounts = KeyPair::generate().map_err(certificate("service accounts"))?;
    save(&folder.pki("service-accounts.key"), &accounts.serialize_pem())?;
    save(&folder.pki("service-accounts.pub"), &accounts.public_key_pem())?;
    tokens(folder, shape, outer_port)
}

/// Tokens (<https://kubernetes.io/docs/reference/access-authn-authz/authentication/>, static token
/// file) and a kubeconfig for each.
fn tokens(folder: &Folder, shape: &Shape, outer_port: u16) -> Result<String, PkiError> {
    let inside = format!("https://{CONTROL_PLANE}:{API_PORT}");
    let mut lines = Vec::new();
    let mut admin = String::new();
    let nodes = shape.nodes().map(|node| {
        (node.name(), format!("system:node:{}", node.name()), "system:nodes".to_owned())
    });
    let users = USERS.iter().map(|(a, b, c)| ((*a).into(), (*b).into(), (*c).into())).chain(nodes);
    for (name, user, group) in users {
        let token = token()?;
        let group = if group.is_empty() { group } else { format!(",\"{group}\"") };
        lines.push(format!("{token},{user},{user}{group}\n"));
        save(&folder.kubeconfig(&name), &kubeconfig(folder, &inside, &user, &token))?;
        if name == "admin" {
            let outside = format!("https://127.0.0.1:{outer_port}");
            save(&folder.outer_kubeconfig(), &kubeconfig(folder, &outside, &user, &token))?;
            admin = token;
        }
    }
    save(&folder.pki("tokens.csv"), &lines.concat())?;
    Ok(admin)
}

/// JSON is YAML: no library is needed to write it.
fn kubeconfig(folder: &Folder, server: &str, user: &str, token: &str) -> String {
    let name = format!("quorate-{}", folder.name());
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": name,
            "cluster": { "server": server, "certificate-authority": folder.pki("ca.crt") },
        }],
        "users": [{ "name": user, "user": { "token": token } }],
        "contexts": [{ "name": name, "context": { "cluster": name, "user": user } }],
        "current-context": name,
    })
    .to_string()
}

fn token() -> Result<String, PkiError> {
    let mut bytes = [0_u8; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| PkiError::Random)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

struct Authority<'a> {
    folder: &'a Folder,
    issuer: Issuer<'static, KeyPair>,
}

impl<'a> Authority<'a> {
    fn new(folder: &'a Folder) -> Result<Self, PkiError> {
        let key = KeyPair::generate().map_err(certificate("ca"))?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, format!("testbed {}", folder.name()));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let own = params.self_signed(&key).map_err(certificate("ca"))?;
        save(&folder.pki("ca.crt"), &own.pem())?;
        save(&folder.pki("ca.key"), &key.serialize_pem())?;
        Ok(Self { folder, issuer: Issuer::new(params, key) })
    }

    fn server(&self, name: &str, subjects: &[String]) -> Result<(), PkiError> {
        let params = CertificateParams::new(subjects).map_err(certificate(name))?;
        self.issue(name, params, name, None, ExtendedKeyUsagePurpose::ServerAuth)
    }

    fn client(&self, name: &str, common: &str, group: Option<&str>) -> Result<(), PkiError> {
        let usage = ExtendedKeyUsagePurpose::ClientAuth;
        self.issue(name, CertificateParams::default(), common, group, usage)
    }

    fn issue(
        &self,
        name: &str,
        mut params: CertificateParams,
        common: &str,
        group: Option<&str>,
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<(), PkiError> {
        params.distinguished_name.push(DnType::CommonName, common);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().map_err(certificate(name))?;
        let leaf = params.signed_by(&key, &self.issuer).map_err(certificate(name))?;
        save(&self.folder.pki(&format!("{name}.crt")), &leaf.pem())?;
        save(&self.folder.pki(&format!("{name}.key")), &key.serialize_pem())
    }
}

fn certificate(name: &str) -> impl FnOnce(rcgen::Error) -> PkiError {
    let name = name.to_owned();
    move |source| PkiError::Certificate { name, source }
}

/// Writes a file that only its owner may read.
fn save(path: &Path, text: &str) -> Result<(), PkiError> {
    let write = || {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
        io::Write::write_all(&mut file, text.as_bytes())
    };
    write().map_err(|source| PkiError::Write { path: path.to_owned(), source })
}
