use super::*;

fn ended(rank: u32, end: TaskEnd) -> Ended {
    Ended { rank, end, session: Session::None, stopped: false, log_tail: Vec::new() }
}

fn second() -> Duration {
    Duration::from_secs(1)
}

#[test]
fn all_zero_is_success() {
    let mut judge = Judge::new(2, false);
    assert_eq!(judge.task_ended(&ended(0, TaskEnd::Exited(0)), 0, "a"), Verdict::Continue);
    assert!(!judge.done());
    judge.task_ended(&ended(1, TaskEnd::Exited(0)), 1, "b");
    assert!(judge.done());
    assert_eq!(judge.outcome(second()), Outcome::completed());
}

#[test]
fn the_highest_code_wins_and_the_first_failure_is_named() {
    let mut judge = Judge::new(4, false);
    assert_eq!(
        judge.task_ended(&ended(1, TaskEnd::Exited(2)), 1, "worker-0-0"),
        Verdict::End(LINGER)
    );
    judge.task_ended(&ended(3, TaskEnd::Exited(4)), 3, "worker-0-2");
    // Told to end: what they say of it does not count.
    for rank in [0, 2] {
        let task = Ended { stopped: true, ..ended(rank, TaskEnd::Signaled(15)) };
        judge.task_ended(&task, 0, "launcher-0-0");
    }
    assert!(judge.done());
    let outcome = judge.outcome(Duration::from_millis(12_400));
    assert_eq!(outcome.exit_code, 4);
    assert_eq!(
        outcome.message,
        "rank 1 on worker-0-0 ended with code 2 after 12.4 s; the other 3 ranks were stopped"
    );
    assert_eq!(outcome.failure.unwrap().rank, Some(1));
}

#[test]
fn a_signal_is_128_and_its_number() {
    let mut judge = Judge::new(1, false);
    let verdict = judge.task_ended(&ended(0, TaskEnd::Signaled(11)), 2, "worker-0-1");
    assert_eq!(verdict, Verdict::End(Duration::ZERO));
    let outcome = judge.outcome(second());
    assert_eq!((outcome.exit_code, outcome.reason), (139, Reason::Signaled));
    assert_eq!(
        outcome.message,
        "rank 0 on worker-0-1 was ended by signal 11 (segmentation fault) after 1.00 s"
    );
    assert_eq!(outcome.failure.unwrap().signal, Some(11));
}

#[test]
fn the_code_of_mpi_abort_wins_over_higher_ones() {
    let mut judge = Judge::new(3, false);
    judge.task_ended(&ended(2, TaskEnd::Exited(134)), 0, "a");
    assert_eq!(judge.aborted(1, 0, "a", 77), Verdict::End(Duration::ZERO));
    judge.aborted(0, 0, "a", 3);
    let outcome = judge.outcome(second());
    assert_eq!((outcome.exit_code, outcome.reason), (77, Reason::Aborted));
    assert_eq!(outcome.failure.unwrap().rank, Some(1));
}

#[test]
fn an_abort_with_zero_is_no_success() {
    let mut judge = Judge::new(1, false);
    judge.aborted(0, 0, "a", 256);
    assert_eq!(judge.outcome(second()).exit_code, 1);
}

#[test]
fn zero_without_finalize_is_a_failure() {
    let mut judge = Judge::new(2, true);
    let task = Ended { session: Session::Open, ..ended(1, TaskEnd::Exited(0)) };
    assert_eq!(judge.task_ended(&task, 1, "worker-0-0"), Verdict::End(LINGER));
    let outcome = judge.outcome(second());
    assert_eq!((outcome.exit_code, outcome.reason), (1, Reason::NotFinalized));
    let mut judge = Judge::new(1, false);
    let task = Ended { session: Session::Closed, ..ended(0, TaskEnd::Exited(0)) };
    assert_eq!(judge.task_ended(&task, 0, "a"), Verdict::Continue);
    assert_eq!(judge.outcome(second()), Outcome::completed());
}

#[test]
fn commands_that_do_not_start_have_the_codes_of_the_shell() {
    for (end, code, reason) in [
        (TaskEnd::NotFound("nope".into()), 127, Reason::CommandNotFound),
        (TaskEnd::NotExecutable("./x: permission denied".into()), 126, Reason::NotExecutable),
    ] {
        let mut judge = Judge::new(1, false);
        judge.task_ended(&ended(0, end), 1, "worker-0-0");
        let outcome = judge.outcome(second());
        assert_eq!((outcome.exit_code, outcome.reason), (code, reason));
        assert!(outcome.message.contains("worker-0-0"), "{}", outcome.message);
        // What never ran has no time.
        assert!(!outcome.message.contains("after"), "{}", outcome.message);
    }
}

#[test]
fn a_rank_that_was_killed_for_memory_is_not_just_killed() {
    let mut judge = Judge::new(2, false);
    judge.task_ended(&ended(1, TaskEnd::OutOfMemory), 1, "worker-0-0");
    let outcome = judge.outcome(second());
    assert_eq!((outcome.exit_code, outcome.reason), (137, Reason::OutOfMemory));
    assert_eq!(outcome.failure.unwrap().signal, Some(9));
    assert_eq!(
        outcome.message,
        "rank 1 on worker-0-0 ran out of memory and was killed after 1.00 s; the other rank was \
         stopped"
    );
}

#[test]
fn one_other_rank_is_the_other_rank() {
    let mut judge = Judge::new(2, false);
    judge.task_ended(&ended(1, TaskEnd::Exited(2)), 1, "worker-0-0");
    assert_eq!(
        judge.outcome(second()).message,
        "rank 1 on worker-0-0 ended with code 2 after 1.00 s; the other rank was stopped"
    );
}

#[test]
fn no_kill_counts_but_ends_nobody() {
    let mut judge = Judge::new(2, true);
    assert_eq!(judge.task_ended(&ended(0, TaskEnd::Exited(9)), 0, "a"), Verdict::Continue);
    judge.task_ended(&ended(1, TaskEnd::Exited(0)), 0, "a");
    let outcome = judge.outcome(second());
    assert_eq!(outcome.exit_code, 9);
    assert!(!outcome.message.contains("stopped"));
}

#[test]
fn a_lost_broker_ends_the_job_with_its_own_code() {
    let mut judge = Judge::new(4, true);
    let verdict = judge.broker_lost(2, "worker-0-1", 2, "connection closed");
    assert_eq!(verdict, Verdict::End(Duration::ZERO));
    assert!(!judge.done());
    for rank in [0, 1] {
        judge.task_ended(&Ended { stopped: true, ..ended(rank, TaskEnd::Signaled(9)) }, 0, "a");
    }
    assert!(judge.done());
    let outcome = judge.outcome(second());
    assert_eq!((outcome.exit_code, outcome.reason), (69, Reason::BrokerLost));
    assert!(outcome.message.starts_with("worker-0-1 was lost (connection closed)"));
}

#[test]
fn an_interrupt_is_a_cancellation() {
    let mut judge = Judge::new(1, false);
    judge.canceled(Cancel::Signal(2));
    judge.task_ended(&Ended { stopped: true, ..ended(0, TaskEnd::Signaled(2)) }, 0, "a");
    let outcome = judge.outcome(second());
    assert_eq!((outcome.exit_code, outcome.reason), (130, Reason::Canceled));
}

#[test]
fn dying_of_the_signal_that_the_user_sent_is_no_failure_of_the_rank() {
    let mut judge = Judge::new(1, false);
    judge.asked(15);
    judge.task_ended(&ended(0, TaskEnd::Signaled(15)), 0, "a");
    let outcome = judge.outcome(second());
    assert_eq!((outcome.exit_code, outcome.reason), (143, Reason::Canceled));
    let mut judge = Judge::new(1, false);
    judge.asked(15);
    judge.task_ended(&ended(0, TaskEnd::Exited(0)), 0, "a");
    assert_eq!(judge.outcome(second()), Outcome::completed());
}

#[test]
fn peers_that_abort_because_a_rank_died_are_not_the_cause() {
    let mut judge = Judge::new(2, false);
    let left = Ended { session: Session::Open, ..ended(1, TaskEnd::Exited(0)) };
    judge.task_ended(&left, 1, "worker-0-0");
    judge.aborted(0, 0, "launcher-0-0", 14);
    let outcome = judge.outcome(second());
    assert_eq!((outcome.exit_code, outcome.reason), (1, Reason::NotFinalized));
}

#[test]
fn an_instance_goes_on_without_all_brokers_but_its_first() {
    let mut judge = Judge::of_instance(4, 2);
    let closed = |rank, end| Ended { session: Session::Closed, ..ended(rank, end) };
    assert_eq!(judge.broker_lost(5, "worker-0-4", 1, "killed"), Verdict::Continue);
    let killed = closed(3, TaskEnd::Signaled(9));
    assert_eq!(judge.task_ended(&killed, 4, "worker-0-3"), Verdict::Continue);
    judge.task_ended(&closed(0, TaskEnd::Exited(3)), 2, "worker-0-1");
    judge.task_ended(&closed(1, TaskEnd::Exited(0)), 3, "worker-0-2");
    assert!(judge.done());
    assert_eq!(judge.outcome(second()).exit_code, 3);

    let mut judge = Judge::of_instance(2, 2);
    assert_eq!(judge.broker_lost(2, "worker-0-1", 1, "killed"), Verdict::End(Duration::ZERO));
    judge.task_ended(&Ended { stopped: true, ..closed(1, TaskEnd::Signaled(15)) }, 3, "b");
    assert_eq!(judge.outcome(second()).exit_code, exit::BROKER_LOST);

    // Who has not met the others yet keeps them waiting.
    let mut judge = Judge::of_instance(2, 0);
    let never = Ended { session: Session::Open, ..ended(1, TaskEnd::Exited(1)) };
    assert_eq!(judge.task_ended(&never, 1, "worker-0-0"), Verdict::End(LINGER));
}

#[test]
fn an_instance_whose_broker_does_not_start_ends_instead_of_waiting_for_it() {
    for rank in [0, 1] {
        let mut judge = Judge::of_instance(2, 0);
        let why = TaskEnd::NotStarted("the script cannot be written".into());
        let never = Ended { session: Session::None, ..ended(rank, why) };
        assert_eq!(judge.task_ended(&never, 0, "launcher-0-0"), Verdict::End(Duration::ZERO));
        let outcome = judge.outcome(second());
        assert_eq!((outcome.exit_code, outcome.reason), (1, Reason::Environment));
    }
}
