//! The `ringleader` program; everything is in the library's `cli`.

fn main() -> std::process::ExitCode {
    ringleader::cli::main()
}
