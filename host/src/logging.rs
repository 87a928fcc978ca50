//! What the library logs, for programs that have no `tracing` of their own: a function that is handed each line.
//!
//! A Rust program rather installs a subscriber of its own; the two cannot be had together.

use std::error::Error;
use std::fmt::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

pub use tracing::Level;

/// One line.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// How much it matters.
    pub level: Level,
    /// The part of the library.
    pub target: &'a str,
    /// What there is to say: the node, in braces, then the text, then values by name.
    pub text: &'a str,
}

/// The program has a `tracing` subscriber of its own already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken;

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the program logs by a tracing subscriber of its own")
    }
}

impl Error for Taken {}

type Hook = Arc<dyn Fn(&Record<'_>) + Send + Sync>;

static HOOK: RwLock<Option<Hook>> = RwLock::new(None);
/// As [`rank`] has it; 0: nothing.
static MOST: AtomicU8 = AtomicU8::new(0);
static INSTALLED: OnceLock<Result<(), Taken>> = OnceLock::new();
static CHANGING: Mutex<()> = Mutex::new(());

/// From now on `hook` is handed each line of `level` and above, in place of a former one. It is called in whichever thread has
/// something to say, agents' threads among them, by several at a time: it must be quick. What it panics with is dropped.
pub fn set_hook(level: Level, hook: impl Fn(&Record<'_>) + Send + Sync + 'static) -> Result<(), Taken> {
    change(rank(&level), Some(Arc::new(hook)))
}

/// Nothing is handed to anybody any more; a call that is under way in another thread may still be.
pub fn clear_hook() {
    if INSTALLED.get().is_some() {
        // It is there.
        let _ = change(0, None);
    }
}

fn change(most: u8, hook: Option<Hook>) -> Result<(), Taken> {
    let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
    let installed = INSTALLED.get_or_init(|| {
        tracing::subscriber::set_global_default(Registry::default().with(Handing)).map_err(|_| Taken)
    });
    (*installed)?;
    *HOOK.write().unwrap_or_else(PoisonError::into_inner) = hook;
    MOST.store(most, Ordering::Relaxed);
    // What was found not to be wanted may be wanted now, and the other way round.
    tracing::callsite::rebuild_interest_cache();
    Ok(())
}

fn rank(level: &Level) -> u8 {
    match *level {
        Level::ERROR => 1,
        Level::WARN => 2,
        Level::INFO => 3,
        Level::DEBUG => 4,
        _ => 5,
    }
}

/// Hands events on.
struct Handing;

/// What a span says, as it is shown in front of each line.
struct Said(String);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Handing {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> tracing::subscriber::Interest {
        let wanted = metadata.is_span() || self.wants(metadata);
        if wanted { tracing::subscriber::Interest::always() } else { tracing::subscriber::Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(match MOST.load(Ordering::Relaxed) {
            0 => LevelFilter::OFF,
            // Spans are of this level, and say whose node it is, also in an error.
            1..=3 => LevelFilter::INFO,
            4 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        })
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut values = Values::default();
        attributes.record(&mut values);
        span.extensions_mut().insert(Said(format!("{}{{{}}}", span.name(), values.text.trim_start())));
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let metadata = event.metadata();
        if !self.wants(metadata) {
            return;
        }
        let Some(hook) = HOOK.read().unwrap_or_else(PoisonError::into_inner).clone() else { return };
        let mut values = Values::default();
        event.record(&mut values);
        let mut text = String::new();
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(Said(said)) = span.extensions().get() {
                let _ = write!(text, "{said}: ");
            }
        }
        text.push_str(&values.message);
        text.push_str(&values.text);
        let record = Record { level: *metadata.level(), target: metadata.target(), text: &text };
        // Whoever logs goes on, whatever becomes of the line.
        let _ = catch_unwind(AssertUnwindSafe(|| hook(&record)));
    }
}

impl Handing {
    fn wants(&self, metadata: &Metadata<'_>) -> bool {
        rank(metadata.level()) <= MOST.load(Ordering::Relaxed)
    }
}

/// The values of an event or span, as text.
#[derive(Default)]
struct Values {
    message: String,
    text: String,
}

impl Visit for Values {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.text, " {name}={value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}
