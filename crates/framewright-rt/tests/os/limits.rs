//! Limits of the operating system: address space, open files, file sizes, huge pages.
//!
//! A limit holds for a whole process, so each case runs this test program again, under a shell's `ulimit`.

use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use framewright::request::GFP_USER;
use framewright::{Order, Request};
use framewright_rt::os::Call;
use framewright_rt::{Arena, ArenaBuilder, ArenaError, Backing, HugePage};

use crate::alone;

/// Runs one test of this file, which is ignored otherwise, under a limit.
fn under(limit: &str, test: &str) {
    let test = alone::name(module_path!(), test);
    let script = format!("ulimit {limit} && exec \"$0\" --exact {test} --ignored --nocapture --test-threads 1");
    let output = Command::new("sh").arg("-c").arg(script).arg(std::env::current_exe().unwrap()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// The call and error number that building fails with.
fn os_error(builder: ArenaBuilder) -> (Call, i32) {
    match builder.build() {
        Err(ArenaError::Os(error)) => (error.call, error.errno),
        Err(other) => panic!("{other}"),
        Ok(arena) => panic!("{arena:?} was built"),
    }
}

#[test]
fn limits_are_errors() {
    under("-v 1048576", "address_space");
    under("-n 64", "open_files");
    under("-f 1024", "file_size");
    under("-n 64", "number_of_mappings");
}

#[test]
#[ignore = "run by `limits_are_errors` under a limit"]
fn address_space() {
    for backing in [Backing::Private, Backing::Memfd] {
        let builder = || Arena::builder().without_background().backing(backing);
        assert_eq!(os_error(builder().size(2 << 30)), (Call::Mmap, libc::ENOMEM));
        let error = builder().size(2 << 30).build().unwrap_err();
        assert!(error.to_string().contains("ulimit -v"), "{error}");
        // An arena that fits still works, and can be built again and again: failures leave nothing mapped.
        for _ in 0..20 {
            assert!(builder().size(4 << 30).build().is_err());
            let arena = builder().size(256 << 20).build().unwrap();
            drop(arena.alloc(&Request::new(GFP_USER, 9)).unwrap());
            assert_eq!(arena.validate().unwrap().allocated, 0);
        }
    }
    // The memory itself fits, its descriptors do not.
    let mut size = 1 << 30;
    while Arena::builder().without_background().size(size).build().is_err() {
        size -= 1 << 20;
        assert!(size > 256 << 20);
    }
    assert!(Arena::builder().without_background().size(size).build().is_ok());
}

#[test]
#[ignore = "run by `limits_are_errors` under a limit"]
fn open_files() {
    let _all: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
    assert_eq!(
        os_error(Arena::builder().without_background().size(1 << 20).backing(Backing::Memfd)),
        (Call::MemfdCreate, libc::EMFILE)
    );
    assert!(Arena::builder().without_background().size(1 << 20).build().is_ok());
}

#[test]
#[ignore = "run by `limits_are_errors` under a limit"]
fn file_size() {
    // The kernel also sends a signal, whose default action would end the process. As any program with such a limit
    // must, ignore it.
    // SAFETY: sets the action of a signal that no other code here handles.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let error = Arena::builder().without_background().size(64 << 20).backing(Backing::Memfd).build().unwrap_err();
    assert!(matches!(error, ArenaError::Os(error) if error.call == Call::Ftruncate && error.errno == libc::EFBIG));
    assert!(error.to_string().contains("ulimit -f"), "{error}");
}

/// One inaccessible page that does not become one with its neighbours: every other one is readable.
fn map_a_page(i: usize) -> Option<*mut libc::c_void> {
    let access = if i.is_multiple_of(2) { libc::PROT_NONE } else { libc::PROT_READ };
    // SAFETY: a new mapping at an address of the kernel's choice touches no other.
    let page =
        unsafe { libc::mmap(std::ptr::null_mut(), 4096, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0) };
    (page != libc::MAP_FAILED).then_some(page)
}

#[test]
#[ignore = "run by `limits_are_errors` in a process of its own"]
fn number_of_mappings() {
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    if limit.trim().parse::<usize>().unwrap() > 1 << 18 {
        println!("SKIPPED: {limit} mappings are too many to make");
        return;
    }
    let mappings = || std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
    for backing in [Backing::Private, Backing::Memfd] {
        let mut pages: Vec<_> = (0..).map_while(map_a_page).collect();
        // With room for one mapping more each time, building gets one step further before it fails.
        let mut errors = Vec::new();
        let arena = loop {
            let before = mappings();
            match Arena::builder().without_background().size(8 << 20).backing(backing).build() {
                Ok(arena) => break arena,
                Err(ArenaError::Os(error)) => errors.push((error.call, error.errno)),
                Err(other) => panic!("{other}"),
            }
            assert_eq!(mappings(), before, "{errors:?}");
            // SAFETY: mapped above, and not used.
            assert_eq!(unsafe { libc::munmap(pages.pop().unwrap(), 4096) }, 0);
        };
        assert!(!errors.is_empty() && errors.iter().all(|&(_, errno)| errno == libc::ENOMEM), "{errors:?}");
        assert!(errors.contains(&(Call::Mmap, libc::ENOMEM)), "{errors:?}");
        println!("{backing}: {} steps failed", errors.len());
        arena.validate().unwrap();
        drop(arena);
        // SAFETY: as above.
        pages.drain(..).for_each(|page| assert_eq!(unsafe { libc::munmap(page, 4096) }, 0));
    }
}

/// Keeps other tests from the kernel's pool of huge pages while the guard lives.
pub(crate) fn huge_page_pool() -> MutexGuard<'static, ()> {
    static POOL: Mutex<()> = Mutex::new(());
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number that the kernel keeps about huge pages of a size; none if the machine has no such size.
fn pool(page: HugePage, name: &str) -> Option<u64> {
    let kib = page.bytes() >> 10;
    let text = std::fs::read_to_string(format!("/sys/kernel/mm/hugepages/hugepages-{kib}kB/{name}"));
    text.ok().map(|text| text.trim().parse().unwrap())
}

/// Huge pages of a size in the pool that are neither used nor set aside.
fn free_huge_pages(page: HugePage) -> Option<u64> {
    Some(pool(page, "free_hugepages")?.saturating_sub(pool(page, "resv_hugepages")?))
}

#[test]
fn a_pool_without_enough_huge_pages_is_named() {
    let _pool = huge_page_pool();
    for page in [HugePage::Size2MiB, HugePage::Size1GiB] {
        let free = free_huge_pages(page);
        if pool(page, "nr_overcommit_hugepages").is_some_and(|more| more != 0) {
            println!("SKIPPED: the pool of {page} pages grows by itself");
            continue;
        }
        let needed = free.unwrap_or(0) + 1;
        let error = Arena::builder()
            .without_background()
            .size(needed * page.bytes())
            .backing(Backing::Hugetlb(page))
            .build()
            .unwrap_err();
        if free.is_some() {
            assert_eq!(error, ArenaError::HugePoolEmpty { page, needed });
            assert!(error.to_string().contains("nr_hugepages"), "{error}");
        } else {
            assert_eq!(error, ArenaError::NoHugePages { page });
        }
    }
}

#[test]
fn huge_pages_of_the_pool_serve_small_blocks_too() {
    let _pool = huge_page_pool();
    let page = HugePage::Size2MiB;
    if free_huge_pages(page).unwrap_or(0) < 4 {
        println!("SKIPPED: fewer than 4 huge pages of {page} are free (/proc/sys/vm/nr_hugepages)");
        return;
    }
    let arena =
        Arena::builder().without_background().size(4 * page.bytes()).backing(Backing::Hugetlb(page)).build().unwrap();
    let mut huge = arena.alloc(&Request::new(GFP_USER, 9)).unwrap();
    let mut small = arena.alloc(&Request::page(GFP_USER)).unwrap();
    (huge[0], small[0]) = (1, 2);
    assert!(huge.address().as_ptr().addr().is_multiple_of(2 << 20));
    assert!(matches!(small.discard(), Err(ArenaError::Unsupported { .. })));
    assert!(matches!(arena.trim(Order(9)), Err(ArenaError::Unsupported { .. })));
    assert_eq!((huge[0], small[0]), (1, 2));
}
