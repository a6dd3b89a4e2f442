#!/usr/bin/env bash
# Checks that no file of the repository knows the machine it was made on.
#
# Why: a path, a host or a package mirror of one machine breaks the build on every other, or tells where it was made. Fails
# if a text file names an absolute path under a home or work folder, or under the temporary one outside test code
# (files below a tests/ folder, and a test module at the foot of a .rs file); if a package comes from elsewhere than
# crates.io; if a cargo configuration replaces a source; if a URL has a bare address or a host of a private network; or if the
# self-test, one planted line of each kind, is not found line by line.
set -euo pipefail
cd "$(dirname "$0")/.."

# Written with brackets, so that this file does not match itself.
before='(^|[^A-Za-z0-9_.~}-])'
homes="$before/(wor[k]|roo[t]|hom[e]|User[s])/"
temporary="$before/(tm[p]|var/tm[p])(/|\$|[^A-Za-z0-9_])"
hosts='https?://([0-9]+\.[0-9]+\.|localhos[t]|[A-Za-z0-9.-]*(\.(interna[l]|loca[l]|la[n]|cor[p])([:/]|$)|artifactor[y]|nexu[s]|pypiserve[r]|devp[i]))'
replacement='^[[:space:]]*(replace-wit[h]|\[source[.])'
crates_io='registry+https://github.com/rust-lang/crates.io-index'

# code FILE: the file up to its test module; `#[cfg(test)]` before anything but an inline module ends nothing.
code() {
    awk 'pending && /^(pub(\([a-z]+\))? )?mod [a-z0-9_]+ *\{/ { exit }
        !/^#/ { pending = 0 }
        /^#\[cfg\((all\()?test[,)]/ { pending = 1 }
        { print }' "$1"
}

# foreign ROOT: file:line of what does not belong, in the files of the git checkout at ROOT.
foreign() {
    cd "$1"
    git ls-files --cached --others --exclude-standard -z | sort -zu | while IFS= read -r -d '' file; do
        # Text only: grep -I takes a file with a zero byte for one without a match.
        if [ ! -f "$file" ] || ! grep -Iq . "$file"; then continue; fi
        grep -EnH "$homes|$hosts" "$file" || true
        case $file in
        tests/* | */tests/*) ;;
        *.rs) code "$file" | grep -EnH --label="$file" "$temporary" || true ;;
        *) grep -EnH "$temporary" "$file" || true ;;
        esac
        case $file in
        Cargo.lock | */Cargo.lock) grep -EnH '^source = ' "$file" | grep -Fv "\"$crates_io\"" || true ;;
        *.toml | .cargo/config) grep -EnH "$replacement" "$file" || true ;;
        esac
    done
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/src/tests" "$work/.cargo"
git -C "$work" init --quiet
t=tmp w=work r=root # Assembled below, for the same reason as the brackets above.
cat >"$work/src/planted.rs" <<END
const A: &str = "/$w/main"; // found
const B: &str = "/$t/x"; // found
const C: &str = "frame/$w/x ../$w/ ~/$t/";
#[cfg(test)]
mod examples;
const F: &str = "/$t/x"; // found
#[cfg(test)]
mod tests {
    const D: &str = "/$t/x";
    const E: &str = "/$r/x"; // found
}
END
echo "/$t/x" >"$work/src/tests/allowed"
printf 'see http://%s/simple found\nsee https://crates.%s/x found\nsee https://docs.rs/x\n' 10.1.2.3 internal \
    >"$work/a.md"
printf 'source = "registry+https://example.org/found"\nsource = "%s"\n' "$crates_io" >"$work/Cargo.lock"
printf '[source.crates-io] # found\n%s = "x" # found\n' replace-with >"$work/.cargo/config.toml"
found=$(foreign "$work")
if [ "$(wc -l <<<"$found")" -ne 9 ] || grep -qv found <<<"$found"; then
    printf 'paths: the self-test wanted nine lines that say "found" and got:\n%s\n' "$found" >&2
    exit 1
fi

found=$(foreign .)
if [ -n "$found" ]; then
    printf 'paths: these lines belong to one machine:\n%s\n' "$found" >&2
    exit 1
fi
echo "paths: $(git ls-files | wc -l) tracked files name no machine"
