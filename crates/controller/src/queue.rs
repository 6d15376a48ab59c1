//! Whose turn it is to be looked at. Pure: the clock is an argument.
//!
//! A cluster that has no JobSet yet comes before those of which there is only something to say: what it
//! becomes keeps many others busy, and a status can wait. Within a lane the first to ask is the first to
//! be looked at, so that nobody waits for ever. Each cluster is looked at by one at a time, and once for
//! all that happened to it before.
//!
//! The queue of `kube::runtime` knows neither lanes nor an order: with a thousand clusters at once those
//! that its hash table has last wait until all others have nothing more to say.

use std::collections::{BTreeSet, HashMap, VecDeque};

use tokio::time::Instant;

use crate::watch::Key;

/// What a look is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// There is no JobSet: something may have to be made.
    Make,
    /// There is one: it may have to be changed, or its status told.
    Follow,
}

/// Where a cluster is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Waiting(Lane),
    /// Somebody looks at it; something new is known since then.
    Looked {
        at: Lane,
        again: bool,
    },
}

/// Clusters that wait for a look, and those that are being looked at.
#[derive(Debug)]
pub struct Queue {
    make: VecDeque<Key>,
    follow: VecDeque<Key>,
    places: HashMap<Key, Place>,
    /// Looks that time alone makes due; one for each cluster.
    due: BTreeSet<(Instant, Key)>,
    due_of: HashMap<Key, Instant>,
    /// Looks at the same time at most, and those under way, all of them and to make.
    most: usize,
    looks: usize,
    making: usize,
}

impl Queue {
    /// An empty one for so many looks at a time, 1 or more.
    pub fn new(most: usize) -> Self {
        Self {
            make: VecDeque::new(),
            follow: VecDeque::new(),
            places: HashMap::new(),
            due: BTreeSet::new(),
            due_of: HashMap::new(),
            most: most.max(1),
            looks: 0,
            making: 0,
        }
    }

    /// Something new is known of a cluster.
    pub fn ask(&mut self, key: Key, lane: Lane) {
        match self.places.get_mut(&key) {
            None => self.wait(key, lane),
            Some(Place::Looked { again, .. }) => *again = true,
            // It has lost its JobSet meanwhile. Its old entry is passed over.
            Some(Place::Waiting(known)) if lane < *known => self.wait(key, lane),
            Some(Place::Waiting(_)) => {}
        }
    }

    /// A cluster is to be looked at then, if nothing happens before. The earliest time counts.
    pub fn later(&mut self, key: Key, at: Instant) {
        if self.due_of.get(&key).is_some_and(|known| *known <= at) {
            return;
        }
        self.forget_due(&key);
        self.due.insert((at, key.clone()));
        self.due_of.insert(key, at);
    }

    /// When time alone makes a look due.
    pub fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Lets those wait for their turn whose time has come.
    pub fn wake(&mut self, now: Instant, lane: impl Fn(&Key) -> Lane) {
        while self.next_due().is_some_and(|at| at <= now) {
            if let Some((_, key)) = self.due.pop_first() {
                self.due_of.remove(&key);
                let lane = lane(&key);
                self.ask(key, lane);
            }
        }
    }

    /// The next cluster to look at, if there is room for another look. [`Queue::done`] ends it.
    ///
    /// One place is not given to what is to be made, so that a flood of new clusters does not silence
    /// all others.
    pub fn begin(&mut self) -> Option<Key> {
        if self.looks >= self.most {
            return None;
        }
        let room = self.making + 1 < self.most || self.most == 1;
        let key = room.then(|| self.pop(Lane::Make)).flatten();
        let (key, at) = match key {
            Some(key) => (key, Lane::Make),
            None => (self.pop(Lane::Follow)?, Lane::Follow),
        };
        self.looks += 1;
        self.making += usize::from(at == Lane::Make);
        // This look sees all that is known.
        self.forget_due(&key);
        self.places.insert(key.clone(), Place::Looked { at, again: false });
        Some(key)
    }

    /// A look has ended. What has happened since it began asks for another one.
    pub fn done(&mut self, key: &Key, lane: Lane) {
        let Some(Place::Looked { at, again }) = self.places.remove(key) else { return };
        self.looks -= 1;
        self.making -= usize::from(at == Lane::Make);
        if again {
            self.wait(key.clone(), lane);
        }
    }

    /// A cluster is gone: time needs not ask for it any more.
    pub fn forget(&mut self, key: &Key) {
        self.forget_due(key);
    }

    /// Clusters that wait for their turn.
    pub fn waiting(&self) -> usize {
        self.places.len() - self.looks
    }

    fn wait(&mut self, key: Key, lane: Lane) {
        self.places.insert(key.clone(), Place::Waiting(lane));
        match lane {
            Lane::Make => self.make.push_back(key),
            Lane::Follow => self.follow.push_back(key),
        }
    }

    fn pop(&mut self, lane: Lane) -> Option<Key> {
        loop {
            let key = match lane {
                Lane::Make => self.make.pop_front()?,
                Lane::Follow => self.follow.pop_front()?,
            };
            if self.places.get(&key) == Some(&Place::Waiting(lane)) {
                return Some(key);
            }
        }
    }

    fn forget_due(&mut self, key: &Key) {
        if let Some((key, at)) = self.due_of.remove_entry(key) {
            self.due.remove(&(at, key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn key(name: &str) -> Key {
        Key::new("hpc", name)
    }

    fn names(queue: &mut Queue) -> Vec<String> {
        std::iter::from_fn(|| queue.begin()).map(|key| key.name).collect()
    }

    #[test]
    fn what_is_to_be_made_comes_first_and_in_the_order_of_asking() {
        let mut queue = Queue::new(5);
        for (name, lane) in
            [("a", Lane::Follow), ("b", Lane::Make), ("c", Lane::Make), ("b", Lane::Make)]
        {
            queue.ask(key(name), lane);
        }
        assert_eq!(queue.waiting(), 3);
        assert_eq!(names(&mut queue), ["b", "c", "a"]);
        assert_eq!(queue.waiting(), 0);
    }

    /// A thousand new clusters, and those made first have ever more to say.
    #[test]
    fn no_cluster_waits_for_its_jobset_until_others_have_nothing_more_to_say() {
        let mut queue = Queue::new(3);
        for number in 0..100 {
            queue.ask(key(&format!("{number:03}")), Lane::Make);
        }
        let mut made = Vec::new();
        while made.len() < 100 {
            let looked: Vec<Key> = std::iter::from_fn(|| queue.begin()).collect();
            assert!(!looked.is_empty(), "{queue:?}");
            for key in looked {
                if !made.contains(&key) {
                    made.push(key.clone());
                }
                queue.done(&key, Lane::Follow);
                queue.ask(key, Lane::Follow);
            }
        }
        assert!(made.is_sorted(), "{made:?}");
    }

    #[test]
    fn a_flood_of_new_clusters_leaves_one_place_to_the_others() {
        let mut queue = Queue::new(3);
        for name in ["a", "b", "c"] {
            queue.ask(key(name), Lane::Make);
        }
        queue.ask(key("z"), Lane::Follow);
        assert_eq!(names(&mut queue), ["a", "b", "z"]);
        queue.done(&key("z"), Lane::Follow);
        assert_eq!(names(&mut queue), Vec::<String>::new());
        queue.done(&key("a"), Lane::Follow);
        assert_eq!(names(&mut queue), ["c"]);
        // With one place alone they take turns with whoever is there.
        let mut narrow = Queue::new(1);
        narrow.ask(key("a"), Lane::Make);
        assert_eq!(names(&mut narrow), ["a"]);
    }

    #[test]
    fn news_during_a_look_lead_to_another_one_and_never_to_two_at_a_time() {
        let mut queue = Queue::new(4);
        queue.ask(key("a"), Lane::Make);
        assert_eq!(names(&mut queue), ["a"]);
        queue.ask(key("a"), Lane::Follow);
        queue.ask(key("a"), Lane::Follow);
        assert_eq!(names(&mut queue), Vec::<String>::new());
        queue.done(&key("a"), Lane::Follow);
        assert_eq!(names(&mut queue), ["a"]);
        queue.done(&key("a"), Lane::Follow);
        assert_eq!(names(&mut queue), Vec::<String>::new());
    }

    #[test]
    fn time_asks_once_and_a_look_before_it_makes_that_needless() {
        let (mut queue, now) = (Queue::new(4), Instant::now());
        let after = |seconds| now + Duration::from_secs(seconds);
        queue.later(key("a"), after(5));
        queue.later(key("a"), after(9));
        queue.later(key("b"), after(7));
        assert_eq!(queue.next_due(), Some(after(5)));
        queue.wake(after(6), |_| Lane::Follow);
        assert_eq!(names(&mut queue), ["a"]);
        queue.ask(key("b"), Lane::Follow);
        assert_eq!(names(&mut queue), ["b"]);
        assert_eq!(queue.next_due(), None);
        queue.later(key("c"), after(8));
        queue.forget(&key("c"));
        assert_eq!(queue.next_due(), None);
    }

    #[test]
    fn a_cluster_that_loses_its_jobset_while_it_waits_comes_first() {
        let mut queue = Queue::new(4);
        for name in ["a", "b"] {
            queue.ask(key(name), Lane::Follow);
        }
        queue.ask(key("b"), Lane::Make);
        assert_eq!(names(&mut queue), ["b", "a"]);
    }
}
