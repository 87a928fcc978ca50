//! Numbers as Prometheus reads them (text format 0.0.4): families with a help text and a type, in the order in which they were first
//! named, each with all its samples.

use prometheus::proto::{Counter, Gauge, LabelPair, Metric as Sample, MetricFamily, MetricType};
use prometheus::{Encoder as _, TextEncoder};

/// What a number is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It only grows, from 0 at the start of the process.
    Counter,
    /// It comes and goes.
    Gauge,
}

/// A number that is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metric {
    /// By Prometheus' conventions: `ringleader_` first, the unit last, `_total` for a counter.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// What it says.
    pub help: &'static str,
}

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Page {
    families: Vec<MetricFamily>,
}

impl Page {
    /// A sample. Exact up to 2^53, as all that Prometheus knows are doubles.
    pub fn add(&mut self, metric: &Metric, labels: &[(&str, &str)], value: u64) {
        let mut sample = Sample::from_label(labels.iter().map(pair).collect());
        let value = value as f64;
        match metric.kind {
            Kind::Counter => {
                let mut counter = Counter::default();
                counter.set_value(value);
                sample.set_counter(counter);
            }
            Kind::Gauge => {
                let mut gauge = Gauge::default();
                gauge.set_value(value);
                sample.set_gauge(gauge);
            }
        }
        match self.families.iter_mut().find(|family| family.name() == metric.name) {
            Some(family) => family.mut_metric().push(sample),
            None => {
                let mut family = MetricFamily::default();
                family.set_name(metric.name.to_owned());
                family.set_help(metric.help.to_owned());
                family.set_field_type(match metric.kind {
                    Kind::Counter => MetricType::COUNTER,
                    Kind::Gauge => MetricType::GAUGE,
                });
                family.set_metric(vec![sample]);
                self.families.push(family);
            }
        }
    }

    /// Its text, and the type of that.
    pub(super) fn encode(&self) -> (String, String) {
        let encoder = TextEncoder::new();
        // What it refuses, a family without a sample, cannot be here.
        let text = encoder.encode_to_string(&self.families).unwrap_or_default();
        (text, encoder.format_type().to_owned())
    }
}

fn pair((name, value): &(&str, &str)) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name((*name).to_owned());
    pair.set_value((*value).to_owned());
    pair
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden() {
        let verbs = Metric { name: "ringleader_verbs_total", kind: Kind::Counter, help: "Verbs posted." };
        let term = Metric { name: "ringleader_term", kind: Kind::Gauge, help: "A \\ and\na line." };
        let mut page = Page::default();
        page.add(&verbs, &[("group", "a\"b"), ("node", "1")], 1 << 53);
        page.add(&term, &[], 7);
        page.add(&verbs, &[("group", "c"), ("node", "2")], 0);
        let (text, kind) = page.encode();
        assert_eq!(kind, "text/plain; version=0.0.4");
        let expected = "# HELP ringleader_verbs_total Verbs posted.\n\
                        # TYPE ringleader_verbs_total counter\n\
                        ringleader_verbs_total{group=\"a\\\"b\",node=\"1\"} 9007199254740992\n\
                        ringleader_verbs_total{group=\"c\",node=\"2\"} 0\n\
                        # HELP ringleader_term A \\\\ and\\na line.\n\
                        # TYPE ringleader_term gauge\n\
                        ringleader_term 7\n";
        assert_eq!(text, expected);
        assert_eq!(Page::default().encode().0, "");
    }
}
