use super::*;
use crate::jobspec::Request;

fn offer(rank: u32, cores: u32, gpus: u32, memory: u64) -> Offer {
    Offer {
        rank,
        host: format!("worker-0-{rank}"),
        cores: IdSet::first_n(cores),
        gpus: IdSet::first_n(gpus),
        memory,
        properties: Vec::new(),
    }
}

fn pool(cores: &[u32]) -> Pool {
    let mut pool = Pool::default();
    for (rank, cores) in (0..).zip(cores) {
        pool.arrive(offer(rank, *cores, 0, 100));
    }
    pool
}

fn place(pool: &Pool, request: &Request) -> Option<String> {
    let allocation = pool.place(Want { request, constraint: None, lane: None })?;
    let part = |part: &Part| format!("{}:{}x[{}]", part.rank, part.tasks, part.cores);
    Some(allocation.parts.iter().map(part).collect::<Vec<_>>().join(" "))
}

fn tasks(tasks: u32) -> Request {
    Request { tasks, ..Request::default() }
}

#[test]
fn a_request_without_nodes_goes_to_the_fullest_node_that_holds_it() {
    let mut pool = pool(&[8, 4, 2]);
    assert_eq!(place(&pool, &tasks(2)).unwrap(), "2:2x[0-1]");
    assert_eq!(place(&pool, &tasks(3)).unwrap(), "1:3x[0-2]");
    let all = Request { exclusive: true, ..Request::default() };
    assert_eq!(place(&pool, &all).unwrap(), "2:1x[0-1]");
    pool.drain(2, "hot".into());
    assert_eq!(place(&pool, &tasks(2)).unwrap(), "1:2x[0-1]");
    pool.leave(1);
    assert_eq!(place(&pool, &tasks(2)).unwrap(), "0:2x[0-1]");
}

#[test]
fn a_request_that_no_node_holds_goes_to_as_few_as_hold_it() {
    let pool = pool(&[2, 8, 4, 2]);
    assert_eq!(place(&pool, &tasks(9)).unwrap(), "1:8x[0-7] 2:1x[0]");
    assert_eq!(place(&pool, &tasks(16)).unwrap(), "0:2x[0-1] 1:8x[0-7] 2:4x[0-3] 3:2x[0-1]");
    assert_eq!(place(&pool, &tasks(17)), None);
}

#[test]
fn tasks_are_spread_evenly_over_a_given_number_of_nodes() {
    let pool = pool(&[4, 4, 4, 1]);
    let request = |tasks, nodes| Request { tasks, nodes: Some(nodes), ..Request::default() };
    assert_eq!(place(&pool, &request(4, (2, 2))).unwrap(), "0:2x[0-1] 1:2x[0-1]");
    assert_eq!(place(&pool, &request(1, (1, 1))).unwrap(), "3:1x[0]", "the least room comes first");
    // The small node takes what it can.
    assert_eq!(place(&pool, &request(8, (4, 4))).unwrap(), "0:3x[0-2] 1:2x[0-1] 2:2x[0-1] 3:1x[0]");
    assert_eq!(place(&pool, &request(3, (1, 8))).unwrap(), "0:1x[0] 1:1x[0] 3:1x[0]");
    assert_eq!(place(&pool, &request(5, (5, 5))), None);
    assert_eq!(place(&pool, &request(14, (4, 4))), None);
}

#[test]
fn accelerators_and_memory_limit_what_a_node_takes() {
    let mut pool = Pool::default();
    pool.arrive(offer(0, 8, 2, 100));
    pool.arrive(offer(1, 8, 4, 50));
    let gpus = Request { tasks: 3, gpus_per_task: 1, ..Request::default() };
    assert_eq!(place(&pool, &gpus).unwrap(), "1:3x[0-2]");
    let memory = Request { tasks: 3, memory_per_task: 20, ..Request::default() };
    assert_eq!(place(&pool, &memory).unwrap(), "0:3x[0-2]");
    let node = Request { tasks: 1, memory_per_node: 101, ..Request::default() };
    assert_eq!(place(&pool, &node), None);
    let both = Request { tasks: 5, gpus_per_task: 1, memory_per_task: 20, ..Request::default() };
    assert_eq!(place(&pool, &both), None, "two on each");
}

#[test]
fn nothing_is_given_twice_and_what_comes_back_is_what_was_given() {
    let mut pool = pool(&[4]);
    let given = |cores: IdSet| {
        Arc::new(Allocation { parts: vec![Part { rank: 0, tasks: 1, cores, ..Part::default() }] })
    };
    pool.take(JobId(1), given(IdSet::from(0..=2))).unwrap();
    assert_eq!(
        pool.take(JobId(2), given(IdSet::from(2..=3))).unwrap_err().to_string(),
        "cores 2 of broker 0 is not free"
    );
    assert!(pool.take(JobId(1), given(IdSet::from(3..=3))).is_err(), "one allocation each");
    assert_eq!(place(&pool, &tasks(1)).unwrap(), "0:1x[3]", "a refusal changes nothing");
    pool.give_back(JobId(1)).unwrap();
    assert!(pool.give_back(JobId(1)).is_err(), "it has nothing any more");
    assert_eq!(place(&pool, &tasks(4)).unwrap(), "0:4x[0-3]");
}

#[test]
fn what_a_job_has_of_a_broker_that_is_away_is_still_its_own_when_it_comes_back() {
    let mut pool = pool(&[4]);
    let request = tasks(3);
    let allocation = pool.place(Want { request: &request, constraint: None, lane: None }).unwrap();
    pool.take(JobId(1), Arc::new(allocation)).unwrap();
    pool.leave(0);
    assert_eq!(pool.state(0), Some(NodeState::Down));
    pool.arrive(offer(0, 4, 0, 100));
    assert_eq!(place(&pool, &tasks(1)).unwrap(), "0:1x[3]");
    assert_eq!(place(&pool, &tasks(2)), None);
    pool.give_back(JobId(1)).unwrap();
    assert_eq!(place(&pool, &tasks(4)).unwrap(), "0:4x[0-3]");
}

#[test]
fn a_drain_is_remembered_for_a_broker_that_has_not_come_yet() {
    let mut pool = Pool::default();
    pool.drain(0, "disk".into());
    pool.arrive(offer(0, 4, 0, 100));
    assert_eq!(pool.state(0), Some(NodeState::Drained("disk".into())));
    assert_eq!(pool.drains().collect::<Vec<_>>(), [(0, "disk")]);
    assert_eq!(place(&pool, &tasks(1)), None);
    pool.undrain(0);
    assert_eq!(place(&pool, &tasks(1)).unwrap(), "0:1x[0]");
}
