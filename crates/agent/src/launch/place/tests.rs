use super::*;

fn offers(slots: &[u32]) -> Vec<Offer> {
    slots.iter().enumerate().map(|(n, slots)| Offer { broker: n as u32, slots: *slots }).collect()
}

fn counts(placement: &Placement) -> String {
    placement.brokers.iter().map(|(b, n)| format!("{b}:{n}")).collect::<Vec<_>>().join(" ")
}

/// One row: slots by broker, the request, and what must come out.
struct Case {
    slots: &'static [u32],
    ask: Ask,
    want: &'static str,
}

fn n(tasks: u32) -> Ask {
    Ask { tasks: Tasks::Exactly(tasks), ..Ask::default() }
}

#[test]
fn jobs_get_the_brokers_that_people_expect() {
    let cases = [
        Case { slots: &[2, 2, 2, 2], ask: n(1), want: "0:1" },
        Case { slots: &[2, 2, 2, 2], ask: n(3), want: "0:2 1:1" },
        Case { slots: &[2, 2, 2, 2], ask: n(8), want: "0:2 1:2 2:2 3:2" },
        Case { slots: &[0, 2, 2], ask: n(3), want: "1:2 2:1" },
        Case { slots: &[2, 2, 2, 2], ask: Ask { nodes: Some(4), ..n(8) }, want: "0:2 1:2 2:2 3:2" },
        Case { slots: &[4, 4, 4], ask: Ask { nodes: Some(3), ..n(5) }, want: "0:2 1:2 2:1" },
        Case { slots: &[1, 8, 8], ask: Ask { nodes: Some(3), ..n(9) }, want: "0:1 1:4 2:4" },
        Case { slots: &[2, 2, 2], ask: Ask { spread: Spread::Even, ..n(3) }, want: "0:1 1:1 2:1" },
        Case { slots: &[2, 2, 2], ask: Ask { spread: Spread::Even, ..n(2) }, want: "0:1 1:1" },
        Case {
            slots: &[2, 3],
            ask: Ask { spread: Spread::Even, ..Ask::default() },
            want: "0:2 1:3",
        },
        Case {
            slots: &[2, 2, 2],
            ask: Ask { tasks: Tasks::PerNode, nodes: Some(2), ..Ask::default() },
            want: "0:1 1:1",
        },
        Case {
            slots: &[4, 4, 4],
            ask: Ask {
                tasks: Tasks::PerNode,
                tasks_per_node: Some(3),
                nodes: Some(2),
                ..Ask::default()
            },
            want: "0:3 1:3",
        },
        Case { slots: &[8, 8], ask: Ask { tasks_per_node: Some(2), ..n(3) }, want: "0:2 1:1" },
        Case { slots: &[8, 8], ask: Ask { cpus_per_task: Some(4), ..n(3) }, want: "0:2 1:1" },
        Case { slots: &[1, 1], ask: Ask { oversubscribe: true, ..n(5) }, want: "0:3 1:2" },
        Case {
            slots: &[1, 4],
            ask: Ask { oversubscribe: true, nodes: Some(2), ..n(9) },
            want: "0:5 1:4",
        },
        Case {
            slots: &[1, 1],
            ask: Ask { oversubscribe: true, cpus_per_task: Some(2), ..n(2) },
            want: "0:1 1:1",
        },
    ];
    for Case { slots, ask, want } in cases {
        let placement = place(&offers(slots), &ask).unwrap();
        assert_eq!(counts(&placement), want, "{slots:?} {ask:?}");
    }
}

#[test]
fn refusals_say_the_way_out() {
    let cases: [(&[u32], Ask, &str); 9] = [
        (&[0, 0], n(1), "no connected broker takes tasks; give a group at least one slot"),
        (&[1], n(0), "--ntasks is 0; ask for at least 1"),
        (
            &[2, 2],
            n(5),
            "5 tasks of 1 CPU cannot be placed: 2 brokers with 4 places (2x2); ask for less, or allow more tasks than slots with --oversubscribe",
        ),
        (
            &[4],
            Ask { cpus_per_task: Some(3), ..n(2) },
            "2 tasks of 3 CPUs cannot be placed: 1 broker with 1 place (1x1); ask for less, or allow more tasks than slots with --oversubscribe",
        ),
        (
            &[4, 4],
            Ask { nodes: Some(2), ..n(1) },
            "2 nodes for 1 task; ask for fewer nodes, or for more tasks",
        ),
        (
            &[4],
            Ask { nodes: Some(2), ..n(4) },
            "2 nodes asked for, but the connected brokers that take tasks are 1",
        ),
        (
            &[4, 4],
            Ask { tasks_per_node: Some(1), oversubscribe: true, ..n(3) },
            "3 tasks do not fit on 2 nodes with at most 1 per node",
        ),
        (
            &[1, 1],
            Ask { cpus_per_task: Some(2), ..Ask::default() },
            "1 task of 2 CPUs cannot be placed: 2 brokers with 0 places (2x0); ask for less, or allow more tasks than slots with --oversubscribe",
        ),
        (
            &[1, 4],
            Ask { cpus_per_task: Some(2), nodes: Some(2), ..n(2) },
            "2 tasks of 2 CPUs cannot be placed: 2 brokers with 2 places (1x0,1x2); ask for less, or allow more tasks than slots with --oversubscribe",
        ),
    ];
    for (slots, ask, want) in cases {
        let error = place(&offers(slots), &ask).unwrap_err();
        assert_eq!(error.to_string(), want);
    }
}

#[test]
fn block_and_cyclic_number_every_rank_once() {
    let brokers = vec![(0, 3), (2, 1), (5, 2)];
    let block = Placement { brokers: brokers.clone(), distribution: Distribution::Block };
    assert_eq!(block.ranks(), [(0, vec![0, 1, 2]), (2, vec![3]), (5, vec![4, 5])]);
    assert_eq!(block.node_of_rank(), [0, 0, 0, 1, 2, 2]);
    let cyclic = Placement { brokers, distribution: Distribution::Cyclic };
    assert_eq!(cyclic.ranks(), [(0, vec![0, 3, 5]), (2, vec![1]), (5, vec![2, 4])]);
    assert_eq!(cyclic.node_of_rank(), [0, 1, 2, 0, 2, 0]);
    assert_eq!(cyclic.broker_of(2), Some(5));
    assert_eq!(cyclic.broker_of(6), None);
}

#[test]
fn the_report_shows_pods_without_tasks() {
    let placement =
        Placement { brokers: vec![(1, 2), (2, 2), (3, 1)], distribution: Distribution::Block };
    assert_eq!(placement.tasks_by_pod(5), "1x0,2x2,1x1,1x0");
    assert_eq!(placement.tasks(), 5);
    assert_eq!(placement.pods(), 3);
}

proptest::proptest! {
    #[test]
    fn no_task_is_lost_and_no_slot_is_taken_twice(
        slots in proptest::collection::vec(0u32..9, 1..40),
        tasks in 1u32..120,
        nodes in proptest::option::of(1u32..40),
        per_node in proptest::option::of(1u32..9),
        cpus in proptest::option::of(1u32..4),
        oversubscribe: bool,
        even: bool,
        cyclic: bool,
    ) {
        let ask = Ask {
            tasks: Tasks::Exactly(tasks),
            nodes,
            tasks_per_node: per_node,
            cpus_per_task: cpus,
            oversubscribe,
            spread: if even { Spread::Even } else { Spread::Pack },
            distribution: if cyclic { Distribution::Cyclic } else { Distribution::Block },
        };
        if let Ok(placement) = place(&offers(&slots), &ask) {
            assert_eq!(placement.tasks(), tasks);
            if let Some(nodes) = nodes {
                assert_eq!(placement.pods(), nodes);
            }
            for (broker, count) in &placement.brokers {
                let slots = slots[*broker as usize];
                assert!(slots > 0 && *count > 0);
                assert!(oversubscribe || count * cpus.unwrap_or(1) <= slots);
                assert!(per_node.is_none_or(|limit| *count <= limit));
            }
            let mut seen: Vec<u32> = placement.ranks().into_iter().flat_map(|(_, r)| r).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..tasks).collect::<Vec<_>>());
        }
    }
}
