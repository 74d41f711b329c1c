#!/usr/bin/env bash
# Runs the chapter `real_clients`: fetches the clients, builds, then tests where only the loopback exists.
# Arguments go to the test binary, e.g. `tests/clients/run.sh codex --nocapture`.
set -euo pipefail
cd "$(dirname "$0")/../.."

AGENTSPINE_REAL_CLIENTS=$(tests/clients/get.sh)
export AGENTSPINE_REAL_CLIENTS

# Everything that may need a network is over before the tests start.
cargo test --locked --no-run --test real_clients

alone=(unshare --net)
((EUID == 0)) || alone=(unshare --map-root-user --net)
"${alone[@]}" true 2>/dev/null || {
    echo "tests/clients/run.sh: no network namespace can be made here, and these clients must not reach a network" >&2
    exit 1
}
exec "${alone[@]}" bash -c 'ip link set lo up && exec cargo test --locked --offline --test real_clients -- "$@"' - "$@"
