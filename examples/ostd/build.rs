//! Passes the linker the script that OSTD's image needs.

fn main() {
    let script = format!("{}/kernel.ld", std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default());
    println!("cargo::rerun-if-changed={script}");
    println!("cargo::rerun-if-changed=build.rs");
    // The attributes of OSTD look at this name, which its own tool sets in tests.
    println!("cargo::rustc-check-cfg=cfg(ktest)");
    for argument in ["--no-pie", "-static", "-znorelro", &format!("-T{script}"), "--build-id=none", "--gc-sections"] {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
}
