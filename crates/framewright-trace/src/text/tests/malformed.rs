//! What cannot be read is an error with its place, or is counted.

use super::*;

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn malformed_lines_are_named_with_file_line_and_reason() {
    let good = format!("fio-225 [000] ..... 19.396058: {FREE}\n");
    let alloc = "mm_page_alloc: page=0xa pfn=0x7 order=0 migratetype=0 gfp_flags=GFP_KERNEL";
    let mut errors = String::new();
    for bad in [
        "fio-225 [000] ..... 19.396058: mm_page_free: page=0xa order=0",
        "fio-225 [000] ..... 19.396058: mm_page_free: page=0xa pfn=0x order=0",
        "fio-225 [000] ..... 19.396058: mm_page_free: page=0xa pfn=1d1ac1 order=0",
        "fio-225 [000] ..... 19.396058: mm_page_free: page=0xa pfn=0xfffffffffffffff order=0",
        "fio-225 [000] ..... 19.396058: mm_page_free: page=0xa pfn=0x7 order=19",
        "fio-225 [000] ..... 19.396058: mm_page_free: page=0xa pfn=0x7 order=-1",
        "fio-225 [000] ..... 19.396058: mm_page_free: page=0xa pfn=0x7 order=\x1b[31m\u{9b}",
        &format!("fio-225 [000] ..... 19.396058: mm_page_free: page=0xa pfn=0x7 ord{}", good.trim()),
        &format!("fio-225 [000] ..... 19.396058: mm_page_free: page=0xa pfn=0x7 order=0 {}", good.trim()),
        &format!("fio-225 [000] ..... 19.396058: {}", alloc.replace("GFP_KERNEL", "GFP_KERNEL|__GFP_HALF")),
        &format!("fio-225 [000] ..... 19.396058: {}", alloc.replace("GFP_KERNEL", "")),
        &format!("fio-225 [000] ..... 19.396058: {}", alloc.replace("GFP_KERNEL", "0x1ffffffff")),
        &format!("fio-225 [000] ..... 19.396058: {}", alloc.replace("gfp_flags", "flags")),
        &format!("fio-225 [000] ..... 19.396058: {}", alloc.replace("migratetype=0", "migratetype=6")),
        &format!("fio-225 [000] ..... 19396058: {FREE}"),
        &format!("fio-225 [99999] ..... 19.396058: {FREE}"),
        &format!("fio-99999999999 [000] ..... 19.396058: {FREE}"),
        &format!("fio-225 [000] ..... 99999999999999999999.396058: {FREE}"),
        &format!("fio-225 [000] ..... 19.3960581234: {FREE}"),
        &format!("{FREE} and no head at all, but with very much text behind it {}", "x".repeat(200)),
        "fio-225 [000] ..... 19.396058: mm_page_alloc_extfrag: page=0xa pfn=0x7 alloc_order=0 fallback_order=1 \
         pageblock_order=9 alloc_migratetype=0 fallback_migratetype=1 fragmenting=2 change_ownership=0",
        "fio-225 [000] ..... 19.396058: mm_page_alloc_extfrag: page=0xa pfn=0x7 alloc_order=0 fallback_order=1",
    ] {
        let text = format!("{good}{bad}\n{good}");
        let error = error(text.as_bytes(), TextOptions::default());
        assert_eq!(error.line(), Some(2), "{error}");
        writeln!(errors, "{error}").unwrap();

        let mut lenient = reader(text.as_bytes(), TextOptions { lenient: true, ..TextOptions::default() });
        let read = lenient.by_ref().filter(Result::is_ok).count();
        if bad.contains("__GFP_HALF") {
            // A vendor's, for all anybody knows: the request is there, and its flag is told.
            let flags: Vec<_> =
                lenient.quality().unknown_flags.iter().map(|(name, &count)| (&name[..], count)).collect();
            assert_eq!((read, &flags[..]), (3, &[("__GFP_HALF", 1)][..]));
            continue;
        }
        assert_eq!(read, 2, "{bad}");
        assert_eq!(lenient.quality().malformed, [error.to_string()]);
    }
    insta::assert_snapshot!(errors, @r"
    trace.txt:2: mm_page_free has no pfn=
    trace.txt:2: mm_page_free has pfn=`0x`, which is no number
    trace.txt:2: mm_page_free has pfn=`1d1ac1`, which is no number
    trace.txt:2: mm_page_free has pfn=1152921504606846975, above 4503599627370495
    trace.txt:2: mm_page_free has order=19, above 18
    trace.txt:2: mm_page_free has order=`-1`, which is no number
    trace.txt:2: mm_page_free has order=`\x1b[31m\xc2\x9b`, which is no number
    trace.txt:2: mm_page_free has pfn= twice, as if two lines had run together
    trace.txt:2: mm_page_free has pfn= twice, as if two lines had run together
    trace.txt:2: gfp_flags has `__GFP_HALF`, which is no flag
    trace.txt:2: gfp_flags has ``, which is no flag
    trace.txt:2: gfp_flags has `0x1ffffffff`, which is no flag
    trace.txt:2: mm_page_alloc has no gfp_flags=
    trace.txt:2: there is no mobility with the number 6
    trace.txt:2: the time is no number of seconds in `fio-225 [000] ..... 19396058: mm_page_free: page=00000000ca3d8483 pfn=0x105916 order=1`; trace with the clock `local`, `global` or `mono`
    trace.txt:2: there is no `task-pid [cpu] seconds:` before the event in `fio-225 [99999] ..... 19.396058: mm_page_free: page=00000000ca3d8483 pfn=0x105916 order=1`
    trace.txt:2: there is no `task-pid [cpu] seconds:` before the event in `fio-99999999999 [000] ..... 19.396058: mm_page_free: page=00000000ca3d8483 pfn=0x105916 order=1`
    trace.txt:2: there is no `task-pid [cpu] seconds:` before the event in `fio-225 [000] ..... 99999999999999999999.396058: mm_page_free: page=00000000ca3d8483 pfn=0x105916 order=1`
    trace.txt:2: there is no `task-pid [cpu] seconds:` before the event in `fio-225 [000] ..... 19.3960581234: mm_page_free: page=00000000ca3d8483 pfn=0x105916 order=1`
    trace.txt:2: there is no `task-pid [cpu] seconds:` before the event in `mm_page_free: page=00000000ca3d8483 pfn=0x105916 order=1 and no head at all, but with very much text behind it xxxxxxxxx...`
    trace.txt:2: mm_page_alloc_extfrag has fragmenting=2, above 1
    trace.txt:2: mm_page_alloc_extfrag has no alloc_migratetype=
    ");
}

#[test]
fn cut_files_are_errors() {
    let good = format!("fio-225 [000] ..... 19.396058: {FREE}\n");
    let both = good.repeat(2);
    for cut in good.len() + 1..both.len() {
        let error = error(&both.as_bytes()[..cut], TextOptions::default());
        assert_eq!(error.to_string(), "trace.txt:2: the file ends in the middle of this line", "cut at {cut}");
    }
    let mut lenient =
        reader(&both.as_bytes()[..both.len() - 1], TextOptions { lenient: true, ..TextOptions::default() });
    assert_eq!(lenient.by_ref().filter(Result::is_ok).count(), 2);
    // Nothing is lost with a cut comment.
    assert_eq!(records(&format!("{good}# tra")).0.len(), 1);
}

#[test]
fn a_text_that_is_no_trace_is_refused() {
    let error = error(b"Dear Sir,\nnone of your\nbusiness\n", TextOptions::default());
    assert_eq!(error.to_string(), "trace.txt: none of its 3 lines is one of ftrace, trace-cmd report or perf script");
    assert_eq!(records("").0, []);
    assert_eq!(records("# tracer: nop\n#\n").0, []);
    // A trace without an event of ours is one all the same.
    assert_eq!(records("fio-1 [000] 1.0: sched_wakeup: comm=fio\nrubbish\n").0, []);
}

#[test]
fn any_bytes_are_survived() {
    let good = format!("fio-225 [000] ..... 19.396058: {FREE}\n");
    let lenient = TextOptions { lenient: true, ..TextOptions::default() };
    let long = [&vec![b'y'; 1 << 20][..], b"\n", good.as_bytes()].concat();
    assert_eq!(reader(&long, lenient).filter(Result::is_ok).count(), 1);
    insta::assert_snapshot!(error(&long, TextOptions::default()), @"trace.txt:1: the line is longer than 65536 bytes; it starts `yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy`");
    for splice in [
        &b"\0"[..],
        b"\xff\xfe",
        b"[",
        b"]",
        b"\n",
        b" [000] ",
        b"-",
        b"(",
        b")",
        b"=",
        b":",
        b"| /* ",
        b"0x",
        b"%n\x1b",
    ] {
        for at in 0..good.len() {
            let text = [&good.as_bytes()[..at], splice, &good.as_bytes()[at..]].concat();
            for options in [lenient, TextOptions::default()] {
                let found: Vec<_> = reader(&text, options).collect();
                let errors = found.iter().filter_map(|record| record.as_ref().err());
                for error in errors {
                    assert!(!error.to_string().contains(|c: char| c.is_control()), "{error:?}");
                }
            }
        }
    }
    let named = [b"a\xffb-1".as_slice(), &good.as_bytes()[7..]].concat();
    let mut reader = reader(&named, TextOptions::default());
    let record = reader.next().unwrap().unwrap();
    assert_eq!(reader.comms().name(record.comm), "a\u{fffd}b");
}
