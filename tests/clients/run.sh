#!/usr/bin/env bash
# Runs the chapter `real_clients`: fetches the clients, builds, then tests where only the loopback exists.
# Arguments go to the test binary, e.g. `tests/clients/run.sh codex --nocapture`.
set -euo pipefail
cd "$(dirname "$0")/../.."

AGENTSPINE_REAL_CLIENTS=$(tests/clients/get.sh)
export AGENTSPINE_REAL_CLIENTS

# Everything that may need a network is over before the tests start.
chapter=$(cargo test --locked --no-run --test real_clients --message-format=json-render-diagnostics |
    python3 -c '
import json, sys
built = [json.loads(line) for line in sys.stdin]
print(next(b["executable"] for b in built if b.get("executable") and b["target"]["name"] == "real_clients"))')

alone=(unshare --net)
((EUID == 0)) || alone=(unshare --map-root-user --net)
"${alone[@]}" true || {
    echo "tests/clients/run.sh: no network namespace can be made here, and these clients must not reach a network" >&2
    exit 1
}
exec "${alone[@]}" bash -c 'ip link set lo up && exec "$@"' - "$chapter" "$@"
