//! The shape of a parallel job: which rank is on which node, and what one node's server needs to
//! know beside that. Owns the checks that make the rest of the crate total; does not know any wire.

use std::sync::{Arc, OnceLock};

/// A parallel job as all of its nodes see it. Cheap to share: every node's [`Layout`] points to it.
#[derive(Debug)]
pub struct Job {
    namespace: String,
    id: String,
    hosts: Vec<String>,
    node_of: Vec<u32>,
    local_rank_of: Vec<u32>,
    ranks_of: Vec<Vec<u32>>,
    app: u32,
    universe: u32,
    mapping: String,
    /// The packed part of the PMIx job info that all nodes share, by encoding; made on first use.
    pub(crate) process_info: [OnceLock<Arc<[u8]>>; 2],
}

/// What makes a [`Job`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobSpec {
    /// Name of the key-value space (PMI) and namespace (PMIx): 1 to 128 characters of
    /// `A-Za-z0-9._-`. Must not be guessable: with TCP it is what keeps strangers out.
    pub namespace: String,
    /// The job's id as people know it; the same characters as the namespace.
    pub id: String,
    /// Host name of each node, in node order; all different, since equal names mean shared memory
    /// to some MPIs.
    pub hosts: Vec<String>,
    /// The node of each rank (index into `hosts`); any order. Every node has at least one rank.
    pub node_of: Vec<u32>,
    /// Number of the application within a launch of several; 0 for a single one.
    pub app: u32,
    /// Ranks that the whole allocation could hold; at least the job's size. 0 means the size.
    pub universe: u32,
}

/// Why a job has no servable shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// A name with characters that one of the wires cannot carry, empty, or too long.
    #[error("{field} {value:?} must be 1 to {limit} characters of A-Za-z0-9._-")]
    Name {
        /// The field of [`JobSpec`].
        field: &'static str,
        /// What it holds.
        value: String,
        /// The most characters allowed.
        limit: usize,
    },
    /// Two nodes with one name.
    #[error("two nodes are called {host}")]
    SameHost {
        /// The name that is there twice.
        host: String,
    },
    /// No ranks, or more than the wires can count.
    #[error("a job has 1 to {limit} ranks, not {size}", limit = MAX_RANKS)]
    Size {
        /// The ranks asked for.
        size: usize,
    },
    /// A rank on a node that does not exist.
    #[error("rank {rank} is on node {node}, but there are only {nodes} nodes")]
    Node {
        /// The rank.
        rank: u32,
        /// Its node.
        node: u32,
        /// Nodes that exist.
        nodes: usize,
    },
    /// A node without ranks: leave it out, it would never enter a fence.
    #[error("node {host} has no rank")]
    EmptyNode {
        /// The node's host name.
        host: String,
    },
    /// The index of this server's own node is out of range.
    #[error("own node {node} is not one of the {nodes} nodes")]
    OwnNode {
        /// The index.
        node: u32,
        /// Nodes that exist.
        nodes: usize,
    },
}

/// The most ranks of a job.
pub const MAX_RANKS: usize = 1 << 24;

fn check_name(field: &'static str, value: &str, limit: usize) -> Result<(), LayoutError> {
    let fits = (1..=limit).contains(&value.len());
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    if fits && value.bytes().all(plain) {
        return Ok(());
    }
    Err(LayoutError::Name { field, value: value.to_owned(), limit })
}

impl Job {
    /// Checks a job's shape and works out what all of its servers share.
    pub fn new(spec: JobSpec) -> Result<Arc<Self>, LayoutError> {
        check_name("namespace", &spec.namespace, 128)?;
        check_name("id", &spec.id, 128)?;
        if spec.node_of.is_empty() || spec.node_of.len() > MAX_RANKS {
            return Err(LayoutError::Size { size: spec.node_of.len() });
        }
        let mut seen = std::collections::BTreeSet::new();
        for host in &spec.hosts {
            check_name("hosts", host, 255)?;
            if !seen.insert(host.as_str()) {
                return Err(LayoutError::SameHost { host: host.clone() });
            }
        }
        let mut ranks_of = vec![Vec::new(); spec.hosts.len()];
        let mut local_rank_of = Vec::with_capacity(spec.node_of.len());
        for (rank, &node) in spec.node_of.iter().enumerate() {
            let rank = rank as u32;
            let Some(ranks) = ranks_of.get_mut(node as usize) else {
                return Err(LayoutError::Node { rank, node, nodes: spec.hosts.len() });
            };
            local_rank_of.push(ranks.len() as u32);
            ranks.push(rank);
        }
        if let Some(node) = ranks_of.iter().position(Vec::is_empty) {
            return Err(LayoutError::EmptyNode { host: spec.hosts[node].clone() });
        }
        let size = spec.node_of.len() as u32;
        Ok(Arc::new(Self {
            mapping: crate::mapping::vector(&spec.node_of),
            namespace: spec.namespace,
            id: spec.id,
            hosts: spec.hosts,
            node_of: spec.node_of,
            local_rank_of,
            ranks_of,
            app: spec.app,
            universe: spec.universe.max(size),
            process_info: [OnceLock::new(), OnceLock::new()],
        }))
    }

    /// Name of the key-value space and PMIx namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The job's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Ranks of the job.
    pub fn size(&self) -> u32 {
        self.node_of.len() as u32
    }

    /// Host names in node order.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// A rank's node; `None` beyond the size.
    pub fn node_of(&self, rank: u32) -> Option<u32> {
        self.node_of.get(rank as usize).copied()
    }

    /// A rank's place among the ranks of its node, from 0; `None` beyond the size.
    pub fn local_rank_of(&self, rank: u32) -> Option<u32> {
        self.local_rank_of.get(rank as usize).copied()
    }

    /// The ranks of a node, ascending; empty beyond the last node.
    pub fn ranks_of(&self, node: u32) -> &[u32] {
        self.ranks_of.get(node as usize).map_or(&[], Vec::as_slice)
    }

    /// Number of the application.
    pub fn app(&self) -> u32 {
        self.app
    }

    /// Ranks that the allocation could hold.
    pub fn universe(&self) -> u32 {
        self.universe
    }

    /// The value of the key `PMI_process_mapping`. One of more than 1023 characters (many ranks,
    /// dealt one by one) is not given to PMI-1 clients, which then compare host names.
    pub fn process_mapping(&self) -> &str {
        &self.mapping
    }
}

/// A job as the server of one node sees it.
#[derive(Clone, Debug)]
pub struct Layout {
    job: Arc<Job>,
    node: u32,
    tmp_dir: String,
    topology: Option<String>,
}

impl Layout {
    /// The view of node `node`. `tmp_dir` is an absolute path of a directory that only this job's
    /// ranks on this node use: it exists, the ranks may write to it, and the caller removes it
    /// after the job. Session directories of Open MPI go there.
    pub fn new(job: Arc<Job>, node: u32, tmp_dir: impl Into<String>) -> Result<Self, LayoutError> {
        if node as usize >= job.hosts.len() {
            return Err(LayoutError::OwnNode { node, nodes: job.hosts.len() });
        }
        Ok(Self { job, node, tmp_dir: tmp_dir.into(), topology: None })
    }

    /// Names a file that says what CPUs this node has, in hwloc's XML, to spare ranks the looking.
    #[must_use]
    pub fn with_topology(self, path: Option<String>) -> Self {
        Self { topology: path, ..self }
    }

    /// The whole job.
    pub fn job(&self) -> &Arc<Job> {
        &self.job
    }

    /// This node's index.
    pub fn node(&self) -> u32 {
        self.node
    }

    /// This node's host name.
    pub fn host(&self) -> &str {
        &self.job.hosts[self.node as usize]
    }

    /// The ranks on this node, ascending.
    pub fn local_ranks(&self) -> &[u32] {
        self.job.ranks_of(self.node)
    }

    /// Tells whether a rank is on this node.
    pub fn is_local(&self, rank: u32) -> bool {
        self.job.node_of(rank) == Some(self.node)
    }

    /// The file with this node's topology, where there is one.
    pub fn topology(&self) -> Option<&str> {
        self.topology.as_deref()
    }

    /// The job's own directory on this node.
    pub fn tmp_dir(&self) -> &str {
        &self.tmp_dir
    }
}
