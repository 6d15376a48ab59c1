//! Entry point.

fn main() {
    std::process::exit(quorate_agent::cli::main());
}
