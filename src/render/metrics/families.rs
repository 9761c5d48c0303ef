//! Metric families as plain values, and their way into prometheus-client's encoders.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabelSet, LabelSetEncoder, NoLabelSet,
};
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
    series: Vec<(Labels, Value)>,
}

/// The labels of a target's series that are all the same.
pub(super) type TargetLabels = Arc<[(String, String)]>;

/// The labels of a series: those of its target and its own. They are shared, for a page of many targets has thousands of
/// series, and each label was written down already when its target was polled.
#[derive(Debug, Clone, Default)]
struct Labels {
    target: Option<TargetLabels>,
    own: Arc<[(&'static str, String)]>,
}

impl Labels {
    fn new(target: Option<&TargetLabels>, own: &[(&'static str, &str)]) -> Self {
        Self { target: target.cloned(), own: own.iter().map(|(name, value)| (*name, (*value).to_owned())).collect() }
    }
}

impl EncodeLabelSet for Labels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        self.target.as_deref().unwrap_or_default().encode(encoder)?;
        (&*self.own).encode(encoder)
    }
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
    pub fn add_all(&mut self, targets: &[(TargetLabels, &Self)]) {
        let Some((_, first)) = targets.first() else { return };
        for (place, Family { name, help, kind, .. }) in first.0.iter().enumerate() {
            let family = self.add(name, help, *kind);
            for (target, families) in targets {
                let rows = families.0.get(place).into_iter().flat_map(|family| &family.series);
                let series = rows.map(|(labels, value)| {
                    (Labels { target: Some(Arc::clone(target)), own: Arc::clone(&labels.own) }, value.clone())
                });
                family.series.extend(series);
            }
        }
    }

    pub fn encode_into(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        self.0.iter().filter(|family| !family.series.is_empty()).try_for_each(|family| family.encode_into(encoder))
    }
}

/// The labels that all series of a target have.
pub(super) fn target_labels(identity: &Identity) -> TargetLabels {
    let target = [("target".to_owned(), safe(&identity.target).into_owned())];
    let configured = identity.labels.iter().map(|(name, value)| (name.clone(), safe(value).into_owned()));
    target.into_iter().chain(configured).collect()
}

impl Family {
    /// The only series of a family without labels.
    pub fn plain(&mut self, value: Value) {
        self.series.push((Labels::default(), value));
    }

    /// An info metric with one label.
    pub fn info(&mut self, label: &'static str, text: &str) {
        self.series.push((Labels::new(None, &[(label, text)]), Value::Info));
    }

    /// A series of a target.
    pub fn series(&mut self, target: &TargetLabels, labels: &[(&'static str, &str)], value: impl Into<Value>) {
        self.series.push((Labels::new(Some(target), labels), value.into()));
    }

    /// A series whose target is not said yet.
    pub fn row(&mut self, labels: &[(&'static str, &str)], value: impl Into<Value>) {
        self.series.push((Labels::new(None, labels), value.into()));
    }

    /// Series whose labels have these names. If there is none and `explicit_zero`, one with empty label
    /// values says so: alerts can tell "nothing" from "not looked at".
    pub fn table<const N: usize>(
        &mut self,
        names: [&'static str; N],
        rows: BTreeMap<[impl AsRef<str>; N], impl Into<Value>>,
        explicit_zero: bool,
    ) {
        if rows.is_empty() && explicit_zero {
            self.row(&names.map(|name| (name, "")), 0_u64);
        }
        for (values, value) in rows {
            let labels: Vec<(&'static str, &str)> = names.into_iter().zip(values.iter().map(AsRef::as_ref)).collect();
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
