//! What sacct is asked, beside the recorded command lines, and jobs that end as only an account remembers.

use super::lab::Lab;

/// Asked while jobs run, wait and are over, and again when a limit was reached and a node was lost.
pub(crate) const LINES: &[&str] = &[
    "sacct -n",
    "sacct -p",
    "sacct -P -n -X",
    "sacct -P --delimiter=; -X",
    "sacct -l -P",
    "sacct -l",
    "sacct -e",
    "sacct --helpformat",
    "sacct -P -o JobID,JobIDRaw,JobName,Partition,Account,User,UID,GID,Group,State,ExitCode,Cluster,QOS",
    "sacct -P -o JobID,AllocCPUS,NCPUS,ReqCPUS,AllocNodes,NNodes,ReqNodes,NTasks,NodeList,ReqMem,AllocTRES,ReqTRES",
    "sacct -P -o JobID,Submit,Eligible,Start,End,Elapsed,ElapsedRaw,CPUTime,CPUTimeRAW,Timelimit,TimelimitRaw",
    "sacct -P -o JobID,Reserved,ResvCPU,ResvCPURAW,Suspended,UserCPU,SystemCPU,TotalCPU,MaxRSS,AveRSS,MaxVMSize",
    "sacct -P -X -o JobID,WorkDir,Constraints,Comment,DerivedExitCode,Reservation,Priority",
    "sacct -o jobid,jobname%-20,st%3,nodelist%-10,alloctres%30",
    "sacct -X -o jobid%30,user%3,elapsed%-12,exitcode%0",
    "sacct -X -o jobid,uid%3,priority%3,start%4,elapsed%4,elapsedraw%1,cputime%3,reserved%3,timelimit%4,ncpus%1",
    "sacct -X -o jobid%x,nnodes%1,end%-4,reqmem%1,timelimitraw%1,resvcpu%3,suspended%2,exitcode%2,user%1",
    "sacct -j 5",
    "sacct -j 5.batch,9_1 -o JobID,State",
    "sacct -j 14 -X -P",
    "sacct -j 14_0,14_1 -n",
    "sacct -j 999",
    "sacct -S 00:00 -X -n",
    "sacct --starttime=now-1hour --endtime=now -X -P",
    "sacct -S now+1hour -E now+2hours -X -P",
    "sacct -S 2020-01-01 -E 2020-01-02 -X -P",
    "sacct -s R -X -P",
    "sacct -s R -S 00:00 -E now -X -P -o JobID,State,Start,End",
    "sacct -s PD -S 00:00 -E now -X -P -o JobID,State,Start,End",
    "sacct -s CD,F,CA,TO,NF -S 00:00 -E now -X -P -o JobID,State,ExitCode",
    "sacct -s pending,running -S 00:00 -E now -X -P -o JobID,State,Start,NodeList",
    "sacct -s completed -S now-1hour -E now -P -o JobID,State",
    "sacct -u nobody -P",
    "sacct -u 65534,root -X -P -n",
    "sacct -a -X -P -n",
    "sacct -r short -X -P -n",
    "sacct -r batch,short -X -n",
    "sacct -A root -X -P -n",
    "sacct -q normal -X -P -n",
    "sacct -g root -X -P -n",
    "sacct -N worker-0-1 -X -P -n",
    "sacct -N worker-0-[0-1] -X -P -n",
    "sacct --name=done,steps -X -P -n",
    "sacct -i 2 -X -P -n",
    "sacct -i 1-2 -I 3-4 -X -P -n -o JobID,NNodes,NCPUS",
    "sacct -k 10 -X -P -n -o JobID,Timelimit",
    "sacct -k 10 -K 60 -X -P -n -o JobID,Timelimit",
    "sacct -C fast -S 00:00 -X -P -n",
    "sacct -T -S now-3seconds -X -P -n -o JobID,Start,End,Elapsed",
    "sacct --units=G -P -o JobID,ReqMem,AllocTRES,ReqTRES",
    "sacct --units=K -X -P -o JobID,ReqMem,ReqTRES",
    "sacct --noconvert -X -P -o JobID,ReqMem,ReqTRES",
    "sacct -M lab -X -n",
    "sacct -L -X -P -n -o Cluster,JobID",
    "sacct -c -X -n",
];

/// Refused: the first line of standard error, and the code.
pub(crate) const WRONG: &[&str] = &[
    "sacct -o jobid,bogus",
    "sacct -j x",
    "sacct -s xx",
    "sacct -S 1x",
    "sacct -E yesterday-ish",
    "sacct foo",
    "sacct --bogus",
    "sacct -Y",
    "sacct --units=X",
    "sacct -i x",
    "sacct -I 1-x",
    "sacct -k x",
];

/// Has job 1 end by its limit. slurmctld looks for such jobs twice a minute, so this is done early.
pub(crate) fn limit(lab: &Lab) {
    done(lab, &["scontrol", "update", "jobid=1", "endtime=now+3"]);
}

fn done(lab: &Lab, words: &[&str]) {
    let output = lab.output(words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Cancels an array, and loses a node: job 13 is over with it.
pub(crate) fn end(lab: &Lab) {
    done(lab, &["scancel", "14"]);
    lab.until("the array is cancelled", |lab| {
        lab.ask(&["squeue", "-h", "-t", "all", "-j", "14", "-o", "%T"])
            .lines()
            .all(|state| state == "CANCELLED")
    });
    done(lab, &["scontrol", "update", "nodename=worker-0-1", "state=down", "reason=lost"]);
    lab.until("a job is over with its node, another by its limit", |lab| {
        let states = lab.ask(&["sacct", "-X", "-P", "-n", "-j", "1,13", "-o", "State"]);
        states == "TIMEOUT\nNODE_FAIL\n"
    });
    // slurmctld keeps what completes apart until its script has said so.
    lab.until("nothing completes", |lab| lab.ask(&["squeue", "-h", "-t", "CG"]).is_empty());
}

/// Waits until the accounts say what slurmctld says: it writes to them behind its answers.
pub(crate) fn settled(lab: &Lab) {
    lab.until("the accounts have caught up", |lab| {
        let accounts = lab.ask(&["sacct", "-X", "-P", "-n", "-a", "-o", "JobID,State"]);
        let queue = lab.ask(&["squeue", "-h", "-t", "all", "-r", "-o", "%i %T"]);
        let said = |id: &str, state: &str| {
            accounts
                .lines()
                .filter_map(|line| line.split_once('|'))
                .any(|(known, told)| known == id && told.split(' ').next() == Some(state))
        };
        let over = ["COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL", "RUNNING"];
        let mut lines = queue.lines().filter_map(|line| line.split_once(' '));
        lines.all(|(id, state)| !over.contains(&state) || said(id, state))
            && accounts.matches("RUNNING").count() == queue.matches("RUNNING").count()
    });
}
