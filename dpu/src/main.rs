//! The `ringleader-dpu` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    ringleader_dpu::cli::main()
}
