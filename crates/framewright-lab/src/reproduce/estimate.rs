//! A mean over seeds, and how sure it is.
//!
//! Each seed is a run of its own, so what their mean would be over all seeds lies, 95 times of 100, within Student's
//! *t* standard errors of it. That says how much chance there is in a number of the model's, and nothing about how
//! right the model is.

use std::fmt;

use serde::Serialize;

use framewright_table::figures::grouped;

/// Two-sided 95 % quantiles of Student's distribution, from one degree of freedom on; for more than these the last is
/// taken, which is too wide.
const STUDENT: [f64; 15] =
    [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131];

/// A mean with its interval. Of one seed there is none.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Lower end of the interval. What is measured here is never below zero.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

impl Estimate {
    /// From a number for each seed; none of none.
    pub fn of(samples: impl IntoIterator<Item = f64>) -> Option<Self> {
        let samples: Vec<f64> = samples.into_iter().collect();
        let count = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / count;
        let freedom = samples.len().checked_sub(1)?;
        if freedom == 0 {
            return Some(Self { mean, low: None, high: None });
        }
        let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
        let error = (squares / freedom as f64 / count).sqrt() * STUDENT[freedom.min(STUDENT.len()) - 1];
        Some(Self { mean, low: Some((mean - error).max(0.0)), high: Some(mean + error) })
    }

    /// By how much the mean may be off; of one seed nobody knows.
    pub fn error(&self) -> Option<f64> {
        self.high.map(|high| high - self.mean)
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&grouped(self.mean))?;
        self.error().map_or(Ok(()), |error| write!(f, " ±{}", grouped(error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_students() {
        assert_eq!(Estimate::of([]), None);
        assert_eq!(Estimate::of([7.0]), Some(Estimate { mean: 7.0, low: None, high: None }));
        // The standard error of these is 1, and there are two degrees of freedom.
        let three = Estimate::of([10.0, 10.0 + 3.0f64.sqrt(), 10.0 - 3.0f64.sqrt()]).unwrap();
        assert!((three.mean - 10.0).abs() < 1e-9 && (three.error().unwrap() - 4.303).abs() < 1e-9, "{three:?}");
        assert_eq!(three.to_string(), "10.0 ±4.303");
        let many = Estimate::of((0..40).map(f64::from)).unwrap();
        assert!((many.error().unwrap() - 2.131 * (136.666_666_7f64 / 40.0).sqrt()).abs() < 1e-6, "{many:?}");
        assert_eq!(Estimate::of([0.0, 1.0]).unwrap().low, Some(0.0), "no fewer than none");
    }
}
