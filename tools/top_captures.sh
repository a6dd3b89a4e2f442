#!/usr/bin/env bash
# Captures `framewright top` of a simulated run, in a terminal of 80x24 and one of 200x60, for docs/top.md.
#
# The run has a fixed seed and pauses at a fixed simulated time, so the same program draws the same characters. The terminal is
# tmux's, of a server of its own. Fails if tmux is missing, if the run doesn't pause in five minutes, or if a key doesn't do what it
# should: the help must open and close, and q must give the terminal back.
#
# Usage: tools/top_captures.sh [PROGRAM]      the program is built in release if none is named
set -euo pipefail
cd "$(dirname "$0")/.."

command -v tmux >/dev/null || { echo "top_captures: tmux is missing; install the package tmux" >&2; exit 2; }
program=${1:-}
if [ -z "$program" ]; then
    cargo build --release --quiet -p framewright-lab
    program=${CARGO_TARGET_DIR:-target}/release/framewright
fi
program=$(realpath "$program")
run="top --workload page-fault1 --machine skylake-2x28 --cpus 112 -m baseline --every 0.0001 --until 0.002"

tmux=(tmux -L "top-captures-$$" -f /dev/null)
trap '"${tmux[@]}" kill-server 2>/dev/null || true' EXIT

# shown TEXT: waits until the screen has it.
shown() {
    for _ in $(seq 1500); do
        if "${tmux[@]}" capture-pane -p | grep -qF -- "$1"; then return; fi
        sleep 0.2
    done
    echo "top_captures: the screen never had '$1':" >&2
    "${tmux[@]}" capture-pane -p >&2
    exit 1
}

mkdir -p docs/captures
for size in 80x24 200x60; do
    LANG=C.UTF-8 LC_ALL=C.UTF-8 "${tmux[@]}" -u new-session -d -x "${size%x*}" -y "${size#*x}" "sh"
    "${tmux[@]}" set-option -g status off
    "${tmux[@]}" resize-window -x "${size%x*}" -y "${size#*x}"
    "${tmux[@]}" send-keys "clear; NO_COLOR=1 LC_ALL=C.UTF-8 '$program' $run; echo left with \$?" Enter
    shown PAUSED
    sleep 0.5
    "${tmux[@]}" capture-pane -p | sed 's/ *$//' >"docs/captures/top-$size.txt"
    "${tmux[@]}" send-keys '?'
    shown 'Other keys than up and down close this'
    "${tmux[@]}" send-keys x q
    shown 'left with 0'
    "${tmux[@]}" kill-session
    echo "docs/captures/top-$size.txt"
done
