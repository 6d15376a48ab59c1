//! The accounts of a lab's Slurm: slurmdbd over a MariaDB in the lab's folder, which nobody reaches but
//! by a socket in it.
//!
//! It is the server alone (`mariadb-server-core`), told to pass over the tables of rights, which
//! therefore need not be made: it listens after a fraction of a second.

use super::Lab;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

const DATABASE: &str = "/usr/sbin/mariadbd";
const PROGRAMS: [(&str, &str); 2] =
    [("/usr/sbin/slurmdbd", "slurmdbd"), (DATABASE, "mariadb-server-core")];

/// Why there can be no accounts here: `None` if there can.
pub(super) fn missing() -> Option<String> {
    let (program, package) =
        PROGRAMS.into_iter().find(|(program, _)| !Path::new(program).exists())?;
    Some(format!("{program} is not there: apt-get install {package}"))
}

impl Lab {
    /// Starts the database and slurmdbd, and makes the cluster known to it, so that slurmctld finds it.
    pub(super) fn keep_accounts(&mut self, port: u16) {
        fs::create_dir(self.path("database")).unwrap();
        let flag = |name: &str, file: &str| format!("--{name}={}", self.path(file).display());
        let flags = [
            // First of all: nothing from the machine's own configuration.
            "--no-defaults".to_owned(),
            "--user=root".to_owned(),
            "--skip-networking".to_owned(),
            "--skip-grant-tables".to_owned(),
            "--skip-log-bin".to_owned(),
            "--innodb-log-file-size=4M".to_owned(),
            // It need not outlive the machine.
            "--innodb-flush-log-at-trx-commit=0".to_owned(),
            "--innodb-doublewrite=0".to_owned(),
            flag("datadir", "database"),
            flag("socket", "database.sock"),
            flag("pid-file", "database.pid"),
            flag("log-error", "log/database"),
        ];
        let words: Vec<&str> = flags.iter().map(String::as_str).collect();
        self.run(DATABASE, &words);
        self.until("the database listens", |lab| {
            UnixStream::connect(lab.path("database.sock")).is_ok()
        });
        let at = self.folder.path().display();
        let text = format!(
            "AuthType=auth/munge\nAuthInfo=socket={at}/munge.sock\nDbdHost=localhost\nDbdPort={port}\n\
             SlurmUser=root\nLogFile={at}/log/slurmdbd\nPidFile={at}/slurmdbd.pid\nCommitDelay=1\n\
             StorageType=accounting_storage/mysql\nStorageHost=localhost\nStorageLoc=accounts\n\
             StorageUser=root\n"
        );
        let file = self.path("slurmdbd.conf");
        fs::write(&file, text).unwrap();
        // slurmdbd refuses one that others can read.
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        self.run("/usr/sbin/slurmdbd", &["-D"]);
        self.until("slurmdbd knows the cluster", |lab| {
            lab.output(&["sacctmgr", "-i", "add", "cluster", "lab"]).status.success()
        });
    }
}
