//! The user that a recorded command runs as: the one that called `sudo`, not root.
//!
//! Recording needs root, but the command that is recorded seldom does. It gets what `sudo -u` would give it: the user's
//! number, groups and environment. It is started by a thread that has taken this identity before, because a child
//! inherits the identity of the thread that starts it. The other threads stay root's.
//!
//! From the change on, the kernel lets nobody but root trace this process or read its memory.
//!
//! Rejected: `Command::uid`, which leaves out the user's supplementary groups; a hook between fork and exec, which is
//! unsafe code; and the program `setpriv`, which not every machine has.

use std::ffi::{CString, OsString};
use std::io;
use std::process::{Child, Command};
use std::thread;

use framewright_trace::output;
use nix::unistd::{Gid as NixGid, Uid as NixUid, User, getgrouplist};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// Variables by which `sudo` says who called it.
const SUDO: [&str; 4] = ["SUDO_UID", "SUDO_GID", "SUDO_USER", "SUDO_COMMAND"];

/// A user, as a command is to have it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    user: Uid,
    group: Gid,
    groups: Vec<Gid>,
    /// Variables of the user's own.
    variables: Vec<(&'static str, OsString)>,
    /// For messages.
    name: String,
}

impl Identity {
    /// The user that called this program through `sudo`.
    ///
    /// None if the program does not run as root, or root itself called it.
    ///
    /// # Errors
    /// The system's list of users cannot be read.
    pub fn of_caller() -> io::Result<Option<Identity>> {
        match output::caller() {
            Some((user, group)) if user != 0 => Identity::of(user, group).map(Some),
            _ => Ok(None),
        }
    }

    fn of(user: u32, group: u32) -> io::Result<Identity> {
        let group = Gid::from_raw(group);
        let found = User::from_uid(NixUid::from_raw(user))?;
        let mut identity = Identity {
            user: Uid::from_raw(user),
            group,
            groups: vec![group],
            variables: Vec::new(),
            name: found.as_ref().map_or_else(|| format!("user {user}"), |found| found.name.clone()),
        };
        if let Some(found) = found {
            let name = CString::new(found.name.clone())?;
            let groups = getgrouplist(&name, NixGid::from_raw(group.as_raw()))?;
            identity.groups = groups.into_iter().map(|group| Gid::from_raw(group.as_raw())).collect();
            identity.variables = vec![
                ("HOME", found.dir.into()),
                ("SHELL", found.shell.into()),
                ("USER", found.name.clone().into()),
                ("LOGNAME", found.name.into()),
            ];
        }
        Ok(identity)
    }

    /// The user's name, or number.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Starts a command as this user.
    ///
    /// # Errors
    /// The identity cannot be taken, or the command cannot be started.
    pub(super) fn start(&self, mut command: Command) -> io::Result<Child> {
        SUDO.iter().for_each(|name| _ = command.env_remove(name));
        command.envs(self.variables.iter().cloned());
        let start = || {
            // The groups first: a user that is not root may not change them.
            set_thread_groups(&self.groups)?;
            set_thread_res_gid(self.group, self.group, self.group)?;
            set_thread_res_uid(self.user, self.user, self.user)?;
            command.spawn()
        };
        let started = thread::scope(|scope| scope.spawn(start).join());
        started.unwrap_or_else(|_| Err(io::Error::other("the thread that starts it has died")))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    fn said(identity: &Identity, script: &str) -> String {
        let mut command = Command::new("sh");
        command.args(["-c", script]).env("SUDO_UID", "1").stdout(Stdio::piped());
        let output = identity.start(command).unwrap().wait_with_output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// The command is not root in any of its numbers, and this process still is.
    #[test]
    fn a_command_is_the_user_that_it_is_to_be() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: only root may start a command as another user");
            return;
        }
        // A user that this machine does not know has its number alone.
        let unknown = Identity::of(54_321, 54_322).unwrap();
        assert_eq!(unknown.name(), "user 54321");
        let script =
            "id -u; id -g; id -G; grep -E '^(Uid|Gid|Groups|CapEff):' /proc/self/status; echo ${SUDO_UID-none}";
        let found: Vec<String> =
            said(&unknown, script).lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        let expected = [
            "54321",
            "54322",
            "54322",
            "Uid: 54321 54321 54321 54321",
            "Gid: 54322 54322 54322 54322",
            "Groups: 54322",
            "CapEff: 0000000000000000",
            "none",
        ];
        assert_eq!(found, expected);
        assert!(rustix::process::geteuid().is_root() && rustix::process::getegid().as_raw() == 0);
    }

    /// One that it knows has its groups, home and name.
    #[test]
    fn a_known_user_has_its_groups_and_home() {
        let Some(known) = User::from_name("daemon").unwrap().filter(|_| rustix::process::geteuid().is_root()) else {
            eprintln!("SKIPPED: this is not root, or there is no user daemon");
            return;
        };
        let identity = Identity::of(known.uid.as_raw(), known.gid.as_raw()).unwrap();
        let expected = Command::new("id").args(["-G", "daemon"]).output().unwrap().stdout;
        let groups = |text: &str| {
            let mut groups: Vec<u32> = text.split_whitespace().map(|group| group.parse().unwrap()).collect();
            groups.sort_unstable();
            groups
        };
        assert_eq!(groups(&said(&identity, "id -G")), groups(&String::from_utf8(expected).unwrap()));
        let home = known.dir.display();
        assert_eq!(said(&identity, "echo $HOME $USER $LOGNAME"), format!("{home} daemon daemon\n"));
    }
}
