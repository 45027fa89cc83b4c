//! Measures the best rate of process_vm_writev(2) for WRITEs to private memory, in millions of pieces a
//! second. `cargo xtask peers` compares the software NIC with it.
//!
//! Usage: bare_writev BYTES PIECES CALLS. Each of CALLS calls moves PIECES pieces of BYTES bytes to a child.
//!
//! The child has used its memory on processor 0, as the software NIC's peer has. A page that another
//! processor has just taken into use costs the kernel more on each write (`workingset_activation`).

use std::time::Instant;

fn main() {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|n| n.parse().ok()).collect();
    let [bytes, pieces @ 1..=1024, calls] = numbers[..] else {
        eprintln!("usage: bare_writev BYTES PIECES CALLS, with at most 1024 pieces");
        std::process::exit(2);
    };
    let mut memory = vec![1u8; bytes];
    let (mut ready, mut byte) = ([0; 2], [0u8]);
    // SAFETY: the child writes to its copy of the memory, reports that through the pipe, and waits until it
    // is killed.
    let child = unsafe {
        assert_eq!(libc::pipe(ready.as_mut_ptr()), 0, "{}", std::io::Error::last_os_error());
        let child = libc::fork();
        if child == 0 {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            let mut processor: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(0, &mut processor);
            libc::sched_setaffinity(0, size_of_val(&processor), &processor);
            std::hint::black_box(&mut memory).fill(2);
            libc::write(ready[1], byte.as_ptr().cast(), 1);
            loop {
                libc::pause();
            }
        }
        assert_eq!(libc::read(ready[0], byte.as_mut_ptr().cast(), 1), 1, "the child is not ready");
        child
    };
    let piece = libc::iovec { iov_base: memory.as_ptr().cast_mut().cast(), iov_len: bytes };
    let (near, far) = (vec![piece; pieces], vec![piece; pieces]);
    let begin = Instant::now();
    for _ in 0..calls {
        // SAFETY: the pieces are in this process's memory, and at equal addresses in the child's copy of it.
        let moved = unsafe {
            libc::process_vm_writev(child, near.as_ptr(), pieces as _, far.as_ptr(), pieces as _, 0)
        };
        assert_eq!(moved, (bytes * pieces) as isize, "{}", std::io::Error::last_os_error());
    }
    println!("{:.6}", (pieces * calls) as f64 / begin.elapsed().as_secs_f64() / 1e6);
    // SAFETY: a child of this process.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
}
