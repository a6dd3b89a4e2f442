#!/usr/bin/env bash
# Makes the object of Rust that Linux links, and checks that the three parts of the port fit together. No kernel is built.
#
# Why: a function that only one side knows is found by Linux's linker, minutes into a build that CI does not make.
#
# Fails if: the object needs a symbol that no file of linux/kernel/ defines, besides the memory functions that Linux has; these
# files call a function of the object's that it does not define; the object can reach a panic; a C file is not compiled; an edit of
# linux/edits.toml uses a function that linux/kernel/framewright.h does not declare; linux/measure does not know the object's
# functions that wait; or the self-test, planted edits, symbols and waits, is judged wrong. How edits find their places is tested by `cargo test`, on files made for it.
#
# Both x86-64 and User-Mode Linux link this one object. Needs the standard core of x86_64-unknown-none, ar, ld and objcopy;
# skipped, loudly, without.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "linux: $*" >&2
    exit 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

kernel=(linux/kernel/*.[ch])
header=linux/kernel/framewright.h

# defined FILE...: the functions named fw_linux_* that C files define; called FILE...: those that they declare and do not define.
names() { sed -n 's/^[a-z][a-z0-9_ ]*[ *]\(fw_linux_[a-z_]*\)(.*)\(;*\)$/\1 \2/p' "$@"; }
defined() { names "$@" | awk 'NF == 1 { print $1 }' | sort -u; }
called() { comm -23 <(names "$@" | awk '{ print $1 }' | sort -u) <(defined "$@"); }

# undeclared EDITS HEADER: functions of ours that edits use and the header does not declare.
undeclared() {
    comm -23 <(grep -o 'framewright_[a-z_]*(' "$1" | tr -d '(' | sort -u) \
        <(grep -o 'framewright_[a-z_]*(' "$2" | tr -d '(' | sort -u)
}

# uncompiled EDITS FILE...: C files of ours whose objects the edit of the Makefile does not name.
uncompiled() {
    local objects
    objects=$(sed -n 's/^obj-y += //p' "$1" | tr ' ' '\n')
    for file in "${@:2}"; do
        case $file in *.c) grep -qx "$(basename "$file" .c).o" <<<"$objects" || echo "$file" ;; esac
    done
}

printf 'text = "framewright_nowhere(zone);"\n' >"$work/edits"
[ "$(undeclared "$work/edits" "$header")" = framewright_nowhere ] || fail "self-test: a function that is nowhere was not found"
printf 'void fw_linux_pin(void);\nvoid fw_linux_pin(void)\n{\n}\nu32 fw_linux_asked(u64 pfn);\n' >"$work/planted.c"
[ "$(defined "$work/planted.c"; called "$work/planted.c")" = "$(printf 'fw_linux_pin\nfw_linux_asked')" ] ||
    fail "self-test: what a C file defines and calls was not found"

printf 'obj-y += a.o\n' >"$work/edits"
[ "$(uncompiled "$work/edits" k/a.c k/a.h k/b.c)" = k/b.c ] || fail "self-test: a file that is not compiled was not found"

found=$(undeclared linux/edits.toml "$header")
[ -z "$found" ] || fail "linux/edits.toml uses what $header does not declare: $found"
found=$(uncompiled linux/edits.toml "${kernel[@]}")
[ -z "$found" ] || fail "the edit of mm/Makefile in linux/edits.toml does not compile $found"
[ "$(defined "${kernel[@]}" | wc -l)" -gt 15 ] || fail "linux/kernel/ defines hardly a function of the port"

target=x86_64-unknown-none
for tool in ar ld objcopy nm; do
    if ! command -v "$tool" >/dev/null; then
        echo "SKIPPED: the object for Linux, which needs $tool (package binutils)"
        exit 0
    fi
done
if ! [ -d "$(rustc --print target-libdir --target "$target")" ]; then
    echo "SKIPPED: the object for Linux, for $target, whose standard core is not installed (rustup target add $target)"
    exit 0
fi

object=$(linux/run object target/linux/glue)
wanted() { comm -23 <(nm --undefined-only "$object" | awk '{ print $2 }' | sort) <(defined "${kernel[@]}"); }
left=$(wanted | grep -vx 'memcpy\|memset\|memcmp\|memmove' || true)
[ -z "$left" ] || fail "the object needs what linux/kernel/ does not define: $left"
lost=$(comm -23 <(called "${kernel[@]}") <(nm --defined-only "$object" | awk '{ print $3 }' | sort))
[ -z "$lost" ] || fail "linux/kernel/ calls what the object does not define: $lost"
# is_wait NAME: whether the object has this function, and linux/measure knows it: a name that is gone would show as no waiting.
waits=$(sed -n "s/^\(zone\|list\)_waits='\(.*\)'$/\2/p" linux/measure | paste -sd '|')
is_wait() { nm "$object" | grep "$1" | grep -qE "$waits"; }
! is_wait alloc_cached || fail "self-test: a function that does not wait is taken for one"
for name in QueuedLock.*4wait17h QueuedLock.*11wait_shared17h Zone.*9take_lock17h zone_guard.*5guard17h concurrent_free; do
    is_wait "$name" || fail "the object has no function $name, or linux/measure does not know it"
done
if nm "$object" | grep -E 'fw_linux_bug|core9panicking' >&2; then
    fail "the object can reach a panic"
fi
echo "linux: the object, $(size "$object" | awk 'NR == 2 { print $1 }') bytes of text, and linux/kernel/ fit together"
