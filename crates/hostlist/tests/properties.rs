//! What holds of every set, list and map.

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use quorate_hostlist::{HostList, IdSet, TaskMap};
use std::collections::BTreeSet;

fn ids() -> impl Strategy<Value = BTreeSet<u32>> {
    // Dense and sparse parts.
    (btree_set(0u32..64, 0..40), btree_set(0u32..1_000_000, 0..20))
        .prop_map(|(dense, sparse)| dense.union(&sparse).copied().collect())
}

proptest! {
    #[test]
    fn sets_agree_with_sets_of_the_standard_library(a in ids(), b in ids(), id in 0u32..64) {
        let (x, y): (IdSet, IdSet) = (a.iter().copied().collect(), b.iter().copied().collect());
        let list = |set: &IdSet| set.iter().collect::<Vec<_>>();
        prop_assert_eq!(x.len(), a.len());
        prop_assert_eq!((x.first(), x.last()), (a.first().copied(), a.last().copied()));
        prop_assert_eq!(list(&x.union(&y)), a.union(&b).copied().collect::<Vec<_>>());
        prop_assert_eq!(list(&x.intersection(&y)), a.intersection(&b).copied().collect::<Vec<_>>());
        prop_assert_eq!(list(&x.difference(&y)), a.difference(&b).copied().collect::<Vec<_>>());
        prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
        prop_assert_eq!(x.is_disjoint(&y), a.is_disjoint(&b));
        prop_assert_eq!(x.contains(id), a.contains(&id));
        let (mut more, mut less) = (x.clone(), x.clone());
        prop_assert_eq!(more.insert(id), !a.contains(&id));
        prop_assert_eq!(less.remove(id), a.contains(&id));
        let mut model = a.clone();
        model.insert(id);
        prop_assert_eq!(list(&more), model.iter().copied().collect::<Vec<_>>());
        model.remove(&id);
        prop_assert_eq!(list(&less), model.iter().copied().collect::<Vec<_>>());
        for set in [&more, &less, &x.union(&y), &x.difference(&y)] {
            let ranges: Vec<_> = set.ranges().collect();
            prop_assert!(ranges.windows(2).all(|w| w[0].end() + 1 < *w[1].start()));
        }
    }

    #[test]
    fn a_set_reads_what_it_prints(a in ids()) {
        let set: IdSet = a.into_iter().collect();
        prop_assert_eq!(set.to_string().parse::<IdSet>(), Ok(set.clone()));
        prop_assert_eq!(format!("[{set}]").parse::<IdSet>(), Ok(set));
    }

    #[test]
    fn any_text_is_a_set_or_an_error(text in "[0-9,\\[\\]x -]{0,30}") {
        if let Ok(set) = text.parse::<IdSet>() {
            prop_assert_eq!(set.to_string().parse::<IdSet>(), Ok(set));
        }
    }

    #[test]
    fn a_host_list_reads_what_it_prints(
        hosts in vec("([a-c]-)?[a-c]{0,2}(0{0,2}[0-9]{1,2})?[x-z]?", 0..20)
    ) {
        let hosts: Vec<String> = hosts.into_iter().filter(|h| !h.is_empty()).collect();
        let list: HostList = hosts.iter().cloned().collect();
        let read: HostList = list.to_string().parse().unwrap();
        prop_assert_eq!(read.iter().collect::<Vec<_>>(), hosts, "{}", list);
    }

    #[test]
    fn any_text_is_a_host_list_or_an_error(text in "[a-b0-3,\\[\\]-]{0,24}") {
        if let Ok(list) = text.parse::<HostList>() {
            prop_assert_eq!(list.to_string().parse::<HostList>(), Ok(list));
        }
    }

    #[test]
    fn task_maps_give_every_task_one_node(counts in vec(0u32..6, 0..12), cyclic in any::<bool>()) {
        let map = if cyclic { TaskMap::cyclic(&counts) } else { TaskMap::block(&counts) }.unwrap();
        prop_assert_eq!(map.counts(), counts.clone());
        prop_assert_eq!(map.tasks(), counts.iter().sum::<u32>());
        prop_assert_eq!(map.node_of(map.tasks()), None);
        for node in 0..map.nodes() {
            for task in map.tasks_of(node) {
                prop_assert_eq!(map.node_of(task), Some(node));
            }
        }
        let read: TaskMap = map.to_string().parse().unwrap();
        prop_assert_eq!(read.counts(), counts);
    }

    #[test]
    fn filling_never_exceeds_slots_unless_told_to(
        tasks in 0u32..40, slots in vec(0u32..6, 0..8), oversubscribe in any::<bool>()
    ) {
        match TaskMap::fill(tasks, &slots, oversubscribe) {
            Ok((map, left)) => {
                prop_assert_eq!(map.tasks() + left, tasks);
                let within = map.counts().iter().zip(&slots).all(|(count, slots)| count <= slots);
                prop_assert!(within || (oversubscribe && left == 0));
            }
            Err(_) => prop_assert!(oversubscribe && slots.iter().all(|&s| s == 0)),
        }
    }
}
