//! A C program posts ATOMIC WRITEs by verbs.h. The test is skipped without a C compiler.

use crate::common::{command, compile, finish, installed, launch, text};
use doorbell_launch::{Launch, Link, Ptrace};

/// A program whose child writes words to the parent's memory, while the parent polls the memory. The last
/// request of each round fails.
const WRITES: &str = r#"
#include <infiniband/verbs.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#define CHECK(what) if (!(what)) return fprintf(stderr, "line %d: %s\n", __LINE__, #what), 1
struct end { uint16_t lid; uint32_t qpn, rkey, read_only; uint64_t addr; };
enum { BYTES = 8192, LAST = 1000, FAILURES = 3 };
static int connect_qp(struct ibv_qp *qp, struct end *to) {
    int all = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE)) return 1;
    attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = all };
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) return 1;
    attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = to->qpn,
        .max_dest_rd_atomic = 1, .min_rnr_timer = 1, .ah_attr = { .dlid = to->lid, .port_num = 1 } };
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN
        | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)) return 1;
    attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7,
        .max_rd_atomic = 1 };
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT
        | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}
int main(int many, char **kinds) {
    int to[2][2], n, child, all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    CHECK(many == 2 && !pipe(to[0]) && !pipe(to[1]));
    child = fork();
    struct ibv_context *context = ibv_open_device(ibv_get_device_list(&n)[0]);
    struct ibv_device_attr_ex about;
    CHECK(context && !ibv_query_device_ex(context, 0, &about) && about.device_cap_flags_ex >> 40 & 1);
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 16, 0, 0, 0);
    struct ibv_qp_init_attr_ex init = { .send_cq = cq, .recv_cq = cq, .cap = { 16, 16, 1, 1, 16 },
        .qp_type = IBV_QPT_UC, .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .pd = pd,
        .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_ATOMIC_WRITE };
    CHECK(!ibv_create_qp_ex(context, &init) && errno == EOPNOTSUPP);
    init.qp_type = IBV_QPT_RC;
    struct ibv_qp *qp = ibv_create_qp_ex(context, &init);
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
    void *memory = malloc(2 * BYTES);
    if (kinds[1][0] == 's') CHECK(!posix_memalign(&memory, 4096, BYTES));
    memory = (char *)memory + 7 - ((uintptr_t)memory + 7) % 8;
    memset(memory, 0, BYTES);
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, BYTES, all), *read_only = ibv_reg_mr(pd, memory, BYTES, 1);
    struct ibv_port_attr port;
    CHECK(ex && mr && read_only && !ibv_query_port(context, 1, &port));
    struct end own = { port.lid, qp->qp_num, mr->rkey, read_only->rkey, (uint64_t)memory }, other;
    CHECK(write(to[!child][1], &own, sizeof own) == sizeof own);
    CHECK(read(to[!!child][0], &other, sizeof other) == sizeof other);
    volatile uint64_t *words = memory;
    for (int failure = 0; failure < FAILURES; failure++) {
        char ready = 1;
        words[1] = 0;
        CHECK(!connect_qp(qp, &other));
        CHECK(write(to[!child][1], &ready, 1) == 1 && read(to[!!child][0], &ready, 1) == 1);
        if (child) {
            // Each word has equal halves.
            for (uint64_t seen = 0; (uint32_t)seen < LAST; seen = words[1]) CHECK(seen >> 32 == (uint32_t)seen);
            CHECK(read(to[1][0], &ready, 1) == 1);
            continue;
        }
        struct ibv_wc wc;
        for (uint64_t i = 1; i <= LAST; i++) {
            uint64_t word = i << 32 | i;
            ibv_wr_start(ex);
            ex->wr_id = i;
            ex->wr_flags = i % 8 ? 0 : IBV_SEND_SIGNALED;
            ibv_wr_atomic_write(ex, other.rkey, other.addr + 8, &word);
            word = 0;
            CHECK(!ibv_wr_complete(ex));
            if (i % 8) continue;
            while (!(n = ibv_poll_cq(cq, 1, &wc)));
            CHECK(n == 1 && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_ATOMIC_WRITE && wc.wr_id == i);
        }
        words[4] = 5;
        struct ibv_sge sge = { (uint64_t)&words[4], 4, mr->lkey };
        struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_WRITE,
            .send_flags = IBV_SEND_SIGNALED, .wr.rdma = { other.addr + 16, other.rkey } }, *bad;
        CHECK(ibv_post_send(qp, &wr, &bad) == EINVAL && bad == &wr);
        sge.length = 8;
        CHECK(!ibv_post_send(qp, &wr, &bad));
        while (!(n = ibv_poll_cq(cq, 1, &wc)));
        CHECK(n == 1 && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_ATOMIC_WRITE);
        uint64_t addr[] = { other.addr + 12, other.addr + BYTES, other.addr };
        uint32_t key[] = { other.rkey, other.rkey, other.read_only };
        enum ibv_wc_status expected[] = { IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR };
        wr.wr.rdma.remote_addr = addr[failure];
        wr.wr.rdma.rkey = key[failure];
        CHECK(!ibv_post_send(qp, &wr, &bad));
        while (!(n = ibv_poll_cq(cq, 1, &wc)));
        CHECK(n == 1 && wc.status == expected[failure]);
        CHECK(write(to[1][1], &ready, 1) == 1);
    }
    if (child) {
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        CHECK(words[0] == 0 && words[2] == 5);
        puts("written");
    }
    return 0;
}
"#;

#[test]
fn words_are_written_whole() {
    if installed("cc").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    compile(folder.path(), "writes", WRITES, &["-libverbs"]);
    let all = [("shared", Ptrace::Yes), ("private", Ptrace::Yes), ("private", Ptrace::No)];
    for (memory, ptrace) in all {
        let launch = Launch { ptrace, ..launch(Link::Ib) };
        let run = command(&launch, &folder.path().join("writes"), &[memory]).spawn().expect("it starts");
        let output = finish(run, "a program that writes words");
        assert!(output.status.success(), "{memory}: {}", text(&output));
        let said = text(&output);
        assert!(said.contains("written") && said.contains("failed with IBV_WC_REM_INV_REQ_ERR"), "{said}");
        assert!(said.contains("ATOMIC_WRITE") && said.contains("are not aligned"), "{said}");
    }
}
