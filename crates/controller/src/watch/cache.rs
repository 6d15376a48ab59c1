//! Facts of objects by the MiniCluster that they belong to. Kept small on purpose: what a watch
//! delivers is read into facts and dropped, so that thousands of clusters fit into little memory.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::watch;

/// Namespace and name of a MiniCluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Key {
    /// A key.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

/// Where an object belongs: its cluster, and its own name and UID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The cluster.
    pub cluster: Key,
    /// The object's name.
    pub name: String,
    /// The object's UID: an object of the same name that was made again is another one.
    pub uid: String,
    /// The object's resource version, which grows with every write (KEP-5504); 0 where it is no number.
    pub version: u64,
}

/// The facts of one object.
#[derive(Clone, Debug)]
struct Entry<F> {
    name: Box<str>,
    uid: Box<str>,
    version: u64,
    facts: Arc<F>,
}

impl<F> Entry<F> {
    /// An object's facts, and the cluster that it belongs to.
    fn new(place: Place, facts: F) -> (Key, Self) {
        let Place { cluster, name, uid, version } = place;
        (cluster, Self { name: name.into(), uid: uid.into(), version, facts: Arc::new(facts) })
    }

    /// Whether this was said of the name before the other one was.
    fn is_older(&self, other: &Self) -> bool {
        self.version != 0 && self.version < other.version
    }
}

/// Whether they say the same; a version says nothing.
impl<F: PartialEq> PartialEq for Entry<F> {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.uid == other.uid && self.facts == other.facts
    }
}

/// Objects of one cluster in the order of their names. Most clusters have a few of each kind, for
/// which a tree would take room for eleven; in a large one a new name moves the pointers behind it.
#[derive(Clone, Debug, PartialEq)]
struct Objects<F>(Vec<Entry<F>>);

impl<F> Default for Objects<F> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<F> Objects<F> {
    /// Where an object of this name is, or would be.
    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|entry| (*entry.name).cmp(name))
    }

    fn get(&self, name: &str) -> Option<&Entry<F>> {
        self.place(name).ok().map(|at| &self.0[at])
    }

    fn get_mut(&mut self, name: &str) -> Option<&mut Entry<F>> {
        self.place(name).ok().map(|at| &mut self.0[at])
    }

    fn insert(&mut self, entry: Entry<F>) {
        match self.place(&entry.name) {
            Ok(at) => self.0[at] = entry,
            Err(at) => {
                // Vec would make room for four at once.
                if self.0.len() < 4 {
                    self.0.reserve_exact(1);
                }
                self.0.insert(at, entry);
            }
        }
    }

    /// Takes an object out, unless another one has its name.
    fn remove(&mut self, name: &str, uid: &str) -> bool {
        let Ok(at) = self.place(name) else { return false };
        let same = *self.0[at].uid == *uid;
        if same {
            self.0.remove(at);
        }
        same
    }

    fn facts(&self) -> impl Iterator<Item = &Arc<F>> {
        self.0.iter().map(|entry| &entry.facts)
    }
}

/// Objects that are gone and still remembered: more than are made at a time.
const REMEMBERED: usize = 1024;

/// Facts of all objects of one kind.
#[derive(Debug)]
pub struct Cache<F> {
    inner: RwLock<HashMap<Key, Objects<F>>>,
    /// UIDs of objects that the watch has seen go, each with the version of its end, the latest last.
    /// Locked before `inner`.
    gone: Mutex<VecDeque<(Box<str>, u64)>>,
    /// Scopes (namespaces, or one for all) whose first list is not complete yet.
    missing: watch::Sender<usize>,
}

impl<F> Cache<F> {
    /// An empty cache that waits for the first lists of `scopes` watches.
    pub fn new(scopes: usize) -> Self {
        Self {
            inner: RwLock::default(),
            gone: Mutex::default(),
            missing: watch::Sender::new(scopes),
        }
    }

    /// Waits until every first list is complete.
    pub async fn ready(&self) {
        let mut missing = self.missing.subscribe();
        // The sender lives in `self`, so the wait cannot fail.
        let _ = missing.wait_for(|missing| *missing == 0).await;
    }

    /// The objects of a cluster, in the order of their names.
    pub fn of(&self, cluster: &Key) -> Vec<Arc<F>> {
        let inner = self.read();
        inner.get(cluster).into_iter().flat_map(|objects| objects.facts().map(Arc::clone)).collect()
    }

    /// One object of a cluster.
    pub fn get(&self, cluster: &Key, name: &str) -> Option<Arc<F>> {
        self.read().get(cluster)?.get(name).map(|entry| Arc::clone(&entry.facts))
    }

    /// An object of a namespace, whosever it is. Looks at all of them, so it is for rare questions.
    pub fn find(&self, namespace: &str, wanted: impl Fn(&F) -> bool) -> Option<Arc<F>> {
        let inner = self.read();
        let mut all = inner
            .iter()
            .filter(|(key, _)| key.namespace == namespace)
            .flat_map(|(_, objects)| objects.facts());
        all.find(|facts| wanted(facts)).map(Arc::clone)
    }

    /// Objects in all.
    pub fn len(&self) -> usize {
        self.read().values().map(|objects| objects.0.len()).sum()
    }

    /// Whether there is no object at all.
    pub fn is_empty(&self) -> bool {
        self.read().is_empty()
    }

    /// Forgets an object, unless another one has taken its name. Tells whether it was there.
    pub fn remove(&self, place: &Place) -> bool {
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        if gone.len() == REMEMBERED {
            gone.pop_front();
        }
        gone.push_back((place.uid.as_str().into(), place.version));
        let mut inner = self.write();
        let Some(objects) = inner.get_mut(&place.cluster) else { return false };
        let removed = objects.remove(&place.name, &place.uid);
        if objects.0.is_empty() {
            inner.remove(&place.cluster);
        }
        removed
    }

    // The facts are plain data; a panic elsewhere leaves them whole.
    fn read(&self) -> RwLockReadGuard<'_, HashMap<Key, Objects<F>>> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<Key, Objects<F>>> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: PartialEq> Cache<F> {
    /// Keeps an object's facts, unless later ones are known. Tells whether they say anything new.
    pub fn put(&self, place: Place, facts: F) -> bool {
        let (cluster, entry) = Entry::new(place, facts);
        let mut inner = self.write();
        let objects = inner.entry(cluster).or_default();
        match objects.get_mut(&entry.name) {
            Some(known) if entry.is_older(known) => false,
            Some(known) if *known == entry => {
                known.version = entry.version;
                false
            }
            _ => {
                objects.insert(entry);
                true
            }
        }
    }

    /// Keeps the facts of an object that came as the answer to a request, so that the next look knows what
    /// was written although the watch is late: what that tells of an earlier time is passed over then. The
    /// answer may be read after the watch has told the object's end: then it is not kept, since nobody would
    /// ever take it out again. One that only lost the label by which it is watched has the version of that
    /// end, or a later one, and is kept. Tells whether the facts say anything new.
    pub fn answered(&self, place: Place, facts: F) -> bool {
        let gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        let over = gone.iter().any(|(uid, end)| **uid == *place.uid && *end > place.version);
        !over && self.put(place, facts)
    }

    /// Replaces what is known of a scope (a namespace, or everything) by a whole list. Returns the
    /// clusters for which that says anything new. The list counts whatever its versions are: they are lower
    /// after the server's data came from a backup.
    pub fn replace(&self, scope: Option<&str>, list: Vec<(Place, F)>) -> Vec<Key> {
        let mut fresh: HashMap<Key, Objects<F>> = HashMap::new();
        for (place, facts) in list {
            let (cluster, entry) = Entry::new(place, facts);
            fresh.entry(cluster).or_default().insert(entry);
        }
        let mut inner = self.write();
        let known: HashSet<Key> = inner
            .keys()
            .filter(|key| scope.is_none_or(|scope| key.namespace == scope))
            .chain(fresh.keys())
            .cloned()
            .collect();
        let mut changed = Vec::new();
        for key in known {
            let (old, new) = (inner.get(&key), fresh.remove(&key));
            if old != new.as_ref() {
                changed.push(key.clone());
            }
            match new {
                Some(new) => inner.insert(key, new),
                None => inner.remove(&key),
            };
        }
        drop(inner);
        self.missing.send_modify(|missing| *missing = missing.saturating_sub(1));
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(cluster: &str, name: &str, uid: &str) -> Place {
        of_version(0, cluster, name, uid)
    }

    fn of_version(version: u64, cluster: &str, name: &str, uid: &str) -> Place {
        Place { cluster: Key::new("hpc", cluster), name: name.into(), uid: uid.into(), version }
    }

    #[test]
    fn a_late_watch_does_not_take_back_what_an_answer_told() {
        let cache = Cache::new(0);
        let cluster = Key::new("hpc", "a");
        let told = |facts| assert_eq!(cache.of(&cluster), [Arc::new(facts)]);
        cache.put(of_version(10, "a", "p", "1"), 5);
        assert!(cache.answered(of_version(12, "a", "p", "1"), 6));
        assert!(!cache.put(of_version(11, "a", "p", "1"), 5), "somebody's write before ours");
        told(6);
        assert!(!cache.put(of_version(12, "a", "p", "1"), 6), "ours is no news any more");
        assert!(!cache.put(of_version(13, "a", "p", "1"), 6), "nor is what says the same");
        assert!(!cache.put(of_version(12, "a", "p", "1"), 5));
        assert!(cache.put(of_version(14, "a", "p", "1"), 5));
        told(5);
        // The same of an object that was made again under its name.
        assert!(cache.answered(of_version(20, "a", "p", "2"), 1));
        assert!(!cache.put(of_version(15, "a", "p", "1"), 5), "the end of the former one begins");
        assert!(!cache.remove(&of_version(16, "a", "p", "1")));
        told(1);
        // A list is what there is.
        cache.replace(None, vec![(of_version(3, "a", "p", "1"), 4)]);
        told(4);
        assert!(cache.put(of_version(4, "a", "p", "1"), 5));
    }

    #[test]
    fn an_object_that_is_gone_before_its_maker_hears_of_it_is_not_kept_for_ever() {
        let cache = Cache::new(0);
        cache.put(of_version(10, "a", "p", "1"), 5);
        assert!(cache.remove(&of_version(13, "a", "p", "1")));
        assert!(!cache.answered(of_version(12, "a", "p", "1"), 5), "the watch has told its end");
        assert!(cache.is_empty());
        assert!(cache.answered(of_version(14, "a", "p", "2"), 5), "the next one of its name");
        // One that lost the label by which it is watched has the version of what the watch calls its end.
        assert!(cache.remove(&of_version(15, "a", "p", "2")));
        assert!(cache.answered(of_version(15, "a", "p", "2"), 5));
        for uid in 0..2 * REMEMBERED {
            cache.remove(&place("b", "p", &uid.to_string()));
        }
        assert_eq!(cache.gone.lock().unwrap().len(), REMEMBERED);
    }

    #[test]
    fn facts_that_say_nothing_new_are_no_news() {
        let cache = Cache::new(0);
        assert!(cache.put(place("a", "p", "1"), 5));
        assert!(!cache.put(place("a", "p", "1"), 5));
        assert!(cache.put(place("a", "p", "1"), 6));
        assert!(cache.put(place("a", "p", "2"), 6), "another object of the same name is news");
    }

    #[test]
    fn the_end_of_a_former_object_does_not_take_its_successor() {
        let cache = Cache::new(0);
        cache.put(place("a", "p", "2"), 5);
        assert!(!cache.remove(&place("a", "p", "1")));
        assert_eq!(cache.of(&Key::new("hpc", "a")).len(), 1);
        assert!(cache.remove(&place("a", "p", "2")));
        assert!(cache.is_empty());
    }

    #[test]
    fn a_list_replaces_its_own_scope_only() {
        let cache = Cache::new(0);
        let elsewhere = Place { cluster: Key::new("lab", "b"), ..place("b", "q", "9") };
        cache.put(elsewhere, 1);
        cache.put(place("gone", "p", "1"), 1);
        cache.put(place("same", "p", "2"), 1);
        let list = vec![(place("same", "p", "2"), 1), (place("new", "p", "3"), 1)];
        let mut changed = cache.replace(Some("hpc"), list);
        changed.sort();
        assert_eq!(changed, [Key::new("hpc", "gone"), Key::new("hpc", "new")]);
        assert_eq!(cache.len(), 3);
    }

    #[tokio::test]
    async fn it_is_ready_after_the_first_list_of_each_scope() {
        let cache = Cache::<u32>::new(2);
        cache.replace(Some("a"), Vec::new());
        let early = tokio::time::timeout(std::time::Duration::ZERO, cache.ready()).await;
        assert!(early.is_err());
        cache.replace(Some("b"), Vec::new());
        cache.ready().await;
    }
}
