use quickset_base::Duration;

/// The processor time of this process so far, in user mode and in the kernel; `None` where the system does not
/// tell without a system call of its own.
pub fn processor_time() -> Option<Duration> {
    ticks(&std::fs::read_to_string("/proc/self/stat").ok()?).map(|ticks| TICK * ticks)
}

/// The fields 14 and 15 of /proc/PID/stat (proc(5)). The second one is the name of the program, which may hold
/// spaces and parentheses of its own.
fn ticks(stat: &str) -> Option<u32> {
    let (_, behind) = stat.rsplit_once(')')?;
    let mut fields = behind.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u32>().ok();
    Some(next()? + next()?)
}

/// What the kernel reports in has been this long on every architecture for decades (USER_HZ).
const TICK: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_found_behind_any_name() {
        let stat = "42 (a) b (c)) S 1 42 42 0 -1 4194560 1 2 3 4 250 50 7 8 20 0 1 0 5";
        assert_eq!(ticks(stat), Some(300));
        assert_eq!(ticks("42 (a) S 1"), None);
    }
}
