//! The supervisor alone: `agentspine-supervise [OPTIONS] -- COMMAND ARGS…`, for tests.

fn main() {
    std::process::exit(agentspine_recall::supervise::supervise(std::env::args_os().skip(1)));
}
