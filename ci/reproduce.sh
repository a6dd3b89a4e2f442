#!/usr/bin/env bash
# Runs the main job as README.md gives it, and looks at what it leaves.
#
# Why: this is what a newcomer types first. The command is read from README.md, so the two cannot part. It fails by itself if a
# figure has left its band. Fails also if the screen lacks an experiment or has more than 50 lines, if a page is missing, or if one has a
# script or names anything that a browser would fetch; with Chromium the pages are opened, and fail if their console says anything.
# As positive control, a page changed in each of these ways must be found. No time is checked: that is the machine's.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "reproduce: $*" >&2
    exit 1
}

# asks PAGE: what in a page asks somebody for something, or leads to another host. Values may be without quotes.
asks() {
    local is='=["'"'"']?'
    local elements='<(script|link|iframe|frame|img|image|feimage|object|embed|base)[^a-z]|@import|url\('
    local attributes="[[:space:]](src|srcset|poster|data|background|action|formaction)$is"
    local links="href$is(https?:)?//|xlink:href$is[^#\"' ]|<use[[:space:]][^>]*href$is[^#\"' ]|http-equiv${is}refresh"
    grep -inoE "$elements|$attributes|$links" "$1" || true
}

# console PAGE: what a browser's console says of it.
console() {
    "$browser" --headless --no-sandbox --disable-gpu --enable-logging=stderr --dump-dom "file://$1" 2>&1 >/dev/null |
        grep -F CONSOLE || true
}

mapfile -t commands < <(awk '/^```/ { fenced = !fenced; next } fenced && /^cargo run --release *(#|$)/' README.md)
[ "${#commands[@]}" -eq 1 ] || fail "README.md gives ${#commands[@]} commands without arguments, wanted one"
command="${commands[0]%%#*}"
echo "\$ $command"
rm -rf report # What an earlier run left is no page of this one.
bash -c "$command" >"$work/screen" || fail "the command failed with $?, and said: $(cat "$work/screen")"
cat "$work/screen"

experiments=(zone-lock numa-stats zone-layout irq-safe fragmentation)
lines=$(wc -l <"$work/screen")
[ "$lines" -le 50 ] || fail "one screen has $lines lines"
pages=(report/index.html)
for experiment in "${experiments[@]}"; do
    grep -q "^$experiment: " "$work/screen" || fail "the screen says nothing of $experiment"
    grep -qF "href=\"$experiment.html\"" report/index.html || fail "report/index.html does not lead to $experiment"
    pages+=("report/$experiment.html")
done

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
for page in "${pages[@]}"; do
    [ -s "$page" ] || fail "$page is missing"
    found=$(asks "$page")
    [ -z "$found" ] || fail "$page asks for $found"
    if [ -n "$browser" ]; then
        found=$(console "$PWD/$page")
        [ -z "$found" ] || fail "$page: $found"
    fi
done

# Positive control: each of these in a page is found, and what a page may have is not.
planted=('<img src="a.png">' '<a href="https://a">' '<a href=https://a>' "<a href='//a'>" '<script>a</script>' '<object data=a>' '<embed src=a>'
    '<svg><image href="a.png"/></svg>' '<svg><use xlink:href="a.svg#b"/></svg>' '<svg><use href=a.svg#b /></svg>'
    '<meta http-equiv=refresh content="0; a">' '<meta http-equiv="Refresh" content="0; a">' '<base href=a>' '<form action=a>'
    '<style>@import "a";</style>' '<p style="background: URL(a)">')
for plant in "${planted[@]}"; do
    printf '<main>\n%s\n</main>\n' "$plant" >"$work/changed.html"
    [ -n "$(asks "$work/changed.html")" ] || fail "self-test: $plant is not found"
done
printf '%s\n' '<a href="zone-lock.html">' '<a href="#top">' '<svg><use href="#mark"/></svg>' '<p>the data = 3' '<pre>https://a' >"$work/allowed.html"
found=$(asks "$work/allowed.html")
[ -z "$found" ] || fail "self-test: $found is allowed"
if [ -n "$browser" ]; then
    sed 's|<main>|<main><script>console.log("a")</script>|' report/index.html >"$work/changed.html"
    [ -n "$(console "$work/changed.html")" ] || fail "self-test: what a page says to the console is not heard"
else
    echo "SKIPPED: opening the report's pages: no Chromium here"
fi
echo "reproduce: ${#pages[@]} pages, $lines lines on the screen, no figure left its band"
