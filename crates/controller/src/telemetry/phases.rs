//! A MiniCluster's start as a trace: whoever knows its UID knows the trace, since they are the same
//! 128 bits.
//!
//! Must not: know how spans leave the process (`otlp` does).

use super::otlp::{Given, SERVICE};
use crate::metrics::{Ended, Milestones, Phase, ended};
use k8s_openapi::jiff::Timestamp;
use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId,
    TraceState, Tracer,
};
use opentelemetry::{Context, KeyValue};
use std::time::SystemTime;

/// Whose start it is.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The MiniCluster's UID, 32 hexadecimal digits in groups.
    pub uid: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Whether a program is started once it is quorate.
    pub program: bool,
}

/// Tells the phases that ended between two looks to whom spans are sent, if to anyone.
pub fn tell(subject: Subject<'_>, before: &Milestones, after: &Milestones) {
    if before != after {
        spans(&opentelemetry::global::tracer(SERVICE), subject, before, after);
    }
}

/// Each phase once; with the last one of the start, the start as a whole, which is their parent.
fn spans(tracer: &impl Tracer, subject: Subject<'_>, before: &Milestones, after: &Milestones) {
    let Some((trace, start)) = ids(subject.uid) else { return };
    let builder = |name: &'static str, from: Timestamp| {
        SpanBuilder::from_name(name).with_start_time(SystemTime::from(from)).with_attributes([
            KeyValue::new("k8s.namespace.name", subject.namespace.to_owned()),
            KeyValue::new("quorate.minicluster.name", subject.name.to_owned()),
            KeyValue::new("quorate.minicluster.uid", subject.uid.to_owned()),
        ])
    };
    let parent = SpanContext::new(trace, start, TraceFlags::SAMPLED, false, TraceState::NONE);
    let inside = Context::new().with_remote_span_context(parent);
    let last = if subject.program { Phase::Launch } else { Phase::Quorum };
    for Ended { phase, from, until } in ended(before, after) {
        let mut span = builder(phase.name(), from).start_with_context(tracer, &inside);
        span.end_with_timestamp(until.into());
        if phase == last {
            let whole = builder("start", after.created.unwrap_or(from));
            let mut span =
                Given::to((trace, start), || whole.start_with_context(tracer, &Context::new()));
            span.end_with_timestamp(until.into());
        }
    }
}

/// The trace of a UID, and the span that all its phases belong to. `None` if it is no UUID.
fn ids(uid: &str) -> Option<(TraceId, SpanId)> {
    let digits: String = uid.chars().filter(|digit| *digit != '-').collect();
    let number = u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32)?;
    let low = u64::try_from(number & u128::from(u64::MAX)).ok()?;
    Some((TraceId::from(number), SpanId::from(low)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry::trace::TracerProvider as _;
    use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};

    const UID: &str = "01234567-89ab-cdef-0123-456789abcdef";

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_790_000_000 + second).unwrap()
    }

    /// What is told of these looks: name, first and last second, and whether it is the parent of the rest.
    fn told(uid: &str, program: bool, looks: &[Milestones]) -> Vec<(String, i64, i64, bool)> {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder()
            .with_id_generator(Given::default())
            .with_simple_exporter(exporter.clone())
            .build();
        let subject = Subject { uid, namespace: "hpc", name: "lammps", program };
        for pair in looks.windows(2) {
            spans(&provider.tracer("test"), subject, &pair[0], &pair[1]);
        }
        let second =
            |time: SystemTime| Timestamp::try_from(time).unwrap().as_second() - 1_790_000_000;
        let spans = exporter.get_finished_spans().unwrap();
        let start = SpanId::from(0x0123_4567_89ab_cdef);
        for span in &spans {
            let trace = span.span_context.trace_id().to_string();
            assert_eq!(trace, "0123456789abcdef0123456789abcdef");
            let whole = span.span_context.span_id() == start;
            assert_eq!(span.parent_span_id, if whole { SpanId::INVALID } else { start });
        }
        spans
            .iter()
            .map(|span| {
                let whole = span.span_context.span_id() == start;
                (span.name.to_string(), second(span.start_time), second(span.end_time), whole)
            })
            .collect()
    }

    #[test]
    fn a_start_is_a_trace_with_the_uid_s_number_and_a_span_for_each_phase() {
        let created = Milestones { created: Some(at(0)), ..Milestones::default() };
        let made = Milestones { jobset: Some(at(1)), ..created };
        let up = Milestones { running: Some(at(4)), quorate: Some(at(6)), ..made };
        let started = Milestones { started: Some(at(7)), ..up };
        let done = Milestones { finished: Some(at(60)), ..started };
        let name = |name: &str, from, until, whole| (name.to_owned(), from, until, whole);
        assert_eq!(
            told(UID, true, &[created, made, made, up, started, done]),
            [
                name("jobset", 0, 1, false),
                name("pods", 1, 4, false),
                name("quorum", 4, 6, false),
                name("launch", 6, 7, false),
                name("start", 0, 7, true),
                name("program", 7, 60, false),
            ]
        );
        // Without a program it has started when it is quorate.
        assert_eq!(
            told(UID, false, &[made, up]),
            [name("pods", 1, 4, false), name("quorum", 4, 6, false), name("start", 0, 6, true),]
        );
        assert_eq!(told("no UUID", false, &[made, up]), []);
    }
}
