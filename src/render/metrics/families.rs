//! Metric families as plain values, and their way into prometheus-client's encoders.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::identity::Identity;
use crate::render::style::safe;

/// The type of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Counter,
    Gauge,
    Histogram,
    Info,
}

/// The value of a series.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Whole(u64),
    Real(f64),
    /// Sum, count, and for each bucket its upper bound and how many are in it alone.
    Histogram(f64, u64, Vec<(f64, u64)>),
    Info,
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

/// One family, in the order in which it was added.
#[derive(Debug)]
pub(super) struct Family {
    /// Without `_total` and `_info`: the encoders add them.
    name: &'static str,
    help: &'static str,
    kind: Type,
    series: Vec<(Vec<(String, String)>, Value)>,
}

/// All families of a page.
#[derive(Debug, Default)]
pub(super) struct Families(Vec<Family>);

impl Families {
    pub fn add(&mut self, name: &'static str, help: &'static str, kind: Type) -> &mut Family {
        let place = self.0.len();
        self.0.push(Family { name, help, kind, series: Vec::new() });
        &mut self.0[place]
    }

    /// Adds the families of several targets, one behind the other in each family. All have the same families in the
    /// same order.
    pub fn add_all(&mut self, targets: &[(&Identity, &Self)]) {
        let Some((_, first)) = targets.first() else { return };
        for (place, Family { name, help, kind, .. }) in first.0.iter().enumerate() {
            let family = self.add(name, help, *kind);
            for (identity, families) in targets {
                let rows = families.0.get(place).into_iter().flat_map(|family| &family.series);
                let series =
                    rows.map(|(labels, value)| (with_identity(identity, labels.iter().cloned()), value.clone()));
                family.series.extend(series);
            }
        }
    }

    pub fn encode_into(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        self.0.iter().filter(|family| !family.series.is_empty()).try_for_each(|family| family.encode_into(encoder))
    }
}

/// The labels that all series of a target have, and these.
fn with_identity(identity: &Identity, own: impl Iterator<Item = (String, String)>) -> Vec<(String, String)> {
    let target = [("target".to_owned(), safe(&identity.target).into_owned())];
    let configured = identity.labels.iter().map(|(name, value)| (name.clone(), safe(value).into_owned()));
    target.into_iter().chain(configured).chain(own).collect()
}

impl Family {
    /// The only series of a family without labels.
    pub fn plain(&mut self, value: Value) {
        self.series.push((Vec::new(), value));
    }

    /// An info metric with one label.
    pub fn info(&mut self, label: &str, text: &str) {
        self.series.push((vec![(label.to_owned(), text.to_owned())], Value::Info));
    }

    /// A series of a target.
    pub fn series(&mut self, identity: &Identity, labels: &[(&str, &str)], value: impl Into<Value>) {
        let own = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        self.series.push((with_identity(identity, own), value.into()));
    }

    /// A series whose target is not said yet.
    pub fn row(&mut self, labels: &[(&str, &str)], value: impl Into<Value>) {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.series.push((labels, value.into()));
    }

    /// Series whose labels have these names. If there is none and `explicit_zero`, one with empty label
    /// values says so: alerts can tell "nothing" from "not looked at".
    pub fn table<const N: usize>(
        &mut self,
        names: [&str; N],
        rows: BTreeMap<[String; N], impl Into<Value>>,
        explicit_zero: bool,
    ) {
        if rows.is_empty() && explicit_zero {
            self.row(&names.map(|name| (name, "")), 0_u64);
        }
        for (values, value) in rows {
            let labels: Vec<(&str, &str)> = names.into_iter().zip(values.iter().map(String::as_str)).collect();
            self.row(&labels, value);
        }
    }

    fn encode_into(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let kind = match self.kind {
            Type::Counter => MetricType::Counter,
            Type::Gauge => MetricType::Gauge,
            Type::Histogram => MetricType::Histogram,
            Type::Info => MetricType::Info,
        };
        let mut family = encoder.encode_descriptor(self.name, self.help, None, kind)?;
        for (labels, value) in &self.series {
            if *value == Value::Info {
                family.encode_info(labels)?;
                continue;
            }
            let mut series = family.encode_family(labels)?;
            match (self.kind, value) {
                (_, Value::Histogram(sum, count, buckets)) => {
                    series.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)?;
                }
                (Type::Counter, value) => series.encode_counter::<NoLabelSet, Value, f64>(value, None)?,
                (_, value) => series.encode_gauge(value)?,
            }
        }
        Ok(())
    }
}

impl EncodeGaugeValue for Value {
    fn encode(&self, encoder: &mut prometheus_client::encoding::GaugeValueEncoder<'_>) -> fmt::Result {
        match self {
            Self::Whole(value) => EncodeGaugeValue::encode(value, encoder),
            Self::Real(value) => EncodeGaugeValue::encode(value, encoder),
            Self::Histogram(..) | Self::Info => Err(fmt::Error),
        }
    }
}

impl EncodeCounterValue for Value {
    fn encode(&self, encoder: &mut prometheus_client::encoding::CounterValueEncoder<'_>) -> fmt::Result {
        match self {
            Self::Whole(value) => EncodeCounterValue::encode(value, encoder),
            Self::Real(value) => EncodeCounterValue::encode(value, encoder),
            Self::Histogram(..) | Self::Info => Err(fmt::Error),
        }
    }
}
