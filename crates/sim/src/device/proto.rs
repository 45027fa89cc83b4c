//! Prototype switches.
use std::sync::OnceLock;
#[derive(Default, Debug)]
pub(crate) struct Proto { pub a: f64, pub b: u64, pub c: u64, pub d: u64, pub d2: u64, pub e: u64, pub ebytes: u32, pub r: bool, pub cap: u64, pub ctxrows: bool, pub g: u64, pub h: bool }
pub(crate) fn proto() -> &'static Proto {
    static P: OnceLock<Proto> = OnceLock::new();
    P.get_or_init(|| {
        let f = |n: &str| std::env::var(n).ok().and_then(|v| v.parse::<f64>().ok()).unwrap_or(0.0);
        let ns = |n: &str| (f(n) * 1000.0) as u64;
        Proto { a: f("DB_A"), b: ns("DB_B"), c: ns("DB_C"), d: ns("DB_D"), d2: ns("DB_D2"), e: ns("DB_E"), ebytes: if f("DB_EB") > 0.0 { f("DB_EB") as u32 } else { 256 }, r: f("DB_R") > 0.0, cap: f("DB_CAP") as u64, ctxrows: f("DB_CTX") > 0.0, g: ns("DB_G"), h: f("DB_H") > 0.0 }
    })
}
pub(crate) static IDLE: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
pub(crate) static ALL: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
