use quickset_base::Duration;

/// The processor time of this process so far, in user mode and in the kernel; `None` where the system does
/// not tell without a system call of its own.
pub fn processor_time() -> Option<Duration> {
    spent("self", OWN)
}

/// The same of another process.
#[cfg(target_os = "linux")]
pub(crate) fn processor_time_of(process: u32) -> Option<Duration> {
    spent(&process.to_string(), OWN)
}

/// That of processes which this one has waited for, and of those that they have.
#[cfg(target_os = "linux")]
pub(crate) fn processor_time_of_children() -> Option<Duration> {
    spent("self", CHILDREN)
}

fn spent(process: &str, whose: usize) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    ticks(&stat, whose).map(|ticks| TICK * ticks)
}

/// A field of /proc/PID/stat (proc(5)) and the one behind it. The second one is the name of the program,
/// which may hold spaces and parentheses of its own.
fn ticks(stat: &str, first: usize) -> Option<u32> {
    let (_, behind) = stat.rsplit_once(')')?;
    let mut fields = behind.split_whitespace().skip(first - 3);
    let mut next = || fields.next()?.parse::<u32>().ok();
    Some(next()? + next()?)
}

/// utime and stime, and cutime and cstime.
const OWN: usize = 14;
#[cfg(any(target_os = "linux", test))]
const CHILDREN: usize = 16;
/// What the kernel reports in has been this long on every architecture for decades (USER_HZ).
const TICK: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_found_behind_any_name() {
        let stat = "42 (a) b (c)) S 1 42 42 0 -1 4194560 1 2 3 4 250 50 7 8 20 0 1 0 5";
        assert_eq!((ticks(stat, OWN), ticks(stat, CHILDREN)), (Some(300), Some(15)));
        assert_eq!(ticks("42 (a) S 1", OWN), None);
    }
}
