//! Machines of the simulation: cores that work off what comes, in its order.

/// Time in nanoseconds of the simulation.
pub type Nanos = u64;

/// A machine.
#[derive(Debug)]
pub struct Machine {
    /// When each core has done what it was given so far.
    free_at: Vec<Nanos>,
    /// By how much its clock is ahead.
    pub skew_us: i64,
}

impl Machine {
    /// With so many cores, and a clock that is ahead by `skew_us`.
    pub fn new(cores: usize, skew_us: i64) -> Machine {
        Machine { free_at: vec![0; cores.max(1)], skew_us }
    }

    /// Work of so many microseconds comes at `now`; when it is done.
    pub fn work(&mut self, now: Nanos, us: f64) -> Nanos {
        let nanos = (us * 1000.0) as Nanos;
        let Some(core) = self.free_at.iter_mut().min() else { return now };
        *core = (*core).max(now) + nanos;
        *core
    }

    /// What its clock shows at `now`, in microseconds.
    pub fn clock_us(&self, now: Nanos) -> u64 {
        (CLOCK_BEGAN_US + now / 1000).saturating_add_signed(self.skew_us)
    }
}

/// What clocks show at the beginning: writes were counted for hours by then.
pub const CLOCK_BEGAN_US: u64 = 100_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_work_side_by_side_and_what_comes_waits() {
        let mut machine = Machine::new(2, -3);
        let done = [0, 0, 1000].map(|now| machine.work(now, 5.0));
        assert_eq!(done, [5000, 5000, 10_000]);
        assert_eq!(machine.work(50_000, 1.0), 51_000);
        assert_eq!(machine.clock_us(7000), CLOCK_BEGAN_US + 4);
    }
}
