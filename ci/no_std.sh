#!/usr/bin/env bash
# Checks that the core needs no standard library, no allocator, no unsafe code, and no atomics but the machine's; and that the
# kit for kernels needs no standard library and nothing but the core. The adapters of kernels' traits need none either.
#
# Why: it is to be embedded in kernels. Fails if the core's lib.rs lacks `no_std` or `forbid(unsafe_code)`; if code outside
# test modules names std, alloc or core::sync; if the core has a dependency; or if it does not build for x86_64-unknown-none and
# aarch64-unknown-none-softfloat. A target that is not installed is skipped, loudly. Without any, the host's build takes their
# place; that nothing brings std along is then shown by ci/no_panic.sh, whose panic handler would clash with the one of std.
set -euo pipefail
cd "$(dirname "$0")/.."

bare=(x86_64-unknown-none aarch64-unknown-none-softfloat)
core=crates/framewright
kit=crates/framewright-kernel
capi=crates/framewright-kernel-capi
ffi=crates/framewright-ffi
adapters=(--package framewright-x86_64 --package framewright-free-list --package framewright-ostd)

fail() {
    echo "no_std: $*" >&2
    exit 1
}

# names_std DIRECTORY...: lines outside test modules, which are inline and at the foot of a file, and comments that name std or
# alloc as a crate, or core::sync: whatever is shared goes through the machine.
names_std() {
    find "$@" -name '*.rs' -exec awk '
        FNR == 1 { tests = pending = 0 }
        pending && /^(pub(\([a-z]+\))? )?mod [a-z0-9_]+ *\{/ { tests = 1 }
        !/^#/ { pending = 0 }
        /^#\[cfg\((all\()?test[,)]/ { pending = 1 }
        { code = $0; sub(/\/\/.*/, "", code) }
        !tests && code ~ /(^|[^A-Za-z0-9_:])(std|alloc|core::sync)::|extern crate (std|alloc)/ {
            print FILENAME ":" FNR ": " $0
        }' {} +
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '%s\n' '// std::fmt' 'use std::fmt;' '#[cfg(test)]' 'mod double;' 'use std::io;' 'use core::sync::atomic;' '#[cfg(test)]' 'mod tests {' '    use std::fmt;' '}' \
    >"$work/a.rs"
[ "$(names_std "$work")" = "$work/a.rs:2: use std::fmt;
$work/a.rs:5: use std::io;
$work/a.rs:6: use core::sync::atomic;" ] || fail "self-test: a use of std or core::sync was not found"

grep -Eqx '#!\[no_std\]' "$core/src/lib.rs" || fail "$core/src/lib.rs is not #![no_std]"
grep -Eqx '#!\[forbid\(unsafe_code\)\]' "$core/src/lib.rs" || fail "$core/src/lib.rs does not forbid unsafe code"
found=$(names_std "$core/src")
[ -z "$found" ] || fail "the core names std, alloc or core::sync:
$found"
for crate in "$kit" "$ffi" "$capi"; do
    grep -Eqx '#!\[no_std\]' "$crate/src/lib.rs" || fail "$crate/src/lib.rs is not #![no_std]"
done
tree=$(cargo tree --locked --package framewright --edges normal,build --all-features --prefix none)
[ "$(wc -l <<<"$tree")" -eq 1 ] || fail "the core has dependencies:
$tree"

found=$(names_std "$kit/src" "$ffi/src" "$capi/src" | grep -v core::sync || true)
[ -z "$found" ] || fail "the kit or its C interface names std or alloc:
$found"
tree=$(cargo tree --locked --package framewright-kernel --edges normal,build --all-features --prefix none)
[ "$(wc -l <<<"$tree")" -eq 2 ] || fail "the kit has other dependencies than the core:
$tree"

tree=$(cargo tree --locked --package framewright-kernel-capi --edges normal,build --all-features --prefix none | sed 's/ .*//' | sort -u)
[ "$tree" = 'framewright
framewright-ffi
framewright-kernel
framewright-kernel-capi' ] || fail "the C interface of kernels has other dependencies than the kit's:
$tree"

built=0
for target in "${bare[@]}"; do
    if [ -d "$(rustc --print target-libdir --target "$target")" ]; then
        cargo build --locked --package framewright --package framewright-kernel --package framewright-kernel-capi \
            "${adapters[@]}" --target "$target"
        echo "no_std: the core, the kit, its C interface and the adapters build for $target"
        built=$((built + 1))
    else
        echo "SKIPPED: no_std build for $target, whose standard core is not installed (rustup target add $target)"
    fi
done
if [ "$built" -eq 0 ]; then
    cargo build --locked --package framewright --package framewright-kernel --package framewright-kernel-capi
    echo "no_std: the core, the kit and its C interface build for the host, with no dependency and no mention of std or alloc"
fi
