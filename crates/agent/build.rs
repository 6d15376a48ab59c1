//! How the shipped agent is linked: its functions in the order of `order.ld`.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=order.ld");
    let has = |name: &str, word: &str| {
        env::var(name).is_ok_and(|list| list.split(',').any(|each| each == word))
    };
    // Other builds are linked often and run seldom.
    if has("PROFILE", "release")
        && has("CARGO_CFG_TARGET_OS", "linux")
        && has("CARGO_CFG_TARGET_FEATURE", "crt-static")
    {
        let order = concat!(env!("CARGO_MANIFEST_DIR"), "/order.ld");
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{order}");
    }
}
