//! Programs on both sides of a tunnel: their terminal, signals and exit status stay as they would be without.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd, siginfo};
use nix::unistd::{Pid, getppid};

use super::{Tunnel, TunnelSide};

/// The signals of this process, which are read from now on instead of ending it.
#[derive(Debug)]
pub struct Signals(SignalFd);

impl Signals {
    /// To be called before the first thread is started, since each has signals of its own.
    ///
    /// # Errors
    /// When the system has no more descriptors.
    pub fn take() -> io::Result<Self> {
        let mut all = SigSet::empty();
        FORWARDED.iter().chain([&Signal::SIGCHLD]).for_each(|signal| all.add(*signal));
        all.thread_block()?;
        Ok(Self(SignalFd::with_flags(&all, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?))
    }

    /// The next signal within this time.
    fn wait(&self, patience: Option<Duration>) -> io::Result<Option<siginfo>> {
        let patience = patience.map_or(PollTimeout::NONE, |patience| {
            PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX)
        });
        let mut ready = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        match poll(&mut ready, patience) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(self.0.read_signal()?)
    }
}

/// How running programs ended.
#[derive(Debug)]
pub struct ProgramsEnded {
    /// The near program's status.
    pub near: ExitStatus,
    /// The far program's, if it ended before the near one.
    pub far: Option<ExitStatus>,
    /// Whether the far program listened before the near one was started; true without a far program.
    pub was_ready: bool,
}

/// Why programs do not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// The far program ended before the near one could be started.
    #[error("the far command ended ({0}) before it listened anywhere")]
    FarEnded(ExitStatus),
    /// A signal came before the near program was started.
    #[error("stopped by {0} before the program was started")]
    Stopped(Signal),
    /// The system does not let us.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Runs `near` on the near side until it ends, with `far` on the far side. Both find the far address in the
/// variable [`HOST_VARIABLE`]. The near program has our terminal, and gets the signals that we get. The far
/// one has no standard input, and what it prints goes to our standard error; `near` waits until it listens,
/// and it is ended when `near` is. The link stays open a little longer for what the near system has still to
/// send.
///
/// Both commands have to [become](become_program) their programs: that gives them their signals back, and
/// lets them end with us.
///
/// # Errors
/// When a program cannot be started. None of them runs then.
pub fn run(
    tunnel: &Tunnel,
    signals: &Signals,
    near: &mut Command,
    far: Option<&mut Command>,
) -> Result<ProgramsEnded, ProgramError> {
    let (mut far, was_ready) = match far {
        Some(command) => {
            tunnel.enter(TunnelSide::Far)?;
            command.stdin(Stdio::null()).stdout(io::stderr()).process_group(0);
            let mut far = ProcessGroup(environment(command, tunnel).spawn()?);
            let ready = far.wait_until_it_listens(signals);
            tunnel.enter(TunnelSide::Near)?;
            (Some(far), ready?)
        }
        None => (None, true),
    };
    let mut near = environment(near, tunnel).spawn()?;
    let near = attend(&mut near, signals)?;
    linger(tunnel, signals)?;
    let far = match &mut far {
        Some(far) => far.0.try_wait()?,
        None => None,
    };
    Ok(ProgramsEnded { near, far, was_ready })
}

/// Becomes this program, which is killed when the thread of `parent` that started us is gone. Returns only if
/// that fails.
pub fn become_program(parent: u32, words: &[OsString]) -> io::Error {
    let Some((program, arguments)) = words.split_first() else {
        return io::ErrorKind::InvalidInput.into();
    };
    if let Err(error) = prctl::set_pdeathsig(Signal::SIGKILL) {
        return error.into();
    }
    // Our parent reads its signals; the program gets those that have come since it was started, and all
    // others.
    if let Err(error) = SigSet::empty().thread_set_mask() {
        return error.into();
    }
    // It may have died before.
    if u32::try_from(getppid().as_raw()) != Ok(parent) {
        return io::Error::other("its parent is gone");
    }
    Command::new(program).args(arguments).exec()
}

/// The exit status as shells tell it: 128 and the signal for a program that one has ended.
pub fn exit_code(status: ExitStatus) -> u8 {
    match status.code() {
        Some(code) => code.to_le_bytes()[0],
        None => 128 + status.signal().unwrap_or_default().to_le_bytes()[0],
    }
}

/// The far side's address, for the programs.
pub const HOST_VARIABLE: &str = "QUICKSET_LINK_HOST";
/// The same of IPv6, where there is one.
pub const HOST6_VARIABLE: &str = "QUICKSET_LINK_HOST6";

fn environment<'a>(command: &'a mut Command, tunnel: &Tunnel) -> &'a mut Command {
    command.env(HOST_VARIABLE, tunnel.address(TunnelSide::Far).to_string());
    if let Some(host) = tunnel.address6(TunnelSide::Far) {
        command.env(HOST6_VARIABLE, IpAddr::from(host).to_string());
    }
    command
}

/// Forwards signals to a program until it ends.
fn attend(program: &mut Child, signals: &Signals) -> io::Result<ExitStatus> {
    let id = id(program);
    loop {
        if let Some(status) = program.try_wait()? {
            return Ok(status);
        }
        let Some(signal) = signals.wait(None)? else { continue };
        // What comes from the terminal has gone to its whole process group, the program included.
        if let Some(name) = forwarded(&signal).filter(|_| signal.ssi_code != SI_KERNEL) {
            // It may have ended at this moment.
            let _ = kill(id, name);
        }
    }
}

/// Waits until what the near system has accepted from its programs is delivered and acknowledged: a TCP
/// connection outlives the program that closed it. Not for long, and not after a signal.
fn linger(tunnel: &Tunnel, signals: &Signals) -> io::Result<()> {
    let until = Instant::now() + LINGER;
    while Instant::now() < until && (tunnel.in_flight() > 0 || sockets(is_sending)) {
        if signals.wait(Some(LOOK))?.is_some_and(|signal| forwarded(&signal).is_some()) {
            break;
        }
    }
    Ok(())
}

/// A program with a process group of its own, which ends with this.
struct ProcessGroup(Child);

impl ProcessGroup {
    /// Returns whether it listens: false if it does not after a while.
    fn wait_until_it_listens(&mut self, signals: &Signals) -> Result<bool, ProgramError> {
        let until = Instant::now() + START;
        while Instant::now() < until {
            if let Some(status) = self.0.try_wait()? {
                return Err(ProgramError::FarEnded(status));
            }
            if sockets(is_open) {
                return Ok(true);
            }
            if let Some(signal) = signals.wait(Some(LOOK))?.and_then(|signal| forwarded(&signal)) {
                return Err(ProgramError::Stopped(signal));
            }
        }
        Ok(false)
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let group = id(&self.0);
        let until = Instant::now() + PARTING;
        // As long as the leader is not waited for, its number is nobody else's. Others may outlive it: those
        // that a shell has started, say.
        let _ = killpg(group, Signal::SIGTERM);
        while Instant::now() < until && is_running(group) {
            std::thread::sleep(LOOK);
        }
        if is_running(group) {
            let _ = killpg(group, Signal::SIGKILL);
        }
        // It may have left its group.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether anybody of a process group has not ended.
fn is_running(group: Pid) -> bool {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes =
        entries.filter(|entry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit));
    // It may be gone by now.
    let of = |entry: fs::DirEntry| process(&fs::read_to_string(entry.path().join("stat")).ok()?);
    processes.filter_map(of).any(|(state, other)| other == group.as_raw() && !matches!(state, 'Z' | 'X'))
}

/// State and group of a process from /proc/PID/stat: the first and the third field behind its name, which is
/// in parentheses and may have some itself (proc(5)).
fn process(stat: &str) -> Option<(char, i32)> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(1)?.parse().ok()?))
}

/// Whether the thread's namespace has a socket of which this holds: transport, state, bytes to be sent.
fn sockets(holds: fn(&str, u8, u64) -> bool) -> bool {
    ["tcp", "tcp6", "udp", "udp6"].into_iter().any(|transport| {
        let table = fs::read_to_string(format!("/proc/thread-self/net/{transport}")).unwrap_or_default();
        table.lines().skip(1).filter_map(socket).any(|(state, unsent)| holds(&transport[..3], state, unsent))
    })
}

/// State and bytes to be sent of a row of /proc/net/tcp or udp: columns 4 and 5 (proc(5)), in hexadecimal.
fn socket(row: &str) -> Option<(u8, u64)> {
    let mut columns = row.split_whitespace().skip(3);
    let state = u8::from_str_radix(columns.next()?, 16).ok()?;
    let (unsent, _) = columns.next()?.split_once(':')?;
    Some((state, u64::from_str_radix(unsent, 16).ok()?))
}

/// A TCP server, or any socket of UDP.
fn is_open(transport: &str, state: u8, _unsent: u64) -> bool {
    transport == "udp" || state == TCP_LISTEN
}

/// A TCP connection with bytes, or its end, not acknowledged yet.
fn is_sending(transport: &str, state: u8, unsent: u64) -> bool {
    transport == "tcp" && (matches!(state, TCP_FIN_WAIT1 | TCP_LAST_ACK | TCP_CLOSING) || unsent > 0)
}

/// The signal, if it is one to be forwarded.
fn forwarded(signal: &siginfo) -> Option<Signal> {
    let number = i32::try_from(signal.ssi_signo).ok()?;
    Signal::try_from(number).ok().filter(|signal| FORWARDED.contains(signal))
}

fn id(program: &Child) -> Pid {
    Pid::from_raw(
        i32::try_from(program.id()).expect("the system's process ids are positive numbers of 32 bits"),
    )
}

/// Those that stop a process, and continue it, are not among them: a terminal sends them to the group, and
/// the default is right for us too.
const FORWARDED: &[Signal] = &[
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
];
/// `si_code` of signals that the kernel sends, such as a terminal's (sigaction(2)).
const SI_KERNEL: i32 = 0x80;
// include/net/tcp_states.h
const TCP_FIN_WAIT1: u8 = 4;
const TCP_LAST_ACK: u8 = 9;
const TCP_LISTEN: u8 = 10;
const TCP_CLOSING: u8 = 11;

/// How long a far program may take until it listens.
const START: Duration = Duration::from_secs(10);
/// How long the link stays open after the near program, and the far program has for its end.
const LINGER: Duration = Duration::from_secs(5);
const PARTING: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_told_from_tables() {
        let listens =
            "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1";
        let closing =
            "   1: 02004D0A:D431 01004D0A:1F90 09 0000002C:00000000 01:00000014 00000000     0        0 0 2";
        assert_eq!(socket(listens), Some((TCP_LISTEN, 0)));
        assert_eq!(socket(closing), Some((TCP_LAST_ACK, 44)));
        assert_eq!(socket("  sl  local_address rem_address   st tx_queue rx_queue"), None);
        assert!(is_open("tcp", TCP_LISTEN, 0) && is_open("udp", 7, 0) && !is_open("tcp", 1, 0));
        assert!(is_sending("tcp", TCP_LAST_ACK, 0) && is_sending("tcp", 1, 5) && !is_sending("tcp", 1, 0));
        assert!(!is_sending("udp", 7, 5));
    }

    #[test]
    fn processes_are_told_from_their_tables() {
        assert_eq!(process("4711 (a) b (c)) S 1 42 42 0 -1 4194560"), Some(('S', 42)));
        assert_eq!(process("4711 (sh) Z 1 42"), Some(('Z', 42)));
        assert_eq!(process("4711"), None);
        let own = nix::unistd::getpgrp();
        assert!(is_running(own));
    }

    /// What a far command has started ends with it, also what does not end when it is asked to.
    #[test]
    fn nobody_of_a_group_is_left() {
        let script = "(trap '' TERM; echo ready; exec sleep 60) & echo $!; exec sleep 60";
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        let mut group = ProcessGroup(command.spawn().unwrap());
        let out = io::BufReader::new(group.0.stdout.take().unwrap());
        let lines: Vec<String> = io::BufRead::lines(out).take(2).map(Result::unwrap).collect();
        let stubborn = lines.iter().find_map(|line| line.parse::<u32>().ok()).unwrap();
        let is_there = || {
            let stat = fs::read_to_string(format!("/proc/{stubborn}/stat")).unwrap_or_default();
            stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
        };
        assert!(is_there(), "{lines:?}");
        drop(group);
        let until = Instant::now() + Duration::from_secs(10);
        while is_there() {
            assert!(Instant::now() < until, "{stubborn} is still there");
            std::thread::sleep(LOOK);
        }
    }

    #[test]
    fn statuses_are_those_of_shells() {
        assert_eq!(exit_code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(exit_code(ExitStatus::from_raw(15)), 143);
    }
}
