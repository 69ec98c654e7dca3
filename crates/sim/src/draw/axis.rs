//! Where values stand on an axis, and its marks.

/// Most marks of an axis that grows by factors.
const DECADES_SHOWN_MAX: i32 = 8;

/// From the least to the greatest value that can be shown.
pub(super) struct Axis {
    pub from: f64,
    pub to: f64,
    logarithmic: bool,
}

impl Axis {
    /// Of y: from zero, unless all values are far from it and it may be `loose`; up to a mark.
    pub fn of_values(values: impl Iterator<Item = f64> + Clone, logarithmic: bool, loose: bool) -> Axis {
        let (least, most) = ends(values);
        if logarithmic {
            return Axis::decades(least, most);
        }
        let far = loose && least > 0.5 * most;
        let rough = Axis::between(if far { least } else { least.min(0.0) }, most, false);
        let step = rough.step();
        let from = if far { (rough.from / step).floor() * step } else { rough.from };
        Axis::between(from, (rough.to / step - 1e-9).ceil() * step, false)
    }

    /// Of x: whole decades, or as far as values go where its marks are `given`.
    pub fn along(values: impl Iterator<Item = f64> + Clone, logarithmic: bool, given: bool) -> Axis {
        let (least, most) = ends(values);
        match logarithmic && !given {
            true => Axis::decades(least, most),
            false => Axis::between(if logarithmic { least.max(1e-9) } else { least }, most, logarithmic),
        }
    }

    fn decades(least: f64, most: f64) -> Axis {
        let whole = |value: f64, round: fn(f64) -> f64| 10f64.powf(round(value.max(1e-9).log10()));
        Axis::between(whole(least, f64::floor), whole(most, f64::ceil), true)
    }

    /// One value alone, or none, still needs an axis.
    fn between(from: f64, to: f64, logarithmic: bool) -> Axis {
        let to = if to > from { to } else { from + from.abs().max(1.0) };
        Axis { from, to, logarithmic }
    }

    /// From 0 to 1.
    pub fn place(&self, value: f64) -> f64 {
        match self.logarithmic {
            true => (value.max(self.from) / self.from).log10() / (self.to / self.from).log10(),
            false => (value - self.from) / (self.to - self.from),
        }
    }

    fn step(&self) -> f64 {
        let rough = (self.to - self.from) / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        [1.0, 2.0, 5.0, 10.0].into_iter().map(|f| f * power).find(|&step| step >= rough * 0.999).unwrap_or(rough)
    }

    /// Round values.
    pub fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let decades = (self.to / self.from).log10().round() as i32;
            let each = (decades / DECADES_SHOWN_MAX + 1) as usize;
            return (0..=decades).step_by(each).map(|decade| self.from * 10f64.powi(decade)).collect();
        }
        let step = self.step();
        let first = (self.from / step - 1e-9).ceil() as i64;
        (first..).map(|n| n as f64 * step).take_while(|&tick| tick <= self.to + step * 1e-9).collect()
    }
}

fn ends(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let finite = values.filter(|value| value.is_finite());
    let (least, most) = (finite.clone().reduce(f64::min), finite.reduce(f64::max));
    (least.unwrap_or(0.0), most.unwrap_or(0.0))
}

/// A value in few letters.
pub(super) fn shown(value: f64) -> String {
    match value.abs() {
        size if size >= 1e10 => format!("{value:.0e}"),
        size if size >= 1e6 => format!("{}M", brief(value / 1e6)),
        size if size >= 1e4 => format!("{}k", brief(value / 1e3)),
        size if size >= 10.0 || value == value.round() => brief(value),
        size if size >= 0.1 => format!("{value:.1}"),
        size if size >= 0.01 => format!("{value:.2}"),
        _ => format!("{value:.0e}"),
    }
}

/// With one digit after the point if it matters.
fn brief(value: f64) -> String {
    let tenth = format!("{value:.1}");
    tenth.strip_suffix(".0").map_or(tenth.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_marks() {
        let axis = Axis::of_values([3.0, 47.0].into_iter(), false, true);
        assert_eq!(axis.ticks(), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
        let axis = Axis::of_values([81.0, 88.5].into_iter(), false, true);
        assert_eq!((axis.from, axis.to), (80.0, 90.0));
        assert_eq!(Axis::of_values([81.0, 88.5].into_iter(), false, false).from, 0.0);
        let axis = Axis::of_values([3e-6, 0.2].into_iter(), true, false);
        assert_eq!((axis.ticks().len(), axis.place(1e-6), axis.place(1.0)), (7, 0.0, 1.0));
        let axis = Axis::along([0.1, 25.0].into_iter(), true, true);
        assert_eq!((axis.place(0.1), axis.place(25.0)), (0.0, 1.0));
    }

    #[test]
    fn numbers_are_short() {
        let all = [0.0, 0.25, 0.05, 7.0, 12.5, 250.0, 45_000.0, 2_500_000.0, 1e-6].map(shown);
        assert_eq!(all, ["0", "0.2", "0.05", "7", "12.5", "250", "45k", "2.5M", "1e-6"]);
    }
}
