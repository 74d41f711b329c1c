#!/usr/bin/env bash
# Fetches the real clients that the chapter `real_clients` runs, at exactly these versions, and prints their folder.
#
#   tests/clients/get.sh            into ${XDG_CACHE_HOME:-~/.cache}/agentspine-clients
#   tests/clients/get.sh FOLDER     elsewhere
#
# A folder that is complete is taken as it is, also offline. Nothing of it ever belongs into the repository.
set -euo pipefail

claude=2.1.332 codex=0.171.0            # the builds that the recognisers were measured on
anthropic_js=1.14.0 openai_js=6.49.0    # official libraries of both vendors
anthropic_py=2.14.0 openai_py=3.57.0
mcp_py=2.3.0                            # official library of the Model Context Protocol

folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/agentspine-clients}
wanted="claude $claude, codex $codex, js $anthropic_js $openai_js, py $anthropic_py $openai_py, mcp $mcp_py"
fail() { printf 'tests/clients/get.sh: %s\n' "$*" >&2; exit 1; }

check() {
    [[ $(<"$1/versions") == "$wanted" ]] || return 1
    [[ $(HOME=$1/home "$1/bin/claude" --version) == "$claude "* ]] || return 1
    [[ $(HOME=$1/home "$1/bin/codex" --version) == *" $codex" ]] || return 1
    "$1/py/bin/python" -c 'import anthropic, openai, mcp' || return 1
}

if [[ -f $folder/versions ]] && check "$folder" 2>/dev/null; then
    printf '%s\n' "$folder"
    exit 0
fi
[[ $(uname -sm) == "Linux x86_64" ]] || fail "the clients are measured on Linux x86_64 only"
for tool in npm node python3; do
    command -v "$tool" >/dev/null || fail "needs $tool (apt-get install npm nodejs python3-venv)"
done

# Made aside and moved into place, so that a broken download never counts as complete.
mkdir -p "$(dirname "$folder")"
making=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$making"' EXIT
{
    npm install --prefix "$making/js" --no-audit --no-fund --ignore-scripts --no-package-lock --loglevel=error \
        "@anthropic-ai/claude-code-linux-x64@$claude" "codex-linux-x64@npm:@openai/codex@$codex-linux-x64" \
        "@anthropic-ai/sdk@$anthropic_js" "openai@$openai_js"
    python3 -m venv "$making/py"
    "$making/py/bin/pip" install --quiet --disable-pip-version-check "anthropic==$anthropic_py" "openai==$openai_py" \
        "mcp==$mcp_py"
} >&2
mkdir -p "$making/bin" "$making/home"
ln -s ../js/node_modules/@anthropic-ai/claude-code-linux-x64/claude "$making/bin/claude"
ln -s ../js/node_modules/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex "$making/bin/codex"
printf '%s\n' "$wanted" >"$making/versions"
check "$making" || fail "what was fetched is not: $wanted"
rm -rf "$folder"
mv "$making" "$folder"
trap - EXIT
printf '%s\n' "$folder"
