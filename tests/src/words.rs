//! What the numbers in lines are called in stories, of the simulator and of the model.

use ringleader_core::layout::{qp, request_kind, verdict};

/// A kind of request.
pub(crate) fn request(kind: u8) -> &'static str {
    match kind {
        request_kind::NONE => "nothing",
        request_kind::VOTE => "a vote",
        request_kind::ACCESS => "access",
        request_kind::FORM => "to form",
        request_kind::CAMPAIGN => "to stand",
        request_kind::SAVE => "to save",
        request_kind::TAKE => "to take a snapshot",
        _ => "formed",
    }
}

/// A verdict in an answer.
pub(crate) fn answer(of: u8) -> &'static str {
    match of {
        verdict::NONE => "nothing",
        verdict::GRANTED => "granted",
        verdict::BEHIND => "behind",
        verdict::LEASE => "lease",
        verdict::OLDER => "older",
        verdict::WORKING => "working",
        verdict::UNABLE => "unable",
        verdict::LOST => "lost",
        verdict::TOO_OLD => "too old",
        _ => "not fresh",
    }
}

/// A state of an end of a log queue pair.
pub(crate) fn end(state: u8) -> &'static str {
    match state {
        qp::CLOSED => "closed",
        qp::READY => "ready",
        qp::FENCED => "fenced",
        qp::ARMED => "armed",
        qp::GRANTED => "granted",
        _ => "unknown",
    }
}
