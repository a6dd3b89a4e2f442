#!/usr/bin/env bash
# Runs the replay as README.md gives it, on the recorded trace, and checks the machine-readable report.
#
# Why: this is what a newcomer types next. The command is read from README.md, so the two cannot part; `--format json` is
# added. Fails if the command fails, if a key that programs rely on is missing, if the kernel's side is not what the trace's
# description says, if a free was refused or a page lost, if a request failed that the kernel served, or if more huge pages
# were held at once than there were faults. No speed is checked: that is the machine's. As positive control the checks must
# find each of a list of changes to the report, one at a time.
#
# Needs only a Rust toolchain and awk. The report is one value a line, which is what the checks go by.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "replay: $*" >&2
    exit 1
}

# value FILE OBJECT KEY: the number, word or nothing that the report has under OBJECT.KEY, or OBJECT.unusable_index.KEY.
value() {
    awk -v object="$2" -v key="$3" '
        /^  "/ { inside = index($0, "  \"" object "\": {") == 1; depth = "" }
        inside && /^    "/ { depth = ($0 ~ /"unusable_index": \{/) }
        inside {
            wanted = depth ? "      \"" : "    \""
            if (index($0, wanted key "\": ") == 1) {
                sub(/^ *"[^"]*": /, ""); sub(/,$/, "")
                print
                exit
            }
        }' "$1"
}

# wrong FILE: what is wrong with a report, a line each.
wrong() {
    local object key found
    for object in linux framewright; do
        for key in extfrag_events extfrag_fragmenting order9_requests order9_faults order9_faults_served \
            peak_blocks_held 3 5 9 events_per_second; do
            found=$(value "$1" "$object" "$key")
            [[ $found =~ ^[0-9]+(\.[0-9]+)?$ ]] || echo "$object has no number $key"
        done
    done
    while read -r object key expected; do
        found=$(value "$1" "$object" "$key")
        [ "$found" = "$expected" ] || echo "$object.$key is ${found:-missing}, wanted $expected"
    done <<END
quality events 1275750
quality failed_allocs 468
quality lost_events 0
quality lost_reports 0
quality malformed_lines 0
quality initial_state "frames"
linux extfrag_events 47
linux extfrag_fragmenting 13
linux order9_requests 521
linux order9_faults 272
linux order9_faults_served 54
linux page_moves 36401
framewright order9_faults 272
framewright failed_smaller 0
framewright failed_where_linux_served 0
framewright frees_refused 0
framewright pages_conserved true
END
    found=$(value "$1" framewright peak_blocks_held)
    [ "${found:-0}" -le 272 ] || echo "framewright.peak_blocks_held is $found, more than there were faults"
    # What the defaults are for: three times as many huge pages as Linux, with fewer moves for each and no more mixing.
    local served moves known
    served=$(value "$1" framewright order9_faults_served)
    [ "${served:-0}" -ge 162 ] || echo "framewright.order9_faults_served is $served, less than three times Linux's"
    moves=$(value "$1" framewright page_moves)
    [ "$((${moves:-36402} * 54))" -le "$((36401 * ${served:-0}))" ] ||
        echo "framewright.page_moves is $moves for $served huge pages, more for each than Linux's 36401 for 54"
    # No more is reclaimed early than Linux reclaimed.
    found=$(value "$1" framewright reclaimed_early)
    known=$(value "$1" linux reclaimed_known)
    [ "${found:-1}" -le "${known:-0}" ] || echo "framewright.reclaimed_early is $found, too many"
    found=$(value "$1" framewright extfrag_fragmenting)
    [ "${found:-14}" -le 13 ] || echo "framewright.extfrag_fragmenting is $found, more than Linux's"
}

mapfile -t commands < <(awk '/^```/ { fenced = !fenced; next } fenced && / -- replay *(#|$)/' README.md)
[ "${#commands[@]}" -eq 1 ] || fail "README.md gives ${#commands[@]} commands that end in replay, wanted one"
command="${commands[0]%%#*} --format json"
echo "\$ $command"
bash -c "$command" >"$work/report" || fail "the command failed with $?"

# Positive control: the report with one thing changed.
while IFS= read -r change; do
    sed "$change" "$work/report" >"$work/changed"
    cmp -s "$work/report" "$work/changed" && fail "self-test: '$change' changes nothing"
    [ -n "$(wrong "$work/changed")" ] || fail "self-test: '$change' is not found"
done <<'END'
s/"frees_refused": 0/"frees_refused": 1/
s/"pages_conserved": true/"pages_conserved": false/
s/"order9_faults": 272/"order9_faults": 271/
s/"order9_faults_served": 54/"order9_faults_served": 55/
s/"extfrag_events": 47/"extfrag_events": 48/
s/"extfrag_fragmenting": 13/"extfrag_fragmenting": 12/
s/"lost_events": 0/"lost_events": 1/
s/"peak_blocks_held": [0-9]*/"peak_blocks_held": 273/
s/"events_per_second"/"events"/
s/"reclaimed_early": [0-9]*/"reclaimed_early": 9999999/
s/"failed_smaller": 0/"failed_smaller": 1/
s/"failed_where_linux_served": 0/"failed_where_linux_served": 1/
s/"events_per_second": [0-9.]*/"events_per_second": null/
s/"unusable_index"/"unusable"/
/"9": /d
/"order9_requests"/d
/^  "linux": {/d
/^  "framewright": {/d
/^  "framewright": {/,/^  "columns"/s/"order9_faults_served": [0-9]*/"order9_faults_served": 161/
/^  "framewright": {/,/^  "columns"/s/"page_moves": [0-9]*/"page_moves": 364010/
/^  "framewright": {/,/^  "columns"/s/"extfrag_fragmenting": [0-9]*/"extfrag_fragmenting": 14/
END

found=$(wrong "$work/report")
[ -z "$found" ] || fail "$found"
echo "replay: $(value "$work/report" quality events) events; huge page faults served:" \
    "$(value "$work/report" linux order9_faults_served) by Linux," \
    "$(value "$work/report" framewright order9_faults_served) here, of $(value "$work/report" linux order9_faults);" \
    "no request failed that Linux served, no free refused, every page accounted for"
