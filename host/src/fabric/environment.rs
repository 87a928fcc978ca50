//! Environment variables by which somebody outside takes away what the protocol builds on. Who opens a device refuses them
//! (protocol.md 2, A1), and the doctor names them. Compiled with and without the fabric on devices, for the doctor's sake.

/// A variable, and why it must not be set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Harmful {
    /// Its name.
    pub(crate) variable: &'static str,
    /// What it does, after "which".
    pub(crate) harm: &'static str,
}

/// All of them.
pub(crate) const HARMFUL: [Harmful; 2] = [
    Harmful {
        variable: "MLX5_RELAXED_PACKET_ORDERING_ON",
        harm: "lets a completed WRITE be seen before its bytes",
    },
    Harmful {
        variable: "MLX5_SINGLE_THREADED",
        harm: "makes it unsafe to fence beside the thread that beats",
    },
];

/// Whether a variable with that value does anything. In doubt it does: some take lists of devices.
pub(crate) fn is_on(value: &str) -> bool {
    !["", "0", "n", "no", "off", "false"].iter().any(|off| value.trim().eq_ignore_ascii_case(off))
}

/// The first that is set and on.
#[cfg(feature = "verbs")]
pub(crate) fn find_harm(value_of: impl Fn(&str) -> Option<String>) -> Option<Harmful> {
    HARMFUL.into_iter().find(|harmful| value_of(harmful.variable).is_some_and(|value| is_on(&value)))
}

#[cfg(all(test, feature = "verbs"))]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_is_found() {
        assert_eq!(find_harm(|_| None), None);
        for harmful in HARMFUL {
            let set = |value: &'static str| {
                find_harm(move |name| (name == harmful.variable).then(|| value.to_owned()))
            };
            for value in ["1", "all", "mlx5_0", "true", "Y", " 1"] {
                assert_eq!(set(value), Some(harmful), "{value}");
            }
            for value in ["", "0", "no", "OFF", "False", "n"] {
                assert_eq!(set(value), None, "{value}");
            }
        }
    }
}
