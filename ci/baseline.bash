# What scripts share that hold numbers against a checked-in baseline, or link a freestanding object. Sourced, not run.
# shellcheck shell=bash

# fail MESSAGE: ends the script with its name and the message.
fail() {
    echo "$(basename "$0" .sh): $*" >&2
    exit 1
}

# wrong BASELINE NUMBERS: which numbers are above their baseline, have none, or are missing. Both files have lines
# `VARIANT WHAT NUMBER`. A number may exceed its baseline by `tolerance`, in units or with a % in hundredths.
wrong() {
    awk -v tolerance="${tolerance%\%}" -v relative="$([[ $tolerance == *% ]] && echo 1 || echo 0)" -v unit="$unit" '
        /^#/ || NF == 0 { next }
        FNR == NR { wanted[$1 " " $2] = $3; next }
        !(($1 " " $2) in wanted) { print $1 " " $2 ": " $3 " " unit ", and no baseline"; next }
        { seen[$1 " " $2] = 1; baseline = wanted[$1 " " $2] }
        $3 > baseline + (relative ? baseline * tolerance / 100 : tolerance) {
            print $1 " " $2 ": " $3 " " unit ", the baseline is " baseline
        }
        END { for (name in wanted) if (!(name in seen)) print name ": a baseline, but not measured" }' "$1" "$2"
}

# find_linker: sets `linker`, from the toolchain or from binutils.
find_linker() {
    local host lld
    host=$(rustc -vV | sed -n 's/^host: //p')
    lld=$(rustc --print sysroot)/lib/rustlib/$host/bin/rust-lld
    if [ -x "$lld" ]; then
        linker=("$lld" -flavor gnu)
    elif command -v ld >/dev/null; then
        linker=(ld)
    else
        fail "neither rust-lld in the toolchain nor ld of binutils was found"
    fi
}
