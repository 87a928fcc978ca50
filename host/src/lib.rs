//! The host side of Ringleader.
