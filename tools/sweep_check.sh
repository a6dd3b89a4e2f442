#!/usr/bin/env bash
# Runs a sweep of 200 cells in three ways and checks that the merged results are the same bytes: by one process, cell after
# cell; in two shards side by side; and on a Ray cluster of two nodes, one of which is killed when half of the cells are done.
#
# Usage: tools/sweep_check.sh [PROGRAM]
#
# PROGRAM is the framewright command; without it, `cargo build --release` makes it. Ray is taken from python3 if that has it, and
# else installed into a virtual environment below the target folder, by pip; where neither works, the Ray part is skipped,
# loudly. Takes some minutes. Ends with status 1 if anything differs, is missing, or was not killed in time.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "sweep_check: $*" >&2
    exit 1
}

if [ $# -ge 1 ]; then
    program=$(realpath "$1")
else
    cargo build --release --locked
    program=$(cargo metadata --locked --no-deps --format-version 1 | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')/release/framewright
fi
[ -x "$program" ] || fail "$program is no program"

work=$(mktemp -d) # has to be short: Ray puts sockets below it
sessions=()
# end SESSION: kills all that was started in a session.
end() {
    local processes
    processes=$(ps -o pid= -s "$1") || return 0
    # shellcheck disable=SC2086
    kill -9 $processes 2>/dev/null || true
}
clean() {
    for session in ${sessions[@]+"${sessions[@]}"}; do
        end "$session"
    done
    [ -z "${driver:-}" ] || kill "$driver" 2>/dev/null || true
    rm -rf "$work"
}
trap clean EXIT

# merged NAME RESULTS...: merges into NAME.merged, prints its digest, and says how long its cells took.
merged() {
    local name=$1
    shift
    "$program" sweep merge "$@" --plan "$work/plan.jsonl" --format jsonl -o "$work/$name.merged" 2>"$work/remarks" ||
        fail "$name: $(cat "$work/remarks")"
    printf '%-8s %s  %s cells, %s bytes\n' "$name" "$(sha256sum <"$work/$name.merged" | cut -c 1-64)" \
        "$(wc -l <"$work/$name.merged")" "$(wc -c <"$work/$name.merged")"
}

# lines FILE: how many results there are so far.
lines() {
    if [ -e "$1" ]; then wc -l <"$1"; else echo 0; fi
}

"$program" sweep plan --machine generic:2x4x1 --workload page-fault1 --workload bulk --workload page-bench03 --workload rand \
    -m baseline -m default --cpus 1,2,4,6,8 --seeds 1-5 --seconds 0.005 --warm-up 0.0025 -o "$work/plan.jsonl"
echo

began=$SECONDS
"$program" sweep run "$work/plan.jsonl" --shard 1/1 --jobs 1 -o "$work/serial.jsonl" >/dev/null
merged serial "$work/serial.jsonl"
echo "         $((SECONDS - began)) s"

began=$SECONDS
"$program" sweep run "$work/plan.jsonl" --shard 1/2 --jobs 1 -o "$work/one.jsonl" >/dev/null &
"$program" sweep run "$work/plan.jsonl" --shard 2/2 --jobs 1 -o "$work/two.jsonl" >/dev/null || fail "shard 2 of 2"
wait $! || fail "shard 1 of 2"
merged shards "$work/two.jsonl" "$work/one.jsonl"
cmp "$work/serial.merged" "$work/shards.merged" || fail "two shards give other results"
echo "         $((SECONDS - began)) s, $(lines "$work/one.jsonl") and $(lines "$work/two.jsonl") cells"

# Ray.
wanted=$(sed -n 's/^ray==//p' tools/sweep_ray_requirements.txt)
has_ray() {
    [ "$("$1" -c 'import ray; print(ray.__version__)' 2>/dev/null)" = "$wanted" ]
}
python=python3
if ! has_ray "$python"; then
    venv=${CARGO_TARGET_DIR:-target}/sweep-ray
    python=$venv/bin/python
    if ! has_ray "$python"; then
        echo "installing Ray $wanted into $venv"
        if ! { python3 -m venv "$venv" && "$python" -m pip install --quiet -r tools/sweep_ray_requirements.txt; }; then
            echo "SKIPPED: the sweep on Ray, which is not installed (pip install -r tools/sweep_ray_requirements.txt)"
            exit 0
        fi
    fi
fi
ray() {
    "$python" -m ray.scripts.scripts "$@"
}
# Whoever has a token for clusters of his own gets a head that asks for it, and nodes that do not show it: none is needed here.
export RAY_AUTH_MODE=disabled
export RAY_USAGE_STATS_ENABLED=0 RAY_DEDUP_LOGS=0 RAY_DISABLE_IMPORT_WARNING=1

# node NAME ARGUMENTS...: starts a node with one CPU, in a session of its own, and waits until it says that it runs.
node() {
    local name=$1
    shift
    TMPDIR="$work" setsid "$python" -m ray.scripts.scripts start "$@" --num-cpus=1 --object-store-memory=400000000 --disable-usage-stats --block \
        >"$work/$name.log" 2>&1 &
    sessions+=($!)
    for _ in $(seq 600); do
        if grep -q 'Ray runtime started' "$work/$name.log" 2>/dev/null; then return; fi
        kill -0 $! 2>/dev/null || break
        sleep 0.2
    done
    fail "the node $name did not start: $(tail -n 20 "$work/$name.log")"
}

port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
node head --head --node-ip-address=127.0.0.1 --port="$port" --temp-dir="$work/ray" --include-dashboard=false
# By another address, so that the driver belongs to the head.
node second --address="127.0.0.1:$port" --node-ip-address=127.0.0.2
began=$SECONDS
"$python" tools/sweep_ray.py "$work/plan.jsonl" -o "$work/ray.jsonl" --program "$program" --address "127.0.0.1:$port" --progress \
    >"$work/driver.out" 2>"$work/driver.err" &
driver=$!
while [ "$(lines "$work/ray.jsonl")" -lt 100 ]; do
    kill -0 "$driver" 2>/dev/null || fail "the driver ended before half of the cells were done: $(cat "$work/driver.err")"
    sleep 0.05
done
end "${sessions[1]}"
killed=$(lines "$work/ray.jsonl")
[ "$killed" -lt 200 ] || fail "all cells were done before the node was killed"
wait "$driver" || fail "the driver ended with an error: $(cat "$work/driver.out" "$work/driver.err")"
merged ray "$work/ray.jsonl"
cmp "$work/serial.merged" "$work/ray.merged" || fail "Ray gives other results"
grep -q ' 2 nodes' "$work/driver.err" || fail "the driver never saw two nodes: $(cat "$work/driver.err")"
grep -q ' 1 nodes' "$work/driver.err" || fail "the driver did not see that a node died: $(tail -n 3 "$work/driver.err")"
echo "         $((SECONDS - began)) s; one of two nodes killed after $killed cells: $(tail -n 1 "$work/driver.err")"
tail -n 1 "$work/driver.out" | sed "s|$work/||; s/^/         /" # Before it, Ray says what it thinks of dead nodes.
echo
echo "sweep_check: the same bytes from one process, from two shards, and from Ray with a node that died"
