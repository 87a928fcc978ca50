//! An acceptor's state in canonical form, for the model.

use super::{Acceptor, Answered, Operation};
use crate::beat;
use crate::canonical::{self, Canonical, Counter, Space};
use crate::request::Request;

impl Acceptor {
    pub(crate) fn canonical<C: Canonical>(&self, out: &mut C) {
        let Acceptor {
            me,
            here: _,
            timing: _,
            promise,
            promised_to,
            writer,
            grant_due,
            closed,
            operation,
            pending,
            walker,
            roster,
            candidacy,
            beat,
            granted_at,
            silent_until,
            detector,
            inbound,
            answered,
            answers,
            revision,
            written,
            progress,
            progress_version: _,
            progress_at,
            host_version: _,
            mirror: _,
        } = self;
        let me = me.node;
        out.plain((promise, promised_to, writer, grant_due, closed, walker, candidacy));
        roster.canonical(out);
        match *operation {
            Operation::Idle => out.plain(0u8),
            Operation::Fencing { request, judged, since } => {
                out.plain(1u8);
                canonical_request(&request, out);
                beat::canonical_raw(&judged, me, out);
                out.moment(since);
            }
            Operation::Walking { request } => {
                out.plain(2u8);
                canonical_request(&request, out);
            }
        }
        out.plain(pending.is_some());
        if let Some(request) = pending {
            canonical_request(request, out);
        }
        beat.canonical(me, out);
        out.moment_if_any(*granted_at);
        out.moment(*silent_until);
        detector.canonical(promise.node(), out);
        inbound.canonical(out, |_, inbound, out| inbound.canonical(me, out));
        answered.canonical(out, |node, answered, out| {
            let Answered { boot, sequence, answer, void } = answered;
            out.plain((boot, answer, void));
            out.count(Space::own(Counter::Sequence, node), *sequence);
        });
        answers.canonical(out, |node, answers, out| {
            let versions = Space::new(Counter::Answer, me, node);
            answers.canonical(versions, |line, out: &mut C| canonical::answer_line(line, me, node, out), out);
        });
        // Only whether a line is to be made anew matters.
        written.canonical(out, |_, written, out| out.plain(written == revision));
        canonical::progress_line(progress, me, out);
        out.moment(*progress_at);
    }
}

fn canonical_request(request: &Request, out: &mut impl Canonical) {
    let Request { from, boot, sequence, term, ask } = request;
    out.plain((from, boot, term, ask));
    out.count(Space::own(Counter::Sequence, *from), *sequence);
}
